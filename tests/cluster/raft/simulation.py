"""A shell around consensus that lies as much as the contract allows: a network, disks and clients under virtual time.

`Simulation` runs members of one cluster against a seeded, faulty world and checks after every single effect what must
always hold; a broken property raises `PropertyError`, whose message begins with the property's name.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from splitbrain.cluster.bugs import NO_BUGS, Bugs
from splitbrain.cluster.raft import Config, Entry, Raft, Recovered, decode, encode
from splitbrain.cluster.raft.effects import (
    AppendLog,
    Apply,
    Dropped,
    Effect,
    InstallSnapshot,
    Persist,
    ReadReady,
    Rebuild,
    Rejected,
    RoleChanged,
    Send,
    SendChunk,
    ShrunkByForce,
    StartElectionTimer,
    StartHeartbeat,
    StopElectionTimer,
    StopHeartbeat,
    TransferBegun,
    TruncateLog,
    Voted,
)
from splitbrain.cluster.raft.events import (
    Change,
    Compacted,
    ElectionTimeout,
    Event,
    ForceShrink,
    HeartbeatTick,
    MemberRole,
    Propose,
    ProposeAll,
    Read,
    ReadMode,
    Received,
    Start,
    Transfer,
)
from splitbrain.cluster.raft.membership import decode_configuration
from splitbrain.cluster.raft.messages import SnapshotChunk
from splitbrain.cluster.raft.versions import version_of


class PropertyError(AssertionError):
    """Something that must always hold does not."""


def check(holds: bool, message: str) -> None:
    if not holds:
        raise PropertyError(message)


@dataclass(frozen=True)
class Snapshot:
    """A snapshot of a member's state machine, which keeps all that it applied."""

    index: int = 0
    last_term: int = 0
    configurations: bytes = b""
    applied: tuple[Entry, ...] = ()
    version: int = 1


@dataclass
class Disk:
    """What a member stored: operations in order, of which only a prefix is certainly durable, and a snapshot."""

    term: int = 0
    voted_for: str | None = None
    operations: list[Entry | int] = field(default_factory=list[Entry | int])  # an entry, or an index to truncate from
    synced: int = 0
    snapshot: Snapshot = Snapshot()

    def crash(self, rng: random.Random) -> None:
        """Lose any suffix of what was not synced."""
        del self.operations[rng.randint(self.synced, len(self.operations)) :]
        self.synced = len(self.operations)

    def install(self, snapshot: Snapshot) -> None:
        """Make a leader's snapshot durable; a log that differs from it is void."""
        if self._stored().get(snapshot.index, Entry(0, 0, "noop")).term != snapshot.last_term:
            self.operations, self.synced = [], 0
        self.snapshot = snapshot

    def recovered(self) -> Recovered:
        snapshot, stored = self.snapshot, self._stored()
        entries = [entry for index, entry in stored.items() if index > snapshot.index]
        return Recovered(
            self.term,
            self.voted_for,
            entries,
            snapshot.index,
            snapshot.last_term,
            snapshot.configurations,
            snapshot.version,
        )

    def _stored(self) -> dict[int, Entry]:
        entries: dict[int, Entry] = {}
        for operation in self.operations:
            if isinstance(operation, Entry):
                entries[operation.index] = operation
            else:
                entries = {index: entry for index, entry in entries.items() if index < operation}
        return entries


@dataclass
class Member:
    """One member's process."""

    name: str
    disk: Disk = field(default_factory=Disk)
    raft: Raft | None = None
    life: int = 0
    applied: list[Entry] = field(default_factory=list[Entry])
    chain: list[int] = field(default_factory=lambda: [0])
    """By index, a hash of the log up to there."""
    election_timer: int = 0
    heartbeat_timer: int = 0
    version: int = 1
    """The latest version of the state machine that it supports when it is started next."""
    rate: float = 1.0
    """How many of its clock's milliseconds pass in one."""
    held: list[Event] | None = None
    """What happened to it since it was paused, None if it is not."""


@dataclass
class Request:
    """A client's request, and what became of it."""

    kind: str
    node: str
    life: int
    data: bytes = b""
    floor: int = 0
    """For a linearizable read: the highest index that had been acknowledged when it began."""
    outcome: str | None = None


class Simulation:
    """Members, network, disks, clients; time in milliseconds."""

    def __init__(
        self,
        seed: int,
        nodes: int = 5,
        *,
        bugs: Bugs = NO_BUGS,
        config: Config | None = None,
        drop: float = 0.0,
        duplicate: float = 0.0,
        delay_ms: int = 20,
        write_ms: int = 20,
        snapshots: float = 0.0,
        skew: float = 0.0,
    ) -> None:
        self.rng = random.Random(seed)
        self.bugs = bugs
        self.config = config or Config()
        self.drop, self.duplicate, self.delay_ms, self.write_ms = drop, duplicate, delay_ms, write_ms
        self.snapshots = snapshots
        """How likely an Apply is followed by a snapshot."""
        self.skew = skew
        """How much faster or slower than time a member's clock may be."""
        self.now = 0
        self.founders = [f"n{i + 1}" for i in range(nodes)]
        self.names = list(self.founders)
        self.retired: set[str] = set()
        """Members that left and lost their disks: their ids are never used again."""
        self.members = {name: self._member(name) for name in self.names}
        self.cut: set[tuple[str, str]] = set()
        self.requests: list[Request] = []
        self.acknowledged = 0
        self.committed: list[Entry] = []
        self.leaders: dict[int, str] = {}
        self.votes: dict[tuple[str, int], str] = {}
        self.prefixes: dict[tuple[int, int], int] = {}
        self.sent: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        for name in self.names:
            self.start(name)

    # --- driving ----------------------------------------------------------------------------------------------

    def later(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._queue, (self.now + delay_ms, self._sequence, action))

    def run(self, duration_ms: int, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass; True as soon as `until` holds."""
        end = self.now + duration_ms
        while self._queue and self._queue[0][0] <= end:
            self.now, _, action = heapq.heappop(self._queue)
            action()
            if until is not None and until():
                return True
        self.now = end
        return until is None or until()

    def start(self, name: str) -> None:
        member = self.members[name]
        check(member.raft is None, f"test: {name} runs already")
        recovered = member.disk.recovered()
        member.life += 1
        member.applied = list(member.disk.snapshot.applied)
        member.chain = [0]
        for entry in [*member.applied, *recovered.entries]:
            self._extend_chain(member, entry)
        member.raft = Raft(name, self.founders, recovered, config=self.config, version=member.version, bugs=self.bugs)
        self.handle(name, Start())

    def create(self, name: str) -> None:
        """A machine with nothing on its disk, for a member that shall join."""
        check(name not in self.members, f"test: {name} was used before")
        self.names.append(name)
        self.members[name] = self._member(name)

    def _member(self, name: str) -> Member:
        return Member(name, rate=1 + self.rng.uniform(-self.skew, self.skew) if self.skew else 1.0)

    def retire(self, name: str) -> None:
        """End the process of a member that left, for ever."""
        if self.members[name].raft is not None:
            self.kill(name)
        self.retired.add(name)

    def kill(self, name: str) -> None:
        member = self.members[name]
        raft = self.raft(name)
        written = raft.written_index
        term = raft.log.term(min(written, raft.last_index))
        member.raft = member.held = None
        member.disk.crash(self.rng)
        left = member.disk.recovered()
        terms = [left.base_term, *(entry.term for entry in left.entries)]
        position = written - left.base_index
        check(
            position < 0 or (position < len(terms) and terms[position] == term),
            f"durable means kept: {name} had entry {written} of term {term}, and has {terms} behind {left.base_index}",
        )

    def pause(self, name: str, duration_ms: int) -> None:
        """Nothing happens in a member for so long; then all that should have, in its order."""
        member = self.members[name]
        if member.held is not None or member.raft is None:
            return
        member.held = []
        life = member.life
        self.later(duration_ms, lambda: self._resume(name) if member.life == life else None)

    def _resume(self, name: str) -> None:
        held, self.members[name].held = self.members[name].held, None
        for event in held or ():
            self.handle(name, event)

    def isolate(self, *group: str) -> None:
        """Cut the group off from everybody else, both ways."""
        for a in self.names:
            for b in self.names:
                if (a in group) != (b in group):
                    self.cut.add((a, b))

    def heal(self) -> None:
        self.cut.clear()
        for name in self.names:
            self._resume(name)
            if self.members[name].raft is None and name not in self.retired:
                self.start(name)

    def leader(self) -> str | None:
        """The leader of the highest term, if one runs."""
        leading = [(r.term, n) for n in self.names if (r := self.members[n].raft) is not None and r.role == "leader"]
        return max(leading)[1] if leading else None

    def raft(self, name: str) -> Raft:
        raft = self.members[name].raft
        assert raft is not None
        return raft

    def configurations(self) -> list[tuple[str, ...]]:
        """The committed ones, in their order."""
        changes = [entry for entry in self.committed if entry.kind == "config"]
        return [tuple(self.founders)] + [decode_configuration(entry).members for entry in changes]

    def was_voter(self, name: str) -> bool:
        """Whether a committed configuration, or the founders', has this member as a voter."""
        changes = [entry for entry in self.committed if entry.kind == "config"]
        return name in self.founders or any(name in decode_configuration(entry).voters for entry in changes)

    def propose(self, name: str) -> Request:
        proposal = self._proposal(name)
        self.handle(name, proposal)
        return proposal.ref

    def propose_all(self, name: str, count: int) -> None:
        """Commands that come at one time."""
        self.handle(name, ProposeAll([self._proposal(name) for _ in range(count)]))

    def _proposal(self, name: str) -> Propose:
        number = len(self.requests)
        request = Request("propose", name, self.members[name].life, data=b"%d" % number)
        self.requests.append(request)
        return Propose(request, request.data)

    def read(self, name: str, mode: ReadMode = "quorum") -> Request:
        floor = 0 if mode == "leader" else self.acknowledged
        request = Request("read", name, self.members[name].life, floor=floor)
        self.requests.append(request)
        self.handle(name, Read(request, mode, self.clock_ns(name)))
        return request

    def change(self, name: str, member: str, *, joins: bool, role: MemberRole = "voter") -> Request:
        request = Request("change", name, self.members[name].life)
        self.requests.append(request)
        self.handle(name, Change(request, member, joins, role))
        return request

    def transfer(self, name: str, member: str) -> Request:
        request = Request("transfer", name, self.members[name].life)
        self.requests.append(request)
        self.handle(name, Transfer(request, member))
        return request

    def force_shrink(self, name: str) -> Request:
        request = Request("shrink", name, self.members[name].life)
        self.requests.append(request)
        self.handle(name, ForceShrink(request))
        return request

    def clock_ns(self, name: str) -> int:
        """What a member's monotonic clock shows."""
        return int(self.now * self.members[name].rate * 1_000_000)

    # --- the shell --------------------------------------------------------------------------------------------

    def handle(self, name: str, event: Event) -> None:
        member = self.members[name]
        if member.raft is None:
            return
        if member.held is not None:
            # A read looks at the clock when it is handled.
            member.held.append(event)
            return
        if isinstance(event, Read):
            event = Read(event.ref, event.mode, self.clock_ns(name))
        for effect in member.raft.handle(event):
            kind = type(effect).__name__
            self.counts[kind] = self.counts.get(kind, 0) + 1
            self._carry_out(member, effect)

    def _carry_out(self, member: Member, effect: Effect) -> None:
        match effect:
            case Persist() | AppendLog() | TruncateLog() | InstallSnapshot():
                self._store(member, effect)
            case Send():
                self._send(member.name, effect)
            case SendChunk():
                self._send(member.name, Send(effect.to, self._chunk(member, effect)))
            case Apply():
                self._apply(member, effect)
            case ReadReady():
                self._read_ready(member, effect)
            case Rejected() | Dropped():
                self._finish(effect.ref, type(effect).__name__)
            case TransferBegun() | ShrunkByForce():
                self._finish(effect.ref, "ok")
            case StartElectionTimer() | StopElectionTimer() | StartHeartbeat() | StopHeartbeat():
                self._set_timer(member, effect)
            case Voted():
                self._check_vote(member, effect)
            case RoleChanged():
                self._check_role(member, effect)
            case Rebuild():
                check(bool(self.bugs.ids), f"nothing is taken back: {member.name} had to rebuild its state")
                member.applied = []
            case _:
                pass

    def _store(self, member: Member, effect: Persist | AppendLog | TruncateLog | InstallSnapshot) -> None:
        match effect:
            case Persist():
                self._persist(member, effect)
            case AppendLog():
                self._append(member, effect)
            case TruncateLog():
                member.disk.operations.append(effect.from_index)
                del member.chain[effect.from_index :]
            case InstallSnapshot():
                self._install(member, effect)

    def _persist(self, member: Member, effect: Persist) -> None:
        check(effect.term >= member.disk.term, f"term monotone: {member.name} stored a lower term")
        check(
            effect.term > member.disk.term or member.disk.voted_for is None,
            f"one vote per term: {member.name} changed its vote in term {effect.term}",
        )
        member.disk.term, member.disk.voted_for = effect.term, effect.voted_for

    def _append(self, member: Member, effect: AppendLog) -> None:
        for entry in effect.entries:
            self._extend_chain(member, entry)
        operations = member.disk.operations
        operations += effect.entries
        position, life, done = len(operations), member.life, effect.done

        def written() -> None:
            if member.life == life and member.raft is not None:
                if member.disk.operations is operations:  # else a snapshot has taken their place
                    member.disk.synced = max(member.disk.synced, position)
                self.handle(member.name, done)

        self.later(self.rng.randint(0, self.write_ms), written)

    def _snapshot(self, member: Member) -> None:
        """Begin to write a snapshot of what is applied now; its end is an event."""
        raft = self.raft(member.name)
        index, life = len(member.applied), member.life
        last_term, configurations = member.applied[-1].term, raft.configurations(index)
        snapshot = Snapshot(index, last_term, configurations, tuple(member.applied), raft.version_at(index))

        def durable() -> None:
            if member.life == life and member.raft is not None and index > member.disk.snapshot.index:
                member.disk.snapshot = snapshot
                self.handle(member.name, Compacted(index))

        self.later(self.rng.randint(0, self.write_ms), durable)

    def _chunk(self, member: Member, effect: SendChunk) -> SnapshotChunk:
        snapshot = member.disk.snapshot
        state = msgspec.msgpack.encode(snapshot.applied)
        begin = effect.offset if effect.index == snapshot.index else 0
        data = state[begin : begin + max(200, len(state) // 4)]
        return SnapshotChunk(
            effect.term,
            effect.round,
            snapshot.index,
            snapshot.last_term,
            snapshot.configurations,
            begin,
            len(state),
            data,
            snapshot.version,
        )

    def _install(self, member: Member, effect: InstallSnapshot) -> None:
        applied = msgspec.msgpack.decode(effect.state, type=tuple[Entry, ...])
        check(
            len(applied) == effect.index > len(member.applied), f"no step back: {member.name} installs {effect.index}"
        )
        check(
            list(applied) == self.committed[: effect.index],
            f"state machine safety: {member.name} installs a snapshot of what is not committed",
        )
        versions = [version_of(entry) for entry in applied if entry.kind == "noop"]
        check(max(versions, default=1) == effect.version, f"version of a snapshot: {effect.version} is not {versions}")
        check(effect.version <= member.version, f"versions understood: {member.name} installs {effect.version}")
        member.disk.install(Snapshot(effect.index, effect.last_term, effect.configurations, applied, effect.version))
        member.applied = list(applied)
        kept = member.disk.recovered().entries
        member.chain = [0]
        for entry in [*applied, *kept]:
            self._extend_chain(member, entry)

    def _send(self, sender: str, effect: Send) -> None:
        check(effect.to != sender, f"no message to oneself: {sender}")
        kind = type(effect.message).__name__
        self.sent[kind] = self.sent.get(kind, 0) + 1
        data = encode(effect.message)
        copies = 0 if self.rng.random() < self.drop else 2 if self.rng.random() < self.duplicate else 1
        for _ in range(copies):
            self.later(1 + self.rng.randint(0, self.delay_ms), lambda: self._deliver(sender, effect.to, data))

    def _deliver(self, sender: str, to: str, data: bytes) -> None:
        if (sender, to) not in self.cut:
            self.handle(to, Received(sender, decode(data)))

    def _set_timer(self, member: Member, effect: Effect) -> None:
        match effect:
            case StartElectionTimer():
                member.election_timer += 1
                timer = member.election_timer, member.life
                low, high = self.config.election_min_ms, self.config.election_max_ms

                def ran_out() -> None:
                    if timer == (member.election_timer, member.life):
                        self.handle(member.name, ElectionTimeout())

                self.later(round(self.rng.randint(low, high) / member.rate), ran_out)
            case StopElectionTimer():
                member.election_timer += 1
            case StartHeartbeat():
                member.heartbeat_timer += 1
                self._heartbeat(member, (member.heartbeat_timer, member.life))
            case _:
                member.heartbeat_timer += 1

    def _heartbeat(self, member: Member, timer: tuple[int, int]) -> None:
        def tick() -> None:
            if timer == (member.heartbeat_timer, member.life):
                self.handle(member.name, HeartbeatTick(self.clock_ns(member.name)))
                self._heartbeat(member, timer)

        self.later(round(self.config.heartbeat_ms / member.rate), tick)

    # --- what must always hold --------------------------------------------------------------------------------

    def _extend_chain(self, member: Member, entry: Entry) -> None:
        check(entry.index == len(member.chain), f"log contiguous: {member.name} stores {entry.index} out of place")
        value = hash((member.chain[-1], entry.term, entry.data))
        known = self.prefixes.setdefault((entry.index, entry.term), value)
        check(known == value, f"log matching: logs differ before entry {entry.index} of term {entry.term}")
        member.chain.append(value)

    def _apply(self, member: Member, effect: Apply) -> None:
        for entry in effect.entries:
            check(entry.index == len(member.applied) + 1, f"applied in order: {member.name} applies {entry.index}")
            member.applied.append(entry)
            if entry.kind == "noop":
                version = version_of(entry)
                check(version <= member.version, f"versions understood: {member.name} applies version {version}")
            if entry.index <= len(self.committed):
                known = self.committed[entry.index - 1]
                check(
                    known == entry,
                    f"state machine safety: entry {entry.index} is {known}, and {entry} on {member.name}",
                )
            else:
                self.committed.append(entry)
            ref = effect.refs.get(entry.index)
            if ref is not None:
                right = entry.kind == "config" if ref.kind == "change" else entry.data == ref.data
                check(right, f"right answer: {entry.index} answers another proposal")
                self._finish(ref, "ok")
                self.acknowledged = max(self.acknowledged, entry.index)
        if self.snapshots and self.rng.random() < self.snapshots:
            self._snapshot(member)

    def _read_ready(self, member: Member, effect: ReadReady) -> None:
        request: Request = effect.ref
        check(len(member.applied) >= effect.index, f"read index applied: {member.name} has not applied {effect.index}")
        check(
            effect.index >= request.floor,
            f"linearizable reads: {member.name} reads at {effect.index}, but {request.floor} was acknowledged before",
        )
        self._finish(request, "ok")

    def _finish(self, request: Any, outcome: str) -> None:
        check(request.outcome is None, f"one answer: {request} is answered again with {outcome}")
        check(self.members[request.node].life == request.life, f"own requests only: {request} is of an earlier life")
        check(outcome != "Dropped" or request.kind != "read", "reads are never indefinite")
        request.outcome = outcome

    def _check_vote(self, member: Member, effect: Voted) -> None:
        first = self.votes.setdefault((member.name, effect.term), effect.candidate)
        check(
            first == effect.candidate,
            f"one vote per term: {member.name} voted for {first} and {effect.candidate} in term {effect.term}",
        )

    def _check_role(self, member: Member, effect: RoleChanged) -> None:
        if effect.role != "leader":
            return
        voters = self.raft(member.name).configuration.voters
        check(member.name in voters or self.was_voter(member.name), f"learners follow: {member.name} leads")
        newest = self.raft(member.name).newest_version
        check(newest <= member.version, f"versions understood: {member.name} leads a log of version {newest}")
        leader = self.leaders.setdefault(effect.term, member.name)
        check(leader == member.name, f"election safety: {leader} and {member.name} both lead term {effect.term}")
        raft = self.raft(member.name)
        # One that was elected in an earlier term than what is committed by now, and only learns of it late, need not
        # have that: it can commit nothing any more.
        complete = effect.term < max((entry.term for entry in self.committed), default=0) or all(
            entry.index <= raft.log.base_index
            or (entry.index <= raft.log.last_index and raft.log.term(entry.index) == entry.term)
            for entry in self.committed
        )
        check(complete, f"leader completeness: {member.name} leads term {effect.term} without a committed entry")

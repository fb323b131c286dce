"""One node: it carries out what consensus asks for, in order, and brings to it what peers, clients, disk and time say.

Everything that happens goes through one inbox and one task. The only effect that this task waits for is Persist: while
term and vote become durable, nothing else is begun, as the contract of `splitbrain.cluster.raft.effects` demands.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec

from splitbrain.cluster import wire
from splitbrain.cluster.arrivals import Arrivals
from splitbrain.cluster.bugs import M29, NO_BUGS, Bugs
from splitbrain.cluster.errors import ArgumentError
from splitbrain.cluster.expiry import Expiry
from splitbrain.cluster.links import Links
from splitbrain.cluster.marks import reached
from splitbrain.cluster.members import SEPARATOR, is_member_id, member_id, names, node_of
from splitbrain.cluster.projection import PROJECTIONS, CatchingUp
from splitbrain.cluster.raft import Config, Raft
from splitbrain.cluster.raft import effects as fx
from splitbrain.cluster.raft.effects import Effect
from splitbrain.cluster.raft.events import ElectionTimeout, Event, HeartbeatTick, Received, Start
from splitbrain.cluster.raft.membership import Configuration, decode_configuration
from splitbrain.cluster.raft.messages import NodeId
from splitbrain.cluster.requests import Answering, Pending, Requests
from splitbrain.cluster.runtime import Address, Connection, Runtime
from splitbrain.cluster.snapshotting import CHECKPOINT_INTERVAL, SNAPSHOT_INTERVAL, Snapshotting
from splitbrain.cluster.storage import WAL_BYTES, Storage, open_storage
from splitbrain.cluster.store import Store
from splitbrain.cluster.telemetry import Telemetry
from splitbrain.cluster.timers import ElectionTimer, Heartbeat
from splitbrain.cluster.tree import Done, NodeNotFound, Project
from splitbrain.cluster.waits import Waits

StoreEffect: TypeAlias = fx.Apply | fx.ReadReady | fx.Rebuild

_LIFE_LIMIT: Final = 2**48

APPLY_AT_ONCE: Final = 512
"""Entries that are applied before time, peers and clients get a word in again: some ten milliseconds of work.

After a restart the whole log is committed by one event. A node that applied it in one go would be silent for seconds:
as a leader it would be replaced meanwhile, and so would its successors until each node had done the same.
"""


@dataclass(frozen=True)
class NodeConfig:
    """The configuration of a node at its start.

    Attributes:
        node: its name.
        listen: the address that it serves.
        peers: for every other node that is a member or may become one, the address under which this node reaches it.
        raft: times and limits, the same on all members.
        bugs: what is broken on purpose.
        founders: names of the nodes with which the cluster begins, the same on all nodes; this one and all peers if
            none are given. A node that is none of them waits until it is taken in.
        incarnation: how often the node has lost its data before (`splitbrain.cluster.members`); beyond 0 it is no
            founder.
        snapshot_interval: entries that are applied between two snapshots.
        checkpoint_interval: the same of checkpoints; 0 for none.
        wal_bytes: a file of the write-ahead log that is longer is replaced.

    Raises:
        ArgumentError: a node cannot be its own peer, a founder is not known, or a name cannot be one.
    """

    node: str
    listen: Address
    peers: Mapping[str, Address]
    raft: Config = field(default_factory=Config)
    bugs: Bugs = NO_BUGS
    founders: tuple[str, ...] = ()
    incarnation: int = 0
    snapshot_interval: int = SNAPSHOT_INTERVAL
    checkpoint_interval: int = CHECKPOINT_INTERVAL
    wal_bytes: int = WAL_BYTES

    def __post_init__(self) -> None:
        """Refuse what makes no cluster."""
        if self.snapshot_interval < 1:
            raise ArgumentError("the snapshot interval is at least 1 entry.")
        if self.checkpoint_interval < 0:
            raise ArgumentError("the checkpoint interval is 0, for none, or more.")
        if self.node in self.peers:
            raise ArgumentError(f"{self.node} is named as its own peer: name only the other members.")
        nodes = (self.node, *self.peers)
        for node in nodes:
            if SEPARATOR in node:
                raise ArgumentError(f"{node!r} cannot be the name of a node: {SEPARATOR!r} is for ids of members.")
        unknown = sorted(set(self.founders) - set(nodes))
        if unknown or len(set(self.founders)) != len(self.founders):
            named = ", ".join(self.founders)
            raise ArgumentError(f"each founder is named once, and is this node or a --peer, unlike those of {named}.")

    @property
    def member(self) -> NodeId:
        """This node's id."""
        return member_id(self.node, self.incarnation)

    @property
    def voters(self) -> tuple[NodeId, ...]:
        """The members with which the cluster begins, sorted."""
        return tuple(sorted(self.founders or [self.node, *self.peers]))


class Node:
    """A member of the metadata cluster."""

    def __init__(self, config: NodeConfig, runtime: Runtime) -> None:
        self._config = config
        self._runtime = runtime
        self._store = Store(config.node, config.bugs)
        self._inbox: deque[Callable[[], Event | None]] = deque()
        self._wake = asyncio.Event()
        self._store_work: deque[StoreEffect] = deque()  # Applies in slices of at most APPLY_AT_ONCE
        self._inbound: dict[str, Connection] = {}
        clock, raft = runtime.clock, config.raft
        self._election_timer = ElectionTimer(
            clock, runtime.rng, raft.election_min_ms, raft.election_max_ms, self._election_timer_ran_out
        )
        self._heartbeat = Heartbeat(clock, raft.heartbeat_ms, self._heartbeat_ticked)
        self._telemetry = Telemetry(
            runtime, lambda: names(self._raft.configuration.voters), self.status, self.projections
        )
        self._links = Links(runtime, config.member, config.peers, self._link_came_up, config.bugs)
        self._life = runtime.rng.between(1, _LIFE_LIMIT)
        self._waits = Waits(
            lambda: self._raft.log, lambda: self._store.applied_index, lambda: self._raft.term, config.bugs
        )
        self._requests = Requests(
            config.member,
            self._life,
            clock,
            self._links,
            self._submit,
            lambda: self._raft.term,
            lambda query: (self._store.query(query), self._store.applied_index),
            self._waits,
            reads_on_lease=raft.lease_reads,
            bugs=config.bugs,
        )
        self._executors = self._executors_by_effect()
        self._expiry = Expiry(config.bugs)
        self._catching_up: CatchingUp
        self._storage: Storage
        self._raft: Raft
        self._snapshots: Snapshotting

    async def start(self) -> None:
        """Recover what is on disk, join the cluster, serve. Returns when the node listens.

        Raises:
            StorageError: the data directory cannot be used.
            OSError: the disk failed, or the address cannot be served.
        """
        config, runtime = self._config, self._runtime
        opened = await open_storage(runtime.disk, config.member, runtime.rng, runtime.log, config.bugs)
        self._storage, recovered = opened.storage, opened.recovered
        self._raft = Raft(config.member, config.voters, recovered, config=config.raft, bugs=config.bugs)
        self._snapshots = Snapshotting(
            self._storage,
            self._raft,
            runtime.spawn,
            self._submit,
            config.snapshot_interval,
            config.checkpoint_interval,
            config.bugs,
        )
        if opened.state is not None:
            self._store = self._store.reset(opened.state)
            self._snapshots.begins_at(recovered.base_index, len(opened.state))
        self._catching_up = CatchingUp(self._raft.last_index)
        self._catching_up.applied(recovered.base_index, recovered.base_term)
        runtime.log(
            f"starts in term {recovered.term} with {len(recovered.entries)} entries"
            f"{f' behind entry {recovered.base_index}' if recovered.base_index else ''}; "
            f"members {', '.join(self._raft.members)}"
            + (f"; bugs {', '.join(config.bugs.ids)}" if config.bugs.ids else "")
        )
        if config.incarnation and not recovered.term and not recovered.entries:
            self._telemetry.event("new-member")
        self._telemetry.start(
            self._raft.last_index, None if recovered.voted_for is None else node_of(recovered.voted_for)
        )
        await runtime.network.listen(config.listen, self._accept)
        runtime.spawn(self._storage.sync_log(self._submit, config.wal_bytes), "sync log")
        runtime.spawn(self._handle_events(), "consensus")
        self._links.open(self._raft.members)
        self._submit(Start())

    def stopped(self) -> None:
        """Note in the telemetry that the node stops in good order. What it promised is durable already."""
        self._telemetry.event("stop")
        self._storage.close()

    def status(self) -> wire.Status:
        """What the node says of itself."""
        raft, store = self._raft, self._store
        return wire.Status(
            self._config.node,
            raft.role,
            raft.term,
            None if raft.leader is None else node_of(raft.leader),
            raft.commit_index,
            store.applied_index,
            store.chain_hash,
            store.state_hash,
        )

    def projections(self) -> tuple[str, str]:
        """Hashes of what the projections hold, and of what they should."""
        return self._store.projection_hash, self._store.projected_hash

    def members(self) -> wire.MemberList:
        """The configuration that the node has in force, committed or not."""
        return _member_list(self._raft.configuration)

    # --- events -----------------------------------------------------------------------------------------------

    def _submit(self, event: Event) -> None:
        self._enqueue(lambda: event)

    def _enqueue(self, due: Callable[[], Event | None]) -> None:
        self._inbox.append(due)
        self._wake.set()

    def _election_timer_ran_out(self, token: int) -> None:
        # Asked when the event is taken out: a message before it in the inbox may have restarted the timer.
        self._enqueue(lambda: ElectionTimeout() if self._election_timer.holds(token) else None)

    def _heartbeat_ticked(self, token: int) -> None:
        now_ns = self._runtime.clock.monotonic_ns()
        if self._heartbeat.holds(token):
            self._drop_unused_refs()
        self._enqueue(lambda: HeartbeatTick(now_ns) if self._heartbeat.holds(token) else None)

    def _drop_unused_refs(self) -> None:
        """As the leader: have all members forget what clients will not ask for any more (KH-9)."""
        store = self._store
        command = self._expiry.due(self._runtime.clock.monotonic_ns(), store.applied_index, store.refs.ages())
        if command is not None:
            self._requests.from_node(command, self._expiry.answered)

    def _link_came_up(self) -> None:
        self._requests.route_waiting()

    async def _handle_events(self) -> None:
        while True:
            while self._inbox:
                event = self._inbox.popleft()()
                if event is None:
                    continue
                for effect in self._raft.handle(event):
                    if isinstance(effect, fx.Persist):
                        await self._storage.save_vote(effect.term, effect.voted_for)
                    elif isinstance(effect, fx.InstallSnapshot):
                        await self._install(effect)
                    else:
                        self._executors[type(effect)](effect)
                self._telemetry.durable = self._raft.written_index
            if self._store_work:
                reached("log applied in slices")
                await self._runtime.clock.sleep(0)
                self._use_store()
                continue
            self._wake.clear()
            await self._wake.wait()

    # --- effects ----------------------------------------------------------------------------------------------

    def _executors_by_effect(self) -> dict[type[Effect], Callable[[Any], None]]:
        """How each effect is carried out, except for Persist, which is waited for."""
        requests = self._requests
        return {
            fx.AppendLog: lambda effect: self._storage.append(effect.entries, effect.done),
            fx.TruncateLog: self._truncate,
            fx.Send: self._send,
            fx.SendChunk: self._send_chunk,
            fx.Apply: self._apply_in_slices,
            fx.ReadReady: self._to_store if M29 not in self._config.bugs else self._read,
            fx.Rejected: requests.rejected,
            fx.TransferBegun: lambda effect: requests.done(effect.ref, self.members(), 0),
            fx.ShrunkByForce: lambda effect: requests.done(effect.ref, self.members(), 0),
            fx.Dropped: requests.dropped,
            fx.StartElectionTimer: lambda _: self._election_timer.start(),
            fx.StopElectionTimer: lambda _: self._election_timer.stop(),
            fx.StartHeartbeat: lambda _: self._heartbeat.start(),
            fx.StopHeartbeat: lambda _: self._heartbeat.stop(),
            fx.Voted: lambda effect: self._telemetry.vote(node_of(effect.candidate)),
            fx.RoleChanged: self._role_changed,
            fx.MembersChanged: self._members_changed,
            # The Apply that follows reports it, with its hashes.
            fx.CommitAdvanced: lambda effect: self._storage.committed(effect.index),
            fx.Rebuild: self._to_store,
        }

    def _truncate(self, effect: fx.TruncateLog) -> None:
        self._telemetry.cut(effect.from_index - 1)
        self._catching_up.cut(effect.from_index - 1)
        self._storage.truncate(effect.from_index)

    def _send(self, effect: fx.Send) -> None:
        self._links.send(effect.to, wire.encode_peer(effect.message))

    def _send_chunk(self, effect: fx.SendChunk) -> None:
        self._links.send(effect.to, wire.encode_peer(self._snapshots.chunk(effect)))

    async def _install(self, effect: fx.InstallSnapshot) -> None:
        """Put the store where a snapshot of the leader is."""
        while self._store_work:
            self._use_store()  # it may answer what was asked here
        self._telemetry.cut(effect.index)
        await self._snapshots.install(effect)
        self._store = self._store.reset(effect.state)
        self._catching_up.cut(effect.index)
        self._catching_up.applied(effect.index, effect.last_term)
        self._runtime.log(f"took over the leader's snapshot of entry {effect.index}")
        self._telemetry.event("snapshot")
        self._waits.advanced()

    def _apply_in_slices(self, effect: fx.Apply) -> None:
        entries, slices = effect.entries, range(0, len(effect.entries), APPLY_AT_ONCE)
        self._to_store(*(fx.Apply(entries[first : first + APPLY_AT_ONCE], effect.refs) for first in slices))

    def _to_store(self, *effects: StoreEffect) -> None:
        """Carry out what concerns the store: now if it is little and nothing else waits, the rest in its turn."""
        idle = not self._store_work
        self._store_work.extend(effects)
        if idle:
            self._use_store()

    def _use_store(self) -> None:
        """Carry out as much of what waits for the store as the event loop can bear at once."""
        budget = APPLY_AT_ONCE
        while self._store_work and budget > 0:
            effect = self._store_work.popleft()
            budget -= 1
            match effect:
                case fx.Apply(entries):
                    budget -= len(entries)
                    self._apply(effect)
                case fx.ReadReady():
                    self._read(effect)
                case fx.Rebuild():
                    self._rebuild()

    def _apply(self, effect: fx.Apply) -> None:
        for entry in effect.entries:
            result = self._store.apply(entry)
            self._telemetry.applied(entry.index)
            request: Pending | None = effect.refs.get(entry.index)
            if request is None:
                continue
            if entry.kind == "config":
                self._requests.done(request, _member_list(decode_configuration(entry)), entry.index)
            elif result is not None:
                self._requests.done(request, result, entry.index)
        self._waits.advanced()
        self._telemetry.commit_advanced()
        self._catching_up.applied(effect.entries[-1].index, effect.entries[-1].term)
        self._snapshots.applied(effect.entries[-1], self._store.dump)

    def _read(self, effect: fx.ReadReady) -> None:
        is_current = self._store.applied_index >= effect.index or M29 in self._config.bugs
        assert is_current, "a read would miss what was committed before it"
        request: Pending = effect.ref
        self._requests.done(request, self._store.query(request.query), self._store.applied_index)

    def _role_changed(self, effect: fx.RoleChanged) -> None:
        self._runtime.log(f"{effect.role} in term {effect.term}, leader {effect.leader or 'unknown'}")
        # Without its own no-op: checkers compare the log that it was elected with.
        self._telemetry.role(self._raft.last_index - 1 if effect.role == "leader" else None)
        if effect.leader is not None:
            self._catching_up.leader_is_known(effect.term)
        self._requests.leader_changed(effect.leader)
        self._expiry.reset()

    def _members_changed(self, effect: fx.MembersChanged) -> None:
        learners = effect.configuration.learners
        voters = f"members {', '.join(effect.configuration.voters)}"
        self._runtime.log(voters + (f"; learners {', '.join(learners)}" if learners else ""))
        self._links.open(effect.configuration.members)
        self._telemetry.event("members")

    def _rebuild(self) -> None:
        self._store = self._store.reset(self._storage.snapshot()[1] if self._raft.log.base_index else None)
        self._telemetry.event("rebuild")

    # --- connections ------------------------------------------------------------------------------------------

    async def _accept(self, connection: Connection) -> None:
        """Serve a connection until it breaks or says what makes no sense."""
        try:
            hello = wire.decode_hello(await connection.receive())
            if hello.version != wire.PROTOCOL_VERSION:
                self._runtime.log(f"a caller of protocol version {hello.version} was turned away: {hello}")
            elif isinstance(hello, wire.ClientHello):
                await self._serve_client(connection)
            elif hello.to != self._config.member or not (is_member_id(hello.node) and self._links.knows(hello.node)):
                self._runtime.log(f"a caller that is no peer was turned away: {hello}")
            else:
                await self._serve_peer(hello.node, connection)
        except ConnectionError:
            return
        except msgspec.DecodeError as error:
            reached("connection made no sense")
            self._runtime.log(f"a connection was closed, because what came on it made no sense: {error}")
        finally:
            connection.close()

    async def _serve_peer(self, peer: str, connection: Connection) -> None:
        former = self._inbound.get(peer)
        if former is not None:
            former.close()
        self._inbound[peer] = connection
        # One for each connection is enough: a request is forwarded at most once, and so on one connection only.
        forwards = Arrivals()
        while True:
            frame = await connection.receive()
            if frame == wire.ALIVE:
                continue
            message = wire.decode_peer(frame)
            if isinstance(message, wire.Forward):
                if forwards.is_first(message.ref):
                    self._requests.from_peer(message.body, self._answer_to_peer(peer, message))
                else:
                    reached("repeated forward ignored")
            elif isinstance(message, wire.Forwarded):
                self._requests.answered_by_peer(message)
            else:
                self._submit(Received(peer, message))

    def _answer_to_peer(self, peer: str, message: wire.Forward) -> Answering:
        def answer(term: int, outcome: wire.Outcome, index: int) -> None:
            def encode(outcome: wire.Outcome) -> bytes:
                return wire.encode_peer(wire.Forwarded(message.life, message.ref, term, outcome, index))

            self._links.send(peer, _bounded(encode, outcome))

        return answer

    async def _serve_client(self, connection: Connection) -> None:
        requests = Arrivals()
        while True:
            data = await connection.receive()
            try:
                request = wire.decode_request(data)
            except msgspec.DecodeError as error:
                request_id = wire.decode_request_id(data)
                if request_id is None:
                    raise
                nonsense = _invalid(f"the request makes no sense: {error}")
                self._answer(connection, request_id, self._raft.term, nonsense, 0)
                continue
            if requests.is_first(request.id):
                self._serve_request(connection, request, len(data))
            else:
                reached("repeated request ignored")

    def _serve_request(self, connection: Connection, request: wire.Request, size: int) -> None:
        def answer(term: int, outcome: wire.Outcome, index: int = 0) -> None:
            self._answer(connection, request.id, term, outcome, index)

        body = request.body
        if size > wire.MAX_REQUEST_BYTES:
            answer(self._raft.term, _invalid(f"a request has at most {wire.MAX_REQUEST_BYTES} bytes, not {size}"))
        elif isinstance(body, wire.StatusQuery):
            answer(self._raft.term, self.status())
        elif isinstance(body, wire.MembersQuery):
            answer(self._raft.term, self.members())
        elif isinstance(body, Project):
            answer(self._raft.term, self._projected(body))
        else:
            self._requests.from_client(body, request.timeout_ms, answer, request.reply_from)

    def _projected(self, query: Project) -> wire.Outcome:
        """What this member holds, now; nothing is answered from a projection that may lack what there is (KH-15)."""
        if query.projection not in PROJECTIONS:
            return _invalid(f"there is no projection {query.projection!r}, only {', '.join(PROJECTIONS)}")
        if not self._catching_up.done:
            reached("projection asked before it was built")
            return wire.Failure("unavailable", True, f"{self._config.node} has not caught up yet: try again later")
        found = self._store.projected(query.projection, query.path)
        return NodeNotFound(query.path) if found is None else Done(found)

    def _answer(self, connection: Connection, request_id: int, term: int, outcome: wire.Outcome, index: int) -> None:
        connection.send(_bounded(lambda outcome: wire.encode(wire.Answer(request_id, term, outcome, index)), outcome))


def _member_list(configuration: Configuration) -> wire.MemberList:
    return wire.MemberList(configuration.voters, tuple(configuration.learners))


def _bounded(encode: Callable[[wire.Outcome], bytes], outcome: wire.Outcome) -> bytes:
    """An answer as it is sent; only a query can have one that is too long, so that the failure is definite."""
    data = encode(outcome)
    if len(data) <= wire.MAX_ANSWER_BYTES:
        return data
    return encode(_invalid(f"the answer would have {len(data)} bytes, at most {wire.MAX_ANSWER_BYTES} can be sent"))


def _invalid(detail: str) -> wire.Failure:
    return wire.Failure("invalid_request", True, detail)

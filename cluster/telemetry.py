"""A node's telemetry: one JSON line for every change of role, term or leader, one for commits every 100 ms at most.

    {"wall": ns since the epoch, "mono": ns, "group": "metadata", "event": "role", "term": 3, "role": "leader",
     "leader": "n1", "commit": 17, "applied": 17, "voters": ["n1", "n2", "n3"], "chain": "hex", "state": "hex",
     "last": null, "projection": "hex", "projected": "hex", "count": 17, "log_index": 18, "log_term": 3, "log": "hex",
     "raised_by": "n3", "members": ["n1", "n2#1", "n3"], "counted_index": 17,
     "counted": {"n1": 17, "n2#1": 17, "n3": 12}}

`group` is the address of the group, which tells it from a former one of its name (`splitbrain.cluster.groupnames`).
`mono` is the monotonic clock: a reader that knows its offset to the host's can place the line in time, although the
wall clock be wrong. `chain` and `state` are those at `applied`, `leader` is the leader that the node knows, and
`voters` are the nodes whose members are in the configuration that it has in force. `projection` is the hash of what
the node's projections hold, `projected` that of what they should hold by its tree (`splitbrain.cluster.projection`).
`count` is how many entries this process applied, one by one.

`log_index`, `log_term` and `log` say what the log holds, applied or not: an entry, its term, and the hash chain up to
it (`splitbrain.cluster.chain`). They are in lines of events "start", "role", "first", "log", "checkpoint",
"snapshot", "members", "version", "cut", "stop", "delete" and "end", as far as they are known at no great cost; where
nothing else is said, of the last entry. In a line of event "commit" with a count the entry is the one that was
committed, without `log`. `members` are the ids of the members in force (`splitbrain.cluster.members`), voters
and learners, in lines of events "start", "role" and "members". `counted` is what a leader counted when it last
committed, in lines of event "commit": the last entry that each voter had acknowledged as durable, and the leader itself
has on its disk, for the commit of `counted_index`. In the line of event "acked" before it `counted` is what messages of
followers said: for each the highest index that it acknowledged as durable, in an answer of this term. It is read where
messages come in, and consensus has no part in it. Of the commits between two lines the newest is reported, or the first
one in which a leader counted more for a follower than that. In the line of event "role" of a new leader `counted` is
whose votes it counted, each with the term of the message that granted it; in that of a candidate, and of one that asks
whether it would win, whom it has asked since the line of that event before, each with the term of the last request, as
they were sent. `counted_index` is not there. In the line of event "start" `counted` is the longest election timeout of
the node, as `election_max_ms`. In that of a "timeout" `counted_index` is the entry that put the configuration into
force, and `counted` has the id of this member, with the entry of the newest configuration that has it as a voter, of
that one and the one before; it is empty if neither has, or if the node does not understand its log, and may not lead.
In that of "members" `counted_index` is the entry that put the configuration into force, and `counted` what it was when
this was appended: the node's `commit_index` then, `before_index` (the entry of the configuration before), and each
voter with 1 if it was one before, 2 if it is one since, 3 for both. Neither is there if no entry was appended.
In lines of events "first" and "log" `counted_index` is the entry of the configuration that the log up to `log_index`
puts into force, 0 for that of the founders, and `counted` its members: 1 for a voter, 0 for a learner.
In lines of event "released" it is up to which entry the state lets the log go (`let_go`), the first entry that it
needs, counted anew (`needed`; not where there are too many messages), how much of the log is gone already (`base`), and
how many messages those have whose nodes the state takes for down (`withheld`).
In lines of event "checkpoint" it is the entry behind which the log in memory begins (`base`), and 1 if the disk has the
state there, which a follower is sent that lacks what is before (`there`).
In lines of event "busy" it is how many entries are not committed (`pending`), how many may be (`most`), and how many ms
ago this member asked another one to take over, if it did in its term (`handing_over_ms`).
In lines of event "version" `counted_index` is that version of the state machine, which the leader is about to put into
force by the entry at `log_index`, and `counted` the version that each other member said it understands, in its newest
answer of this term; 0 for one that gave none. It is read where messages come in, as for "acked".
In lines of event "link" it is, for each node to which this one wants a link, 1 if there is one.
In lines of event "read" it is what speaks for a read, and `counted_index` the round that the read needed
(`splitbrain.cluster.readfacts`).
Events:

    new-member    what follows comes from another member than what came before: the node left, lost its data, and begins
                  with nothing (`splitbrain.cluster.members`); comes before the "start" of its first process
    start, stop   a process of the node begins, ends in good order
    delete        the node forgets its member of the group, with all its data
    role          role, term or leader changed; of a new leader `last` is the index at which its log ended when it was
                  elected, before it appended anything; of a follower whose term a message raised, `raised_by` is the
                  member that sent it
    vote          the node voted in `term`; `leader` is the node that it voted for
    commit        more was committed, at most every 100 ms
    read          the leader is about to answer a linearizable read, at most one of its kind every 250 ms
    acked         comes before a "commit" of a leader with a count: what its followers had said in its term, in messages
                  that it got before it counted
    hash          `applied` has just become a multiple of 64: each node reports its hashes at that index, so they can
                  be compared
    timeout       the election timer of a node that does not lead ran out; what it does about it follows
    first         the log has just got an entry of a term of which it had none before; `log_index` is that entry
    log           the log has just got an entry whose index is a multiple of 64, or of 8 and the last such line is 20 ms
                  old: the index is `log_index`
    checkpoint    the state at `applied` was just written down, for a checkpoint or a snapshot; `log_index` is the entry
                  for which it stands, by its name, and `log` the chain that is in it
    snapshot      a snapshot of the leader was just taken over; `log_index` is the entry for which it stands
    members       another configuration of members is in force on the node: it was appended to its log, or what had
                  replaced it was cut off; committed or not
    version       the leader has just appended the entry that puts a later version of the state machine into force
    cut           entries are to be removed from the log: another leader's take their place; `log_index` and `log_term`
                  are those of the last one of them, and `last` is what stays durable
    released      the state, which keeps what it needs in the log, has said up to where it needs that no more
    busy          the leader refused a command because too much was under way, or since another member is about to take
                  over; at most every 250 ms
    link          a link to another node came up, or broke; only of the metadata store
    rebuild       the state was thrown away, and is built again (only with a bug switched on)
    end           the process ended, also if it was killed; only in a simulation (`Runtime.last_words`)

`leader` of a "start" is the node for which it had voted in `term`, as it recovered that.
`last` of a "start" is the index at which the log ends that the node recovered; of a "role" see above; in all other
lines it is the index up to which the node has said to others, or counted itself, that its log is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from splitbrain.cluster.chain import LogChain, Point
from splitbrain.cluster.raft import Entry
from splitbrain.cluster.raft.effects import CommitAdvanced
from splitbrain.cluster.raft.membership import Configuration, Step
from splitbrain.cluster.raft.messages import AppendRefusal, AppendReply, NodeId, SnapshotReply
from splitbrain.cluster.runtime import Runtime, Timer
from splitbrain.cluster.wire import Status

_STANDING: Final = ("pre_candidate", "candidate")

COMMIT_INTERVAL_NS: Final = 100_000_000
BUSY_INTERVAL_NS: Final = 250_000_000
_MS: Final = 1_000_000
HASH_INTERVAL: Final = 64
"""The number of entries between two indexes at which every node reports its hashes."""


LOG_INTERVAL: Final = 64
"""The number of entries between two indexes at which every node reports the hash chain of its log."""

CLOSE_INTERVAL: Final = 8
"""The same while the log grows slowly; a chain at every single index would make judging three times as long."""

CLOSE_DISTANCE_NS: Final = 20_000_000
"""The least time between two lines of indexes that only `CLOSE_INTERVAL` divides."""


class _Line(msgspec.Struct, frozen=True, omit_defaults=True):
    wall: int
    mono: int
    group: str
    event: str
    term: int
    role: str
    leader: str | None
    commit: int
    applied: int
    voters: tuple[str, ...]
    chain: str
    state: str
    last: int | None
    projection: str
    projected: str
    count: int | None = None
    log_index: int | None = None
    log_term: int | None = None
    log: str | None = None
    raised_by: NodeId | None = None
    members: tuple[NodeId, ...] | None = None
    counted_index: int | None = None
    counted: dict[str, int] | None = None


@dataclass(frozen=True)
class Sources:
    """What lines are about, as it is when it is asked.

    Attributes:
        voters: names of the nodes whose members vote.
        members: ids of all members.
        member: the id of this one.
        status: of the node.
        projections: hashes of what they hold, and of what they should.
        log: the chain of the node's log.
        version: of the state machine, in force after the entry of the log at an index.
        configured: the configuration that the log up to an index puts into force, and the index of its entry.
    """

    voters: Callable[[], tuple[str, ...]]
    members: Callable[[], tuple[NodeId, ...]]
    member: NodeId
    status: Callable[[], Status]
    projections: Callable[[], tuple[str, str]]
    log: LogChain
    version: Callable[[int], int]
    configured: Callable[[int], tuple[int, Configuration]]


# Structs: one is made for each line, and the constructor of a struct is compiled.
class _About(msgspec.Struct, frozen=True):
    """What a line says beyond what the sources say: see above."""

    event: str
    leader: str | None = None
    last: int | None = None
    point: Point | None = None
    raised_by: NodeId | None = None
    names_members: bool = False
    counted_index: int | None = None
    counted: dict[str, int] | None = None


class _Count(msgspec.Struct, frozen=True):
    """What a leader counted for a commit, and what its followers had acknowledged by then."""

    index: int
    counted: dict[NodeId, int]
    acked: dict[NodeId, int]
    is_odd: bool
    """Whether more was counted for a follower than it had acknowledged, or the entry is of an earlier term."""
    point: Point | None
    """The entry, without its chain."""
    term: int
    """In which this node led."""


def _counted_of(step: Step) -> dict[str, int]:
    voters = {voter: (voter in step.old) + 2 * (voter in step.new) for voter in sorted({*step.old, *step.new})}
    return {"commit_index": step.commit, "before_index": step.before, **voters}


class Telemetry:
    """Writes lines of one group's member.

    Attributes:
        durable: the index up to which the node has said that its log is durable.
        asked: the members that were asked for a vote since the last line of event "role", with the term of the request.
        acked: for each member the highest index that it acknowledged as durable, in an answer of this node's term.
        understood: for each member the version of the state machine in its newest answer of this node's term.
    """

    def __init__(self, runtime: Runtime, group: str, sources: Sources) -> None:
        self.durable = 0
        self.asked: dict[NodeId, int] = {}
        self.acked: dict[NodeId, int] = {}
        self.understood: dict[NodeId, int] = {}
        self._counted: _Count | None = None  # until a line reports it
        self._runtime = runtime
        self._group = group
        self._sources = sources
        self._encoder = msgspec.json.Encoder()
        self._timer: Timer | None = None
        self._commit_is_news = False
        self._count = 0
        self._end_index: int = 0  # of the log
        self._end_term: int = 0
        self._term = 0  # of the last line about a role
        self._close_from_ns = 0
        self._busy_from_ns = 0
        self._handed_over_ns: int | None = None  # in this term

    def event(self, event: str) -> None:
        """Write a line now."""
        self._write(_About(event, last=self.durable))

    def _write(self, about: _About) -> None:
        self._commit_is_news = False
        self._runtime.telemetry(self._line(about))

    def _line(self, about: _About) -> bytes:
        sources = self._sources
        status = sources.status()
        projection, projected = sources.projections()
        point = about.point
        line = _Line(
            wall=self._runtime.clock.wall_ns(),
            mono=self._runtime.clock.monotonic_ns(),
            group=self._group,
            event=about.event,
            term=status.term,
            role=status.role,
            leader=about.leader or status.leader,
            commit=status.commit_index,
            applied=status.applied_index,
            voters=sources.voters(),
            chain=status.chain_hash,
            state=status.state_hash,
            last=about.last,
            projection=projection,
            projected=projected,
            count=self._count,
            log_index=point.index if point else None,
            log_term=point.term if point else None,
            log=point.chain if point else None,
            raised_by=about.raised_by,
            members=sources.members() if about.names_members else None,
            counted_index=about.counted_index,
            counted=about.counted,
        )
        return self._encoder.encode(line)

    def role(self, inherited: int | None, sender: NodeId | None, votes: dict[NodeId, int] | None = None) -> None:
        """Role, term or leader have changed.

        Args:
            inherited: for a leader, the last index of what it did not append.
            sender: of the message that did it, if one did.
            votes: for a leader, those that it counted, with the terms of the messages.
        """
        status, log = self._sources.status(), self._sources.log
        # One that stands for election raises its term itself, also if a message made it stand.
        raised = status.term > self._term and status.role == "follower"
        self._term = status.term
        # Of the term that is over:
        self._counted, self._handed_over_ns = None, None
        self.acked, self.understood = {}, {}
        point = log.end() if inherited is None else log.at(inherited)
        raised_by = sender if raised else None
        counted = self.asked if status.role in _STANDING else votes
        self._write(
            _About("role", last=inherited, point=point, raised_by=raised_by, names_members=True, counted=counted)
        )
        self.asked = {}

    def start(self, last_index: int, voted_for: str | None, election_max_ms: int) -> None:
        """The node has recovered a log that ends at an index, and its vote."""
        self.durable = last_index
        self._term = self._sources.status().term
        self._ends(last_index)
        point = self._sources.log.end()
        counted = {"election_max_ms": election_max_ms}
        self._write(
            _About("start", leader=voted_for, last=last_index, point=point, names_members=True, counted=counted)
        )
        self._runtime.last_words(lambda: self._line(self._last_words("end")))

    def stop(self) -> None:
        """The process ends in good order."""
        self._write(self._last_words("stop"))

    def delete(self) -> None:
        """The node is about to forget its member of the group."""
        self._write(self._last_words("delete"))

    def _last_words(self, event: str) -> _About:
        # The log may have changed already by an event that is not carried out yet.
        self._sources.log.forget()
        return _About(event, last=self.durable, point=self._sources.log.end())

    def cut(self, last_index: int) -> None:
        """The log is to be cut off behind an index."""
        if last_index < self._end_index:
            self.durable = min(self.durable, last_index)
            self._write(_About("cut", last=self.durable, point=Point(self._end_index, self._end_term, None)))
            self._ends(last_index)
        self._sources.log.forget()

    def _ends(self, index: int) -> None:
        self._end_index, self._end_term = index, self._sources.log.term(index)

    def appended(self, entries: Sequence[Entry]) -> None:
        """Entries were put at the end of the log."""
        last = entries[-1]
        for entry in entries:
            if entry.kind == "noop":
                self._report_version(entry)
        if last.term != self._end_term:
            self._report_first_of_terms(entries)
            self._end_term = last.term
        first = entries[0].index
        for index in range(first + -first % CLOSE_INTERVAL, last.index + 1, CLOSE_INTERVAL):
            if index % LOG_INTERVAL == 0 or self._runtime.clock.monotonic_ns() >= self._close_from_ns:
                self._close_from_ns = self._runtime.clock.monotonic_ns() + CLOSE_DISTANCE_NS
                self._log("log", index)
        self._end_index = last.index

    def _report_version(self, noop: Entry) -> None:
        version = self._sources.version(noop.index)
        if version > self._sources.version(noop.index - 1) and self._sources.status().role == "leader":
            others = (member for member in self._sources.members() if member != self._sources.member)
            said = {member: self.understood.get(member, 0) for member in others}
            point = Point(noop.index, noop.term, None)
            self._write(_About("version", last=self.durable, point=point, counted_index=version, counted=said))

    def _report_first_of_terms(self, entries: Sequence[Entry]) -> None:
        term = self._end_term
        for entry in entries:
            if entry.term != term:
                term = entry.term
                self._log("first", entry.index)

    def _log(self, event: str, index: int) -> None:
        if point := self._sources.log.at(index):
            configured_at, configuration = self._sources.configured(index)
            voters, learners = dict.fromkeys(configuration.voters, 1), dict.fromkeys(configuration.learners, 0)
            counted = {**voters, **learners}
            self._write(_About(event, last=self.durable, point=point, counted_index=configured_at, counted=counted))

    def vote(self, candidate: str) -> None:
        """The node has voted."""
        self._write(_About("vote", leader=candidate, last=self.durable))

    def timeout(self, configured_at: int, voter_by: int | None) -> None:
        """The election timer ran out; by which entries the configuration is in force, and this member a voter."""
        counted = {} if voter_by is None else {self._sources.member: voter_by}
        self._write(_About("timeout", last=self.durable, counted_index=configured_at, counted=counted))

    def members(self, index: int, step: Step | None) -> None:
        """Other members are in force, by the entry of an index, and in place of others if they were appended."""
        log = self._sources.log
        end = Point(log.last_index, log.term(log.last_index), None)
        counted_index = None if step is None else index
        counted = None if step is None else _counted_of(step)
        self._write(
            _About(
                "members",
                last=self.durable,
                point=end,
                names_members=True,
                counted_index=counted_index,
                counted=counted,
            )
        )

    def written_down(self, index: int, term: int, base: int, has_base: bool) -> None:
        """The state was written down, as that of an entry; the log begins behind `base`, and has that state or not."""
        counted = {"base": base, "there": int(has_base)}
        self._write(_About("checkpoint", last=self.durable, point=self._applied_as(index, term), counted=counted))

    def installed(self, index: int, term: int) -> None:
        """A snapshot of an entry was taken over; the log may go on behind it."""
        self._sources.log.forget()
        # Not always longer than it was: what the snapshot took the place of may have been another leader's.
        self._ends(self._sources.log.last_index)
        self._write(_About("snapshot", last=self.durable, point=self._applied_as(index, term)))

    def released(self, let_go: int, needed: int | None, base: int, withheld: int) -> None:
        """The state says up to which entry it needs the log no more; of that it needs `needed` still, if known."""
        known = {} if needed is None else {"needed": needed}
        counted = {"let_go": let_go, **known, "base": base, "withheld": withheld}
        self._write(_About("released", last=self.durable, counted=counted))

    def handing_over(self) -> None:
        """Another member was asked to take over."""
        self._handed_over_ns = self._runtime.clock.monotonic_ns()

    def busy(self, pending: int, most: int) -> None:
        """A command was refused, with so many entries that are not committed, and so many that may be."""
        now_ns = self._runtime.clock.monotonic_ns()
        if now_ns < self._busy_from_ns:
            return
        self._busy_from_ns = now_ns + BUSY_INTERVAL_NS
        since_ns = self._handed_over_ns
        handing_over = {} if since_ns is None else {"handing_over_ms": (now_ns - since_ns) // _MS}
        self._write(_About("busy", last=self.durable, counted={"pending": pending, "most": most, **handing_over}))

    def links(self, up: Mapping[str, bool]) -> None:
        """Each node to which a link is wanted, and whether there is one."""
        self._write(_About("link", last=self.durable, counted={node: int(is_up) for node, is_up in up.items()}))

    def rebuild(self) -> None:
        """The state is built again."""
        self._sources.log.forget()
        self.event("rebuild")

    def _applied_as(self, index: int, term: int) -> Point:
        """An entry, with the chain of what the store holds."""
        return Point(index, term, self._sources.status().chain_hash)

    def applied(self, index: int) -> None:
        """The node has just applied the entry at `index`, and nothing behind it."""
        self._count += 1
        if index % HASH_INTERVAL == 0:
            self.event("hash")

    def answered(self, sender: NodeId, answer: AppendReply | AppendRefusal | SnapshotReply) -> None:
        """A message of this term says what a follower understands, and how much of this node's log is durable there."""
        self.understood[sender] = answer.version
        if type(answer) is AppendReply and answer.durable > self.acked.get(sender, -1):
            self.acked[sender] = answer.durable

    def counts(self, commit: CommitAdvanced) -> None:
        """This node committed as a leader; a line about it follows with `commit_advanced`."""
        if self._counted is not None and self._counted.is_odd:
            return
        own, acked = self._sources.member, self.acked
        log = self._sources.log
        point = Point(commit.index, log.term(commit.index), None) if commit.index <= log.last_index else None
        is_odd = any(index > acked.get(voter, 0) for voter, index in commit.counted if voter != own)
        is_old = point is not None and point.term < self._term
        self._counted = _Count(commit.index, dict(commit.counted), dict(acked), is_odd or is_old, point, self._term)
        if is_old:
            self._write_commit()  # at once: soon an entry of this term is committed, or the term is over

    def _write_commit(self) -> None:
        count, self._counted = self._counted, None
        if count is None:
            self._write(_About("commit", last=self.durable))
            return
        self._write(_About("acked", last=self.durable, counted_index=count.index, counted=count.acked))
        # Of another term the line would say that the entry is of an earlier one.
        point = count.point if count.term == self._sources.status().term else None
        self._write(_About("commit", last=self.durable, point=point, counted_index=count.index, counted=count.counted))

    def commit_advanced(self) -> None:
        """Write a line now, or when the last one about a commit is 100 ms old."""
        if self._timer is None:
            self._write_commit()
            self._timer = self._runtime.clock.call_later(COMMIT_INTERVAL_NS, self._interval_over)
        else:
            self._commit_is_news = True

    def read(self, needed: int, facts: dict[str, int]) -> None:
        """A read is to be answered that needed a round; what speaks for it (`splitbrain.cluster.readfacts`)."""
        # No news of a commit is left out because of this line: a commit has its own count.
        self._runtime.telemetry(self._line(_About("read", last=self.durable, counted_index=needed, counted=facts)))

    def _interval_over(self) -> None:
        self._timer = None
        if self._commit_is_news:
            self.commit_advanced()

"""What becomes of a client's request: to consensus here, on to the leader, or to wait until one is known.

A request is sent to the cluster at most once, by this node or by the leader that it was forwarded to: only a client
sends a command again, with a ref (RA-22, `splitbrain.cluster.dedup`), and what a network repeats is not looked at (see
`splitbrain.cluster.arrivals`). While no leader is known it waits, for the time that its client gave it (RA-19). Until
then every failure is definite. From then on a command that gets no answer in time is indefinite. A query changes
nothing, so that every failure of one is definite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, get_args

from splitbrain.cluster import wire
from splitbrain.cluster.admission import Admission
from splitbrain.cluster.bugs import M30, M31, M33, M51, M81, M82, M92, M97, NO_BUGS
from splitbrain.cluster.dedup import Protected
from splitbrain.cluster.links import Links
from splitbrain.cluster.marks import reached
from splitbrain.cluster.members import node_of
from splitbrain.cluster.pending import Answering, Pending, Reply, Wanted
from splitbrain.cluster.place import Place
from splitbrain.cluster.raft.effects import Appended, Dropped, Rejected
from splitbrain.cluster.raft.events import Change, Event, ForceShrink, MemberRole, Propose, Read, Transfer
from splitbrain.cluster.raft.membership import Configuration
from splitbrain.cluster.raft.messages import NodeId
from splitbrain.cluster.raft.state import quorum_of
from splitbrain.cluster.registered.mops import mixed
from splitbrain.cluster.tree import Command, Done, Properties, Put, Query, Result, TransactRead, encode_command
from splitbrain.cluster.waits import Waits
from splitbrain.cluster.wire import (
    AddMember,
    AskForFence,
    AwaitEntry,
    Failure,
    FencedQuery,
    ForceShrinkMembers,
    Forward,
    Forwardable,
    Forwarded,
    ForwardedReply,
    FromMember,
    LeaderQuery,
    LocalQuery,
    MemberList,
    Outcome,
    Priority,
    QueueOp,
    RemoveMember,
    StateRequest,
    TakeCheckpoint,
    TakeSnapshot,
    TransferLeadership,
    encode_peer,
)

_MS: Final = 1_000_000

_FORWARDED_REPLIES: Final[Mapping[Reply, ForwardedReply]] = {
    "after_log_append": "after_log_append",
    "noreply": "noreply",
}

# By type, since what is asked for most often would be matched last, and a struct is slow to say no to `isinstance`.
_QUERIES: Final = frozenset(get_args(Query))
_COMMANDS: Final = frozenset((*get_args(Command), Protected, QueueOp))
_STAYS_HERE: Final = frozenset({LocalQuery, TakeSnapshot, TakeCheckpoint})
_CARRIED_OUT_HERE: Final = frozenset({*_STAYS_HERE, FencedQuery, TransactRead})
_NEVER_PASSED_ON: Final = frozenset({*_STAYS_HERE, ForceShrinkMembers, bytes})

_NOT_CHANGED: Final[Mapping[str, str]] = {
    "change_not_permitted": (
        "the change before it, or the first entry of the leader's term, is uncommitted, or leadership is being handed "
        "over: try again"
    ),
    "already_member": "it is a member",
    "was_member": "it was a member before, and its data may be lost: let its node join with the next incarnation",
    "not_member": "it is no member",
    "last_member": "no voter would be left",
    "non_voter": "it does not vote: let it catch up first",
    "not_up_to_date": "it lacks entries: try again",
    "transfer_under_way": "leadership is being handed over to another member: look at the status, and try again",
    "version_not_supported": "it does not support the state machine's version in force: start it with a later program",
}


class Member(Protocol):
    """This node's member of the group, as far as requests need it."""

    @property
    def term(self) -> int:
        """Its current term."""
        ...

    @property
    def configuration(self) -> Configuration:
        """The configuration that it has in force."""
        ...

    @property
    def is_outdated(self) -> bool:
        """Whether it applies nothing more, since it lacks the version in force (RA-43)."""
        ...

    @property
    def last_entry(self) -> tuple[int, int]:
        """Index and term of the last entry in its log, committed or not."""
        ...

    def propose(self, event: Event, priority: Priority = "normal") -> None:
        """Pass an event to consensus; a command of low priority in its turn."""
        ...

    def query(self, query: Query, answer: Callable[[Result, int], None]) -> None:
        """Have a query answered from what this node has applied; with the index up to which. It proves nothing."""
        ...

    def write_state(self, wanted: StateRequest, answer: Callable[[Outcome], None]) -> None:
        """Have what is applied here written down, and pass on what came of it."""
        ...


class Requests:
    """The requests to one group that are under way in one node.

    Args:
        group: its name.
        place: the node.
        member: its member of the group.
        waits: those for entries to be applied here.
        in_log: what stands in the log for a command; None: the command itself.
    """

    def __init__(
        self,
        group: str,
        place: Place,
        member: Member,
        waits: Waits,
        in_log: Callable[[bytes], bytes] | None = None,
    ) -> None:
        config = place.config
        self._group = group
        self._node = config.member
        self._life = place.life
        self._clock = place.runtime.clock
        self._links: Links = place.links
        self._member = member
        self._waits = waits
        self._in_log = in_log
        self._admission = Admission(config.member, place.links, group)
        self._reads_on_lease = config.raft.lease_reads
        self._max_pending = config.raft.max_pending
        self._joins_as: MemberRole = "promotable" if config.learners_first else "voter"
        self._bugs = config.bugs
        self._leader: NodeId | None = None
        self._last_number = 0
        self._waiting: dict[int, Pending] = {}
        self._forwarded: dict[int, Pending] = {}

    # --- what comes in ----------------------------------------------------------------------------------------

    def begin_after(self, number: int) -> None:
        """Number requests after those that this node sent to the group before it had a member."""
        self._last_number = max(self._last_number, number)

    @property
    def last_number(self) -> int:
        """Of the requests that came so far: what is passed on to the group later has higher ones."""
        return self._last_number

    def from_client(
        self,
        body: Wanted,
        timeout_ms: int,
        answer: Answering,
        reply: Reply = "leader",
        priority: Priority = "normal",
    ) -> None:
        """A client of this node wants something; `answer` is called once, now or later, unless none is wanted."""
        if reply == "noreply":
            answer = _unheard
        refusal = self._admission.refusal(body, timeout_ms, reply)
        if refusal is not None:
            answer(self._member.term, refusal, 0)
            return
        if len(self._waiting) + len(self._forwarded) >= self._max_pending:
            detail = f"{self._node} has {self._max_pending} requests under way: try again later"
            answer(self._member.term, Failure("busy", True, detail), 0)
            return
        request = self._new(body, self._answering(body, answer), reply=reply, priority=priority)
        if reply == "noreply":
            self._cast(request)
            return
        if reply == "notify" and self._leader != self._node:
            reached("pipelined command rejected")
            answer(self._member.term, self._not_leader(), 0)
            return
        request.timer = self._clock.call_later(timeout_ms * _MS, lambda: self._time_out(request))
        self._waiting[request.number] = request
        if type(body) in _CARRIED_OUT_HERE and self._is_carried_out_here(request):
            return
        self._route(request)
        if request.stage == "waiting":
            reached("request waited for a leader")
            if isinstance(body, Put) and M81 in self._bugs and self._has_met_a_majority():
                self._finish(request, Done(Properties(body.payload, 1, 1, 0)))

    def _is_carried_out_here(self, request: Pending) -> bool:
        """Whether this node carries a request out by itself; it has begun then."""
        body = request.body
        if isinstance(body, (LocalQuery, FencedQuery)) and self._is_refused_here(request):
            return True
        if isinstance(body, LocalQuery):
            self._read_here(request, body)
        elif isinstance(body, TransactRead) and M92 in self._bugs:
            self._read_here(request, LocalQuery(body))
        elif isinstance(body, (TakeSnapshot, TakeCheckpoint)):
            request.stage = "writing"
            self._member.write_state(body, lambda outcome: self._finish(request, outcome))
        else:
            return False
        return True

    def from_peer(
        self,
        body: Forwardable,
        answer: Answering,
        reply: ForwardedReply = "leader",
        priority: Priority = "normal",
    ) -> None:
        """A peer passes on a request, because it takes this node for the leader. It is never passed on again."""
        if type(body) is AwaitEntry:
            # Of every member, and in every role. Committed entries come sooner or later.
            awaited = self._waits.add(body.index, body.term, lambda: answer(body.term, Done(None), body.index))
            if self._member.is_outdated:
                self._waits.forget(awaited)  # nothing more is applied here (RA-43)
            return
        if reply == "noreply":
            answer = _unheard
        refusal = self._admission.refusal(body, 1, reply)
        if refusal is not None:
            answer(self._member.term, refusal, 0)
        elif self._leader != self._node:
            reached("forward refused")
            answer(self._member.term, self._not_leader(), 0)
        elif type(body) is AskForFence:
            index, term = self._member.last_entry
            answer(term, wire.Appended(), index)
        else:
            # No timer here: the node that passed it on has one, and answers its client.
            self._propose(self._new(body, answer, by_peer=True, reply=reply, priority=priority))

    def from_node(self, command: bytes, answered: Callable[[Outcome], None]) -> None:
        """This node, which leads, wants a command in the log itself."""
        # As if it came from a peer: it is not tried again with another leader.
        self._propose(self._new(command, lambda _term, outcome, _index: answered(outcome), by_peer=True))

    def answered_by_peer(self, peer: NodeId, message: Forwarded) -> None:
        """The answer to a request that was passed on. One that comes too late, or for an earlier life, is ignored."""
        request = self._forwarded.get(message.ref) if message.life == self._life else None
        # The leader's answer may arrive twice, and must not pass for that of the member which is asked after it.
        if request is None or request.asked != peer:
            return
        if type(request.body) is FencedQuery:
            self._fenced(request, message)
        elif request.settled is None:
            self._settle(request, message.outcome, message.term, message.index)
        elif message.index:
            term, outcome, index = request.settled
            self._finish(request, outcome, term, index)

    # --- what consensus says ----------------------------------------------------------------------------------

    def leader_changed(self, leader: str | None) -> None:
        """Another leader is known, or none any more."""
        self._leader = leader
        self.route_waiting()

    def route_waiting(self) -> None:
        """Try again the requests that could not be sent yet: a leader is known, or a link came up."""
        # In the order of arrival, and a copy: a request that is sent leaves the dict.
        for request in list(self._waiting.values()):
            self._route(request)

    def give_up(self) -> None:
        """The group is no more on this node."""
        for request in list(self._waiting.values()):
            self._finish(request, Failure("no_group", True, f"group {self._group} is no more on {self._node}"))
        for request in list(self._forwarded.values()):
            detail = f"group {self._group} is no more on {self._node}, which passed it on: it may have happened"
            self._finish(request, Failure("no_group", request.is_query, detail))

    def done(self, request: Pending, result: Result | MemberList, index: int, term: int | None = None) -> None:
        """The request was carried out by the entry of this index and term, or when all up to there was applied."""
        if request.reply == "leader":
            self._finish(request, result, term, index)
        else:
            self._settle(request, result, self._member.term if term is None else term, index)

    def appended(self, effect: Appended) -> None:
        """A command that is to be answered so is in this leader's log."""
        self._finish(effect.ref, wire.Appended(), index=effect.index)

    def rejected(self, effect: Rejected) -> None:
        """Consensus refused a request: it had no effect, and may still go to another leader if it is our client's."""
        request: Pending = effect.ref
        if effect.reason == "busy":
            reached("leader was busy")
            self._finish(request, Failure("busy", True, f"leader {self._node} has too much under way: try again later"))
        elif effect.reason != "not_leader":
            self._finish(request, Failure(effect.reason, True, _NOT_CHANGED[effect.reason]))
        elif request.by_peer or request.reply == "notify":
            self._finish(request, self._not_leader())
        elif not request.answered:
            request.stage = "waiting"
            self._waiting[request.number] = request
            # The RoleChanged of the same event comes later: until then this node may pass for the leader, and would
            # refuse the request again.
            if self._leader != self._node:
                self._route(request)

    def dropped(self, effect: Dropped) -> None:
        """Leadership was lost after a command had been appended."""
        request: Pending = effect.ref
        if M31 in self._bugs and not request.by_peer and not request.answered:
            request.stage = "waiting"
            self._waiting[request.number] = request
            return
        detail = f"{self._node} lost leadership before the command was committed: it may have happened"
        self._finish(request, Failure("leadership_lost", M33 in self._bugs, detail))

    def overtaken(self, command: Propose) -> None:
        """Leadership was lost while a command of low priority waited for its turn."""
        reached("low command dropped")
        detail = f"{self._node} lost leadership before it put the command of low priority into its log"
        self._finish(command.ref, Failure("not_leader", True, detail, self._leader))

    # --- inside -----------------------------------------------------------------------------------------------

    def _new(
        self,
        body: Wanted | bytes,
        answer: Answering,
        *,
        by_peer: bool = False,
        reply: Reply = "leader",
        priority: Priority = "normal",
    ) -> Pending:
        self._last_number += 1
        return Pending(self._last_number, body, answer, by_peer=by_peer, reply=reply, priority=priority)

    def _cast(self, request: Pending) -> None:
        """Send what is never answered, or drop it."""
        request.by_peer = True
        if self._leader == self._node:
            self._propose(request)
        elif self._leader is None or not self._forward(request, self._leader):
            reached("command without a reply dropped")

    def _settle(self, request: Pending, outcome: Outcome, term: int, index: int) -> None:
        """The leader answered. Its client is answered when the member that is to reply has applied the entry, too."""
        replier = self._replier(request) if index else None
        if replier is None or replier == (request.asked or self._node):
            self._finish(request, outcome, term, index)
            return
        request.stage = "applying"
        request.settled = (term, outcome, index)
        request.asked = replier
        self._forwarded[request.number] = request
        if replier == self._node:
            reached("answer waited for this node")
            request.awaited = self._waits.add(index, term, lambda: self._finish(request, outcome, term, index))
        else:
            reached("answer waited for a member")
            question = Forward(self._life, request.number, AwaitEntry(index, term), self._group)
            self._links.send_if_up(replier, encode_peer(question))

    def _replier(self, request: Pending) -> NodeId | None:
        """The member that must have applied a command before it is answered; None if the leader is enough."""
        configuration = self._member.configuration
        match request.reply:
            case "local":
                return self._node if self._node in configuration.voters else None
            case FromMember(member):
                return member if member in configuration.members else None
            case _:
                return None

    def _is_refused_here(self, request: Pending) -> bool:
        """Whether this node, since it applies nothing more, has answered a read of its state."""
        if not self._member.is_outdated:
            return False
        # Nothing that it waits for would ever be applied, and what is applied may be as old as it likes.
        request.stage = "applying"
        if M30 in self._bugs:
            self._answer_here(request)
        else:
            reached("state of an outdated member refused")
            self._finish(request, outdated(node_of(self._node)))
        return True

    def _answering(self, body: Wanted, answer: Answering) -> Answering:
        """Who takes the answer; with M97 the first read of a query is passed on with the others of this node."""
        if M97 not in self._bugs or not isinstance(body, TransactRead):
            return answer
        here: list[Result] = []
        self._member.query(body, lambda result, _: here.append(result))
        return lambda term, outcome, index: answer(term, mixed(outcome, here), index)

    def _read_here(self, request: Pending, body: LocalQuery) -> None:
        request.stage = "applying"
        if body.after is None:
            self._answer_here(request)
        else:
            self._read_behind(request, *body.after)

    def _read_behind(self, request: Pending, index: int, term: int) -> None:
        request.stage = "applying"
        self._waiting[request.number] = request
        # What a fenced read saw is of the leader that it asked, which may not be the one of now.
        said_in = term if isinstance(request.body, FencedQuery) else None
        request.awaited = self._waits.add(index, term, lambda: self._answer_here(request, said_in))
        if not request.answered:
            reached("read waited for an entry")

    def _fenced(self, request: Pending, said: Forwarded) -> None:
        """The leader said what its last entry is, or that it does not lead."""
        if isinstance(said.outcome, wire.Appended):
            reached("fenced read asked another node")
            del self._forwarded[request.number]
            request.asked = None
            self._read_behind(request, said.index, said.term)
        else:
            self._finish(request, said.outcome, said.term)

    def _answer_here(self, request: Pending, term: int | None = None) -> None:
        self._member.query(request.query, lambda result, applied: self._finish(request, result, term, applied))

    def _route(self, request: Pending) -> None:
        # Only over a connection that is up: a frame in a queue could be sent after its client has the answer that the
        # request had no effect.
        leader, kind = self._leader, type(request.body)
        if kind in _STAYS_HERE or request.stage == "applying":
            return
        if kind is ForceShrinkMembers:
            del self._waiting[request.number]
            self._propose(request)
            return
        if leader is None:
            return
        if leader == self._node:
            if kind is FencedQuery:
                self._read_behind(request, *self._member.last_entry)
                return
            del self._waiting[request.number]
            self._propose(request)
        elif self._forward(request, leader):
            del self._waiting[request.number]
            request.stage = "forwarded"
            self._forwarded[request.number] = request

    def _forward(self, request: Pending, leader: NodeId) -> bool:
        """Pass a request on; whether that could be done."""
        body: Any = request.body
        assert type(body) not in _NEVER_PASSED_ON, "what concerns this node only was passed on"
        if type(body) is FencedQuery:
            body = AskForFence()
        reply: ForwardedReply = _FORWARDED_REPLIES.get(request.reply, "leader")
        frame = encode_peer(Forward(self._life, request.number, body, self._group, reply, request.priority))
        if not self._links.send_if_up(leader, frame):
            return False
        reached("request forwarded")
        request.asked = leader
        return True

    def _propose(self, request: Pending) -> None:
        # Before the event is handed in: from here on the command may be in the log, and a timeout is indefinite.
        request.stage = "proposed"
        body, kind = request.body, type(request.body)
        if kind in _QUERIES:
            mode = "lease" if self._reads_on_lease else "quorum"
            self._member.propose(Read(request, mode, self._clock.monotonic_ns()))
            return
        if kind in _COMMANDS:
            command = self._entry(body.data if kind is QueueOp else encode_command(body))  # pyright: ignore
            self._member.propose(Propose(request, command, request.reply == "after_log_append"), request.priority)
            return
        match body:
            case LeaderQuery():
                self._member.propose(Read(request, "leader"))
            case AddMember(member, role):
                self._member.propose(Change(request, self._known_as(member), joins=True, role=role or self._joins_as))
            case RemoveMember(member):
                self._member.propose(Change(request, self._known_as(member), joins=False))
            case TransferLeadership(member):
                self._member.propose(Transfer(request, member))
            case ForceShrinkMembers():
                self._member.propose(ForceShrink(request))
            case bytes() as command:
                self._member.propose(Propose(request, self._entry(command)))
            case _:
                raise AssertionError("what concerns one node only was proposed")

    def _entry(self, command: bytes) -> bytes:
        return command if self._in_log is None else self._in_log(command)

    def _known_as(self, member: NodeId) -> NodeId:
        return member if M51 not in self._bugs else node_of(member)

    def _time_out(self, request: Pending) -> None:
        body = request.body
        if isinstance(body, Query) and M82 in self._bugs and self._finds_a_majority_stopped():
            self._answer_here(request)
            return
        unchanged = request.is_query or M33 in self._bugs
        if request.stage == "applying":
            reached("entry not applied in time")
            failure = Failure("timeout", request.is_query, f"{self._node} did not apply the entry in time")
        elif request.stage == "writing":
            failure = Failure("timeout", False, f"{self._node} did not write its state in time, and may do so later")
        elif request.stage == "waiting":
            reached("request found no leader in time")
            failure = Failure("no_leader", True, f"{self._node} knew no leader that it could reach in time")
        elif request.stage == "proposed":
            reached("request got no majority in time")
            failure = Failure("timeout", unchanged, f"leader {self._node} got no majority in time")
        else:
            reached("forwarded request got no answer in time")
            failure = Failure("timeout", unchanged, f"{self._node} passed it on and got no answer in time")
        self._finish(request, failure)

    def _has_met_a_majority(self) -> bool:
        return 1 + sum(link.has_been_up for link in self._links) >= self._majority()

    def _finds_a_majority_stopped(self) -> bool:
        running = 1 + sum(not link.refused for link in self._links)
        return running < self._majority()

    def _majority(self) -> int:
        return quorum_of(1 + len(self._links), NO_BUGS)

    def _finish(self, request: Pending, outcome: Outcome, term: int | None = None, index: int = 0) -> None:
        if request.answered:
            return
        request.answered = True
        self._waiting.pop(request.number, None)
        self._forwarded.pop(request.number, None)
        if request.timer is not None:
            request.timer.cancel()
        if request.awaited:
            self._waits.forget(request.awaited)
        request.answer(self._member.term if term is None else term, outcome, index)

    def _not_leader(self) -> Failure:
        leader = self._leader if self._leader != self._node else None
        return Failure("not_leader", True, f"{self._node} does not lead", leader)


def _unheard(_term: int, _outcome: Outcome, _index: int) -> None:
    """Takes the answer to a request that wants none."""


def outdated(node: str) -> Failure:
    """Why a node that does not support the version in force answers nothing from its state (RA-43)."""
    detail = f"{node} does not support the state machine's version in force: start it with a later program"
    return Failure("unavailable", True, detail)

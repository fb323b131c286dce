"""What becomes of a client's request: to consensus here, on to the leader, or to wait until one is known.

A request is sent to the cluster at most once, by this node or by the leader that it was forwarded to: only a client
sends a command again, with a ref (RA-22, `splitbrain.cluster.dedup`), and what a network repeats is not looked at (see
`splitbrain.cluster.arrivals`). Until then every failure is definite. From then on a command that gets no answer in time
is indefinite. A query changes nothing, so that every failure of one is definite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias

from splitbrain.cluster.bugs import M30, M31, M33, M51, M81, M82, NO_BUGS, Bugs
from splitbrain.cluster.dedup import DropRefs, Protected, ref_problem
from splitbrain.cluster.links import Links
from splitbrain.cluster.marks import reached
from splitbrain.cluster.members import is_member_id, node_of
from splitbrain.cluster.raft.effects import Dropped, Rejected
from splitbrain.cluster.raft.events import Change, Event, ForceShrink, MemberRole, Propose, Read, Transfer
from splitbrain.cluster.raft.messages import NodeId
from splitbrain.cluster.raft.state import quorum_of
from splitbrain.cluster.runtime import Clock, Timer
from splitbrain.cluster.tree import (
    Children,
    Command,
    Done,
    Get,
    ManyNodesDenied,
    Properties,
    Put,
    Query,
    Result,
    encode_command,
    is_pattern,
)
from splitbrain.cluster.waits import Waits
from splitbrain.cluster.wire import (
    AddMember,
    Failure,
    ForceShrinkMembers,
    Forward,
    Forwarded,
    LeaderQuery,
    LocalQuery,
    MemberChange,
    MemberList,
    Outcome,
    RemoveMember,
    ReplyFrom,
    StateRequest,
    TakeCheckpoint,
    TakeSnapshot,
    TransferLeadership,
    encode_peer,
)

_MS: Final = 1_000_000
MAX_PENDING: Final = 4096
MAX_TIMEOUT_MS: Final = 3_600_000
MAX_DEPTH: Final = 64
MAX_NAME_LENGTH: Final = 255

Forwardable: TypeAlias = Command | Protected | Query | LeaderQuery | MemberChange
Wanted: TypeAlias = Forwardable | LocalQuery | ForceShrinkMembers | StateRequest

_NOT_CHANGED: Final[Mapping[str, str]] = {
    "change_not_permitted": "the change before it, or the first entry of the leader's term, is uncommitted: try again",
    "already_member": "it is a member",
    "was_member": "it was a member before, and its data may be lost: let its node join with the next incarnation",
    "not_member": "it is no member",
    "last_member": "no voter would be left",
    "non_voter": "it does not vote: let it catch up first",
    "not_up_to_date": "it lacks entries: try again",
    "version_not_supported": "it does not support the state machine's version in force: start it with a later program",
}

Answering: TypeAlias = Callable[[int, Outcome, int], None]
"""Takes the term in which an answer is given, the answer, and the index to which it belongs (`wire.Answer`)."""


class Pending:
    """A request that was not answered yet. Consensus carries it as a `ref`."""

    __slots__ = ("answer", "answered", "body", "by_peer", "number", "reply_from", "stage", "timer")

    def __init__(
        self,
        number: int,
        body: Wanted | DropRefs,
        answer: Answering,
        *,
        by_peer: bool,
        reply_from: ReplyFrom = "leader",
    ) -> None:
        self.number = number
        self.body = body
        self.answer = answer
        self.by_peer = by_peer
        self.reply_from: ReplyFrom = reply_from
        self.stage: Literal["waiting", "proposed", "forwarded", "applying", "writing"] = "waiting"
        self.timer: Timer | None = None
        self.answered = False

    @property
    def is_query(self) -> bool:
        """Whether it changes nothing."""
        return isinstance(self.body, Get | Children | LocalQuery | LeaderQuery)

    @property
    def query(self) -> Query:
        """What it asks; it must be a query."""
        body = self.body.query if isinstance(self.body, LocalQuery | LeaderQuery) else self.body
        assert isinstance(body, Get | Children), "a command was read"
        return body


class Requests:
    """The requests to one group that are under way in one node."""

    def __init__(
        self,
        group: str,
        member: NodeId,
        life: int,
        clock: Clock,
        links: Links,
        submit: Callable[[Event], None],
        term: Callable[[], int],
        query: Callable[[Query], tuple[Result, int]],
        waits: Waits,
        write_state: Callable[[StateRequest, Callable[[Outcome], None]], None],
        *,
        is_outdated: Callable[[], bool] = lambda: False,
        reads_on_lease: bool = False,
        learners_first: bool = False,
        bugs: Bugs = NO_BUGS,
    ) -> None:
        """`life` distinguishes this process from the node's earlier ones; `submit` passes an event to consensus.

        `query` answers from what this node has applied, and says up to which index that is; without consensus it proves
        nothing. `waits` are those for entries to be applied here.
        `write_state` has what is applied here written down, and passes on what came of it.
        `is_outdated` says whether this node applies nothing more, since it lacks the version in force.
        """
        self._group = group
        self._node = member
        self._life = life
        self._clock = clock
        self._links = links
        self._submit = submit
        self._term = term
        self._query = query
        self._waits = waits
        self._write_state = write_state
        self._is_outdated = is_outdated
        self._reads_on_lease = reads_on_lease
        self._joins_as: MemberRole = "promotable" if learners_first else "voter"
        self._bugs = bugs
        self._leader: str | None = None
        self._last_number = 0
        self._waiting: dict[int, Pending] = {}
        self._forwarded: dict[int, Pending] = {}

    # --- what comes in ----------------------------------------------------------------------------------------

    def from_client(self, body: Wanted, timeout_ms: int, answer: Answering, reply_from: ReplyFrom = "leader") -> None:
        """A client of this node wants something; `answer` is called once, now or later."""
        refusal = self._refusal(body, timeout_ms)
        if refusal is not None:
            answer(self._term(), refusal, 0)
            return
        if len(self._waiting) + len(self._forwarded) >= MAX_PENDING:
            detail = f"{self._node} has {MAX_PENDING} requests under way: try again later"
            answer(self._term(), Failure("busy", True, detail), 0)
            return
        request = self._new(body, answer, reply_from=reply_from)
        request.timer = self._clock.call_later(timeout_ms * _MS, lambda: self._time_out(request))
        self._waiting[request.number] = request
        if isinstance(body, LocalQuery):
            self._read_here(request, body)
            return
        if isinstance(body, TakeSnapshot | TakeCheckpoint):
            request.stage = "writing"
            self._write_state(body, lambda outcome: self._finish(request, outcome))
            return
        self._route(request)
        if request.stage == "waiting":
            reached("request waited for a leader")
            if isinstance(body, Put) and M81 in self._bugs and self._has_met_a_majority():
                self._finish(request, Done(Properties(body.payload, 1, 1, 0)))

    def from_peer(self, body: Forwardable, answer: Answering) -> None:
        """A peer passes on a request, because it takes this node for the leader. It is never passed on again."""
        refusal = self._refusal(body, 1)
        if refusal is not None:
            answer(self._term(), refusal, 0)
        elif self._leader != self._node:
            reached("forward refused")
            answer(self._term(), self._not_leader(), 0)
        else:
            # No timer here: the node that passed it on has one, and answers its client.
            self._propose(self._new(body, answer, by_peer=True))

    def from_node(self, command: DropRefs, answered: Callable[[], None]) -> None:
        """This node, which leads, wants something itself."""
        # As if it came from a peer: it is not tried again with another leader.
        self._propose(self._new(command, lambda _term, _outcome, _index: answered(), by_peer=True))

    def answered_by_peer(self, message: Forwarded) -> None:
        """The answer to a request that was passed on. One that comes too late, or for an earlier life, is ignored."""
        request = self._forwarded.get(message.ref) if message.life == self._life else None
        if request is None:
            return
        if request.reply_from == "leader" or not message.index or request.is_query:
            self._finish(request, message.outcome, message.term, message.index)
            return
        reached("answer waited for this node")
        request.stage = "applying"
        self._waits.add(
            message.index,
            message.term,
            lambda: self._finish(request, message.outcome, message.term, message.index),
        )

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

    def done(self, request: Pending, result: Result | MemberList, index: int) -> None:
        """The request was carried out by the entry of this index, or when everything up to there was applied."""
        self._finish(request, result, index=index)

    def rejected(self, effect: Rejected) -> None:
        """Consensus refused a request: it had no effect, and may still go to another leader if it is our client's."""
        request: Pending = effect.ref
        if effect.reason == "busy":
            reached("leader was busy")
            self._finish(request, Failure("busy", True, f"leader {self._node} has too much under way: try again later"))
        elif effect.reason != "not_leader":
            self._finish(request, Failure(effect.reason, True, _NOT_CHANGED[effect.reason]))
        elif request.by_peer:
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

    # --- inside -----------------------------------------------------------------------------------------------

    def _new(
        self, body: Wanted | DropRefs, answer: Answering, *, by_peer: bool = False, reply_from: ReplyFrom = "leader"
    ) -> Pending:
        self._last_number += 1
        return Pending(self._last_number, body, answer, by_peer=by_peer, reply_from=reply_from)

    def _read_here(self, request: Pending, body: LocalQuery) -> None:
        request.stage = "applying"
        if self._is_outdated():
            # Nothing that it waits for would ever be applied, and what is applied may be as old as it likes.
            if M30 in self._bugs:
                self._answer_here(request)
            else:
                reached("state of an outdated member refused")
                self._finish(request, outdated(node_of(self._node)))
            return
        if body.after is None:
            self._answer_here(request)
            return
        self._waits.add(*body.after, lambda: self._answer_here(request))
        if not request.answered:
            reached("read waited for an entry")

    def _answer_here(self, request: Pending) -> None:
        result, applied = self._query(request.query)
        self._finish(request, result, index=applied)

    def _route(self, request: Pending) -> None:
        # Only over a connection that is up: a frame in a queue could be sent after its client has the answer that the
        # request had no effect.
        leader, body = self._leader, request.body
        if isinstance(body, LocalQuery | TakeSnapshot | TakeCheckpoint):
            return
        if isinstance(body, ForceShrinkMembers):
            del self._waiting[request.number]
            self._propose(request)
            return
        if leader is None:
            return
        assert not isinstance(body, DropRefs), "what a leader wants itself is never passed on"
        if leader == self._node:
            del self._waiting[request.number]
            self._propose(request)
        elif self._links.send_if_up(leader, encode_peer(Forward(self._life, request.number, body, self._group))):
            del self._waiting[request.number]
            reached("request forwarded")
            request.stage = "forwarded"
            self._forwarded[request.number] = request

    def _propose(self, request: Pending) -> None:
        # Before the event is handed in: from here on the command may be in the log, and a timeout is indefinite.
        request.stage = "proposed"
        match request.body:
            case Get() | Children():
                self._submit(Read(request, "lease" if self._reads_on_lease else "quorum", self._clock.monotonic_ns()))
            case LeaderQuery():
                self._submit(Read(request, "leader"))
            case AddMember(member, role):
                self._submit(Change(request, self._known_as(member), joins=True, role=role or self._joins_as))
            case RemoveMember(member):
                self._submit(Change(request, self._known_as(member), joins=False))
            case TransferLeadership(member):
                self._submit(Transfer(request, member))
            case ForceShrinkMembers():
                self._submit(ForceShrink(request))
            case LocalQuery() | TakeSnapshot() | TakeCheckpoint():
                raise AssertionError("what concerns one node only was proposed")
            case command:
                self._submit(Propose(request, encode_command(command)))

    def _known_as(self, member: NodeId) -> NodeId:
        return member if M51 not in self._bugs else node_of(member)

    def _time_out(self, request: Pending) -> None:
        body = request.body
        if isinstance(body, Get | Children) and M82 in self._bugs and self._finds_a_majority_stopped():
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
        request.answer(self._term() if term is None else term, outcome, index)

    def _refusal(self, body: Wanted, timeout_ms: int) -> Outcome | None:
        """Why a request is not even looked at, None if it is in order."""
        if not 0 < timeout_ms <= MAX_TIMEOUT_MS:
            return _invalid(f"the timeout must be 1 to {MAX_TIMEOUT_MS} ms, not {timeout_ms}")
        if isinstance(body, ForceShrinkMembers | TakeSnapshot | TakeCheckpoint):
            return None
        if isinstance(body, LocalQuery | LeaderQuery):
            return _path_refusal(body.query)
        if isinstance(body, Protected):
            problem = ref_problem(body.ref)
            return _path_refusal(body.command) if problem is None else _invalid(problem)
        if not isinstance(body, AddMember | RemoveMember | TransferLeadership):
            return _path_refusal(body)
        if not is_member_id(body.member):
            return _invalid(f"{body.member!r} is no id of a member: it is NAME, or NAME#N with N from 1 on")
        if isinstance(body, AddMember) and body.member != self._node and not self._links.knows(body.member):
            return _invalid(f"{self._node} has no address of {body.member}: start all members with --peer for its node")
        return None

    def _not_leader(self) -> Failure:
        return Failure("not_leader", True, f"{self._node} does not lead")


def outdated(node: str) -> Failure:
    """Why a node that does not support the version in force answers nothing from its state (RA-43)."""
    detail = f"{node} does not support the state machine's version in force: start it with a later program"
    return Failure("unavailable", True, detail)


def _path_refusal(body: Command | Query) -> Outcome | None:
    path = body.path
    if is_pattern(path):
        return ManyNodesDenied(path)
    if len(path) > MAX_DEPTH:
        return _invalid(f"a path has at most {MAX_DEPTH} names, not {len(path)}")
    for name in path:
        if not name or "/" in name or len(name) > MAX_NAME_LENGTH:
            return _invalid(f"a name has 1 to {MAX_NAME_LENGTH} characters and no slash")
    return None


def _invalid(detail: str) -> Failure:
    return Failure("invalid_request", True, detail)

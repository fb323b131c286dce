"""Which requests are not even looked at, because they make no sense."""

from __future__ import annotations

from typing import Final, get_args

from splitbrain.cluster.dedup import Protected, ref_problem
from splitbrain.cluster.groupnames import STREAM_COORDINATOR, is_queue_group
from splitbrain.cluster.links import Links
from splitbrain.cluster.members import is_member_id
from splitbrain.cluster.pending import Reply, Wanted
from splitbrain.cluster.queuegroups.log import problem_of
from splitbrain.cluster.raft.messages import NodeId
from splitbrain.cluster.streams import commands as of_streams
from splitbrain.cluster.tree import (
    MAX_DEPTH,
    MAX_NAME_LENGTH,
    Command,
    ManyNodesDenied,
    PlainCommand,
    PlainQuery,
    Query,
    is_pattern,
    pattern_problem,
)
from splitbrain.cluster.wire import (
    AddMember,
    AskForFence,
    AwaitEntry,
    Failure,
    FencedQuery,
    ForceShrinkMembers,
    FromMember,
    LeaderQuery,
    LocalQuery,
    Outcome,
    QueueOp,
    RemoveMember,
    TakeCheckpoint,
    TakeSnapshot,
    TransferLeadership,
)

MAX_TIMEOUT_MS: Final = 3_600_000

REPLY_MODES: Final = ("leader", "local", "after_log_append", "notify", "noreply")
"""Those of `wire.ReplyMode` without an argument."""

_COMMANDS: Final = (*get_args(Command), Protected, QueueOp)

_PLAIN: Final = frozenset((*get_args(PlainCommand), *get_args(PlainQuery)))
"""Most requests are these. Looked up by type: a single `isinstance` to which a struct says no costs as much."""


class Admission:
    """What a node takes from clients and peers.

    Args:
        member: this node's id.
        links: to the other nodes.
        group: that the requests are for.
    """

    def __init__(self, member: NodeId, links: Links, group: str) -> None:
        self._member = member
        self._links = links
        self._is_queue = is_queue_group(group)
        self._is_of_streams = group == STREAM_COORDINATOR

    def refusal(self, body: Wanted, timeout_ms: int, reply: Reply) -> Outcome | None:
        """Why a request is refused, None if it is in order."""
        if not 0 < timeout_ms <= MAX_TIMEOUT_MS:
            return _invalid(f"the timeout must be 1 to {MAX_TIMEOUT_MS} ms, not {timeout_ms}")
        if reply != "leader":
            problem = _reply_problem(body, reply)
            if problem is not None:
                return Failure("invalid_reply_mode", True, problem)
        if type(body) in _PLAIN:
            return _plain_refusal(body)  # pyright: ignore[reportArgumentType]
        match body:
            case ForceShrinkMembers() | TakeSnapshot() | TakeCheckpoint() | AwaitEntry() | AskForFence():
                return None
            case LocalQuery() | LeaderQuery() | FencedQuery():
                return _path_refusal(body.query)
            case Protected(ref, command):
                problem = ref_problem(ref)
                return _path_refusal(command) if problem is None else _invalid(problem)
            case QueueOp(data):
                problem = self._problem_of(data)
                return None if problem is None else _invalid(problem)
            case AddMember() | RemoveMember() | TransferLeadership():
                return self._member_refusal(body)
            case _:
                return _path_refusal(body)

    def _problem_of(self, data: bytes) -> str | None:
        if self._is_of_streams:
            return of_streams.problem_of(data)
        return problem_of(data) if self._is_queue else "this group is no queue"

    def _member_refusal(self, body: AddMember | RemoveMember | TransferLeadership) -> Outcome | None:
        member = body.member
        if not is_member_id(member):
            return _invalid(f"{member!r} is no id of a member: it is NAME, or NAME#N with N from 1 on")
        if isinstance(body, AddMember) and member != self._member and not self._links.knows(member):
            return _invalid(f"{self._member} has no address of {member}: start all members with --peer for its node")
        return None


def _reply_problem(body: Wanted, reply: Reply) -> str | None:
    if isinstance(reply, FromMember):
        if not is_member_id(reply.member):
            return f"{reply.member!r} is no id of a member: it is NAME, or NAME#N with N from 1 on"
    elif reply not in REPLY_MODES:
        return f"there is no reply mode {reply!r}, only {', '.join(REPLY_MODES)}, and that of a member"
    if not isinstance(body, _COMMANDS):
        return "reply modes are for commands: everything else is answered by the node that carries it out"
    return None


def _path_refusal(body: Command | Query) -> Outcome | None:
    if type(body) in _PLAIN:
        return _plain_refusal(body)  # pyright: ignore[reportArgumentType]
    problem = pattern_problem(getattr(body, "path", None) or ())  # a transaction has none
    return None if problem is None else _invalid(problem)


def _plain_refusal(body: PlainCommand | PlainQuery) -> Outcome | None:
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

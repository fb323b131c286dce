"""The client of the metadata cluster: one connection to one node, many requests in flight on it.

It neither redirects, nor fails over, nor sends anything twice: a request that got no answer raises an error, and
`error.definite` says whether it is certain that it did not happen. A caller may send a command again: with a `ref` it
is carried out once, however often it arrives (`splitbrain.cluster.retry`). Keeping time is the node's business: it
answers each request within the timeout that came with it. A node that is paused or cut off does not answer at all: a
caller that must go on sets its own deadline, and treats a request that misses it as indefinite.

    client = await connect(sock)
    await client.put("/vhosts/main", {"tracing": False})
    node = await client.get("/vhosts/main")     # node.value, node.payload_version, node.term, ...

Values are what msgpack can carry. They are encoded with sorted keys: equal values are equal payloads, which is what
`compare_and_swap` compares.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast, get_args

import msgspec

from splitbrain.cluster import tree
from splitbrain.cluster.bugs import ALL
from splitbrain.cluster.channel import Channel, MessageConnection
from splitbrain.cluster.dedup import Protected, Ref
from splitbrain.cluster.errors import (
    ChangeRefusedError,
    ClientError,
    ClusterError,
    InvalidPathError,
    InvalidRequestError,
    NodeNotFoundError,
    OutcomeUnknownError,
    PossiblyMatchingManyNodesDeniedError,
    RefusedError,
    UnavailableError,
)
from splitbrain.cluster.groupnames import METADATA
from splitbrain.cluster.members import incarnation_of, member_id, node_of
from splitbrain.cluster.raft.effects import TransferRefusal
from splitbrain.cluster.raft.events import MemberRole
from splitbrain.cluster.raft.membership import ChangeRefusal
from splitbrain.cluster.retry import Refs, retrying
from splitbrain.cluster.stream import StreamConnection
from splitbrain.cluster.tree import Properties, format_path, parse_path
from splitbrain.cluster.wire import (
    AddMember,
    Answer,
    Body,
    DeleteGroup,
    Failure,
    ForceShrinkMembers,
    GroupList,
    GroupsQuery,
    LeaderQuery,
    LocalQuery,
    MemberList,
    MembersQuery,
    Outcome,
    RemoveMember,
    ReplyFrom,
    StartGroup,
    StateRequest,
    StateWritten,
    Status,
    StatusQuery,
    TakeCheckpoint,
    TakeSnapshot,
    TransferLeadership,
)

if TYPE_CHECKING:
    import socket  # noqa: TID251 - for the type of a dialled connection; nothing here opens one

__all__ = [
    "BUGS",
    "ChangeRefusedError",
    "Client",
    "ClientError",
    "ClusterError",
    "InvalidPathError",
    "InvalidRequestError",
    "MemberRole",
    "MismatchingNodeError",
    "Names",
    "NodeNotFoundError",
    "NodeStatus",
    "OutcomeUnknownError",
    "PossiblyMatchingManyNodesDeniedError",
    "Properties",
    "ReadMode",
    "Ref",
    "Refs",
    "RefusedError",
    "ReplyFrom",
    "TreeNode",
    "UnavailableError",
    "WrittenState",
    "connect",
    "incarnation_of",
    "member_id",
    "node_of",
    "retrying",
]

BUGS: Final[Mapping[str, str]] = {
    bug.id: f"{bug.line} ({bug.source}); seen by {', '.join(bug.seen_by)}" for bug in ALL.values()
}
"""What a node's `--bugs` takes: what is broken, its source, and the checkers that can see it."""

DEFAULT_TIMEOUT_MS: Final = 5000

ReadMode: TypeAlias = Literal["consistent", "leader", "local"]
"""What a read promises. "consistent": it is linearizable (RA-27). "leader": a node answers that takes itself for the
leader; stale where there is another one (RA-26). "local": the node that is asked answers from what it has applied
(RA-25)."""

_REFUSALS: Final = (*get_args(ChangeRefusal), *get_args(TransferRefusal))


class MismatchingNodeError(RefusedError):
    """The tree node at the path does not meet the condition of the request.

    Attributes:
        properties: what was found there instead.
    """

    def __init__(self, message: str, term: int | None, properties: Properties) -> None:
        super().__init__(message, term)
        self.properties = properties


class TreeNode(msgspec.Struct, frozen=True):
    """A tree node as it was when the request was carried out.

    Attributes:
        term: the term in which the answer was given; of a command, that of its entry.
        value: the payload; None where there is none.
        has_payload: whether there is a payload, which may be None.
        payload_version: counts changes of the payload, from 1.
        child_list_version: counts commands that added or removed direct children, from 1.
        child_list_length: the number of direct children.
        index: of the entry of a command in the log; of a query, how far the node that answered had applied the log.
    """

    term: int
    value: Any
    has_payload: bool
    payload_version: int
    child_list_version: int
    child_list_length: int
    index: int = 0


class Names(msgspec.Struct, frozen=True):
    """Names of a tree node's direct children, sorted, and the term in which the answer was given."""

    term: int
    names: tuple[str, ...]


class NodeStatus(msgspec.Struct, frozen=True):
    """What a node of the cluster says of itself (see `splitbrain.cluster.wire.Status`, which has the same fields)."""

    node: str
    role: str
    term: int
    leader: str | None
    commit_index: int
    applied_index: int
    chain_hash: str
    state_hash: str
    machine_version: int = 1
    supported_version: int = 1
    outdated: bool = False


class WrittenState(msgspec.Struct, frozen=True):
    """A snapshot or checkpoint that a node has: index and term of the last entry in it."""

    index: int
    term: int


async def connect(endpoint: socket.socket | MessageConnection) -> Client:
    """A client on a connection that is already made: a connected non-blocking TCP socket, or a message connection.

    The client owns it from now on.

    Raises:
        UnavailableError: the connection is gone already.
    """
    if hasattr(endpoint, "receive"):
        return Client(Channel(cast(MessageConnection, endpoint)))
    sock = cast("socket.socket", endpoint)
    try:
        _, connection = await asyncio.get_running_loop().create_connection(StreamConnection, sock=sock)
    except OSError as error:
        raise UnavailableError(f"the connection cannot be used: {error}.") from error
    return Client(Channel(connection))


class Client:
    """A connection to one node. Made by `connect`, inside a running event loop.

    Every request raises a `ClientError` if it got no result; paths are text ("/a/b/c"). A command with a `ref` is
    carried out once, however often it is sent, and answered each time with the result of the first time.
    """

    def __init__(self, channel: Channel, group: str = METADATA) -> None:
        self._channel = channel
        self._group = group
        self._encoder = msgspec.msgpack.Encoder(order="deterministic")
        self._decoder = msgspec.msgpack.Decoder()

    def of_group(self, name: str) -> Client:
        """The same connection, for requests to another group; to close one is to close both."""
        return Client(self._channel, name)

    async def start_group(self, name: str, founders: Sequence[str]) -> tuple[str, ...]:
        """Have this node take part in a group from now on; the groups that it is in. Each founder must be asked so.

        Args:
            name: of the group.
            founders: ids of the members with which it begins, the same on all of them.
        """
        return (await self._groups(name, StartGroup(tuple(founders)))).groups

    async def delete_group(self, name: str) -> tuple[str, ...]:
        """Have this node forget its member of a group, with all its data; the groups that are left here."""
        return (await self._groups(name, DeleteGroup())).groups

    async def groups(self) -> tuple[str, ...]:
        """The groups that this node takes part in."""
        return (await self._groups(METADATA, GroupsQuery())).groups

    async def stopped_groups(self) -> Mapping[str, str]:
        """The groups whose member stopped here, because something happened that their rules exclude; and what."""
        return (await self._groups(METADATA, GroupsQuery())).failed

    async def get(
        self,
        path: str,
        *,
        mode: ReadMode = "consistent",
        after: tuple[int, int] | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> TreeNode:
        """The tree node at `path`.

        Args:
            path: as text.
            mode: what the answer promises (`ReadMode`).
            after: of a local read, index and term of a command that was answered (`TreeNode`): the node has it applied
                before it answers.
            timeout_ms: after so long the node gives up.

        Raises:
            NodeNotFoundError: there is none.
            InvalidRequestError: `after` makes no sense here.
        """
        return await self._tree_node(_in_mode(tree.Get(parse_path(path)), mode, after), timeout_ms)

    async def children(
        self,
        path: str,
        *,
        mode: ReadMode = "consistent",
        after: tuple[int, int] | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> Names:
        """Names of the direct children of the tree node at `path`; arguments and errors as of `get`."""
        answer = await self._ask(_in_mode(tree.Children(parse_path(path)), mode, after), timeout_ms)
        match answer.outcome:
            case tree.Names(names):
                return Names(answer.term, names)
            case _:
                raise _error(answer.outcome, answer.term)

    async def projected(self, projection: str, path: str) -> TreeNode:
        """The record of a tree node in a projection, as the node that is asked holds it: at once, and maybe old.

        It is never older than what this node has shown before, also if it was started again meanwhile (KH-15).

        Raises:
            NodeNotFoundError: it holds no record of that path.
            UnavailableError: the node has not caught up since it started; ask again.
        """
        return await self._tree_node(tree.Project(projection, parse_path(path)), DEFAULT_TIMEOUT_MS)

    async def put(
        self,
        path: str,
        value: Any,
        *,
        ref: Ref | None = None,
        reply_from: ReplyFrom = "leader",
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> TreeNode:
        """Set the payload, creating the tree node and its missing parents if there is none; the node afterwards.

        With `reply_from="local"` the answer comes once the node of this client has applied it, too: a local read there
        then sees it (RA-20).
        """
        put = tree.Put(parse_path(path), self._encoder.encode(value))
        return await self._changed(put, ref, timeout_ms, reply_from)

    async def create(
        self, path: str, value: Any, *, ref: Ref | None = None, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> TreeNode:
        """Put, if the tree node does not exist.

        Raises:
            MismatchingNodeError: it exists.
        """
        return await self._changed(tree.Create(parse_path(path), self._encoder.encode(value)), ref, timeout_ms)

    async def update(
        self, path: str, value: Any, *, ref: Ref | None = None, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> TreeNode:
        """Put, if the tree node exists.

        Raises:
            NodeNotFoundError: it does not.
        """
        return await self._changed(tree.Update(parse_path(path), self._encoder.encode(value)), ref, timeout_ms)

    async def compare_and_swap(
        self, path: str, expected: Any, value: Any, *, ref: Ref | None = None, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> TreeNode:
        """Put, if the tree node exists and holds exactly `expected`.

        Raises:
            NodeNotFoundError: it does not exist.
            MismatchingNodeError: it holds something else.
        """
        encode = self._encoder.encode
        command = tree.CompareAndSwap(parse_path(path), encode(expected), encode(value))
        return await self._changed(command, ref, timeout_ms)

    async def increment(
        self, path: str, by: int = 1, *, ref: Ref | None = None, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> TreeNode:
        """Add to a whole number; a missing tree node counts as 0. The node afterwards, with the sum as its value.

        Raises:
            MismatchingNodeError: what the tree node holds is no whole number.
            InvalidRequestError: `by`, or the sum, has more than 64 bits.
        """
        if not -(2**63) <= by < 2**63:
            raise InvalidRequestError(f"{by} cannot be added: it has more than 64 bits.")
        return await self._changed(tree.Increment(parse_path(path), by), ref, timeout_ms)

    async def delete(self, path: str, *, ref: Ref | None = None, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> int:
        """Remove the tree node and all below it; no error if there is none. The term in which it was answered."""
        answer = await self._ask(_once(tree.Delete(parse_path(path)), ref), timeout_ms)
        if not isinstance(answer.outcome, tree.Done):
            raise _error(answer.outcome, answer.term)
        return answer.term

    async def members(self, *, learners: bool = False) -> tuple[str, ...]:
        """Ids of the voters of the configuration that the node has in force, at once; it may not be committed.

        With `learners` those of all members.
        """
        found = await self._members(MembersQuery(), DEFAULT_TIMEOUT_MS)
        return found.members if not learners else (*found.members, *found.learners)

    async def learners(self) -> tuple[str, ...]:
        """Ids of the members in that configuration which do not vote."""
        return (await self._members(MembersQuery(), DEFAULT_TIMEOUT_MS)).learners

    async def add_member(
        self, member: str, *, role: MemberRole | None = None, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> tuple[str, ...]:
        """Have a node taken in, as the member of this id (see `splitbrain.cluster.members`); the voters afterwards.

        A promotable member becomes a voter later, once it has what is in the log now; a learner never, unless it is
        added again as a voter. Without a role it is a voter, or promotable where nodes are started with learners-first.

        Raises:
            ChangeRefusedError: its `reason` is "change_not_permitted", "already_member" or "was_member".
        """
        return (await self._members(AddMember(member, role), timeout_ms)).members

    async def remove_member(self, member: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> tuple[str, ...]:
        """Have the member of this id leave for ever; the voters afterwards.

        Raises:
            ChangeRefusedError: its `reason` is "change_not_permitted", "not_member" or "last_member".
        """
        return (await self._members(RemoveMember(member), timeout_ms)).members

    async def transfer_leadership(self, member: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        """Have the leader ask another member to stand for election at once; returns when it was asked (RA-31).

        It is usually elected within one round trip, and not at all if it was cut off: `status` shows it.

        Raises:
            ChangeRefusedError: its `reason` is "not_member", "non_voter", "not_up_to_date" or "version_not_supported".
        """
        await self._members(TransferLeadership(member), timeout_ms)

    async def force_shrink(self, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> tuple[str, ...]:
        """Make this node the only member, at once: for a majority that is lost for ever (RA-32).

        What only the others have is lost. They must never run again with their data: there would be two clusters.

        Raises:
            ChangeRefusedError: its `reason` is "version_not_supported": start the node with a later program first.
        """
        return (await self._members(ForceShrinkMembers(), timeout_ms)).members

    async def snapshot(self, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> WrittenState:
        """Have this node write a snapshot of what it has applied now; it is durable when this returns (RA-37).

        The node needs its log before it no more. A snapshot of the same entry that is there already is as good.

        Raises:
            UnavailableError: another snapshot is being written: try again.
            InvalidRequestError: nothing is applied yet.
        """
        return await self._written(TakeSnapshot(), timeout_ms)

    async def checkpoint(self, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> WrittenState:
        """Have this node write a checkpoint of what it has applied now: not synced, and the log stays (RA-38).

        Raises:
            UnavailableError: a snapshot is being written, or the last entry is not durable here yet: try again.
            InvalidRequestError: nothing is applied yet.
        """
        return await self._written(TakeCheckpoint(), timeout_ms)

    async def status(self) -> NodeStatus:
        """What the node says of itself, at once; needs no leader and no majority."""
        answer = await self._ask(StatusQuery(), DEFAULT_TIMEOUT_MS)
        match answer.outcome:
            case Status() as said:
                return NodeStatus(*msgspec.structs.astuple(said))
            case _:
                raise _error(answer.outcome, answer.term)

    def abort(self) -> None:
        """Drop the connection. Requests in flight fail as indefinite."""
        self._channel.abort()

    async def close(self) -> None:
        """Drop the connection, and return when everything in flight has failed."""
        await self._channel.close()

    # --- inside -----------------------------------------------------------------------------------------------

    async def _members(self, body: Body, timeout_ms: int) -> MemberList:
        answer = await self._ask(body, timeout_ms)
        if not isinstance(answer.outcome, MemberList):
            raise _error(answer.outcome, answer.term)
        return answer.outcome

    async def _changed(
        self, command: tree.Command, ref: Ref | None, timeout_ms: int, reply_from: ReplyFrom = "leader"
    ) -> TreeNode:
        return await self._tree_node(_once(command, ref), timeout_ms, reply_from)

    async def _written(self, body: StateRequest, timeout_ms: int) -> WrittenState:
        answer = await self._ask(body, timeout_ms)
        match answer.outcome:
            case StateWritten(index, term):
                return WrittenState(index, term)
            case _:
                raise _error(answer.outcome, answer.term)

    async def _tree_node(self, body: Body, timeout_ms: int, reply_from: ReplyFrom = "leader") -> TreeNode:
        answer = await self._ask(body, timeout_ms, reply_from)
        match answer.outcome:
            case tree.Done(Properties() as properties):
                return self._decoded(answer, properties)
            case _:
                raise _error(answer.outcome, answer.term)

    def _decoded(self, answer: Answer, properties: Properties) -> TreeNode:
        payload = properties.payload
        return TreeNode(
            answer.term,
            None if payload is None else self._decoder.decode(payload),
            payload is not None,
            properties.payload_version,
            properties.child_list_version,
            properties.child_list_length,
            answer.index,
        )

    async def _groups(self, name: str, body: Body) -> GroupList:
        answer = await self._channel.ask(body, DEFAULT_TIMEOUT_MS, group=name)
        if not isinstance(answer.outcome, GroupList):
            raise _error(answer.outcome, answer.term)
        return answer.outcome

    async def _ask(self, body: Body, timeout_ms: int, reply_from: ReplyFrom = "leader") -> Answer:
        return await self._channel.ask(body, timeout_ms, reply_from, self._group)


def _in_mode(query: tree.Query, mode: ReadMode, after: tuple[int, int] | None) -> Body:
    if after is not None and mode != "local":
        raise InvalidRequestError("after is for local reads: others see every command that was answered before them.")
    match mode:
        case "local":
            return LocalQuery(query, after)
        case "leader":
            return LeaderQuery(query)
        case "consistent":
            return query


def _once(command: tree.Command, ref: Ref | None) -> Body:
    return command if ref is None else Protected(ref, command)


def _error(outcome: Outcome, term: int) -> ClientError:
    """What a client raises for an answer that is no result."""
    match outcome:
        case tree.NodeNotFound(path):
            return NodeNotFoundError(f"node_not_found: there is no tree node {format_path(path)}.", term)
        case tree.MismatchingNode(path, properties):
            message = f"mismatching_node: {format_path(path)} (payload version {properties.payload_version})."
            return MismatchingNodeError(message, term, properties)
        case tree.ManyNodesDenied(path):
            message = f"possibly_matching_many_nodes_denied: {format_path(path)} may match many tree nodes."
            return PossiblyMatchingManyNodesDeniedError(message, term)
        case tree.InvalidCommand(problem):
            return InvalidRequestError(f"invalid_command: {problem}.", term)
        case tree.Forgotten(number):
            message = f"forgotten: result {number} of this client is kept no more, as a later ref says it may go."
            return OutcomeUnknownError(message, term)
        case tree.TooManyRefs(limit):
            message = f"too_many_refs: the cluster keeps results of {limit} at most: try again later, or without a ref."
            return UnavailableError(message, term)
        case Failure(reason, definite, detail):
            if not definite:
                return OutcomeUnknownError(f"{reason}: {detail}.", term)
            if reason == "invalid_request":
                return InvalidRequestError(f"{reason}: {detail}.", term)
            if reason in _REFUSALS:
                return ChangeRefusedError(f"{reason}: {detail}.", term, reason)
            return UnavailableError(f"{reason}: {detail}.", term)
        case _:
            return OutcomeUnknownError(f"the answer does not fit the request: {type(outcome).__name__}.", term)

"""What goes over a node's port: first a hello that says who calls, then requests and answers, or what peers say.

A client sends `Request`s and gets an `Answer` with the same id for each, in any order. Peers send frames of one byte of
kind and a body; an empty frame is a sign of life. A node sends to a peer only on the connection that it dialled itself,
answers to forwarded requests included, so one connection is one directed link.

A network may lose, repeat or reorder messages within a connection, too. What comes instead of a hello, or a hello that
comes late, makes no sense where it stands and ends the connection; consensus stands all of it; requests carry numbers.

Everything is msgpack; structures are arrays, to which fields with a default may be appended later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias, TypeVar, get_args

import msgspec

from splitbrain.cluster.dedup import Protected, Ref
from splitbrain.cluster.flags.effects import Failed
from splitbrain.cluster.flags.wire import EnableFlag, FlagEnabled, FlagList, FlagsQuery, IsFlagEnabled
from splitbrain.cluster.groupnames import METADATA
from splitbrain.cluster.knownfunctions import KnownFunctions
from splitbrain.cluster.raft.effects import TransferRefusal
from splitbrain.cluster.raft.events import MemberRole
from splitbrain.cluster.raft.membership import ChangeRefusal
from splitbrain.cluster.raft.messages import OLDEST, Message, NodeId
from splitbrain.cluster.raft.messages import decode as decode_message
from splitbrain.cluster.raft.messages import encode as encode_message
from splitbrain.cluster.storeswire import MigrationRefused, StoresBody, StoresState
from splitbrain.cluster.tree import Command, LookUp, Project, Query, Result

T = TypeVar("T")

PROTOCOL_VERSION: Final = 1

MAX_REQUEST_BYTES: Final = 100 * 1024
"""A longer request is refused. A batch of 128 of the longest commands still fits into one message between nodes."""


MAX_ANSWER_BYTES: Final = 8 * 1024 * 1024
"""Instead of a longer answer (the names of very many children) comes a failure that says so."""


class PeerHello(msgspec.Struct, frozen=True, array_like=True, tag="peer"):
    """The caller is a member, and means to call `to`; a program that says nothing of functions has none of its own."""

    version: int
    node: NodeId
    to: NodeId
    functions: KnownFunctions | None = None


class ClientHello(msgspec.Struct, frozen=True, array_like=True, tag="client"):
    """The caller is a client."""

    version: int


Hello: TypeAlias = PeerHello | ClientHello


# --- clients ------------------------------------------------------------------------------------------------------


class StatusQuery(msgspec.Struct, frozen=True, array_like=True, tag="status"):
    """Query the node's own status; answered at once, in any state of the cluster."""


class MembersQuery(msgspec.Struct, frozen=True, array_like=True, tag="members"):
    """Query the configuration that the node has in force; answered at once, committed or not."""


class LocalQuery(msgspec.Struct, frozen=True, array_like=True, tag="local"):
    """A query that this node answers from what it has applied, which may be old (RA-25).

    Attributes:
        query: what is asked.
        after: index and term of an entry that it must have applied first, those of a write that was answered; else
            the query is answered at once.
    """

    query: Query
    after: tuple[int, int] | None = None


class LeaderQuery(msgspec.Struct, frozen=True, array_like=True, tag="leader"):
    """A query that a node answers which takes itself for the leader, without asking a majority (RA-26)."""

    query: Query


class FencedQuery(msgspec.Struct, frozen=True, array_like=True, tag="fenced"):
    """A query that this node answers once it has applied what the leader that it knows has in its log (KH-11).

    That leader says so by itself, without asking a majority: where there is another one, the answer may be old.
    """

    query: Query


class TransactAuto(msgspec.Struct, frozen=True, array_like=True, tag="transact_auto"):
    """A transaction of which the node that is asked finds out whether it writes (KH-8).

    Attributes:
        function: its name.
        version: its version.
        data: what it is given, in msgpack.
        ref: of one that writes; None for none.
    """

    function: str
    version: int
    data: bytes
    ref: Ref | None = None


class AddMember(msgspec.Struct, frozen=True, array_like=True, tag="add_member"):
    """Make a member of a node that has no data, or waits; answered with the members when it is committed.

    A learner that is added as a voter becomes one at once.

    Attributes:
        member: its id.
        role: None for what the leader's node is configured for.
    """

    member: NodeId
    role: MemberRole | None = None


class RemoveMember(msgspec.Struct, frozen=True, array_like=True, tag="remove_member"):
    """Have a member leave, for ever; answered with the members that are left when it is committed."""

    member: NodeId


class TransferLeadership(msgspec.Struct, frozen=True, array_like=True, tag="transfer_leadership"):
    """Have another member lead (RA-31); answered with the members when it was asked to stand for election."""

    member: NodeId


class ForceShrinkMembers(msgspec.Struct, frozen=True, array_like=True, tag="force_shrink"):
    """Make the node that is asked the only member (RA-32); what only others have is lost."""


class StartGroup(msgspec.Struct, frozen=True, array_like=True, tag="start_group"):
    """Have the node that is asked take part in the request's group from now on, also after a restart.

    Each founder is asked so; answered with the groups of the node. It is no error if the group is there already.

    Attributes:
        founders: ids of the members with which the group begins.
        incarnation: how many groups of this name there were before; the same on all founders.
    """

    founders: tuple[NodeId, ...]
    incarnation: int = 0


class DeleteGroup(msgspec.Struct, frozen=True, array_like=True, tag="delete_group"):
    """Have the node that is asked forget its member of the request's group, with all data; no error if it has none."""


class GroupsQuery(msgspec.Struct, frozen=True, array_like=True, tag="groups"):
    """Query which groups the node takes part in; answered at once."""


class AddressQuery(msgspec.Struct, frozen=True, array_like=True, tag="address"):
    """Query the address under which machines may send messages to this connection; answered at once."""


class TakeSnapshot(msgspec.Struct, frozen=True, array_like=True, tag="take_snapshot"):
    """Have the node that is asked write a snapshot of what it has applied now; answered once that is durable."""


class TakeCheckpoint(msgspec.Struct, frozen=True, array_like=True, tag="take_checkpoint"):
    """Have the node that is asked write a checkpoint of what it has applied now; answered once it is written."""


class QueueOp(msgspec.Struct, frozen=True, array_like=True, tag="queue_op"):
    """A command of a quorum queue; answered with a `Value` that has the queue's reply.

    Attributes:
        data: a `splitbrain.cluster.queues.QueueCommand`, of those that clients may give.
    """

    data: bytes


class StreamOp(msgspec.Struct, frozen=True, array_like=True, tag="stream_op"):
    """What the node that is asked is to do with a stream; answered with a `Value` that has the reply.

    Attributes:
        data: a `splitbrain.cluster.streams.frames.OfStream`.
    """

    data: bytes


class ClassicOp(msgspec.Struct, frozen=True, array_like=True, tag="classic_op"):
    """What the node that is asked is to do with a classic queue; answered with a `Value` that has the reply.

    Attributes:
        data: a `splitbrain.cluster.classicqueues.frames.OfQueue`.
    """

    data: bytes


StateRequest: TypeAlias = TakeSnapshot | TakeCheckpoint

MemberChange: TypeAlias = AddMember | RemoveMember | TransferLeadership

Body: TypeAlias = (
    Command
    | Protected
    | Query
    | LocalQuery
    | LeaderQuery
    | FencedQuery
    | TransactAuto
    | QueueOp
    | StreamOp
    | ClassicOp
    | MemberChange
    | ForceShrinkMembers
    | StateRequest
    | StatusQuery
    | MembersQuery
    | Project
    | LookUp
    | StartGroup
    | DeleteGroup
    | GroupsQuery
    | AddressQuery
    | EnableFlag
    | IsFlagEnabled
    | FlagsQuery
    | StoresBody
)


class FromMember(msgspec.Struct, frozen=True, array_like=True, tag="member"):
    """A reply mode: a command is answered once this member has applied it, too; at once if it is none."""

    member: NodeId


ReplyFrom: TypeAlias = Literal["leader", "local"] | FromMember
"""When a command is answered: once the leader has applied it, or also the node that was asked, or a member (RA-20)."""

ReplyMode: TypeAlias = ReplyFrom | Literal["after_log_append", "notify", "noreply"]
"""How a command is answered (RA-18). Beside `ReplyFrom`: "after_log_append", with index and term, as soon as it is in
the leader's log; "notify", together with others once it is applied, by the leader only, which must be the node that is
asked; "noreply", never."""

Priority: TypeAlias = Literal["normal", "low"]
"""Of a command at the leader (RA-21): a low one is put into the log when no normal one waits."""


class Request(msgspec.Struct, frozen=True, array_like=True):
    """A client's request.

    Attributes:
        id: repeated in the answer; rises from request to request of a connection. A node carries out only the first
            request of an id: a network may deliver one twice.
        timeout_ms: how long after its arrival the node gives up and says so.
        body: what is wanted.
        reply: how a command is answered; a `ReplyMode`, any other gets an answer that says so.
        group: which group it is for.
        priority: of a command.
    """

    id: int
    timeout_ms: int
    body: Body
    reply: str | FromMember = "leader"
    group: str = METADATA
    priority: Priority = "normal"


class GroupList(msgspec.Struct, frozen=True, array_like=True, tag="group_list"):
    """The groups of a node.

    Attributes:
        groups: those that it takes part in.
        failed: those that stopped here, with what happened.
        incarnations: of those of `groups` that are not the first ones of their names.
    """

    groups: tuple[str, ...]
    failed: dict[str, str] = {}
    incarnations: dict[str, int] = {}


class Status(msgspec.Struct, frozen=True, array_like=True, tag="status_report"):
    """What a node says of itself.

    Attributes:
        node: its name.
        role: follower, pre_candidate, candidate or leader.
        term: its current term.
        leader: the leader of that term, if it knows one.
        commit_index: index of the last entry that it knows to be committed.
        applied_index: index of the last entry in `state_hash`.
        chain_hash: hash over all applied entries in their order.
        state_hash: hash of the tree.
        machine_version: of the state machine, in force where the node has applied the log.
        supported_version: the latest that the node supports.
        outdated: whether the node knows that a later one is in force: then it applies nothing more.
        down: members' nodes that it takes for down (RA-4).
        received: bytes of a snapshot that have come, while parts are missing; 0 if it receives none.
    """

    node: NodeId
    role: str
    term: int
    leader: NodeId | None
    commit_index: int
    applied_index: int
    chain_hash: str
    state_hash: str
    machine_version: int = OLDEST
    supported_version: int = OLDEST
    outdated: bool = False
    down: tuple[str, ...] = ()
    received: int = 0


class MemberList(msgspec.Struct, frozen=True, array_like=True, tag="member_list"):
    """The ids of all voters and of all learners, sorted (see `splitbrain.cluster.members`).

    Attributes:
        members: those that vote.
        learners: those that do not.
        promotable: the learners that get a vote once they have caught up.
    """

    members: tuple[NodeId, ...]
    learners: tuple[NodeId, ...] = ()
    promotable: tuple[NodeId, ...] = ()


class StateWritten(msgspec.Struct, frozen=True, array_like=True, tag="state_written"):
    """A node has a snapshot, or a checkpoint, of the store after the entry of this index and term."""

    index: int
    term: int


class ClientAddress(msgspec.Struct, frozen=True, array_like=True, tag="client_address"):
    """A client's connection, as all nodes know it: a node, which life of its process, and the number there."""

    node: str
    life: int
    number: int


class ClientMessage(msgspec.Struct, frozen=True, array_like=True, tag="client_message"):
    """What a machine has for the client. Comes in an answer with id 0."""

    data: bytes


class Appended(msgspec.Struct, frozen=True, array_like=True, tag="appended"):
    """The command is in the leader's log, at the index and with the term of the answer; it may not be committed."""


class Notice(msgspec.Struct, frozen=True, array_like=True):
    """What became of a command of reply mode "notify"; see `Answer`."""

    id: int
    term: int
    outcome: Result
    index: int


class Applied(msgspec.Struct, frozen=True, array_like=True, tag="applied"):
    """Commands of reply mode "notify" were applied, in this order. Comes in an answer with id 0."""

    notices: tuple[Notice, ...]


Reason: TypeAlias = (
    Literal[
        "timeout",
        "no_leader",
        "not_leader",
        "leadership_lost",
        "busy",
        "invalid_request",
        "invalid_reply_mode",
        "unavailable",
        "no_group",
    ]
    | ChangeRefusal
    | TransferRefusal
    | Failed
    | MigrationRefused
)


class Failure(msgspec.Struct, frozen=True, array_like=True, tag="failure"):
    """The request got no result.

    Attributes:
        reason: why.
        definite: whether it is certain that it did not happen and never will.
        detail: the same in words.
        leader: with "not_leader", the member that leads, if it is known.
    """

    reason: Reason
    definite: bool
    detail: str
    leader: NodeId | None = None


Outcome: TypeAlias = (
    Result
    | Status
    | MemberList
    | GroupList
    | StateWritten
    | Appended
    | Applied
    | ClientAddress
    | ClientMessage
    | FlagEnabled
    | FlagList
    | StoresState
    | Failure
)


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """The answer to a request.

    Attributes:
        id: of the request.
        term: in which it was given; of a command, that of its entry.
        outcome: what became of it.
        index: of the entry of a command or a change that was carried out; of a query, what was applied when it was
            answered; else 0.
    """

    id: int
    term: int
    outcome: Outcome
    index: int = 0


# --- peers --------------------------------------------------------------------------------------------------------


class AwaitEntry(msgspec.Struct, frozen=True, array_like=True, tag="await_entry"):
    """Have a member say when it has applied an entry, led by it or not."""

    index: int
    term: int


class AskForFence(msgspec.Struct, frozen=True, array_like=True, tag="ask_for_fence"):
    """Have a node that takes itself for the leader say what the last entry in its log is: an `Appended` (KH-11)."""


Forwardable: TypeAlias = Command | Protected | QueueOp | Query | LeaderQuery | MemberChange | AwaitEntry | AskForFence
ForwardedReply: TypeAlias = Literal["leader", "after_log_append", "noreply"]


class Forward(msgspec.Struct, frozen=True, array_like=True, tag="forward"):
    """A client's request, passed on to the leader, once and never again; or a question to another member about it.

    Attributes:
        life: which life of the sending node this is: a late answer to a request of an earlier one answers nothing.
        ref: repeated in the answer; rises from request to request of a life. The leader carries out only the first
            that comes with a ref.
        body: what is wanted.
        group: which group it is for.
        reply: how a command is answered: once it is applied, once it is in the leader's log, or never.
        priority: of a command.
    """

    life: int
    ref: int
    body: Forwardable
    group: str = METADATA
    reply: ForwardedReply = "leader"
    priority: Priority = "normal"


class Forwarded(msgspec.Struct, frozen=True, array_like=True, tag="forwarded"):
    """The answer to a Forward; see `Answer`."""

    life: int
    ref: int
    term: int
    outcome: Outcome
    index: int = 0
    group: str = METADATA


class Deliver(msgspec.Struct, frozen=True, array_like=True, tag="deliver"):
    """A message of a group's machine for a client of the node that is asked."""

    client: ClientAddress
    data: bytes
    group: str = METADATA


class AskForClient(msgspec.Struct, frozen=True, array_like=True, tag="ask_for_client"):
    """The machine of a group monitors a client of the node that is asked: it answers if that is not connected."""

    client: ClientAddress
    group: str = METADATA


class ClientGone(msgspec.Struct, frozen=True, array_like=True, tag="client_gone"):
    """The answer to AskForClient; as an address is used for one connection only, it stays true."""

    client: ClientAddress
    group: str = METADATA


RequestFrame: TypeAlias = Forward | Forwarded | Deliver | AskForClient | ClientGone
PeerFrame: TypeAlias = Message | RequestFrame

_REQUEST_FRAMES: Final = frozenset(get_args(RequestFrame))
"""Looked up by type: most frames are none of them, and each `isinstance` of a struct that says no costs as much."""

ALIVE: Final = b""
"""The frame that says nothing but that the connection works."""

CONSENSUS: Final = b"c"
_CONSENSUS_OF_GROUP: Final = b"g"
_REQUEST: Final = b"r"
ABOUT_FLAGS: Final = b"f"
"""The first byte of a frame that is about feature flags (`splitbrain.cluster.flags.messages`)."""
ABOUT_STREAMS: Final = b"s"
"""The first byte of a frame between copies of a stream (`splitbrain.cluster.streams.frames`)."""
ABOUT_CLASSIC: Final = b"q"
"""The first byte of a frame about classic queues (`splitbrain.cluster.classicqueues.frames`)."""

_encoder = msgspec.msgpack.Encoder()
_hello_decoder: msgspec.msgpack.Decoder[Hello] = msgspec.msgpack.Decoder(Hello)
_request_decoder: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_answer_decoder: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)
_forward_decoder: msgspec.msgpack.Decoder[RequestFrame] = msgspec.msgpack.Decoder(RequestFrame)


def encode(message: Hello | Request | Answer) -> bytes:
    """A message of a client's connection, or a hello."""
    return _encoder.encode(message)


def encode_peer(frame: PeerFrame, group: str = METADATA) -> bytes:
    """A frame of a peer's connection; `group` is the address of that of a message of consensus."""
    if type(frame) in _REQUEST_FRAMES:
        return _REQUEST + _encoder.encode(frame)
    if group == METADATA:
        return CONSENSUS + encode_message(frame)  # pyright: ignore[reportArgumentType] - it is none of those
    name = group.encode()
    return _CONSENSUS_OF_GROUP + bytes([len(name)]) + name + encode_message(frame)  # pyright: ignore[reportArgumentType]


def decode_hello(data: bytes) -> Hello:
    """The first message of a connection.

    Raises:
        msgspec.DecodeError: it is none.
    """
    return _checked(_hello_decoder.decode, data)


def decode_request(data: bytes) -> Request:
    """A client's request.

    Raises:
        msgspec.DecodeError: it is none.
    """
    return _checked(_request_decoder.decode, data)


def decode_answer(data: bytes) -> Answer:
    """A node's answer.

    Raises:
        msgspec.DecodeError: it is none.
    """
    return _checked(_answer_decoder.decode, data)


def decode_peer(data: bytes) -> tuple[str, PeerFrame]:
    """A frame of a peer's connection, which must not be empty, and the address of the group that it is for.

    Raises:
        msgspec.DecodeError: it is none.
    """
    kind, body = data[:1], data[1:]
    if kind == CONSENSUS:
        try:  # as `_checked`, in place: most frames are these
            return METADATA, decode_message(body)
        except (UnicodeDecodeError, RecursionError) as error:
            raise msgspec.DecodeError(str(error)) from error
    if kind == _REQUEST:
        request = _checked(_forward_decoder.decode, body)
        return request.group, request
    if kind == _CONSENSUS_OF_GROUP and body:
        end = 1 + body[0]
        return _checked(bytes.decode, body[1:end]), _checked(decode_message, body[end:])
    raise msgspec.DecodeError(f"a frame of unknown kind {kind!r}")


def decode_request_id(data: bytes) -> int | None:
    """The id of a request whose body this version does not know, None if not even that can be read."""
    try:
        fields = _checked(msgspec.msgpack.decode, data)
    except msgspec.DecodeError:
        return None
    match fields:
        case [int(request_id), *_]:
            return request_id
        case _:
            return None


def _checked(decode: Callable[[bytes], T], data: bytes) -> T:
    """`decode(data)`, with one kind of error: msgspec lets that of a damaged string, or of deep nesting, through."""
    try:
        return decode(data)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from error

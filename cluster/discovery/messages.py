"""What nodes say to each other while a cluster forms: one request and one answer on a connection of their own.

The first frame of such a connection begins with `PREFIX`, which no hello of a peer or a client does. So a node serves
these at the address that it has for everything else, before and after it is in a cluster.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from splitbrain.cluster.discovery.seen import Peer, Properties

PREFIX: Final = b"FORM1"


class AskProperties(msgspec.Struct, frozen=True, array_like=True, tag="ask_properties"):
    """Answered with `Properties`."""


class AskFormation(msgspec.Struct, frozen=True, array_like=True, tag="ask_formation"):
    """Answered with `FormationState`: a question of who looks at nodes from outside."""


class Ballot(msgspec.Struct, frozen=True, array_like=True):
    """A candidacy for founder.

    Attributes:
        node: the name of the candidate.
        identity: of its data: a node that lost them is another candidate.
        process: of the candidate, drawn at its start.
        round: in that process.
    """

    node: str
    identity: str
    process: int
    round: int


class AskVote(msgspec.Struct, frozen=True, array_like=True, tag="ask_vote"):
    """Answered with `Done` once the vote is durable, or with `Refused`.

    Attributes:
        ballot: for which a vote is asked.
        nodes: how many nodes the cluster is to have, as the candidate was started.
    """

    ballot: Ballot
    nodes: int


class ReturnVote(msgspec.Struct, frozen=True, array_like=True, tag="return_vote"):
    """The candidate does not found a cluster with this vote. Answered with `Done`."""

    ballot: Ballot


class AskCandidacy(msgspec.Struct, frozen=True, array_like=True, tag="ask_candidacy"):
    """A node whose vote a candidate has asks whether it needs it still: `Done` if so, else `Refused`."""

    ballot: Ballot


class AskAddresses(msgspec.Struct, frozen=True, array_like=True, tag="ask_addresses"):
    """Answered with `Addresses`."""


class Introduce(msgspec.Struct, frozen=True, array_like=True, tag="introduce"):
    """Where nodes are that join. Answered with `Done`."""

    peers: tuple[Peer, ...]


class TakeIn(msgspec.Struct, frozen=True, array_like=True, tag="take_in"):
    """Take a node into the cluster. Answered with `Done` once it is a member, or with `Refused`.

    Attributes:
        peer: the node.
        member: its id.
        again: whether it has asked before, with the data that it has: then it may be a member already.
    """

    peer: Peer
    member: str
    again: bool = False


class TakeLock(msgspec.Struct, frozen=True, array_like=True, tag="take_lock"):
    """Take this node's part of the lock of the classic backend, for as long as the connection lasts."""

    owner: str


Request: TypeAlias = (
    AskProperties | AskVote | ReturnVote | AskCandidacy | AskAddresses | Introduce | TakeIn | TakeLock | AskFormation
)


class Done(msgspec.Struct, frozen=True, array_like=True, tag="done"):
    """It is done."""


class Accepted(msgspec.Struct, frozen=True, array_like=True, tag="accepted"):
    """It will be done. Only a node with M69 says so."""


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """It is not done; `reason` is a clause that says why."""

    reason: str


class Addresses(msgspec.Struct, frozen=True, array_like=True, tag="addresses"):
    """All nodes that the node knows, itself included."""

    peers: tuple[Peer, ...]


class FormationState(msgspec.Struct, frozen=True, array_like=True, tag="formation_state"):
    """What a node says of the cluster that it is in, or looks for.

    Attributes:
        phase: "done" once it looks no more.
        founded: whether it founded the cluster.
        members: of its cluster, by name; none if it is in no cluster.
        problem: why it had none after its last attempt, a clause.
    """

    phase: Literal["looks", "done"]
    founded: bool
    members: tuple[str, ...]
    problem: str


Reply: TypeAlias = Properties | Done | Accepted | Refused | Addresses | FormationState

_requests = msgspec.msgpack.Decoder(Request)
_replies = msgspec.msgpack.Decoder(Reply)


def encode(message: Request | Reply) -> bytes:
    """A request, or the answer to one."""
    return PREFIX + msgspec.msgpack.encode(message)


def decode_request(frame: bytes) -> Request:
    """What `encode` made of it.

    Raises:
        msgspec.DecodeError: it makes no sense.
    """
    return _requests.decode(frame[len(PREFIX) :])


def decode_reply(frame: bytes) -> Reply:
    """What `encode` made of it.

    Raises:
        msgspec.DecodeError: it makes no sense.
    """
    if not frame.startswith(PREFIX):
        raise msgspec.DecodeError("the other side does not speak of formation: it was started without --discovery")
    return _replies.decode(frame[len(PREFIX) :])

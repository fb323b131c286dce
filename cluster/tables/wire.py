"""What clients of the table store and its nodes say to each other, behind the hello of `splitbrain.cluster.wire`.

Between nodes go frames (`splitbrain.cluster.tables.messages`), and the signs of life of links, which are empty.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec

MAX_REQUEST_BYTES: Final = 100 * 1024


class Request(msgspec.Struct, frozen=True, array_like=True, tag="run"):
    """Have a procedure carried out (`splitbrain.cluster.tables.procedures`).

    Attributes:
        id: of the request on its connection; they rise.
        procedure: its name.
        arguments: what it takes.
        timeout_ms: what is not decided after so long is given up.
    """

    id: int
    procedure: str
    arguments: tuple[Any, ...]
    timeout_ms: int


class StatusRequest(msgspec.Struct, frozen=True, array_like=True, tag="status"):
    """Ask a node about itself; answered at once, by a `NodeState`."""

    id: int


class Result(msgspec.Struct, frozen=True, array_like=True, tag="result"):
    """What a procedure returned."""

    value: Any


class Refusal(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """Nothing was changed, and nothing will be."""

    reason: Literal["timeout", "stopped", "invalid"]
    detail: str


class NodeState(msgspec.Struct, frozen=True, array_like=True, tag="state"):
    """What a node says of itself.

    Attributes:
        members: all nodes, sorted.
        phase: "stopped", "waiting" or "running".
        active: the replicas with which it shares its tables.
        alive: the nodes that are not down for it.
        partitions: the nodes that run apart from it.
        client: the name of the connection that asked: no other one of this node, or of another, ever has it.
    """

    members: tuple[str, ...]
    phase: str
    active: tuple[str, ...]
    alive: tuple[str, ...]
    partitions: tuple[str, ...]
    client: str = ""


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """The answer to the request of that id."""

    id: int
    outcome: Result | Refusal | NodeState


Asked: TypeAlias = Request | StatusRequest

_encoder = msgspec.msgpack.Encoder()
_asked_decoder: msgspec.msgpack.Decoder[Asked] = msgspec.msgpack.Decoder(Request | StatusRequest)
_answer_decoder = msgspec.msgpack.Decoder(Answer)


def encode(message: Asked | Answer) -> bytes:
    """A message as it goes over a connection."""
    return _encoder.encode(message)


def decode_asked(data: bytes) -> Asked:
    """What a client asks.

    Raises:
        msgspec.DecodeError: it makes no sense.
    """
    return _asked_decoder.decode(data)


def decode_answer(data: bytes) -> Answer:
    """What a node answers.

    Raises:
        msgspec.DecodeError: it makes no sense.
    """
    return _answer_decoder.decode(data)

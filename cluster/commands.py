"""Commands for the tree, made of paths as text and of values that msgpack can carry.

    await client.execute(put("/queues/orders", {"durable": True}), priority="low")

Values are encoded with sorted keys: equal values are equal payloads, which is what `compare_and_swap` compares. Each
function raises an `InvalidPathError` for a text that is no path.
"""

from __future__ import annotations

from typing import Any

import msgspec

from splitbrain.cluster import tree
from splitbrain.cluster.errors import InvalidRequestError
from splitbrain.cluster.tree import Command, parse_path

__all__ = [
    "Command",
    "compare_and_swap",
    "create",
    "decode_value",
    "delete",
    "encode_value",
    "increment",
    "put",
    "update",
]

_encoder = msgspec.msgpack.Encoder(order="deterministic")
_decoder = msgspec.msgpack.Decoder()


def put(path: str, value: Any) -> Command:
    """Set the payload, creating the tree node and its missing parents if there is none."""
    return tree.Put(parse_path(path), encode_value(value))


def create(path: str, value: Any) -> Command:
    """Put, if the tree node does not exist."""
    return tree.Create(parse_path(path), encode_value(value))


def update(path: str, value: Any) -> Command:
    """Put, if the tree node exists."""
    return tree.Update(parse_path(path), encode_value(value))


def compare_and_swap(path: str, expected: Any, value: Any) -> Command:
    """Put, if the tree node exists and holds exactly `expected`."""
    return tree.CompareAndSwap(parse_path(path), encode_value(expected), encode_value(value))


def increment(path: str, by: int = 1) -> Command:
    """Add to a whole number; a missing tree node counts as 0.

    Raises:
        InvalidRequestError: `by` has more than 64 bits.
    """
    if not -(2**63) <= by < 2**63:
        raise InvalidRequestError(f"{by} cannot be added: it has more than 64 bits.")
    return tree.Increment(parse_path(path), by)


def delete(path: str) -> Command:
    """Remove the tree node and all below it; no error if there is none."""
    return tree.Delete(parse_path(path))


def encode_value(value: Any) -> bytes:
    """A value as a payload, or as the data of a transaction.

    Raises:
        InvalidRequestError: msgpack cannot carry it.
    """
    try:
        return _encoder.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidRequestError(f"a value that msgpack cannot carry: {error}.") from error


def decode_value(payload: bytes) -> Any:
    """The value that a payload stands for.

    Raises:
        InvalidRequestError: it stands for none: no client of this program wrote it.
    """
    try:
        return _decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequestError(f"a stored value that cannot be read: {error}.") from error

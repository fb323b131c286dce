"""The plain commands and queries: those of one node, named by its path, which versions 1 and 2 have as well."""

from __future__ import annotations

import msgspec

from splitbrain.cluster.tree.messages import (
    CompareAndSwap,
    Create,
    Delete,
    Done,
    Get,
    Increment,
    InvalidCommand,
    ManyNodesDenied,
    MismatchingNode,
    Names,
    NodeNotFound,
    PlainCommand,
    PlainQuery,
    Put,
    Result,
    Update,
)
from splitbrain.cluster.tree.paths import Path, is_pattern
from splitbrain.cluster.tree.payloads import Payload
from splitbrain.cluster.tree.state import TreeState

_encoder = msgspec.msgpack.Encoder()
_integer_decoder = msgspec.msgpack.Decoder(int)


def execute_plain(tree: TreeState, command: PlainCommand) -> Result:
    """Carry out a command."""
    if is_pattern(command.path):
        return ManyNodesDenied(command.path)
    match command:
        case Delete(path):
            return _delete(tree, path)
        case Put(path, payload):
            return _put(tree, path, payload)
        case Create(path, payload):
            found = tree.find(path)
            if found is not None:
                return MismatchingNode(path, found.properties())
            return _put(tree, path, payload)
        case Update(path, payload):
            return NodeNotFound(path) if tree.find(path) is None else _put(tree, path, payload)
        case CompareAndSwap(path, expected, payload):
            found = tree.find(path)
            if found is None:
                return NodeNotFound(path)
            if found.payload != expected:
                return MismatchingNode(path, found.properties())
            return _put(tree, path, payload)
        case Increment(path, by):
            return _increment(tree, path, by)


def query_plain(tree: TreeState, query: PlainQuery) -> Result:
    """Answer a query from the state as it is."""
    if is_pattern(query.path):
        return ManyNodesDenied(query.path)
    found = tree.find(query.path)
    if found is None:
        return NodeNotFound(query.path)
    if isinstance(query, Get):
        return Done(found.properties())
    # By name: an answer must not depend on the order in which children were made.
    return Names(tuple(sorted(found.children)))


def _put(tree: TreeState, path: Path, payload: Payload) -> Done:
    """The node afterwards; None if that it lost its payload was the end of it."""
    tree.put(path, payload)
    tree.settle()
    return Done(tree.properties(path))


def _delete(tree: TreeState, path: Path) -> Done:
    node = tree.find(path)
    if node is not None:
        tree.delete(node)
        tree.settle()
    return Done(None if path else tree.root.properties())


def _increment(tree: TreeState, path: Path, by: int) -> Result:
    found = tree.find(path)
    number = 0 if found is None else _integer(found.payload)
    if number is None:
        assert found is not None, "where there is no node the number is 0"
        return MismatchingNode(path, found.properties())
    try:
        payload = _encoder.encode(number + by)
    except OverflowError:
        return InvalidCommand(f"{number} + {by} is no number that msgpack can carry")
    return _put(tree, path, payload)


def _integer(payload: Payload) -> int | None:
    """The whole number that a payload is, None if it is none."""
    try:
        return _integer_decoder.decode(payload) if isinstance(payload, bytes) else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None

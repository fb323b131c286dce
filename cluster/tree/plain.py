"""The plain commands and queries: those of one node, named by its path, which versions 1 and 2 have as well."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

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
    return _EXECUTORS[type(command)](tree, command)


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


def _create(tree: TreeState, command: Create) -> Result:
    found = tree.find(command.path)
    if found is not None:
        return MismatchingNode(command.path, found.properties())
    return _put(tree, command.path, command.payload)


def _update(tree: TreeState, command: Update) -> Result:
    if tree.find(command.path) is None:
        return NodeNotFound(command.path)
    return _put(tree, command.path, command.payload)


def _compare_and_swap(tree: TreeState, command: CompareAndSwap) -> Result:
    found = tree.find(command.path)
    if found is None:
        return NodeNotFound(command.path)
    if found.payload != command.expected:
        return MismatchingNode(command.path, found.properties())
    return _put(tree, command.path, command.payload)


def _delete(tree: TreeState, command: Delete) -> Done:
    path = command.path
    node = tree.find(path)
    if node is not None:
        tree.delete(node)
        tree.settle()
    return Done(None if path else tree.root.properties())


def _increment(tree: TreeState, command: Increment) -> Result:
    path, by = command.path, command.by
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


_EXECUTORS: Final[Mapping[type[PlainCommand], Callable[[TreeState, Any], Result]]] = {
    Put: lambda tree, command: _put(tree, command.path, command.payload),
    Create: _create,
    Update: _update,
    CompareAndSwap: _compare_and_swap,
    Delete: _delete,
    Increment: _increment,
}
"""By type: class patterns of structs take long to say no, and every node carries every command out."""

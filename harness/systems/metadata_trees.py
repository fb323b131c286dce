"""Small trees in the metadata cluster, for the workload `tree`: each below a node of its own.

A payload stands for a number: its text is that number with filling, from none to 64 kB. All of it is checked when it is
read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from splitbrain.cluster.client import (
    Client,
    MismatchingNodeError,
    NodeNotFoundError,
    SeenNode,
    StoreRefusedError,
    TransactionAbortedError,
)
from splitbrain.cluster.patterns import (
    Condition,
    IfNodeExists,
    IfPayloadVersion,
    KeptBy,
    Pattern,
    if_data,
    pattern_of,
)
from splitbrain.harness.contract.sessions import Answer
from splitbrain.harness.systems.metadata_errors import readable
from splitbrain.results.errors import ProtocolError

_FILLING: Final = (0, 1, 31, 1_000, 8_000, 30_000, 64_000)
"""Bytes beside the number, by the number modulo the length of this."""

_DAMAGED: Final = -1
"""Stands for a payload that is none of ours."""

_SHOWN: Final = ("payload", "payload_version", "child_list_version", "delete_reason")
_SEEN: Final = ("payload", "payload_version", "child_list_version", "child_list_length")
_KEPT: Final = "keep_while_conditions_not_met"

Carry: TypeAlias = Callable[[Client, str, Any, int], Awaitable[Answer]]


def payload_of(number: int) -> str:
    """The text that stands for a number."""
    return f"{number}:" + "x" * _FILLING[number % len(_FILLING)]


def number_of(value: Any) -> int | None:
    """The number that a payload stands for, None if there is none."""
    if value is None:
        return None
    number, _, _ = str(value).partition(":")
    return int(number) if number.isdecimal() and value == payload_of(int(number)) else _DAMAGED


async def carry_out(client: Client, root: str, f: str, value: Any, timeout_ms: int) -> Answer:
    """Carry out an op of the model `tree` below the node `root`."""
    carry = _OPS.get(f)
    if carry is None:
        raise ProtocolError(f"a tree knows no op {f!r}, only {', '.join(_OPS)}.")
    return await carry(client, root, value, timeout_ms)


async def _put(client: Client, root: str, value: Any, timeout_ms: int) -> Answer:
    path, number, condition, keep = value
    kept: KeptBy = None if keep is None else {_kept(root, *keep): IfNodeExists(keep[1])}
    try:
        found = await client.put_nodes(
            f"{root}/{path}",
            payload_of(number),
            when=_condition(condition),
            keep_while=kept,
            returns=_SHOWN,
            timeout_ms=timeout_ms,
        )
    except NodeNotFoundError as error:
        return Answer(["node_not_found"], error.term)
    except MismatchingNodeError as error:
        return Answer(["mismatching_node", error.properties.payload_version], error.term)
    except StoreRefusedError as error:
        if error.reason != _KEPT:
            raise
        return Answer([_KEPT], error.term)
    return Answer(["ok", _changed(root, found.nodes)], found.term)


async def _delete(client: Client, root: str, value: Any, timeout_ms: int) -> Answer:
    path, condition = value
    found = await client.delete_nodes(
        f"{root}/{path}",
        when=_condition(condition),
        many=path.endswith("*"),
        returns=_SHOWN,
        timeout_ms=timeout_ms,
    )
    return Answer(["ok", _changed(root, found.nodes)], found.term)


async def _get(client: Client, root: str, value: Any, timeout_ms: int) -> Answer:
    try:
        found = await client.get_nodes(f"{root}/{value}", many=False, returns=_SEEN, timeout_ms=timeout_ms)
    except NodeNotFoundError as error:
        return Answer(None, error.term)
    return Answer(_seen(found.nodes[0]), found.term)


async def _list(client: Client, root: str, _: Any, timeout_ms: int) -> Answer:
    found = await client.get_nodes(f"{root}/**", returns=_SEEN, timeout_ms=timeout_ms)
    return Answer([[_below(root, node.path), *_seen(node)] for node in found.nodes], found.term)


async def _transact(client: Client, root: str, value: Any, timeout_ms: int) -> Answer:
    steps = [[f, f"{root}/{path}", None if number is None else payload_of(number)] for f, path, number in value]
    try:
        done = await client.transaction("steps", 1, steps, "write", timeout_ms=timeout_ms)
    except TransactionAbortedError as error:
        return Answer(["aborted", error.reason], error.term)
    return Answer(["ok", list(map(number_of, readable(done.value, list[Any], "a transaction")))], done.term)


_OPS: Final[Mapping[str, Carry]] = {"put": _put, "delete": _delete, "get": _get, "list": _list, "txn": _transact}


def _condition(given: Any) -> Condition | None:
    match given:
        case None:
            return None
        case ["create"]:
            return IfNodeExists(False)
        case ["update"]:
            return IfNodeExists(True)
        case ["version", version]:
            return IfPayloadVersion(version)
        case ["swap", number]:
            return if_data(payload_of(number))
        case _:
            raise ProtocolError(f"a tree knows no condition {given!r}.")


def _kept(root: str, path: str, _: bool, depth: int = 0, version: int = 0) -> Pattern:
    """The pattern that keeps a node; with a depth the node so far below the root has to be of a version."""
    pattern, at = pattern_of(f"{root}/{path}"), len(pattern_of(root)) + depth
    if not depth:
        return pattern
    return (*pattern_of(pattern[:at], IfPayloadVersion(version)), *pattern[at:])


def _below(root: str, path: str) -> str:
    return path.removeprefix(f"{root}/")


def _changed(root: str, nodes: tuple[SeenNode, ...]) -> list[list[Any]]:
    """Those of the nodes that are in this tree: a parent that was only there for it may have gone with it."""
    return [
        [
            _below(root, node.path),
            number_of(node.value),
            node.payload_version,
            node.child_list_version,
            node.delete_reason,
        ]
        for node in nodes
        if node.path.startswith(f"{root}/")
    ]


def _seen(node: SeenNode) -> list[Any]:
    return [number_of(node.value), node.payload_version, node.child_list_version, node.child_list_length]

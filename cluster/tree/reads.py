"""Queries with patterns (KH-5, KH-6): on one state, as it is; nothing here changes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal

import msgspec

from splitbrain.cluster.errors import InvalidPathError
from splitbrain.cluster.tree.messages import (
    AskNode,
    CountNodes,
    FoundNode,
    GetNodes,
    Nodes,
    Property,
    Refused,
    Result,
    Value,
)
from splitbrain.cluster.tree.nodes import Node
from splitbrain.cluster.tree.paths import Path
from splitbrain.cluster.tree.patterns import Pattern, compiled
from splitbrain.cluster.tree.payloads import Procedure, Properties
from splitbrain.cluster.tree.slices import InSlices, at_once
from splitbrain.cluster.tree.state import TreeState
from splitbrain.cluster.tree.walk import MAX_VISITED, PatternRefusedError, find_one, in_slices, matches_root, matching

MAX_FOUND: Final = 100_000
"""Nodes in an answer. More are counted, or asked for in parts."""

TreeQuery = GetNodes | CountNodes | AskNode
Steps = InSlices[Result]
"""A query in slices."""

_encoder = msgspec.msgpack.Encoder(order="deterministic")


def ask(tree: TreeState, query: TreeQuery) -> Result:
    """Answer a query from the state as it is."""
    return at_once(ask_in_slices(tree, query))


def ask_in_slices(tree: TreeState, query: TreeQuery) -> Steps:
    """The same, `NODES_PER_SLICE` nodes at a time."""
    try:
        pattern = compiled(query.path)
    except InvalidPathError as error:
        return Refused("invalid_path", detail=str(error))
    match query:
        case GetNodes(many=False):
            return _get_one(tree, pattern, query.returns)
        case GetNodes():
            found: list[FoundNode] = []
            for node in _matching_in_slices(tree.root, pattern, include_root=query.include_root):
                if node is None:
                    yield
                elif len(found) == MAX_FOUND:
                    detail = f"an answer has at most {MAX_FOUND:,} nodes: count them, or ask for parts"
                    return Refused("too_many_nodes", pattern, detail=detail)
                else:
                    found.append(shown(node.path, node.properties(), query.returns, children=node.children))
            return Nodes(tuple(sorted(found, key=lambda node: node.path)), len(found))
        case CountNodes():
            count = 0
            for node in _matching_in_slices(tree.root, pattern, include_root=query.include_root):
                if node is None:
                    yield
                else:
                    count += 1
            return value(count)
        case AskNode():
            return _ask_node(tree, pattern, query.whether)


def _matching_in_slices(root: Node, pattern: Pattern, *, include_root: bool) -> Iterator[Node | None]:
    if include_root and matches_root(root, pattern):
        yield root
    for step in in_slices(root, pattern, in_order=False):
        if step is None or isinstance(step, Node):
            yield step


def value(of: object) -> Value:
    """The result that has this value."""
    return Value(_encoder.encode(of))


def nodes_in(tree: TreeState, pattern: Pattern, *, include_root: bool = False) -> list[Node]:
    """The nodes that a compiled pattern matches, for a transaction, in the order of their paths.

    Raises:
        PatternRefusedError: too many nodes had to be looked at.
    """
    found = matching(tree.root, pattern, include_root=include_root, most=MAX_VISITED)
    return sorted(found, key=lambda node: node.path)


def specific(tree: TreeState, pattern: Pattern) -> None:
    """Nothing, if a compiled pattern names one node, also if that is not there.

    Raises:
        PatternRefusedError: it may match several.
    """
    found = find_one(tree.root, pattern)
    if isinstance(found, Refused) and found.reason == "possibly_matching_many_nodes_denied":
        raise PatternRefusedError(found)


def shown(
    path: Path,
    properties: Properties,
    returns: Iterable[Property],
    *,
    children: Iterable[str] = (),
    reason: Literal["explicit", "keep_while"] | None = None,
) -> FoundNode:
    """What an answer says of a node."""
    wanted = frozenset(returns)
    return FoundNode(
        path,
        properties.payload if "payload" in wanted else None,
        properties.payload_version if "payload_version" in wanted else None,
        properties.child_list_version if "child_list_version" in wanted else None,
        properties.child_list_length if "child_list_length" in wanted else None,
        reason if "delete_reason" in wanted else None,
        tuple(sorted(children)) if "child_names" in wanted else None,
    )


def _get_one(tree: TreeState, pattern: Pattern, returns: tuple[Property, ...]) -> Result:
    found = find_one(tree.root, pattern)
    if isinstance(found, Node):
        return Nodes((shown(found.path, found.properties(), returns, children=found.children),), 1)
    return Nodes((), 0) if found.reason == "mismatching_node" else found


def _ask_node(tree: TreeState, pattern: Pattern, whether: str) -> Result:
    found = find_one(tree.root, pattern)
    match found:
        case Refused(reason="node_not_found"):
            return value(False)
        case Refused(reason="mismatching_node"):
            return value(True) if whether == "exists" else found
        case Refused():
            return found
        case Node():
            kinds = {
                "exists": True,
                "has_data": isinstance(found.payload, bytes),
                "is_procedure": isinstance(found.payload, Procedure),
            }
            return value(kinds[whether])

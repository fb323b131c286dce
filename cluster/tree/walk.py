"""From a pattern to the nodes that it matches (KH-2, KH-3, KH-5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from splitbrain.cluster.tree.conditions import Component, descends, failing, holds, siblings, target
from splitbrain.cluster.tree.messages import Refused
from splitbrain.cluster.tree.nodes import Node
from splitbrain.cluster.tree.paths import ROOT, SPECIALS
from splitbrain.cluster.tree.patterns import Pattern
from splitbrain.cluster.tree.slices import NODES_PER_SLICE

MAX_VISITED: Final = 200_000
"""Nodes that a command looks at: it must not hold up every member for long. A query may look at more, in slices."""


class PatternRefusedError(Exception):
    """The pattern does not lead where it should; `refused` is the answer."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.reason)
        self.refused = refused


@dataclass(frozen=True, slots=True)
class Missing:
    """A named node that is not there.

    Attributes:
        parent: where it is missing.
        at: which component of the pattern names it.
    """

    parent: Node
    at: int


def matching(root: Node, pattern: Pattern, *, include_root: bool = False, most: int | None = None) -> Iterator[Node]:
    """The nodes that a compiled pattern matches, each once; children in the order of their names.

    Args:
        root: of the tree.
        pattern: what is looked for; what is named and is not there matches nothing.
        include_root: whether a pattern of one component that names nothing, such as `**`, matches the root, too.
        most: how many nodes may be looked at.

    Raises:
        PatternRefusedError: these were too many.
    """
    if include_root and matches_root(root, pattern):
        yield root
    for step in steps(root, pattern, most=most):
        if isinstance(step, Node):
            yield step


def matches_root(root: Node, pattern: Pattern) -> bool:
    """Whether a pattern of one component that names nothing, such as `**`, matches the root, if that is wanted."""
    return len(pattern) == 1 and target(pattern[0]) is None and holds(pattern[0], ROOT, root.properties())


def steps(root: Node, pattern: Pattern, *, most: int | None = None) -> Iterator[Node | Missing | Refused]:
    """The same, with what a pattern names and is not there, or does not meet a condition."""
    for step in in_slices(root, pattern, most=most):
        if step is not None:
            yield step


def in_slices(
    root: Node, pattern: Pattern, *, most: int | None = None, in_order: bool = True
) -> Iterator[Node | Missing | Refused | None]:
    """The same, with None after each `NODES_PER_SLICE` nodes that were looked at; children in any order, if so wanted.

    Nothing may change the tree meanwhile.
    """
    repeats = sum(map(descends, pattern)) > 1  # then several ways may lead to one node
    seen: dict[tuple[tuple[str, ...], int], None] = {}
    visited = 0
    ways: list[Iterator[tuple[Node, int] | None]] = [iter([(root, 0)])]
    while ways:
        way = next(ways[-1], _END)
        if way is _END:
            ways.pop()
            continue
        if way is None:
            yield None
            continue
        node, at = way
        visited += 1
        if most is not None and visited > most:
            raise PatternRefusedError(
                Refused("too_many_nodes", pattern, detail=f"it leads past more than {most:,} nodes")
            )
        if visited % NODES_PER_SLICE == 0:
            yield None
        if repeats:
            if (node.path, at) in seen:
                continue
            seen[node.path, at] = None
        if at == len(pattern):
            yield node
            continue
        name = target(pattern[at])
        if name is None:
            ways.append(_children(node, pattern[at], at, in_order=in_order))
            continue
        step = step_to(node, pattern, at, name)
        if isinstance(step, Node):
            ways.append(iter([(step, at + 1)]))
        else:
            yield step


def step_to(node: Node, pattern: Pattern, at: int, name: str) -> Node | Missing | Refused:
    """The node that a component names, as seen from the one before."""
    there = node if name in SPECIALS else node.children.get(name)
    if there is None:
        return Missing(node, at)
    component = pattern[at]
    failed = None if component == name else failing(component, name, there.properties())
    if failed is None:
        return there
    is_target = at == len(pattern) - 1
    return Refused("mismatching_node", there.path, is_target, failed, there.properties())


def find_one(root: Node, pattern: Pattern) -> Node | Refused:
    """The node that a compiled pattern names.

    That it can match one only is looked at on the way: what is missing before is an error first (KH-5).
    """
    node = root
    for at, component in enumerate(pattern):
        name = target(component)
        if name is None:
            return Refused("possibly_matching_many_nodes_denied", pattern)
        step = step_to(node, pattern, at, name)
        if isinstance(step, Refused):
            return step
        if isinstance(step, Missing):
            return not_found(node, pattern, at)
        node = step
    return node


def not_found(parent: Node, pattern: Pattern, at: int) -> Refused:
    """The answer where a named node is missing; with the component, if that is more than a name."""
    component = pattern[at]
    name = target(component)
    assert name is not None, "what is missing was named"
    condition = None if isinstance(component, str) else component
    return Refused("node_not_found", (*parent.path, name), at == len(pattern) - 1, condition)


_END: Final = (Node((), None, is_watched=False), -1)


def _children(node: Node, component: Component, at: int, *, in_order: bool) -> Iterator[tuple[Node, int] | None]:
    """The steps down from a node by a component that may match several; None now and then."""
    goes_on = descends(component)
    names: Iterable[str] | None = siblings(component) if not goes_on else None
    names = node.children if names is None else names
    for number, name in enumerate(sorted(names) if in_order else names, start=1):
        if number % NODES_PER_SLICE == 0:
            yield None
        child = node.children.get(name)
        if child is None:
            continue
        if holds(component, name, child.properties()):
            yield child, at + 1
        if goes_on:
            yield child, at

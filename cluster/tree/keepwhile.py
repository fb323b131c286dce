"""What keeps nodes: conditions on other nodes, by the paths that they watch (KH-7).

A node that was put with conditions is removed by the command after which one of them does not hold. So after a command
the conditions on nodes that it touched are looked at again, and no others: the index finds them by path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from splitbrain.cluster.tree.conditions import Component, IfAll, IfAny, IfNodeExists, IfNot, failing
from splitbrain.cluster.tree.messages import KeepWhile
from splitbrain.cluster.tree.nodes import Node
from splitbrain.cluster.tree.paths import ROOT, Path
from splitbrain.cluster.tree.patternindex import PatternIndex
from splitbrain.cluster.tree.patterns import Pattern, abspath, compiled, exact_path
from splitbrain.cluster.tree.walk import matching


class Watchers:
    """The nodes that are kept by conditions, by the paths that these watch."""

    def __init__(self) -> None:
        self._exact: dict[Path, dict[Path, None]] = {}
        self._patterns: PatternIndex[Path] = PatternIndex()

    def __bool__(self) -> bool:
        return bool(self._exact) or bool(self._patterns)

    def add(self, watcher: Path, keep_while: Iterable[KeepWhile]) -> None:
        """A node is kept by conditions with compiled paths."""
        for kept in keep_while:
            if _is_plain(kept.path):
                self._exact.setdefault(_plain(kept.path), {})[watcher] = None
            else:
                self._patterns.add(kept.path, watcher)

    def remove(self, watcher: Path, keep_while: Iterable[KeepWhile]) -> None:
        """It is kept by these no more."""
        for kept in keep_while:
            if not _is_plain(kept.path):
                self._patterns.remove(kept.path, watcher)
                continue
            watchers = self._exact.get(_plain(kept.path), {})
            watchers.pop(watcher, None)
            if not watchers:
                self._exact.pop(_plain(kept.path), None)

    def of(self, path: Path) -> Iterator[Path]:
        """The nodes that may be kept no more if the node at a path changed."""
        yield from self._exact.get(path, ())
        if self._patterns:
            yield from self._patterns.concerned(path)


def resolved(keep_while: Iterable[KeepWhile], path: Path) -> tuple[KeepWhile, ...]:
    """The conditions of a node, with compiled, absolute paths.

    Raises:
        InvalidPathError: one is not in order.
    """
    return tuple(KeepWhile(compiled(abspath(kept.path, path)), compiled((kept.condition,))[0]) for kept in keep_while)


def unmet(root: Node, node: Node, *, is_new: bool) -> Component | Pattern | None:
    """Why a node is kept no more: a condition, or the path of one that matches nothing; None if it is kept.

    The conditions of a new node on itself and on what is below it do not count: it could not be created otherwise.
    """
    return unmet_conditions(root, node.keep_while, node.path if is_new else None)


def unmet_conditions(root: Node, keep_while: Iterable[KeepWhile], new: Path | None) -> Component | Pattern | None:
    """The same for conditions of a node that is not there yet, if `new` is its path."""
    for kept in keep_while:
        if new is not None:
            watched = exact_path(kept.path)
            if watched is not None and watched[: len(new)] == new:
                continue
        problem = _problem(root, kept)
        if problem is not None:
            return problem
    return None


def _problem(root: Node, kept: KeepWhile) -> Component | Pattern | None:
    found_any = False
    for node in matching(root, kept.path):
        found_any = True
        failed = failing(kept.condition, node.path[-1] if node.path else ROOT, node.properties())
        if failed is not None:
            return failed
    return None if found_any or holds_of_nothing(kept.condition) else kept.path


def holds_of_nothing(condition: Component) -> bool:
    """Whether a condition holds where there is no node: only if it asks for that."""
    match condition:
        case IfNodeExists(yes):
            return not yes
        case IfNot(IfNodeExists(yes)):
            return yes
        case IfAll(conditions):
            return bool(conditions) and all(map(holds_of_nothing, conditions))
        case IfAny(conditions):
            return any(map(holds_of_nothing, conditions))
        case _:
            return False


def _is_plain(pattern: Pattern) -> bool:
    return all(isinstance(component, str) for component in pattern)


def _plain(pattern: Pattern) -> Path:
    return tuple(component for component in pattern if isinstance(component, str))

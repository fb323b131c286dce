"""An index of patterns: which of them a change of a node can concern, without a look at all of them.

A tree of components, as Khepri's pattern tree. What it gives is a superset, by names alone: conditions on anything but
names are taken to hold. A look-up costs as much as there are patterns along the path, not as there are patterns.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from splitbrain.cluster.tree.conditions import (
    Component,
    IfAll,
    IfAny,
    IfNameMatches,
    IfPathMatches,
    descends,
    holds,
    target,
)
from splitbrain.cluster.tree.paths import SPECIALS, Path
from splitbrain.cluster.tree.patterns import Pattern

K = TypeVar("K", bound=Hashable)


class _Level(Generic[K]):
    """The patterns that begin with the same components.

    Attributes:
        stays: whether the last of these components applies to nodes at any depth.
        keys: of the patterns that end here.
        passing: of those that go on, and have a condition on the node here.
    """

    __slots__ = ("conditions", "keys", "names", "passing", "stays")

    def __init__(self, *, stays: bool) -> None:
        self.stays = stays
        self.names: dict[str, _Level[K]] = {}
        self.conditions: dict[Component, _Level[K]] = {}
        self.keys: dict[K, None] = {}
        self.passing: dict[K, None] = {}

    def below(self, component: Component) -> _Level[K]:
        if isinstance(component, str):
            return self.names.setdefault(component, _Level(stays=False))
        return self.conditions.setdefault(component, _Level(stays=descends(component)))


class PatternIndex(Generic[K]):
    """Keys by compiled pattern."""

    def __init__(self) -> None:
        self._root: _Level[K] = _Level(stays=False)

    def __bool__(self) -> bool:
        root = self._root
        return bool(root.names or root.conditions or root.keys or root.passing)

    def add(self, pattern: Pattern, key: K) -> None:
        """Have a key found by a pattern."""
        level = self._root
        for component in pattern:
            if target(component) in SPECIALS:  # a condition on the root
                level.passing[key] = None
                continue
            level = level.below(component)
            if not isinstance(component, str):
                level.passing[key] = None
        level.keys[key] = None

    def remove(self, pattern: Pattern, key: K) -> None:
        """Have it found by this pattern no more."""
        trail: list[tuple[_Level[K], Component]] = []
        level = self._root
        for component in pattern:
            level.passing.pop(key, None)
            if target(component) in SPECIALS:
                continue
            trail.append((level, component))
            level = level.below(component)
        level.passing.pop(key, None)
        level.keys.pop(key, None)
        for above, component in reversed(trail):
            at = above.below(component)
            if at.names or at.conditions or at.keys or at.passing:
                return
            if isinstance(component, str):
                del above.names[component]
            else:
                del above.conditions[component]

    def concerned(self, path: Path) -> dict[K, None]:
        """The keys of patterns whose matches may change with the node at a path: it may be one, or lie on the way."""
        found: dict[K, None] = {}
        for level in self._levels(path):
            found.update(level.passing)
            found.update(level.keys)
        return found

    def matching(self, path: Path) -> dict[K, None]:
        """The keys of patterns that the node at a path may match."""
        found: dict[K, None] = {}
        for level in self._levels(path):
            found.update(level.keys)
        return found

    def _levels(self, path: Path) -> Iterator[_Level[K]]:
        levels = [self._root]
        for name in path:
            following: list[_Level[K]] = []
            for level in levels:
                if level.stays:
                    following.append(level)
                exact = level.names.get(name)
                if exact is not None:
                    following.append(exact)
                following.extend(below for component, below in level.conditions.items() if _may_hold(component, name))
            if not following:
                return
            levels = list({id(level): level for level in following}.values())
        yield from levels


def _may_hold(component: Component, name: str) -> bool:
    match component:
        case IfPathMatches():
            return True  # a walk descends through names that do not match
        case str() | IfNameMatches():
            return holds(component, name, None)
        case IfAll(conditions):
            return all(_may_hold(inner, name) for inner in conditions)
        case IfAny(conditions):
            return any(_may_hold(inner, name) for inner in conditions)
        case _:
            return True

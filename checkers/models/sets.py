"""Sets of elements."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, cast

from splitbrain.checkers.models.model import IMPOSSIBLE, UNKNOWN, Facts, Special, State


class GrowSet:
    """A set to which elements are added; a read lists all, in any order."""

    name = "grow-set"
    fs = frozenset({"add", "read"})
    opaque = frozenset({"read"})

    def init(self) -> State:
        """The empty set."""
        return frozenset[Hashable]()

    def step(self, state: State, f: str, value: Any, result: Any) -> State | Special:
        """A read requires exactly the elements that it returned, each once."""
        elements = cast("frozenset[Hashable]", state)
        if f == "add":
            return elements | {value}
        return elements if _shows(elements, result) else IMPOSSIBLE

    def observes(self, f: str, value: Any, result: Any) -> bool:
        """A read does."""
        return f == "read"

    def facts(self, f: str, value: Any, result: Any) -> Facts:
        """Elements that were read had been added."""
        return Facts(sees=_listed(result)) if f == "read" else Facts(leaves={value: True})

    def at_first(self, place: Hashable) -> Hashable:
        """No element is there."""
        return False


class Set:
    """A set: add and remove elements, ask for one or read them all.

    A read lists the elements in any order. The result of `contains` is true or false. The result of add and remove may
    say whether it changed the set, true or false; anything else says nothing.
    """

    name = "set"
    fs = frozenset({"add", "remove", "contains", "read"})
    opaque = frozenset({"read"})

    def init(self) -> State:
        """The empty set."""
        return frozenset[Hashable]()

    def step(self, state: State, f: str, value: Any, result: Any) -> State | Special:
        """What an op reveals of the set must fit; a read requires exactly the elements that it returned, each once."""
        elements = cast("frozenset[Hashable]", state)
        if f == "read":
            return elements if _shows(elements, result) else IMPOSSIBLE
        present = value in elements
        if f == "contains":
            if result is not UNKNOWN and not isinstance(result, bool):
                raise TypeError("the result of contains is true or false")
            return elements if result is UNKNOWN or result == present else IMPOSSIBLE
        changes = present == (f == "remove")
        if isinstance(result, bool) and result != changes:
            return IMPOSSIBLE
        return elements ^ {value} if changes else elements

    def observes(self, f: str, value: Any, result: Any) -> bool:
        """What reads does, and what was seen to change nothing."""
        return f in ("contains", "read") or result is False

    def facts(self, f: str, value: Any, result: Any) -> Facts:
        """Of each element, whether it was there and is."""
        if f == "read":
            return Facts(sees=_listed(result))
        if f == "contains":
            return Facts(sees={value: result}) if isinstance(result, bool) else Facts()
        after = f == "add"
        before = {value: result != after} if isinstance(result, bool) else dict[Hashable, bool]()
        return Facts(sees=before, leaves={value: after})

    def at_first(self, place: Hashable) -> Hashable:
        """No element is there."""
        return False


def _listed(result: Any) -> dict[Hashable, bool]:
    return dict.fromkeys(cast("tuple[Hashable, ...]", result), True) if isinstance(result, tuple) else {}


def _shows(elements: frozenset[Hashable], result: Any) -> bool:
    """Whether a read of all elements can have that result; null is none."""
    if result is UNKNOWN:
        return True
    listed = () if result is None else result
    if not isinstance(listed, tuple):
        raise TypeError("the result of a read of all elements is a list of them, or null for none")
    listed = cast("tuple[Hashable, ...]", listed)
    return len(listed) == len(elements) and elements == frozenset(listed)

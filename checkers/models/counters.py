"""Numbers that grow, and ids that must not repeat."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, cast

from splitbrain.checkers.models.model import IMPOSSIBLE, UNKNOWN, Addition, AdditiveModel, Special, State, whole
from splitbrain.results.errors import UsageError


class Counter(AdditiveModel):
    """A number that amounts are added to; increment returns it.

    It is 0 at first, or the parameter; amounts may be negative. The result null of a read counts as 0; everything else
    is a number. Sums of whole numbers are exact, whether they are written as 1 or 1.0.
    """

    name = "counter"
    fs = frozenset({"add", "increment", "read"})
    parameter = "initial"

    def __init__(self, initial: Hashable = 0) -> None:
        if isinstance(initial, bool) or not isinstance(initial, int | float):
            raise UsageError(f"model 'counter' takes the number at the beginning, as in counter(10); not {initial!r}.")
        self.initial = whole(initial)

    def addition(self, f: str, value: Any, result: Any) -> Addition:
        """An add is always possible; a read requires the sum so far, an increment the sum that it makes."""
        if f == "add":
            return Addition(_number(value))
        amount = _number(value) if f == "increment" else 0
        if result is UNKNOWN:
            return Addition(amount)
        return Addition(amount, _number(0 if f == "read" and result is None else result))


class UniqueIds:
    """A source of ids, none of which it gives twice."""

    name = "unique-ids"
    fs = frozenset({"generate"})
    opaque = frozenset({"generate"})

    def init(self) -> State:
        """No id was given yet."""
        return frozenset[Hashable]()

    def step(self, state: State, f: str, value: Any, result: Any) -> State | Special:
        """An id must be new. One that no op saw proves nothing: there is always another."""
        given = cast("frozenset[Hashable]", state)
        if result is UNKNOWN:
            return given
        return IMPOSSIBLE if result in given else given | {result}

    def observes(self, f: str, value: Any, result: Any) -> bool:
        """Only where no op saw the id."""
        return result is UNKNOWN


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("what is added to a counter is a number, and what is read a number, or null for 0")
    return whole(value)

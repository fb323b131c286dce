"""What the rules answer: violations, and how each rule fared in each window."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from splitbrain.checkers.quorum.windows import Window
from splitbrain.results.calls import seconds

Fared = Literal["held", "violated", "too few ops", "stalled", "not judged", "figures only"]
"""How a rule fared: "stalled" where the controller itself stood still, "not judged" where there was no occasion to,
"figures only" where the rule demands nothing."""

_BY_WEIGHT: Final[tuple[Fared, ...]] = ("violated", "held", "too few ops", "stalled", "not judged")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A violation.

    Attributes:
        rule: "Q1" to "Q10".
        sentence: what happened, in plain words.
        window: the number of the window in which it did, None if it belongs to none.
        ops: ops that show it.
        rows: rows of the telemetry that show it.
        numbers: all ops that violate the rule, by their places in `Answers`; the first of them are in `ops`.
        why: why each of these should not have been answered, to end a sentence with.
    """

    rule: str
    sentence: str
    window: int | None = None
    ops: tuple[dict[str, Any], ...] = ()
    rows: tuple[dict[str, Any], ...] = ()
    numbers: tuple[int, ...] = ()
    why: str = ""


def in_all(each: Iterable[Fared]) -> Fared:
    """How a rule fared in a run, from how it fared in its windows."""
    seen = {*each, _BY_WEIGHT[-1]}
    return next(how for how in _BY_WEIGHT if how in seen)


def during(window: Window) -> str:
    """A window in words."""
    return f"from {seconds(window.begin_ns):.3f} s to {seconds(window.end_ns):.3f} s"

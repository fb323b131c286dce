"""The answers of the rules: violations, and the result of each rule in each window."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from splitbrain.checkers.quorum.windows import Window
from splitbrain.results.calls import seconds

RuleResult = Literal["held", "violated", "too few ops", "stalled", "overloaded", "not judged", "figures only"]
"""The result of a rule: "stalled" if the controller was stalled, "overloaded" if answers came late, "not judged" if the
rule did not apply, "figures only" if the rule has no bound."""

_BY_WEIGHT: Final[tuple[RuleResult, ...]] = ("violated", "held", "too few ops", "stalled", "overloaded", "not judged")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A violation.

    Attributes:
        rule: "Q1" to "Q10".
        sentence: what happened.
        window: the number of the window in which it happened, None if it belongs to none.
        ops: ops that show it.
        rows: rows of the telemetry that show it.
        numbers: all ops that violate the rule, by their places in `Answers`; the first of them are in `ops`.
        why: why these ops should not have been answered: the end of a sentence.
    """

    rule: str
    sentence: str
    window: int | None = None
    ops: tuple[dict[str, Any], ...] = ()
    rows: tuple[dict[str, Any], ...] = ()
    numbers: tuple[int, ...] = ()
    why: str = ""


def in_all(each: Iterable[RuleResult]) -> RuleResult:
    """The result of a rule in a run, from its results in the windows."""
    seen = {*each, _BY_WEIGHT[-1]}
    return next(how for how in _BY_WEIGHT if how in seen)


def during(window: Window) -> str:
    """A window in words."""
    return f"from {seconds(window.begin_ns):.3f} s to {seconds(window.end_ns):.3f} s"

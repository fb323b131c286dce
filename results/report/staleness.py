"""How old the states were that reads showed, as the checker `session` measured it (`staleness` in its figures)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

_CHECKER: Final = "session"


class Age(msgspec.Struct, frozen=True):
    """Of one kind of reads; the attributes are those of `splitbrain.checkers.sessions.staleness.Age`."""

    reads: int
    stale: int
    at_least_s: float
    at_most_s: float
    at_least_writes: int
    at_most_writes: int


def staleness_of(verdicts: Sequence[Mapping[str, Any]]) -> dict[str, Age]:
    """By function of reads; empty where it was not measured, or is of a shape that this page cannot read."""
    for verdict in verdicts:
        figures = verdict.get("figures")
        if verdict.get("checker") == _CHECKER and isinstance(figures, dict):
            try:
                return msgspec.convert(figures.get("staleness", {}), dict[str, Age])  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
            except msgspec.ValidationError:
                return {}
    return {}

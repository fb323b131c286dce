"""Options that are a number of seconds: one rule for what they may be, and one refusal for all checkers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from splitbrain.results.errors import UsageError

DAY_S: Final = 86_400
MOST_S: Final = 1_000_000_000
"""Thirty years: what is longer is a mistake, and does not fit into nanoseconds."""


def is_seconds(value: Any, *, above_0: bool = False, most: float = MOST_S) -> bool:
    """Whether a value is a number of seconds: neither a truth value nor a text, finite, and not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return (value > 0 if above_0 else value >= 0) and value <= most  # what is not a number compares as false


def seconds_of(checker: str, name: str, value: Any, *, above_0: bool = False, most: float = MOST_S) -> float:
    """An option of a checker, which is a number of seconds.

    Args:
        checker: its name.
        name: of the option.
        value: the option.
        above_0: whether 0 makes no sense.
        most: the largest number that makes sense.

    Raises:
        UsageError: it is not.
    """
    if not is_seconds(value, above_0=above_0, most=most):
        least = "above 0" if above_0 else "from 0 on"
        raise UsageError(
            f"checker {checker}: option {name!r} must be a number of seconds {least} and at most {most:,}, not "
            f"{value!r:.80}."
        )
    return float(value)


def nanoseconds(checker: str, options: Mapping[str, Any], name: str, default_s: float) -> int:
    """The option of that name, a number of seconds of a day, in nanoseconds.

    Raises:
        UsageError: it is not.
    """
    return round(seconds_of(checker, name, options.get(name, default_s), most=DAY_S) * 1e9)


def refuse_others(
    checker: str, options: Mapping[str, Any], names: Iterable[str], *, above_0: bool = False, most: float = MOST_S
) -> None:
    """Refuse what is no number of seconds, of options that are; one that is left out, or null, is not looked at.

    Raises:
        UsageError: there is such an option.
    """
    for name in names:
        if options.get(name) is not None:
            seconds_of(checker, name, options[name], above_0=above_0, most=most)

"""Names in comma-separated lists, as options carry them."""

from __future__ import annotations

from typing import Final

from splitbrain.results.errors import UsageError

_DIGITS_MAX: Final = 18
"""Of a whole number in an option. None that has a meaning is longer, and Python refuses to read far longer ones."""


def number(text: str) -> int:
    """A whole number of digits, with an optional sign and blanks around it. A number with more digits than any option
    takes becomes a number that is out of all bounds, with its sign.
    """
    text = text.strip()
    if len(text.lstrip("+-")) <= _DIGITS_MAX:
        return int(text)
    return (-1 if text.startswith("-") else 1) * 10**_DIGITS_MAX


def names(option: str, text: str) -> tuple[str, ...]:
    """The names in a list, without blanks around them; none if nothing but blanks is given.

    Args:
        option: which option it is, for messages.
        text: what was given.

    Raises:
        UsageError: there is nothing between two commas or at an end, or a name stands there twice.
    """
    if not text.strip():
        return ()
    found = tuple(name.strip() for name in text.split(","))
    if not all(found):
        raise UsageError(f"{option} {text!r} has an empty name between two commas, or at an end: remove it.")
    twice = next((name for name in found if found.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"{option} {text!r} names {twice!r} twice: once is enough.")
    return found

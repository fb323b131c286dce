"""Names in comma-separated lists, as options carry them."""

from __future__ import annotations

from results.errors import UsageError


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
        raise UsageError(f"{option} {text!r} names nothing between two commas, or at an end: leave that out.")
    twice = next((name for name in found if found.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"{option} {text!r} names {twice!r} twice: once is enough.")
    return found

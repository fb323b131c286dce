"""Which values a history holds, and which of them are equal: one rule for readers, stores, checkers and models.

A value is what JSON can carry. Two values are equal if their canonical texts are the same: keys of objects sorted, no
white space, numbers as they are written. So 1, 1.0 and true are three values, as in Clojure, and a list is equal to a
tuple of the same items. Two rules on floating-point numbers (IEEE 754) go with it:

*   -0.0 is 0.0: its canonical text is "0.0".
*   NaN and the infinities are refused. JSON has no text for them, and NaN is not even equal to itself.

Where a model computes with numbers (counter, semaphore, priority-queue) it compares them by size; it refuses booleans.
"""

from __future__ import annotations

import math
from typing import Any, Final, cast

import msgspec

_SCALARS: Final = frozenset({type(None), bool, int, str})
_DOUBTFUL: Final = (b"null", b"-0.0")
"""What JSON makes of a number that is not finite, and of the negative zero; strings may hold both."""

NOT_JSON: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises of bytes that are no JSON, or none of the form that was expected."""

_encode: Final = msgspec.json.Encoder(order="deterministic").encode


class NotFiniteError(ValueError):
    """A value holds NaN or an infinity: give the number another form, a string for instance."""


def canonical_json(value: Any) -> str:
    """`value` as JSON with sorted keys and no white space: equal values give equal text.

    Raises:
        TypeError: the value is not something that JSON can carry.
        NotFiniteError: it holds a number that is not finite.
    """
    encoded = _encode(value)
    if type(value) not in _SCALARS and any(mark in encoded for mark in _DOUBTFUL):
        encoded = _encode(canonical(value))
    return encoded.decode()


def canonical(value: Any) -> Any:
    """`value` with 0.0 for -0.0, wherever it stands.

    Raises:
        NotFiniteError: it holds a number that is not finite.
    """
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotFiniteError(f"{value} has no JSON form")
        return value + 0.0  # -0.0 + 0.0 is 0.0; every other number stays what it is
    if isinstance(value, list | tuple):
        return [canonical(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: canonical(item) for key, item in cast("dict[Any, Any]", value).items()}
    if type(value) in _SCALARS:
        return value
    return canonical(msgspec.to_builtins(value, order="deterministic"))  # a set, a struct, ...: what JSON makes of it


def refuse_not_finite(value: Any) -> None:
    """Refuse a value that holds a number that is not finite.

    Raises:
        NotFiniteError: it does.
    """
    if type(value) not in _SCALARS:
        canonical(value)

"""Built-in functions and types as registered functions get them: with one result on every Python and machine (D13).

What differs of Python's own ones: since 3.12 `sum` rounds floats in another way; `pow` of floats follows the C library;
`int` and `float` read the digits of all languages that the version of Python knows, and the text of a list or a dict
escapes what that version takes for unprintable. How many digits a number may have as text is a setting of the process.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

MAX_DIGITS: Final = 640
"""Of a whole number as text: no setting of Python refuses so many."""

_TOO_LARGE: Final = 10**MAX_DIGITS


def portable_sum(values: Iterable[Any], /, start: Any = 0) -> Any:
    """The sum, added up from the left."""
    total = start
    for value in values:
        total = total + value
    return total


def portable_pow(base: int, exponent: int, modulus: int | None = None, /) -> int:
    """A power of whole numbers."""
    if isinstance(base, float) or isinstance(exponent, float) or exponent < 0:
        raise TypeError("pow takes whole numbers, and no negative exponent")
    return pow(base, exponent, modulus)


class _StandsForItsBase(type):
    """A class that is called in another way than its base, and whose instances are those of its base."""

    def __instancecheck__(cls, instance: Any) -> bool:
        assert cls.__base__ is not None, "it has one"
        return isinstance(instance, cls.__base__)


class PortableText(str, metaclass=_StandsForItsBase):
    """`str` of texts, numbers, true, false and None: of anything else the text is for people."""

    __slots__ = ()

    def __new__(cls, value: Any = "", /) -> Any:
        """The text, of Python's own type."""
        if type(value) not in (str, int, float, bool, type(None)):
            raise TypeError("str takes texts, numbers, true, false and None")
        if isinstance(value, int) and not -_TOO_LARGE < value < _TOO_LARGE:
            raise ValueError(f"a number has at most {MAX_DIGITS} digits as text")
        return str(value)


class PortableInteger(int, metaclass=_StandsForItsBase):
    """`int` of numbers, and of texts in ASCII."""

    __slots__ = ()

    def __new__(cls, value: Any = 0, /, *base: Any, **named: Any) -> Any:
        """The number, of Python's own type."""
        if isinstance(value, (str, bytes)):
            _check_number(value)
        return int(value, *base, **named)


class PortableFloat(float, metaclass=_StandsForItsBase):
    """`float` of numbers, and of texts in ASCII."""

    __slots__ = ()

    def __new__(cls, value: Any = 0.0, /) -> Any:
        """The number, of Python's own type."""
        if isinstance(value, (str, bytes)):
            _check_number(value)
        return float(value)


def _check_number(text: str | bytes) -> None:
    if not text.isascii() or len(text) > MAX_DIGITS:
        raise ValueError(f"a number as text has at most {MAX_DIGITS} characters, all of ASCII")


PORTABLE: Final[dict[str, Any]] = {
    "sum": portable_sum,
    "pow": portable_pow,
    "str": PortableText,
    "int": PortableInteger,
    "float": PortableFloat,
}
"""What registered functions get for the built-in of that name."""

"""Patterns of data: `if_data_matches` and `compare_and_swap` (KH-3, KH-4).

A payload is opaque to the tree but for these: a pattern is a value in msgpack, in which an extension stands for any
value (`ANY`), or for any value that gets a name (`variable`); the same name twice must be the same value. Guards are a
list of [name, argument, ...] on variables and constants, and all must hold.

Values are the same only if they are of one type: 1, 1.0 and true are three values. Data that are no msgpack, or are
nested deeper than `MAX_DATA_DEPTH`, match no pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast

import msgspec

MAX_DATA_DEPTH: Final = 32
MAX_PATTERN_BYTES: Final = 16 * 1024

_ANY_CODE: Final = 1
_VARIABLE_CODE: Final = 2

ANY: Final = msgspec.msgpack.Ext(_ANY_CODE, b"")
"""In a pattern: any value."""


class DataPatternError(ValueError):
    """These bytes are no pattern, or no guards; the message says why."""


def variable(name: str) -> msgspec.msgpack.Ext:
    """In a pattern: any value, by this name; in a guard: that value."""
    return msgspec.msgpack.Ext(_VARIABLE_CODE, name.encode())


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _ordered(left: object, right: object) -> bool:
    return (_is_number(left) and _is_number(right)) or (isinstance(left, str) and isinstance(right, str))


_OF_ONE: Final[dict[str, Callable[[Any], bool]]] = {
    "is_integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "is_float": lambda value: isinstance(value, float),
    "is_number": _is_number,
    "is_boolean": lambda value: isinstance(value, bool),
    "is_text": lambda value: isinstance(value, str),
    "is_bytes": lambda value: isinstance(value, bytes),
    "is_list": lambda value: isinstance(value, list),
    "is_map": lambda value: isinstance(value, dict),
}
"""Guards with one argument."""

_OF_TWO: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": lambda left, right: same(left, right),
    "/=": lambda left, right: not same(left, right),
    "<": lambda left, right: _ordered(left, right) and left < right,
    "=<": lambda left, right: _ordered(left, right) and left <= right,
    ">": lambda left, right: _ordered(left, right) and left > right,
    ">=": lambda left, right: _ordered(left, right) and left >= right,
}
"""Guards with two arguments. Numbers compare with numbers, texts with texts."""


@dataclass(frozen=True, slots=True)
class DataPattern:
    """A pattern that is in order."""

    pattern: Any
    guards: tuple[tuple[str, tuple[Any, ...]], ...]

    def matches(self, payload: bytes) -> bool:
        """Whether a payload matches, and all guards hold."""
        try:
            value = decoded(payload)
        except DataPatternError:
            return False
        found: dict[bytes, Any] = {}
        if not _matches(self.pattern, value, found):
            return False
        return all(self._holds(name, arguments, found) for name, arguments in self.guards)

    @staticmethod
    def _holds(name: str, arguments: tuple[Any, ...], found: dict[bytes, Any]) -> bool:
        values = [found[bytes(part.data)] if isinstance(part, msgspec.msgpack.Ext) else part for part in arguments]
        return _OF_ONE[name](values[0]) if name in _OF_ONE else _OF_TWO[name](values[0], values[1])


def same(left: Any, right: Any) -> bool:
    """Whether two values are the same, types included."""
    return _matches(left, right, {})


def _matches(pattern: Any, value: Any, found: dict[bytes, Any]) -> bool:
    if isinstance(pattern, msgspec.msgpack.Ext) and pattern.code == _ANY_CODE:
        return True
    if isinstance(pattern, msgspec.msgpack.Ext) and pattern.code == _VARIABLE_CODE:
        return same(found.setdefault(bytes(pattern.data), value), value)
    if type(pattern) is not type(value):
        return False
    if isinstance(pattern, list):
        return _lists_match(pattern, value, found)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(pattern, dict):
        return _maps_match(pattern, value, found)  # pyright: ignore[reportUnknownArgumentType]
    return pattern == value


def _lists_match(pattern: list[Any], value: list[Any], found: dict[bytes, Any]) -> bool:
    if len(pattern) != len(value):
        return False
    return all(_matches(wanted, inner, found) for wanted, inner in zip(pattern, value, strict=True))


def _maps_match(pattern: dict[Any, Any], value: dict[Any, Any], found: dict[bytes, Any]) -> bool:
    if len(pattern) != len(value):
        return False
    by_key = {_key(key): inner for key, inner in value.items()}
    return all(_key(key) in by_key and _matches(inner, by_key[_key(key)], found) for key, inner in pattern.items())


def _key(key: Any) -> tuple[str, Any]:
    return type(key).__name__, key


def decoded(payload: bytes) -> Any:
    """The value that a payload stands for.

    Raises:
        DataPatternError: it is no msgpack, or nested too deeply.
    """
    try:
        value: Any = msgspec.msgpack.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError, ValueError) as error:
        raise DataPatternError(f"it is no value in msgpack: {error}") from None
    if too_deep(value):
        raise DataPatternError(f"it is nested more than {MAX_DATA_DEPTH} deep")
    return value


def too_deep(value: Any) -> bool:
    """Whether a value is nested deeper than is looked at. The same on every member, however deep its stack is."""
    level: list[Any] = [value]
    for _ in range(MAX_DATA_DEPTH):
        if _NOT_NESTED.issuperset(map(type, level)):
            return False  # nothing is inside of any; most values are so, and may be long
        level = [inner for outer in level if type(outer) not in _NOT_NESTED for inner in _inner(outer)]
        if not level:
            return False
    return True


def _inner(value: Any) -> Iterable[Any]:
    if isinstance(value, list | tuple):
        return cast(Sequence[Any], value)
    if isinstance(value, dict):
        found = cast(dict[Any, Any], value)
        return (*found, *found.values())  # a key may be a tuple of tuples
    if isinstance(value, msgspec.Struct):  # of a function
        return [getattr(value, name) for name in value.__struct_fields__]
    return ()


_NOT_NESTED: Final = frozenset({type(None), bool, int, float, str, bytes})


@lru_cache(maxsize=256)
def compile_pattern(pattern: bytes, guards: bytes) -> DataPattern:
    """The pattern that these bytes stand for.

    Raises:
        DataPatternError: they stand for none.
    """
    if len(pattern) + len(guards) > MAX_PATTERN_BYTES:
        raise DataPatternError(f"a pattern of data and its guards have at most {MAX_PATTERN_BYTES:,} bytes")
    value = decoded(pattern)
    names: dict[bytes, None] = {}
    _collect(value, names)
    return DataPattern(value, _checked_guards(decoded(guards), names) if guards else ())


def _collect(value: Any, names: dict[bytes, None]) -> None:
    if isinstance(value, msgspec.msgpack.Ext):
        if value.code == _VARIABLE_CODE:
            names[bytes(value.data)] = None
        elif value.code != _ANY_CODE:
            raise DataPatternError(f"there is no extension {value.code} in patterns")
    for inner in _inner(value):
        _collect(inner, names)


def _checked_guards(value: Any, names: dict[bytes, None]) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    return tuple(_checked_guard(guard, names) for guard in _as_list(value))


def _as_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise DataPatternError("guards are a list, and so is each of them")
    return value  # pyright: ignore[reportUnknownVariableType]


def _checked_guard(value: Any, names: dict[bytes, None]) -> tuple[str, tuple[Any, ...]]:
    guard = _as_list(value)
    name: Any = guard[0] if guard else None
    if not isinstance(name, str) or (name not in _OF_ONE and name not in _OF_TWO):
        known = ", ".join((*_OF_ONE, *_OF_TWO))
        raise DataPatternError(f"a guard is a list that begins with one of {known}")
    arguments = guard[1:]
    if len(arguments) != (1 if name in _OF_ONE else 2):
        raise DataPatternError(f"the guard {name} has {len(arguments)} arguments")
    for argument in arguments:
        if isinstance(argument, msgspec.msgpack.Ext) and bytes(argument.data) not in names:
            raise DataPatternError(f"the guard {name} has a variable that the pattern does not have")
    return name, tuple(arguments)

"""What wrappers have in common: values that JSON can carry, words for error messages, passing things through."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

_PLAIN = (str, bool, type(None))
_DEPTH_LIMIT = 64


def json_problem(value: object, depth: int = 0) -> str | None:
    """Why JSON cannot carry a value unchanged, None if it can."""
    kind = type(value)
    if value is None or (kind is int and -(2**63) <= value < 2**63):  # pyright: ignore[reportOperatorIssue]
        return None  # most values
    if isinstance(value, str):
        return (
            None if value.isascii() or _encodable(value) else f"the string {short(value)} holds half a surrogate pair"
        )
    if isinstance(value, _PLAIN):
        return None
    if isinstance(value, int):
        return None if -(2**63) <= value < 2**63 else f"{short(value)} does not fit into 64 bits"
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{value} has no JSON form"
    if depth >= _DEPTH_LIMIT:
        return f"it is nested deeper than {_DEPTH_LIMIT} levels"
    if isinstance(value, (list, tuple)):
        return _first_problem(cast("Sequence[object]", value), depth)
    if isinstance(value, dict):
        mapping = cast("dict[object, object]", value)
        for key in mapping:
            if not isinstance(key, str):
                return f"the key {short(key)} of a mapping is no string"
        return _first_problem(list(mapping), depth) or _first_problem(list(mapping.values()), depth)
    return f"{short(value)} is a {type(value).__name__}"


def _first_problem(values: Sequence[object], depth: int) -> str | None:
    for value in values:
        problem = json_problem(value, depth + 1)
        if problem is not None:
            return problem
    return None


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def short(value: object) -> str:
    """A value for an error message, 80 characters at most."""
    try:
        text = repr(value)
    except Exception as error:  # of a class of its own, or a number of thousands of digits
        return f"a value of {name_of(value)} (its repr raised {name_of(error)})"
    return text if len(text) <= 80 else text[:77] + "..."


def name_of(thing: object) -> str:
    """The class at fault, for an error message."""
    return type(thing).__name__


class Wrapper:
    """Passes everything on that the wrapper does not define itself."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

"""Text that came from a run, made fit to be shown."""

from __future__ import annotations

import json
from typing import Any, Final, cast

import msgspec

VALUE_MAX: Final = 160
"""The largest number of characters of a value that are shown."""

_ELEMENTS_MAX: Final = 40


def clip(value: Any, most: int = VALUE_MAX) -> str:
    """A value as visible text of at most about `most` characters, with a note of what was cut."""
    if isinstance(value, list) and len(cast("list[Any]", value)) > _ELEMENTS_MAX:
        listed = cast("list[Any]", value)
        first, last = (", ".join(clip(element, 20) for element in part) for part in (listed[:6], listed[-3:]))
        return f"[{first}, … {last}] ({len(listed):,} elements)"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    shown = visible(text[:most])
    return shown if len(text) <= most else f"{shown}… ({len(text):,} characters)"


def encoded(value: Any) -> bytes:
    """A value as JSON; what is no text in it, such as the name of a file that is not UTF-8, with escapes."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_of_text(msgspec.to_builtins(value)))


def _of_text(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_of_text(key): _of_text(each) for key, each in cast("dict[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_of_text(each) for each in cast("list[Any]", value)]
    return value


def visible(text: str) -> str:
    """`text` with every character that cannot be printed (control, direction, lone surrogate) as its escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)

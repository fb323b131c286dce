"""Text that came from a run, made fit to be shown."""

from __future__ import annotations

import json
from typing import Any, Final, cast

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


def visible(text: str) -> str:
    """`text` with every character that cannot be printed (control, direction, lone surrogate) as its escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)

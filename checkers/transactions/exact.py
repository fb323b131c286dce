"""Values that verifiers of witnesses compare: Python takes 1, 1.0 and true for equal, and histories do not."""

from __future__ import annotations

from typing import Any, cast

import msgspec


def exact(value: Any) -> Any:
    """The same value, with the JSON of true, false and floating-point numbers, in a tuple, in their place."""
    if isinstance(value, list | tuple):
        return [exact(each) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: exact(each) for name, each in cast("dict[str, Any]", value).items()}
    return (json_text(value),) if isinstance(value, bool | float) else value


def json_text(value: Any) -> str:
    """JSON with sorted keys: 1 and "1" have different ones."""
    return msgspec.json.encode(value, order="deterministic").decode()

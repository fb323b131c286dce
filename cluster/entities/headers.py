"""Whether the headers of a message are those that a binding to a headers exchange asks for.

`x-match` of the binding's arguments says how: `all` (also where there is none), `any`, and `all-with-x` and
`any-with-x`, which count arguments that begin with `x-` like others; the first two leave them out. An argument that is
None asks only that the header is there. Numbers compare by value; true and false are no numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

X_MATCH: Final = "x-match"
WAYS: Final = ("all", "any", "all-with-x", "any-with-x")


def matches(arguments: Mapping[str, Any], headers: Mapping[str, Any]) -> bool:
    """Whether a message with these headers goes where a binding with these arguments leads.

    Of no arguments all hold, and none does.
    """
    how = arguments.get(X_MATCH, "all")
    wanted = [
        (name, value)
        for name, value in arguments.items()
        if name != X_MATCH and (how in ("all-with-x", "any-with-x") or not name.startswith("x-"))
    ]
    found = (name in headers and (value is None or _same(value, headers[name])) for name, value in wanted)
    return any(found) if how in ("any", "any-with-x") else all(found)


def _same(wanted: Any, given: Any) -> bool:
    if isinstance(wanted, bool) or isinstance(given, bool):
        return wanted is given
    return bool(wanted == given)

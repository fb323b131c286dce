"""Whether what a step gave is as a case expects it."""

# JSON has no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from tests.cluster.queues.cases import NotUnderstoodError

Json: TypeAlias = Any


def disagreement(expected: Json, got: Json) -> str | None:
    """The first key in which they differ, with both values; None if there is none.

    Raises:
        NotUnderstoodError: the expectation has a key that the format does not name.
    """
    for key, wanted in expected.items():
        if key == "state":
            problem = _state_disagreement(wanted, got["state"])
            if problem is not None:
                return problem
            continue
        found = got.get(key.removesuffix("_include"))
        if key not in _AGREE:
            raise NotUnderstoodError(f"an expectation has {key!r}, which the format does not name")
        if not _AGREE[key](wanted, found):
            return f"{key} is {json.dumps(found)}, and not {json.dumps(wanted)}"
    return None


def _state_disagreement(expected: Json, got: Json) -> str | None:
    for key, wanted in expected.items():
        name = "consumers" if key == "consumers_include" else key
        if name not in got:
            raise NotUnderstoodError(f"a state has {key!r}, which the format does not name")
        agree = _CONSUMERS.get(key, _within)
        if not agree(wanted, got[name]):
            return f"state.{key} is {json.dumps(got[name])}, and not {json.dumps(wanted)}"
    return None


def _within(expected: Json, got: Json) -> bool:
    """Objects agree in the keys that are listed; lists have as many elements, which agree one by one."""
    if isinstance(expected, dict):
        return isinstance(got, dict) and all(key in got and _within(value, got[key]) for key, value in expected.items())
    if isinstance(expected, list):
        return isinstance(got, list) and len(got) == len(expected) and all(map(_within, expected, got))
    return expected == got and isinstance(expected, bool) == isinstance(got, bool)


def _exactly_these(expected: Json, got: Json) -> bool:
    """Exactly the keys that are listed; their values agree."""
    return isinstance(got, dict) and expected.keys() == got.keys() and _within(expected, got)


def _any_order(expected: Json, got: Json) -> bool:
    return len(expected) == len(got) and _matched(expected, got)


def _matched(expected: Json, got: Json) -> bool:
    """Whether each that is expected has one of its own that agrees."""
    if not expected:
        return True
    first, rest = expected[0], expected[1:]
    return any(_within(first, one) and _matched(rest, [*got[:at], *got[at + 1 :]]) for at, one in enumerate(got))


def _as_set(expected: Json, got: Json) -> bool:
    return _distinct(expected) == _distinct(got)


def _distinct(values: Json) -> set[str]:
    return {json.dumps(value, sort_keys=True) for value in values}


def _letters(expected: Json, got: Json) -> bool:
    return _any_order(_added_up(expected), _added_up(got))


def _added_up(letters: Json) -> list[Json]:
    """Entries with equal reason and strategy as one."""
    letters = [letter for letter in letters if letter["count"]]
    sums: dict[tuple[Json, Json], dict[str, Json]] = {}
    for letter in letters:
        entry = sums.setdefault((letter.get("reason"), letter.get("strategy")), dict(letter) | {"count": 0})
        if entry["count"] and "messages" in letter:
            entry["messages"] = entry.get("messages", []) + letter["messages"]
        entry["count"] += letter["count"]
    return list(sums.values())


def _consumers(expected: Json, got: Json) -> bool:
    return expected.keys() == got.keys() and _some_consumers(expected, got)


def _some_consumers(expected: Json, got: Json) -> bool:
    return all(tag in got and _consumer(wanted, got[tag]) for tag, wanted in expected.items())


def _consumer(expected: Json, got: Json) -> bool:
    exact = "checked_out" not in expected or expected["checked_out"].keys() == got["checked_out"].keys()
    return exact and _within(expected, got)


_Agree: TypeAlias = Callable[[Json, Json], bool]

_AGREE: Final[Mapping[str, _Agree]] = {
    "reply": lambda expected, got: (
        got == {"cancelled": {}} if expected == {"cancelled": {}} else _within(expected, got)
    ),
    "deliveries": _exactly_these,
    "dead_letters": _letters,
    "dlx_deliveries": _within,
    "dlx_confirmed": _within,
    "sends": _any_order,
    "sends_include": _matched,
    "cancelled": _any_order,
    "cancelled_include": _matched,
    "monitors": _as_set,
    "monitors_include": _matched,
    "activity": _any_order,
    "activity_include": _matched,
    "delete_queue": _within,
    "nodes": _within,
}

_CONSUMERS: Final[Mapping[str, _Agree]] = {
    "consumers": _consumers,
    "consumers_include": _some_consumers,
    "waiting_consumers": _consumers,
    "enqueuers": lambda expected, got: expected == got,
}

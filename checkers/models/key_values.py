"""A store of strings by key, of which a model sees one key."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Hashable, Iterable
from typing import Any, cast

from splitbrain.checkers.models.model import IMPOSSIBLE, UNKNOWN, Facts, Special, State
from splitbrain.results.errors import UsageError


class KeyValue:
    """A string under a key, as in Porcupine's kv model.

    It is empty at first, or the parameter. A missing key is the empty string, and so is null,
    whether put, appended or answered by a get. Nothing else than text is stored.
    """

    name = "kv"
    fs = frozenset({"get", "put", "append"})
    parameter = "initial"

    def __init__(self, initial: Hashable = "") -> None:
        if not isinstance(initial, str):
            raise UsageError(f"model 'kv' takes the string at the beginning, as in kv(\"a\"); not {initial!r}.")
        self.initial = initial

    def init(self) -> State:
        """The string at the beginning."""
        return self.initial

    def step(self, state: State, f: str, value: Any, result: Any) -> State | Special:
        """Put and append are always possible; a get requires the string."""
        text = cast(str, state)
        if f == "put":
            return _text(value)
        if f == "append":
            return text + _text(value)
        return text if result is UNKNOWN or _text(result) == text else IMPOSSIBLE

    def observes(self, f: str, value: Any, result: Any) -> bool:
        """A get does, and an append of nothing."""
        return f == "get" or (f == "append" and value in ("", None))

    def overwrites(self, f: str, value: Any, result: Any) -> bool:
        """A put does."""
        return f == "put"

    def signature(self, calls: Iterable[tuple[str, Any, Any]]) -> Callable[[State], Hashable]:
        """A string is itself while some get's answer begins with it; all others are one.

        After any append no get shows such a string any more, until the next put, which leaves the same of all.
        """
        answered = {result for f, _, result in calls if f == "get" and (result is None or isinstance(result, str))}
        answers = sorted({result or "" for result in answered})

        def shown(state: State) -> Hashable:
            at = bisect.bisect_left(answers, cast(str, state))
            return state if at < len(answers) and answers[at].startswith(cast(str, state)) else None

        return shown

    def facts(self, f: str, value: Any, result: Any) -> Facts | None:
        """What is put is there; its value alone does not show what an append leaves."""
        if f == "append":
            return None if _text(value) else Facts()
        if f == "put":
            return Facts(leaves={None: _text(value)})
        return Facts() if result is UNKNOWN else Facts(sees={None: _text(result)})

    def at_first(self, place: Hashable) -> Hashable:
        """The string at the beginning."""
        return self.initial


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError("what is under a key is text, or null for the empty string")
    return value

"""Linearizability by definition: try every order of the ops that respects real time. Slow, and plainly right."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from splitbrain.results.history import Op, pairs

Step = Callable[[Any, str, Any, Any], Hashable | None]
"""(state, f, argument, result or None where nobody knows) -> the next state, None where the op cannot happen."""


def linearizable(history: Sequence[Op], init: Hashable, step: Step) -> bool:
    """Whether some total order of all ok ops, and of any of the unknown ones, is legal and respects real time."""
    calls: list[tuple[int, float, str, Any, Any, bool]] = []
    for pair in pairs(history):
        end = pair.completion
        if end is not None and end.type == "fail":
            continue
        certain = end is not None and end.type == "ok"
        calls.append(
            (
                pair.invoke.index,
                end.index if end is not None and certain else float("inf"),
                pair.invoke.f,
                pair.invoke.value,
                end.value if end is not None and certain else None,
                certain,
            )
        )
    seen: set[tuple[frozenset[int], Hashable]] = set()

    def search(left: frozenset[int], state: Hashable) -> bool:
        if not any(calls[i][5] for i in left):
            return True
        if (left, state) in seen:
            return False
        seen.add((left, state))
        first_end = min(calls[i][1] for i in left)
        for i in left:
            begin, _, f, value, result, certain = calls[i]
            if begin < first_end:
                next_state = step(state, f, value, result if certain else None)
                if next_state is not None and search(left - {i}, next_state):
                    return True
        return False

    return search(frozenset(range(len(calls))), init)

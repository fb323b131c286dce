"""A model: what a register that keeps the largest value written answers, if ops take effect one at a time."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from splitbrain import IMPOSSIBLE, UNKNOWN, Special


class Starter:
    """write(value) keeps the larger one, read gives it; 0 at first. States must be hashable and never change."""

    name = "starter"
    fs = frozenset({"write", "read"})

    def init(self) -> Hashable:
        """The state at first."""
        return 0

    def step(self, state: Any, f: str, value: Any, result: Any) -> Hashable | Special:
        """The state after an op; IMPOSSIBLE if the op cannot have had `result`, which is UNKNOWN if it has none."""
        if f == "write":
            return max(state, value)
        return state if result is UNKNOWN or result == state else IMPOSSIBLE

    def observes(self, f: str, value: Any, result: Any) -> bool:
        """Whether the op changes no state: a checker may take it at any moment."""
        return f == "read"

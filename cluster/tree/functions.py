"""Registered functions: what transactions, procedures and projections are made of (KH-8, KH-13, KH-14, D13).

The log has a function's name and version, and every member has its code: so members must have the same. Hence what a
name and a version stand for never changes, and a function is part of a version of the state machine: before that is in
force, which needs that all members have it, the function is unknown on all members, also on those that have it.

    FUNCTIONS = Functions()

    @FUNCTIONS.register("bind", version=1)
    def bind(tx, data): ...

A function is refused when it is registered if its result may differ between members (`determinism`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from splitbrain.cluster.bugs import NO_BUGS, Bugs
from splitbrain.cluster.errors import FunctionRefusedError
from splitbrain.cluster.tree.determinism import restricted, uses
from splitbrain.cluster.tree.state import NEWEST_VERSION, PATTERNS_COME

WRITES: Final = frozenset({"put", "put_many", "create", "update", "compare_and_swap", "clear", "clear_many", "delete",
                           "delete_many", "run_stored"})  # fmt: skip
"""The methods of a transaction (`splitbrain.cluster.tree.transactions.Transaction`) that need one that may write."""

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Function:
    """A registered function.

    Attributes:
        name: of it.
        version: of it, from 1.
        since: the version of the state machine from which on it is known.
        call: the function, with nothing in reach but what was checked.
        writes: whether it, or a function that it calls, uses a method of a transaction that writes (mode "auto").
    """

    name: str
    version: int
    since: int
    call: Callable[..., Any]
    writes: bool


class Functions:
    """Functions by name and version.

    Attributes:
        bugs: what is broken on purpose where they are carried out.
    """

    def __init__(self, bugs: Bugs = NO_BUGS) -> None:
        self.bugs = bugs
        self._functions: dict[tuple[str, int], Function] = {}

    @classmethod
    def of(cls, *parts: Functions, bugs: Bugs = NO_BUGS) -> Functions:
        """All functions of these together, carried out with these bugs.

        Raises:
            FunctionRefusedError: two of them have the same name and version.
        """
        together = cls(bugs)
        for part in parts:
            for (name, version), function in part._functions.items():
                together._refuse_twice(name, version)
                together._functions[name, version] = function
        return together

    def register(self, name: str, *, version: int, since: int = PATTERNS_COME) -> Callable[[F], F]:
        """Register the function below; it stays as it is.

        Raises:
            FunctionRefusedError: it is there already, or its result may differ between members.
        """

        def decorate(function: F) -> F:
            self.add(name, version, function, since=since)
            return function

        return decorate

    def add(self, name: str, version: int, function: Callable[..., Any], *, since: int = PATTERNS_COME) -> None:
        """The same for a function that is at hand."""
        self._refuse_twice(name, version)
        if version < 1 or not PATTERNS_COME <= since <= NEWEST_VERSION:
            known = f"{PATTERNS_COME} to {NEWEST_VERSION}"
            raise FunctionRefusedError(f"{name} {version}: versions begin with 1, and `since` is one of {known}.")
        made = Function(name, version, since, restricted(function), uses(function, WRITES))
        self._functions[name, version] = made

    def _refuse_twice(self, name: str, version: int) -> None:
        if (name, version) in self._functions:
            raise FunctionRefusedError(f"{name} has a version {version} already: what it stands for never changes.")

    def find(self, name: str, version: int, machine_version: int) -> Function | None:
        """The function that these stand for under a version of the state machine, None if there is none."""
        found = self._functions.get((name, version))
        return None if found is None or found.since > machine_version else found

    def writes(self, name: str, version: int) -> bool:
        """Whether a function needs a transaction that may write; also if it is not known here (mode "auto")."""
        found = self._functions.get((name, version))
        return found is None or found.writes

    def since(self, name: str, version: int) -> int:
        """The version of the state machine from which on a function that is known here is known."""
        return self._functions[name, version].since

    def names(self) -> list[tuple[str, int]]:
        """All of them, sorted."""
        return sorted(self._functions)


NO_FUNCTIONS: Final = Functions()
"""None at all."""

"""Bugs that can be switched on, to prove that the harness finds them. Every one of them is off unless it is named.

Ids are those of the mutation catalogue. A bug is one entry in `ALL` and one hook, a few lines at most, in the code that
it breaks; the hook asks `BUG in bugs` (once, at construction, where it would cost on a hot path). What a switch must
never be is a default, an environment variable, or a fallback for something that could not be read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


class UnknownBugError(ValueError):
    """There is no bug of that id. Its message lists those that there are."""


@dataclass(frozen=True, slots=True)
class Bug:
    """One switch.

    Attributes:
        id: e.g. "M23".
        line: what is broken, in one line.
    """

    id: str
    line: str


M01: Final = Bug("M01", "a node's vote is not persisted: after a restart the node can vote again in the same term")
M02: Final = Bug("M02", "the current term is not persisted: a restarted node begins at term 0, and terms are reused")
M09: Final = Bug("M09", "quorum is N/2 instead of N/2 + 1, for elections, commit and reads")
M15: Final = Bug("M15", "entries are acknowledged, and counted by the leader, before they are synced to disk")
M17: Final = Bug("M17", "the leader applies and answers a command as soon as it is appended, before a quorum has it")
M22: Final = Bug("M22", "a link to a peer that broke is never dialled again")
M23: Final = Bug("M23", "the leader answers reads from its own state, without asking a majority whether it still leads")
M47: Final = Bug("M47", "a change of members may begin before the one before it is committed")
M48: Final = Bug("M48", "a new leader may change members before it has committed the no-op of its term")
M50: Final = Bug("M50", "a change of members stays in force on a node from whose log it was cut off")
M80: Final = Bug("M80", "a leader without replies of a majority stays leader, and continues its heartbeats")
M81: Final = Bug("M81", "a node that lost its leader acknowledges writes, and forgets them")
M82: Final = Bug("M82", "a node that finds a majority stopped, or not started yet, answers reads from what it holds")

ALL: Final[dict[str, Bug]] = {bug.id: bug for bug in (M01, M02, M09, M15, M17, M22, M23, M47, M48, M50, M80, M81, M82)}
"""Every bug by id, in the order of ids."""


class Bugs:
    """The bugs that are switched on in one node: an immutable set, in the order of ids."""

    __slots__ = ("ids",)

    ids: tuple[str, ...]

    def __init__(self, ids: Iterable[str] = ()) -> None:
        wanted = list(ids)
        for bug_id in wanted:
            if bug_id not in ALL:
                raise UnknownBugError(f"no bug is called {bug_id!r}; there are {', '.join(ALL)}.")
        object.__setattr__(self, "ids", tuple(bug_id for bug_id in ALL if bug_id in wanted))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"bugs cannot be changed in a running node: {name} is read-only")

    def __contains__(self, bug: Bug) -> bool:
        return bug.id in self.ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bugs) and self.ids == other.ids

    def __hash__(self) -> int:
        return hash(self.ids)

    def __repr__(self) -> str:
        return f"Bugs({list(self.ids)!r})"


NO_BUGS: Final = Bugs()

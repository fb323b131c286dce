"""What the tree says of the migration: one node, which changes by compare-and-swap only (M2K-2).

It decides which store answers: the tree once the migration has finished, the tables before. The tables' own record of
access (`splitbrain.cluster.tables.entities.access`) decides whether they do answer.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec

PATH: Final = (":table_migration", ":entities")

State: TypeAlias = Literal["idle", "in_flight", "prepared", "undoing", "finished", "rolling_back"]
"""`idle`: none is under way, nothing is left of one that failed. `prepared`: all is copied and the tables answer
nothing, but it is not decided yet whether the tree answers. `undoing`, `rolling_back`: the tables are to be opened
again."""


class Marker(msgspec.Struct, frozen=True):
    """The marker.

    Attributes:
        state: of the migration.
        owner: the process that works on it, or did; each has a name of its own.
        generation: rises each time that a process takes the marker.
        written: whether a change of an entity was sent to the tree since it is in force: then there is no way back.
        finished_ms: when it finished, by the clock of the owner.
        keeps_tables: whether the tables are still there for a rollback.
        rolled_back: whether the tables are in force since someone wanted them back: no migration begins by itself then.
    """

    state: State = "idle"
    owner: str = ""
    generation: int = 0
    written: bool = False
    finished_ms: int = 0
    keeps_tables: bool = True
    rolled_back: bool = False

    @property
    def tree_is_in_force(self) -> bool:
        """Whether the tree answers."""
        return self.state == "finished"


NONE: Final = Marker()
"""Before the first migration."""


def marker_of(value: Any) -> Marker:
    """The marker that a tree node holds; None, if there is no node, is the first one."""
    return NONE if value is None else msgspec.convert(value, Marker)

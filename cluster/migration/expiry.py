"""The end of the retired tables, once their time of retention is over (D5): a pure state machine."""

from __future__ import annotations

from typing import Final

from splitbrain.cluster.migration.marker import Marker
from splitbrain.cluster.migration.procedure import (
    FailedError,
    Machine,
    SupersededError,
    number_of,
    read_marker,
    swapped,
    tried,
)
from splitbrain.cluster.migration.steps import DropTables, Ended, ReadClock

RETENTION_MS: Final = 24 * 60 * 60 * 1000
"""So long the tables are kept unless a caller says otherwise."""


class Expiry:
    """One look whether it is time. The marker says first that the tables are gone: then nothing goes back to them.

    Args:
        retention_ms: how long they are kept.
    """

    def __init__(self, retention_ms: int = RETENTION_MS) -> None:
        self._retention_ms = retention_ms

    def steps(self) -> Machine:
        """What is to be done (`splitbrain.cluster.migration.procedure.Run`)."""
        try:
            marker: Marker = yield from read_marker()
            if not marker.tree_is_in_force:
                return Ended("nothing", "the tables are in force")
            if marker.keeps_tables:
                now_ms: int = yield from tried(ReadClock())
                left_ms = marker.finished_ms + self._retention_ms - now_ms
                if left_ms > 0:
                    return Ended("nothing", f"the tables are kept for {left_ms} ms more")
                marker = yield from swapped(marker, keeps_tables=False)
            while (yield from tried(DropTables(number_of(marker.generation, "retired")))):
                pass
        except SupersededError as error:
            return Ended("superseded", f"{error}: look again")
        except FailedError as error:
            return Ended("stuck", f"{error}: look again")
        return Ended("finished")

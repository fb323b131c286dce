"""How a migration ends that was prepared, once it is decided: finished or undone. Pure state machines.

Any process may end it: nothing answers from tables or tree meanwhile, so nothing is under way that only its own process
could go on with.
"""

from __future__ import annotations

import msgspec

from splitbrain.cluster.migration.converters import Converters
from splitbrain.cluster.migration.marker import Marker
from splitbrain.cluster.migration.procedure import (
    FailedError,
    Machine,
    SupersededError,
    put_back,
    read_marker,
    swapped,
    tried,
)
from splitbrain.cluster.migration.steps import Ended, ReadClock


class Finish:
    """It was decided that the tree answers."""

    def steps(self) -> Machine:
        """What is to be done (`splitbrain.cluster.migration.procedure.Run`)."""
        try:
            marker: Marker = yield from read_marker()
            if marker.tree_is_in_force:
                return Ended("nothing", "the tree is in force already")
            if marker.state != "prepared":
                return Ended("nothing", f"nothing is prepared: the marker is {marker.state}")
            now_ms: int = yield from tried(ReadClock())
            yield from swapped(marker, state="finished", finished_ms=now_ms)
        except SupersededError as error:
            return Ended("superseded", str(error))
        except FailedError as error:
            return Ended("stuck", str(error))
        return Ended("finished")


class Undo:
    """It was decided that the tables answer, or a process died before anything was decided. It undoes nothing finished.

    Args:
        owner: the process: no other run has this name.
        converters: of the tables to migrate.
    """

    def __init__(self, owner: str, converters: Converters) -> None:
        self._owner = owner
        self._converters = converters

    def steps(self) -> Machine:
        """What is to be done (`splitbrain.cluster.migration.procedure.Run`)."""
        return put_back(self._owner, _wanted, self._converters.roots)


def _wanted(there: Marker) -> Marker | Ended:
    if there.state in ("idle", "finished"):
        return Ended("nothing", f"nothing is to be undone: the marker is {there.state}")
    return msgspec.structs.replace(there, state="undoing")

"""The way back to the tables (M2K-5), until the tree has taken the first change (D5): a pure state machine."""

from __future__ import annotations

import msgspec

from splitbrain.cluster.migration.converters import Converters
from splitbrain.cluster.migration.marker import Marker
from splitbrain.cluster.migration.procedure import Machine, put_back
from splitbrain.cluster.migration.steps import Ended


class Rollback:
    """One run of one process. It also puts right what a migration left whose process died.

    Args:
        owner: the process: no other run has this name.
        converters: of the tables that were migrated.
    """

    def __init__(self, owner: str, converters: Converters) -> None:
        self._owner = owner
        self._converters = converters

    def steps(self) -> Machine:
        """What is to be done (`splitbrain.cluster.migration.procedure.Run`)."""
        return put_back(self._owner, _wanted, self._converters.roots)


def _wanted(there: Marker) -> Marker | Ended:
    if there.state == "idle":
        return Ended("nothing", "the tables are in force already")
    if there.tree_is_in_force and there.written:
        return Ended(
            "refused",
            "the tree has taken changes since the migration, and the tables lack them: there is no way back. Go on "
            "with the tree.",
        )
    if there.tree_is_in_force and not there.keeps_tables:
        return Ended("refused", "the tables are gone, since their time of retention is over. Go on with the tree.")
    return msgspec.structs.replace(there, state="rolling_back", rolled_back=True)

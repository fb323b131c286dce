"""MN-4: nothing is done about a partition but to make a partial one whole (MN-8). Both sides serve what they have."""

from __future__ import annotations

from collections.abc import Sequence

from splitbrain.cluster.bugs import M83, NO_BUGS, Bugs
from splitbrain.cluster.tables.strategies.strategy import Action, Start, Stop, Strategy, View


class Ignore(Strategy):
    """See the module."""

    def __init__(self, bugs: Bugs = NO_BUGS) -> None:
        self._restarts = M83 in bugs

    def poll(self, view: View) -> Sequence[Action]:
        """Do nothing."""
        if self._restarts and view.partitions and view.all_up:
            return (Stop(f"runs apart from {', '.join(view.partitions)}"), Start())
        return ()

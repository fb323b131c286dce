"""MN-5: a node that sees half of all nodes or fewer stops serving, and starts again once it sees more.

So of two halves both stop, and in a cluster of two the failure of either stops the other. Nodes that were stopped count
as those that are out of reach: nobody can tell them apart. In a partial partition a node waits for all (MN-8): if it
made the partition whole, it would become a minority, stop, see a majority and serve again, apart from the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from splitbrain.cluster.bugs import M84, M84B, M84C, NO_BUGS, Bugs
from splitbrain.cluster.tables.strategies.strategy import Action, Start, Stop, Strategy, View


class PauseMinority(Strategy):
    """See the module. RabbitMQ looks at nodes that go down only; here a node that starts waits for a majority, too."""

    def __init__(self, bugs: Bugs = NO_BUGS) -> None:
        self._bugs = bugs
        self._paused = False
        self._for_all = False

    def boots(self, view: View) -> bool:
        """Only with a majority."""
        self._paused = not self._has_majority(view)
        return not self._paused

    def node_down(self, node: str, view: View) -> Sequence[Action]:
        """Pause unless a majority is left."""
        return (
            () if self._paused or self._has_majority(view) else self._pause(f"{node} is down, and no majority is left")
        )

    def partial(self, node: str, proxy: str, view: View) -> Sequence[Action]:
        """Pause until all are there."""
        self._for_all = M84C not in self._bugs
        return () if self._paused else self._pause(f"{proxy} sees {node}, which is down for this node")

    def poll(self, view: View) -> Sequence[Action]:
        """Go on once that is possible."""
        for_all = self._for_all or M84B in self._bugs
        if not self._paused or not (view.all_up if for_all else self._has_majority(view)):
            return ()
        self._paused = self._for_all = False
        return (Start(),)

    def _has_majority(self, view: View) -> bool:
        return view.has_majority or (M84 in self._bugs and 2 * len(view.alive) == len(view.members))

    def _pause(self, why: str) -> Sequence[Action]:
        self._paused = True
        return (Stop(f"paused: {why}"),)

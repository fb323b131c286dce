"""MN-6: a node stops serving while it sees none of the nodes that are listed, and starts again once it sees one.

If the listed nodes are on both sides of a partition, both sides go on. What is done then, when they see each other
again, is the second choice: nothing (ignore), or autoheal.
"""

from __future__ import annotations

from collections.abc import Sequence

from splitbrain.cluster.bugs import M85, NO_BUGS, Bugs
from splitbrain.cluster.tables.messages import Healing
from splitbrain.cluster.tables.strategies.strategy import Action, Disconnect, Start, Stop, Strategy, View


class PauseIfAllDown(Strategy):
    """See the module.

    Args:
        nodes: the list; those that are no members count for nothing, and without any the node never pauses.
        recover: the strategy for both sides that went on.
    """

    def __init__(self, nodes: Sequence[str], recover: Strategy, bugs: Bugs = NO_BUGS) -> None:
        self._bugs = bugs
        self._nodes = frozenset(nodes)
        self._recover = recover
        self._paused = False

    def boots(self, view: View) -> bool:
        """Only with one of them."""
        self._paused = not self._is_preferred(view)
        return not self._paused

    def node_down(self, node: str, view: View) -> Sequence[Action]:
        """Pause unless one of them is left."""
        actions = list(self._recover.node_down(node, view))
        if self._paused or self._is_preferred(view):
            return actions
        self._paused = True
        return [*actions, Stop(f"paused: {node} is down, and none of {', '.join(sorted(self._nodes))} is left")]

    def database_down(self, node: str, view: View) -> Sequence[Action]:
        """As it recovers."""
        return self._recover.database_down(node, view)

    def partial(self, node: str, proxy: str, view: View) -> Sequence[Action]:
        """Make it whole, if this node may go on then."""
        return (Disconnect(proxy),) if self._is_preferred(view) else ()

    def received(self, sender: str, message: Healing, view: View) -> Sequence[Action]:
        """As it recovers."""
        return () if self._paused else self._recover.received(sender, message, view)

    def poll(self, view: View) -> Sequence[Action]:
        """Go on once that is possible."""
        if not self._paused:
            return self._recover.poll(view)
        if not self._is_preferred(view):
            return ()
        self._paused = False
        return (Start(),)

    def _is_preferred(self, view: View) -> bool:
        listed = self._nodes & frozenset(view.members)
        if M85 in self._bugs and len(view.alive) > 1:
            return True
        return not listed or bool(listed & view.alive)

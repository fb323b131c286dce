"""What a node does about partitions: the interface of the strategies, each a state machine of its own (MN-4 to MN-8).

A strategy is given what happened and a view of the cluster, and returns what the node shall do. It neither waits nor
reads a clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from splitbrain.cluster.tables.messages import Healing, Status


class View(NamedTuple):
    """What a node sees.

    Attributes:
        node: its name.
        members: all nodes, sorted.
        alive: the nodes with which it has a session, and itself.
        partitions: nodes whose databases run apart from its own.
        clients: connections of clients to it.
        now_ms: its monotonic time.
    """

    node: str
    members: tuple[str, ...]
    alive: frozenset[str]
    partitions: tuple[str, ...]
    clients: int
    now_ms: int

    @property
    def all_up(self) -> bool:
        """Whether it sees every node."""
        return self.alive >= frozenset(self.members)

    @property
    def has_majority(self) -> bool:
        """Whether it sees more than half of all nodes, itself included."""
        return 2 * len(self.alive) > len(self.members)


class Stop(NamedTuple):
    """Stop serving, and the database. The node itself goes on: it keeps its sessions.

    Attributes:
        why: in words.
        winner: the node whose tables the database will take over, where that is why it stops.
    """

    why: str
    winner: str | None = None


class Start(NamedTuple):
    """Start the database again."""


class Disconnect(NamedTuple):
    """End the session with a node, on both sides."""

    node: str


class Tell(NamedTuple):
    """Send a message to the strategy of another node."""

    node: str
    message: Healing


class Answered(NamedTuple):
    """Report what a node answered to the leader that asked (`splitbrain.cluster.tables.observed`)."""

    node: str
    status: Status


class Decided(NamedTuple):
    """Report what the leader decided: the winner, and all nodes that lose."""

    winner: str
    losers: tuple[str, ...]


Action: TypeAlias = Stop | Start | Disconnect | Tell | Answered | Decided


class Strategy:
    """A strategy that does nothing. Its events come in the order in which they happened."""

    def boots(self, view: View) -> bool:
        """Whether the database of a node that starts may start at once; else a later `Start` is needed."""
        return True

    def node_down(self, node: str, view: View) -> Sequence[Action]:
        """A node is declared down."""
        return ()

    def database_down(self, node: str, view: View) -> Sequence[Action]:
        """The database of a node has stopped, with its node or alone."""
        return ()

    def partial(self, node: str, proxy: str, view: View) -> Sequence[Action]:
        """A node that is down for this one is not for `proxy`, which this one sees (MN-8)."""
        return (Disconnect(proxy),)

    def received(self, sender: str, message: Healing, view: View) -> Sequence[Action]:
        """A message of the strategy of another node."""
        return ()

    def poll(self, view: View) -> Sequence[Action]:
        """Once a second, and whenever a node came up or a partition was noticed."""
        return ()

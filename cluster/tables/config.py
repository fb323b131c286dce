"""The configuration of a replica of the table store at its start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from splitbrain.cluster.bugs import NO_BUGS, Bugs
from splitbrain.cluster.errors import ArgumentError
from splitbrain.cluster.runtime import Address
from splitbrain.cluster.tables.strategies import strategy_named

TICK_MS: Final = 4_000
"""The tick time unless a node is configured otherwise. RabbitMQ's is 60 s; a test of a minute would see little then."""


@dataclass(frozen=True)
class TablesConfig:
    """The configuration of a node at its start.

    Attributes:
        node: its name.
        listen: the address that it serves.
        peers: all other nodes, and the addresses under which this one reaches them.
        strategy: what it does about partitions, by name (`splitbrain.cluster.tables.strategies`).
        preferred: the nodes that `pause-if-all-down` lists.
        tick_ms: the tick time, the same on all nodes.
        bugs: what is broken on purpose.

    Raises:
        ArgumentError: there is no such strategy, a preferred node is not known, or the tick time is too short.
    """

    node: str
    listen: Address
    peers: Mapping[str, Address]
    strategy: str = "ignore"
    preferred: tuple[str, ...] = ()
    tick_ms: int = TICK_MS
    bugs: Bugs = NO_BUGS

    def __post_init__(self) -> None:
        """Refuse what makes no cluster."""
        if self.node in self.peers:
            raise ArgumentError(f"{self.node} is named as its own peer: name only the other nodes.")
        if self.tick_ms < 100:
            raise ArgumentError(f"the tick time is 100 ms or more, not {self.tick_ms}.")
        unknown = sorted(set(self.preferred) - {self.node, *self.peers})
        if unknown:
            raise ArgumentError(f"--preferred names {', '.join(unknown)}: name this node, or a --peer.")
        strategy_named(self.strategy, self.preferred)

"""The strategies for partitions, by name (MN-4 to MN-8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from splitbrain.cluster.errors import ArgumentError
from splitbrain.cluster.tables.strategies.autoheal import Autoheal
from splitbrain.cluster.tables.strategies.ignore import Ignore
from splitbrain.cluster.tables.strategies.pause_if_all_down import PauseIfAllDown
from splitbrain.cluster.tables.strategies.pause_minority import PauseMinority
from splitbrain.cluster.tables.strategies.strategy import (
    Action,
    Disconnect,
    Start,
    Stop,
    Strategy,
    Tell,
    View,
)

__all__ = [
    "STRATEGIES",
    "Action",
    "Autoheal",
    "Disconnect",
    "Ignore",
    "PauseIfAllDown",
    "PauseMinority",
    "Start",
    "Stop",
    "Strategy",
    "Tell",
    "View",
    "strategy_named",
]

STRATEGIES: Final[Mapping[str, Callable[[Sequence[str]], Strategy]]] = {
    "ignore": lambda _: Ignore(),
    "pause-minority": lambda _: PauseMinority(),
    "pause-if-all-down-ignore": lambda nodes: PauseIfAllDown(nodes, Ignore()),
    "pause-if-all-down-autoheal": lambda nodes: PauseIfAllDown(nodes, Autoheal()),
    "autoheal": lambda _: Autoheal(),
}
"""What makes each, given the nodes that `pause-if-all-down` lists."""


def strategy_named(name: str, nodes: Sequence[str] = ()) -> Strategy:
    """The strategy of that name.

    Raises:
        ArgumentError: there is none, or nodes are listed and it takes none, or the reverse.
    """
    if name not in STRATEGIES:
        raise ArgumentError(f"there is no partition strategy {name!r}: it is one of {', '.join(STRATEGIES)}.")
    if bool(nodes) != name.startswith("pause-if-all-down"):
        raise ArgumentError(f"partition strategy {name}: pause-if-all-down takes a list of nodes, the others none.")
    return STRATEGIES[name](nodes)

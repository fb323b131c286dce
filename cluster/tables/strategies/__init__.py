"""The strategies for partitions, by name (MN-4 to MN-8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from splitbrain.cluster.bugs import M85B, NO_BUGS, Bugs
from splitbrain.cluster.errors import ArgumentError
from splitbrain.cluster.tables.strategies.autoheal import Autoheal
from splitbrain.cluster.tables.strategies.ignore import Ignore
from splitbrain.cluster.tables.strategies.pause_if_all_down import PauseIfAllDown
from splitbrain.cluster.tables.strategies.pause_minority import PauseMinority
from splitbrain.cluster.tables.strategies.strategy import (
    Action,
    Answered,
    Decided,
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
    "Answered",
    "Autoheal",
    "Decided",
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


def _pause_if_all_down(nodes: Sequence[str], bugs: Bugs, *, heals: bool) -> Strategy:
    recover = Autoheal(bugs) if heals != (M85B in bugs) else Ignore(bugs)
    return PauseIfAllDown(nodes, recover, bugs)


STRATEGIES: Final[Mapping[str, Callable[[Sequence[str], Bugs], Strategy]]] = {
    "ignore": lambda _, bugs: Ignore(bugs),
    "pause-minority": lambda _, bugs: PauseMinority(bugs),
    "pause-if-all-down-ignore": partial(_pause_if_all_down, heals=False),
    "pause-if-all-down-autoheal": partial(_pause_if_all_down, heals=True),
    "autoheal": lambda _, bugs: Autoheal(bugs),
}
"""What makes each, given the nodes that `pause-if-all-down` lists, and the bugs that are switched on."""


def strategy_named(name: str, nodes: Sequence[str] = (), bugs: Bugs = NO_BUGS) -> Strategy:
    """The strategy of that name.

    Raises:
        ArgumentError: there is none, or nodes are listed and it takes none, or the reverse.
    """
    if name not in STRATEGIES:
        raise ArgumentError(f"there is no partition strategy {name!r}: it is one of {', '.join(STRATEGIES)}.")
    if bool(nodes) != name.startswith("pause-if-all-down"):
        raise ArgumentError(f"partition strategy {name}: pause-if-all-down takes a list of nodes, the others none.")
    return STRATEGIES[name](nodes, bugs)

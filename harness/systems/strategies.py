"""Who judges what a strategy for partitions of replicated tables promises."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.settings import Setting, chosen

STRATEGY: Final = "strategy"
"""The setting of the table store."""

PAUSES_IF_ALL_DOWN: Final = "pause-if-all-down"
"""The strategy of which there is one for each way in which it recovers, with the name of that behind it."""

_SILENCE: Final = "strategy-down"
"""What judges when a node is taken for down, which every strategy begins with."""

_JUDGED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "ignore": ("strategy-apart", "strategy-ignore"),
    "pause-minority": ("strategy-pause-minority",),
    "autoheal": ("strategy-autoheal",),
}
"""What judges a strategy, or the way in which another one recovers."""


def heals_by_clients(settings: str, known: Mapping[str, Setting], system: str) -> bool:
    """Whether clients decide which partition wins (MN-7).

    Args:
        settings: as given to `--settings`.
        known: those of the system.
        system: its name.

    Raises:
        UsageError: the system has no such setting, or it cannot have that value.
    """
    strategy = known.get(STRATEGY)
    if strategy is None:
        return False
    return strategy.words[chosen(settings, known, system).get(STRATEGY, strategy.default)].endswith("autoheal")


def strategy_checkers(strategy: str, faults: Collection[FaultKind]) -> tuple[str, ...]:
    """The checkers of a strategy: none where the test cannot cut links, as it promises nothing else."""
    if "cut" not in faults:
        return ()
    if not strategy.startswith(PAUSES_IF_ALL_DOWN):
        return (_SILENCE, *_JUDGED_BY[strategy])
    recover = strategy.removeprefix(f"{PAUSES_IF_ALL_DOWN}-")
    return (_SILENCE, f"strategy-{PAUSES_IF_ALL_DOWN}", *_JUDGED_BY[recover])

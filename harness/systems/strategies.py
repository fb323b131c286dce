"""Who judges what a strategy for partitions of replicated tables promises."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from splitbrain.harness.contract.faults import FaultKind

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


def strategy_checkers(strategy: str, faults: Collection[FaultKind]) -> tuple[str, ...]:
    """The checkers of a strategy: none where the test cannot cut links, as it promises nothing else."""
    if "cut" not in faults:
        return ()
    if not strategy.startswith(PAUSES_IF_ALL_DOWN):
        return (_SILENCE, *_JUDGED_BY[strategy])
    recover = strategy.removeprefix(f"{PAUSES_IF_ALL_DOWN}-")
    return (_SILENCE, f"strategy-{PAUSES_IF_ALL_DOWN}", *_JUDGED_BY[recover])

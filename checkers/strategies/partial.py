"""MN-8: what a node does that learns of a partial partition; what it does is in the rows behind its word of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from splitbrain.checkers.consensus.findings import Finding
from splitbrain.checkers.strategies.sights import Sight
from splitbrain.checkers.strategies.verdicts import Run

Must: TypeAlias = Callable[[Sight], bool]
"""Whether a node that learned of it, with this row, must do what its strategy says."""


def not_made_whole(run: Run, must: Must = lambda _: True) -> Iterator[Finding]:
    """Nodes that go on seeing the node by which they learned that another one is not down for all."""
    for at, then in _then(run):
        if must(at) and at.other in at.alive & then.alive:
            words = (
                f"Partial: {at.node} had lost {at.row.raised_by}, which {at.other} saw ({at.row.at}), and kept "
                f"its session with {at.other}"
            )
            yield run.finding("left-partial", words, at, then)


def not_paused(run: Run) -> Iterator[Finding]:
    """Nodes that go on serving."""
    for at, then in _then(run):
        if then.serves:
            words = (
                f"Partial: {at.node} had lost {at.row.raised_by}, which {at.other} saw ({at.row.at}), and did not stop"
            )
            yield run.finding("served-in-partial", words, at, then)


def count(run: Run) -> int:
    """How often a node learned of one."""
    return sum(each.event == "partial" for each in run.reported.sights)


def _then(run: Run) -> Iterator[tuple[Sight, Sight]]:
    """Each word of a partial partition, with what the node showed next; nothing that it did is missing from that.

    Where nothing changed, no row says so before another event; then that row shows what the node had left as it was.
    """
    for life in run.reported.lives:
        for place, at in enumerate(life):
            if at.event == "partial":
                then = next((each for each in life[place + 1 :] if each.is_whole or each.event == "pauses"), None)
                if then is not None:
                    yield at, then

"""Which cell is run next: every cell gets its share of the time.

Cells that got no run in the latest night that had them come first, then those that got none yet in this one. After that
the cell is next that has had the least time for its weight (as in weighted fair queueing): cells whose runs are long
have fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import msgspec

from splitbrain.harness.campaigns.nightly.cells import Cell
from splitbrain.results.nights import Night


class Share(msgspec.Struct):
    """What a cell has had.

    Attributes:
        cell: which one.
        weight: how much more time it gets than a cell of weight 1.
        place: its place among those that have had equally much.
        seeds: what is still to be run, in order.
        spent_s: seconds of its runs that ended.
        given: runs that were begun.
        under_way: how many of these have not ended.
    """

    cell: Cell
    weight: float
    place: int
    seeds: Iterator[int]
    spent_s: float = 0.0
    given: int = 0
    under_way: int = 0
    done: bool = False


class Shares:
    """The time of a night, divided among its cells."""

    def __init__(self, cells: Iterable[Cell], weight: Callable[[Cell], float], neglected: Collection[str]) -> None:
        """Begin with nothing spent.

        Args:
            cells: in their order.
            weight: of a cell.
            neglected: names of cells that got no run in the latest night that had them: they come first.
        """
        ordered = sorted(cells, key=lambda cell: cell.name not in neglected)  # stable
        self._shares = {cell.name: Share(cell, weight(cell), place, iter(())) for place, cell in enumerate(ordered)}

    def plan(self, cell: Cell, seeds: Iterator[int]) -> None:
        """Say with which seeds a cell is run, in order."""
        self._shares[cell.name].seeds = seeds

    def next(self, *, simulated: bool, fits: Callable[[Cell], bool] = lambda _: True) -> tuple[Cell, int] | None:
        """The next run, of a cell that is simulated or of one that is not; None if there is none left that fits.

        Args:
            simulated: which cells.
            fits: whether another run of a cell comes to its end in time; asked of a cell before it has a turn.
        """
        while True:
            waiting = [each for each in self._waiting(simulated=simulated) if fits(each.cell)]
            if not waiting:
                return None
            share = min(waiting, key=_had)
            seed = next(share.seeds, None)
            if seed is None:
                share.done = True
                continue
            share.given += 1
            share.under_way += 1
            return share.cell, seed

    def waiting(self, *, simulated: bool) -> bool:
        """Whether a cell may have another run to be done."""
        return bool(self._waiting(simulated=simulated))

    def _waiting(self, *, simulated: bool) -> list[Share]:
        return [each for each in self._shares.values() if each.cell.simulated == simulated and not each.done]

    def ended(self, cell: Cell, seconds: float) -> None:
        """A run of a cell has ended; it took so many seconds."""
        share = self._shares[cell.name]
        share.under_way -= 1
        share.spent_s += seconds

    def credit(self, cell: Cell, seconds: float) -> None:
        """A run of a cell ended before this process began."""
        share = self._shares[cell.name]
        share.given += 1
        share.spent_s += seconds

    def spent_s(self, cell: Cell) -> float:
        """Seconds of the runs of a cell."""
        return self._shares[cell.name].spent_s


def neglected(before: Sequence[Night]) -> tuple[str, ...]:
    """The names of cells that got no run in the latest night that had them.

    Args:
        before: earlier nights, the oldest first; they may be of several matrices.
    """
    found: dict[str, None] = {}
    for night in before:
        for cell in night.cells:
            found.pop(cell.name, None)
        found |= dict.fromkeys(night.not_reached.cells)
    return tuple(found)


def _had(share: Share) -> tuple[bool, float, int]:
    """How much a cell has had. A run under way counts as long as the runs before it, or a second."""
    ended = share.given - share.under_way
    usual_s = share.spent_s / ended if ended else 1.0
    return share.given > 0, (share.spent_s + share.under_way * usual_s) / share.weight, share.place

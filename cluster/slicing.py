"""Work on a node's store that is done in slices: messages, timers and clients get a word in between two of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from splitbrain.cluster.raft import Entry
from splitbrain.cluster.runtime import Clock
from splitbrain.cluster.tree import InSlices

T = TypeVar("T")

BYTES: Final = 128
"""An entry that is longer counts as several when entries are applied: a transaction may change a thousand nodes."""


def weight(entries: Sequence[Entry]) -> int:
    """As how many entries these count when they are applied."""
    return sum([1 + len(entry.data) // BYTES for entry in entries])


def slices_of(entries: tuple[Entry, ...], most: int) -> Iterator[tuple[Entry, ...]]:
    """The entries in parts, each of at most this weight, or of one entry."""
    first, weighs = 0, 0
    for place, entry in enumerate(entries):
        own = 1 + len(entry.data) // BYTES
        if place > first and weighs + own > most:
            yield entries[first:place]
            first, weighs = place, 0
        weighs += own
    yield entries[first:]


async def in_turns(steps: InSlices[T], clock: Clock) -> T:
    """Such work in a task of its own: between two slices others have their turn."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        await clock.sleep(0)


class Slices:
    """Such work. Nothing may change the store before its last slice.

    Args:
        steps: the work.
        done: takes its result.
    """

    def __init__(self, steps: InSlices[T], done: Callable[[T], None]) -> None:
        self._steps: Iterator[None] = _handed_over(steps, done)

    def goes_on(self) -> bool:
        """Do the next slice; whether there is another one. After the last one the result was handed over."""
        return next(self._steps, _END) is not _END


_END: Final = object()


def _handed_over(steps: InSlices[T], done: Callable[[T], None]) -> Iterator[None]:
    done((yield from steps))

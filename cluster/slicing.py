"""Work on a node's store that is done in slices: messages, timers and clients get a word in between two of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from splitbrain.cluster.tree import InSlices

T = TypeVar("T")


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

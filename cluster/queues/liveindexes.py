"""Which entries hold the body of a message that left the lanes, and is not done with yet (QQ-6)."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush


class LiveIndexes:
    """Indexes of entries; the lowest is found in amortised O(log n)."""

    def __init__(self, indexes: Iterable[int] = ()) -> None:
        self._live = dict.fromkeys(indexes)
        self._heap = list(self._live)  # with some that are no longer there
        heapify(self._heap)

    def __len__(self) -> int:
        return len(self._live)

    def add(self, index: int) -> None:
        """The message of this entry was taken out of its lane; it may have been before."""
        if index in self._live:
            return
        self._live[index] = None
        heappush(self._heap, index)

    def discard(self, index: int) -> None:
        """The message of this entry is done with."""
        self._live.pop(index, None)
        if len(self._heap) > 2 * len(self._live) + 64:
            self._heap = sorted(self._live)

    @property
    def lowest(self) -> int | None:
        """The lowest one; None if there is none."""
        while self._heap and self._heap[0] not in self._live:
            heappop(self._heap)
        return self._heap[0] if self._heap else None

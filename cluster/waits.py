"""What waits until this node has applied an entry: local reads behind a write, and its own answers (RA-20, RA-25)."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from splitbrain.cluster.bugs import M28, Bugs
from splitbrain.cluster.raft.log import Log


class Waits:
    """Calls that are due once an entry is applied here.

    An entry that another leader's took the place of is never applied: its calls are dropped, and who waits times out.

    Args:
        log: of this node.
        applied: the index of the last entry that it applied.
        term: its current term.
        bugs: what is broken on purpose.
    """

    def __init__(self, log: Log, applied: Callable[[], int], term: Callable[[], int], bugs: Bugs) -> None:
        self._log = log
        self._applied = applied
        self._term = term
        self._ignores_index = M28 in bugs
        self._waiting: list[tuple[int, int, int, Callable[[], None]]] = []
        self._number = 0

    def add(self, index: int, term: int, due: Callable[[], None]) -> None:
        """Call `due` once the entry of this index and term is applied: now, if it is."""
        if index <= self._applied() or self._is_wrongly_due(term):
            self._settle(index, term, due)
        else:
            self._number += 1
            heappush(self._waiting, (index, self._number, term, due))

    def advanced(self) -> None:
        """More was applied."""
        waiting = self._waiting
        if not waiting:
            return
        applied = self._applied()
        while waiting and (waiting[0][0] <= applied or self._is_wrongly_due(waiting[0][2])):
            index, _, term, due = heappop(waiting)
            self._settle(index, term, due)

    def _settle(self, index: int, term: int, due: Callable[[], None]) -> None:
        log = self._log
        # Of entries in a snapshot the term is not known any more. What was answered to a client is there: no entry of
        # another leader can have taken its place.
        if index <= log.base_index or self._is_wrongly_due(term) or log.term(index) == term:
            due()

    def _is_wrongly_due(self, term: int) -> bool:
        """With M28: whether the term is a higher one by now, which says nothing about the entry."""
        return self._ignores_index and self._term() > term

"""What waits until this node has applied an entry: local reads behind a write, and its own answers (RA-20, RA-25)."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final

from splitbrain.cluster.bugs import M28, Bugs
from splitbrain.cluster.raft.log import Log

_FORGOTTEN_KEPT: Final = 64


class Waits:
    """Calls that are due once an entry is applied here.

    An entry that another leader's took the place of is never applied: its calls are dropped, and who waits times out.
    Who waits no more says so by `forget`, since an entry that was asked for may never come.

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
        self._waiting: list[tuple[int, int, int]] = []  # index, number and term
        self._due: dict[int, Callable[[], None]] = {}  # by number
        self._number = 0

    def __len__(self) -> int:
        """How many calls are kept, with some that were forgotten."""
        return len(self._waiting)

    def add(self, index: int, term: int, due: Callable[[], None]) -> int:
        """Call `due` once the entry of this index and term is applied: now, if it is. Returns a number for `forget`."""
        self._number += 1
        if index <= self._applied() or self._is_wrongly_due(term):
            self._settle(index, term, due)
        else:
            self._due[self._number] = due
            heappush(self._waiting, (index, self._number, term))
        return self._number

    def forget(self, number: int) -> None:
        """What `add` gave this number is not to be called any more, if it still waits."""
        self._due.pop(number, None)
        if len(self._waiting) > 2 * len(self._due) + _FORGOTTEN_KEPT:
            self._waiting[:] = [each for each in self._waiting if each[1] in self._due]
            heapify(self._waiting)

    def advanced(self) -> None:
        """More was applied."""
        waiting = self._waiting
        if not waiting:
            return
        applied = self._applied()
        while waiting and (waiting[0][0] <= applied or self._is_wrongly_due(waiting[0][2])):
            index, number, term = heappop(waiting)
            due = self._due.pop(number, None)
            if due is not None:
                self._settle(index, term, due)

    def _settle(self, index: int, term: int, due: Callable[[], None]) -> None:
        if self._is_wrongly_due(term) or self._is_there(index, term):
            due()

    def _is_there(self, index: int, term: int) -> bool:
        log = self._log
        if index >= log.base_index:
            return log.term(index) == term
        # Of entries in a snapshot the terms are not known any more, but terms never fall along a log. An entry that was
        # committed is there: no other leader's can have taken its place.
        return term <= log.base_term

    def _is_wrongly_due(self, term: int) -> bool:
        """With M28: whether the term is a higher one by now, which says nothing about the entry."""
        return self._ignores_index and self._term() > term

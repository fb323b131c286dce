"""A member's log in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from splitbrain.cluster.bugs import M02, NO_BUGS, Bugs
from splitbrain.cluster.raft.invariant import InvariantError
from splitbrain.cluster.raft.messages import Entry


class Log:
    """Entries with contiguous indexes from 1 and terms that never fall (unless M02 is on).

    Attributes:
        last_index: index of the last entry, 0 if there is none. Read only.
        last_term: its term, 0 if there is none. Read only.
    """

    __slots__ = ("_entries", "_terms_fall", "last_index", "last_term")

    def __init__(self, entries: Sequence[Entry] = (), bugs: Bugs = NO_BUGS) -> None:
        self._entries: list[Entry] = []
        self._terms_fall = M02 in bugs
        self.last_index = 0
        self.last_term = 0
        if entries:
            self.append(entries)

    def term(self, index: int) -> int:
        """Term of the entry at `index`, 0 for index 0.

        Raises:
            InvariantError: there is no such entry.
        """
        if 0 < index <= self.last_index:
            return self._entries[index - 1].term
        if index == 0:
            return 0
        raise InvariantError(f"the log has no entry {index}, its last is {self.last_index}.")

    def slice(self, first: int, last: int) -> tuple[Entry, ...]:
        """Entries from `first` to `last`, both included; none if `last` is before `first`."""
        if first < 1 or last > self.last_index:
            raise InvariantError(f"entries {first} to {last} are not all in the log, its last is {self.last_index}.")
        return tuple(self._entries[first - 1 : last])

    def append(self, entries: Sequence[Entry]) -> None:
        """Add entries at the end.

        Raises:
            InvariantError: they do not follow the last entry without a gap, or a term falls.
        """
        index, term = self.last_index, self.last_term
        for entry in entries:
            index += 1
            if entry.index != index or (entry.term < term and not self._terms_fall):
                raise InvariantError(
                    f"entry {entry.index} of term {entry.term} cannot follow entry {index - 1} of term {term}."
                )
            term = entry.term
        self._entries += entries
        self.last_index, self.last_term = index, term

    def truncate(self, from_index: int) -> None:
        """Remove the entry at `from_index` and everything behind it."""
        if not 0 < from_index <= self.last_index:
            raise InvariantError(f"cannot truncate from {from_index}, the last entry is {self.last_index}.")
        del self._entries[from_index - 1 :]
        self.last_index = from_index - 1
        self.last_term = self.term(self.last_index)

    def last_of(self, term: int, upto: int) -> int:
        """The last index, `upto` at most, whose term is `term` at most; 0 if there is none."""
        # Terms never fall along a log (Raft 5.3), so that bisection finds it.
        return bisect_right(self._entries, term, hi=min(upto, self.last_index), key=_term)


def _term(entry: Entry) -> int:
    return entry.term

"""A member's log in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from splitbrain.cluster.bugs import M02, NO_BUGS, Bugs
from splitbrain.cluster.raft.invariant import InvariantError
from splitbrain.cluster.raft.messages import Entry


class Log:
    """Entries with contiguous indexes behind a base, and terms that never fall (unless M02 is on).

    Attributes:
        base_index: the entry before the first one; it and all before it are committed, and in a snapshot. 0 if the log
            is whole. Read only.
        base_term: its term. Read only.
        last_index: index of the last entry, that of the base if there is none. Read only.
        last_term: its term. Read only.
    """

    __slots__ = ("_entries", "_terms_fall", "base_index", "base_term", "last_index", "last_term")

    def __init__(
        self, entries: Sequence[Entry] = (), bugs: Bugs = NO_BUGS, *, base_index: int = 0, base_term: int = 0
    ) -> None:
        self._entries: list[Entry] = []
        self._terms_fall = M02 in bugs
        self.base_index = self.last_index = base_index
        self.base_term = self.last_term = base_term
        if entries:
            self.append(entries)

    def term(self, index: int) -> int:
        """Term of the entry at `index`, which is not before the base; 0 for index 0.

        Raises:
            InvariantError: there is no such entry.
        """
        if self.base_index < index <= self.last_index:
            return self._entries[index - 1 - self.base_index].term
        if index == self.base_index:
            return self.base_term
        raise InvariantError(
            f"the log has no entry {index}: it begins behind {self.base_index}, and its last is {self.last_index}."
        )

    def slice(self, first: int, last: int) -> tuple[Entry, ...]:
        """Entries from `first` to `last`, both included; none if `last` is before `first`."""
        if first <= self.base_index or last > self.last_index:
            raise InvariantError(
                f"entries {first} to {last} are not all in the log: it begins behind {self.base_index}, and its last "
                f"is {self.last_index}."
            )
        return tuple(self._entries[first - 1 - self.base_index : last - self.base_index])

    def compact(self, upto: int) -> None:
        """Drop the entries up to `upto`, which becomes the base; they are committed, and in a snapshot."""
        term = self.term(upto)
        del self._entries[: upto - self.base_index]
        self.base_index, self.base_term = upto, term

    def replace(self, base_index: int, base_term: int) -> None:
        """Begin anew behind a snapshot that was installed; what follows it here stays if it is the same log."""
        if self.base_index <= base_index <= self.last_index and self.term(base_index) == base_term:
            self.compact(base_index)
            return
        self._entries.clear()
        self.base_index = self.last_index = base_index
        self.base_term = self.last_term = base_term

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
        if not self.base_index < from_index <= self.last_index:
            raise InvariantError(
                f"cannot truncate from {from_index}: the log begins behind {self.base_index}, and its last entry is "
                f"{self.last_index}."
            )
        del self._entries[from_index - 1 - self.base_index :]
        self.last_index = from_index - 1
        self.last_term = self.term(self.last_index)

    def last_of(self, term: int, upto: int) -> int:
        """The last index, `upto` at most, whose term is `term` at most; 0 if there is none.

        Up to the base every log has the same entries: there it is `upto`, or the base.
        """
        if upto <= self.base_index:
            return upto
        # Terms never fall along a log (Raft 5.3), so that bisection finds it.
        end = min(upto, self.last_index) - self.base_index
        return self.base_index + bisect_right(self._entries, term, hi=end, key=_term)


def _term(entry: Entry) -> int:
    return entry.term

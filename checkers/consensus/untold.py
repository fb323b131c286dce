"""Votes that a node may have given, and did not live to report: it was killed before it wrote the row."""

from __future__ import annotations

from typing import Final

from splitbrain.checkers.consensus.rows import Row

_LAST: Final = ("end", "stop", "delete")
"""Events of rows behind which nothing was left to report."""

_NO_TERM: Final = -1


class _Life:
    """One life of a node in a group, by its rows.

    Attributes:
        began: the term that it recovered; None if that is unknown, or it began as another member.
        term: the highest one that it reported.
        is_settled: whether it can have given no vote in that term that it did not report: it reported one, or recovered
            one, or knew who led.
        is_over: whether it reported all.
    """

    def __init__(self, began: int | None) -> None:
        self.began = began
        self.term = _NO_TERM
        self.is_settled = False
        self.is_over = False

    def step(self, row: Row) -> None:
        """Take its next row."""
        if row.term is not None and row.term > self.term:
            self.term, self.is_settled = row.term, False
        if row.leader is not None and row.term == self.term:
            self.is_settled = True
        self.is_over = row.event in _LAST

    def may_have_voted(self, term: int) -> bool:
        """Whether it may have given a vote in a term behind its last row."""
        return not self.is_over and (term > self.term or (term == self.term and not self.is_settled))


class Untold:
    """What of votes the nodes of a run may not have reported.

    A node syncs its vote before it sends it. So the next start recovers the latest term in which the node voted, and
    the vote of that term: the node gave none in a later term.
    """

    def __init__(self) -> None:
        self._lives: dict[tuple[str | None, str], list[_Life]] = {}
        self._numbers: dict[tuple[str | None, str], int] = {}
        self._is_new: set[tuple[str | None, str]] = set()

    def step(self, row: Row) -> None:
        """Take the next row of the table."""
        member = row.group, row.node
        if row.event == "new-member":
            self._is_new.add(member)
            return
        lives = self._lives.setdefault(member, [])
        if not lives or row.event == "start" or row.life != self._numbers[member]:
            knows = row.event == "start" and member not in self._is_new
            self._is_new.discard(member)
            self._numbers[member] = row.life
            lives.append(_Life(row.term if knows else None))
        lives[-1].step(row)

    def may_have_voted(self, group: str | None, node: str, term: int) -> bool:
        """Whether a node may have given a vote in a term that it did not report."""
        lives = self._lives.get((group, node), [])
        for place, life in enumerate(lives):
            began = lives[place + 1].began if place + 1 < len(lives) else None
            if life.may_have_voted(term) and (began is None or term < began):
                return True
        return False

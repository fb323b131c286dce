"""Linearizable reads by read index (Raft thesis 6.4, RA-27): many reads share one round of asking who still leads."""

from __future__ import annotations

from splitbrain.cluster.raft.events import Ref


class ReadRounds:
    """Reads of one leadership. A read counts only confirmations of a round that began after the read arrived.

    While a round with reads is under way, further reads gather for the next one.

    Attributes:
        round: the newest round that has begun; 0 if none has.
    """

    __slots__ = ("_gathered", "_under_way", "round")

    def __init__(self) -> None:
        self.round = 0
        self._under_way: list[tuple[Ref, int]] = []
        self._gathered: list[tuple[Ref, int]] = []

    def __len__(self) -> int:
        return len(self._under_way) + len(self._gathered)

    def add(self, ref: Ref, index: int) -> bool:
        """A read whose read index is `index`; True if a round has now begun and must be sent out."""
        self._gathered.append((ref, index))
        return not self._under_way and self._begin()

    def begin_empty(self) -> bool:
        """Begin a round without reads, for a lease; False while one with reads is under way."""
        if self._under_way:
            return False
        self.round += 1
        return True

    def confirm(self, confirmed: int) -> tuple[list[tuple[Ref, int]], bool]:
        """A majority has confirmed this round: the reads that are ready, and whether a next round has now begun."""
        # A reply to an earlier round may be older than these reads: another leader may have committed since.
        if not self._under_way or confirmed < self.round:
            return [], False
        ready, self._under_way = self._under_way, []
        return ready, self._begin()

    def refs(self) -> list[Ref]:
        """All reads that wait, in the order of their arrival."""
        return [ref for ref, _ in self._under_way + self._gathered]

    def _begin(self) -> bool:
        if not self._gathered:
            return False
        self.round += 1
        self._under_way, self._gathered = self._gathered, []
        return True

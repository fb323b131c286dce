"""The lease of a leader: until when no other member can have been elected (Raft thesis 6.4.1).

A member that confirmed a round of its leader has heard it when that round had begun, or later. From then on it neither
stands for election nor votes for others, for the shortest election timeout. A majority did so, and another leader needs
one of them. The lease needs clocks of about the same rate, and nothing else of them: neither the same time, nor that
nodes are never paused, since its end is compared with the clock at which a read came.
"""

from __future__ import annotations

from collections import deque


class Lease:
    """The lease of one leadership. It begins without one.

    Args:
        duration_ns: how long after the beginning of a round that a majority confirmed.
    """

    __slots__ = ("_begun", "_duration_ns", "_ends_ns", "_is_void")

    def __init__(self, duration_ns: int) -> None:
        self._duration_ns = duration_ns
        self._begun: deque[tuple[int, int]] = deque()
        self._ends_ns: int | None = None
        self._is_void = False

    def began(self, read_round: int, now_ns: int) -> None:
        """A round is sent out at this time or later; rounds only grow."""
        self._begun.append((read_round, now_ns))

    def confirmed(self, read_round: int) -> None:
        """A majority has confirmed this round, and with it all before."""
        while self._begun and self._begun[0][0] <= read_round:
            self._ends_ns = self._begun.popleft()[1] + self._duration_ns

    def end(self) -> None:
        """Another member was asked to take over, and followers vote for it at once: never trust a lease again."""
        self._is_void = True

    @property
    def ends_ns(self) -> int | None:
        """Until when it holds, by the clock of `began`; None if it is none."""
        return None if self._is_void else self._ends_ns

    def holds(self, now_ns: int) -> bool:
        """Whether no other member can have been elected yet."""
        return self._ends_ns is not None and now_ns < self._ends_ns and not self._is_void

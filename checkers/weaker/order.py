"""A partial order of ops that grows: by chain, how many ops come before each op (vector clocks)."""

from __future__ import annotations

from collections import deque
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from splitbrain.checkers.weaker.calls import NOTHING, Calls
from splitbrain.checkers.weaker.work import OutOfWorkError, Work

I32: TypeAlias = npt.NDArray[np.int32]

CELLS: Final = 8_000_000
"""The largest number of entries in all clocks together."""


class CycleError(Exception):
    """Ops that would have to come before each other.

    Attributes:
        ops: each comes before the next one, and the last before the first.
    """

    def __init__(self, ops: list[int]) -> None:
        super().__init__(f"{len(ops)} ops in a cycle")
        self.ops = ops


class Order:
    """Program order, and what is added to it; transitive.

    Attributes:
        before: by op and chain, how many ops of the chain come before the op.
        edges: by op, the ops that were put after it, apart from program order.
    """

    def __init__(self, calls: Calls, work: Work) -> None:
        """Begin with program order.

        Raises:
            OutOfWorkError: there are too many ops in too many chains.
        """
        if len(calls.chain) * len(calls.chains) > CELLS:
            raise OutOfWorkError(f"{len(calls.chain)} ops of {len(calls.chains)} processes are too many")
        work.spend(len(calls.chain))
        self._calls = calls
        self._work = work
        self._followers: list[list[int]] = [[] for _ in calls.chain]
        self.edges: list[list[int]] = [[] for _ in calls.chain]
        self.before: I32 = np.zeros((len(calls.chain), len(calls.chains)), np.int32)
        for op, after in enumerate(calls.after):
            if after != NOTHING:
                self._followers[after].append(op)
                self.before[op] = self.before[after]
                self.before[op, calls.chain[after]] = calls.place[after] + 1

    def copy(self, work: Work) -> Order:
        """The same order, to be gone on with apart."""
        work.spend(len(self.edges))
        twin = object.__new__(Order)
        twin._calls, twin._work, twin._followers = self._calls, work, self._followers
        twin.edges = [list(each) for each in self.edges]
        twin.before = self.before.copy()
        return twin

    def precedes(self, one: int, other: int) -> bool:
        """Whether one op comes before the other."""
        return bool(self.before[other, self._calls.chain[one]] > self._calls.place[one])

    def add(self, one: int, other: int) -> bool:
        """Put one op before the other; whether that is new.

        Raises:
            CycleError: the other comes before it.
            OutOfWorkError: there is no work left.
        """
        if one == other:
            raise CycleError([one])
        if self.precedes(one, other):
            return False
        if self.precedes(other, one):
            raise CycleError(self._path(other, one))
        self.edges[one].append(other)
        chain, place = self._calls.chain, self._calls.place
        waiting = deque([(one, other)])
        while waiting:
            cause, op = waiting.popleft()
            self._work.spend(3)
            mine, clock = self.before[op], self.before[cause]
            count = place[cause] + 1
            if mine[chain[cause]] >= count and (mine >= clock).all():
                continue
            np.maximum(mine, clock, out=mine)
            mine[chain[cause]] = max(int(mine[chain[cause]]), count)
            waiting.extend((op, after) for after in self._followers[op])
            waiting.extend((op, after) for after in self.edges[op])
        return True

    def _path(self, start: int, end: int) -> list[int]:
        """Ops from one to a later one, each before the next: as few as can be."""
        came_from = {start: NOTHING}
        waiting = deque([start])
        while waiting and end not in came_from:
            op = waiting.popleft()
            self._work.spend(1)
            for after in (*self.edges[op], *self._followers[op]):
                if after not in came_from:
                    came_from[after] = op
                    waiting.append(after)
        path = [end]
        while came_from[path[-1]] != NOTHING:
            path.append(came_from[path[-1]])
        return path[::-1]

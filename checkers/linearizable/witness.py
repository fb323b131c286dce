"""The smallest set of ops that cannot all have happened as recorded.

Every op of the failing prefix is made optional within its interval (it may have taken effect, and need not have), as
long as the prefix stays impossible. What remains obliged is the witness: no order puts these ops where they were
acknowledged, whatever the others did. Making an op optional only adds possibilities, so that whatever stays impossible
was so before.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from checkers.linearizable.encoding import events
from checkers.linearizable.ops import OPEN, Ops
from checkers.linearizable.search import Limits, Search
from checkers.linearizable.transitions import Stepper


@dataclass(frozen=True)
class Witness:
    """Ops (by number) that are obliged, the failing one last; and whether each of them is known to be needed."""

    ops: list[int]
    minimal: bool


def find(ops: Ops, stepper: Stepper, failing: int, limits: Limits) -> Witness | None:
    """The witness of a prefix that ends with the return of op `failing`; None if time ran out before there was any.

    Args:
        ops: the partition.
        stepper: as it was used to find the violation.
        failing: the op whose return ends the smallest failing prefix.
        limits: time for the whole, memory for each search.
    """
    return _Shrinking(ops, stepper, failing, limits).run()


class _Shrinking:
    def __init__(self, ops: Ops, stepper: Stepper, failing: int, limits: Limits) -> None:
        self._ops = ops
        self._stepper = stepper
        self._failing = failing
        self._limits = limits
        self._deadline = time.thread_time() + limits.time_s
        self._out_of_time = False
        row = int(ops.completed[failing])
        before = np.flatnonzero(~ops.crashed & (ops.completed != OPEN) & (ops.completed < row))
        self._before: npt.NDArray[np.int64] = before[np.argsort(ops.completed[before])].astype(np.int64)

    def run(self) -> Witness | None:
        kept = self._recent()
        if kept is None:
            return None
        chunk = max(1, len(kept) // 2)
        while True:
            at = 0
            while at < len(kept) and not self._out_of_time:
                fewer = kept[:at] + kept[at + chunk :]
                if self._impossible(fewer):
                    kept = fewer
                else:
                    at += chunk
            if chunk == 1 or self._out_of_time:
                return Witness([*kept, self._failing], minimal=not self._out_of_time)
            chunk //= 2

    def _recent(self) -> list[int] | None:
        """The shortest run of the last ops that suffices, by doubling: violations are local as a rule."""
        count = 0
        while not self._out_of_time:
            recent: list[int] = self._before[len(self._before) - count :].tolist()
            if self._impossible(recent):
                return recent
            if count == len(self._before):
                return None
            count = min(max(2 * count, 4), len(self._before))
        return None

    def _impossible(self, kept: list[int]) -> bool:
        left = self._deadline - time.thread_time()
        if left <= 0:
            self._out_of_time = True
            return False
        obliged = np.zeros(len(self._ops.crashed), np.bool_)
        obliged[[*kept, self._failing]] = True
        until = int(self._ops.completed[self._failing])
        problem = events(self._ops, self._stepper.observer, until_row=until, obliged=obliged)
        result = Search(problem, self._stepper, replace(self._limits, time_s=left)).run()
        self._out_of_time = result.answer in ("time", "memory", "cells")
        return result.answer == "violation"

"""Where a violation first shows, and which ops contradict each other, by asking a decider that can leave ops out.

A prefix of a linearizable history is linearizable, so that the smallest one that is not is found by halving. Of what is
under way at its end nothing is obliged, but it takes effect, if it does, as it turned out later. Then ops of the prefix
are made optional within their intervals, as many as can be while it stays impossible (Zeller and Hildebrandt's delta
debugging). Making an op optional only adds possibilities: the ops that remain obliged contradict each other whatever
the others did.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from splitbrain.checkers.linearizable.ops import I64, B, Ops


class Refutes(Protocol):
    """A decider that is asked again and again, while its time and its looks last."""

    @property
    def exhausted(self) -> bool:
        """Whether it has no answers any more."""
        ...

    def __call__(self, row: int, obliged: B, /) -> bool | None:
        """Whether nothing explains the history up to a row in which these ops are obliged, and others optional.

        None if that could not be found out.
        """
        ...


def smallest_prefix(ops: Ops, refutes: Refutes) -> tuple[int, bool]:
    """The op whose return ends the smallest prefix that cannot be explained, and whether that is certain.

    If it is not certain the prefix cannot be explained, and a smaller one may be of that kind.

    Args:
        ops: a history that cannot be explained.
        refutes: says so of prefixes.
    """
    returned = np.flatnonzero(~ops.crashed).astype(np.int64)
    returned = returned[np.argsort(ops.completed[returned])]
    possible, impossible, certain = -1, len(returned) - 1, True
    while impossible - possible > 1:
        middle = (possible + impossible) // 2
        answer = refutes(int(ops.completed[returned[middle]]), ~ops.crashed)
        if answer:
            impossible = middle
        else:
            possible, certain = middle, certain and answer is not None
    return int(returned[impossible]), certain


def contradiction(ops: Ops, failing: int, refutes: Refutes) -> tuple[int, ...]:
    """Ops of a prefix that cannot be explained, few enough that each is needed, as far as `refutes` can decide.

    Args:
        ops: the history.
        failing: the op whose return ends the prefix. It is among the answer.
        refutes: as often as it has an answer.
    """
    until = int(ops.completed[failing])
    before = np.flatnonzero(~ops.crashed & (ops.completed < until)).astype(np.int64)
    before = before[np.argsort(ops.completed[before])]

    def suffices(some: I64) -> bool:
        obliged = np.zeros(len(ops.invoked), np.bool_)
        obliged[some] = obliged[failing] = True
        return bool(refutes(until, obliged))

    count = 0
    while count < len(before) and not suffices(before[len(before) - count :]):
        count = len(before) if refutes.exhausted else min(max(2 * count, 4), len(before))
    kept = before[len(before) - count :]
    chunk = max(1, len(kept) // 2)
    while True:
        at = 0
        while at < len(kept) and not refutes.exhausted:
            fewer = np.delete(kept, slice(at, at + chunk))
            if suffices(fewer):
                kept = fewer
            else:
                at += chunk
        if chunk == 1 or refutes.exhausted:
            return tuple(sorted((*kept.tolist(), failing)))
        chunk //= 2

"""Drives the depth-first machine: dead ends as they become more, cells as it asks for them, and the limits."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

from splitbrain.checkers import kernels
from splitbrain.checkers.linearizable import backtracking as b
from splitbrain.checkers.linearizable import dead_ends
from splitbrain.checkers.linearizable.asked import asked_for, is_indexed, spread
from splitbrain.checkers.linearizable.encoding import Problem, events
from splitbrain.checkers.linearizable.frontier import (
    ANY,
    ASSIGNMENTS,
    CALL,
    CALL_OBSERVER,
    CRASH,
    DONE,
    EXPIRE,
    I32,
    I64,
    NEEDS_CELL,
    RETURN,
    U64,
    VIOLATION,
    Steps,
)
from splitbrain.checkers.linearizable.guesses import ranks
from splitbrain.checkers.linearizable.limits import Limits, Pace
from splitbrain.checkers.linearizable.ops import Ops
from splitbrain.checkers.linearizable.search import Answer, Result
from splitbrain.checkers.linearizable.transitions import OutOfMemoryError, Stepper, TooManyCellsError
from splitbrain.results.columns import distinct

ALGORITHM: Final = "depth-first"

BUDGET: Final = 20_000
"""The largest number of configurations between two clock checks."""

SPREAD_ROWS: Final = 2_000
"""The largest number of configurations at the end of a failing prefix whose crashed ops are followed."""

ROWS: Final = 1024
"""Dead ends that there is room for at first."""


# In History 12, and 5 for the event of its call (its return may be left out); in Path 20, and 16 for a row of `kept`.
OP_BYTES: Final = 53
"""The least number of bytes that an op that did not crash takes in `History` and `Path`."""


def least_bytes(ops: Ops, until_row: int | None = None) -> int:
    """What a search for a linearization takes, at least: known before any of it is there."""
    live = ~ops.crashed if until_row is None else ~ops.crashed & (ops.invoked <= until_row)
    return OP_BYTES * int(np.count_nonzero(live))


class DepthFirst:
    """One depth-first search for a linearization.

    The events are those of `encoding.events`, so that positions can be compared with the frontier's.
    """

    def __init__(self, ops: Ops, stepper: Stepper, limits: Limits, *, until_row: int | None = None) -> None:
        """Set up the arrays for the beginning of the history.

        Args:
            ops: the partition.
            stepper: steps on its transitions; it may be shared with another search.
            limits: time for this search alone; memory for its arrays, of which dead ends get what the path leaves. With
                the states and the table of the stepper they take no more than the stepper may.
            until_row: leave out every event after this row, as `encoding.events` does.
        """
        self._problem = events(ops, stepper.observer, until_row=until_row)
        self._stepper = stepper
        self._limits = limits
        self._history, self._live, self._crashed = _history(ops, self._problem, stepper)
        words = max(1, -(-self._problem.slots // 64))
        self._path = _path(self._history, words)
        self._asked = asked_for(stepper.steps, self._history.class_transition)
        self._dead = dead_ends.empty(1 + words, self._path.now.size, ROWS)
        self._m = np.zeros(b.REGISTERS, np.int64)
        self._seconds = 0.0
        self._pace = Pace(BUDGET)
        self.limit_memory(limits.memory_bytes)

    @property
    def events(self) -> int:
        """Events that are to be explained."""
        return len(self._problem.op)

    @property
    def furthest(self) -> int:
        """Events that some explanation reached."""
        return int(self._m[b.FURTHEST])

    @property
    def explored(self) -> int:
        """Configurations from which there was a choice, counted as often as they were met."""
        return int(self._m[b.EXPLORED])

    @property
    def dead_ends(self) -> int:
        """Configurations without a way on that there was room made for."""
        return int(self._dead.m[dead_ends.COUNT])

    @property
    def forgotten(self) -> int:
        """Dead ends that made way for others."""
        return int(self._dead.m[dead_ends.FORGOTTEN])

    @property
    def memory_bytes(self) -> int:
        """What the path and the dead ends hold."""
        return (
            sum(array.nbytes for array in (*self._path, *self._history, *self._asked))
            + self._row_bytes * self._dead.chain.size
        )

    def limit_memory(self, memory_bytes: int) -> None:
        """Set the number of bytes that the arrays of the search may take."""
        self._memory_bytes = memory_bytes
        self._m[b.BOUNDED] = 0

    def run(self) -> Result:
        """Search until there is an answer, or a limit is reached."""
        while True:
            result = self.advance(self._limits.time_s)
            if result is not None:
                return result

    def advance(self, seconds: float) -> Result | None:
        """Continue for about this many CPU seconds of this thread; None if there is no answer by then.

        The stepper may have been used by others since the last call, and may know more states and cells.

        Raises:
            UsageError: the model failed, or contradicts itself.
        """
        if self.memory_bytes > self._memory_bytes:
            return self._result("memory")
        clock = self._limits.clock
        began = clock()
        before = self._seconds
        while True:
            explored, steps, called = self.explored, kernels.budget(self._pace.steps()), clock()
            status = b.advance(self._history, self._stepper.steps, self._path, self._asked, self._dead, self._m, steps)
            look = clock()
            self._pace.learn(self.explored - explored, look - called)
            self._seconds = before + look - began
            if status == DONE:
                return self._result("linearizable")
            if status == VIOLATION:
                return self._result("violation")
            if self._seconds >= self._limits.time_s:
                return self._result("time")
            if status == NEEDS_CELL:
                try:
                    self._fill()
                except TooManyCellsError:
                    return self._result("cells")
                except OutOfMemoryError:
                    return self._result("memory")
                if self.memory_bytes + self._stepper.bytes > self._stepper.memory_bytes:
                    return self._result("memory")
            elif status == b.NEEDS_ROOM:
                self._make_room()
            if self._seconds - before >= seconds:
                return None

    def given_up(self) -> Result:
        """The end of a search that gets no more time: how far it came."""
        return self._result("time")

    def order(self) -> list[int]:
        """Ops by number, in an order in which they can have taken effect; those that never did are left out.

        After "linearizable" it is a linearization of the history. Before, it explains what the search is at.
        """
        return self._numbers(self._path.move[: self._m[b.MOVES]])

    def _numbers(self, moves: I32) -> list[int]:
        live = len(self._live)
        used = np.zeros(len(self._history.class_transition), np.int64)
        numbers: list[int] = []
        for move in moves.tolist():
            if move < live:
                numbers.append(int(self._live[move]))
            else:
                known = move - live - 2
                numbers.append(int(self._crashed[self._history.class_first[known] + used[known]]))
                used[known] += 1
        return numbers

    def _fill(self) -> None:
        """Compute the missing cell, and those next to it that will be asked for in a moment."""
        state, wanted = int(self._m[b.MISSING_STATE]), int(self._m[b.MISSING_TRANSITION])
        path, transition = self._path, self._history.transition
        near = {wanted}
        for head in (len(transition), len(transition) + 1):
            op = int(path.following[head])
            while op != head:
                near.add(int(transition[op]))
                op = int(path.following[op])
        self._stepper.fill(state, sorted(near))

    def _make_room(self) -> None:
        """Room for more dead ends; from the limit on, older ones make way."""
        rows = 2 * self._dead.chain.size
        needed = self.memory_bytes + self._row_bytes * rows
        if needed > self._memory_bytes or needed + self._stepper.bytes > self._stepper.memory_bytes:
            self._m[b.BOUNDED] = 1
        else:
            self._dead = dead_ends.enlarged(self._dead, rows)

    @property
    def _row_bytes(self) -> int:
        return dead_ends.row_bytes(self._dead.rows.shape[1])

    def _reachable(self) -> U64:
        """States in which the object can have been when nothing followed any more; none if they are not known.

        Every configuration at the furthest position is a dead end in the end. Crashed ops that nothing asked for were
        not tried from there: where they lead is added.
        """
        if self.forgotten > 0:
            return np.zeros((0, 2), np.uint64)
        first = self._dead.rows[: self.dead_ends, 0]
        last = np.flatnonzero(first >> np.uint64(32) == self.furthest)
        states = distinct(first[last] & np.uint64(0xFFFFFFFF))
        if self._asked.first.size > 0:
            states = self._spread(last, states)
        return np.stack([states, np.zeros_like(states)], axis=1)

    def _spread(self, rows: I64, states: U64) -> U64:
        """States with those to which crashed ops lead that are left in the dead ends; none if these are too many."""
        steps, classes = self._stepper.steps, self._history.class_transition
        called = self._history.crashed_at < self.furthest
        first = self._history.class_first[:-1]
        most = spread(steps, classes, states.astype(np.int64), np.logical_or.reduceat(called, first))
        found = np.zeros_like(most)
        # Live ops, and the position, which all rows share, do not matter to where crashed ops lead.
        kept = np.delete(self._dead.rows[rows], slice(1, self._dead.key_words), axis=1)
        kept[:, 0] &= np.uint64(0xFFFFFFFF)
        # Asked for the index as well, NumPy does not import its masked arrays.
        unique = np.unique(kept, axis=0, return_index=True)[0] if len(kept) <= SPREAD_ROWS else kept
        for row in unique[:SPREAD_ROWS]:
            used = np.unpackbits(row[1:].view(np.uint8), bitorder="little")[: len(called)].astype(np.bool_)
            left = np.logical_or.reduceat(called & ~used, first)
            found |= spread(steps, classes, row[:1].astype(np.int64), left)
            if np.array_equal(found, most):
                break
        else:
            if len(unique) > SPREAD_ROWS:
                return states[:0]
        return np.flatnonzero(found).astype(np.uint64)

    def _result(self, answer: Answer) -> Result:
        words = self._path.kept.shape[1] - 1
        return Result(
            answer,
            self.furthest,
            self._seconds,
            self.dead_ends,
            self.explored,
            words,
            reachable=self._reachable() if answer == "violation" else np.zeros((0, 2), np.uint64),
            algorithm=ALGORITHM,
        )


def _history(ops: Ops, problem: Problem, stepper: Stepper) -> tuple[b.History, I64, I64]:
    """The arrays of a history, and the numbers of its live and of its crashed ops."""
    kind, op = problem.events.kind, problem.op.astype(np.int64)
    crash, returns = kind == CRASH, kind == RETURN
    if (kind == EXPIRE).any():
        raise AssertionError("every op that returned is obliged")
    calls = ~(crash | returns)
    live = op[calls]
    number = np.full(len(ops.crashed), -1, np.int32)
    number[live] = np.arange(len(live))
    due = np.zeros(len(live), np.int32)
    due[number[op[returns]]] = np.flatnonzero(returns)
    own = np.select([crash, returns, kind == CALL_OBSERVER], [CRASH, RETURN, CALL_OBSERVER], CALL).astype(np.int8)

    crashed_at = np.flatnonzero(crash)
    transitions, first, classes = np.unique(ops.transition[op[crashed_at]], return_index=True, return_inverse=True)
    left = stepper.steps.becomes[transitions] if is_indexed(stepper.steps) else np.zeros_like(transitions)
    order = np.lexsort((first, left))
    rank = np.argsort(order, kind="stable")[classes.reshape(-1)]
    grouped = np.argsort(rank, kind="stable")
    history = b.History(
        kind=own,
        op=np.where(crash, -1, number[op]).astype(np.int32),
        transition=ops.transition[live].astype(np.int32),
        slot=problem.events.slot[calls].astype(np.int32),
        rank=ranks(ops, stepper.model.init(), stepper.observer, live, due),
        crashed_at=crashed_at[grouped].astype(np.int32),
        class_transition=transitions[order].astype(np.int32),
        class_first=np.append(0, np.cumsum(np.bincount(rank, minlength=len(transitions)))).astype(np.int32),
    )
    return history, live, op[crashed_at[grouped]]


def _path(history: b.History, words: int) -> b.Path:
    live, crashed = len(history.transition), len(history.crashed_at)
    moves = live + crashed
    following = np.empty(live + 2, np.int32)
    following[live:] = [live, live + 1]
    return b.Path(
        following=following,
        previous=following.copy(),
        move=np.empty(moves, np.int32),
        moved_at=np.empty(moves, np.int32),
        base=np.empty(moves + 1, np.int32),
        kept=np.empty((moves + 1, 1 + words), np.uint64),
        used=np.zeros(len(history.class_transition), np.int32),
        now=np.zeros(1 + words + -(-crashed // 64), np.uint64),
    )


@cache
def warm_up() -> None:
    """Compile the kernels of the depth-first search, or load them from the cache; once per process."""
    none: I32 = np.zeros(1, np.int32)
    steps = Steps(ASSIGNMENTS, 1, np.full(1, ANY, np.int32), none, none, np.full(1, -1, np.int64), none)
    kinds = np.array([CALL, RETURN], np.int8)
    history = b.History(kinds, np.zeros(2, np.int32), none, none, none + 1, none[:0], none[:0], none)
    path = _path(history, 1)
    dead = dead_ends.empty(2, 2, 1)
    b.advance(history, steps, path, asked_for(steps, none[:0]), dead, np.zeros(b.REGISTERS, np.int64), BUDGET)
    dead_ends.enlarged(dead, 2)

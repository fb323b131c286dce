"""Drives the frontier machine: memory as it grows, cells as it asks for them, and the limits on both and on time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from checkers.linearizable import encoding, ops
from checkers.linearizable import frontier as f
from checkers.linearizable.encoding import Problem
from checkers.linearizable.transitions import Stepper, TooManyCellsError

BUDGET: Final = 100_000
"""Expansions between two looks at the clock: some ten milliseconds."""

FRONTIER_ROWS: Final = 256
POOL_ROWS: Final = 1024

Answer: TypeAlias = Literal["linearizable", "violation", "time", "memory", "cells"]


@dataclass(frozen=True)
class Limits:
    """When to give up: CPU seconds of this thread, bytes of configurations, cells of a lazy transition table."""

    time_s: float = 60.0
    memory_bytes: int = 1 << 30
    cells: int = 20_000_000


@dataclass(frozen=True)
class Result:
    """How a search ended.

    Attributes:
        answer: "linearizable", "violation", or what ran out.
        event: events that were explained; at a violation, the number of the event that cannot be.
        seconds: CPU time of this thread, compilation apart, the model's own steps included.
        peak: the largest frontier.
        expanded: configurations that were expanded.
        frontier: configurations after the last event that was explained (rows as in `frontier`).
        reachable: at a violation, configurations that can be reached from them by ops under way.
        words: words of a row that hold live ops.
        algorithm: what judged.
    """

    answer: Answer
    event: int
    seconds: float
    peak: int
    expanded: int
    words: int = 1
    frontier: f.U64 = field(default_factory=lambda: np.zeros((0, 2), np.uint64))
    reachable: f.U64 = field(default_factory=lambda: np.zeros((0, 2), np.uint64))
    algorithm: str = "frontier"


class Search:
    """One search for a linearization."""

    def __init__(self, problem: Problem, stepper: Stepper, limits: Limits, initial: Sequence[int] = (0,)) -> None:
        """Set up the arrays for the beginning of the history: a configuration per state in `initial`, by number."""
        warm_up()
        self._seconds = 0.0
        self._problem = problem
        self._stepper = stepper
        self._limits = limits
        words = max(1, -(-problem.slots // 64))
        crashed = int(np.count_nonzero(problem.events.kind == f.CRASH))
        crashed_words = min(1, crashed)
        m = self._m = np.zeros(f.REGISTERS, np.int64)
        starts = np.unique(np.asarray(initial, np.int64))
        m[f.FRONTIER] = m[f.PEAK] = len(starts)
        states = max(16, len(stepper.states.known))
        rows = max(FRONTIER_ROWS, len(starts))
        self._space = _space(words, states, rows, max(POOL_ROWS, 2 * len(starts)), 1 + words + crashed_words)
        self._space.frontier[: len(starts), 0] = starts
        width = max(1, len(stepper.transitions))
        slots = max(1, problem.slots)
        self._live = f.Live(
            transition=np.zeros(slots, np.int32),
            mutators=np.zeros(slots, np.int32),
            observers=np.zeros(slots, np.int32),
            classes=np.zeros(width, np.int32),
            first=np.full(width, -1, np.int32),
            last=np.full(width, -1, np.int32),
            following=np.zeros(64 * crashed_words, np.int32),
            free=np.arange(64 * crashed_words, dtype=np.int32)[::-1].copy(),
        )
        m[f.FREE] = 64 * crashed_words

    def run(self) -> Result:
        """Search until there is an answer, or a limit is reached."""
        while True:
            result = self.advance(self._limits.time_s)
            if result is not None:
                return result

    def advance(self, seconds: float) -> Result | None:
        """Go on for about so many CPU seconds of this thread; None if there is no answer by then.

        The stepper may have been used by others since the last call, and may know more states and cells.
        """
        began = time.thread_time()
        self._make_room_for_states()
        while True:
            status = f.advance(self._problem.events, self._stepper.steps, self._space, self._live, self._m, BUDGET)
            spent = time.thread_time() - began
            answer = self._answer(status, spent)
            if answer is not None or (status == f.PAUSED and spent >= seconds):
                self._seconds += time.thread_time() - began
                return None if answer is None else self._result(answer)

    def _answer(self, status: int, spent: float) -> Answer | None:
        """The end of the search if this is it; else the machine has what it needs to go on."""
        if status == f.DONE:
            return "linearizable"
        if status == f.VIOLATION:
            return "violation"
        if self._seconds + spent > self._limits.time_s:
            return "time"
        if status == f.NEEDS_CELL:
            try:
                self._fill()
            except TooManyCellsError:
                return "cells"
        elif status != f.PAUSED and not self._grow(status):
            return "memory"
        return None

    def given_up(self) -> Result:
        """The end of a search that gets no more time: how far it came."""
        return self._result("time")

    def _result(self, answer: Answer) -> Result:
        m, space = self._m, self._space
        reachable = space.pool[: m[f.POOL]][space.alive[: m[f.POOL]] != 0] if answer == "violation" else space.pool[:0]
        return Result(
            answer,
            int(m[f.EVENT]),
            self._seconds,
            int(m[f.PEAK]),
            int(m[f.EXPANDED]),
            space.words,
            space.frontier[: m[f.FRONTIER]].copy(),
            reachable.copy(),
        )

    def _fill(self) -> None:
        """Compute the missing cell, and those next to it that will be asked for in a moment."""
        m, live, events = self._m, self._live, self._problem.events
        slots = np.concatenate([live.mutators[: m[f.MUTATORS]], live.observers[: m[f.OBSERVERS]]])
        wanted = {int(t) for t in live.transition[slots]} | {int(t) for t in live.classes[: m[f.CLASSES]]}
        event = int(m[f.EVENT])
        if events.kind[event] == f.CALL_OBSERVER:
            called = int(events.transition[event])
            for state in np.unique(self._space.frontier[: m[f.FRONTIER], 0]):
                self._stepper.fill(int(state), [called])
        self._stepper.fill(int(m[f.MISSING]), sorted(wanted))
        self._make_room_for_states()

    def _make_room_for_states(self) -> None:
        states, known = self._space.absorbed_at.size, len(self._stepper.states.known)
        if known > states:
            self._space = self._space._replace(
                absorbed=_extended(self._space.absorbed, 2 * known),
                absorbed_at=np.append(self._space.absorbed_at, np.full(2 * known - states, -1, np.int64)),
            )

    def _grow(self, status: int) -> bool:
        """Give the machine what it needs; False if that exceeds the limit."""
        space, m = self._space, self._m
        rows, width = space.pool.shape
        if status == f.NEEDS_FRONTIER:
            space = space._replace(frontier=_extended(space.frontier, 2 * rows))
        if status == f.NEEDS_CRASHED:
            width += 1
            space = space._replace(frontier=_widened(space.frontier))
            slots = self._live.following.size
            self._live = self._live._replace(
                following=_longer(self._live.following, 64),
                free=_longer(self._live.free, 64),
            )
            self._live.free[:64] = np.arange(slots, slots + 64)[::-1]
            m[f.FREE] = 64
        rows = max(2 * rows, 2 * space.frontier.shape[0]) if status != f.NEEDS_CRASHED else rows
        if (rows + space.frontier.shape[0]) * (8 * width + 24) > self._limits.memory_bytes:
            return False
        pool, alive, chain, buckets = _pool(rows, width)
        used = int(m[f.POOL])
        if status != f.NEEDS_CRASHED:
            pool[:used] = space.pool[:used]
            alive[:used] = space.alive[:used]
        self._space = space._replace(pool=pool, alive=alive, chain=chain, buckets=buckets)
        if status != f.NEEDS_CRASHED:
            f.rehash(self._space, m)
        return True


def _pool(rows: int, width: int) -> tuple[f.U64, f.I8, f.I32, f.I64]:
    """An empty pool: rows, liveness, chains and buckets (two to four per row, a power of two)."""
    return (
        np.zeros((rows, width), np.uint64),
        np.zeros(rows, np.int8),
        np.zeros(rows, np.int32),
        np.full(1 << (2 * rows - 1).bit_length(), -1, np.int64),
    )


def _space(words: int, states: int, frontier_rows: int, pool_rows: int, width: int) -> f.Space:
    pool, alive, chain, buckets = _pool(pool_rows, width)
    return f.Space(
        words,
        np.zeros((frontier_rows, width), np.uint64),
        pool,
        alive,
        chain,
        buckets,
        np.zeros((states, words), np.uint64),
        np.full(states, -1, np.int64),
    )


def _extended(rows: f.U64, count: int) -> f.U64:
    more = np.zeros((count, rows.shape[1]), np.uint64)
    more[: len(rows)] = rows
    return more


def _widened(rows: f.U64) -> f.U64:
    return np.concatenate([rows, np.zeros((len(rows), 1), np.uint64)], axis=1)


def _longer(numbers: f.I32, more: int) -> f.I32:
    return np.concatenate([numbers, np.zeros(more, np.int32)])


@cache
def warm_up() -> None:
    """Compile the kernels of this package, or load them from the cache; once per process."""
    empty: npt.NDArray[np.int32] = np.zeros(1, np.int32)
    steps = f.Steps(
        f.ASSIGNMENTS, 1, np.full(1, f.ANY, np.int32), np.zeros(1, np.int32), empty, np.full(1, -1, np.int64), empty
    )
    events = f.Events(np.array([f.CALL, f.RETURN], np.int8), np.zeros(2, np.int32), np.zeros(2, np.int32))
    space = _space(1, 1, 2, 4, 2)
    live = f.Live(empty, empty, empty, empty, empty, empty, empty, empty)
    m = np.zeros(f.REGISTERS, np.int64)
    m[f.FRONTIER] = 1
    f.advance(events, steps, space, live, m, BUDGET)
    f.rehash(space, m)
    f.cell_position(0, 1)
    ops.warm_up()
    encoding.warm_up()

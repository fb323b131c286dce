"""The machine with its memory: arrays that grow as it asks for them, and cells of the transition table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from splitbrain.checkers.linearizable import frontier as f
from splitbrain.checkers.linearizable.advance import advance
from splitbrain.checkers.linearizable.configurations import rehash
from splitbrain.checkers.linearizable.program import crashed as crashed_of
from splitbrain.checkers.linearizable.transitions import OutOfMemoryError, Stepper
from splitbrain.results.columns import distinct

FRONTIER_ROWS: Final = 256
POOL_ROWS: Final = 1024
STATES: Final = 16


class Machine:
    """One run of the machine over a program, from some states.

    Attributes:
        m: its registers, by the names in `frontier`.
        space: its configurations.
        crashed: what it knows of crashed ops.
    """

    def __init__(
        self,
        program: f.Program,
        stepper: Stepper,
        *,
        slots: int,
        policy: int,
        cap: int,
        initial: Sequence[int],
        memory_bytes: int,
        remember: bool = False,
    ) -> None:
        """Set up the arrays for the beginning of the program: a configuration per state in `initial`, by number.

        Raises:
            OutOfMemoryError: already that is too much.
        """
        self._program = program
        self._stepper = stepper
        self._memory_bytes = memory_bytes
        words = max(1, -(-slots // 64))
        width = max(1, len(stepper.transitions))
        self.crashed = crashed_of(program, stepper, policy, cap, remember=remember)
        counters = self.crashed.guards.size
        row = 1 + 2 * words + counters + (counters > 0)
        starts = distinct(np.asarray(initial, np.int64))
        rows = max(FRONTIER_ROWS, len(starts))
        self._live = f.Live(
            transition=np.zeros(64 * words, np.int32),
            order=np.zeros(64 * words, np.int64),
            mutators=np.zeros(64 * words, np.int32),
            observers=np.zeros(64 * words, np.int32),
            keyed=np.zeros(words, np.uint64),
            overwrites=np.zeros(words, np.uint64),
            tried=np.zeros(width, np.int64),
        )
        self.space = f.Space(
            words,
            np.zeros((rows, row), np.uint64),
            *_pool(max(POOL_ROWS, 2 * rows), row),
            np.zeros((STATES, words), np.uint64),
            np.full(STATES, -1, np.int64),
        )
        self.space.frontier[: len(starts), 0] = starts
        self.m = np.zeros(f.REGISTERS, np.int64)
        self.m[f.FRONTIER] = self.m[f.PEAK] = len(starts)
        self.m[f.FORGET_AT] = 1 << 62
        self._refuse_more_than(self.bytes)
        self.make_room_for_states()

    @property
    def approximate(self) -> bool:
        """Whether ways to use crashed ops were dropped or merged."""
        return bool(self.m[f.APPROXIMATE])

    @property
    def blurred(self) -> bool:
        """Whether crashed ops were forgotten that had been used in some configurations, and in others not."""
        return bool(self.m[f.BLURRED])

    @property
    def frontier(self) -> f.U64:
        """The configurations after the last event that was explained."""
        return self.space.frontier[: self.m[f.FRONTIER]].copy()

    @property
    def reachable(self) -> f.U64:
        """At a violation, what could be reached from the frontier by ops under way and crashed ones."""
        used = int(self.m[f.POOL])
        return self._with_forgotten(self.space.pool[:used][self.space.alive[:used] != 0])

    def _with_forgotten(self, rows: f.U64) -> f.U64:
        """Rows, and one for each further state that crashed ops can leave which the machine has forgotten.

        No op under way needed these states, so they explain nothing; they are still possible.
        """
        forgotten: list[int] = np.flatnonzero(self.crashed.left).tolist()
        first = {int(row[0]): row for row in rows[::-1]}
        states = list(first)
        for state in states:
            for transition in forgotten:
                following = int(f.step(self._stepper.steps, state, transition))
                if following >= 0 and following not in first:
                    first[following] = first[state].copy()
                    first[following][0] = following
                    states.append(following)
        return np.concatenate([rows, *(first[state][None] for state in states[len(distinct(rows[:, 0])) :])])

    def advance(self, budget: int) -> int:
        """Go on for `budget` expansions (PAUSED), to the end (DONE, VIOLATION), or until a need was met (GO_ON).

        Raises:
            OutOfMemoryError: the machine needs more than there is.
            TooManyCellsError: the table of steps is at its budget.
            UsageError: the model failed, or contradicts itself.
        """
        status = advance(self._program, self._stepper.steps, self.space, self._live, self.crashed, self.m, budget)
        if status in (f.DONE, f.VIOLATION, f.PAUSED):
            return status
        if status == f.NEEDS_CELL:
            self._fill()
        else:
            self._grow(status)
        return f.GO_ON

    def make_room_for_states(self) -> None:
        """Have a place for each state that the stepper knows by now.

        Raises:
            OutOfMemoryError: that is more than there is.
        """
        states, known = self.space.absorbed_at.size, len(self._stepper.states.known)
        if known > states:
            more = known if states == STATES else 2 * known
            self._refuse_more_than(self.bytes + 8 * (more - states) * (1 + self.space.words))
            self.space = self.space._replace(
                absorbed=_extended(self.space.absorbed, more),
                absorbed_at=np.append(self.space.absorbed_at, np.full(more - states, -1, np.int64)),
            )

    def _fill(self) -> None:
        """Compute the missing cell, and those next to it that will be asked for in a moment.

        An op is not computed in a state where no configuration lets it take effect: that may lead to unreachable
        states.
        """
        m, program = self.m, self._program
        event, state = int(m[f.EVENT]), int(m[f.MISSING])
        if program.kind[event] == f.CALL_OBSERVER:
            called = int(program.transition[event])
            for each in distinct(self.space.frontier[: m[f.FRONTIER], 0]):
                self._stepper.fill(int(each), [called])
        else:
            wanted = {int(t) for t in self._live.transition[self._live.observers[: m[f.OBSERVERS]]]}
            if state == int(self.space.pool[m[f.CURSOR], 0]):
                wanted |= self._possible_next()
            self._stepper.fill(state, sorted(wanted))
        self.make_room_for_states()
        self._refuse_more_than(self.bytes)

    def _possible_next(self) -> set[int]:
        """Transitions of what may take effect next in the configuration under the cursor, by its bits."""
        live, words = self._live, self.space.words
        row = self.space.pool[self.m[f.CURSOR]]
        slots = live.mutators[: self.m[f.MUTATORS]]
        word, bit = slots >> 6, f.ONE << (slots & 63).astype(np.uint64)
        overwrites = live.overwrites[word] & bit != 0
        unused = np.where(overwrites, row[1 + words + word], ~row[1 + word]) & bit != 0
        classes = self.crashed.classes[: self.m[f.CLASSES]]
        return {int(t) for t in (*live.transition[slots[unused]], *classes)}

    def _grow(self, status: int) -> None:
        """Double the pool; and make the frontier as large as the pool was, if that is what was needed."""
        space, m = self.space, self.m
        rows, width = space.pool.shape
        frontier_rows = rows if status == f.NEEDS_FRONTIER else len(space.frontier)
        rows = max(2 * rows, 2 * frontier_rows)
        per_row = 8 * width + 5
        buckets = 8 << (2 * rows - 1).bit_length()
        held = self.bytes
        self._refuse_more_than(held + (rows + frontier_rows - len(space.frontier)) * per_row + buckets)
        if status == f.NEEDS_FRONTIER:
            space = space._replace(frontier=_extended(space.frontier, frontier_rows))
        pool, alive, chain, heads = _pool(rows, width)
        used = int(m[f.POOL])
        pool[:used] = space.pool[:used]
        alive[:used] = space.alive[:used]
        self.space = space._replace(pool=pool, alive=alive, chain=chain, buckets=heads)
        # Chains and buckets depend on the number of buckets. The rows dominate none of each other: they only need
        # places.
        rehash(self.space, self._live, m)

    @property
    def bytes(self) -> int:
        """What is held beside the program: configurations, states, and the table of steps."""
        arrays = [each for each in self.space if isinstance(each, np.ndarray)]
        return self._stepper.bytes + sum(each.nbytes for each in arrays)

    def _refuse_more_than(self, needed: int) -> None:
        if needed > self._memory_bytes:
            raise OutOfMemoryError


def _pool(rows: int, width: int) -> tuple[f.U64, f.I8, f.I32, f.I64]:
    """An empty pool: rows, liveness, chains and buckets (two to four per row, a power of two)."""
    return (
        np.zeros((rows, width), np.uint64),
        np.zeros(rows, np.int8),
        np.zeros(rows, np.int32),
        np.full(1 << (2 * rows - 1).bit_length(), -1, np.int64),
    )


def _extended(rows: f.U64, count: int) -> f.U64:
    more = np.zeros((count, rows.shape[1]), np.uint64)
    more[: len(rows)] = rows
    return more


def warm_up() -> None:
    """Compile the kernels that run on these arrays, or load them from the cache."""
    none: f.I32 = np.zeros(1, np.int32)
    longs: f.I64 = np.zeros(64, np.int64)
    bits: f.U64 = np.zeros(1, np.uint64)
    flags: f.I8 = np.zeros(1, np.int8)
    program = f.Program(
        np.array([f.CALL, f.RETURN], np.int8), np.zeros(2, np.int32), np.zeros(2, np.int32), np.zeros(2, np.int32)
    )
    steps = f.Steps(f.ASSIGNMENTS, 1, np.full(1, f.ANY, np.int32), none.copy(), none, np.full(1, -1, np.int64), none)
    live = f.Live(none, longs, np.zeros(64, np.int32), np.zeros(64, np.int32), bits, bits.copy(), longs.copy())
    space = f.Space(1, np.zeros((2, 3), np.uint64), *_pool(4, 3), np.zeros((1, 1), np.uint64), np.full(1, -1, np.int64))
    counted = f.Crashed(f.NARROW, 1, none, none, longs, flags, flags.copy(), none, none, bits[:0], none[:0])
    m = np.zeros(f.REGISTERS, np.int64)
    m[f.FRONTIER] = 1
    m[f.FORGET_AT] = 1 << 62
    advance(program, steps, space, live, counted, m, 1)
    rehash(space, live, m)

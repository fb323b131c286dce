"""The smallest set of ops that cannot all have happened as recorded.

Every op of the failing prefix is made optional within its interval (it may have taken effect, and need not have), as
long as the prefix stays impossible. What remains obliged is the witness: no order puts these ops where they were
acknowledged, whatever the others did. Making an op optional only adds possibilities, so that what stays impossible
was so before.

A long history is not searched from its beginning for that: what came before a window is made optional altogether. Then
the window begins in any state at all, as far as the model's steps show that; where it cannot, in one of the
states that were possible there, which becomes part of the witness. The window grows until it is impossible.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from splitbrain.checkers.linearizable.encoding import events, rows_until
from splitbrain.checkers.linearizable.frontier import ASSIGNMENTS, CLOSED
from splitbrain.checkers.linearizable.limits import Limits
from splitbrain.checkers.linearizable.ops import OPEN, Ops
from splitbrain.checkers.linearizable.relaxed import Relaxed, TooManyStepsError
from splitbrain.checkers.linearizable.search import Search
from splitbrain.checkers.linearizable.transitions import OutOfMemoryError, Stepper, TooManyCellsError
from splitbrain.results.columns import distinct

WHOLE: Final = 400
"""Events of a prefix that is searched from its beginning."""

WINDOW: Final = 16
WIDER: Final = 4

RELAXED: Final = 400
"""The largest number of ops in a window that is first searched in plain Python."""

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Witness:
    """Ops that contradict each other.

    Attributes:
        ops: by number; obliged, the failing one last.
        minimal: whether each of them is known to be needed, given what is known of the state before them.
        since: row of the event before which nothing is obliged; None if the witness reaches back to the beginning.
        states: numbers of the only states that were possible before `since`, if the contradiction rests on that.
    """

    ops: list[int]
    minimal: bool
    since: int | None = None
    states: tuple[int, ...] | None = None


def find(ops: Ops, stepper: Stepper, failing: int, limits: Limits) -> Witness | None:
    """The witness of a prefix that ends with the return of op `failing`; None if time ran out before there was any.

    Args:
        ops: the partition.
        stepper: as it was used to find the violation.
        failing: the op whose return ends the smallest failing prefix.
        limits: time for the whole, memory for each search.
    """
    return _Shrinking(ops, stepper, failing, limits).run()


@dataclass(frozen=True)
class _Window:
    """The ops that have to do with the events from `since` on.

    Attributes:
        since: row of the first event; None for all events.
        ops: those ops.
        number: what each is called in the partition.
        obliging: which may be obliged: those that began in the window and returned in it.
        starts: numbers of the states in which it may begin.
        known: whether `starts` are a finding about this history, and not all that is conceivable.
    """

    since: int | None
    ops: Ops
    number: I64
    obliging: I64
    starts: tuple[int, ...]
    known: bool = False


class _Shrinking:
    def __init__(self, ops: Ops, stepper: Stepper, failing: int, limits: Limits) -> None:
        self._ops = ops
        self._stepper = stepper
        self._failing = failing
        self._limits = limits
        self._deadline = limits.clock() + limits.time_s
        self._out_of_time = False
        self._relaxed: Relaxed | None = None
        self._until = int(ops.completed[failing])
        ended = ops.completed[~ops.crashed & (ops.completed != OPEN)]
        self._rows: I64 = rows_until(self._until, ops.invoked, ended)

    def run(self) -> Witness | None:
        size = WINDOW
        while not self._out_of_time:
            since = self._beginning(size)
            window = self._window(since)
            self._relaxed = None if window is None or len(window.number) > RELAXED else self._optional(window)
            kept = None if window is None else self._first(window)
            if window is not None and kept is not None:
                return self._smaller(window, kept)
            if since is None:
                return None
            size *= WIDER
        return None

    def _beginning(self, size: int) -> int | None:
        """The row where a window of some `size` events begins that has the failing op whole; None for all events."""
        if len(self._rows) <= max(WHOLE, size):
            return None
        return min(int(self._rows[len(self._rows) - size]), int(self._ops.invoked[self._failing]))

    # --- windows ------------------------------------------------------------------------------------------------------

    def _window(self, since: int | None) -> _Window | None:
        ops, begin = self._ops, 0 if since is None else since
        in_play = (ops.invoked <= self._until) & (ops.crashed | (ops.completed >= begin))
        number = np.flatnonzero(in_play).astype(np.int64)
        part = replace(
            ops,
            invoked=ops.invoked[number],
            completed=ops.completed[number],
            crashed=ops.crashed[number],
            transition=ops.transition[number],
        )
        inside = ~part.crashed & (part.completed < self._until) & (part.invoked >= begin)
        obliging = np.flatnonzero(inside)
        obliging = obliging[np.argsort(part.completed[obliging])].astype(np.int64)
        if since is None:
            return _Window(since, part, number, obliging, (0,))
        starts = self._conceivable(part, since)
        if starts is not None:
            return _Window(since, part, number, obliging, starts)
        possible = self._possible(since)
        return None if possible is None else _Window(since, part, number, obliging, possible, known=True)

    def _conceivable(self, part: Ops, since: int) -> tuple[int, ...] | None:
        """States in which the window may begin if nothing before it is obliged; None if the model does not say.

        Of the states that no op in the window asks for, one stands for all.
        """
        steps = self._stepper.steps
        if steps.mode == CLOSED:
            # More states than can be reached only add possibilities.
            return tuple(range(len(self._stepper.states.known)))
        if steps.mode != ASSIGNMENTS:
            return None
        before = self._ops.transition[self._ops.invoked < since]
        settable = distinct(np.append(steps.becomes[before], 0))
        settable = settable[settable >= 0]
        requires = steps.requires[part.transition]
        asked = distinct(np.where(requires < -1, -2 - requires, requires))
        sought = np.isin(settable, asked, assume_unique=True)
        wanted, others = settable[sought], settable[~sought]
        return (*wanted.tolist(), *others[:1].tolist())

    def _possible(self, since: int) -> tuple[int, ...] | None:
        """States that were possible before the window; None if that takes too long."""
        problem = events(self._ops, self._stepper.observer, until_row=since - 1)
        search = Search(problem, self._stepper, replace(self._limits, time_s=self._left()), remember=True)
        result = search.run()
        if result.answer != "linearizable" or not result.complete:
            return None
        return tuple(sorted({configuration.state for configuration in search.configurations(result)}))

    def _optional(self, window: _Window) -> Relaxed:
        limits = self._limits
        return Relaxed(
            window.ops, self._stepper, window.starts, self._until, clock=limits.clock, deadline=self._deadline
        )

    # --- making it smaller --------------------------------------------------------------------------------------------

    def _first(self, window: _Window) -> list[int] | None:
        """The shortest run of the last ops of a window that suffices, by doubling: violations are local as a rule."""
        count, most = 0, len(window.obliging)
        while not self._out_of_time:
            recent: list[int] = window.obliging[most - count :].tolist()
            if self._impossible(window, recent):
                return recent
            if count == most:
                return None
            count = min(max(2 * count, 4), most)
        return None

    def _smaller(self, window: _Window, kept: list[int]) -> Witness:
        """Delta debugging: leave out runs of ops, shorter and shorter ones."""
        chunk = max(1, len(kept) // 2)
        while True:
            at = 0
            while at < len(kept) and not self._out_of_time:
                fewer = kept[:at] + kept[at + chunk :]
                # To oblige fewer ops only adds possibilities, so "impossible" holds for all ops as well.
                if self._impossible(window, fewer):
                    kept = fewer
                else:
                    at += chunk
            if chunk == 1 or self._out_of_time:
                break
            chunk //= 2
        return Witness(
            [*window.number[kept].tolist(), self._failing],
            minimal=not self._out_of_time,
            since=window.since,
            states=window.starts if window.known else None,
        )

    def _impossible(self, window: _Window, kept: list[int]) -> bool:
        left = self._left()
        if left <= 0:
            self._out_of_time = True
            return False
        if self._relaxed is not None:
            try:
                return self._relaxed.impossible([*kept, int(np.searchsorted(window.number, self._failing))])
            except TooManyStepsError:
                self._relaxed = None
            except (TooManyCellsError, OutOfMemoryError):
                self._out_of_time = True
                return False
        obliged = np.zeros(len(window.number), np.bool_)
        obliged[kept] = True
        obliged |= window.number == self._failing
        problem = events(window.ops, self._stepper.observer, until_row=self._until, obliged=obliged)
        limits = replace(self._limits, time_s=left)
        result = Search(problem, self._stepper, limits, window.starts).run()
        self._out_of_time = result.answer in ("time", "memory", "cells")
        return result.answer == "violation"

    def _left(self) -> float:
        return self._deadline - self._limits.clock()

"""Looks for a linearization with the frontier machine, within limits on time, memory and cells.

Without crashed ops one run of the machine is exact. With many of them it is not affordable to follow every way in
which they may have been used, and seldom needed. So the machine runs in turns, each time with a larger cap: NARROW,
which proves what it explains, and WIDE, which proves that what it cannot explain is impossible. The smallest failing
prefix ends where both stop, or where one stops that left nothing out. Caps that are never reached make either exact,
so that the turns end; and long before that, as a rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final, Literal, TypeAlias

import numpy as np

from splitbrain.checkers import kernels
from splitbrain.checkers.linearizable import encoding, ops
from splitbrain.checkers.linearizable import frontier as f
from splitbrain.checkers.linearizable import program as program_module
from splitbrain.checkers.linearizable.decoding import Configuration, decode
from splitbrain.checkers.linearizable.encoding import Problem
from splitbrain.checkers.linearizable.limits import Limits, Pace
from splitbrain.checkers.linearizable.machine import Machine, OutOfMemoryError
from splitbrain.checkers.linearizable.machine import warm_up as warm_up_machine
from splitbrain.checkers.linearizable.transitions import Stepper, TooManyCellsError

BUDGET: Final = 100_000
"""The largest number of expansions between two clock checks."""

CAP: Final = 1
"""Ways to use crashed ops that are kept in the first turn; each round of turns has CAP_GROWTH times as many."""

CAP_GROWTH: Final = 4

WIDE_SHARE: Final = 8
"""A WIDE run is abandoned if it needs this many times the expansions of the NARROW one before: it may not end."""

PREFIX_S: Final = 10.0
"""The largest number of CPU seconds for the end of the smallest failing prefix, once there is known to be one."""

PREFIX_LEAST_S: Final = 0.5
"""CPU seconds that it may take in any case; beyond that, no more than it took to know that there is one."""

Answer: TypeAlias = Literal["linearizable", "violation", "time", "memory", "cells"]


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
        reachable: at a violation, configurations that can be reached from them by ops under way and crashed ones.
        words: words of a row that hold live ops.
        algorithm: what judged.
        exact: at a violation, whether `event` ends the smallest failing prefix. Else that ends there or before.
        complete: whether nothing is missing from the configurations (up to dominance), and each is possible.
        covering: whether all possible configurations are among them. If not, they are possible ones and others may be.
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
    exact: bool = True
    complete: bool = True
    covering: bool = True


class Search:
    """One search for a linearization."""

    def __init__(
        self,
        problem: Problem,
        stepper: Stepper,
        limits: Limits,
        initial: Sequence[int] = (0,),
        *,
        remember: bool = False,
        stop: int | None = None,
        explained: int = 0,
    ) -> None:
        """Begin at the beginning of a history.

        Args:
            problem: its events.
            stepper: steps of the model.
            limits: when to give up.
            initial: states to begin with, by number.
            remember: whether uses of crashed ops are counted to the end, even if no op needs the value that they
                leave: for events that are not the whole history, where a later op may need it.
            stop: how many events are to be explained; all if left out. Unlike in a shorter problem, ops that are under
                way then are known to return.
            explained: how many events another search has explained: if the next one can be refuted, that is the answer.
        """
        began = limits.clock()
        self._problem = problem
        self._stepper = stepper
        self._limits = limits
        self._initial = initial
        self._remember = remember
        self._peak = self._expanded = 0
        what = program_module.program(problem.events, stepper)
        self._program = f.Program(what.kind[:stop], what.slot[:stop], what.transition[:stop], what.ended[:stop])
        # Policies differ in what becomes of crashed ops: without any, the first run is the only one.
        wide = explained > 0 and bool(np.any(self._program.kind == f.CRASH))
        self._policy, self._cap = f.WIDE if wide else f.NARROW, CAP
        self._explained_elsewhere = explained
        self._explained: Result | None = None
        self._refuted: Result | None = None
        self._refuted_at_s = float("inf")
        self._patience = WIDE_SHARE * BUDGET
        self._machine: Machine | None = None
        self._pace = Pace(BUDGET)
        self._seconds = limits.clock() - began

    @property
    def events(self) -> int:
        """Events that are to be explained."""
        return len(self._problem.op)

    @property
    def furthest(self) -> int:
        """Events that the run under way has explained; a run that begins anew has explained none."""
        return 0 if self._machine is None else int(self._machine.m[f.EVENT])

    @property
    def memory_bytes(self) -> int:
        """What the configurations hold, the states and the table of the stepper apart."""
        return 0 if self._machine is None else self._machine.bytes - self._stepper.bytes

    def run(self) -> Result:
        """Search until there is an answer, or a limit is reached."""
        while True:
            result = self.advance(self._limits.time_s)
            if result is not None:
                return result

    def advance(self, seconds: float) -> Result | None:
        """Continue for about this many CPU seconds of this thread; None if there is no answer by then.

        The stepper may have been used by others since the last call, and may know more states and cells.
        """
        clock = self._limits.clock
        began, before = clock(), self._seconds
        try:
            if self._machine is not None:
                self._machine.make_room_for_states()
            while True:
                status = self._go_on()
                self._seconds = before + clock() - began
                result = self._ended(status)
                if result is not None:
                    return replace(result, seconds=self._seconds)
                if self._seconds >= min(self._limits.time_s, self._prefix_until_s()):
                    return self._gave_up("time")
                if self._seconds - before >= seconds:
                    return None
        except TooManyCellsError:
            return self._gave_up("cells")
        except OutOfMemoryError:
            return self._gave_up("memory")
        finally:
            self._seconds = before + clock() - began

    def given_up(self) -> Result:
        """The end of a search that gets no more time: how far it came."""
        return self._gave_up("time")

    def configurations(self, result: Result) -> list[Configuration]:
        """What is in the frontier of a result of this search, in terms of ops.

        Which crashed ops were used is known only to a search with `remember`.
        """
        # Where uses are counted is the same for both policies and all caps.
        layout = program_module.crashed(self._program, self._stepper, f.NARROW, CAP, remember=self._remember)
        return decode(result.frontier, result.event, self._problem, self._program, layout, result.words)

    def _prefix_until_s(self) -> float:
        """When to be content with a failing prefix that may not be the smallest."""
        return self._refuted_at_s + min(PREFIX_S, max(PREFIX_LEAST_S, self._refuted_at_s))

    def _go_on(self) -> int:
        machine = self._machine = self._machine or self._new_machine()
        began, expanded = self._limits.clock(), int(machine.m[f.EXPANDED])
        try:
            status = machine.advance(kernels.budget(self._pace.steps()))
            self._pace.learn(int(machine.m[f.EXPANDED]) - expanded, self._limits.clock() - began)
            hopeless = status in (f.PAUSED, f.GO_ON) and machine.m[f.EXPANDED] > self._patience
        except OutOfMemoryError:
            if self._policy == f.NARROW:
                raise
            status, hopeless = f.GO_ON, True
        if hopeless and self._policy == f.WIDE:
            self._next_turn()
        return status

    def _new_machine(self) -> Machine:
        return Machine(
            self._program,
            self._stepper,
            slots=self._problem.slots,
            policy=self._policy,
            cap=self._cap,
            initial=self._initial,
            memory_bytes=self._limits.memory_bytes,
            remember=self._remember,
        )

    def _ended(self, status: int) -> Result | None:
        """The answer, if the machine's run is at its end and says one."""
        if self._machine is None or status in (f.PAUSED, f.GO_ON):
            return None
        result = self._result(self._machine, "linearizable" if status == f.DONE else "violation")
        # NARROW only leaves explanations out: one that it finds is one. WIDE only adds: where it finds none there is
        # none.
        if not self._machine.approximate or (status == f.DONE and self._policy == f.NARROW):
            return result
        if self._policy == f.NARROW:
            self._patience = WIDE_SHARE * (int(self._machine.m[f.EXPANDED]) + BUDGET)
        return self._weigh(result)

    def _weigh(self, result: Result) -> Result | None:
        """What an approximate run says beside the ones before; without an answer, begin the next turn."""
        if self._policy == f.NARROW:
            if self._explained is None or result.event > self._explained.event:
                self._explained = result
        elif result.answer == "violation" and (self._refuted is None or result.event < self._refuted.event):
            self._refuted = result
            self._refuted_at_s = min(self._refuted_at_s, self._seconds)
        explained, refuted = self._explained, self._refuted
        if refuted is not None and refuted.event == self._explained_elsewhere:
            return replace(refuted, peak=self._peak, expanded=self._expanded)
        if explained is not None and refuted is not None and explained.event == refuted.event:
            return replace(explained, peak=self._peak, expanded=self._expanded)
        self._next_turn()
        return None

    def _next_turn(self) -> None:
        self._machine = None
        if self._policy == f.WIDE:
            self._cap *= CAP_GROWTH
        self._policy = f.WIDE if self._policy == f.NARROW else f.NARROW

    def _result(self, machine: Machine, answer: Answer) -> Result:
        self._peak = max(self._peak, int(machine.m[f.PEAK]))
        expanded = self._expanded + int(machine.m[f.EXPANDED])
        if answer in ("linearizable", "violation"):
            self._expanded = expanded
        return Result(
            answer,
            int(machine.m[f.EVENT]),
            self._seconds,
            self._peak,
            expanded,
            machine.space.words,
            machine.frontier,
            machine.reachable if answer == "violation" else machine.space.pool[:0].copy(),
            complete=not (machine.approximate or machine.blurred),
            covering=self._policy == f.WIDE or not (machine.approximate or machine.blurred),
        )

    def _gave_up(self, answer: Answer) -> Result:
        """The end without an answer, unless it is known already that there is a violation."""
        if self._refuted is not None:
            return replace(self._refuted, exact=False, seconds=self._seconds, peak=self._peak, expanded=self._expanded)
        if self._explained is not None:
            return replace(
                self._explained, answer=answer, seconds=self._seconds, peak=self._peak, expanded=self._expanded
            )
        if self._machine is not None:
            return self._result(self._machine, answer)
        return Result(answer, 0, self._seconds, 0, 0)


@cache
def warm_up() -> None:
    """Compile the kernels of this package, or load them from the cache; once per process."""
    warm_up_machine()
    cells, following = np.full(1, -1, np.int64), np.zeros(1, np.int32)
    f.find_cell(cells, 0)
    f.move_cells(cells, following, cells, following)
    ops.warm_up()
    encoding.warm_up()
    program_module.warm_up()

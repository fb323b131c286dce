"""Giving seeds to workers until something is found or the budget is spent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from splitbrain.checkers.verdict import Outcome
from splitbrain.harness.campaigns.compose import RunOptions
from splitbrain.harness.campaigns.hunting.repeating import NOT_COMPARED, bare, compared
from splitbrain.harness.campaigns.hunting.tally import Tally
from splitbrain.harness.campaigns.hunting.trial import Trial, broken, is_repeated
from splitbrain.harness.campaigns.interrupts import Interrupts
from splitbrain.harness.campaigns.workers import Report, Workers

HARNESS_ERRORS_MAX: Final = 10
"""The search ends after this number of harness errors: more of them would show nothing new."""

TRIAL_LIMIT_S: Final = 300.0
"""How long one run may take, in CPU seconds: a hundred times as long as usual."""

_TICK_S: Final = 0.2
"""How often progress is shown, and Ctrl-C seen."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """When a search ends; runs in progress when the budget is spent are completed.

    Attributes:
        budget_s: in CPU seconds of each worker, compilation of kernels left out: about as long as it takes on a machine
            that has nothing else to do.
        runs: number of runs, None for any.
        keep_going: whether a violation does not end it.
    """

    budget_s: float
    runs: int | None = None
    keep_going: bool = False


def search(
    workers: Workers[RunOptions, Trial],
    candidates: Iterator[RunOptions],
    limits: Limits,
    *,
    interrupts: Interrupts,
    show: Callable[[Tally], None] | None = None,
    again: Workers[RunOptions, Trial] | None = None,
) -> Tally:
    """Try candidates until a violation is found, a limit is reached, or it is interrupted. All workers must be free.

    Trials count in the order in which they were given: what is found, and how many trials it took, does not depend on
    the number of workers. So a violation is final only when all candidates before it have ended; candidates after it do
    not count. When the search ends, trials in progress are not awaited: stop the workers.

    Args:
        workers: who tries them, with `trial.carry_out`.
        candidates: what to try, in order.
        limits: when to end.
        interrupts: looked at all the time.
        show: called a few times a second with what was tried until now.
        again: who repeats some of the candidates (`trial.is_repeated`), with `trial.carry_out` and another hash seed; a
            trial counts once it was compared. None: none is repeated.
    """
    tally = Tally()
    ends_s = workers.cpu_s + limits.budget_s * workers.jobs
    places: dict[int, int] = {}
    given: list[RunOptions] = []
    waiting: dict[int, Trial] = {}
    repeated = _Repeated(again)
    while not _over(tally, limits, interrupts):
        while workers.free and workers.cpu_s < ends_s and _wants_more(len(given), waiting, limits):
            candidate = next(candidates, None)
            if candidate is None:
                break
            places[id(candidate)] = len(given)
            given.append(candidate)
            workers.give(candidate)
            repeated.give(candidate)
        if not workers.tasks and not repeated.waiting:
            break
        for report in workers.wait(_TICK_S) if workers.tasks else ():
            repeated.first(report.task, _trial(report))
        for options, trial in repeated.done(0.0 if workers.tasks else _TICK_S):
            waiting[places[id(options)]] = trial
        while tally.runs in waiting and not _over(tally, limits, interrupts):
            tally.add(waiting.pop(tally.runs))
        if show is not None:
            show(tally)
    if interrupts.seen:  # what was found counts, although something before it was not waited for
        for place in sorted(waiting):
            tally.add(waiting[place])
    return tally


class _Repeated:
    """Trials on their way: those of tests that are repeated wait for their repetition."""

    def __init__(self, workers: Workers[RunOptions, Trial] | None) -> None:
        self._workers = workers
        self._ready: list[tuple[RunOptions, Trial]] = []
        self._first: dict[int, tuple[RunOptions, Trial]] = {}
        self._again: dict[int, Trial] = {}
        self._due: list[RunOptions] = []
        self._under_way: dict[int, RunOptions] = {}

    @property
    def waiting(self) -> bool:
        """Whether something is repeated, or is to be."""
        return bool(self._due or self._under_way)

    def give(self, options: RunOptions) -> None:
        """Repeat this test, if it is one of those."""
        if self._workers is not None and is_repeated(options.seed):
            self._due.append(options)
            self._under_way[id(options)] = options

    def first(self, options: RunOptions, trial: Trial) -> None:
        """What came of the test itself; a finding waits for nothing, since it is not compared."""
        key = id(options)
        if key not in self._under_way:
            self._ready.append((options, trial))
        elif trial.outcome in NOT_COMPARED:
            del self._under_way[key]
            self._due = [each for each in self._due if each is not options]
            self._ready.append((options, bare(trial)))
        else:
            self._first[key] = (options, trial)

    def done(self, timeout_s: float) -> Iterator[tuple[RunOptions, Trial]]:
        """Trials that wait for nothing more; waits up to `timeout_s` for a repetition."""
        if self._workers is not None and self.waiting:
            while self._due and self._workers.free:
                self._workers.give(self._due.pop(0))
            for report in self._workers.wait(timeout_s) if self._workers.tasks else ():
                if id(report.task) in self._under_way:
                    self._again[id(report.task)] = _trial(report)
        for key in [key for key in self._first if key in self._again]:
            options, trial = self._first.pop(key)
            del self._under_way[key]
            yield options, compared(trial, self._again.pop(key))
        ready, self._ready = self._ready, []
        yield from ready


def _wants_more(given: int, waiting: Mapping[int, Trial], limits: Limits) -> bool:
    """Whether another candidate may be tried: none behind a violation that ends the search."""
    found = any(trial.outcome is Outcome.VIOLATION for trial in waiting.values())
    return (limits.runs is None or given < limits.runs) and (limits.keep_going or not found)


def _over(tally: Tally, limits: Limits, interrupts: Interrupts) -> bool:
    if interrupts.seen or tally.outcomes[Outcome.HARNESS_ERROR] >= HARNESS_ERRORS_MAX:
        return True
    return tally.outcomes[Outcome.VIOLATION] > 0 and not limits.keep_going


Ending: TypeAlias = Literal["violation", "runs", "budget", "interrupt", "harness-errors"]
"""Why a search ended."""


def ending(tally: Tally, limits: Limits, interrupts: Interrupts) -> Ending:
    """Why a search with this result ended."""
    if interrupts.seen:
        return "interrupt"
    if tally.outcomes[Outcome.HARNESS_ERROR] >= HARNESS_ERRORS_MAX:
        return "harness-errors"
    if tally.outcomes[Outcome.VIOLATION] and not limits.keep_going:
        return "violation"
    return "runs" if limits.runs is not None and tally.runs >= limits.runs else "budget"


def _trial(report: Report[RunOptions, Trial]) -> Trial:
    """What came of a candidate; a worker that died is an error of the harness, and says nothing of the system."""
    if report.answer is not None:
        return report.answer
    problem = f"seed {report.task.seed}: {report.problem}"
    return broken(report.task, problem, repeatable=False)

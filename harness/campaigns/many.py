"""Judging any number of stored runs: batch by batch, so that what this process holds does not grow with the store.

All verdicts of a batch are stored first: the page of a run shows the outcomes of other runs of its test. Then the pages
are written, by as many processes as there are cores, since one alone would take longer than the judging.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from splitbrain.checkers import engine, stored
from splitbrain.checkers.isolation.confined import Say, Stopped
from splitbrain.checkers.isolation.judging import Job, Judge, Opened, judge, judged
from splitbrain.checkers.isolation.limits import DEFAULT, PER_CORE, Limits
from splitbrain.checkers.stored import Unjudged, or_unjudged
from splitbrain.checkers.verdict import Outcome, Verdict, worst
from splitbrain.harness.campaigns.judging import keep_verdicts, write_pages
from splitbrain.harness.campaigns.words import hot_keys, sentences
from splitbrain.harness.campaigns.workers import Workers
from splitbrain.results.arrow import DAMAGED_KEY, read_parquet_head
from splitbrain.results.errors import EngineError
from splitbrain.results.loaded import LoadedRun
from splitbrain.results.quantities import counted
from splitbrain.results.store import Judgement, RunDir

if TYPE_CHECKING:
    from splitbrain.checkers.spark.session import Spark

BATCH_RUNS: Final = 250
"""Runs in one pass of the pipeline. A pass costs some seconds for any number of runs; the verdicts of a run are tens of
kilobytes, and those of a batch are in memory at once.
"""

ALONE_RUNS: Final = 16
"""The pages of up to this number of runs are written here: another process takes as long to start."""

_PAGES_LIMIT_S: Final = 600.0
_TICK_S: Final = 0.5

_Task: TypeAlias = tuple[Path, tuple[bytes, ...]]
"""A run's folder, and its verdicts as JSON."""

Warn: TypeAlias = Callable[[str], None]
"""Takes a line on what keeps a run from its verdict or its page."""

Pages: TypeAlias = Workers[_Task, None]


class Judged(msgspec.Struct, frozen=True):
    """What is remembered of a judged run; the rest is in its folder.

    Attributes:
        run: its folder.
        outcome: what the verdicts add up to.
        said: the first sentence that is worth saying of it, "" if none is.
        hot_keys: how its hot keys were judged.
        damaged: whether no checker could judge it; `said` has the file and the cause, and its folder is as it was.
    """

    run: RunDir
    outcome: Outcome
    said: str
    hot_keys: tuple[str, ...] = ()
    damaged: bool = False


@contextlib.contextmanager
def page_writers(runs: int, jobs: int) -> Generator[Pages | None]:
    """Processes that write the pages of this number of runs; None if this process is as fast."""
    if runs < ALONE_RUNS or jobs < 2:
        yield None
        return
    with Workers(_write, jobs, limit_s=_PAGES_LIMIT_S) as workers:
        yield workers


def judge_in_batches(
    runs: Sequence[RunDir],
    spark: Spark,
    pages: Pages | None,
    show: Callable[[int], None],
    warn: Warn,
    *,
    limits: Limits = PER_CORE,
) -> list[Judged]:
    """Judge runs with the Spark pipeline, in their order.

    A run that cannot be judged, or whose page cannot be written, is a harness error; the other runs still get their
    verdicts and pages. If Spark fails as a whole (no room for its temporary files, no Java any more), a warning says
    why, and the runs that are left are judged one by one by this machine.

    Args:
        runs: what to judge.
        spark: the session.
        pages: who writes the pages.
        show: called after each batch with how many runs are judged.
        warn: called with the reason why a run has no verdict or no page.
        limits: of reading a run and of each of its checkers.
    """
    from splitbrain.checkers.spark.pipeline import judge_apart

    done: list[Judged] = []
    for begin in range(0, len(runs), BATCH_RUNS):
        batch = runs[begin : begin + BATCH_RUNS]
        try:
            found = judge_apart(spark.session, [run.path for run in batch], limits=limits)
        except EngineError as error:
            rest = runs[begin:]
            warn(f"{error} The {counted(len(rest), 'run')} that are left are judged one by one, without Spark.")
            return [*done, *judge_one_by_one(rest, partial(_show_more, show, begin), warn, limits=alone_with(limits))]
        done += _keep_all(batch, found, pages, "spark", warn)
        show(len(done))
    return done


def _show_more(show: Callable[[int], None], before: int, more: int) -> None:
    show(before + more)


def alone_with(limits: Limits) -> Limits:
    """The limits of a process that judges alone on this machine."""
    return msgspec.structs.replace(limits, at_once=1)


def judge_one_by_one(
    runs: Sequence[RunDir], show: Callable[[int], None], warn: Warn, *, limits: Limits = DEFAULT
) -> list[Judged]:
    """Judge runs one by one in a process that is forked from this one, as `judge_in_batches` does.

    Args:
        runs: what to judge.
        show: called after each with how many runs are judged.
        warn: called with the reason why a run has no verdict or no page.
        limits: of reading a run, of each of its checkers, and of its page.
    """
    done: list[Judged] = []
    with judge(limits) as by:
        for run in runs:
            done.append(_judge_one(by, run, warn))
            show(len(done))
    return done


def _judge_one(by: Judge, run: RunDir, warn: Warn) -> Judged:
    kept: list[Judgement | Unjudged] = []
    found = or_unjudged(run.path, lambda: judged(by, _Stored(run.path), found=kept.append))
    if isinstance(found, Stopped):
        found = stored.unread(run.path, found)
    if isinstance(found, Unjudged):
        return _warned(_damaged(run, found), warn)
    keeping = kept[0] if kept else _kept(run, found.verdicts, "inline")
    if isinstance(keeping, Unjudged):
        return _warned(_damaged(run, keeping), warn)
    problem = found.concluded if found.problem is None else f"the process that wrote it {found.problem}"
    return _without_page(_judged(run, found.verdicts, keeping), problem, warn)


def _warned(judged: Judged, warn: Warn) -> Judged:
    warn(judged.said)
    return judged


@dataclass(frozen=True)
class _Stored(Job):
    """A stored run, which is judged and gets its verdict and its page where it is opened."""

    path: Path

    def open(self, step: Callable[[str], None]) -> Opened | Unjudged:
        return or_unjudged(self.path, lambda: self._opened(step))

    def _opened(self, step: Callable[[str], None]) -> Opened:
        run = RunDir(self.path)
        loaded = stored.loaded(run, step)
        step(f"reading {self.path / 'verdict.json'}")
        run.read_verdicts()  # one that cannot be read cannot be replaced: what went wrong in the run would be lost
        return _OpenedStored(loaded)


class _OpenedStored(stored.OpenedRun):
    def __init__(self, loaded: LoadedRun) -> None:
        recorded = engine.Recorded(stored.as_judged(loaded), loaded.telemetry)
        super().__init__(loaded.folder.path, recorded, stored.specs_of(loaded))
        self._loaded = loaded

    def conclude(self, verdicts: Sequence[Verdict], say: Say) -> str | None:
        """Write the verdict, then the page: why there is none, or None."""
        run = self._loaded.folder
        kept = _kept(run, verdicts, "inline", self._loaded.document)
        say.found(kept)
        if isinstance(kept, Unjudged):
            return None
        try:
            write_pages(self._loaded, kept, verdicts)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return None


def _kept(
    run: RunDir, verdicts: Sequence[Verdict], by: str, document: Mapping[str, Any] | None = None
) -> Judgement | Unjudged:
    """The verdicts of a run in its folder; or why they cannot be there."""

    def keep() -> Judgement:
        return keep_verdicts(run, run.read_test() if document is None else document, verdicts, by, _lost(run))

    return or_unjudged(run.path, keep)


def _keep_all(
    runs: Sequence[RunDir],
    found: Mapping[Path, list[Verdict] | Unjudged],
    pages: Pages | None,
    by: str,
    warn: Warn,
) -> list[Judged]:
    """Keep the verdicts of some runs, then write their pages."""
    kept = [_keep(run, found[run.path], by) for run in runs]
    for each in kept:
        if each.damaged:
            _warned(each, warn)
    sound = {each.run.path for each in kept if not each.damaged}
    verdicts = {path: each for path, each in found.items() if path in sound and not isinstance(each, Unjudged)}
    problems = _write_all(pages, verdicts)
    return [_without_page(each, problems.get(each.run.path), warn) for each in kept]


def _keep(run: RunDir, verdicts: list[Verdict] | Unjudged, by: str) -> Judged:
    if isinstance(verdicts, Unjudged):
        return _damaged(run, verdicts)
    kept = _kept(run, verdicts, by)
    return _damaged(run, kept) if isinstance(kept, Unjudged) else _judged(run, verdicts, kept)


def _judged(run: RunDir, verdicts: list[Verdict], kept: Judgement) -> Judged:
    said = sentences(verdicts, kept.harness_error)
    return Judged(run, Outcome(kept.outcome), (said or [""])[0], tuple(hot_keys(verdicts)))


def _lost(run: RunDir) -> str | None:
    """What was wrong with the write-ahead file of a run: what could be read of it was judged, the rest is lost."""
    note = read_parquet_head(run.history_path).notes.get(DAMAGED_KEY)
    return None if note is None else f"a part of the history is lost: {note.decode(errors='replace')}"


def _damaged(run: RunDir, found: Unjudged) -> Judged:
    return Judged(run, Outcome.HARNESS_ERROR, f"this run cannot be judged: {found.why}", damaged=True)


def _without_page(judged: Judged, problem: str | None, warn: Warn) -> Judged:
    """A run whose page could not be written. What it was judged to be stands first where that is as severe."""
    if problem is None:
        return judged
    said = f"the page of {judged.run.path} could not be written: {problem}"
    warn(said)
    outcome = worst([judged.outcome, Outcome.HARNESS_ERROR])
    return msgspec.structs.replace(judged, outcome=outcome, said=judged.said if outcome is judged.outcome else said)


# --- pages ------------------------------------------------------------------------------------------------------------


def _write(task: _Task) -> None:
    path, verdicts = task
    _write_pages(path, [engine.decode(verdict) for verdict in verdicts])


def _write_pages(path: Path, verdicts: Sequence[Verdict]) -> None:
    run = RunDir(path)
    write_pages(stored.loaded(run), run.read_verdicts(), verdicts)


def _write_all(pages: Pages | None, verdicts: dict[Path, list[Verdict]]) -> dict[Path, str]:
    """Write the pages; for each run whose page could not be written, why."""
    problems: dict[Path, str] = {}
    if pages is None:
        for path, found in verdicts.items():
            try:
                _write_pages(path, found)
            except Exception as error:
                problems[path] = f"{type(error).__name__}: {error}"
        return problems
    waiting = iter(verdicts.items())
    while True:
        while pages.free and (each := next(waiting, None)) is not None:
            path, found = each
            pages.give((path, tuple(engine.encode(verdict) for verdict in found)))
        if not pages.tasks:
            return problems
        for report in pages.wait(_TICK_S):
            if report.problem is not None:
                problems[report.task[0]] = report.problem

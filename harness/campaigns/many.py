"""Judging any number of stored runs: batch by batch, so that what this process holds does not grow with the store.

All verdicts of a batch are stored first: the page of a run shows the outcomes of other runs of its test. Then the pages
are written, by as many processes as there are cores, since one alone would take longer than the judging.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from splitbrain.checkers import engine, stored
from splitbrain.checkers.stored import Unjudged, or_unjudged
from splitbrain.checkers.verdict import Outcome, Verdict, worst
from splitbrain.harness.campaigns.judging import keep_verdicts, write_pages
from splitbrain.harness.campaigns.words import hot_keys, sentences
from splitbrain.harness.campaigns.workers import Workers
from splitbrain.results.arrow import DAMAGED_KEY, read_parquet_head
from splitbrain.results.loaded import LoadedRun
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
) -> list[Judged]:
    """Judge runs with the Spark pipeline, in their order.

    Args:
        runs: what to judge.
        spark: the session.
        pages: who writes the pages.
        show: called after each batch with how many runs are judged.
        warn: called with the reason why a run has no verdict or no page.

    A run that cannot be judged, or whose page cannot be written, is a harness error; the other runs still get their
    verdicts and pages.

    Raises:
        EngineError: Spark failed.
    """
    from splitbrain.checkers.spark.pipeline import judge_apart

    judged: list[Judged] = []
    for begin in range(0, len(runs), BATCH_RUNS):
        batch = runs[begin : begin + BATCH_RUNS]
        judged += _keep_all(batch, judge_apart(spark.session, [run.path for run in batch]), pages, "spark", warn)
        show(len(judged))
    return judged


def judge_one_by_one(runs: Sequence[RunDir], show: Callable[[int], None], warn: Warn) -> list[Judged]:
    """Judge runs one by one in this process, as `judge_in_batches` does; `show` is called after each."""
    judged: list[Judged] = []
    for run in runs:
        judged.append(_judge_here(run, warn))
        show(len(judged))
    return judged


def _judge_here(run: RunDir, warn: Warn) -> Judged:
    def judge() -> tuple[LoadedRun, list[Verdict], Judgement]:
        loaded = stored.loaded(run)
        run.read_verdicts()  # one that cannot be read cannot be replaced: what went wrong in the run would be lost
        verdicts = stored.judge(loaded)
        return loaded, verdicts, keep_verdicts(run, loaded.document, verdicts, "inline", _lost(run))

    found = or_unjudged(run.path, judge)
    if isinstance(found, Unjudged):
        warn(_damaged(run, found).said)
        return _damaged(run, found)
    loaded, verdicts, judgement = found
    problem = None
    try:
        write_pages(loaded, judgement, verdicts)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    return _without_page(_judged(run, verdicts, judgement), problem, warn)


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
            warn(each.said)
    sound = {each.run.path for each in kept if not each.damaged}
    verdicts = {path: each for path, each in found.items() if path in sound and not isinstance(each, Unjudged)}
    problems = _write_all(pages, verdicts)
    return [_without_page(each, problems.get(each.run.path), warn) for each in kept]


def _keep(run: RunDir, verdicts: list[Verdict] | Unjudged, by: str) -> Judged:
    if isinstance(verdicts, Unjudged):
        return _damaged(run, verdicts)
    kept = or_unjudged(run.path, lambda: keep_verdicts(run, run.read_test(), verdicts, by, _lost(run)))
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

"""Judging any number of stored runs: batch by batch, so that what this process holds does not grow with the store.

Verdicts of a batch are kept first, all of them: the page of a run tells what the other runs of its test came to. Then
the pages are written, by as many processes as there are cores, since one alone would take longer than the judging.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import click
import msgspec

from checkers import engine
from checkers.spark.runs import Ready, ready
from checkers.verdict import Outcome, Verdict, worst
from harness.cli.judging import keep_verdicts, write_pages
from harness.cli.words import hot_keys, sentences
from harness.cli.workers import Workers
from results.collecting import collect_telemetry
from results.store import RunDir

if TYPE_CHECKING:
    from checkers.spark.session import Spark

BATCH_RUNS: Final = 250
"""Runs in one pass of the pipeline. A pass costs some seconds whatever is in it; the verdicts of a run are tens of
kilobytes, and all those of a batch are held at once."""

ALONE_RUNS: Final = 16
"""The pages of so few runs are written here: a process of its own takes as long to start."""

_PAGES_LIMIT_S: Final = 600.0
_TICK_S: Final = 0.5

_Task: TypeAlias = tuple[Path, tuple[bytes, ...]]
"""A run's folder, and its verdicts as JSON."""

Pages: TypeAlias = Workers[_Task, None]


class Judged(msgspec.Struct, frozen=True):
    """What is remembered of a judged run; the rest is in its folder.

    Attributes:
        run: its folder.
        outcome: what the verdicts add up to.
        said: the first sentence that is worth saying of it, "" if none is.
        hot_keys: how its hot keys were judged.
    """

    run: RunDir
    outcome: Outcome
    said: str
    hot_keys: tuple[str, ...]


@contextlib.contextmanager
def page_writers(runs: int, jobs: int) -> Generator[Pages | None]:
    """Processes that write the pages of so many runs; None where this one does it as fast."""
    if runs < ALONE_RUNS or jobs < 2:
        yield None
        return
    with Workers(_write, jobs, limit_s=_PAGES_LIMIT_S) as workers:
        yield workers


def judge_in_batches(
    runs: Sequence[Ready], spark: Spark, pages: Pages | None, show: Callable[[int], None]
) -> list[Judged]:
    """Judge runs with the Spark pipeline, in their order.

    Args:
        runs: what to judge.
        spark: the session.
        pages: who writes the pages.
        show: called after each batch with how many runs are judged.

    A page that cannot be written is a harness error of its run, and keeps no other from its verdict and its page.

    Raises:
        SplitbrainError: a run cannot be read, or Spark failed.
    """
    from checkers.spark.pipeline import judge_runs

    judged: list[Judged] = []
    for begin in range(0, len(runs), BATCH_RUNS):
        batch = runs[begin : begin + BATCH_RUNS]
        verdicts = judge_runs(spark.session, [_complete(each) for each in batch])
        kept = [_keep(each.run, verdicts[each.run.path]) for each in batch]
        problems = _write_all(pages, verdicts)
        judged += [_without_page(each, problems.get(each.run.path)) for each in kept]
        show(len(judged))
    return judged


def judge_one_by_one(runs: Sequence[Ready], show: Callable[[int], None]) -> list[Judged]:
    """Judge runs one by one in this process, as `judge_in_batches` does; `show` is called after each.

    Raises:
        SplitbrainError: a run cannot be read.
    """
    judged: list[Judged] = []
    for each in runs:
        run = _complete(each).run
        verdicts = engine.judge_each(run.history(), each.specs, run.telemetry())
        kept = _keep(run, verdicts, "inline")
        judged.append(_without_page(kept, _write_all(None, {run.path: verdicts}).get(run.path)))
        show(len(judged))
    return judged


def _complete(each: Ready) -> Ready:
    """A run with its telemetry in one table, and without the write-ahead file of a history that is finished."""
    if each.run.wal_path.exists():
        each.run.finish_history()
    return ready(each.run.path) if collect_telemetry(each.run) else each


def _keep(run: RunDir, verdicts: list[Verdict], by: str = "spark") -> Judged:
    outcome, error = keep_verdicts(run, verdicts, by)
    said = [error] if error else sentences(verdicts)
    return Judged(run, outcome, (said or [""])[0], tuple(hot_keys(verdicts)))


def _without_page(judged: Judged, problem: str | None) -> Judged:
    """A run whose page could not be written. What it was judged to be stands first where that is as severe."""
    if problem is None:
        return judged
    said = f"the page of {judged.run.path} could not be written: {problem}"
    click.echo(said, err=True)
    outcome = worst([judged.outcome, Outcome.HARNESS_ERROR])
    return msgspec.structs.replace(judged, outcome=outcome, said=judged.said if outcome is judged.outcome else said)


# --- pages ------------------------------------------------------------------------------------------------------------


def _write(task: _Task) -> None:
    path, verdicts = task
    write_pages(RunDir(path), [engine.decode(verdict) for verdict in verdicts])


def _write_all(pages: Pages | None, verdicts: dict[Path, list[Verdict]]) -> dict[Path, str]:
    """Write the pages; for each run whose page could not be written, why."""
    problems: dict[Path, str] = {}
    if pages is None:
        for path, found in verdicts.items():
            try:
                write_pages(RunDir(path), found)
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

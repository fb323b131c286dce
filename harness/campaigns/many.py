"""Judging any number of stored runs: some at a time, so that what this process holds does not grow with the store.

A callback gets each run as soon as it is judged. All verdicts are stored first: the page of a run shows the outcomes
of other runs of its test. Then the pages are written that do not show what is known now, with Spark by as many
processes as there are cores, since one alone would take longer than the judging. Runs that pass have no pages unless
they are asked for: nobody looks at most of them, and a page costs as much as judging a small run (`splitbrain report`
and `splitbrain serve` make it when somebody does).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar

import msgspec

from splitbrain.checkers import engine, stored
from splitbrain.checkers.isolation.confined import Done, Say, Stopped
from splitbrain.checkers.isolation.judging import CONCLUDING, Job, Judge, Opened, called, judge, judged
from splitbrain.checkers.isolation.limits import DEFAULT, PER_CORE, Limits
from splitbrain.checkers.stored import Unjudged, or_unjudged
from splitbrain.checkers.verdict import Outcome, Verdict, worst
from splitbrain.harness.campaigns.judging import keep_verdicts, verdicts_of, write_pages
from splitbrain.harness.campaigns.words import hot_keys, sentences
from splitbrain.harness.campaigns.workers import Workers
from splitbrain.results.arrow import DAMAGED_KEY, read_parquet_head
from splitbrain.results.atomic import alone_in
from splitbrain.results.checksums import CHECKSUMS, read_checksums
from splitbrain.results.checksums import FILES as RECORDED
from splitbrain.results.damage import forget_damage, note_damage
from splitbrain.results.errors import EngineError
from splitbrain.results.figures import keep_figures, write_figures
from splitbrain.results.judgement import Judgement
from splitbrain.results.loaded import LoadedRun
from splitbrain.results.madefrom import Basis, MadeFrom, record_of, seal
from splitbrain.results.quantities import counted
from splitbrain.results.report import REPORT, mark_in
from splitbrain.results.report.counterexample import COUNTEREXAMPLE
from splitbrain.results.report.past import Past, Siblings, mark_of
from splitbrain.results.rundir import RunDir

if TYPE_CHECKING:
    from splitbrain.checkers.spark.by_path import Judged as JudgedBySpark
    from splitbrain.checkers.spark.session import Spark

    OfSpark: TypeAlias = JudgedBySpark | Unjudged

T = TypeVar("T")
R = TypeVar("R")

RUNS_PER_CORE: Final = 16
"""Runs that a job of Spark has for each core. The verdicts of a run are tens of kilobytes: those of a job are in memory
at once, and are kept together."""

JOBS_AT_ONCE: Final = 2
"""Jobs that are with Spark: while the last tasks of one end, the next has work for the cores that are free."""

ALONE_RUNS: Final = 16
"""Fewer pages are written by the process that has judged: another one takes as long to start."""

_PAGES_LIMIT_S: Final = 600.0
_TICK_S: Final = 0.5

_Task: TypeAlias = tuple[Path, Past]
"""A run's folder, and what other runs of its test show."""

Warn: TypeAlias = Callable[[str], None]
"""Takes a line on what keeps a run from its verdict or its page."""

OnJudged: TypeAlias = Callable[["Judged"], None]
"""Takes each run as soon as it is judged."""

Paged: TypeAlias = Literal["failing", "all", "none"]
"""Which runs get pages: all but those that pass; all; none."""

_Pages: TypeAlias = Workers[_Task, None]


class Judged(msgspec.Struct, frozen=True):
    """What is remembered of a judged run; the rest is in its folder.

    Attributes:
        run: its folder.
        outcome: what the verdicts add up to.
        said: the first sentence that is worth saying of it, "" if none is.
        hot_keys: how its hot keys were judged.
        damaged: whether no checker could judge it; `said` has the file and the cause. In its folder a note says so
            (`splitbrain.results.damage`) if that is because of the run; all else there is as it was.
        since: when it was judged, if that was before and nothing has changed; None if it was judged now.
        seal: of its verdict (`splitbrain.results.madefrom.seal`).
        problem: why what is made from its verdict, such as its page, could not be written; None if it was.
    """

    run: RunDir
    outcome: Outcome
    said: str
    hot_keys: tuple[str, ...] = ()
    damaged: bool = False
    since: str | None = None
    seal: str = ""
    problem: str | None = None


def judge_in_batches(
    runs: Sequence[RunDir],
    spark: Spark,
    page_jobs: int,
    show: Callable[[int], None],
    warn: Warn,
    unchanged: Sequence[Judged] = (),
    *,
    limits: Limits = PER_CORE,
    on_judged: OnJudged = lambda _: None,
    paged: Paged = "all",
) -> list[Judged]:
    """Judge runs with the Spark pipeline, in their order. The answer begins with those that are unchanged.

    A run that cannot be judged, or whose page cannot be written, is a harness error; the other runs still get their
    verdicts and pages. A run that was removed meanwhile is left out. If Spark fails as a whole (no room for its
    temporary files, no Java any more), a warning says why, and the runs that are left are judged one by one by this
    machine.

    Args:
        runs: what to judge.
        spark: the session.
        page_jobs: how many processes may write pages, once all runs are judged.
        show: called after each job with how many runs are judged.
        warn: called with the reason why a run has no verdict or no page.
        unchanged: runs that need not be judged. Their pages may have to be written, since others are.
        limits: of reading a run and of each of its checkers.
        on_judged: called with each run as soon as it is judged.
        paged: which runs get pages.

    Raises:
        LackingPackagesError: the executors of the cluster lack packages.
    """
    from splitbrain.checkers.spark.jobs import lacks_packages

    done: list[Judged] = []
    handled = 0
    with judge(alone_with(limits)) as by:
        try:
            for batch, (found, before) in in_batches(runs, spark, partial(_judge_batch, spark, limits)):
                for run in batch:
                    kept = _keep_spark(run, found[run.path], limits, paged, warn, before.get(run.path))
                    if not _is_gone(kept):
                        done.append(kept)
                        on_judged(kept)
                handled += len(batch)
                show(handled)
        except EngineError as error:
            if lacks_packages(error):
                raise
            rest = runs[handled:]
            warn(f"{error} The {counted(len(rest), 'run')} that are left are judged one by one, without Spark.")
            more, before = partial(_show_more, show, handled), [*unchanged, *done]
            alone = alone_with(limits)
            return judge_one_by_one(rest, more, warn, before, limits=alone, on_judged=on_judged, paged=paged)
        return with_pages([*unchanged, *done], page_jobs, by, warn, paged)


def _judge_batch(
    spark: Spark, limits: Limits, runs: Sequence[RunDir], given_up: Callable[[], bool]
) -> tuple[dict[Path, OfSpark], dict[Path, Basis]]:
    """What workers found; and what was there before they read it, of runs whose files have no checksums."""
    from splitbrain.checkers.spark.pipeline import judge_apart

    before = {run.path: _basis(run, limits) for run in runs if not os.path.lexists(run.path / CHECKSUMS)}
    found = judge_apart(spark.session, [run.path for run in runs], limits=limits, given_up=given_up)
    return found, {path: basis for path, basis in before.items() if basis is not None}


def in_batches(
    items: Sequence[T], spark: Spark, work: Callable[[Sequence[T], Callable[[], bool]], R]
) -> Iterator[tuple[Sequence[T], R]]:
    """What jobs of Spark answer on some items at a time, in their order; the next ones are with Spark meanwhile.

    Args:
        items: all of them.
        spark: the session.
        work: a job on some of them; the function that it gets says whether the job was ended from here.

    Raises:
        EngineError: Spark failed.
    """
    from splitbrain.checkers.spark.session import made_active

    given_up = threading.Event()
    size = max(1, RUNS_PER_CORE * spark.session.sparkContext.defaultParallelism)
    batches = deque(items[begin : begin + size] for begin in range(0, len(items), size))
    jobs: deque[tuple[Sequence[T], Future[R]]] = deque()
    prepare = partial(made_active, spark.session)
    with ThreadPoolExecutor(JOBS_AT_ONCE, "spark-job", prepare) as pool:
        try:
            while batches or jobs:
                while batches and len(jobs) < JOBS_AT_ONCE:
                    batch = batches.popleft()
                    jobs.append((batch, pool.submit(work, batch, given_up.is_set)))
                batch, job = jobs.popleft()
                yield batch, job.result()
        finally:
            given_up.set()
            if jobs:
                with contextlib.suppress(Exception):  # Java may be gone
                    spark.session.sparkContext.cancelAllJobs()


def _show_more(show: Callable[[int], None], before: int, more: int) -> None:
    show(before + more)


def alone_with(limits: Limits) -> Limits:
    """The limits of a process that judges alone on this machine."""
    return msgspec.structs.replace(limits, at_once=1)


def judge_one_by_one(
    runs: Sequence[RunDir],
    show: Callable[[int], None],
    warn: Warn,
    unchanged: Sequence[Judged] = (),
    *,
    limits: Limits = DEFAULT,
    on_judged: OnJudged = lambda _: None,
    paged: Paged = "all",
) -> list[Judged]:
    """Judge runs one by one in a process that is forked from this one, as `judge_in_batches` does.

    Args:
        runs: what to judge.
        show: called after each with how many runs are judged.
        warn: called with the reason why a run has no verdict or no page.
        unchanged: runs that need not be judged. Their pages may have to be written, since others are.
        limits: of reading a run, of each of its checkers, and of its page.
        on_judged: called with each run as soon as it is judged.
        paged: which runs get pages.
    """
    done: list[Judged] = []
    with judge(limits) as by:
        for number, run in enumerate(runs, 1):
            found = judge_one(by, run, warn, limits, paged=paged)
            if not _is_gone(found):
                done.append(found)
                on_judged(found)
            show(number)
        return with_pages([*unchanged, *done], 1, by, warn, paged)


def judge_one(
    by: Judge,
    run: RunDir,
    warn: Warn,
    limits: Limits = DEFAULT,
    engine_name: str = "inline",
    *,
    paged: Paged = "all",
) -> Judged:
    """Judge a run in a process; its verdict is in its folder then, and its figures if it gets no page.

    Args:
        by: the process.
        run: the run.
        warn: called with the reason why it has no verdict.
        limits: of reading it and of each of its checkers.
        engine_name: who judges, as the verdict says.
        paged: which runs get pages; these are not written here.
    """
    kept: list[Judgement | Unjudged] = []
    job = _Stored(run.path, limits, engine_name, paged)
    found = or_unjudged(run.path, lambda: judged(by, job, found=kept.append))
    if isinstance(found, Stopped):
        found = stored.unread(run.path, found)
    if isinstance(found, Unjudged):
        return _noted(run, found, warn)
    keeping = kept[0] if kept else _kept(run, found.verdicts, engine_name, None)
    if isinstance(keeping, Unjudged):
        return _noted(run, keeping, warn)
    remembered = _judged(run, found.verdicts, keeping)
    return (
        remembered
        if found.problem is None
        else _without_figures(remembered, f"the process that wrote them {found.problem}", warn)
    )


def _noted(run: RunDir, found: Unjudged, warn: Warn) -> Judged:
    """What is remembered of a run that cannot be judged; a note in its folder says so if that is because of the run."""
    remembered = damaged(run, found)
    if _is_gone(remembered):
        warn(run.left_out)
        return remembered
    warn(remembered.said)
    try:
        if found.because != "elsewhere" and run.path.is_dir():
            with alone_in(run.path):  # another process may have judged meanwhile what was restored
                if stored.is_of_others(run, found):
                    note_damage(run.path, found.why)
    except OSError as error:
        said = f"that {run.path} is damaged could not be noted there: {error.strerror}"
        return _with_problem(remembered, said, warn)
    return remembered


def _is_gone(found: Judged) -> bool:
    """Whether a run could not be judged since it is not there any more."""
    return found.damaged and found.run.is_gone


_opened_last: Final[list[LoadedRun]] = []
"""The run that this process has judged last: its page need not read it again."""


@dataclass(frozen=True)
class _Stored(Job):
    """A stored run, which is judged and gets its verdict where it is opened."""

    path: Path
    limits: Limits
    engine_name: str
    paged: Paged

    def open(self, step: Callable[[str], None]) -> Opened | Unjudged:
        _opened_last.clear()
        return or_unjudged(self.path, lambda: self._opened(step))

    def _opened(self, step: Callable[[str], None]) -> Opened:
        run = RunDir(self.path)
        loaded, basis = stored.loaded_on_basis(run, self.limits, step)
        step(f"reading {self.path / 'verdict.json'}")
        run.read_verdicts()  # one that cannot be read cannot be replaced: what went wrong in the run would be lost
        return _OpenedStored(loaded, basis, self)


class _OpenedStored(stored.OpenedRun):
    def __init__(self, loaded: LoadedRun, basis: Basis | None, asked: _Stored) -> None:
        recorded = engine.Recorded(stored.as_judged(loaded), loaded.telemetry)
        super().__init__(loaded.folder.path, recorded, stored.specs_of(loaded))
        self._loaded = loaded
        self._basis = basis
        self._asked = asked

    def conclude(self, verdicts: Sequence[Verdict], say: Say) -> None:
        """Write the verdict; and the figures, where no page is to be written with which they are."""
        kept = _kept(self._loaded.folder, verdicts, self._asked.engine_name, self._basis, self._loaded)
        say.found(kept)
        _opened_last.append(self._loaded)
        if isinstance(kept, Judgement) and not has_page(kept.outcome, self._asked.paged):
            with self._recorded.kept.used():
                write_figures(self._loaded, kept)
            remove_pages(self._loaded.folder.path)


def _kept(
    run: RunDir, verdicts: Sequence[Verdict], by: str, basis: Basis | None, loaded: LoadedRun | None = None
) -> Judgement | Unjudged:
    """The verdicts of a run in its folder; or why they cannot be there."""

    def keep() -> Judgement:
        if loaded is None:
            notes = read_parquet_head(run.history_path).notes
            return keep_verdicts(run, run.read_test(), verdicts, by, _lost(notes), basis)
        notes = loaded.history.schema.metadata or {}
        return keep_verdicts(run, loaded.document, verdicts, by, _lost(notes), basis)

    return or_unjudged(run.path, keep)


def _keep_spark(
    run: RunDir, found: OfSpark, limits: Limits, paged: Paged, warn: Warn, before: Basis | None = None
) -> Judged:
    """Put what a worker found into the folder of its run."""
    if isinstance(found, Unjudged):
        return _noted(run, found, warn)
    basis = _basis_of_large(run, limits, before) if found.beside is None else found.beside.basis
    kept = _kept(run, found.verdicts, "spark", basis)
    if isinstance(kept, Unjudged):
        return _noted(run, kept, warn)
    remembered = _judged(run, found.verdicts, kept)
    if has_page(kept.outcome, paged):
        return remembered
    remove_pages(run.path)
    figures = None if found.beside is None else found.beside.figures
    problem = None if figures is None else or_unjudged(run.path, lambda: keep_figures(run, figures))
    return remembered if problem is None else _without_figures(remembered, problem.why, warn)


def _basis_of_large(run: RunDir, limits: Limits, before: Basis | None) -> Basis | None:
    """What verdicts on a large run were made from; None if its files may have changed since they were read.

    They have not if they are those of its checksums, by which they were read, or those that were there before.
    """

    def same() -> Basis | None:
        found = _basis(run, limits)
        if read_checksums(run.path) is None:
            return found if found == before else None
        run.verify(*RECORDED)
        return found

    found = or_unjudged(run.path, same)
    return None if isinstance(found, Unjudged) else found


def _basis(run: RunDir, limits: Limits) -> Basis | None:
    found = or_unjudged(run.path, lambda: stored.basis_of(run, limits, run.read_test()))
    return None if isinstance(found, Unjudged) else found


def _judged(run: RunDir, verdicts: list[Verdict], kept: Judgement, before: MadeFrom | None = None) -> Judged:
    """What is remembered of a run; `before`: the record of its verdict, if that was not made now."""
    said = (sentences(verdicts, kept.harness_error, kept.signatures) or [""])[0]
    since, sealed = (None, seal(kept)) if before is None else (before.judged, before.seal)
    return Judged(run, Outcome(kept.outcome), said, tuple(hot_keys(verdicts)), since=since, seal=sealed)


def _lost(notes: Mapping[bytes, bytes]) -> str | None:
    """What was wrong with the write-ahead file of a run, by the notes of its history: what could be read of it was
    judged, the rest is lost."""
    note = notes.get(DAMAGED_KEY)
    return None if note is None else f"a part of the history is lost: {note.decode(errors='replace')}"


def damaged(run: RunDir, found: Unjudged) -> Judged:
    """What is remembered of a run that cannot be judged."""
    return Judged(run, Outcome.HARNESS_ERROR, f"this run cannot be judged: {found.why}", damaged=True)


def _without_page(judged: Judged, problem: str | None, warn: Warn) -> Judged:
    """A run whose page could not be written. What it was judged to be stands first where that is as severe."""
    if problem is None:
        return judged
    return _with_problem(judged, f"the page of {judged.run.path} could not be written: {problem}", warn)


def _without_figures(judged: Judged, problem: str, warn: Warn) -> Judged:
    said = f"the figures of {judged.run.path} could not be written: {problem}"
    return _with_problem(judged, said, warn)


def _with_problem(judged: Judged, said: str, warn: Warn) -> Judged:
    warn(said)
    return with_problem(judged, said)


def with_problem(judged: Judged, said: str) -> Judged:
    """A run of which something could not be written. What it was judged to be stands first where that is as severe."""
    outcome = worst([judged.outcome, Outcome.HARNESS_ERROR])
    return msgspec.structs.replace(
        judged, outcome=outcome, said=judged.said if outcome is judged.outcome else said, problem=said
    )


# --- what is unchanged ------------------------------------------------------------------------------------------------


def unchanged(run: RunDir, limits: Limits) -> Judged | None:
    """What a run was judged to be, if it would be judged to be the same now; None if it is to be judged.

    Nothing is raised for what a folder can hold: who judges the run says what is wrong with it.
    """
    found = or_unjudged(run.path, lambda: _unchanged(run, limits))
    return found if isinstance(found, Judged) else None


def _unchanged(run: RunDir, limits: Limits) -> Judged | None:
    found = judged_before(run, lambda made: _as_kept(run, made) and stored.is_basis(run, run.read_test(), made, limits))
    if found is None:
        return None
    try:
        forget_damage(run.path)  # it is again what its verdict was made from
    except OSError as error:
        said = f"that {run.path} is sound again could not be noted there: {error.strerror} ({error.filename})"
        return with_problem(found, said)
    return found


def _as_kept(run: RunDir, made: MadeFrom) -> bool:
    """Whether a verdict was made from files with the digests that were kept when the run was finished.

    Damaged marks forbid no verdict, so they are not compared.

    Raises:
        SplitbrainError: the digests cannot be read.
    """
    kept = read_checksums(run.path) or {}
    names = {run.history_path.name, run.telemetry_path.name, "test.json"} & kept.keys() & made.inputs.keys()
    return all(made.inputs[name] == kept[name] for name in names)


def judged_before(run: RunDir, is_same: Callable[[MadeFrom], bool]) -> Judged | None:
    """What a run was judged to be, if its verdict has a record, of what is still the same.

    Raises:
        SplitbrainError: its files cannot be read.
    """
    judgement = run.read_verdicts()
    made = None if judgement is None else record_of(judgement)
    if judgement is None or made is None or not is_same(made):
        return None
    return _judged(run, verdicts_of(judgement), judgement, made)


# --- pages ------------------------------------------------------------------------------------------------------------


def has_page(outcome: str, paged: Paged) -> bool:
    """Whether a run of this outcome gets a page that nobody has asked for."""
    return paged == "all" or (paged == "failing" and outcome != Outcome.PASS.value)


def remove_pages(run: Path) -> None:
    """Remove the pages of a verdict that is no more."""
    for name in (REPORT, COUNTEREXAMPLE):
        with contextlib.suppress(OSError):  # what takes the place of a page is none of ours
            (run / name).unlink()
    if (run / "plots").is_dir():  # a pipe would be opened, and waited for
        shutil.rmtree(run / "plots", ignore_errors=True)


def with_pages(done: Sequence[Judged], jobs: int, by: Judge, warn: Warn, paged: Paged = "all") -> list[Judged]:
    """Write the pages that do not show what is known of these runs now; what is remembered of the runs then.

    Args:
        done: the runs.
        jobs: how many processes may write them, if there are many to write.
        by: the process that writes few of them, within limits.
        warn: called with the reason why a run has no page.
        paged: which runs get pages.
    """
    able = [each for each in done if not each.damaged and (each.problem is None or _lacks_page(each))]
    tasks = _outdated([each for each in able if has_page(each.outcome.value, paged)])
    with page_writers(len(tasks), jobs) as pages:
        problems = _write_here(by, tasks) if pages is None else _write_there(pages, tasks)
    there = {path: problem for path, problem in problems.items() if os.path.lexists(path)}
    return [_without_page(each, there.get(each.run.path), warn) for each in done]


def _lacks_page(judged: Judged) -> bool:
    """Whether a run that is looked at in any case has no page: one of a violation."""
    return judged.outcome is Outcome.VIOLATION and mark_in(judged.run.path) is None


@contextlib.contextmanager
def page_writers(pages: int, jobs: int) -> Generator[_Pages | None]:
    """Processes that write this number of pages; None if one that is there is as fast."""
    if pages < ALONE_RUNS or jobs < 2:
        yield None
        return
    with Workers(_write, jobs, limit_s=_PAGES_LIMIT_S) as workers:
        yield workers


def _outdated(runs: Sequence[Judged]) -> list[_Task]:
    """The runs whose pages are not those of their verdicts, or do not show what other runs came to."""
    siblings = Siblings(each.run.path for each in runs)
    tasks: list[_Task] = []
    for each in runs:
        path = each.run.path
        past = siblings.past_of(path)
        if mark_of(each.seal, past) != mark_in(path):
            tasks.append((path, past))
    return tasks


def _write(task: _Task) -> None:
    path, past = task
    run = RunDir(path)
    last = next((loaded for loaded in _opened_last if loaded.folder.path == path), None)
    loaded, kept = last or stored.loaded(run), run.read_verdicts()
    write_pages(loaded, kept, [] if kept is None else verdicts_of(kept), past)


def _write_or_say(task: _Task) -> str | None:
    try:
        _write(task)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def _write_here(by: Judge, tasks: Sequence[_Task]) -> dict[Path, str]:
    """Write pages; for each run whose page could not be written, why."""
    problems: dict[Path, str] = {}
    for task in reversed(tasks):  # what was judged last is still open
        ended = called(by, CONCLUDING, _write_or_say, task)
        problem = ended.answer if isinstance(ended, Done) else f"the process that wrote it {ended.why}"
        if problem is not None:
            problems[task[0]] = problem
    return problems


def _write_there(pages: _Pages, tasks: Sequence[_Task]) -> dict[Path, str]:
    """The same, by many processes."""
    problems: dict[Path, str] = {}
    waiting = iter(tasks)
    while True:
        while pages.free and (task := next(waiting, None)) is not None:
            pages.give(task)
        if not pages.tasks:
            return problems
        for report in pages.wait(_TICK_S):
            if report.problem is not None:
                problems[report.task[0]] = report.problem

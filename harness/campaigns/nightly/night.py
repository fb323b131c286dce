"""The procedure of a night: run the cells, look closer at what failed, and conclude."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from splitbrain.checkers import kernels
from splitbrain.checkers.verdict import Outcome
from splitbrain.harness.campaigns.hunting.reach import within_reach
from splitbrain.harness.campaigns.hunting.search import TRIAL_LIMIT_S
from splitbrain.harness.campaigns.interrupts import Interrupts
from splitbrain.harness.campaigns.nightly import classify, closer, disk, output, trends
from splitbrain.harness.campaigns.nightly.budget import Shares, neglected
from splitbrain.harness.campaigns.nightly.cells import Cell, fresh_seeds, impossible
from splitbrain.harness.campaigns.nightly.journal import FILE as JOURNAL
from splitbrain.harness.campaigns.nightly.journal import Journal, begun
from splitbrain.harness.campaigns.nightly.journal import read as read_journal
from splitbrain.harness.campaigns.nightly.matrix import Matrix
from splitbrain.harness.campaigns.nightly.spending import Spending
from splitbrain.harness.campaigns.nightly.tasks import TICK_S, Task, carry_out_really, collect, simulate
from splitbrain.harness.campaigns.warm import warm_up
from splitbrain.harness.campaigns.workers import Workers
from splitbrain.harness.contract.listed import names
from splitbrain.nemesis.catalogue import weighted
from splitbrain.results import nights, runfigures
from splitbrain.results.baseline import Baseline
from splitbrain.results.changes import Trends
from splitbrain.results.errors import HistoryFormatError, SplitbrainError, StoreVersionError, UsageError
from splitbrain.results.nights import Began, CellOfNight, EndedBy, Impossible, Night, NotReached, Ran, Why
from splitbrain.results.origin import git_revision, versions
from splitbrain.results.quantities import counted

ERRORS_MAX: Final = 2
"""A cell whose runs ended in so many errors of the harness, and in nothing else, is given up."""

REAL_LIMIT_S: Final = 4 * 3600.0
STUCK_S: Final = 1800.0
"""Limits of a run on real nodes, which waits most of the time: of CPU time, and of waiting."""

ENDING_S: Final = 120.0
"""How long runs on real nodes may take to end after an interrupt: they heal faults and stop nodes."""

FAILED_MAX: Final = 10
"""The largest number of seeds of a cell that are run first because they failed before."""

NIGHTS_MAX: Final = 60
"""The largest number of nights of a store that are looked at: to resume one, and to compare with."""

Show = Callable[[str], None]


class NightPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a night is asked for.

    Attributes:
        matrix: what is run.
        store: where nights and runs go.
        baseline: what is known.
        jobs: processes that simulate.
        budget_s: how long it may take, in seconds.
        strict: whether known violations count for the exit code.
        resume: whether to continue the latest night of this matrix that did not come to its end, if there is one.
        seed: from which seeds are drawn; None: drawn.
        today: the day for expiry dates; None: of the clock, in UTC.
    """

    matrix: Matrix
    store: Path
    baseline: Baseline
    jobs: int
    budget_s: float
    strict: bool = False
    resume: bool = False
    seed: int | None = None
    today: date | None = None


def run_night(
    plan: NightPlan,
    interrupts: Interrupts | None = None,
    show: Show = lambda _: None,
    warn: Show = lambda _: None,
) -> tuple[Night, Path]:
    """Run a night; its document, and the folder with its files.

    Args:
        plan: what is asked for.
        interrupts: looked at all the time; the night can be resumed after one.
        show: called a few times a second with how it goes, in a line.
        warn: called with a sentence on a night that cannot be continued, since it is damaged.

    Raises:
        UsageError: the night is under way in another process, or the store cannot be written.
    """
    before = _before(plan.store)
    folder = _folder(plan, before, warn)
    try:
        opened = Journal(folder / JOURNAL)
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}. Choose another --store.") from error
    with opened as journal:
        return _Night(plan, folder, journal, before, interrupts or Interrupts(), show).run(), folder


def _latest(store: Path) -> list[Path]:
    """The folders of the nights that are looked at, the oldest first."""
    return nights.folders(store)[-NIGHTS_MAX:]


def _before(store: Path) -> list[Night]:
    """Earlier nights that came to their end, the oldest first; one that cannot be read counts for nothing."""
    found: list[Night] = []
    for folder in _latest(store):
        with contextlib.suppress(SplitbrainError):
            night = nights.read(folder)
            if night is not None:
                found.append(night)
    return found


def _folder(plan: NightPlan, before: Sequence[Night], warn: Show) -> Path:
    """The folder of the night that is resumed, or of a new one."""
    ended = {night.name for night in before if night.ended_by != "interrupt"}
    if plan.resume:
        for folder in reversed(_latest(plan.store)):
            if folder.name not in ended and not _is_newer(folder) and _is_of(folder, plan.matrix, warn):
                return folder
    now = datetime.now(UTC)
    return plan.store / nights.FOLDER / f"{now:%Y%m%dT%H%M%S}.{now.microsecond // 1000:03d}Z"


def _is_newer(folder: Path) -> bool:
    """Whether a newer splitbrain wrote the document of a night: it is not written again in an older format."""
    try:
        nights.read(folder)
    except StoreVersionError:
        return True
    except SplitbrainError:
        return False  # it is damaged: the journal has all that it said
    return False


def _is_of(folder: Path, matrix: Matrix, warn: Show) -> bool:
    """Whether a night was begun with this matrix, and can go on."""
    try:
        first = begun(folder / JOURNAL)
        if first is not None and first.matrix != matrix.digest:
            return False  # whether the rest of it is damaged is for those to say who ask for that matrix
        entries = read_journal(folder / JOURNAL)
        if not entries or not isinstance(entries[0], Began) or entries[0].matrix != matrix.digest:
            return False
        _check_cells(folder / JOURNAL, entries, matrix)
    except OSError:
        return False
    except SplitbrainError as error:
        warn(
            f"the night {folder.name} cannot be continued, and what it found is in no answer: {error}. Mend that file, "
            "or remove its folder."
        )
        return False
    return True


def _check_cells(path: Path, entries: Sequence[nights.Entry], matrix: Matrix) -> None:
    known = {cell.name for cell in matrix.cells}
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, Began) and entry.cell not in known:
            what = f"line {number} is damaged: this splitbrain knows no cell {entry.cell!r} of the matrix"
            raise HistoryFormatError(str(path), what)


class _Night:
    """A night under way."""

    def __init__(
        self,
        plan: NightPlan,
        folder: Path,
        journal: Journal,
        before: Sequence[Night],
        interrupts: Interrupts,
        show: Show,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.plan, self.folder, self.journal = plan, folder, journal
        self.before = [night for night in before if night.name != folder.name]
        self.interrupts, self.show = interrupts, show
        spent_s = max((entry.elapsed_s for entry in journal.entries if not isinstance(entry, Began)), default=0.0)
        self.spending = Spending(plan.budget_s, spent_s, clock)
        self.runs: list[Ran] = journal.of(Ran)
        self._outcomes: dict[str, Counter[str]] = {}
        self._marks: Counter[str] = Counter()
        self._is_full = False
        self._loaded = 0
        self._limits_s: dict[Cell, float] = {}
        self._failed = any(run.outcome == Outcome.VIOLATION.value for run in self.runs)
        self._refused = False
        for run in self.runs:
            self._outcomes.setdefault(run.cell, Counter())[run.outcome] += 1
            self._marks.update(run.marks)
        self.today = plan.today or datetime.now(UTC).date()
        self.began = self._first_entry()
        self.impossible = self._impossible()
        self.cells = {cell.name: cell for cell in plan.matrix.cells if cell.name not in self.impossible}
        self.shares = Shares(self.cells.values(), plan.matrix.weight, self.began.neglected)

    # --- what is known at the beginning -------------------------------------------------------------------------

    def _first_entry(self) -> Began:
        found = self.journal.of(Began)
        if found:
            return found[0]
        drawn = secrets.randbelow(2**31) if self.plan.seed is None else self.plan.seed
        began = Began(
            matrix=self.plan.matrix.digest,
            seed=drawn,
            began=datetime.now(UTC).isoformat(timespec="milliseconds"),
            neglected=neglected(self.before),
            failed=self._failed_before(),
        )
        self.journal.append(began)
        return began

    def _failed_before(self) -> dict[str, tuple[int, ...]]:
        """For each cell the seeds that failed in the latest night in which it was run."""
        if not self.plan.matrix.file.seeds.failed:
            return {}
        found: dict[str, tuple[int, ...]] = {}
        for night in self.before:
            for cell in night.cells:
                if cell.runs:
                    seeds = (each.seed for each in night.violations if each.cell == cell.name)
                    found[cell.name] = tuple(dict.fromkeys(seeds))[:FAILED_MAX]
        return {name: seeds for name, seeds in found.items() if seeds}

    def _impossible(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for cell in self.plan.matrix.cells:
            try:
                why = impossible(self.plan.matrix.options(cell, 0))
            except UsageError as error:
                why = str(error)
            if why is not None:
                found[cell.name] = why
        return found

    def _seeds(self, cell: Cell) -> Iterator[int]:
        """The seeds of a cell that were not run yet, in order."""
        seeds, most = self.plan.matrix.file.seeds, self.plan.matrix.file.runs
        fresh = fresh_seeds(self.began.seed, cell) if seeds.fresh else iter(())
        done = {run.seed for run in self.runs if run.cell == cell.name}
        every = itertools.chain(self.began.failed.get(cell.name, ()), seeds.fixed, fresh)
        unique = _unique(every)
        for seed in unique if most is None else itertools.islice(unique, most):
            if seed not in done:
                yield seed

    def _why(self, cell: Cell, seed: int) -> Why:
        if seed in self.began.failed.get(cell.name, ()):
            return "failed"
        return "fixed" if seed in self.plan.matrix.file.seeds.fixed else "fresh"

    # --- while it goes on ---------------------------------------------------------------------------------------

    @property
    def elapsed_s(self) -> float:
        """Seconds of the night until now, those before it was killed included."""
        return self.spending.elapsed_s

    @property
    def left_s(self) -> float:
        """Seconds that are left for what failed."""
        return self.spending.left_s

    def fits(self, run: Ran, doing: closer.Doing = "replaying") -> bool:
        """Whether replaying a run, or storing it, comes to its end in time."""
        cell = self.cells.get(run.cell)
        if cell is None:  # the night is continued by a version, or on a machine, on which that cell is impossible
            return False
        usual_s = max(self.spending.usual_s(cell), 0.0 if cell.simulated else run.seconds)
        return not self.interrupts.seen and self.spending.fits(
            usual_s if doing == "replaying" else self.spending.keeping_s(cell)
        )

    def entries(self, kind: type[Any]) -> Sequence[Any]:
        """What was done of a kind."""
        return self.journal.of(kind)

    def task(self, cell: Cell, seed: int) -> Task:
        """A run of a cell."""
        options = self.plan.matrix.options(cell, seed)
        return Task(cell=cell.name, why=self._why(cell, seed), options=options, store=str(self.plan.store))

    def repeated(self, run: Ran) -> Task:
        """What repeats a run: its plan on real nodes, its seed in simulation."""
        return msgspec.structs.replace(self.task(self.cells[run.cell], run.seed), replayed=run.run)

    def stopped(self) -> bool:
        """Whether it was interrupted."""
        return self.interrupts.seen

    def stamp(self, entry: nights.Entry) -> None:
        """Write something that was done into the journal."""
        self.journal.append(msgspec.structs.replace(entry, elapsed_s=round(self.elapsed_s, 3)))

    def kept(self, seconds: float) -> None:
        """Note how long storing a violation took."""
        self.spending.kept(seconds)

    def run(self) -> Night:
        """Run it."""
        really = any(not cell.simulated for cell in self.cells.values())
        simulating = any(cell.simulated for cell in self.cells.values())
        jobs = max(1, self.plan.jobs - self.plan.matrix.file.real_jobs) if really else self.plan.jobs
        simulators: Workers[Task, Ran] = Workers(
            simulate, jobs, prepare=warm_up, limit_s=TRIAL_LIMIT_S, clock=kernels.cpu_s
        )
        runners: Workers[Task, Ran] = Workers(
            carry_out_really, self.plan.matrix.file.real_jobs, limit_s=REAL_LIMIT_S, stuck_s=STUCK_S
        )
        with contextlib.ExitStack() as ending:
            for workers, wanted in ((simulators, simulating), (runners, really)):
                ending.callback(workers.stop)
                if wanted:
                    workers.__enter__()
            lanes = {True: simulators, False: runners}
            try:
                ended_by = self.gone_through(lanes)
            finally:  # also if the journal cannot be written: faults must be healed
                self._let_end(runners)
        return self._concluded("interrupt" if self.interrupts.seen else ended_by)

    def gone_through(self, lanes: closer.Lanes) -> EndedBy:
        """Run the cells, and look closer at what failed, as long as there is time; why no further cell was run.

        What is left of the time for what failed goes to the cells again, until something else fails.
        """
        for cell in self.cells.values():
            self.shares.plan(cell, self._seeds(cell))
        for run in self.runs:
            if run.cell in self.cells:
                self.shares.credit(self.cells[run.cell], run.seconds)
                self.spending.known(self.cells[run.cell], run.seconds)
        while True:
            before = len(self.runs)
            ended_by = self._explore(lanes)
            if self.interrupts.seen:
                return ended_by
            closer.look(self, lanes, self._closer())
            self._failed = False  # all of it was looked at
            if ended_by != "budget" or len(self.runs) == before:
                return ended_by

    def _closer(self) -> closer.Wanted:
        file = self.plan.matrix.file
        return closer.Wanted(
            store=self.plan.store,
            replays=file.replays,
            shrinks=file.shrink,
            jobs=self.plan.jobs,
            baseline=self.plan.baseline,
            today=self.today,
        )

    def _explore(self, lanes: Mapping[bool, Workers[Task, Ran]]) -> EndedBy:
        """Run cells until no other run fits or nothing is left; runs in progress then come to their end."""
        exhausted = False
        while True:
            if not self.interrupts.seen:
                left = [self._give(workers, simulated) for simulated, workers in lanes.items()]
                exhausted = not any(left)
            if not any(workers.tasks for workers in lanes.values()):
                return "budget" if not exhausted else "disk" if self._refused else "runs"
            if self.interrupts.seen:
                return "interrupt"
            for run in collect(lanes, TICK_S):
                self._note(run)
            self.show(self._line("running"))

    def _give(self, workers: Workers[Task, Ran], simulated: bool) -> bool:
        """Give each free worker a task; whether there is anything left to do."""
        while workers.free:
            if self._is_full and not simulated:
                self._refused = True
                return bool(workers.tasks)
            found = self.shares.next(simulated=simulated, fits=self._fits)
            if found is None:
                return bool(workers.tasks) or self.shares.waiting(simulated=simulated)
            cell, seed = found
            if self._given_up(cell):
                self.shares.plan(cell, iter(()))
                self.shares.ended(cell, 0.0)
                continue
            loads = simulated and self._loaded < workers.jobs
            self._loaded += int(simulated)
            self.spending.begins(cell, seed, loads=loads)
            workers.give(self.task(cell, seed))
        return True

    def _fits(self, cell: Cell) -> bool:
        """Whether another run of a cell comes to its end in time."""
        if cell.simulated:
            return self.spending.run_fits(cell, 0.0, failed=self._failed)
        if cell not in self._limits_s:
            self._limits_s[cell] = self.plan.matrix.options(cell, 0).time_limit
        return self.spending.run_fits(cell, self._limits_s[cell], failed=self._failed)

    def _given_up(self, cell: Cell) -> bool:
        """Whether its runs ended in errors only."""
        outcomes = self._outcomes.get(cell.name, Counter[str]())
        return outcomes[Outcome.HARNESS_ERROR.value] == outcomes.total() >= ERRORS_MAX

    def _note(self, run: Ran) -> None:
        new = {
            mark: count
            for mark, count in run.marks.items()
            if mark not in self._marks or count > self._marks[mark] == 0
        }
        self._marks.update(new)
        run = msgspec.structs.replace(run, marks=new)
        self.stamp(run)
        self.runs.append(run)
        self._outcomes.setdefault(run.cell, Counter())[run.outcome] += 1
        self._failed |= run.outcome == Outcome.VIOLATION.value
        self.shares.ended(self.cells[run.cell], run.seconds)
        self.spending.ended(self.cells[run.cell], run.seed, run.seconds)
        if run.run is not None:
            self.is_full()

    def is_full(self) -> bool:
        """Whether the store is larger than it may be, although runs were removed that may go."""
        most = self.plan.matrix.disk_bytes
        self._is_full = disk.bound(self.plan.store, most) > most
        return self._is_full

    def _let_end(self, runners: Workers[Task, Ran]) -> None:
        """Ask runs on real nodes to end, and wait for them: they heal faults and stop nodes."""
        for pid in runners.tasks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        ends_s = time.monotonic() + ENDING_S
        while runners.tasks and time.monotonic() < ends_s:
            runners.wait(TICK_S)
            self.show(self._line("ending"))

    def line(self, what: str) -> None:
        """Show how it goes."""
        self.show(self._line(what))

    def _line(self, what: str) -> str:
        outcomes = sum(self._outcomes.values(), Counter[str]())
        counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
        tried = len(self._outcomes)
        return (
            f"night {self.folder.name}  {what}  {self.elapsed_s:.0f} of {self.plan.budget_s:.0f} s  "
            f"{counted(len(self.runs), 'run')} in {tried} of {counted(len(self.cells), 'cell')}  {counts}"
        ).rstrip()

    # --- the conclusion -------------------------------------------------------------------------------------------

    def _concluded(self, ended_by: EndedBy) -> Night:
        runs = self.runs
        found = classify.violations(
            runs,
            self.journal.of(nights.Kept),
            self.journal.of(nights.Replayed),
            self.journal.of(nights.Shrunk),
            self.plan.baseline,
            self.today,
        )
        outcomes = Counter(run.outcome for run in runs)
        counting = [each for each in found if self.plan.strict or each.classification != "known"]
        outcome = outcome_of(outcomes, violated=bool(counting))
        revision = git_revision()
        night = Night(
            name=self.folder.name,
            matrix=str(self.plan.matrix.path),
            matrix_digest=self.plan.matrix.digest,
            began=self.began.began,
            ended=datetime.now(UTC).isoformat(timespec="milliseconds"),
            ended_by=ended_by,
            budget_s=self.plan.budget_s,
            elapsed_s=round(self.elapsed_s, 3),
            outcome=outcome.value,
            exit_code=outcome.exit_code,
            strict=self.plan.strict,
            outcomes={each.value: outcomes[each.value] for each in Outcome},
            cells=tuple(self._cell(cell) for cell in self.plan.matrix.cells),
            violations=found,
            errors=tuple(
                msgspec.structs.replace(run, marks={}, figures=None)
                for run in runs
                if run.outcome == Outcome.HARNESS_ERROR.value
            ),
            fixed=(),
            expired=classify.expired(self.plan.baseline, self.today),
            not_reached=self._not_reached(),
            stored_bytes=disk.bound(self.plan.store, self.plan.matrix.disk_bytes),
            versions=versions(),
            revision="" if revision is None else str(revision["revision"]),
        )
        gone = classify.fixed(night, self.before, self.plan.baseline, self.plan.matrix.file.fixed_after)
        night = msgspec.structs.replace(night, fixed=gone, trends=self._trends(night))
        output.write(night, runs, self.folder)
        return night

    def _trends(self, night: Night) -> Trends:
        """Write the table of the night's figures, and compare it with those of nights before.

        Raises:
            UsageError: the table cannot be written.
        """
        fixed = frozenset(self.plan.matrix.file.seeds.fixed)
        cells = {cell.name: cell for cell in self.plan.matrix.cells}  # some may have become impossible since they ran
        rows = (trends.row_of(night, run, cells[run.cell], self.plan.store, fixed) for run in self.runs)
        try:
            written = runfigures.write(self.plan.store, night.name, rows)
        except OSError as error:
            raise UsageError(
                f"cannot write the figures of the night to {self.plan.store / runfigures.FOLDER}: {error.strerror}. "
                "Make room, or give the permission; then continue the night with --resume."
            ) from error
        return trends.since(self.before, written)

    def _cell(self, cell: Cell) -> CellOfNight:
        runs = [run for run in self.runs if run.cell == cell.name]
        return CellOfNight(
            name=cell.name,
            **msgspec.structs.asdict(cell),
            outcomes=dict(Counter(run.outcome for run in runs)),
            seconds=round(sum(run.seconds for run in runs), 3),
            weight=self.plan.matrix.weight(cell),
        )

    def _not_reached(self) -> NotReached:
        runs, ran = self.runs, {run.cell for run in self.runs}
        listed = [name for cell in self.cells.values() for name in names("--nemesis", cell.nemesis)]
        nemeses = list(dict.fromkeys(weighted(name)[0] for name in listed))
        return NotReached(
            marks=tuple(within_reach(sorted(mark for mark, count in self._marks.items() if not count), nemeses)),
            cells=tuple(name for name in self.cells if name not in ran),
            impossible=tuple(Impossible(name, why) for name, why in self.impossible.items()),
            reasons=dict(Counter(run.reason for run in runs if run.reason).most_common()),
        )


def outcome_of(outcomes: Mapping[str, int], *, violated: bool) -> Outcome:
    """What a night adds up to: as a hunt, it is inconclusive only if no run proved anything.

    Args:
        outcomes: of its runs.
        violated: whether there is a violation that counts.
    """
    if violated:
        return Outcome.VIOLATION
    if outcomes.get(Outcome.HARNESS_ERROR.value):
        return Outcome.HARNESS_ERROR
    proved = outcomes.get(Outcome.PASS.value, 0) + outcomes.get(Outcome.VIOLATION.value, 0)
    return Outcome.PASS if proved else Outcome.INCONCLUSIVE


def _unique(seeds: Iterator[int]) -> Iterator[int]:
    seen: set[int] = set()
    for seed in seeds:
        if seed not in seen:
            seen.add(seed)
            yield seed

"""Runs travel to the workers as paths: each worker opens its runs one by one, and judges them as this process would.

A row on its way from Spark's reader to Python costs more than a checker spends on it, and one damaged page would end
the job that reads a thousand files. So a worker gets the numbers of some runs, has their files read and judged by a
process of its own (`splitbrain.checkers.isolation`), and answers with rows of three kinds: verdicts on a run; why a run
cannot be judged; or that a run is too large for one worker, whose files are sound. Only those of the last kind go
through Spark's own tables (`splitbrain.checkers.spark.pipeline`), and only if a checker takes keys one by one: else the
run is one group, and one worker's, there too. The graph of very many transactions is taken apart besides
(`splitbrain.checkers.spark.by_keys`), and a worker then judges what else there is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import msgspec
import pyarrow as pa

from splitbrain.checkers import engine, stored
from splitbrain.checkers.isolation.confined import Done, Say, Stopped
from splitbrain.checkers.isolation.judging import Job, Judge, Opened, called, judged, lasting
from splitbrain.checkers.isolation.judging import Judged as OfJob
from splitbrain.checkers.isolation.limits import PER_CORE, Limits
from splitbrain.checkers.registry import checker
from splitbrain.checkers.spark.by_keys import by_keys, can_be_taken_apart
from splitbrain.checkers.spark.hot_keys import Sizes
from splitbrain.checkers.spark.jobs import collect, lacks_packages
from splitbrain.checkers.spark.runs import BY_KEY, wants
from splitbrain.checkers.stored import OpenedRun, Ready, Unjudged, or_unjudged
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.arrow import HISTORY_SCHEMA, PLAIN_MOPS, TELEMETRY_SCHEMA, read_parquet_head
from splitbrain.results.errors import EngineError, SplitbrainError, UsageError
from splitbrain.results.figures import Figures, computed_figures
from splitbrain.results.judgement import Judgement, plain_verdict
from splitbrain.results.loaded import LoadedRun
from splitbrain.results.madefrom import Basis
from splitbrain.results.rundir import RunDir
from splitbrain.results.soundness import check_history_file, check_telemetry_file, refuse_strangers
from splitbrain.results.summarized import SummarizedHistory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

_ROWS: Final = "place int, position int, text string, rows bigint, telemetry bigint"
"""What workers answer; `place` is the run's among those given. `position` is a checker's, and `text` its verdict as
JSON; or one of the two below."""

_SCHEMA: Final = pa.schema(
    {
        "place": pa.int32(),
        "position": pa.int32(),
        "text": pa.string(),
        "rows": pa.int64(),
        "telemetry": pa.int64(),
    }
)

_UNJUDGED: Final = -1
"""`text` says why no checker could judge the run."""
_LARGE: Final = -2
"""The run is sound: its numbers of `rows` of history and of `telemetry`; `text` is `Large` as JSON."""
_BESIDE: Final = -3
"""`text` is the `Beside` of a judged run, as JSON."""

NONE: Final = CheckerSpec("")
"""Stands where a checker need not judge, since its verdict is known. No checker has this name, so it wants no rows."""

_TASKS_PER_CORE: Final = 4

_Row: TypeAlias = tuple[int, int, str | None, int | None, int | None]


class Large(msgspec.Struct, frozen=True):
    """A sound run that is too large to be judged by one worker.

    Attributes:
        rows: of its history.
        telemetry: its rows of telemetry.
        broken: the verdicts, as JSON, of checkers that could not even be loaded, by position.
        by_keys: positions of the checkers whose graph is taken apart.
        from_rows: the size from which that is done.
        grouped: whether a checker takes keys one by one.
    """

    rows: int
    telemetry: int
    broken: dict[int, bytes] = {}
    by_keys: tuple[int, ...] = ()
    from_rows: int = 0
    grouped: bool = True


class Beside(msgspec.Struct, frozen=True):
    """What a worker says of a run beside its verdicts, since it has the run open.

    Attributes:
        basis: what the verdicts were made from; None if a file cannot be read.
        figures: of the run; None if they cannot be computed.
    """

    basis: Basis | None = None
    figures: Figures | None = None


class Judged(msgspec.Struct, frozen=True):
    """A run that was judged.

    Attributes:
        verdicts: one per checker.
        beside: what the worker found beside them; None of a run that was not judged by one worker alone.
    """

    verdicts: list[Verdict]
    beside: Beside | None = None


Found: TypeAlias = Judged | Unjudged | Large


def judge_by_path(
    spark: SparkSession,
    paths: Sequence[Path],
    sizes: Sizes,
    limits: Limits,
    here: Judge,
    given_up: Callable[[], bool] = lambda: False,
) -> list[Found]:
    """What became of each run: one verdict per checker, why there is none, or that it is too large.

    A worker that dies takes its job along, so the runs of a failed job are judged again in halves: what cannot be
    judged alone is to blame.

    Args:
        spark: the session.
        paths: the folders of the runs.
        sizes: up to which size a run is judged by one worker.
        limits: of each step.
        here: finishes runs in a process on this machine: workers need not write where the store is.
        given_up: whether a job that failed was ended from here, and is not tried again.

    Raises:
        EngineError: Spark itself failed.
    """
    unfinished = [finished(here, path) for path in paths]
    able = [path for path, problem in zip(paths, unfinished, strict=True) if problem is None]
    found = iter(apart(spark, able, lambda some: _judge(spark, some, sizes, limits), not_judged, given_up))
    return [next(found) if problem is None else problem for problem in unfinished]


def judge_others(
    spark: SparkSession, runs: Sequence[Ready], limits: Limits, given_up: Callable[[], bool] = lambda: False
) -> list[Found]:
    """The verdicts on large runs of which some are known: a worker opens each run as a whole for the other checkers.

    A run whose verdicts are all known goes to no worker. The checkers of a run that no worker can open break, and the
    known verdicts stay.

    Args:
        spark: the session.
        runs: the runs; `broken` has the known verdicts.
        limits: of each step.
        given_up: whether a job that failed was ended from here, and is not tried again.

    Raises:
        EngineError: Spark itself failed.
    """
    paths = [each.run.path for each in runs if len(each.broken) < len(each.specs)]
    settled = {str(each.run.path.absolute()): tuple(each.broken) for each in runs}
    judged = apart(spark, paths, lambda some: _judge(spark, some, None, limits, settled), not_judged, given_up)
    found = dict(zip(paths, judged, strict=True))
    return [_with_known(each, found.get(each.run.path)) for each in runs]


def _with_known(each: Ready, found: Found | None) -> Judged:
    """All verdicts on a run, of which a worker has found the others; None if there are no others."""
    others = dict(enumerate(found.verdicts)) if isinstance(found, Judged) else {}
    if isinstance(found, Unjudged):
        error = EngineError(found.why)
        others = {place: engine.broken(spec.name, error, "opening the run") for place, spec in enumerate(each.specs)}
    known = {place: engine.decode(verdict) for place, verdict in each.broken.items()}
    return Judged([verdict for _, verdict in sorted((others | known).items())])


def finished(here: Judge, path: Path) -> Unjudged | None:
    """Finish a run, where that is still to be done; or why it cannot be."""
    ended = or_unjudged(path, lambda: called(here, f"finishing {path}", _finish, path))
    return (
        stored.unread(path, ended) if isinstance(ended, Stopped) else ended.answer if isinstance(ended, Done) else ended
    )


def _finish(path: Path) -> Unjudged | None:
    return or_unjudged(path, partial(stored.finish, path))


def apart(
    spark: SparkSession,
    items: Sequence[T],
    judge: Callable[[Sequence[T]], list[R]],
    failed: Callable[[T, EngineError], R],
    given_up: Callable[[], bool] = lambda: False,
) -> list[R]:
    """What `judge` answers on runs; a run with which it fails fails alone, and `failed` says what that comes to.

    Raises:
        EngineError: Spark itself failed.
    """
    if not items:
        return []
    try:
        return judge(items)
    except EngineError as error:
        if given_up() or lacks_packages(error) or not _works(spark):
            raise
        if len(items) == 1:
            return [failed(items[0], error)]
    half = len(items) // 2
    parts = (items[:half], items[half:])
    return [found for part in parts for found in apart(spark, part, judge, failed, given_up)]


def not_judged(path: Path, error: EngineError) -> Found:
    """A run that ended the job that judged it."""
    return Unjudged(f"{path}: {error}", "unknown")


def _works(spark: SparkSession) -> bool:
    try:
        return spark.range(1).count() == 1
    except Exception:  # a session that is gone fails in many ways
        return False


_Settled: TypeAlias = Mapping[str, tuple[int, ...]]
"""Of each folder the positions of checkers that do not judge."""


def _judge(
    spark: SparkSession, paths: Sequence[Path], sizes: Sizes | None, limits: Limits, settled: _Settled | None = None
) -> list[Found]:
    tasks = tasks_of(spark, len(paths))
    dealt = dealt_by_size([_bytes(path) for path in paths], tasks)
    answer = partial(_answer, [str(paths[place].absolute()) for place in dealt], sizes, limits, settled or {})
    rows: list[Any] = collect(spark.range(0, len(paths), 1, tasks).mapInArrow(answer, _ROWS), len(paths))
    verdicts: list[list[Verdict]] = [[] for _ in paths]
    found: list[Found] = [Judged(each) for each in verdicts]
    for row in sorted(rows, key=lambda row: row["position"]):
        place = dealt[int(row["place"])]
        if row["position"] == _UNJUDGED:
            found[place] = msgspec.json.decode(row["text"], type=Unjudged)
        elif row["position"] == _LARGE:
            found[place] = msgspec.json.decode(row["text"], type=Large)
        elif row["position"] == _BESIDE:
            found[place] = Judged(verdicts[place], msgspec.json.decode(row["text"], type=Beside))
        else:
            verdicts[place].append(engine.decode(row["text"]))
    return found


def dealt_by_size(sizes: Sequence[int], tasks: int) -> list[int]:
    """The places of runs in an order in which neighbours, who share a task, are as large together as others are."""
    by_size = sorted(range(len(sizes)), key=lambda place: sizes[place], reverse=True)
    return [place for task in range(tasks) for place in by_size[task::tasks]]


def tasks_of(spark: SparkSession, runs: int) -> int:
    """How many tasks this number of runs is worth, each of which is opened by a worker."""
    return min(runs, spark.sparkContext.defaultParallelism * _TASKS_PER_CORE)


def _bytes(path: Path) -> int:
    """How large the history of a run is, as far as that can be seen."""
    run = RunDir(path)
    for file in (run.history_path, run.wal_path):
        try:
            return file.stat().st_size
        except OSError:
            continue
    return 0


# --- on the workers -------------------------------------------------------------------------------------------------


def _answer(
    paths: list[str], sizes: Sizes | None, limits: Limits, settled: _Settled, batches: Iterator[Any]
) -> Iterator[Any]:
    """Batches of `_ROWS` on the runs whose numbers arrive."""
    for batch in batches:
        places: list[int] = batch.column(0).to_pylist()
        for place in places:
            path, by = Path(paths[place]), lasting(limits)
            if sizes is None:
                found = or_unjudged(path, partial(_whole, by, path, limits, settled.get(paths[place], ())))
            else:
                found = or_unjudged(path, partial(look, by, path, sizes, limits))
            rows = _rows(place, found)
            columns = [list(column) for column in zip(*rows, strict=True)]
            if rows:
                yield from pa.table(dict(zip(_SCHEMA.names, columns, strict=True)), _SCHEMA).to_batches()


def _whole(by: Judge, path: Path, limits: Limits, settled: tuple[int, ...]) -> Found:
    """The verdicts on a run of any size. Those at settled positions, where `NONE` stands, mean nothing."""
    return _in_order(path, judged(by, _Run(path, None, limits, settled)))


def look(by: Judge, path: Path, sizes: Sizes, limits: Limits = PER_CORE) -> Found:
    """What became of a run, which this process judges if it is no larger than that."""
    found = _in_order(path, judged(by, _Run(path, sizes, limits)))
    if found is not _TOO_LARGE:
        return found
    survey = judged(by, _Survey(path, sizes.graph_rows_for(limits)))
    if not isinstance(survey, OfJob):
        return _in_order(path, survey)
    if survey.problem is not None:
        return Unjudged(f"{path}: the process that was reading its files {survey.problem}", "unknown")
    if survey.concluded is None:  # one group, and so one worker's, in any case
        return _in_order(path, judged(by, _Run(path, None, limits)))
    if isinstance(survey.concluded, Unjudged):
        return survey.concluded
    broken = {place: engine.encode(each) for place, each in enumerate(survey.verdicts) if each.valid != "true"}
    return msgspec.structs.replace(survey.concluded, broken=broken)


_TOO_LARGE: Final = Large(0, 0)


def _in_order(path: Path, found: Any) -> Any:
    """The verdicts of a job; or that it found a run too large; or why there are none."""
    if isinstance(found, OfJob):
        return Judged(found.verdicts, found.concluded or Beside())
    if isinstance(found, Stopped):
        return stored.unread(path, found)
    return _TOO_LARGE if isinstance(found, Large) else found


@dataclass(frozen=True)
class _Run(Job):
    """The judging of a run in one piece, if it is no larger than that."""

    path: Path
    sizes: Sizes | None
    limits: Limits
    settled: tuple[int, ...] = ()

    def open(self, step: Callable[[str], None]) -> OpenedRun | Large | Unjudged:
        return or_unjudged(self.path, partial(self._opened, step))

    def _opened(self, step: Callable[[str], None]) -> OpenedRun | Large:
        each, sizes = stored.ready(self.path, step), self.sizes
        if sizes is None or sizes.is_whole(each.rows, each.telemetry, self.limits):
            if self.settled:
                specs = tuple(NONE if place in self.settled else spec for place, spec in enumerate(each.specs))
                return OpenedRun(self.path, stored.recorded(each, step), specs)
            document = each.run.read_test()
            step(f"reading all files of {self.path}")
            basis = stored.basis_of(each.run, self.limits, document)
            step(f"reading {each.run.history_path}")
            history = stored.by_summary(each.run, each.specs) or each.run.history()
            step(f"reading {each.run.telemetry_path}")
            telemetry = each.run.telemetry()
            refuse_strangers(telemetry, document, str(each.run.telemetry_path))
            return _OpenedBeside(each, document, basis, history, telemetry)
        return Large(each.rows, each.telemetry)


class _OpenedBeside(OpenedRun):
    """A run whose process also computes what the verdicts were made from, and the run's figures (`Beside`)."""

    def __init__(
        self,
        each: Ready,
        document: dict[str, Any],
        basis: Basis | None,
        history: pa.Table | SummarizedHistory,
        telemetry: pa.Table,
    ) -> None:
        super().__init__(each.run.path, engine.Recorded(history, telemetry), each.specs)
        self._run = each.run
        self._document = document
        self._basis = basis
        self._history = history
        self._telemetry = telemetry

    def conclude(self, verdicts: Sequence[Verdict], say: Say) -> Beside:
        return Beside(self._basis, self._figures(verdicts))

    def _figures(self, verdicts: Sequence[Verdict]) -> Figures | None:
        """The figures of the run; None where its ops or its marks cannot be counted: no verdict hangs on them."""
        history = self._history
        plain = [plain_verdict(verdict) for verdict in verdicts]
        kept = Judgement(outcome="", engine="spark", harness_error=None, verdicts=plain)
        try:
            run = LoadedRun(
                folder=self._run,
                document=self._document,
                history=(history if isinstance(history, pa.Table) else history.frame).combine_chunks(),
                telemetry=self._telemetry,
                marks=self._run.read_marks(),
            )
            return computed_figures(run, kept)
        except SplitbrainError:
            return None


@dataclass(frozen=True)
class _Survey(Job):
    """What there is to know of a large run before it goes through Spark's tables: which checkers can be loaded, how
    they take it apart, and that its files are sound."""

    path: Path
    graph_rows: int

    def open(self, step: Callable[[str], None]) -> Opened | Unjudged:
        return or_unjudged(self.path, lambda: _Surveyed(stored.ready(self.path, step), self.graph_rows))


class _Surveyed(Opened):
    def __init__(self, each: Ready, graph_rows: int) -> None:
        self._each = each
        self._graph_rows = graph_rows
        self.specs = each.specs

    def answers(self, position: int) -> Iterator[Verdict]:
        """ "true" if the checker can be loaded. An unknown one is named when the run is judged."""
        name = self.specs[position].name
        with contextlib.suppress(UsageError):
            checker(name)
        yield Verdict(checker=name, valid="true")

    def conclude(self, verdicts: Sequence[Verdict], say: Say) -> Large | Unjudged | None:
        return or_unjudged(self._each.run.path, lambda: self._large(verdicts, say.step))

    def _large(self, verdicts: Sequence[Verdict], step: Callable[[str], None]) -> Large | None:
        """The run, if it is worth taking apart: a run that no checker takes apart is one group, as transactions are."""
        each = self._each
        path = each.run.history_path
        sound = {place: spec for place, spec in enumerate(each.specs) if verdicts[place].valid == "true"}
        grouped = any(wants(spec, BY_KEY) for spec in sound.values())
        places = [place for place, spec in sound.items() if each.rows >= self._graph_rows and by_keys(spec)]
        if not (grouped or places) or not _as_spark_reads_it(each):
            return None
        check_history_file(path)
        each.run.verify(path.name, each.run.telemetry_path.name)
        if places and not can_be_taken_apart(path):
            places = []
        if not (grouped or places):
            return None
        if each.telemetry:
            check_telemetry_file(each.run.telemetry_path, each.run.read_test())
        return Large(each.rows, each.telemetry, by_keys=tuple(places), from_rows=self._graph_rows, grouped=grouped)


def _as_spark_reads_it(each: Ready) -> bool:
    """Whether the files have the types that Spark's reader is asked for: it converts none, as opening a run does.

    In micro-operations of format 1 it takes the missing summaries for null: only who reads files by summary needs them.
    """
    files: list[tuple[Path, Any]] = [(each.run.history_path, HISTORY_SCHEMA)]
    files += [(each.run.telemetry_path, TELEMETRY_SCHEMA)] if each.telemetry else []
    for path, schema in files:
        stored_as: Any = read_parquet_head(path).schema
        for name in set(schema.names) & set(stored_as.names):
            kind = stored_as.field(name).type
            if kind not in (schema.field(name).type, PLAIN_MOPS if name == "mops" else None):
                return False
    return True


def _rows(place: int, found: Found) -> list[_Row]:
    if isinstance(found, Unjudged):
        why = found.why.encode(errors="backslashreplace").decode()
        text = msgspec.json.encode(msgspec.structs.replace(found, why=why)).decode()
        return [(place, _UNJUDGED, text, None, None)]
    if isinstance(found, Large):
        return [(place, _LARGE, msgspec.json.encode(found).decode(), found.rows, found.telemetry)]
    rows: list[_Row] = [
        (place, position, engine.encode(verdict).decode(), None, None)
        for position, verdict in enumerate(found.verdicts)
    ]
    beside = msgspec.json.encode(found.beside or Beside()).decode()
    return [*rows, (place, _BESIDE, beside, None, None)]

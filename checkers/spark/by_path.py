"""Runs travel to the workers as paths: each worker opens its runs one by one, and judges them as this process would.

A row on its way from Spark's reader to Python costs more than a checker spends on it, and one damaged page would end
the job that reads a thousand files. So a worker gets the numbers of some runs, reads their files itself, and answers
with rows of three kinds: verdicts on a run; why a run cannot be judged; or that a run is too large for one worker,
whose files are sound. Only those of the last kind go through Spark's own tables (`splitbrain.checkers.spark.pipeline`),
and only if a checker takes keys one by one: else the run is one group, and one worker's, there too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import pyarrow as pa

from splitbrain.checkers import engine, stored
from splitbrain.checkers.spark.hot_keys import Sizes
from splitbrain.checkers.spark.jobs import collect
from splitbrain.checkers.spark.runs import BY_KEY, wants
from splitbrain.checkers.stored import Ready, Unjudged, or_unjudged
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.arrow import HISTORY_SCHEMA, PLAIN_MOPS, TELEMETRY_SCHEMA, read_parquet_head
from splitbrain.results.errors import EngineError
from splitbrain.results.soundness import check_history_file, check_telemetry_file
from splitbrain.results.store import RunDir

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
"""The run is sound: its numbers of `rows` of history and of `telemetry`."""

_TASKS_PER_CORE: Final = 4

_Row: TypeAlias = tuple[int, int, str | None, int | None, int | None]


class Large(msgspec.Struct, frozen=True):
    """A sound run that is too large to be judged by one worker: its rows of history and of telemetry."""

    rows: int
    telemetry: int


Found: TypeAlias = list[Verdict] | Unjudged | Large


def judge_by_path(spark: SparkSession, paths: Sequence[Path], sizes: Sizes) -> list[Found]:
    """What became of each run: one verdict per checker, why there is none, or that it is too large.

    A worker that dies takes its job along, so the runs of a failed job are judged again in halves: what cannot be
    judged alone is to blame.

    Raises:
        EngineError: Spark itself failed.
    """
    unfinished = [or_unjudged(path, partial(stored.finish, path)) for path in paths]  # workers need not write there
    able = [path for path, problem in zip(paths, unfinished, strict=True) if problem is None]
    found = iter(apart(spark, able, lambda some: _judge(spark, some, sizes)))
    return [next(found) if problem is None else problem for problem in unfinished]


def apart(spark: SparkSession, paths: Sequence[Path], judge: Callable[[Sequence[Path]], list[Found]]) -> list[Found]:
    """What `judge` answers on runs; a run with which it fails fails alone.

    Raises:
        EngineError: Spark itself failed.
    """
    if not paths:
        return []
    try:
        return judge(paths)
    except EngineError as error:
        if not _works(spark):
            raise
        if len(paths) == 1:
            return [Unjudged(f"{paths[0]}: {error}")]
    half = len(paths) // 2
    return [*apart(spark, paths[:half], judge), *apart(spark, paths[half:], judge)]


def _works(spark: SparkSession) -> bool:
    try:
        return spark.range(1).count() == 1
    except Exception:  # a session that is gone fails in many ways
        return False


def _judge(spark: SparkSession, paths: Sequence[Path], sizes: Sizes) -> list[Found]:
    tasks = min(len(paths), spark.sparkContext.defaultParallelism * _TASKS_PER_CORE)
    dealt = _dealt(paths, tasks)
    answer = partial(_answer, [str(paths[place].absolute()) for place in dealt], sizes)
    rows: list[Any] = collect(spark.range(0, len(paths), 1, tasks).mapInArrow(answer, _ROWS), len(paths))
    verdicts: list[list[Verdict]] = [[] for _ in paths]
    found: list[Found] = [*verdicts]
    for row in sorted(rows, key=lambda row: row["position"]):
        place = dealt[int(row["place"])]
        if row["position"] == _UNJUDGED:
            found[place] = Unjudged(row["text"])
        elif row["position"] == _LARGE:
            found[place] = Large(row["rows"], row["telemetry"])
        else:
            verdicts[place].append(engine.decode(row["text"]))
    return found


def _dealt(paths: Sequence[Path], tasks: int) -> list[int]:
    """The places of the runs in an order in which neighbours, who share a task, are as large together as others are."""
    by_size = sorted(range(len(paths)), key=lambda place: _bytes(paths[place]), reverse=True)
    return [place for task in range(tasks) for place in by_size[task::tasks]]


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


def _answer(paths: list[str], sizes: Sizes, batches: Iterator[Any]) -> Iterator[Any]:
    """Batches of `_ROWS` on the runs whose numbers arrive."""
    for batch in batches:
        places: list[int] = batch.column(0).to_pylist()
        for place in places:
            path = Path(paths[place])
            rows = _rows(place, or_unjudged(path, partial(_look, path, sizes)))
            columns = [list(column) for column in zip(*rows, strict=True)]
            if rows:
                yield from pa.table(dict(zip(_SCHEMA.names, columns, strict=True)), _SCHEMA).to_batches()


def _look(path: Path, sizes: Sizes) -> Found:
    each = stored.ready(path)
    small = each.rows < sizes.hot_rows and each.rows + each.telemetry <= sizes.run_rows
    # A run that no checker takes apart is one group, and so one worker's, in any case: as transactions are.
    whole = not any(wants(spec, BY_KEY) for spec in each.specs)
    if small or whole or not _as_spark_reads_it(each):
        return stored.judge_ready(each)
    check_history_file(each.run.history_path)
    if each.telemetry:
        check_telemetry_file(each.run.telemetry_path)
    return Large(each.rows, each.telemetry)


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
        return [(place, _UNJUDGED, found.why.encode(errors="backslashreplace").decode(), None, None)]
    if isinstance(found, Large):
        return [(place, _LARGE, None, found.rows, found.telemetry)]
    return [(place, position, engine.encode(verdict).decode(), None, None) for position, verdict in enumerate(found)]

"""Judging any number of stored runs with Spark: one table, grouped by (run, key) or by run, the inline checkers inside.

Every row of a history goes where it is judged: to the group of its run, and, if it is a client's, to the group of its
run and key; each only where some checker of that run wants it. One shuffle and one pass of Python workers does both.
The verdicts on the groups come back as rows and are merged here, by the same code as in `checkers.engine`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import pyarrow as pa

from checkers import engine
from checkers.registry import checker
from checkers.spark.lists import with_null_lists, without_null_lists
from checkers.verdict import CheckerSpec, Verdict
from results.arrow import HISTORY_SCHEMA, conform, read_parquet_head
from results.errors import EngineError, SplitbrainError, UsageError
from results.store import RunDir

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Specs: TypeAlias = tuple[CheckerSpec, ...]

_BY_RUN: Final = "run"
_BY_KEY: Final = "key"
_VERDICTS: Final = "run_id string, position int, verdict string"
"""One row per group and checker; `position` is the checker's place among those of its run, `verdict` is JSON."""

_ROWS_FOR_ONE_TASK: Final = 1_000
_ROWS_PER_TASK: Final = 20_000
_TASKS_PER_CORE: Final = 4


class Ready(msgspec.Struct, frozen=True):
    """A stored run that can be judged: its folder, its checkers, how many ops it has."""

    run: RunDir
    specs: Specs
    rows: int


def ready(path: Path) -> Ready:
    """Make a run ready: a history that is still a write-ahead file is finished first.

    Raises:
        RunNotFoundError: it is no run, or nothing was recorded.
        UsageError: the run is under way.
        StoreVersionError: a newer splitbrain wrote it.
        HistoryFormatError: a file of it is damaged.
    """
    run = RunDir(path)
    specs = engine.specs_of(run.read_test(), str(path))
    if not run.history_path.exists():
        run.finish_history()
    head = read_parquet_head(run.history_path)
    conform(head.schema.empty_table(), str(run.history_path))
    return Ready(run, specs, head.rows)


def sort_out(paths: Iterable[Path]) -> tuple[list[Ready], dict[Path, SplitbrainError]]:
    """The runs that can be judged, and why the others cannot: one damaged run does not keep the rest from a verdict."""
    good: list[Ready] = []
    refused: dict[Path, SplitbrainError] = {}
    for path in paths:
        try:
            good.append(ready(path))
        except SplitbrainError as error:
            refused[path] = error
    return good, refused


def judge_runs(spark: SparkSession, runs: Iterable[Path | Ready]) -> dict[Path, list[Verdict]]:
    """One verdict per checker for every run, the same as `checkers.engine.judge` gives.

    The checkers are those that each run's test.json names. One that is unknown here, or whose options are wrong, breaks
    for that run alone (see `checkers.engine`).

    Raises:
        EngineError: Spark failed.
        SplitbrainError: a run cannot be judged (see `ready`; `sort_out` tells those apart beforehand).
    """
    prepared = [run if isinstance(run, Ready) else ready(run) for run in runs]
    judged = _judge_groups(spark, prepared)
    return {
        each.run.path: _merge(each.specs, judged.get(place, {})) if each.rows else _judge_nothing(each.specs)
        for place, each in enumerate(prepared)
    }


# --- on the driver --------------------------------------------------------------------------------------------------


def _judge_groups(spark: SparkSession, runs: Sequence[Ready]) -> dict[int, dict[int, list[Verdict]]]:
    """Verdicts on all groups: by the run's place in `runs`, then by the checker's place in its specs."""
    frames, ids = _frames(spark, runs)
    judged: dict[int, dict[int, list[Verdict]]] = {}
    if not frames:
        return judged
    specs = spark.sparkContext.broadcast({run_id: runs[place].specs for run_id, place in ids.items()})

    def judge(group: tuple[Any, ...], table: pa.Table) -> pa.Table:
        run_id, scope = group[0].as_py(), group[1].as_py()
        return _judge_group(run_id, scope, specs.value[run_id], with_null_lists(table))

    columns = ["run_id", "scope", "group_key"]
    rows = frames[0]
    for frame in frames[1:]:
        rows = rows.unionByName(frame)
    rows = without_null_lists(rows)
    groups = rows.repartition(_partitions(spark, runs), *columns).groupBy(*columns)
    try:
        found = groups.applyInArrow(judge, _VERDICTS).collect()
    except Exception as error:
        raise EngineError(f"Spark could not judge {len(runs)} runs: {_reason(error)}") from error
    finally:
        specs.unpersist()
    for row in found:
        parts = judged.setdefault(ids[row["run_id"]], {}).setdefault(row["position"], [])
        parts.append(engine.decode(row["verdict"]))
    return judged


def _merge(specs: Specs, judged: Mapping[int, list[Verdict]]) -> list[Verdict]:
    verdicts: list[Verdict] = []
    for position, spec in enumerate(specs):
        parts = sorted(judged.get(position, ()), key=engine.by_key_order)
        try:
            verdicts.append(engine.merge(checker(spec.name), spec, parts))
        except UsageError as error:
            verdicts.append(engine.broken(spec.name, error, "being set up"))
    return verdicts


def _judge_nothing(specs: Specs) -> list[Verdict]:
    """Verdicts on a run without a single op: no row, hence no group, speaks for it."""
    nothing = HISTORY_SCHEMA.empty_table()
    by_run = [each for each in enumerate(specs) if _BY_RUN in _scopes((each[1],))]
    return _merge(specs, {place: _verdicts(_judge_group("", _BY_RUN, (spec,), nothing)) for place, spec in by_run})


def _verdicts(rows: pa.Table) -> list[Verdict]:
    return [engine.decode(text) for text in rows.column("verdict").to_pylist() if text is not None]


def _frames(spark: SparkSession, runs: Sequence[Ready]) -> tuple[list[DataFrame], dict[str, int]]:
    """All rows of all runs, each with where it goes (`run_id`, `scope`, `group_key`); and the places of the run ids.

    Runs of one store that want the same scopes are one table: their folders are its partitions `test` and `run`.
    """
    together: dict[tuple[Path | None, tuple[str, ...]], list[int]] = {}
    for place, each in enumerate(runs):
        scopes = _scopes(each.specs)
        if scopes and each.rows:
            together.setdefault((_store_of(each.run.path), scopes), []).append(place)
    frames: list[DataFrame] = []
    ids: dict[str, int] = {}
    for (store, scopes), places in together.items():
        if store is None:
            for place in places:
                run_id = f"{len(frames)}"
                ids[run_id] = place
                frames.append(_routed(_alone(spark, runs[place], run_id), scopes))
            continue
        prefix = f"{len(frames)}/"
        ids |= {f"{prefix}{runs[place].run.test_name}/{runs[place].run.name}": place for place in places}
        frames.append(_routed(_table(spark, store, [runs[place] for place in places], prefix), scopes))
    return frames, ids


def _scopes(specs: Specs) -> tuple[str, ...]:
    """What the checkers of a run want to see: the run as a whole, its keys one by one, or both."""
    wanted: list[str] = []
    for spec in specs:
        try:
            wanted.append(checker(spec.name).partition)
        except UsageError:
            continue  # told by the verdict that _merge gives it
    return tuple(scope for scope in (_BY_RUN, _BY_KEY) if scope in wanted)


def _store_of(run: Path) -> Path | None:
    """The root of the store of a run, None for a run whose folder was taken out of one."""
    names = run.parent.name, run.name
    as_laid_out = names[0].startswith("test=") and names[1].startswith("run=") and "%" not in "".join(names)
    return run.parent.parent if as_laid_out else None


def _table(spark: SparkSession, store: Path, runs: Sequence[Ready], prefix: str) -> DataFrame:
    from pyspark.sql import functions as sf
    from pyspark.sql.types import StringType

    schema = _spark_schema().add("test", StringType()).add("run", StringType())
    paths = [_hadoop_glob(each.run.history_path) for each in runs]
    rows = spark.read.schema(schema).option("basePath", _hadoop_path(store)).parquet(*paths)
    return rows.withColumn("run_id", sf.concat(sf.lit(prefix), "test", sf.lit("/"), "run")).drop("test", "run")


def _alone(spark: SparkSession, each: Ready, run_id: str) -> DataFrame:
    from pyspark.sql import functions as sf

    path = each.run.history_path
    rows = spark.read.schema(_spark_schema()).option("basePath", _hadoop_path(path.parent)).parquet(_hadoop_glob(path))
    return rows.withColumn("run_id", sf.lit(run_id))


def _routed(rows: DataFrame, scopes: tuple[str, ...]) -> DataFrame:
    """Each row once per group that it belongs to. Only clients' ops belong to a group by key."""
    from pyspark.sql import functions as sf

    everybody = sf.array(*[sf.lit(scope) for scope in scopes])
    others = sf.array(*[sf.lit(scope) for scope in scopes if scope != _BY_KEY]).cast("array<string>")
    wanted = sf.when(sf.col("process") >= 0, everybody).otherwise(others)
    routed = rows.withColumn("scope", sf.explode(wanted))
    return routed.withColumn("group_key", sf.when(sf.col("scope") == _BY_KEY, sf.col("key")))


def _partitions(spark: SparkSession, runs: Sequence[Ready]) -> int:
    """How many tasks: some per core, so that a heavy group does not hold up the rest; one for next to nothing."""
    rows = sum(each.rows * len(_scopes(each.specs)) for each in runs)
    if rows < _ROWS_FOR_ONE_TASK:
        return 1
    cores = spark.sparkContext.defaultParallelism
    return max(cores, min(cores * _TASKS_PER_CORE, rows // _ROWS_PER_TASK))


def _spark_schema() -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(HISTORY_SCHEMA)


def _hadoop_path(path: Path) -> str:
    """A local path for Hadoop, which takes it literally (no percent encoding)."""
    return f"file:{path.absolute()}"


def _hadoop_glob(path: Path) -> str:
    """The same where patterns are expected."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", _hadoop_path(path))


def _reason(error: Exception) -> str:
    """The line that says why, from under Spark's layers."""
    try:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    except Exception:  # an error from Java asks the Java process for its text
        return f"{type(error).__name__}, and its Java process is gone"
    telling = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    return (telling or lines or [type(error).__name__])[-1][:300]


# --- on the workers -------------------------------------------------------------------------------------------------


def _judge_group(run_id: str, scope: str, specs: Specs, table: pa.Table) -> pa.Table:
    """Rows of `_VERDICTS`: one for each of the run's checkers that judges this kind of group."""
    history = engine.in_order(conform(table))
    found: dict[str, list[Any]] = {"run_id": [], "position": [], "verdict": []}
    for position, spec in enumerate(specs):
        if scope not in _scopes((spec,)):
            continue
        each = checker(spec.name)
        try:
            verdict = engine.check_partition(each, spec, history)
        except UsageError as error:
            verdict = engine.broken(spec.name, error, "being set up")
        found["run_id"].append(run_id)
        found["position"].append(position)
        found["verdict"].append(engine.encode(verdict).decode())
    return pa.table(found, pa.schema({"run_id": pa.string(), "position": pa.int32(), "verdict": pa.string()}))

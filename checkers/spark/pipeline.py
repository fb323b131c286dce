"""Judging any number of stored runs with Spark: one table, grouped by (run, key) or by run, the inline checkers inside.

Every row of a history goes where it is judged: to the group of its run, and, if it is a client's, to the group of its
run and key; each only where some checker of that run wants it. One shuffle and one pass of Python workers does both.
The nodes' telemetry is a table of its own, grouped by run, in the same job. The verdicts on the groups come back as
rows and are merged here, by the same code as in `checkers.engine`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import pyarrow as pa

from checkers import engine
from checkers.registry import checker
from checkers.spark.lists import with_null_lists, with_null_voters, without_null_lists, without_null_voters
from checkers.verdict import CheckerSpec, Verdict
from results.arrow import HISTORY_SCHEMA, TELEMETRY_SCHEMA, conform, conform_telemetry, read_parquet_head
from results.errors import EngineError, SplitbrainError, UsageError
from results.store import RunDir

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Specs: TypeAlias = tuple[CheckerSpec, ...]

_BY_RUN: Final = "run"
_BY_KEY: Final = "key"
_OF_TELEMETRY: Final = "telemetry"
_VERDICTS: Final = "run_id string, position int, verdict string"
"""One row per group and checker; `position` is the checker's place among those of its run, `verdict` is JSON."""

_ROW: Final = "row"
"""A column for the way: the place of a row of telemetry in its file, since a shuffle keeps no order."""

_ROWS_FOR_ONE_TASK: Final = 1_000
_ROWS_PER_TASK: Final = 20_000
_TASKS_PER_CORE: Final = 4


class Ready(msgspec.Struct, frozen=True):
    """A stored run that can be judged: its folder, its checkers, how many ops it has, how many rows of telemetry."""

    run: RunDir
    specs: Specs
    rows: int
    telemetry: int = 0


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
    return Ready(run, specs, head.rows, _telemetry_rows(run))


def _telemetry_rows(run: RunDir) -> int:
    if not run.telemetry_path.exists():
        return 0
    head = read_parquet_head(run.telemetry_path)
    conform_telemetry(head.schema.empty_table(), str(run.telemetry_path))
    return head.rows


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
        each.run.path: _merge(each.specs, {**judged.get(place, {}), **_judge_nothing(each)})
        for place, each in enumerate(prepared)
    }


# --- on the driver --------------------------------------------------------------------------------------------------


def _judge_groups(spark: SparkSession, runs: Sequence[Ready]) -> dict[int, dict[int, list[Verdict]]]:
    """Verdicts on all groups: by the run's place in `runs`, then by the checker's place in its specs."""
    histories, telemetry, ids = _frames(spark, runs)
    judged: dict[int, dict[int, list[Verdict]]] = {}
    if not ids:
        return judged
    specs = spark.sparkContext.broadcast({run_id: runs[place].specs for run_id, place in ids.items()})

    def judge_history(group: tuple[Any, ...], table: pa.Table) -> pa.Table:
        run_id, scope = group[0].as_py(), group[1].as_py()
        return _judge_group(run_id, scope, specs.value[run_id], with_null_lists(table))

    def judge_telemetry(group: tuple[Any, ...], table: pa.Table) -> pa.Table:
        run_id = group[0].as_py()
        return _judge_group(run_id, _OF_TELEMETRY, specs.value[run_id], with_null_voters(table))

    verdicts: list[DataFrame] = []
    if histories:
        columns = ["run_id", "scope", "group_key"]
        tasks = _partitions(spark, sum(each.rows * len(_scopes(each.specs)) for each in runs))
        groups = without_null_lists(_union(histories)).repartition(tasks, *columns).groupBy(*columns)
        verdicts.append(groups.applyInArrow(judge_history, _VERDICTS))
    if telemetry:
        tasks = _partitions(spark, sum(each.telemetry for each in runs))
        groups = without_null_voters(_union(telemetry)).repartition(tasks, "run_id").groupBy("run_id")
        verdicts.append(groups.applyInArrow(judge_telemetry, _VERDICTS))
    try:
        found = _union(verdicts).collect()
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


def _judge_nothing(each: Ready) -> dict[int, list[Verdict]]:
    """Verdicts on a run without a single op, or without telemetry: no row, hence no group, speaks for it."""
    without: list[tuple[str, pa.Table]] = []
    if not each.rows:
        without.append((_BY_RUN, HISTORY_SCHEMA.empty_table()))
    if not each.telemetry:
        without.append((_OF_TELEMETRY, TELEMETRY_SCHEMA.empty_table()))
    return {
        position: _verdicts(_judge_group("", scope, (spec,), nothing))
        for scope, nothing in without
        for position, spec in enumerate(each.specs)
        if _wants(spec, scope)
    }


def _verdicts(rows: pa.Table) -> list[Verdict]:
    return [engine.decode(text) for text in rows.column("verdict").to_pylist() if text is not None]


def _frames(spark: SparkSession, runs: Sequence[Ready]) -> tuple[list[DataFrame], list[DataFrame], dict[str, int]]:
    """All rows of all runs, and the places of the run ids in them.

    Rows of histories come with where they go (`run_id`, `scope`, `group_key`), rows of telemetry with `run_id` and
    their place in the run (`row`). Runs of one store that want the same are one table: their folders are its
    partitions `test` and `run`.
    """
    ids: dict[str, int] = {}
    of_histories: dict[tuple[Path | None, tuple[str, ...]], list[int]] = {}
    of_telemetry: dict[Path | None, list[int]] = {}
    for place, each in enumerate(runs):
        store, scopes = _store_of(each.run.path), _scopes(each.specs)
        if scopes and each.rows:
            of_histories.setdefault((store, scopes), []).append(place)
        if each.telemetry and any(_wants(spec, _OF_TELEMETRY) for spec in each.specs):
            of_telemetry.setdefault(store, []).append(place)

    def tables(store: Path | None, places: list[int], kind: _Kind) -> Iterator[DataFrame]:
        for group in [[place] for place in places] if store is None else [places]:
            prefix = f"{len(ids)}"
            chosen = [runs[place].run for place in group]
            if store is not None:
                ids.update(
                    {f"{prefix}/{run.test_name}/{run.name}": place for run, place in zip(chosen, group, strict=True)}
                )
            else:
                ids[prefix] = group[0]
            yield _table(spark, store, [kind.path(run) for run in chosen], prefix, kind.schema)

    histories = [
        _routed(table, scopes)
        for (store, scopes), places in of_histories.items()
        for table in tables(store, places, _HISTORY)
    ]
    telemetry = [
        _numbered(table) for store, places in of_telemetry.items() for table in tables(store, places, _TELEMETRY)
    ]
    return histories, telemetry, ids


class _Kind(msgspec.Struct, frozen=True):
    """A file that every run has: which, and its columns."""

    path: Callable[[RunDir], Path]
    schema: pa.Schema


_HISTORY: Final = _Kind(lambda run: run.history_path, HISTORY_SCHEMA)
_TELEMETRY: Final = _Kind(lambda run: run.telemetry_path, TELEMETRY_SCHEMA)


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other), frames)


def _wants(spec: CheckerSpec, scope: str) -> bool:
    try:
        return checker(spec.name).partition == scope
    except UsageError:
        return False  # told by the verdict that _merge gives it


def _scopes(specs: Specs) -> tuple[str, ...]:
    """What the checkers of a run want to see of its history: all of it, its keys one by one, or both."""
    return tuple(scope for scope in (_BY_RUN, _BY_KEY) if any(_wants(spec, scope) for spec in specs))


def _store_of(run: Path) -> Path | None:
    """The root of the store of a run, None for a run whose folder was taken out of one."""
    names = run.parent.name, run.name
    as_laid_out = names[0].startswith("test=") and names[1].startswith("run=") and "%" not in "".join(names)
    return run.parent.parent if as_laid_out else None


def _table(
    spark: SparkSession, store: Path | None, paths: Sequence[Path], prefix: str, columns: pa.Schema
) -> DataFrame:
    """Files of runs as one table with a column `run_id`: the prefix, and, of a store, the names of test and run."""
    from pyspark.sql import functions as sf
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StringType

    schema = from_arrow_schema(columns)
    if store is not None:
        schema = schema.add("test", StringType()).add("run", StringType())
    base = paths[0].parent if store is None else store
    rows = spark.read.schema(schema).option("basePath", _hadoop_path(base)).parquet(*map(_hadoop_glob, paths))
    if store is None:
        return rows.withColumn("run_id", sf.lit(prefix))
    return rows.withColumn("run_id", sf.concat(sf.lit(f"{prefix}/"), "test", sf.lit("/"), "run")).drop("test", "run")


def _numbered(telemetry: DataFrame) -> DataFrame:
    """Each row with its place in its file: what `run_id` puts together is put in order again by it."""
    from pyspark.sql import functions as sf

    return telemetry.withColumn(_ROW, sf.col("_metadata.row_index"))


def _routed(rows: DataFrame, scopes: tuple[str, ...]) -> DataFrame:
    """Each row once per group that it belongs to. Only clients' ops belong to a group by key."""
    from pyspark.sql import functions as sf

    everybody = sf.array(*[sf.lit(scope) for scope in scopes])
    others = sf.array(*[sf.lit(scope) for scope in scopes if scope != _BY_KEY]).cast("array<string>")
    wanted = sf.when(sf.col("process") >= 0, everybody).otherwise(others)
    routed = rows.withColumn("scope", sf.explode(wanted))
    return routed.withColumn("group_key", sf.when(sf.col("scope") == _BY_KEY, sf.col("key")))


def _partitions(spark: SparkSession, rows: int) -> int:
    """How many tasks: some per core, so that a heavy group does not hold up the rest; one for next to nothing."""
    if rows < _ROWS_FOR_ONE_TASK:
        return 1
    cores = spark.sparkContext.defaultParallelism
    return max(cores, min(cores * _TASKS_PER_CORE, rows // _ROWS_PER_TASK))


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
    if scope == _OF_TELEMETRY:
        part = conform_telemetry(table.sort_by(_ROW) if _ROW in table.column_names else table)
    else:
        part = engine.in_order(conform(table))
    found: dict[str, list[Any]] = {"run_id": [], "position": [], "verdict": []}
    for position, spec in enumerate(specs):
        if not _wants(spec, scope):
            continue
        each = checker(spec.name)
        try:
            if scope == _OF_TELEMETRY:
                verdict = engine.check_telemetry(each, spec, part)
            else:
                verdict = engine.check_partition(each, spec, part)
        except UsageError as error:
            verdict = engine.broken(spec.name, error, "being set up")
        found["run_id"].append(run_id)
        found["position"].append(position)
        found["verdict"].append(engine.encode(verdict).decode())
    return pa.table(found, pa.schema({"run_id": pa.string(), "position": pa.int32(), "verdict": pa.string()}))

"""The files of stored runs as tables of Spark: which run a row belongs to, and which groups it goes to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa

from splitbrain.checkers.spark.runs import BY_KEY, OF_TELEMETRY, WHOLE, scopes, wants
from splitbrain.checkers.stored import Ready
from splitbrain.results.arrow import HISTORY_SCHEMA, TELEMETRY_SCHEMA
from splitbrain.results.rundir import RunDir

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW: Final = "row"
"""A column for the way: the place of a row of telemetry in its file, since a shuffle keeps no order."""


class _Kind(msgspec.Struct, frozen=True):
    """A file that every run has: which, and its columns."""

    path: Callable[[RunDir], Path]
    schema: pa.Schema


_HISTORY: Final = _Kind(lambda run: run.history_path, HISTORY_SCHEMA)
_TELEMETRY: Final = _Kind(lambda run: run.telemetry_path, TELEMETRY_SCHEMA)


@dataclass(frozen=True)
class Frames:
    """All rows of some runs.

    Attributes:
        histories: rows of histories with their `run_id`, each table with the scopes that its runs' checkers want.
        telemetry: rows of telemetry with their `run_id`, and their place in the run (`ROW`).
        ids: by run id, the run's place among those that were given.
    """

    histories: list[tuple[DataFrame, tuple[str, ...]]]
    telemetry: list[DataFrame]
    ids: dict[str, int]


def frames(spark: SparkSession, runs: Sequence[Ready]) -> Frames:
    """The rows of all runs that some checker wants to see.

    Runs of one store that want the same are one table: their folders are its partitions `test` and `run`. A run has the
    same id in each of its tables.
    """
    ids: dict[str, int] = {}
    prefixes: dict[Path | int, str] = {}
    of_histories: dict[tuple[Path | None, tuple[str, ...]], list[int]] = {}
    of_telemetry: dict[Path | None, list[int]] = {}
    for place, each in enumerate(runs):
        store, wanted = _store_of(each.run.path), scopes(each.specs)
        if wanted and each.rows:
            of_histories.setdefault((store, wanted), []).append(place)
        if each.telemetry and any(wants(spec, OF_TELEMETRY) or wants(spec, WHOLE) for spec in each.specs):
            of_telemetry.setdefault(store, []).append(place)

    def tables(store: Path | None, places: list[int], kind: _Kind) -> Iterator[DataFrame]:
        for group in [[place] for place in places] if store is None else [places]:
            prefix = prefixes.setdefault(group[0] if store is None else store, f"{len(prefixes)}")
            chosen = [runs[place].run for place in group]
            if store is not None:
                ids.update(
                    {f"{prefix}/{run.test_name}/{run.name}": place for run, place in zip(chosen, group, strict=True)}
                )
            else:
                ids[prefix] = group[0]
            yield _table(spark, store, [kind.path(run) for run in chosen], prefix, kind.schema)

    histories = [
        (table, wanted) for (store, wanted), places in of_histories.items() for table in tables(store, places, _HISTORY)
    ]
    telemetry = [
        _numbered(table) for store, places in of_telemetry.items() for table in tables(store, places, _TELEMETRY)
    ]
    return Frames(histories, telemetry, ids)


def union(tables: Sequence[DataFrame]) -> DataFrame:
    """All rows of tables with the same columns."""
    return reduce(lambda one, other: one.unionByName(other), tables)


def routed(rows: DataFrame, wanted: tuple[str, ...]) -> DataFrame:
    """Each row once per group that it belongs to (`scope`, `group_key`). Only clients' ops belong to a group by key."""
    from pyspark.sql import functions as sf

    grouped = [scope for scope in wanted if scope != WHOLE]
    everything = sf.array(*[sf.lit(scope) for scope in grouped]).cast("array<string>")
    others = sf.array(*[sf.lit(scope) for scope in grouped if scope != BY_KEY]).cast("array<string>")
    chosen = sf.when(sf.col("process") >= 0, everything).otherwise(others)
    each = rows.withColumn("scope", sf.explode(chosen))
    return each.withColumn("group_key", sf.when(sf.col("scope") == BY_KEY, sf.col("key")))


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
    rows = spark.read.schema(schema).option("basePath", _hadoop_path(base)).parquet(*map(hadoop_glob, paths))
    if store is None:
        return rows.withColumn("run_id", sf.lit(prefix))
    return rows.withColumn("run_id", sf.concat(sf.lit(f"{prefix}/"), "test", sf.lit("/"), "run")).drop("test", "run")


def _numbered(telemetry: DataFrame) -> DataFrame:
    """Each row with its place in its file: what `run_id` puts together is put in order again by it."""
    from pyspark.sql import functions as sf

    return telemetry.withColumn(ROW, sf.col("_metadata.row_index"))


def no_telemetry(spark: SparkSession) -> DataFrame:
    """A table of telemetry without a row."""
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import LongType, StringType

    schema = from_arrow_schema(TELEMETRY_SCHEMA).add("run_id", StringType()).add(ROW, LongType())
    return spark.createDataFrame([], schema)


def _hadoop_path(path: Path) -> str:
    """A local path for Hadoop, which takes it literally (no percent encoding)."""
    return f"file:{path.absolute()}"


def hadoop_glob(path: Path) -> str:
    """The same where patterns are expected."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", _hadoop_path(path))

"""Judging any number of stored runs with Spark: one table, grouped by (run, key) or by run, the inline checkers inside.

Every row of a history goes where it is judged: to the group of its run, and, if it is a client's, to the group of its
run and key; each only where some checker of that run wants it. One shuffle and one pass of Python workers does both.
The verdicts on the groups come back as rows and are merged here, by the same code as in `checkers.engine`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from checkers import engine
from checkers.registry import checker
from checkers.verdict import CheckerSpec, Verdict
from results.arrow import HISTORY_SCHEMA, conform
from results.errors import EngineError, SplitbrainError, UsageError
from results.store import RunDir

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Specs: TypeAlias = tuple[CheckerSpec, ...]
RunId: TypeAlias = int
"""Position of a run among those that are judged together."""

_BY_RUN: Final = "run"
_BY_KEY: Final = "key"
_VERDICTS: Final = "run_id int, position int, key string, valid string, verdict string"
"""One row per group and checker; `position` is the checker's place among those of its run, `verdict` is JSON."""

_ROWS_PER_PARTITION: Final = 20_000
_PARTITIONS_PER_CORE: Final = 4


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
    return Ready(run, specs, run.history_rows())


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
    judged = _judge_groups(spark, prepared) if prepared else {}
    return {each.run.path: _merge(each.specs, judged.get(run_id, {})) for run_id, each in enumerate(prepared)}


# --- on the driver --------------------------------------------------------------------------------------------------


def _judge_groups(spark: SparkSession, runs: Sequence[Ready]) -> dict[RunId, dict[int, list[Verdict]]]:
    """Verdicts on all groups: by run, then by the checker's position."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as sf

    specs = spark.sparkContext.broadcast([each.specs for each in runs])

    def judge(group: tuple[pa.Scalar[Any], ...], table: pa.Table) -> pa.Table:
        run_id, scope, _ = (part.as_py() for part in group)
        return judge_group(run_id, scope, specs.value[run_id], table)

    rows = _routed(_read(spark, runs), runs)
    groups = rows.repartition(_partitions(spark, runs), "run_id", "scope", sf.when(sf.col("scope") == _BY_KEY, sf.col("key")))
    del groups
    return {}


def _merge(specs: Specs, by_position: Mapping[int, list[Verdict]]) -> list[Verdict]:
    ...

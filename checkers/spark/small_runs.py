"""Small runs: each one group, judged as it would be in this process.

A group costs some milliseconds on its way to Python and back, whatever is in it. A short run has a few hundred ops on
dozens of keys, which take less than that to judge: in groups of their own, nearly all the time would go into the ways.
So the history and the telemetry of a run that would not fill a task anyway meet in one group, and all its checkers
judge it there, keys included. Cores are kept busy by there being many runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from checkers import engine
from checkers.spark.frames import ROW, frames, no_telemetry, union
from checkers.spark.jobs import collect, tasks_for
from checkers.spark.lists import with_null_lists, with_null_voters, without_null_lists, without_null_voters
from checkers.spark.runs import WHOLE, Ready, Specs
from checkers.spark.verdict_rows import VERDICTS, verdict_rows
from checkers.verdict import Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ALL: Final = (WHOLE,)


def judge_small(spark: SparkSession, runs: Sequence[Ready]) -> list[list[Verdict]]:
    """One verdict per checker for each of some runs that have ops.

    Raises:
        EngineError: Spark failed.
    """
    stored = frames(spark, runs, lambda specs: _ALL if specs else ())
    verdicts: list[list[Verdict]] = [[] for _ in runs]
    if not stored.ids:
        return verdicts
    specs = spark.sparkContext.broadcast({run_id: runs[place].specs for run_id, place in stored.ids.items()})

    def judge(group: tuple[Any, ...], history: pa.Table, telemetry: pa.Table) -> pa.Table:
        run_id = group[0].as_py()
        return _judge(run_id, specs.value[run_id], with_null_lists(history), with_null_voters(telemetry))

    tasks = tasks_for(spark, sum(each.rows + each.telemetry for each in runs))
    histories = without_null_lists(union([table for table, _ in stored.histories]))
    telemetry = without_null_voters(union(stored.telemetry) if stored.telemetry else no_telemetry(spark))
    ops, told = (table.repartition(tasks, "run_id").groupBy("run_id") for table in (histories, telemetry))
    try:
        found = collect(ops.cogroup(told).applyInArrow(judge, VERDICTS), len(runs))
    finally:
        specs.unpersist()
    for row in sorted(found, key=lambda row: row["position"]):
        verdicts[stored.ids[row["run_id"]]].append(engine.decode(row["verdict"]))
    return verdicts


def _judge(run_id: str, specs: Specs, history: pa.Table, telemetry: pa.Table) -> pa.Table:
    """Rows of `VERDICTS`, one for each checker, on a worker."""
    verdicts = engine.judge_each(engine.in_order(history), specs, telemetry.sort_by(ROW))
    return verdict_rows(run_id, list(enumerate(verdicts)))

"""Hot keys: one key with so many ops that it is worth several tasks, judged in segments.

Three small jobs before the one that judges everything else; none of them where no run is large enough. The first counts
rows by key. The second looks at five columns of each hot key, in one task, and finds where it can be cut. The third
sends those columns to the segments, each a group of its own, and brings back their relations, which are composed here
(`splitbrain.checkers.linearizable.segments`). The driver sees cuts and relations, never ops.

A key that is linearizable is settled by that. One that is not goes to the ordinary group of its key, without the rows
after the segment that is impossible: the checker finds there what it finds in the whole, with the same evidence. A key
that cannot be cut, or whose segments are not decided, goes there whole. A group is judged in the memory of one process.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import pyarrow as pa

from splitbrain.checkers import engine, models
from splitbrain.checkers.isolation import limits as of_steps
from splitbrain.checkers.isolation.confined import Done
from splitbrain.checkers.isolation.judging import called, lasting
from splitbrain.checkers.linearizable import Linearizable
from splitbrain.checkers.linearizable.limits import Limits
from splitbrain.checkers.linearizable.ops import show
from splitbrain.checkers.linearizable.options import read_options
from splitbrain.checkers.linearizable.segments import (
    COLUMNS,
    SEGMENT_ROWS,
    Plan,
    Segment,
    UndecidedError,
    first_impossible,
    plan,
    segment,
)
from splitbrain.checkers.registry import checker
from splitbrain.checkers.spark.frames import frames, union
from splitbrain.checkers.spark.jobs import collect, tasks_for
from splitbrain.checkers.spark.runs import BY_KEY, wants
from splitbrain.checkers.stored import Ready
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.quantities import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BYTES_PER_ROW: Final = 500
"""Memory that judging takes for each row, at most: 0.7 to 0.8 GB for a million of list-append, less for registers."""

Where: TypeAlias = tuple[int, str | None, int]
"""A key that one checker judges: the run's place, the key, the checker's place among those of the run."""

ALGORITHM: Final = "frontier by segments"

_OfRun: TypeAlias = Mapping[int, CheckerSpec]
_PLANNED: Final = "run_id string, key string, position int, outcome binary"
_WORKED_OUT: Final = "run_id string, key string, position int, segment int, task int, outcome binary"


class Sizes(msgspec.Struct, frozen=True):
    """What is worth being taken apart, in rows, two per op.

    A run of up to `run_rows`, telemetry included, is opened by one worker. The rows of a larger one go through Spark,
    and a key of `hot_rows` or more is cut into segments of `segment_rows` or more. A run of transactions of
    `graph_rows` or more goes by key (`splitbrain.checkers.spark.by_keys`).

    The way of a row from Spark to Python costs ten times its search and more (`benchmarks/hot_key.py`), at every size:
    so a run is taken apart that one worker cannot hold. None: as many rows as the memory of a worker's process holds.

    Attributes:
        run_rows, hot_rows, segment_rows, graph_rows: see above.
        bucket_rows: so many rows of a run make one group of keys.
        piece_rows: so many rows of a run make one piece of its graph, if it falls apart there.
        piece_edges: a piece with more dependencies hangs together, and is only trimmed.
        rest_edges: so many dependencies one task may be left with: about 2 GB.
    """

    run_rows: int | None = None
    hot_rows: int | None = None
    segment_rows: int = SEGMENT_ROWS
    graph_rows: int | None = None
    bucket_rows: int = 500_000
    piece_rows: int = 200_000
    piece_edges: int = 5_000_000
    rest_edges: int = 30_000_000

    def is_whole(self, rows: int, telemetry: int, limits: of_steps.Limits) -> bool:
        """Whether one process with these limits judges a run of so many rows of history and of telemetry."""
        return rows < self.hot_rows_for(limits) and rows + telemetry <= _or_memory(self.run_rows, limits)

    def hot_rows_for(self, limits: of_steps.Limits) -> int:
        """From how many rows on a key is cut, where a process has these limits."""
        return _or_memory(self.hot_rows, limits)

    def graph_rows_for(self, limits: of_steps.Limits) -> int:
        """From how many rows on a run of transactions is taken apart, likewise."""
        return _or_memory(self.graph_rows, limits)


def _or_memory(rows: int | None, limits: of_steps.Limits) -> int:
    return limits.memory_bytes // BYTES_PER_ROW if rows is None else rows


@dataclass(frozen=True)
class Split:
    """What became of a hot key.

    Attributes:
        key: the key.
        plan: how it was to be cut.
        segments: what its segments came to, none if it was not split.
        tasks: how many tasks worked on them.
        failing: the number of the segment that is impossible after those before it; None if none is.
        why_not: why it was not split, as the end of a sentence.
    """

    key: str | None
    plan: Plan
    segments: Sequence[Segment] = ()
    tasks: int = 0
    failing: int | None = None
    why_not: str = ""

    @property
    def proven(self) -> bool:
        """Whether the segments show that the key is linearizable."""
        return bool(self.segments) and self.failing is None

    @property
    def until(self) -> int | None:
        """The history's index from which on no row has to be looked at, None if every row may matter."""
        if self.proven:
            return 0
        return None if self.failing is None else [*self.plan.cuts, None][self.failing]

    @property
    def figures(self) -> dict[str, Any]:
        """Its entry in the figures of a verdict, JSON only."""
        name = "The history" if self.key is None else f"Key {show(self.key)}"
        if self.why_not:
            return {"key": self.key, "segments": 1, "tasks": 1, "how": f"{name} was not split: {self.why_not}."}
        count = len(self.segments)
        judged = f"judged by {counted(self.tasks, 'task')}"
        how = f"{name} was split: {counted(self.plan.ops, 'op')} in {counted(count, 'segment')}, {judged}."
        return {"key": self.key, "segments": count, "tasks": self.tasks, "how": how}


def split(
    spark: SparkSession, runs: Sequence[Ready], sizes: Sizes, limits: of_steps.Limits = of_steps.PER_CORE
) -> dict[Where, Split]:
    """Split the hot keys of all runs.

    Args:
        spark: the session.
        runs: whose keys.
        sizes: what is hot.
        limits: of the work on a key and of that on a segment.

    Raises:
        EngineError: Spark failed.
    """
    large = [
        (place, {number: spec for number, spec in enumerate(each.specs) if _splits(spec)})
        for place, each in enumerate(runs)
        if each.rows >= sizes.hot_rows_for(limits)
    ]
    large = [(place, specs) for place, specs in large if specs]
    if not large:
        return {}
    stored = frames(spark, [runs[place] for place, _ in large])
    specs = {run_id: large[number][1] for run_id, number in stored.ids.items()}
    places = {run_id: large[number][0] for run_id, number in stored.ids.items()}
    rows = union([table for table, _ in stored.histories]).select("run_id", "key", *COLUMNS).filter("process >= 0")
    job = _Job(spark, rows, specs, sizes, len(runs), limits)
    found = job.plans(job.hot())
    found = job.segments(found)
    return {(places[run_id], key, position): each for (run_id, key, position), each in found.items()}


def _splits(spec: CheckerSpec) -> bool:
    return wants(spec, BY_KEY) and isinstance(checker(spec.name), Linearizable)


def whole(judged: Sequence[Verdict], splits: Sequence[Split]) -> list[Verdict]:
    """The verdicts on all keys: also those on hot keys that are settled, and of the others figures on all their ops."""
    of_keys = {each.key: each for each in splits if each.segments}
    verdicts = [_verdict(each) for each in splits if each.proven]
    for part in judged:
        found = of_keys.get(part.key)
        if found is not None:
            counted = {"ops": found.plan.ops, "judged": found.plan.judged, "crashed": found.plan.crashed}
            figures = {**part.figures, **counted}
            part = msgspec.structs.replace(part, figures=figures)
        verdicts.append(part)
    return verdicts


def _verdict(found: Split) -> Verdict:
    """The verdict on a key that the segments prove to be linearizable."""
    parts = found.segments
    return Verdict(
        checker=Linearizable.name,
        valid="true",
        key=found.key,
        algorithm=ALGORITHM,
        figures={
            "ops": found.plan.ops,
            "judged": found.plan.judged,
            "crashed": found.plan.crashed,
            "exercised": int(found.plan.exercised),
            "frontier_max": max(part.peak for part in parts),
            "expanded": sum(part.expanded for part in parts),
            "concurrency_max": max(part.concurrency for part in parts),
        },
        seconds=sum(part.seconds for part in parts),
    )


def spec_for(spec: CheckerSpec, found: Split) -> CheckerSpec:
    """The checker for what is left to be judged: its limit was one for each segment."""
    options = dict(spec.options)
    if found.segments:
        limit_s = read_options(options).time_limit_s
        options["time_limit_s"] = limit_s * len(found.segments)
    return CheckerSpec(spec.name, options)


def with_hot_keys(merged: Verdict, splits: Sequence[Split]) -> Verdict:
    """The verdict on a run, with how its hot keys were judged: in the figures, and in the sentence of a pass."""
    if not splits:
        return merged
    hot = [each.figures for each in splits]
    sentence = merged.sentence
    if merged.valid == "true":
        sentence = " ".join([sentence, *[each["how"] for each in hot]])
    return msgspec.structs.replace(merged, sentence=sentence, figures={**merged.figures, "hot_keys": hot})


# --- the jobs ---------------------------------------------------------------------------------------------------------

_Place: TypeAlias = tuple[str, str | None, int]


@dataclass(frozen=True)
class _Hot:
    """A hot key: whose it is, and the indexes of its first and last row."""

    run_id: str
    key: str | None
    first: int
    last: int


class _Job:
    def __init__(
        self,
        spark: SparkSession,
        rows: DataFrame,
        specs: Mapping[str, _OfRun],
        sizes: Sizes,
        runs: int,
        limits: of_steps.Limits,
    ) -> None:
        self._spark = spark
        self._rows = rows
        self._specs = specs
        self._sizes = sizes
        self._runs = runs
        self._limits = limits
        self._bounds: dict[tuple[str, str | None], _Hot] = {}

    def hot(self) -> list[_Hot]:
        """The keys that have many rows."""
        from pyspark.sql import functions as sf

        counted = self._rows.groupBy("run_id", "key").agg(
            sf.count("*").alias("rows"), sf.min("index").alias("first"), sf.max("index").alias("last")
        )
        found = collect(counted.filter(sf.col("rows") >= self._sizes.hot_rows_for(self._limits)), self._runs)
        return [_Hot(row["run_id"], row["key"], row["first"], row["last"]) for row in found]

    def plans(self, hot: Sequence[_Hot]) -> dict[_Place, Split]:
        """Where each can be cut; nothing of a key whose history or model is not as it should be."""
        if not hot:
            return {}
        self._bounds = {(each.run_id, each.key): each for each in hot}
        names = self._spark.createDataFrame([(each.run_id, each.key) for each in hot], "hot_run string, hot_key string")
        specs, rows_per_segment, limits = self._specs, self._sizes.segment_rows, self._limits

        def planned(group: tuple[Any, ...], table: pa.Table) -> pa.Table:
            run_id, key = group[0].as_py(), group[1].as_py()
            ordered = engine.in_order(table)
            rows: list[dict[str, Any]] = []
            for position, spec in specs[run_id].items():
                outcome = _apart(limits, "planning", _plan, ordered, spec, rows_per_segment)
                rows.append({"run_id": run_id, "key": key, "position": position, "outcome": outcome})
            return pa.Table.from_pylist(rows, _arrow(_PLANNED))

        chosen = self._of(names, "hot_run", "hot_key", "left_semi")
        grouped = chosen.repartition(len(hot), "run_id", "key").groupBy("run_id", "key")
        found: dict[_Place, Split] = {}
        for row in collect(grouped.applyInArrow(planned, _PLANNED), self._runs):
            outcome: Plan | None = pickle.loads(row["outcome"])
            if outcome is not None:
                where = (row["run_id"], row["key"], row["position"])
                found[where] = Split(row["key"], outcome, why_not=outcome.why_not)
        return found

    def segments(self, plans: dict[_Place, Split]) -> dict[_Place, Split]:
        """All that can be cut, split."""
        cut = {where: each for where, each in plans.items() if each.plan.cuts}
        if not cut:
            return plans
        ranges = self._spark.createDataFrame(
            [row for where, each in cut.items() for row in self._ranges(where, each.plan)],
            "hot_run string, hot_key string, position int, segment int, first long, end long, bucket long",
        )
        specs, limits = self._specs, self._limits
        vocabularies = {where: each.plan.vocabulary for where, each in cut.items()}
        shared = self._spark.sparkContext.broadcast((specs, vocabularies))

        def worked_out(group: tuple[Any, ...], table: pa.Table) -> pa.Table:
            from pyspark import TaskContext

            context = TaskContext.get()
            run_id, key, position, number = (each.as_py() for each in group)
            of_runs, of_keys = shared.value
            spec = of_runs[run_id][position]
            row = {"run_id": run_id, "key": key, "position": position, "segment": number}
            row["task"] = 0 if context is None else context.partitionId()
            table, vocabulary = engine.in_order(table), of_keys[run_id, key, position]
            row["outcome"] = _apart(limits, "working out a segment", _segment, table, spec, vocabulary)
            return pa.Table.from_pylist([row], _arrow(_WORKED_OUT))

        columns = ("run_id", "key", "position", "segment")
        within = f"index div {self._sizes.segment_rows} = bucket and index >= first and index < end"
        routed = self._of(ranges, "hot_run", "hot_key", "inner", within).select(*columns, *COLUMNS)
        tasks = tasks_for(self._spark, sum(2 * each.plan.ops for each in cut.values()))
        grouped = routed.repartition(tasks, *columns).groupBy(*columns)
        outcomes: dict[_Place, dict[int, Segment | str]] = {where: {} for where in cut}
        workers: dict[_Place, set[int]] = {where: set() for where in cut}
        try:
            for row in collect(grouped.applyInArrow(worked_out, _WORKED_OUT), self._runs):
                where = (row["run_id"], row["key"], row["position"])
                outcomes[where][row["segment"]] = pickle.loads(row["outcome"])
                workers[where].add(row["task"])
        finally:
            shared.unpersist()
        done = {
            where: _composed(each, outcomes[where], len(workers[where]), specs[where[0]][where[2]])
            for where, each in cut.items()
        }
        return {**plans, **done}

    def _of(self, table: DataFrame, run: str, key: str, how: str, condition: str = "true") -> DataFrame:
        """Rows of the keys in a small table, which every task is given."""
        from pyspark.sql import functions as sf

        rows, same_key = self._rows.withColumnRenamed("key", "own_key"), sf.col("own_key").eqNullSafe(sf.col(key))
        joined = rows.join(sf.broadcast(table), (sf.col("run_id") == sf.col(run)) & same_key & sf.expr(condition), how)
        return joined.withColumnRenamed("own_key", "key")

    def _ranges(self, where: _Place, planned: Plan) -> list[tuple[Any, ...]]:
        """The segments by their indexes, once per bucket of indexes that they touch.

        A row then meets the two or three segments of its bucket, not all: a segment has as many rows as a bucket has
        indexes, or more.
        """
        bounds = self._bounds[where[0], where[1]]
        ends = [bounds.first, *planned.cuts, bounds.last + 1]
        width = self._sizes.segment_rows
        return [
            (*where, number, first, end, bucket)
            for number, (first, end) in enumerate(pairwise(ends))
            for bucket in range(first // width, (end - 1) // width + 1)
        ]


def _composed(each: Split, outcomes: Mapping[int, Segment | str], tasks: int, spec: CheckerSpec) -> Split:
    segments: list[Segment] = []
    count = len(each.plan.cuts) + 1
    for number in range(count):
        outcome = outcomes[number]
        if isinstance(outcome, str):
            return replace(each, why_not=f"segment {number + 1} of {count} {outcome}")
        segments.append(outcome)
    initial = models.model(read_options(spec.options).model).init()
    failing = first_impossible([part.relation for part in segments], initial)
    return replace(each, segments=segments, tasks=tasks, failing=failing)


# --- on the workers ---------------------------------------------------------------------------------------------------


def _arrow(schema: str) -> pa.Schema:
    kinds = {"string": pa.string(), "int": pa.int32(), "binary": pa.binary()}
    return pa.schema([(name, kinds[kind]) for name, kind in (each.split() for each in schema.split(", "))])


def _apart(limits: of_steps.Limits, step: str, work: Callable[..., bytes], *args: Any) -> bytes:
    """The pickle that some work gives in a separate process: a model may be a user's own code."""
    ended = called(lasting(limits), step, work, *args)
    if isinstance(ended, Done):
        return ended.answer
    return pickle.dumps(None if work is _plan else ended.why)


def _plan(table: pa.Table, spec: CheckerSpec, segment_rows: int) -> bytes:
    """A pickled plan; None of what cannot be judged: the judging of it says why."""
    try:
        options = read_options(spec.options)
        found = plan(table, models.model(options.model), functions=options.functions, segment_rows=segment_rows)
    except Exception:
        found = None
    return pickle.dumps(found)


def _segment(table: pa.Table, spec: CheckerSpec, vocabulary: list[Any] | None) -> bytes:
    """A pickled segment, or why there is none."""
    found: Segment | str
    try:
        options = read_options(spec.options)
        limits = Limits(time_s=options.time_limit_s, memory_bytes=options.memory_limit_mb << 20)
        found = segment(table, models.model(options.model), vocabulary, limits, options.functions)
    except UndecidedError as error:
        found = str(error)
    except Exception as error:
        found = f"broke ({type(error).__name__})"
    return pickle.dumps(found)

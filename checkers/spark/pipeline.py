"""Judging any number of stored runs with Spark: one table, grouped by (run, key) or by run, the inline checkers inside.

A small run is judged by the worker that opens it (`splitbrain.checkers.spark.by_path`). Of the others, whose files are
known to be sound by then, every row of a history goes where it is judged: to the group of its run, and, if it is a
client's, to the group of its run and key; each only where some checker of that run wants it. One shuffle and one pass
of Python workers does both. The nodes' telemetry is a table of its own, grouped by run, in the same job; where a
checker wants both, the two meet in groups of one run each. The verdicts on the groups come back as rows and are merged
here, by the same code as in `splitbrain.checkers.engine`. A key with very many ops is split before
(`splitbrain.checkers.spark.hot_keys`), and what is left of it to be judged goes the same way as everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import pyarrow as pa

from splitbrain.checkers import engine, left_out
from splitbrain.checkers.isolation.confined import Stopped
from splitbrain.checkers.isolation.judging import Job, Judge, Opened, judge, judged, lasting
from splitbrain.checkers.isolation.judging import Judged as OfJob
from splitbrain.checkers.isolation.limits import PER_CORE, Limits
from splitbrain.checkers.registry import checker
from splitbrain.checkers.spark import hot_keys
from splitbrain.checkers.spark.by_keys import judge_by_keys
from splitbrain.checkers.spark.by_path import NONE, Found, Judged, Large, apart, judge_by_path, judge_others, not_judged
from splitbrain.checkers.spark.frames import ROW, Frames, frames, no_telemetry, routed, union
from splitbrain.checkers.spark.hot_keys import Sizes, Split, Where
from splitbrain.checkers.spark.jobs import as_bytes, collect, tasks_for
from splitbrain.checkers.spark.lists import with_null_lists, with_null_voters, without_null_lists, without_null_voters
from splitbrain.checkers.spark.runs import BY_KEY, OF_TELEMETRY, WHOLE, scopes, wants
from splitbrain.checkers.spark.verdict_rows import VERDICTS, verdict_rows
from splitbrain.checkers.spark.weaker import with_weaker_models
from splitbrain.checkers.stored import Ready, Specs, Unjudged, or_unjudged, specs_for, unread
from splitbrain.checkers.verdict import AnyChecker, CheckerSpec, Verdict
from splitbrain.results.arrow import HISTORY_SCHEMA, conform, conform_telemetry
from splitbrain.results.errors import DamagedRunError, EngineError, UsageError
from splitbrain.results.rundir import RunDir

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_Otherwise: TypeAlias = Mapping[int, CheckerSpec | None]
"""Checkers that judge a hot key with other options, by position; None for one that is settled."""


def judge_runs(
    spark: SparkSession, runs: Iterable[Path], *, sizes: Sizes | None = None, limits: Limits = PER_CORE
) -> dict[Path, list[Verdict]]:
    """One verdict per checker for every run, the same as `splitbrain.checkers.engine.judge` gives.

    The checkers are those that each run's test.json names. One that is unknown here, or whose options are wrong, breaks
    for that run alone (see `splitbrain.checkers.engine`).

    Args:
        spark: the session.
        runs: the folders of the runs.
        sizes: up to which size a run is judged by one worker, and from which size on a key is split.
        limits: of each step of judging.

    Raises:
        EngineError: Spark failed.
        DamagedRunError: a run cannot be judged (`judge_apart` says of each whether it can).
    """
    judged: dict[Path, list[Verdict]] = {}
    for path, found in judge_apart(spark, runs, sizes=sizes, limits=limits).items():
        if isinstance(found, Unjudged):
            raise DamagedRunError(found.why)
        judged[path] = found.verdicts
    return judged


def judge_apart(
    spark: SparkSession,
    runs: Iterable[Path],
    *,
    sizes: Sizes | None = None,
    limits: Limits = PER_CORE,
    given_up: Callable[[], bool] = lambda: False,
) -> dict[Path, Judged | Unjudged]:
    """The same for runs of which some may be damaged: those get no verdict, and keep no other from its own.

    Several threads may do so with one session at once.

    Args:
        spark: the session.
        runs: the folders of the runs.
        sizes, limits: as above.
        given_up: whether a job that failed was ended from here, and is not tried again.

    Raises:
        EngineError: Spark failed.
    """
    paths, sizes = list(runs), sizes or Sizes()
    with judge(limits) as here:
        found = dict(zip(paths, judge_by_path(spark, paths, sizes, limits, here, given_up), strict=True))
        large: dict[Path, Ready] = {}
        for path, each in found.items():
            if isinstance(each, Large):
                ready = or_unjudged(path, partial(_ready, path, each))
                if isinstance(ready, Unjudged):
                    found[path] = ready
                else:
                    large[path] = ready
        settled = _by_keys(spark, large, found, sizes, given_up)
        for path, each in settled.items():
            if isinstance(each, Unjudged):
                found[path] = each
                del large[path]
        large = {path: _settled_by(each, settled.get(path)) for path, each in large.items()}
        alone = {path: each for path, each in large.items() if not _is_grouped(found[path])}
        found.update(zip(alone, judge_others(spark, list(alone.values()), limits, given_up), strict=True))
        large = {path: each for path, each in large.items() if path not in alone}
        task = _Large(spark, sizes, limits, here)
        judged_large = apart(
            spark, list(large), lambda some: task.judge([large[path] for path in some]), not_judged, given_up
        )
    found.update(zip(large, judged_large, strict=True))
    return {path: each for path, each in found.items() if not isinstance(each, Large)}


_Settled: TypeAlias = dict[int, Verdict]
"""Verdicts on a run whose graph was taken apart, by position of the checker."""


def _by_keys(
    spark: SparkSession,
    runs: Mapping[Path, Ready],
    found: Mapping[Path, Found],
    sizes: Sizes,
    given_up: Callable[[], bool],
) -> dict[Path, _Settled | Unjudged]:
    """The verdicts of checkers whose graph of a run is taken apart, on each run that has any; or why there is none."""
    settled: dict[Path, _Settled | Unjudged] = {}
    for path, each in runs.items():
        large = found[path]
        if not isinstance(large, Large) or not large.by_keys:
            continue

        def judge_one(paths: Sequence[Path], each: Ready = each, large: Large = large) -> list[Found]:
            verdicts = [judge_by_keys(spark, each, position, sizes, large.from_rows) for position in large.by_keys]
            return [Judged(verdicts) for _ in paths]

        [answer] = apart(spark, [path], judge_one, not_judged, given_up)
        if isinstance(answer, Judged):
            settled[path] = dict(zip(large.by_keys, answer.verdicts, strict=True))
        elif isinstance(answer, Unjudged):
            settled[path] = answer
    return settled


def _is_grouped(found: Found) -> bool:
    return not isinstance(found, Large) or found.grouped


def _settled_by(each: Ready, settled: _Settled | Unjudged | None) -> Ready:
    """A run whose known verdicts are taken as they are."""
    if not settled or isinstance(settled, Unjudged):
        return each
    specs = tuple(NONE if place in settled else spec for place, spec in enumerate(each.specs))
    known = {place: engine.encode(verdict) for place, verdict in settled.items()}
    return msgspec.structs.replace(each, specs=specs, broken={**each.broken, **known})


def _ready(path: Path, large: Large) -> Ready:
    """A large run, without the checkers that cannot be loaded: nothing here tries to load them again."""
    run = RunDir(path)
    specs = tuple(NONE if place in large.broken else spec for place, spec in enumerate(specs_for(run)))
    return Ready(run, specs, large.rows, large.telemetry, large.broken)


@dataclass(frozen=True)
class _Large:
    """The judging of large runs, whose rows go through Spark."""

    spark: SparkSession
    sizes: Sizes
    limits: Limits
    here: Judge

    def judge(self, runs: Sequence[Ready]) -> list[Found]:
        """What became of each run."""
        splits = hot_keys.split(self.spark, runs, self.sizes, self.limits)
        groups = _judge_groups(self.spark, runs, splits, self.limits)
        merged = [self._merged(each, place, groups.get(place, {}), splits) for place, each in enumerate(runs)]
        found = with_weaker_models(self.spark, runs, merged, self.limits)
        return [each if isinstance(each, Unjudged) else Judged(each) for each in found]

    def _merged(
        self, each: Ready, place: int, parts: Mapping[int, list[Verdict]], splits: Mapping[Where, Split]
    ) -> list[Verdict] | Unjudged:
        """The verdicts on a run from those on its groups, merged in a process of its own: checkers do that."""
        job = _Merge(
            each,
            {position: list(map(engine.encode, some)) for position, some in parts.items()},
            _splits_of(splits, place),
        )
        found = or_unjudged(each.run.path, lambda: judged(self.here, job))
        if isinstance(found, OfJob):
            return found.verdicts
        return unread(each.run.path, found) if isinstance(found, Stopped) else found


# --- on the driver --------------------------------------------------------------------------------------------------


def _judge_groups(
    spark: SparkSession, runs: Sequence[Ready], splits: Mapping[Where, Split], limits: Limits
) -> dict[int, dict[int, list[Verdict]]]:
    """Verdicts on all groups: by the run's place in `runs`, then by the checker's place in its specs."""
    stored = frames(spark, runs)
    judged: dict[int, dict[int, list[Verdict]]] = {}
    if not stored.ids:
        return judged
    run_ids = {place: run_id for run_id, place in stored.ids.items()}
    of_runs = {run_id: runs[place].specs for run_id, place in stored.ids.items()}
    of_keys: dict[tuple[str, str | None], dict[int, CheckerSpec | None]] = {}
    for (place, key, position), each in splits.items():
        spec = None if each.proven else hot_keys.spec_for(runs[place].specs[position], each)
        of_keys.setdefault((run_ids[place], key), {})[position] = spec
    specs = spark.sparkContext.broadcast((of_runs, of_keys))

    def judge_history(group: tuple[Any, ...], table: pa.Table) -> pa.Table:
        run_id, scope, key = (each.as_py() for each in group)
        of_run, of_key = specs.value[0][run_id], specs.value[1].get((run_id, key), {}) if scope == BY_KEY else {}
        return _judge_apart(limits, run_id, scope, of_run, with_null_lists(table), otherwise=of_key)

    def judge_telemetry(group: tuple[Any, ...], table: pa.Table) -> pa.Table:
        run_id = group[0].as_py()
        return _judge_apart(limits, run_id, OF_TELEMETRY, specs.value[0][run_id], with_null_voters(table))

    def judge_whole(group: tuple[Any, ...], history: pa.Table, telemetry: pa.Table) -> pa.Table:
        run_id = group[0].as_py()
        tables = with_null_lists(history), with_null_voters(telemetry)
        return _judge_apart(limits, run_id, WHOLE, specs.value[0][run_id], *tables)

    verdicts: list[DataFrame] = []
    if stored.histories:
        columns = ["run_id", "scope", "group_key"]
        tasks = tasks_for(spark, sum(each.rows * len(scopes(each.specs)) for each in runs))
        rows = _without_what_is_settled(spark, stored, _settled(runs, run_ids, splits))
        groups = without_null_lists(rows).repartition(tasks, *columns).groupBy(*columns)
        verdicts.append(groups.applyInArrow(judge_history, VERDICTS))
    if stored.telemetry:
        tasks = tasks_for(spark, sum(each.telemetry for each in runs))
        groups = without_null_voters(union(stored.telemetry)).repartition(tasks, "run_id").groupBy("run_id")
        verdicts.append(groups.applyInArrow(judge_telemetry, VERDICTS))
    whole = [table for table, wanted in stored.histories if WHOLE in wanted]
    if whole:
        tasks = tasks_for(spark, sum(each.rows + each.telemetry for each in runs))
        nodes_rows = union(stored.telemetry) if stored.telemetry else no_telemetry(spark)
        both = (
            table.repartition(tasks, "run_id").groupBy("run_id")
            for table in (without_null_lists(union(whole)), without_null_voters(nodes_rows))
        )
        histories, telemetry = both
        verdicts.append(histories.cogroup(telemetry).applyInArrow(judge_whole, VERDICTS))
    try:
        found = collect(union(verdicts), len(runs))
    finally:
        specs.unpersist()
    for row in found:
        place, position = stored.ids[row["run_id"]], row["position"]
        verdict = engine.decode(row["verdict"])
        verdict = _as_its_segments_say(verdict, splits.get((place, verdict.key, position)))
        judged.setdefault(place, {}).setdefault(position, []).append(verdict)
    return judged


def _as_its_segments_say(verdict: Verdict, split: Split | None) -> Verdict:
    """The verdict on a hot key up to its failing segment, or that the two contradict each other."""
    if verdict.valid != "true" or split is None or split.failing is None:
        return verdict
    contradiction = EngineError(
        f"segment {split.failing} was found impossible, and everything up to its end possible: one of the two is "
        f"wrong. Please report this with the history."
    )
    return engine.broken(verdict.checker, contradiction, f"judging key {verdict.key!r} in segments", key=verdict.key)


def _settled(
    runs: Sequence[Ready], run_ids: Mapping[int, str], splits: Mapping[Where, Split]
) -> list[tuple[str, str | None, int]]:
    """Keys of which some rows need not be judged: run id, key, and the index from which on no checker needs them."""
    found: list[tuple[str, str | None, int]] = []
    for place, key in dict.fromkeys((place, key) for place, key, _ in splits):
        wanting = [position for position, spec in enumerate(runs[place].specs) if wants(spec, BY_KEY)]
        until = [each.until if (each := splits.get((place, key, position))) else None for position in wanting]
        bounds = [bound for bound in until if bound is not None]
        if len(bounds) == len(wanting):
            found.append((run_ids[place], key, max(bounds)))
    return found


def _without_what_is_settled(
    spark: SparkSession, stored: Frames, settled: Sequence[tuple[str, str | None, int]]
) -> DataFrame:
    """The rows of all histories with their groups, except those that no checker needs."""
    from pyspark.sql import functions as sf

    rows = union([routed(table, wanted) for table, wanted in stored.histories])
    if not settled:
        return rows
    bounds = sf.broadcast(spark.createDataFrame(settled, "hot_run string, hot_key string, until long"))
    settled_by = (
        (sf.col("run_id") == sf.col("hot_run"))
        & sf.col("group_key").eqNullSafe(sf.col("hot_key"))
        & (sf.col("scope") == BY_KEY)
        & (sf.col("index") >= sf.col("until"))
    )
    return rows.join(bounds, settled_by, "left_anti")


def _splits_of(splits: Mapping[Where, Split], place: int) -> dict[int, list[Split]]:
    """The hot keys of a run, by the position of the checker."""
    found: dict[int, list[Split]] = {}
    for (run, _, position), each in splits.items():
        if run == place:
            found.setdefault(position, []).append(each)
    return {position: sorted(each, key=lambda one: one.key or "") for position, each in found.items()}


@dataclass(frozen=True)
class _Merge(Job, Opened):
    """The verdicts on a run from those on its groups.

    Attributes:
        each: the run.
        parts: by position of the checker, as JSON.
        splits: its hot keys, by position of the checker.
    """

    each: Ready
    parts: Mapping[int, list[bytes]]
    splits: Mapping[int, Sequence[Split]]

    def open(self, step: Callable[[str], None]) -> Opened:
        return self

    @property
    def specs(self) -> Specs:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.each.specs

    def answers(self, position: int) -> Iterator[Verdict]:
        if position in self.each.broken:
            yield engine.decode(self.each.broken[position])
            return
        spec, hot = self.specs[position], self.splits.get(position, ())
        given = sorted(map(engine.decode, self.parts.get(position, ())), key=engine.by_key_order)
        try:
            parts = hot_keys.whole([*given, *self._of_nothing(spec)], hot)
            wrong = next((part for part in parts if part.valid == "false"), None)
            if wrong is not None:
                yield left_out.plain([wrong])[0]
            merged = engine.merge(checker(spec.name), spec, sorted(parts, key=engine.by_key_order))
            yield hot_keys.with_hot_keys(merged, hot)
        except UsageError as error:
            yield engine.refused(spec.name, error)

    def _of_nothing(self, spec: CheckerSpec) -> Iterator[Verdict]:
        """The verdict on a run without a single op, or without telemetry: no row, hence no group, speaks for it."""
        each, found, no_ops = self.each, checker(spec.name), HISTORY_SCHEMA.empty_table()
        if found.partition == "telemetry":
            if not each.telemetry:
                yield engine.check_telemetry(found, spec, None)
        elif found.partition == "whole run":
            if not each.rows:
                yield engine.check_whole(found, spec, no_ops, each.run.telemetry() if each.telemetry else None)
        elif found.partition == "run" and not each.rows:
            yield engine.check_partition(found, spec, no_ops)


# --- on the workers -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Group(Job):
    """Rows that some checkers of a run judge together.

    Attributes:
        scope: which kind of group it is.
        specs: who judges it.
        tables: as Arrow writes them.
    """

    scope: str
    specs: Specs
    tables: tuple[bytes, ...]

    def open(self, step: Callable[[str], None]) -> Opened:
        step("reading rows that Spark has sent")
        return _OpenedGroup(self.scope, self.specs, [pa.ipc.open_stream(table).read_all() for table in self.tables])


class _OpenedGroup(Opened):
    def __init__(self, scope: str, specs: Specs, tables: Sequence[pa.Table]) -> None:
        self.specs = specs
        first, *others = tables
        self._table = _in_written_order(first) if scope == OF_TELEMETRY else engine.in_order(conform(first))
        self._key: str | None = self._table.column("key")[0].as_py() if scope == BY_KEY else None
        self._telemetry = [_in_written_order(table) for table in others]

    def answers(self, position: int) -> Iterator[Verdict]:
        spec = self.specs[position]
        try:
            yield self._verdict(checker(spec.name), spec)
        except UsageError as error:
            yield engine.refused(spec.name, error, key=self._key)

    def _verdict(self, each: AnyChecker, spec: CheckerSpec) -> Verdict:
        if each.partition == "whole run":
            return engine.check_whole(each, spec, self._table, self._telemetry[0])
        if each.partition == "telemetry":
            return engine.check_telemetry(each, spec, self._table)
        return engine.check_partition(each, spec, self._table)


def _in_written_order(telemetry: pa.Table) -> pa.Table:
    return conform_telemetry(telemetry.sort_by(ROW) if ROW in telemetry.column_names else telemetry)


def _judge_apart(
    limits: Limits,
    run_id: str,
    scope: str,
    specs: Specs,
    *tables: pa.Table,
    otherwise: _Otherwise | None = None,
) -> pa.Table:
    """Rows of `VERDICTS`: one for each of the run's checkers that judges this kind of group and is not settled."""
    chosen = {position: (otherwise or {}).get(position, spec) for position, spec in enumerate(specs)}
    judging = {position: spec for position, spec in chosen.items() if spec is not None and wants(spec, scope)}
    if not judging:
        return verdict_rows(run_id, [])
    job = _Group(scope, tuple(judging.values()), tuple(map(as_bytes, tables)))
    found = judged(lasting(limits), job)
    if isinstance(found, Stopped):
        verdicts = [
            engine.stopped(spec.name, f"{found.why} while {found.step}", found.details, None)
            for spec in judging.values()
        ]
    else:
        verdicts = found.verdicts
    return verdict_rows(run_id, list(zip(judging, verdicts, strict=True)))

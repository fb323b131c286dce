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

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from splitbrain.checkers import engine
from splitbrain.checkers.registry import checker
from splitbrain.checkers.spark import hot_keys
from splitbrain.checkers.spark.by_path import Found, Large, apart, judge_by_path
from splitbrain.checkers.spark.frames import ROW, Frames, frames, no_telemetry, routed, union
from splitbrain.checkers.spark.hot_keys import Sizes, Split, Where
from splitbrain.checkers.spark.jobs import collect, tasks_for
from splitbrain.checkers.spark.lists import with_null_lists, with_null_voters, without_null_lists, without_null_voters
from splitbrain.checkers.spark.runs import BY_KEY, BY_RUN, OF_TELEMETRY, WHOLE, scopes, wants
from splitbrain.checkers.spark.verdict_rows import VERDICTS, verdict_rows
from splitbrain.checkers.spark.weaker import with_weaker_models
from splitbrain.checkers.stored import Ready, Specs, Unjudged, or_unjudged, specs_for
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.arrow import HISTORY_SCHEMA, TELEMETRY_SCHEMA, conform, conform_telemetry
from splitbrain.results.errors import DamagedRunError, EngineError, UsageError
from splitbrain.results.store import RunDir

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_Otherwise: TypeAlias = Mapping[int, CheckerSpec | None]
"""Checkers that judge a hot key with other options, by position; None for one that is settled."""


def judge_runs(spark: SparkSession, runs: Iterable[Path], *, sizes: Sizes | None = None) -> dict[Path, list[Verdict]]:
    """One verdict per checker for every run, the same as `splitbrain.checkers.engine.judge` gives.

    The checkers are those that each run's test.json names. One that is unknown here, or whose options are wrong, breaks
    for that run alone (see `splitbrain.checkers.engine`).

    Args:
        spark: the session.
        runs: the folders of the runs.
        sizes: up to which size a run is judged by one worker, and from which size on a key is split.

    Raises:
        EngineError: Spark failed.
        DamagedRunError: a run cannot be judged (`judge_apart` says of each whether it can).
    """
    judged: dict[Path, list[Verdict]] = {}
    for path, found in judge_apart(spark, runs, sizes=sizes).items():
        if isinstance(found, Unjudged):
            raise DamagedRunError(found.why)
        judged[path] = found
    return judged


def judge_apart(
    spark: SparkSession, runs: Iterable[Path], *, sizes: Sizes | None = None
) -> dict[Path, list[Verdict] | Unjudged]:
    """The same for runs of which some may be damaged: those get no verdict, and keep no other from its own.

    Raises:
        EngineError: Spark failed.
    """
    paths, sizes = list(runs), sizes or Sizes()
    found = dict(zip(paths, judge_by_path(spark, paths, sizes), strict=True))
    large: dict[Path, Ready] = {}
    for path, each in found.items():
        if isinstance(each, Large):
            specs = or_unjudged(path, lambda path=path: specs_for(RunDir(path)))
            if isinstance(specs, Unjudged):
                found[path] = specs
            else:
                large[path] = Ready(RunDir(path), specs, each.rows, each.telemetry)
    judged = apart(spark, list(large), lambda some: _judge_large(spark, [large[path] for path in some], sizes))
    found.update(zip(large, judged, strict=True))
    return {path: each for path, each in found.items() if not isinstance(each, Large)}


def _judge_large(spark: SparkSession, runs: Sequence[Ready], sizes: Sizes) -> list[Found]:
    splits = hot_keys.split(spark, runs, sizes)
    judged = _judge_groups(spark, runs, splits)
    merged = [
        _merge(each.specs, {**judged.get(place, {}), **_judge_nothing(each)}, _splits_of(splits, place))
        for place, each in enumerate(runs)
    ]
    return [*with_weaker_models(spark, runs, merged)]


# --- on the driver --------------------------------------------------------------------------------------------------


def _judge_groups(
    spark: SparkSession, runs: Sequence[Ready], splits: Mapping[Where, Split]
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
        return _judge_group(run_id, scope, of_run, with_null_lists(table), of_key)

    def judge_telemetry(group: tuple[Any, ...], table: pa.Table) -> pa.Table:
        run_id = group[0].as_py()
        return _judge_group(run_id, OF_TELEMETRY, specs.value[0][run_id], with_null_voters(table))

    def judge_whole(group: tuple[Any, ...], history: pa.Table, telemetry: pa.Table) -> pa.Table:
        run_id = group[0].as_py()
        return _judge_whole(run_id, specs.value[0][run_id], with_null_lists(history), with_null_voters(telemetry))

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


def _merge(specs: Specs, judged: Mapping[int, list[Verdict]], splits: Mapping[int, Sequence[Split]]) -> list[Verdict]:
    verdicts: list[Verdict] = []
    for position, spec in enumerate(specs):
        hot = splits.get(position, ())
        parts = hot_keys.whole(judged.get(position, ()), hot)
        try:
            merged = engine.merge(checker(spec.name), spec, sorted(parts, key=engine.by_key_order))
            verdicts.append(hot_keys.with_hot_keys(merged, hot))
        except UsageError as error:
            verdicts.append(engine.broken(spec.name, error, "being set up"))
    return verdicts


def _judge_nothing(each: Ready) -> dict[int, list[Verdict]]:
    """Verdicts on a run without a single op, or without telemetry: no row, hence no group, speaks for it."""
    without: list[tuple[str, pa.Table]] = []
    if not each.rows:
        without.append((BY_RUN, HISTORY_SCHEMA.empty_table()))
    if not each.telemetry:
        without.append((OF_TELEMETRY, TELEMETRY_SCHEMA.empty_table()))
    found = {
        position: _verdicts(_judge_group("", scope, (spec,), nothing))
        for scope, nothing in without
        for position, spec in enumerate(each.specs)
        if wants(spec, scope)
    }
    if not each.rows:
        telemetry = each.run.telemetry() if each.telemetry else None
        for position, spec in enumerate(each.specs):
            if wants(spec, WHOLE):
                rows = _judge_whole("", (spec,), HISTORY_SCHEMA.empty_table(), telemetry)
                found[position] = _verdicts(rows)
    return found


def _verdicts(rows: pa.Table) -> list[Verdict]:
    return [engine.decode(text) for text in rows.column("verdict").to_pylist() if text is not None]


# --- on the workers -------------------------------------------------------------------------------------------------


def _judge_whole(run_id: str, specs: Specs, history: pa.Table, telemetry: pa.Table | None) -> pa.Table:
    """Rows of `VERDICTS`: one for each of the run's checkers that judges history and telemetry together."""
    ops = engine.in_order(conform(history))
    nodes_rows = None if telemetry is None else _in_written_order(telemetry)
    found: list[tuple[int, Verdict]] = []
    for position, spec in enumerate(specs):
        if not wants(spec, WHOLE):
            continue
        each = checker(spec.name)
        assert each.partition == "whole run"
        found.append(
            (position, _or_broken(spec, lambda each=each, spec=spec: engine.check_whole(each, spec, ops, nodes_rows)))
        )
    return verdict_rows(run_id, found)


def _in_written_order(telemetry: pa.Table) -> pa.Table:
    return conform_telemetry(telemetry.sort_by(ROW) if ROW in telemetry.column_names else telemetry)


def _judge_group(
    run_id: str, scope: str, specs: Specs, table: pa.Table, otherwise: _Otherwise | None = None
) -> pa.Table:
    """Rows of `VERDICTS`: one for each of the run's checkers that judges this kind of group and is not settled."""
    part = _in_written_order(table) if scope == OF_TELEMETRY else engine.in_order(conform(table))
    found: list[tuple[int, Verdict]] = []
    for position, of_run in enumerate(specs):
        spec = (otherwise or {}).get(position, of_run)
        if spec is None or not wants(spec, scope):
            continue
        each = checker(spec.name)
        assert each.partition != "whole run"
        judge = engine.check_telemetry if scope == OF_TELEMETRY else engine.check_partition
        found.append((position, _or_broken(spec, lambda each=each, spec=spec, judge=judge: judge(each, spec, part))))
    return verdict_rows(run_id, found)


def _or_broken(spec: CheckerSpec, check: Callable[[], Verdict]) -> Verdict:
    try:
        return check()
    except UsageError as error:
        return engine.broken(spec.name, error, "being set up")

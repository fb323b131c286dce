"""A run that goes by key over Spark has the verdict that it has in this process: anomalies of every kind, or none."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TypeAlias

import msgspec
import pyarrow as pa
import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.spark.by_keys import STORES_MAX
from splitbrain.checkers.spark.hot_keys import Sizes
from splitbrain.checkers.spark.pipeline import judge_runs
from splitbrain.checkers.spark.session import Spark
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.arrow import from_table, to_table, write_parquet
from splitbrain.results.history import Mop, Op
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store
from tests.checkers.transactions.brute_force import ops_of
from tests.checkers.transactions.by_key_here import combined, differences
from tests.checkers.transactions.test_unknown_in_a_session import BEFORE, INTO, LATE

from .support import WALL_NS, timeless

pytestmark = pytest.mark.spark

SMALL = Sizes(run_rows=0, graph_rows=0, bucket_rows=400, piece_rows=60, piece_edges=300)
STATS = CheckerSpec("stats")
DEPENDENCIES = re.compile(r"[0-9]+ dependencies")


def run_of(folder: Path, seed: int, table: pa.Table, *specs: CheckerSpec) -> RunDir:
    run = Store(folder).create("t", seed, {"checkers": list(specs)}, WALL_NS + seed)
    write_parquet(table, run.history_path)
    run.release()
    return RunDir(run.path)


def whole(run: RunDir) -> list[Verdict]:
    return engine.judge(run.history(), engine.specs_of(run.read_test(), str(run.path)))


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["list-append", "rw-register"])
def test_a_run_by_key_has_the_verdict_of_the_whole(spark: Spark, tmp_path: Path, workload: str) -> None:
    table = combined(5, "list-append" if workload == "list-append" else "rw-register", 15)
    spec = CheckerSpec(workload, {"consistency_models": ["strict-serializable"]})
    run = run_of(tmp_path, 1, table, spec, STATS)
    ours, stats = judge_runs(spark.session, [run.path], sizes=SMALL)[run.path]
    expected, expected_stats = whole(run)
    assert not differences(ours, expected)
    assert ours.valid == "false"
    assert ours.sentence == expected.sentence
    assert timeless([stats]) == timeless([expected_stats])
    how = ours.evidence["by_key"]
    assert (how["rows"], how["from_rows"]) == (table.num_rows, 0)
    assert how["groups_of_keys"] > 1
    assert 0 < how["edges_in_one_task"] <= how["edges"]


@pytest.mark.slow
def test_no_order_of_a_process_begins_in_spark_at_what_may_come_later(spark: Spark, tmp_path: Path) -> None:
    spec = CheckerSpec("list-append", {"consistency_models": ["strong-session-serializable"]})
    runs = [run_of(tmp_path, seed, to_table(ops_of(each)), spec) for seed, each in enumerate((LATE, BEFORE, INTO))]
    found = judge_runs(spark.session, [run.path for run in runs], sizes=SMALL)
    for run, valid in zip(runs, ("true", "false", "false"), strict=True):
        [ours] = found[run.path]
        assert "by_key" in ours.evidence
        assert ours.valid == valid, ours.sentence
        assert not differences(ours, whole(run)[0])


@pytest.mark.slow
def test_a_graph_that_hangs_together_is_trimmed_and_one_that_is_left_too_large_is_an_error(
    spark: Spark, tmp_path: Path
) -> None:
    table = combined(6, "list-append", 5)
    run = run_of(tmp_path, 1, table, CheckerSpec("list-append", {"consistency_models": ["serializable"]}))
    together = msgspec.structs.replace(SMALL, piece_edges=0)
    [ours] = judge_runs(spark.session, [run.path], sizes=together)[run.path]
    assert not differences(ours, whole(run)[0])
    tight = msgspec.structs.replace(SMALL, rest_edges=3)
    [verdict] = judge_runs(spark.session, [run.path], sizes=tight)[run.path]
    assert verdict.valid == "unknown"
    assert "left for one task, which takes 3" in verdict.sentence


@pytest.mark.slow
def test_a_history_that_is_not_as_it_should_be_is_refused_with_its_op(spark: Spark, tmp_path: Path) -> None:
    ops = from_table(combined(6, "list-append", 0))
    torn = [msgspec.structs.replace(ops[0], type="ok"), *ops[1:]]
    wrong = {"op 0: process": torn, "Is the workload rw-register": from_table(combined(6, "rw-register", 0))}
    for seed, (why, given) in enumerate(wrong.items()):
        run = run_of(tmp_path, seed, to_table(given), CheckerSpec("list-append"))
        [verdict] = judge_runs(spark.session, [run.path], sizes=SMALL)[run.path]
        assert verdict.valid == "unknown"
        assert why in verdict.sentence


@pytest.mark.slow
def test_weak_levels_and_runs_below_the_size_are_judged_in_one_piece(spark: Spark, tmp_path: Path) -> None:
    table = combined(6, "rw-register", 3)
    weak = run_of(tmp_path, 1, table, CheckerSpec("rw-register", {"consistency_models": ["causal"]}))
    small = run_of(tmp_path, 2, table, CheckerSpec("rw-register"))
    below = msgspec.structs.replace(SMALL, graph_rows=table.num_rows + 1)
    found = judge_runs(spark.session, [weak.path], sizes=SMALL) | judge_runs(spark.session, [small.path], sizes=below)
    for run in (weak, small):
        [verdict] = found[run.path]
        assert "by_key" not in verdict.evidence
        assert timeless([verdict]) == timeless(whole(run))


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["list-append", "rw-register"])
def test_independent_keys_and_ops_of_other_functions_are_told_as_in_this_process(
    spark: Spark, tmp_path: Path, workload: str
) -> None:
    kind = "list-append" if workload == "list-append" else "rw-register"
    serial = serially(kind, 40)
    broken: Stores = {"z": from_table(combined(5, kind, 15)), "a": serial, None: strange(3)}
    sound: Stores = {"a": serial, "b": serially(kind, 20), None: strange(2)}
    spec = CheckerSpec(workload, {"consistency_models": ["strict-serializable"]})
    single: Stores = {"a": serial + strange(1)}
    for seed, (given, violated) in enumerate([(broken, True), (sound, False), (single, False)]):
        run = run_of(tmp_path, seed, interleaved(given), spec)
        [ours] = judge_runs(spark.session, [run.path], sizes=SMALL)[run.path]
        [expected] = whole(run)
        assert not differences(ours, expected), seed
        assert (ours.valid == "false", ours.anomalies) == (violated, expected.anomalies)
        ours_said, said = (DEPENDENCIES.sub("", each.sentence) for each in (ours, expected))  # derived ones may differ
        assert ours_said == said
        assert ours.figures.get("not_judged") == expected.figures.get("not_judged")
        assert ours.figures.get("independent_keys") == expected.figures.get("independent_keys")
        assert "by_key" in ours.evidence
        assert (ours.evidence.get("key"), ours.evidence.get("keys")) == (
            expected.evidence.get("key"),
            expected.evidence.get("keys"),
        )


@pytest.mark.slow
def test_many_independent_keys_are_judged_in_one_piece(spark: Spark, tmp_path: Path) -> None:
    ops = from_table(combined(6, "list-append", 0))
    stores: Stores = {str(key): ops for key in range(STORES_MAX + 1)}
    run = run_of(tmp_path, 1, interleaved(stores), CheckerSpec("list-append"))
    [verdict] = judge_runs(spark.session, [run.path], sizes=SMALL)[run.path]
    assert "by_key" not in verdict.evidence
    assert timeless([verdict]) == timeless(whole(run))


Stores: TypeAlias = Mapping[str | None, Sequence[Op]]
"""Ops by key."""


def serially(workload: str, count: int) -> list[Op]:
    """Transactions one after the other: one that writes, and one that reads what was written until then."""
    found: list[Op] = []
    for number in range(1, count + 1):
        write = Mop("append" if workload == "list-append" else "w", "x", number)
        read = Mop("r", "x", values=tuple(range(1, number + 1))) if write.f == "append" else Mop("r", "x", number)
        for asked, answered in ((write, write), (Mop("r", "x"), read)):
            op = Op(process=len(found) % 3, type="invoke", f="txn", mops=(asked,))
            found += [op, msgspec.structs.replace(op.complete("ok", None), mops=(answered,))]
    return found


def strange(count: int) -> list[Op]:
    """Ops of another function than transactions."""
    ops = [Op(process=5000 + number, type="invoke", f="transact") for number in range(count)]
    return [each for op in ops for each in (op, op.complete("ok", None))]


def interleaved(stores: Stores) -> pa.Table:
    """The ops of stores as one history; each has clients of its own."""
    named = [
        [msgspec.structs.replace(op, key=key, process=op.process + 10_000 * place) for op in ops if op.process >= 0]
        for place, (key, ops) in enumerate(stores.items())
    ]
    together = [op for some in zip_longest(*named) for op in some if op is not None]
    return to_table([msgspec.structs.replace(op, index=index, time=index) for index, op in enumerate(together)])

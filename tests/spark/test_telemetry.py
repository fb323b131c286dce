"""Telemetry is judged with Spark as it is in this process, and is there in time to be judged."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from splitbrain.checkers import engine
from splitbrain.checkers.spark import frames
from splitbrain.checkers.spark.hot_keys import Sizes
from splitbrain.checkers.spark.pipeline import judge_runs
from splitbrain.checkers.spark.session import Spark
from splitbrain.checkers.stored import Unjudged, or_unjudged, ready, specs_of
from splitbrain.checkers.verdict import CheckerSpec, Outcome, Verdict
from splitbrain.harness.campaigns.judging import Conclusion, judge_inline, judge_with_spark
from splitbrain.results.collecting import collect_telemetry
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.loaded import LoadedRun, finish
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store
from splitbrain.results.telemetry import table_of

from .support import IN_GROUPS, WALL_NS, keyed, stored, timeless

CONSENSUS = tuple(CheckerSpec(name) for name in ("election-safety", "replica-agreement", "commit-monotonic"))
STATS = CheckerSpec("stats")


def lines(seed: int, *, two_leaders: bool = False, diverges: bool = False) -> dict[str, list[tuple[int, bytes]]]:
    """Three nodes that apply the same entries, one leader a term; n2 is restarted once."""
    draw = random.Random(seed)
    found: dict[str, list[tuple[int, bytes]]] = {}
    for number, node in enumerate(("n1", "n2", "n3")):
        time_ns, index, rows = 1000, 0, [(1000 + number, _line("start", 0, node, term=1))]
        for step in range(60):
            time_ns += draw.randrange(1, 50)
            index += draw.randrange(3)
            if node == "n2" and step == 30:
                rows.append((time_ns, _line("start", 0, node, term=2)))
                index = 0
            wrong = diverges and node == "n3" and index > 20
            role = "leader" if node == "n1" or (two_leaders and node == "n3" and step > 40) else "follower"
            voters = None if draw.random() < 0.3 else [node] * draw.randrange(3)
            chain = f"{index}{'x' * wrong}"
            rows.append((time_ns, _line("role", index, node, term=2, role=role, chain=chain, voters=voters)))
        found[node] = rows
    return found


def _line(event: str, index: int, node: str, **fields: Any) -> bytes:
    fields = {"chain": str(index), "state": "s", "leader": node, **fields}
    line = {"wall": WALL_NS, "event": event, "group": "g", "commit": index, "applied": index, **fields}
    return json.dumps(line, separators=(",", ":")).encode()


def told(run: RunDir, table: pa.Table) -> RunDir:
    run.write_telemetry(table)
    return run


def inline(run: RunDir) -> list[dict[str, object]]:
    specs = engine.specs_of(run.read_test(), str(run.path))
    return timeless(engine.judge(run.history(), specs, run.telemetry()))


def judged_here(run: LoadedRun) -> list[Verdict]:
    return engine.judge_each(run.history, specs_of(run), run.telemetry)


def test_without_telemetry_a_checker_of_it_answers_unknown_and_the_others_judge() -> None:
    history = pa.table({"index": [0], "time": [0], "process": [0], "type": ["invoke"], "f": ["read"]})
    for telemetry in (None, table_of({})):
        stats, *verdicts = engine.judge(history, [STATS, *CONSENSUS], telemetry)
        assert stats.valid == "true"
        assert [verdict.valid for verdict in verdicts] == ["unknown"] * 3
        assert verdicts[0].sentence == (
            "Unknown: the nodes of this run left no telemetry, so there is nothing for election-safety to judge."
        )


def test_what_is_no_telemetry_is_refused() -> None:
    history = pa.table({"index": [0], "time": [0], "process": [0], "type": ["invoke"], "f": ["read"]})
    with pytest.raises(HistoryFormatError, match="there is no column 'node': this is not telemetry"):
        engine.judge(history, CONSENSUS, pa.table({"time": [1]}))


@pytest.mark.slow
@pytest.mark.spark
@IN_GROUPS
def test_spark_says_of_telemetry_what_this_process_says(spark: Spark, sizes: Sizes, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    every = [STATS, *CONSENSUS]
    runs = [
        told(stored(store, "t", 1, keyed("a"), every), table_of(lines(1))),
        told(stored(store, "t", 2, keyed("a", "b"), every), table_of(lines(2, two_leaders=True))),
        told(stored(store, "other", 3, keyed("a"), CONSENSUS), table_of(lines(3, diverges=True))),
        stored(store, "none", 4, keyed("a"), every),
        told(stored(store, "empty", 5, keyed("a"), every), table_of({})),
        told(stored(store, "unasked", 6, keyed("a"), [STATS]), table_of(lines(6))),
        told(stored(store, "no-ops", 7, [], every), table_of(lines(7))),
        told(stored(Store(tmp_path / "another"), "t", 1, keyed("a"), every), table_of(lines(8, diverges=True))),
    ]
    (tmp_path / "taken out").mkdir()
    runs.append(RunDir(runs[1].path.rename(tmp_path / "taken out" / "run")))
    del runs[1]
    verdicts = judge_runs(spark.session, [run.path for run in runs], sizes=sizes)
    for run in runs:
        assert timeless(verdicts[run.path]) == inline(run), run
    valid = {run: {verdict.checker: verdict.valid for verdict in verdicts[run.path]} for run in runs}
    assert set(valid[runs[0]].values()) == {"true"}
    assert valid[runs[1]]["replica-agreement"] == "false"
    assert set(valid[runs[2]].values()) == {"true", "unknown"}
    assert valid[runs[3]] == valid[runs[2]]
    assert set(valid[runs[5]].values()) == {"true"}
    assert valid[runs[-1]]["election-safety"] == "false"


@pytest.mark.slow
@pytest.mark.spark
@IN_GROUPS
def test_rows_arrive_whole_and_in_their_order_though_clocks_were_set_back(
    spark: Spark, sizes: Sizes, tmp_path: Path, misbehaving: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    none_and_empty: tuple[list[str] | None, ...] = (None, [])
    backwards = {
        "n1": [(time, _line("commit", 1, "n1", voters=voters)) for time in (9, 3, 5, 1) for voters in none_and_empty],
        "n2": [(time_ns, _line("commit", 1, "n2", voters=["n1", "ü"])) for time_ns in range(20_000, 0, -1)],
    }
    run = told(stored(Store(tmp_path), "t", 1, keyed("a"), [CheckerSpec("misbehaving:Rows")]), table_of(backwards))
    numbered: Callable[[DataFrame], DataFrame] = vars(frames)["_numbered"]

    def numbered_then_mixed(table: DataFrame) -> DataFrame:
        return numbered(table).orderBy(sf.rand(7))

    # On one machine a shuffle happens to keep the order; nothing says that it must.
    monkeypatch.setattr(frames, "_numbered", numbered_then_mixed)
    [verdict] = judge_runs(spark.session, [run.path], sizes=sizes)[run.path]
    assert timeless([verdict]) == inline(run)
    rows = verdict.evidence["rows"]
    assert verdict.evidence["conforms"]
    assert [row["time"] for row in rows if row["node"] == "n1"] == [9, 9, 3, 3, 5, 5, 1, 1]
    assert [row["voters"] for row in rows if row["node"] == "n1"] == [None, []] * 4
    assert [row["time"] for row in rows if row["node"] == "n2"] == list(range(20_000, 0, -1))


@pytest.mark.slow
@pytest.mark.spark
def test_telemetry_is_collected_before_it_is_judged(spark: Spark, tmp_path: Path) -> None:
    inline_run, spark_run = (_killed(Store(tmp_path), seed) for seed in (1, 2))
    conclusions: Sequence[Conclusion] = [judge_inline(inline_run), *judge_with_spark([spark_run], spark)]
    for conclusion in conclusions:
        [verdict] = conclusion.verdicts
        assert (conclusion.outcome, verdict.anomalies) == (Outcome.VIOLATION, ("two-leaders",))
        assert conclusion.run.telemetry().num_rows == 4


def _killed(store: Store, seed: int) -> RunDir:
    """A run whose nodes were killed: one file is torn, one was never written."""
    run = stored(store, "t", seed, keyed("a"), CONSENSUS[:1])
    sources = {node: f"nodes/{node}/telemetry.jsonl" for node in ("n1", "n2", "n3")}
    for node in ("n1", "n2"):
        whole = [_line("start", 0, node, term=1), _line("role", 0, node, term=1, role="leader")]
        (run.node_dir(node) / "telemetry.jsonl").write_bytes(b"\n".join([*whole, whole[1][:30]]))
    run.write_test({**run.read_test(), "telemetry": sources, "began_wall_ns": WALL_NS})
    return run


@pytest.mark.slow
def test_damaged_telemetry_is_named_and_a_run_that_lost_its_raw_files_is_judged_without(tmp_path: Path) -> None:
    store = Store(tmp_path)
    damaged = told(stored(store, "t", 1, keyed("a"), CONSENSUS), table_of(lines(1)))
    damaged.telemetry_path.write_bytes(damaged.telemetry_path.read_bytes()[:-50])
    foreign = stored(store, "t", 2, keyed("a"), CONSENSUS)
    foreign.write_telemetry(pa.table({"time": [1]}))
    lost = stored(store, "t", 3, keyed("a"), CONSENSUS)
    lost.write_test({**lost.read_test(), "telemetry": {"n1": "nodes/n1/data/telemetry.jsonl"}})
    collect_telemetry(lost)
    for run in (damaged, foreign):
        found = or_unjudged(run.path, lambda run=run: judged_here(finish(run)))
        assert isinstance(found, Unjudged)
        assert str(run.telemetry_path) in found.why
    assert ready(lost.path).telemetry == 0
    assert {verdict["valid"] for verdict in inline(lost)} == {"unknown"}

"""A hot key is judged in segments over Spark as it is judged whole in this process."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks import hot_key
from splitbrain.checkers import engine
from splitbrain.checkers.spark.hot_keys import Sizes
from splitbrain.checkers.spark.pipeline import judge_runs
from splitbrain.checkers.spark.session import Spark
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.harness.campaigns.words import hot_keys
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.history import Op
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store
from tests.checkers.linearizable.bursts import bursty_history

from .support import numbered, stored, timeless

pytestmark = pytest.mark.spark

SMALL = Sizes(hot_rows=200, segment_rows=60)


def spec(model: str, **options: Any) -> CheckerSpec:
    return CheckerSpec("linearizable", {"model": model, "witness_time_s": 60.0, **options})


def bursts(seed: int, vocabulary: str = "cas-register", *, lies: float = 0.0, crashes: float = 0.0) -> list[Op]:
    return bursty_history(random.Random(seed), vocabulary, bursts=25, ops=10, processes=4, lies=lies, crashes=crashes)


def on_keys(*histories: tuple[str | None, list[Op]]) -> list[Op]:
    """One history of several keys, whose rows take turns; each key has processes of its own."""
    rows: list[Op] = []
    waiting = [(key, 1000 * number, list(ops)) for number, (key, ops) in enumerate(histories)]
    while any(ops for _, _, ops in waiting):
        for key, process, ops in waiting:
            rows += [msgspec.structs.replace(op, key=key, process=process + op.process) for op in ops[:3]]
            del ops[:3]
    return numbered(rows)


def wrong(seed: int, *, after: float = 0.6) -> list[Op]:
    """A history in which the first read after some part of it returns what nobody wrote."""
    ops = bursts(seed)
    at = next(n for n, op in enumerate(ops) if n >= after * len(ops) and (op.type, op.f) == ("ok", "read"))
    return [*ops[:at], msgspec.structs.replace(ops[at], value=7), *ops[at + 1 :]]


def inline(run: RunDir) -> list[Verdict]:
    return engine.judge(run.history(), engine.specs_of(run.read_test(), str(run.path)))


def without_how(verdict: Verdict) -> dict[str, Any]:
    """What a verdict says, without how it came about."""
    [found] = timeless([verdict])
    kept = ("keys", "ops", "crashed")
    figures = {name: value for name, value in found.get("figures", {}).items() if name in kept}
    how = [each["how"] for each in verdict.figures.get("hot_keys", ())]
    sentence = verdict.sentence
    for each in how:
        sentence = sentence.removesuffix(each).rstrip()
    return {**found, "figures": figures, "sentence": sentence, "algorithm": ""}


def split_of(verdict: Verdict) -> dict[str | None, int]:
    """In how many segments each hot key was judged."""
    return {each["key"]: each["segments"] for each in verdict.figures.get("hot_keys", ())}


@pytest.mark.slow
def test_a_hot_key_has_the_verdict_that_it_has_here(spark: Spark, tmp_path: Path, misbehaving: None) -> None:
    store, cas = Store(tmp_path / "store"), spec("cas-register")
    runs = [
        stored(store, "good", 1, on_keys(("hot", bursts(1)), ("cold", bursts(2)[:40])), [cas, CheckerSpec("stats")]),
        stored(store, "bad", 2, on_keys(("hot", wrong(1)), ("a", bursts(3, lies=0.02)), ("c", bursts(4))), [cas]),
        stored(store, "keyless", 3, on_keys((None, wrong(5, after=0.95))), [cas]),
        stored(store, "crashed", 4, on_keys(("k", bursts(6, crashes=0.004))), [cas]),
        stored(store, "both", 5, on_keys(("k", wrong(7, after=0))), [cas, CheckerSpec("misbehaving:KeyHash"), cas]),
        stored(store, "unique", 6, on_keys(("k", bursts(8, "register, unique writes"))), [spec("register")]),
        stored(store, "mutex", 7, on_keys(("k", bursts(9, "mutex"))), [spec("mutex")]),
        stored(store, "closed", 8, on_keys(("k", bursts(10, "semaphore"))), [spec("semaphore(2)")]),
        stored(store, "small", 9, on_keys(("k", bursts(11)[:190])), [cas]),
        stored(Store(tmp_path / "another"), "good", 1, on_keys(("hot", bursts(12, lies=0.1))), [cas]),
    ]
    judged = judge_runs(spark.session, [run.path for run in runs], sizes=SMALL)
    for run in runs:
        expected = inline(run)
        assert [without_how(each) for each in judged[run.path]] == [without_how(each) for each in expected], run
    first = {run.test_name: judged[run.path][0] for run in runs}
    assert {name for name, each in first.items() if each.valid == "false"} == {"good", "bad", "keyless", "both"}
    assert judged[runs[0].path][0].valid == "true"
    segments = [split_of(judged[run.path][0]) for run in runs]
    assert segments[0].keys() == {"hot"}
    assert segments[1].keys() == {"hot", "a", "c"}
    assert [bool(found) for found in segments] == [True] * 8 + [False, True]
    assert all(min(found.values()) > 1 for found in segments if found)


@pytest.mark.slow
def test_the_work_is_spread_over_tasks_and_the_verdict_says_so(spark: Spark, tmp_path: Path) -> None:
    table = hot_key.history(20_000, clients=5, burst=100, bad=False)
    run = hot_key.stored(tmp_path, table, 1)
    [verdict] = judge_runs(spark.session, [run.path], sizes=Sizes(hot_rows=10_000, segment_rows=3_000))[run.path]
    [hot] = verdict.figures["hot_keys"]
    assert verdict.valid == "true"
    assert verdict.algorithm == "frontier by segments"
    assert 10 <= hot["segments"] <= 13
    assert 1 < hot["tasks"] <= 8
    ops, segments, tasks = verdict.figures["ops"], hot["segments"], hot["tasks"]
    assert verdict.sentence.endswith(f'Key "hot" was split: {ops} ops in {segments} segments, judged by {tasks} tasks.')
    assert hot_keys([verdict]) == [hot["how"]]


@pytest.mark.slow
def test_a_key_that_is_not_split_says_why(spark: Spark, tmp_path: Path) -> None:
    store = Store(tmp_path)
    busy: list[Op] = [Op(process=0, type="invoke", f="write", key="k", value=0)]
    for number in range(1, 150):
        before = busy[-1] if number == 1 else busy[-2]
        invoke = Op(process=number % 2, type="invoke", f="write", key="k", value=number)
        busy += [invoke, before.complete("ok", before.value)]
    crash = [Op(process=99, type=kind, f="write", key="k", value=1) for kind in ("invoke", "info")]
    crashed = [*crash, *on_keys(("k", bursts(1)))]
    runs = {
        "at no moment was nothing under way": stored(store, "busy", 1, numbered(busy), [spec("register")]),
        "op 0 crashed and may have taken effect at any later time": stored(
            store, "crashed", 2, numbered(crashed), [spec("cas-register")]
        ),
        "a segment could begin in any state of the model 'kv'": stored(
            store, "states", 3, on_keys(("k", bursts(3, "kv"))), [spec("kv")]
        ),
        "segment 1 of 8 ran out of time": stored(
            store, "slow", 4, on_keys(("k", bursts(4))), [spec("cas-register", time_limit_s=1e-9)]
        ),
    }
    judged = judge_runs(spark.session, [run.path for run in runs.values()], sizes=SMALL)
    for why, run in runs.items():
        [verdict] = judged[run.path]
        [hot] = verdict.figures["hot_keys"]
        assert (hot["segments"], hot["how"]) == (1, f'Key "k" was not split: {why}.')
        if verdict.valid == "true":
            assert verdict.sentence.endswith(hot["how"])
        assert without_how(verdict) == without_how(inline(run)[0])


@pytest.mark.slow
def test_what_cannot_be_judged_whole_is_not_judged_in_segments(spark: Spark, tmp_path: Path) -> None:
    ops = on_keys(("k", bursts(1)))
    torn = numbered([*ops[:100], ops[0], *ops[100:]])
    run = stored(Store(tmp_path), "t", 1, torn, [spec("cas-register"), spec("no such model"), spec("mutex")])
    judged = judge_runs(spark.session, [run.path], sizes=SMALL)[run.path]
    assert [verdict.valid for verdict in judged] == ["unknown"] * 3
    for verdict, why in zip(judged, ["while an op of its own is open", "no such model", "while an op"], strict=True):
        assert why in verdict.sentence
        assert "hot_keys" not in verdict.figures
    with pytest.raises(HistoryFormatError, match="while an op of its own is open"):
        inline(run)


@pytest.mark.slow
@pytest.mark.parametrize("bad", [False, True])
def test_half_a_million_ops_on_one_key(spark: Spark, tmp_path: Path, bad: bool) -> None:
    table = hot_key.history(510_000, clients=10, burst=500, bad=bad)
    run = hot_key.stored(tmp_path, table, 1)
    sizes = Sizes(hot_rows=1_000_000)
    [verdict], expected = judge_runs(spark.session, [run.path], sizes=sizes)[run.path], hot_key.inline(run)
    assert verdict.valid == ("false" if bad else "true")
    said, wanted = without_how(verdict), without_how(expected)
    for each in (said, wanted):  # how small the witness became depends on the time that was left for it
        each["evidence"] = {name: each["evidence"][name] for name in ("prefix", "failing_op")} if bad else {}
    assert said == wanted
    [hot] = verdict.figures["hot_keys"]
    assert hot["segments"] > 15
    assert hot["tasks"] > 1

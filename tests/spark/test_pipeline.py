from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pyarrow.parquet as pq
import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.spark.by_path import Judged
from splitbrain.checkers.spark.hot_keys import Sizes
from splitbrain.checkers.spark.pipeline import judge_apart, judge_runs
from splitbrain.checkers.spark.session import Spark
from splitbrain.checkers.stored import Unjudged, specs_for
from splitbrain.checkers.verdict import CheckerSpec, Outcome, Verdict
from splitbrain.results import arrow
from splitbrain.results.errors import DamagedRunError
from splitbrain.results.history import Mop, Op
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store

from .support import (
    IN_GROUPS,
    REGISTER,
    SESSIONS,
    SET,
    crashed,
    keyed,
    numbered,
    register_history,
    set_history,
    stored,
    timeless,
)

pytestmark = pytest.mark.spark


def _inline(run: RunDir) -> list[dict[str, object]]:
    return timeless(engine.judge(run.history(), specs_for(run)))


@pytest.mark.sampled(2)
@IN_GROUPS
def test_spark_says_of_every_run_what_this_process_says(
    spark: Spark, sizes: Sizes, tmp_path: Path, misbehaving: None
) -> None:
    store = Store(tmp_path / "store")
    fragile = CheckerSpec("misbehaving:Fragile")
    runs = [
        stored(store, "register", 1, register_history(1, 20, 30), REGISTER[:2]),
        stored(store, "register", 2, register_history(2, 20, 30, stale=[4, 11]), REGISTER),
        stored(store, "set", 2, set_history(400, lost=[17]), SET),
        crashed(store, "set", 3, set_history(400), SET),
        stored(
            store,
            "keys",
            4,
            keyed("b", None, "wrong", "a", "", "bad", "ü\n/"),
            [fragile, CheckerSpec("stats"), fragile],
        ),
        stored(store, "few", 5, keyed("a"), [fragile]),
        stored(store, "nothing", 6, [], [CheckerSpec("stats"), fragile]),
        stored(store, "sessions", 7, register_history(3, 20, 30, stale=[4]), SESSIONS),
    ]
    verdicts = judge_runs(spark.session, [run.path for run in runs], sizes=sizes)
    assert list(verdicts) == [run.path for run in runs]
    for run in runs:
        assert timeless(verdicts[run.path]) == _inline(run), run
    outcomes = [engine.judged_outcome(verdicts[run.path])[0] for run in runs]
    weakest = verdicts[runs[1].path][0].evidence["models"]["violated"][0]
    assert weakest == "causal consistency (CC)", "a process that does not see its own writes"
    assert outcomes[:4] == [Outcome.PASS, Outcome.VIOLATION, Outcome.VIOLATION, Outcome.INCONCLUSIVE]
    assert runs[3].status() == "recovered"


@pytest.mark.slow
@IN_GROUPS
def test_folders_may_have_any_name_and_runs_may_come_from_several_stores(
    spark: Spark, sizes: Sizes, tmp_path: Path
) -> None:
    runs: list[RunDir] = []
    for number, name in enumerate(["plain", "a b", "x[1]{2,3}*?", "50%41", "c:d#e&f;g", "ü=1", "run=x"]):
        ops = register_history(number, 4, 10, stale=[number] if number < 4 else [])
        runs.append(stored(Store(tmp_path / name), "t", number, ops, REGISTER))
    taken_out = tmp_path / "a run [taken] out"
    shutil.copytree(runs[2].path, taken_out)
    runs.append(RunDir(taken_out))
    verdicts = judge_runs(spark.session, [run.path for run in runs], sizes=sizes)
    for run in runs:
        assert timeless(verdicts[run.path]) == _inline(run), run
    assert [verdicts[run.path][0].valid for run in runs] == ["false"] * 4 + ["true"] * 3 + ["false"]


@pytest.mark.slow
@IN_GROUPS
def test_an_op_is_the_same_here_and_on_the_workers(
    spark: Spark, sizes: Sizes, tmp_path: Path, misbehaving: None
) -> None:
    three = (Mop("r", "x", values=()), Mop("r", "y", values=(1, 2)), Mop("w", "z", 3))
    mops = [None, (), (Mop("r", "x"),), three, None]
    values = [None, "", "ü\n", [1, [None]], {"a": 1.5}]
    ops = numbered(
        Op(process=process, type="info", f="txn", key=key, value=value, mops=each, node="n1", term=2**62, error="é")
        for process, key in ((0, None), (1, "k"), (-1, "k"))
        for each in mops
        for value in values
    )
    specs = [CheckerSpec("misbehaving:Hash"), CheckerSpec("misbehaving:KeyHash")]
    run = stored(Store(tmp_path), "t", 1, ops, specs)
    assert timeless(judge_runs(spark.session, [run.path], sizes=sizes)[run.path]) == _inline(run)
    assert _inline(run)[0]["figures"] == {"hash": arrow.history_hash(arrow.to_table(ops))}


@pytest.mark.slow
def test_numbers_in_names_stay_names(spark: Spark, tmp_path: Path) -> None:
    store = Store(tmp_path)
    lost = {"1": [], "1.0": [1], "01": []}
    runs = [stored(store, name, 1, set_history(5, lost=lost[name]), SET) for name in lost]
    verdicts = judge_runs(spark.session, [run.path for run in runs])
    assert [verdicts[run.path][0].valid for run in runs] == ["true", "false", "true"]


@pytest.mark.slow
def test_every_op_of_a_large_group_arrives_once_and_in_order(spark: Spark, tmp_path: Path) -> None:
    ops = register_history(1, 1, 100_000)
    run = stored(Store(tmp_path), "large", 1, ops, [CheckerSpec("linearizable", {"model": "register"})])
    [verdict] = judge_runs(spark.session, [run.path])[run.path]
    assert (verdict.valid, verdict.figures["ops"]) == ("true", 100_000)


@pytest.mark.slow
@IN_GROUPS
def test_a_run_with_a_wrong_request_breaks_alone(spark: Spark, sizes: Sizes, tmp_path: Path) -> None:
    store = Store(tmp_path)
    wrong = [CheckerSpec("linearisable"), CheckerSpec("linearizable", {"model": "no such model"}), CheckerSpec("stats")]
    bad, good = stored(store, "t", 1, keyed("a"), wrong), stored(store, "t", 2, set_history(5), SET)
    verdicts = judge_runs(spark.session, [bad.path, good.path], sizes=sizes)
    assert [verdict.valid for verdict in verdicts[bad.path]] == ["unknown", "unknown", "true"]
    assert "Did you mean 'linearizable'" in verdicts[bad.path][0].sentence
    assert "no such model" in verdicts[bad.path][1].sentence
    assert engine.judged_outcome(verdicts[bad.path])[0] is Outcome.HARNESS_ERROR
    assert timeless(verdicts[good.path]) == _inline(good)


@pytest.mark.slow
@IN_GROUPS
def test_a_wrong_request_of_one_key_hides_no_violation_of_another(spark: Spark, sizes: Sizes, tmp_path: Path) -> None:
    store, runs = Store(tmp_path / "store"), list[RunDir]()
    good, bad = register_history(1, 1, 20), register_history(1, 1, 20, stale=[0])
    for number, (key, judged_too) in enumerate([("a", bad), ("z", bad), ("a", good), (None, good)]):
        ops = [*judged_too, *[msgspec.structs.replace(op, key=key) for op in set_history(3)]]
        sets = [msgspec.structs.replace(op, key="of a set") for op in set_history(3, lost=[1])]
        wrong_set = numbered(keyed("wrong set"))
        wrong_set = [msgspec.structs.replace(op, f="add", value="x") for op in wrong_set]
        specs = [*REGISTER[:1], CheckerSpec("set")]
        runs.append(stored(store, "mixed", number, numbered([*ops, *sets, *wrong_set]), specs))
    found = judge_runs(spark.session, [run.path for run in runs], sizes=sizes)
    for run in runs:
        inline = engine.judge_each(run.history(), specs_for(run))
        assert _without_tracebacks(found[run.path]) == _without_tracebacks(inline), run
    assert [found[run.path][0].valid for run in runs] == ["false", "false", "unknown", "unknown"]
    assert "Key 'a' could not be judged: model 'cas-register' does not know 'add'" in found[runs[0].path][0].sentence
    assert "cannot judge this run: model 'cas-register' does not know 'add'" in found[runs[2].path][0].sentence
    assert [found[run.path][1].valid for run in runs] == ["false"] * 4
    assert "Key '0' could not be judged: " in found[runs[0].path][1].sentence
    assert "wrong set" in [crash["key"] for crash in found[runs[0].path][1].evidence["crashes"]]


def _without_tracebacks(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Verdicts without the ways on which they came about."""
    plain = timeless(verdicts)
    for verdict in plain:
        for crash in verdict.get("evidence", {}).get("crashes", ()):
            crash["traceback"] = ""
    return plain


@pytest.mark.slow
@IN_GROUPS
def test_each_run_that_cannot_be_judged_is_named_and_the_others_are_judged(
    spark: Spark, sizes: Sizes, tmp_path: Path
) -> None:
    store = Store(tmp_path)
    good = [stored(store, "good", seed, set_history(5), SET) for seed in (1, 2)]
    running = store.create("running", 2, {"checkers": []}, 0)
    running.history_writer().flush()
    cut = stored(store, "cut", 3, set_history(5), SET)
    cut.history_path.write_bytes(cut.history_path.read_bytes()[:-100])
    within = stored(store, "within", 4, register_history(1, 10, 100), REGISTER)
    content = bytearray(within.history_path.read_bytes())
    content[100:400] = bytes(300)
    within.history_path.write_bytes(content)
    newer = stored(store, "newer", 5, set_history(5), SET)
    (newer.path / "test.json").write_text('{"format": 2}')
    foreign = stored(store, "foreign", 6, set_history(5), SET)
    pq.write_table(arrow.to_table([]).drop_columns(["index"]), foreign.history_path)
    expected = {
        running.path: "still under way",
        cut.path: f"{cut.history_path}: this is not a whole Parquet file",
        within.path: f"{within.history_path}: this is not a whole Parquet file",
        newer.path: "upgrade splitbrain",
        foreign.path: f"{foreign.history_path}: there is no column 'index'",
        tmp_path / "nowhere": "not the folder of a run",
    }
    found = judge_apart(spark.session, [good[0].path, *expected, good[1].path], sizes=sizes)
    for run in good:
        assert timeless(cast(Judged, found[run.path]).verdicts) == _inline(run)
    for path, why in expected.items():
        each = found[path]
        assert isinstance(each, Unjudged)
        assert why in each.why
    with pytest.raises(DamagedRunError, match="upgrade splitbrain"):
        judge_runs(spark.session, [good[0].path, newer.path])


@pytest.mark.slow
@IN_GROUPS
def test_a_checker_that_ends_its_process_breaks_alone(
    spark: Spark, sizes: Sizes, tmp_path: Path, misbehaving: None
) -> None:
    store = Store(tmp_path)
    ops = numbered([*keyed("a", "b"), *set_history(3, lost=[1])])
    specs = [CheckerSpec("misbehaving:Deadly"), CheckerSpec("misbehaving:DeadlyMerge"), *SET]
    ruined = stored(store, "t", 1, ops, [*specs, CheckerSpec("misbehaving:Fragile")])
    sound = stored(store, "t", 2, set_history(5), SET)
    found = judge_runs(spark.session, [ruined.path, sound.path], sizes=sizes)
    deadly, merging, *others = found[ruined.path]
    for each in (deadly, merging):
        assert each.valid == "unknown"
        assert "it ended its process with exit code 1" in each.sentence
    alone = engine.judge_each(ruined.history(), [*SET, CheckerSpec("misbehaving:Fragile")])
    assert timeless(others) == timeless(alone)
    assert [each.valid for each in others] == ["false", "true", "true"]
    assert timeless(found[sound.path]) == _inline(sound)


@pytest.mark.slow
def test_a_violation_that_was_known_before_a_checker_was_stopped_stays_one(
    spark: Spark, tmp_path: Path, misbehaving: None
) -> None:
    run = stored(Store(tmp_path), "t", 1, keyed("wrong", "z", "z"), [CheckerSpec("misbehaving:DeadlyOnZ")])
    for sizes in (Sizes(run_rows=1_000_000), Sizes(run_rows=0)):
        [verdict] = judge_runs(spark.session, [run.path], sizes=sizes)[run.path]
        assert verdict.valid == "false"
        assert "exit code 1" in str(engine.crashed([verdict]))


@pytest.mark.slow
def test_a_run_that_ends_its_worker_fails_alone(spark: Spark, tmp_path: Path, misbehaving: None) -> None:
    store = Store(tmp_path)
    runs = [stored(store, "t", seed, set_history(5), SET) for seed in range(5)]
    runs[3].write_test({**runs[3].read_test(), "checkers": [{"name": "misbehaving:EndsTheWorker", "options": {}}]})
    found = judge_apart(spark.session, [run.path for run in runs])
    for number, run in enumerate(runs):
        each = found[run.path]
        assert isinstance(each, Unjudged) == (number == 3), each
    assert str(runs[3].path) in cast(Unjudged, found[runs[3].path]).why


@pytest.mark.slow
def test_no_runs_no_verdicts(spark: Spark) -> None:
    assert judge_runs(spark.session, []) == {}


@pytest.mark.slow
def test_few_groups_are_not_spread_over_hundreds_of_tasks(spark: Spark, tmp_path: Path) -> None:
    run = stored(Store(tmp_path), "t", 1, register_history(1, 20, 100), REGISTER)
    tracker = spark.session.sparkContext.statusTracker()
    spark.session.sparkContext.setJobGroup("counted", "counted")
    judge_runs(spark.session, [run.path])
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup("counted")]
    stages: list[Any] = [job.stageIds for job in jobs if job is not None]
    tasks = [found.numTasks for ids in stages for found in map(tracker.getStageInfo, ids) if found is not None]
    assert tasks
    assert max(tasks) <= 8

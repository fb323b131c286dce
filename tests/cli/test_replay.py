"""`splitbrain replay` and `splitbrain shrink`: what failed happens again, exactly, smaller."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from splitbrain.checkers.verdict import Outcome
from splitbrain.harness.campaigns import replaying
from splitbrain.harness.campaigns.planned import Guilt, Played, Task, options_of, play_plan, with_revision
from splitbrain.harness.campaigns.replaying import Original, compare, original_of, replay
from splitbrain.harness.campaigns.shrinking import Pool, failure_of
from splitbrain.harness.campaigns.workers import Report, Workers
from splitbrain.harness.cli.main import main
from splitbrain.harness.cli.progress import Progress
from splitbrain.harness.generators.script import ScriptedFault, ScriptedOp
from splitbrain.harness.running.plan import Expectation, Plan, encode, figures, load
from splitbrain.results.arrow import from_table, history_hash
from splitbrain.results.checksums import CHECKSUMS
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.history import NEMESIS, Op
from splitbrain.results.origin import versions
from splitbrain.results.plainfile import DOCUMENT_BYTES
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store
from tests.cli.support import SPLITBRAIN, answer, environment, kill, only_run, splitbrain, start, wait_for_ops
from tests.spark.support import SET, set_history, stored

OPTIONS: dict[str, Any] = {
    "workload": "register",
    "nemesis": "partition",
    "system": "metadata",
    "backend": "sim",
    "bug": "M23",
    "nodes": "5",
    "concurrency": "2n",
    "rate": 100.0,
    "time_limit": 2.0,
    "interval": None,
    "op_timeout": 2.0,
    "recovery": 20.0,
    "seed": 1,
    "world": "lan",
}
MS = 1_000_000


def stale_read(**changes: Any) -> Plan:
    """A leader is cut off; the others write, and it still answers what it remembers (M23)."""
    order = ["n1", "n2", "n3", "n4", "n5"]
    ops = [
        *(ScriptedOp(at_ns=(1500 + 100 * i) * MS, thread=i, f="write", key="0", value=1) for i in range(5)),
        *(ScriptedOp(at_ns=(2100 + 20 * i) * MS, thread=5 + i % 5, f="read", key="0") for i in range(20)),
        *(ScriptedOp(at_ns=(1500 + 20 * i) * MS, thread=i % 5, f="write", key="1", value=i) for i in range(40)),
    ]
    faults = (
        ScriptedFault(at_ns=200 * MS, f="start-partition", value={
            "fault": "partition", "action": "start", "shape": "isolate-leader", "order": order}),
        ScriptedFault(at_ns=2550 * MS, f="stop-partition", value={"fault": "partition", "action": "stop"}),
    )  # fmt: skip
    plan = Plan(
        options=OPTIONS,
        nodes=tuple(order),
        placement=(*order, *order),
        end_ns=2600 * MS,
        faults=faults,
        ops=tuple(ops),
    )
    return msgspec.structs.replace(plan, **changes)


@pytest.fixture(scope="module")
def shrunk(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The folder of a shrunk plan (`small.json`) with its store, and what the command answered."""
    folder = tmp_path_factory.mktemp("shrunk")
    (folder / "large.json").write_bytes(encode(stale_read()))
    done = splitbrain("shrink", "large.json", "-o", "small.json", "--json", "--jobs", "2", cwd=folder, timeout_s=300)
    assert done.returncode == 1, done.stderr
    return folder, answer(done)


@pytest.mark.slow
def test_a_failing_plan_comes_down_to_a_few_ops(shrunk: tuple[Path, Any]) -> None:
    folder, found = shrunk
    plan = load(folder / "small.json")
    size = figures(plan)
    assert size.faults <= 3
    assert size.ops <= 10
    assert (size.clients, size.nodes) <= (3, 4)
    assert found["minimal"] is True
    assert found["outcome"] == "violation"
    assert found["problem"] is None
    assert found["before"] == {"faults": 1, "ops": 65, "clients": 10, "nodes": 5, "seconds": 2.6}
    assert found["after"] == msgspec.to_builtins(size)
    assert plan.expect is not None
    assert (plan.expect.checker, plan.expect.anomalies) == ("linearizable", ("nonlinearizable",))
    assert plan.options["nodes"] == ",".join(plan.nodes)


@pytest.mark.slow
def test_the_smallest_plan_is_a_run_of_its_own(shrunk: tuple[Path, Any]) -> None:
    folder, found = shrunk
    run = RunDir(only_run(folder / "store"))
    plan = load(run.plan_path)
    assert run.plan_path.read_bytes() == (folder / "small.json").read_bytes()
    assert plan.expect is not None
    assert history_hash(run.history()) == plan.expect.history
    assert Path(folder / found["report"]).read_text().startswith("<!DOCTYPE html>")
    done = splitbrain("replay", "latest", "--json", cwd=folder)
    assert (done.returncode, answer(done)["same"]) == (1, 1)


@pytest.mark.slow
def test_it_fails_in_the_same_way_every_time_and_in_every_process(shrunk: tuple[Path, Any]) -> None:
    folder, _ = shrunk
    plan = load(folder / "small.json")
    assert plan.expect is not None
    done = splitbrain("replay", "small.json", "--times", "12", "--jobs", "2", "--json", cwd=folder)
    found = answer(done)
    assert done.returncode == 1
    assert found["hashes"] == {plan.expect.history: 12}
    assert found["same"] == 12
    for hash_seed in ("0", "77"):
        other = subprocess.run(
            [sys.executable, *SPLITBRAIN, "replay", "small.json", "--json"],
            cwd=folder,
            env=environment(PYTHONHASHSEED=hash_seed),
            capture_output=True,
            check=False,
            timeout=120,
        )
        assert json.loads(other.stdout)["hashes"] == {plan.expect.history: 1}
    assert plan.expecting(play_plan(plan).expectation()) == plan


@pytest.mark.slow
def test_a_search_that_is_interrupted_says_so_at_once_and_that_nothing_is_smaller(tmp_path: Path) -> None:
    (tmp_path / "large.json").write_bytes(encode(stale_read()))
    process = start("shrink", "large.json", "--jobs", "1", cwd=tmp_path)
    assert process.stderr is not None
    assert "first run" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    told = [line for line in err.splitlines() if "compiling" not in line]
    assert "the search ends with the smallest plan so far" in told[0]
    assert process.returncode == 1
    assert "ended early: no smaller plan was found" in out


@pytest.mark.slow
def test_without_the_bug_the_plan_finds_nothing(shrunk: tuple[Path, Any]) -> None:
    folder, _ = shrunk
    plan = load(folder / "small.json")
    assert play_plan(msgspec.structs.replace(plan, options={**plan.options, "bug": ""})).guilt == ()


@pytest.mark.slow
def test_what_does_not_fail_cannot_be_shrunk(tmp_path: Path) -> None:
    healthy = stale_read(options={**OPTIONS, "bug": ""}, end_ns=100 * MS, ops=(), faults=())
    (tmp_path / "healthy.json").write_bytes(encode(healthy))
    done = splitbrain("shrink", "healthy.json", cwd=tmp_path)
    assert done.returncode == 254
    assert "with seeds 1 to 20, none ends with a violation: there is nothing to shrink" in done.stderr
    assert not (tmp_path / "store").exists()


@pytest.mark.slow
def test_a_run_in_simulation_is_replayed_exactly_or_what_differs_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--backend", "sim", "--nodes", "3", "--nemesis", "none", "--time-limit", "5", "--seed", "4"]
    ran = splitbrain("run", "--json", *options, cwd=tmp_path)
    assert answer(ran)["outcome"] == "pass"
    same = splitbrain("replay", "latest", "--json", cwd=tmp_path)
    found = answer(same)
    assert (same.returncode, found["outcome"], found["same"], found["problem"]) == (0, "pass", 1, None)

    refused = splitbrain("shrink", "latest", cwd=tmp_path)
    assert refused.returncode == 254
    assert "did not fail (pass)" in refused.stderr

    run = RunDir(only_run(tmp_path / "store"))
    document = run.read_test()
    run.write_test({**document, "options": {**document["options"], "seed": 5}, "git": None})
    other = splitbrain("replay", "latest", cwd=tmp_path)
    assert other.returncode == 0
    assert "another history" in other.stdout
    assert "the revision of the code of that run is unknown" in other.stdout

    clean = {"revision": "abc", "dirty": False}
    monkeypatch.setattr(replaying, "git_revision", lambda: clean)
    run.write_test({**run.read_test(), "git": clean})
    original = original_of("latest", tmp_path / "store")
    accused = compare(original, replay(original, 1, 1))
    assert "the simulation is not deterministic" in str(accused.problem)

    run.write_test({**run.read_test(), "versions": {**document["versions"], "python": "3.1.4"}})
    original = original_of("latest", tmp_path / "store")
    explained = compare(original, replay(original, 1, 1))
    assert (explained.same, explained.problem) == (0, None)
    assert "python 3.1.4 then" in explained.sentence


# --- runs that were ended early ---------------------------------------------------------------------------------------

SHORT = ["run", "--backend", "sim", "--nodes", "3", "--nemesis", "none", "--time-limit", "3", "--seed", "4", "--store"]
CLEAN = {"revision": "abc", "dirty": False}


def ended(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run the command in this process: its exit code."""
    monkeypatch.setattr(sys, "argv", ["splitbrain", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return cast("int", end.value.code)


def interrupted_run(store: Path, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    """A run that somebody ended by Ctrl-C, after one second of its three."""
    observe = Progress.observe

    def interrupt(progress: Progress, op: Op) -> None:
        observe(progress, op)
        if op.time >= 1000 * MS and not asked:
            asked.append(1)
            signal.raise_signal(signal.SIGINT)

    asked: list[int] = []
    with monkeypatch.context() as within:
        within.setattr(Progress, "observe", interrupt)
        assert ended(within, *SHORT, str(store)) == 2
    return RunDir(only_run(store))


def killed_run(store: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> RunDir:
    """A run whose controller was killed after so many rows."""
    assert ended(monkeypatch, *SHORT, str(store)) in (0, 2)
    run = RunDir(only_run(store))
    ops = from_table(run.history())[:rows]
    for path in (run.history_path, run.path / "verdict.json", run.plan_path, run.path / CHECKSUMS):
        path.unlink()
    writer = run.history_writer()
    for op in ops:
        writer.record(op)
    writer.flush()
    writer.abandon()
    document = run.read_test()
    run.write_test({name: value for name, value in document.items() if name != "simulation"})
    return run


def of_clean_code(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing explain another history: neither changes that nobody committed, nor an unknown revision."""
    run.write_test({**run.read_test(), "git": CLEAN})
    monkeypatch.setattr(replaying, "git_revision", lambda: CLEAN)


@pytest.mark.slow
def test_the_replay_of_an_interrupted_run_is_compared_up_to_the_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = interrupted_run(tmp_path, monkeypatch)
    of_clean_code(run, monkeypatch)
    capsys.readouterr()
    assert ended(monkeypatch, "replay", str(run.path), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sentence"] == "the run was interrupted at 1.0 s; up to there it is the same history."
    assert (found["outcome"], found["same"], found["problem"], found["cut"]["how"]) == ("pass", 1, None, "interrupted")

    assert ended(monkeypatch, "replay", str(run.plan_path)) in (0, 2)
    assert "the run was interrupted at 1.0 s, so that there is nothing whole to compare it" in capsys.readouterr().out

    document = run.read_test()
    run.write_test({**document, "options": {**document["options"], "seed": 5}})
    assert ended(monkeypatch, "replay", str(run.path)) == 255
    told = capsys.readouterr().out
    assert "the run was interrupted at 1.0 s; up to there it is another history" in told
    assert "the simulation is not deterministic" in told


@pytest.mark.slow
def test_the_replay_of_a_killed_run_is_compared_as_far_as_its_record_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = killed_run(tmp_path, monkeypatch, 100)
    of_clean_code(run, monkeypatch)
    for _ in range(2):
        capsys.readouterr()
        assert ended(monkeypatch, "replay", str(run.path)) == 0
        told = capsys.readouterr().out
        assert "the controller of the run was killed or crashed at about 0." in told
        assert "up to there it is the same history" in told
        assert ended(monkeypatch, "analyze", str(run.path), "--engine", "inline") == 2
    original = original_of(str(run.path), tmp_path)
    [played] = replay(original, 1, 1)
    accused = compare(original, [msgspec.structs.replace(played, beginning="0" * 64)])
    assert (accused.same, "not deterministic" in str(accused.problem)) == (0, True)


@pytest.mark.slow
def test_a_run_that_recorded_nothing_accuses_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = killed_run(tmp_path, monkeypatch, 0)
    of_clean_code(run, monkeypatch)
    original = original_of(str(run.path), tmp_path)
    found = compare(original, replay(original, 1, 1))
    assert (found.same, found.problem) == (None, None)
    assert "the run was ended early, before there was anything to compare it with" in found.sentence


def test_a_replay_tells_what_it_does() -> None:
    plan = stale_read(end_ns=1600 * MS, ops=stale_read().ops[:1], faults=())
    told: list[tuple[int, str]] = []
    original = Original(source="it", options=options_of(plan.options, "it"), plan=plan)
    replay(original, 1, 1, lambda done, what: told.append((done, what)))
    assert {done for done, _ in told} == {0}
    whats = [what for _, what in told]
    assert "replaying it: simulating, at 2 s of its time" in whats
    assert "replaying it: judging: linearizable" in whats


@pytest.mark.slow
def test_a_replay_that_takes_long_shows_on_standard_error_that_it_lives(tmp_path: Path) -> None:
    run = ["run", "--backend", "sim", "--time-limit", "60", "--seed", "5"]
    assert splitbrain(*run, cwd=tmp_path).returncode in (0, 2)
    done = splitbrain("replay", "latest", "--json", cwd=tmp_path)
    assert "replaying run " in done.stderr
    assert "simulating, at " in done.stderr
    assert answer(done)["same"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("how", ["interrupted", "killed"])
def test_a_run_that_was_ended_under_faults_is_the_same_as_far_as_it_goes(tmp_path: Path, how: str) -> None:
    store = tmp_path / "store"
    process = start("run", "--backend", "sim", "--time-limit", "60", "--seed", "5", cwd=tmp_path)
    wait_for_ops(store, at_least_bytes=100_000)
    if how == "killed":
        kill(process)
    else:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    found = answer(splitbrain("replay", "latest", "--json", cwd=tmp_path))
    assert (found["cut"]["how"], found["same"], found["problem"]) == (how, 1, None), found["sentence"]
    assert found["cut"]["rows"] > 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", [104, 115, 124])
def test_the_plan_of_a_simulated_run_gives_that_run_until_it_is_changed(seed: int, tmp_path: Path) -> None:
    options = [
        "--backend",
        "sim",
        "--world",
        "swarm",
        "--nemesis",
        "partition,packet,kill",
        "--time-limit",
        "8",
        "--interval",
        "1",
    ]
    ran = splitbrain("run", *options, "--seed", str(seed), cwd=tmp_path)
    assert ran.returncode in (0, 2)
    run = RunDir(only_run(tmp_path / "store"))
    plan = load(run.plan_path)
    assert plan.expect is not None
    assert plan.expect.history == history_hash(run.history())

    found = answer(splitbrain("replay", str(run.plan_path), "--json", cwd=tmp_path))
    assert (found["same"], found["problem"]) == (1, None)

    changed = msgspec.structs.replace(plan, ops=plan.ops[:-20], expect=None)
    (tmp_path / "changed.json").write_bytes(encode(changed))
    found = answer(splitbrain("replay", "changed.json", "--json", cwd=tmp_path))
    assert plan.expect.history not in found["hashes"]


@pytest.mark.slow
def test_a_plan_that_was_changed_by_hand_is_judged_as_a_plan_of_its_own(tmp_path: Path) -> None:
    plan = stale_read(options={**OPTIONS, "bug": ""})
    (tmp_path / "plan.json").write_bytes(encode(plan))
    first = answer(splitbrain("replay", "plan.json", "--json", cwd=tmp_path))
    expect = Expectation(outcome="pass", history=next(iter(first["hashes"])))
    (tmp_path / "known.json").write_bytes(encode(plan.expecting(expect)))
    known = splitbrain("replay", "known.json", cwd=tmp_path)
    assert known.returncode == first_code(first)
    assert "the same history" in known.stdout

    document = json.loads((tmp_path / "known.json").read_text())
    del document["ops"][::3]
    (tmp_path / "changed.json").write_text(json.dumps(document, indent=1))
    changed = splitbrain("replay", "changed.json", cwd=tmp_path)
    assert changed.returncode in (0, 2), changed.stdout
    assert "the plan was changed since it was run" in changed.stdout

    wrong = msgspec.structs.replace(expect, history="0" * 32)
    (tmp_path / "wrong.json").write_bytes(encode(plan.expecting(wrong)))
    original = original_of(str(tmp_path / "wrong.json"), tmp_path)
    same_code = msgspec.structs.replace(original, versions=with_revision(versions(), {"revision": "r", "dirty": False}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replaying, "git_revision", lambda: {"revision": "r", "dirty": False})
        found = compare(same_code, [Played(number=0, outcome=Outcome.PASS, history_hash="1" * 32)])
    assert found.problem is not None, "an unchanged plan with another history is still an error of the harness"
    assert "not deterministic" in found.problem


def first_code(document: dict[str, Any]) -> int:
    return Outcome(document["outcome"]).exit_code


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["replay", "broken.json"], "broken.json"),
        (["shrink", "broken.json"], "broken.json"),
        (["replay", "nowhere"], "there is no run in the store"),
        (["replay", "good.json", "--times", "0"], "--times 0"),
        (["shrink", "good.json", "--budget", "0"], "budget must be positive"),
        (["shrink", "good.json", "--jobs", "0"], "--jobs 0"),
    ],
)
def test_what_cannot_be_done_is_told_in_a_line(tmp_path: Path, arguments: list[str], problem: str) -> None:
    (tmp_path / "broken.json").write_text('{"format": 1}')
    (tmp_path / "good.json").write_bytes(encode(stale_read()))
    done = splitbrain(*arguments, cwd=tmp_path)
    assert done.returncode == 254
    assert problem in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ({"options": True}, "Expected `object | null`, got `bool` - at `$.options`"),
        ({"versions": [1]}, "got `array` - at `$.versions`"),
        ({"git": {"revision": "r"}}, "missing required field `dirty` - at `$.git`"),
        ({"simulation": "x"}, "got `str` - at `$.simulation`"),
    ],
)
@pytest.mark.parametrize("plan_of", [original_of, failure_of])
def test_a_test_that_says_what_no_run_writes_is_named(
    tmp_path: Path, plan_of: Callable[[str, Path], object], damage: dict[str, Any], why: str
) -> None:
    run = stored(Store(tmp_path), "t", 1, set_history(20), SET)
    run.amend_test(**damage)
    with pytest.raises(HistoryFormatError) as found:
        plan_of(run.name, tmp_path)
    assert str(run.path / "test.json") in str(found.value)
    assert why in str(found.value)


def test_a_plan_that_is_no_plain_file_or_too_large_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(HistoryFormatError, match="not a plain file"):
        load(tmp_path / "pipe")
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(DOCUMENT_BYTES + 1)
    with pytest.raises(HistoryFormatError, match="such a file has at most"):
        load(tmp_path / "hole")


@pytest.mark.slow
@pytest.mark.cluster
def test_on_real_nodes_the_plan_is_repeated_and_its_failures_are_counted(tmp_path: Path) -> None:
    request = {"fault": "partition", "shape": "halves", "order": ["n3", "n1", "n2"]}
    plan = Plan(
        options={**OPTIONS, "bug": "", "backend": "local"},
        nodes=("n1", "n2", "n3"),
        placement=("n3", "n1"),
        end_ns=900 * MS,
        faults=(
            ScriptedFault(at_ns=500 * MS, f="start-partition", value={**request, "action": "start"}),
            ScriptedFault(at_ns=700 * MS, f="stop-partition", value={"fault": "partition", "action": "stop"}),
        ),
        ops=tuple(ScriptedOp(at_ns=(100 + 100 * i) * MS, thread=i % 2, f="read", key=str(i)) for i in range(3)),
    )
    (tmp_path / "plan.json").write_bytes(encode(plan))
    done = splitbrain("replay", "plan.json", "--times", "2", "--json", cwd=tmp_path)
    found = answer(done)
    assert (found["times"], found["failed"]) == (2, 0)
    assert done.returncode in (0, 2)
    for each in found["runs"]:
        history = RunDir(tmp_path / each["run"]).history().to_pylist()
        begun = [op for op in history if op["type"] == "invoke"]
        clients = [(op["process"], op["node"], op["key"]) for op in begun if op["process"] >= 0]
        assert clients == [(0, "n3", "0"), (1, "n1", "1"), (0, "n3", "2")]
        struck = [op for op in begun if op["process"] == NEMESIS and op["f"] != "heal"][:2]
        faults = [(op["f"], op["time"] >= due) for op, due in zip(struck, (500 * MS, 700 * MS), strict=True)]
        assert faults == [("start-partition", True), ("stop-partition", True)]


# --- the order of candidates ------------------------------------------------------------------------------------------


class Slow:
    """Workers of which those that are given something later answer first."""

    def __init__(self, jobs: int, failing: set[int]) -> None:
        self.jobs = jobs
        self.failing = failing
        self.tasks: list[Task] = []
        self.given = 0

    @property
    def free(self) -> int:
        return self.jobs - len(self.tasks)

    def give(self, task: Task) -> None:
        self.tasks.append(task)
        self.given += 1

    def wait(self, timeout_s: float) -> list[Report[Task, Played]]:
        task = self.tasks.pop()
        guilt = (Guilt("linearizable", ("nonlinearizable",), None),) if task.number in self.failing else ()
        return [Report(task, Played(number=task.number, outcome=Outcome.PASS, guilt=guilt), None, 0.0)]


@pytest.mark.parametrize("jobs", [1, 2, 7, 30])
def test_the_first_candidate_that_fails_counts_whoever_answers_first(jobs: int) -> None:
    workers = Slow(jobs, failing={4, 6, 11})
    pool = Pool(cast("Workers[Task, Played]", workers))
    pulled: list[Plan] = []

    def candidates() -> Iterator[Plan]:
        for i in range(10):
            pulled.append(stale_read(end_ns=i + 1))
            yield pulled[-1]

    found = pool.failing(candidates(), Guilt("linearizable", ("nonlinearizable",), "0"))
    assert found is pulled[4]
    # what was under way then is not taken for an answer to the next question
    again = [stale_read(end_ns=i + 1) for i in range(3)]
    assert pool.failing(iter(again), Guilt("linearizable", ("other",), None)) is None


@pytest.mark.slow
def test_a_replay_that_is_kept_goes_into_the_store_of_its_command_and_is_not_the_latest_run(tmp_path: Path) -> None:
    run = ["run", "--backend", "sim", "--nemesis", "none", "--time-limit", "1", "--seed", "3", "--store", "my store"]
    first = answer(splitbrain(*run, "--json", cwd=tmp_path))
    assert first["command"].endswith("--seed 3 --store 'my store'")
    assert RunDir(tmp_path / first["run"]).read_test()["command"] == first["command"]
    replayed = answer(splitbrain("replay", "latest", "--keep", "--store", "my store", "--json", cwd=tmp_path))
    kept = RunDir(tmp_path / replayed["run"])
    assert kept.path != tmp_path / first["run"]
    assert kept.read_test()["derived_from"] == f"run {RunDir(tmp_path / first['run']).name}"
    store = Store(tmp_path / "my store")
    assert store.find("latest").path == tmp_path / first["run"]
    assert store.find(kept.name).path == kept.path

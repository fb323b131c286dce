"""`splitbrain run` on real processes with real faults: outcomes, Ctrl-C, kill -9, and every kind of user."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness.backends.agent import volumes
from splitbrain.results.history import NEMESIS
from splitbrain.results.rundir import RunDir
from tests import plain_user
from tests.cli.support import (
    SPLITBRAIN,
    analyzed,
    comes_out,
    environment,
    kill,
    only_run,
    processes_of,
    splitbrain,
    start,
    wait_for_ops,
)

pytestmark = pytest.mark.cluster

SHORT = ["--nodes", "3", "--nemesis", "partition,kill", "--time-limit", "14", "--interval", "2", "--seed", "1"]


def test_a_healthy_cluster_passes_and_leaves_everything_a_person_needs(tmp_path: Path) -> None:
    runs: list[subprocess.CompletedProcess[str]] = []

    def once(store: Path) -> subprocess.CompletedProcess[str]:
        runs.append(splitbrain("run", "--json", "--store", str(store), *SHORT))
        return runs[-1]

    found, store = comes_out("pass", once, tmp_path)
    run = RunDir(only_run(store))
    assert run.status() == "complete"
    assert Path(found["report"]).read_text().startswith("<!DOCTYPE html>")
    assert run.telemetry().num_rows > 0
    for node in ("n1", "n2", "n3"):
        assert (run.path / "nodes" / node / "log").stat().st_size > 0
    assert "start-partition ok" in run.log_path.read_text()
    up = f"up in {run.read_test()['up_s']:.1f} s"  # how long until every node answered
    assert run.read_test()["up_s"] > 0
    assert up in run.log_path.read_text().splitlines()
    assert up in runs[-1].stderr
    ops = run.history().to_pylist()
    done_to_it = [json.loads(op["value"]) for op in ops if op["process"] == NEMESIS and op["type"] == "ok"]
    faults = [each for each in done_to_it if each["action"] == "start"]
    assert {each["fault"] for each in faults} == {"partition", "kill"}
    assert all(each["evidence"] for each in faults)
    assert f"--seed {found['seed']}" in found["command"]
    assert processes_of(store) == []


def struck_before_any_client_came(run: subprocess.CompletedProcess[str]) -> bool:
    """Whether a bug of elections showed at the very first one: nodes that notice end themselves, and no test begins."""
    return run.returncode == 255 and "did not become usable" in run.stderr and "InvariantError" in run.stderr


@pytest.mark.parametrize(
    ("bug", "workload", "anomaly"),
    [
        ("M23", "register", "nonlinearizable"),
    ],
)
@pytest.mark.slow
def test_a_bug_is_found_and_named(tmp_path: Path, bug: str, workload: str, anomaly: str) -> None:
    options = ("--bug", bug, "--workload", workload, "--nemesis", "partition", "--rate", "100", "--time-limit", "30")

    def once(folder: Path) -> subprocess.CompletedProcess[str]:
        runs = (splitbrain("run", "--json", *options, "--store", str(folder / f"{number}")) for number in range(4))
        return next(run for run in runs if not struck_before_any_client_came(run))

    # What nodes tell of themselves may convict as well, and alone; here it is about what clients saw.
    def convicting(found: Any) -> list[Any]:
        return [verdict for verdict in found["verdicts"] if anomaly in verdict["anomalies"]]

    found, _ = comes_out("violation", once, tmp_path, shows=lambda found, _: bool(convicting(found)))
    guilty = convicting(found)[0]
    assert guilty["valid"] is False
    assert any(f"n{i}" in guilty["sentence"] for i in range(1, 6))
    assert guilty["evidence"]


@pytest.mark.slow
def test_a_single_node_without_faults_passes(tmp_path: Path) -> None:
    words = ["--nodes", "1", "--nemesis", "none", "--workload", "declare", "--time-limit", "4", "--concurrency", "4"]
    comes_out("pass", lambda store: splitbrain("run", "--json", *words, "--store", str(store)), tmp_path)


def test_ctrl_c_heals_stops_and_judges(tmp_path: Path) -> None:
    store = tmp_path / "store"
    process = start(
        "run",
        "--json",
        "--nemesis",
        "partition,pause",
        "--interval",
        "1",
        "--nodes",
        "3",
        "--time-limit",
        "120",
        "--store",
        str(store),
        cwd=tmp_path,
    )
    wait_for_ops(store, at_least_bytes=15_000)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    found = json.loads(out)
    assert process.returncode in (0, 2), err
    assert found["outcome"] in ("pass", "inconclusive")
    assert {verdict["checker"]: verdict["valid"] for verdict in found["verdicts"]}["linearizable"] is True
    assert RunDir(only_run(store)).status() == "complete"
    assert processes_of(store) == []


@pytest.mark.slow
def test_a_third_ctrl_c_ends_everything_at_once_and_leaves_nothing_behind_but_the_history(tmp_path: Path) -> None:
    store = tmp_path / "store"
    process = start(
        "run", "--nemesis", "pause", "--nodes", "3", "--time-limit", "120", "--store", str(store), cwd=tmp_path
    )
    wait_for_ops(store)
    log = only_run(store) / "splitbrain.log"
    for number in (1, 2, 3):
        process.send_signal(signal.SIGINT)
        while number < 3 and process.poll() is None and f'"requests":{number}' not in log.read_text():
            time.sleep(0.01)  # signals that come all at once would be one
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert f"To judge it:  splitbrain analyze {only_run(store)}" in err
    assert processes_of(store) == []
    judged = splitbrain("analyze", str(only_run(store)), "--engine", "inline", cwd=tmp_path)
    assert judged.returncode == 2, judged.stderr


@pytest.mark.slow
def test_a_terminal_that_is_closed_ends_a_run_like_ctrl_c(tmp_path: Path) -> None:
    """Nobody sees what is said from then on, and no error comes of that: the run is healed, stopped and judged."""
    store = tmp_path / "store"
    terminal, ours = os.openpty()
    arguments = ["run", "--nemesis", "partition,pause", "--interval", "1", "--nodes", "3", "--time-limit", "120"]
    process = subprocess.Popen(
        [sys.executable, "-c", _ON_TERMINAL, sys.executable, *SPLITBRAIN, *arguments, "--store", str(store)],
        cwd=tmp_path,
        env=environment(),
        stdin=ours,
        stdout=ours,
        stderr=ours,
        start_new_session=True,
    )
    os.close(ours)
    try:
        while not any(wal.stat().st_size >= 15_000 for wal in store.glob("test=*/run=*/history.wal")):
            assert os.read(terminal, 65536), "it shows how it goes, and waits until that is read"
        os.close(terminal)
        assert process.wait(timeout=60) in (0, 2)
    finally:
        process.kill()
        process.wait()
    run = RunDir(only_run(store))
    assert run.status() == "complete"
    assert json.loads((run.path / "verdict.json").read_text())["outcome"] in ("pass", "inconclusive")
    assert processes_of(store) == []


_ON_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.slow
@pytest.mark.parametrize("links", ["namespaces", "proxy"])
def test_after_kill_9_nothing_is_left_and_the_recorded_ops_are_judged(
    tmp_path: Path, links: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _require(links)
    monkeypatch.setenv("SPLITBRAIN_LOCAL_LINKS", links)
    store = tmp_path / "store"
    process = start(
        "run",
        "--nemesis",
        "pause",
        "--interval",
        "1",
        "--nodes",
        "3",
        "--time-limit",
        "120",
        "--store",
        str(store),
        cwd=tmp_path,
    )
    wait_for_ops(store, at_least_bytes=15_000)
    kill(process)
    killed_at = time.time_ns()
    done = splitbrain("analyze", "--engine", "inline", "--json", "--store", str(store))
    [found] = analyzed(done.stdout)
    assert found["outcome"] in ("pass", "inconclusive"), found
    run = RunDir(only_run(store))
    last = run.history().column("time")[-1].as_py() + run.read_test()["began_wall_ns"]
    assert killed_at - last < 1_500_000_000
    assert splitbrain(
        "run", "--nodes", "1", "--nemesis", "none", "--time-limit", "1", "--store", str(tmp_path / "next")
    ).returncode in (0, 2)
    assert processes_of(store) == []


@pytest.mark.slow
def test_after_kill_9_the_telemetry_beside_a_volume_is_judged(tmp_path: Path) -> None:
    if (problem := volumes.problem()) is not None:
        pytest.skip(problem)
    store = tmp_path / "store"
    given = ["--nemesis", "power", "--interval", "1", "--nodes", "3", "--time-limit", "120", "--store", str(store)]
    process = start("run", *given, cwd=tmp_path)
    wait_for_ops(store, at_least_bytes=15_000)
    kill(process)
    [found] = analyzed(splitbrain("analyze", "--engine", "inline", "--json", "--store", str(store)).stdout)
    valid = {verdict["checker"]: verdict["valid"] for verdict in found["verdicts"]}
    assert valid["election-safety"] is True, found
    leaders = set(RunDir(only_run(store)).telemetry().column("leader").to_pylist())
    assert leaders & {"n1", "n2", "n3"}


@pytest.mark.slow
@pytest.mark.parametrize("links", ["namespaces", "proxy"])
def test_a_plain_user_can_run(tmp_path_factory: pytest.TempPathFactory, links: str) -> None:
    if (problem := plain_user.problem()) is not None:
        pytest.skip(problem)
    with plain_user.folder() as folder:

        def once(store: Path) -> subprocess.CompletedProcess[str]:
            arguments = ["run", "--json", *SHORT, "--store", str(store / "kept")]
            store.chmod(0o777)
            return subprocess.run(
                plain_user.as_plain_user([*SPLITBRAIN, *arguments]),
                capture_output=True,
                text=True,
                env=plain_user.environment(SPLITBRAIN_LOCAL_LINKS=links),
                check=False,
                timeout=120,
            )

        _, store = comes_out("pass", once, folder)
        assert only_run(store / "kept").stat().st_uid == plain_user.NOBODY


def _require(links: str) -> None:
    from splitbrain.harness.backends.local.support import namespaces_problem

    if links == "namespaces" and (problem := namespaces_problem()) is not None:
        pytest.skip(f"namespaces do not work here: {problem}")

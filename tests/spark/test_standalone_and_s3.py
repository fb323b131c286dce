"""A store behind an object store's address, judged on a standalone cluster, whose workers open runs themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from splitbrain.checkers.isolation.limits import DEFAULT
from splitbrain.harness.campaigns.many import judge_one_by_one
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store
from tests.remote.s3 import CREDENTIALS, address, serving

from .standalone import LOOPBACK, standalone_cluster
from .support import REGISTER, SET, register_history, set_history, stored

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COMMAND = "from splitbrain.harness.cli.main import main; main()"


def splitbrain(*arguments: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", COMMAND, *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


def verdicts_of(run: RunDir) -> list[tuple[str, bool | str, str]]:
    found = run.read_verdicts()
    assert found is not None
    return [(each["checker"], each["valid"], each["sentence"]) for each in found.verdicts]


def test_workers_of_a_cluster_judge_what_is_behind_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**CREDENTIALS, "SPARK_LOCAL_IP": LOOPBACK}.items():
        monkeypatch.setenv(name, value)  # for the command and for the daemons: workers need their own
    store = Store(tmp_path / "store")
    runs = [
        *(stored(store, "register", seed, register_history(seed, 3, 20), REGISTER) for seed in range(1, 9)),
        stored(store, "register", 9, register_history(9, 3, 20, stale=[1]), REGISTER),
        stored(store, "set", 10, set_history(20, lost=[7]), SET),
    ]
    (tmp_path / "daemons").mkdir()
    with serving() as port, standalone_cluster(tmp_path / "daemons", workers=2) as master:
        there = address(port, "night")
        pushed = splitbrain("push", "--store", str(store.root), "--to", there)
        assert pushed.returncode == 0, pushed.stderr
        done = splitbrain("analyze", "--store", there, "--master", master, "--json")
        again = splitbrain("analyze", "--store", there, "--json")
    assert done.returncode == 1, done.stderr
    *lines, sums = map(json.loads, done.stdout.splitlines())
    assert sums["outcomes"]["violation"] == 2
    judge_one_by_one(runs, lambda _: None, lambda _: None, limits=DEFAULT, paged="none")
    here = {run.name: verdicts_of(run) for run in runs}
    found = {
        line["run"].rpartition("run=")[2].rpartition("_")[0]: [
            (each["checker"], each["valid"], each["sentence"]) for each in line["verdicts"]
        ]
        for line in lines
    }
    assert found == here
    assert len(list((tmp_path / "daemons").glob("worker-*/app-*"))) == 2  # each worker had an executor
    assert again.returncode == 1, again.stderr
    assert json.loads(again.stdout.splitlines()[-1])["unchanged"] == len(runs)

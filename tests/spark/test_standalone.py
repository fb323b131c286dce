"""A store judged by a standalone cluster of two workers, and inline: the verdicts are the same."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
from rich.console import Console

from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.campaigns.judging import judge_inline
from splitbrain.harness.campaigns.simulated import record_simulated
from splitbrain.harness.cli.progress import Progress
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store

from .standalone import LOOPBACK, standalone_cluster
from .support import REGISTER, SET, crashed, register_history, set_history, stored

pytestmark = [pytest.mark.spark, pytest.mark.slow]

HEALTHY: Final = 1
"""Simulated runs of each workload."""

WORKLOADS: Final = ("register", "set", "declare", "create-once", "lock", "records")
KEYS, OPS_PER_KEY = 50, 250
"""A run of 25,000 rows: more than one group of Spark."""


def simulated(root: Path, seed: int, workload: str = "register", *, bug: str = "", interval_s: float = 1.5) -> RunDir:
    """A simulated run of six seconds, recorded and not judged."""
    options = RunOptions(
        workload=workload,
        nemesis="partition",
        system="metadata",
        backend="sim",
        bug=bug,
        nodes="5",
        concurrency="2n",
        rate=60.0,
        time_limit=6.0,
        interval=interval_s,
        op_timeout=1.0,
        recovery=20.0,
        seed=seed,
    )
    test = compose(options)
    run, summary = record_simulated(test, options.world, root, Progress(test.name, Console(quiet=True)), None, {})
    run.release()
    assert summary.failure is None
    return run


def lay_store(root: Path) -> None:
    """Runs that pass, violate and prove too little, simulated and made up, small and large, one left by a crash."""
    for number, workload in enumerate(WORKLOADS):
        for seed in range(HEALTHY):
            simulated(root, 100 * number + seed, workload)
    for seed in range(1, 3):
        simulated(root, seed, bug="M23")
    simulated(root, 1, interval_s=600.0)
    store = Store(root)
    stored(store, "large", 1, register_history(1, KEYS, OPS_PER_KEY), REGISTER)
    stored(store, "large", 2, register_history(2, KEYS, OPS_PER_KEY, stale=[7]), REGISTER)
    stored(store, "set", 3, set_history(300, lost=[17]), SET)
    crashed(store, "set", 4, set_history(300), SET)


def analyze(root: Path, master: str, temporary: Path) -> int:
    """The command, as a user gives it; its exit code."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "SPARK_LOCAL_IP": LOOPBACK,
        "TMPDIR": str(temporary),
    }
    command = "from splitbrain.harness.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", command, "analyze", "--store", str(root), "--master", master],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1, 2), done.stderr
    return done.returncode


def verdicts(root: Path) -> dict[str, dict[str, Any]]:
    """Every verdict.json of a store, without the seconds that things took, and without who judged and when."""
    found: dict[str, dict[str, Any]] = {}
    for run in Store(root).runs():
        document = timeless(json.loads((run.path / "verdict.json").read_bytes()))
        del document["engine"], document["made_from"]
        document["verdicts"] = [_found(verdict) for verdict in document["verdicts"]]
        found[f"{run.test_name}/{run.name}"] = document
    return found


def _found(verdict: dict[str, Any]) -> dict[str, Any]:
    """A verdict without what depends on the time that was left for it, such as how small the witness became."""
    if verdict["checker"] != "linearizable" or verdict["valid"] is not False:
        return verdict
    evidence = {name: verdict["evidence"].get(name) for name in ("key", "prefix", "failing_op")}
    figures = {name: verdict["figures"].get(name) for name in ("keys", "ops", "judged", "crashed")}
    return {**verdict, "evidence": evidence, "figures": figures, "sentence": ""}


def timeless(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: timeless(value) for key, value in found.items() if "seconds" not in str(key)}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return [timeless(each) for each in found] if isinstance(found, list) else found  # pyright: ignore[reportUnknownVariableType]


def test_a_cluster_says_what_one_process_says_and_leaves_nothing(tmp_path: Path) -> None:
    inline, cluster = (tmp_path / name for name in ("inline", "cluster"))
    lay_store(inline)
    shutil.copytree(inline, cluster)
    for run in Store(inline).runs():
        judge_inline(run)
    expected = verdicts(inline)
    outcomes = Counter(document["outcome"] for document in expected.values())
    assert len(expected) == HEALTHY * len(WORKLOADS) + 7
    assert outcomes["violation"] >= 3, outcomes
    assert outcomes["inconclusive"] >= 1, outcomes
    assert outcomes["pass"] >= 4, outcomes

    temporary, daemons = tmp_path / "tmp", tmp_path / "daemons"
    temporary.mkdir()
    daemons.mkdir()
    with standalone_cluster(daemons, workers=2) as master:
        assert analyze(cluster, master, temporary) == 1
        executed = {path.parent.parent.parent.name for path in daemons.glob("worker-*/app-*/*/stderr")}
    assert executed == {"worker-0", "worker-1"}
    assert verdicts(cluster) == expected

    engines = {run.read_verdicts().engine for run in Store(cluster).runs()}  # pyright: ignore[reportOptionalMemberAccess]
    assert engines == {"spark"}
    assert list(temporary.iterdir()) == []
    assert list((daemons / "tmp").iterdir()) == []
    assert remaining(tmp_path) == []


def remaining(folder: Path) -> list[str]:
    """Command lines of processes that name the folder."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words:
            found.append(words)
    return found

"""Simulated runs of `read-modes` on the metadata cluster: no promise is broken, and bugs that break one are found."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import Verdict
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.running.simulate import simulate
from splitbrain.results.errors import UsageError
from splitbrain.results.history import Op
from tests.cli.test_arguments import OPTIONS

JUDGES = ("linearizable", "leader-reads", "session", "coverage", "quorum-progress")


def judged(**given: Any) -> tuple[dict[str, Verdict], list[Op]]:
    options = {"backend": "sim", "workload": "read-modes", "time_limit": 16.0, "rate": 60.0, "interval": 2.0, **given}
    test = compose(RunOptions.of(**{**OPTIONS, **options}))
    left = simulate(test)
    assert left.failure is None
    specs = [spec for spec in test.workload.checkers if spec.name in JUDGES]
    return {found.checker: found for found in engine.judge(left.history, specs, left.telemetry)}, left.ops


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
@pytest.mark.parametrize("nemesis", ["partition", "kill", "partition-leader,pause"])
def test_no_promise_of_any_mode_is_broken_under_faults(seed: int, nemesis: str) -> None:
    found, ops = judged(seed=seed, nemesis=nemesis)
    assert {name: verdict.sentence for name, verdict in found.items() if verdict.valid == "false"} == {}
    assert found["session"].valid == "true"
    assert found["leader-reads"].figures["judged"] == 0
    stale = [op for op in ops if op.type == "ok" and op.f in ("read-local", "read-after")]
    assert len(stale) > 100


@pytest.mark.slow
def test_without_faults_reads_of_the_leader_are_judged_and_the_run_passes() -> None:
    found, ops = judged(seed=5, nemesis="none", interval=None)
    assert {name: verdict.valid for name, verdict in found.items()} == dict.fromkeys(JUDGES, "true")
    reads = sum(op.type == "ok" and op.f == "read-leader" for op in ops)
    assert found["leader-reads"].figures["judged"] == reads > 50
    assert engine.judged_outcome(list(found.values()))[0].name == "PASS"


@pytest.mark.slow
def test_m23_a_leader_that_asks_no_majority_breaks_the_promise_of_consistent_reads() -> None:
    found, _ = judged(seed=1, nemesis="partition-leader", nodes="3", rate=100.0, bug="M23")
    assert found["linearizable"].valid == "false"
    assert " answered read -> " in found["linearizable"].sentence
    healthy, _ = judged(seed=1, nemesis="partition-leader", nodes="3", rate=100.0)
    assert {name for name, verdict in healthy.items() if verdict.valid == "false"} == set()


def test_a_run_of_one_read_mode_and_this_workload_exclude_each_other() -> None:
    given = {"system": "etcd", "workload": "read-modes", "read_mode": "serializable"}
    with pytest.raises(UsageError, match="'read-modes' reads in every mode: remove --read-mode"):
        compose(RunOptions.of(**{**OPTIONS, **given}))


def test_the_workload_has_the_modes_of_its_system() -> None:
    every = {"read", "read-leader", "read-local", "read-after"}
    for system, fs in (("etcd", {"read", "read-local"}), ("metadata", every)):
        test = compose(RunOptions.of(**{**OPTIONS, "system": system, "workload": "read-modes"}))
        assert set(test.workload.fs) == {"write", *fs}
        (progress,) = [spec for spec in test.workload.checkers if spec.name == "quorum-progress"]
        assert progress.options["fs"] == ["write", "read"], "the others need no majority"

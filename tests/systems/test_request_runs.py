"""What systems are asked for while real nodes run: to hand leadership over, to make groups, to take learners in."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from splitbrain.results.faults import FaultOp, run_events
from splitbrain.results.nemesisop import NO_TARGET
from splitbrain.results.rundir import RunDir
from tests.backends.support import missing, skip_without_namespaces
from tests.cli.support import comes_out, only_run, splitbrain

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def started(folder: Path, *options: str) -> list[FaultOp]:
    """The faults of a run on processes of this machine, which passes."""
    skip_without_namespaces()
    words = ["run", "--json", "--backend", "local", "--workload", "register", "--rate", "50", "--seed", "3", *options]
    _, store = comes_out("pass", lambda store: splitbrain(*words, "--store", str(store), timeout_s=240), folder)
    ops = run_events(RunDir(only_run(store)).history()).fault_ops
    assert all(op.verified for op in ops), [op.error for op in ops]
    return [op for op in ops if op.said.action == "start" and not op.said.target.startswith(NO_TARGET)]


def evidence(op: FaultOp) -> dict[str, Any]:
    assert op.completion is not None
    return op.completion.value["evidence"]


@pytest.mark.parametrize("system", ["metadata", "etcd"])
def test_ra31_a_leader_that_is_asked_hands_leadership_over(system: str, tmp_path: Path) -> None:
    if system == "etcd" and shutil.which("etcd") is None:
        missing("there is no etcd here (Debian: etcd-server)")
    options = ["--system", system, "--nodes", "3", "--nemesis", "transfer", "--interval", "2", "--time-limit", "15"]
    asked = [each for op in started(tmp_path, *options) for each in evidence(op)["transfers"]]
    assert any(each["answer"] == "done" and each["leads"] for each in asked)


def test_ra33_a_group_is_made_again_and_has_nothing_of_the_former_one(tmp_path: Path) -> None:
    ops = started(tmp_path, "--nodes", "3", "--nemesis", "groups", "--interval", "2", "--time-limit", "20")
    assert ops
    assert [evidence(op)["incarnation"] for op in ops] == list(range(1, len(ops) + 1))
    assert all("done" in evidence(op)["made"].values() for op in ops)


def test_ra7_a_node_joins_as_a_learner_and_another_one_is_replaced(tmp_path: Path) -> None:
    names = "membership-learner,membership-replace"
    ops = started(tmp_path, "--nodes", "4", "--nemesis", names, "--interval", "3", "--time-limit", "25")
    assert {"learner", "replace"} & {field for op in ops for field in op.invoke.value}


def test_a_real_node_is_bounced_when_it_has_voted(tmp_path: Path) -> None:
    """It reports its marks to a file; the leader is killed first, so that there is an election."""
    schedule = tmp_path / "votes.schedule"
    request = (
        '{"moments": [{"mark": "vote granted"}], "downs_ms": [100], "within_ms": 10000, '
        '"first": "leader", "first_down_ms": 5000}'
    )
    schedule.write_text(f'[3.0, "bounce-at-moments", {request}]\n')
    (op,) = started(tmp_path, "--nodes", "3", "--schedule", str(schedule), "--time-limit", "15")
    first, voter = evidence(op)["bounces"]
    assert "mark" not in first
    assert voter["mark"] == "vote granted"
    assert voter["node"] != first["node"]

"""An outage that a schedule makes is in the availability and in the latencies, however long a client waits."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from splitbrain.checkers.quorum import QuorumProgress
from splitbrain.checkers.stats import Stats
from splitbrain.checkers.verdict import Verdict
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.contract.test import Test
from splitbrain.harness.running.plan import decode, encode, plan_of, scripted
from splitbrain.harness.running.simulate import Simulated, simulate
from splitbrain.results.history import Op
from tests.cli.test_arguments import OPTIONS


class Left(NamedTuple):
    """A test, and what its simulation left."""

    test: Test
    simulated: Simulated

    @property
    def ops(self) -> list[Op]:
        """The history."""
        return self.simulated.ops


def simulated(tmp_path: Path, lines: list[str], **given: Any) -> tuple[Left, dict[str, Verdict]]:
    """A run of the register workload with the faults of a schedule, if any, judged by who counts."""
    schedule = tmp_path / "faults.schedule"
    schedule.write_text("\n".join(lines))
    faults = {"schedule": str(schedule)} if lines else {"nemesis": "none"}
    options = {"backend": "sim", "seed": 1, "time_limit": 15.0, **faults, **given}
    test = compose(RunOptions.of(**{**OPTIONS, **options}))
    left = Left(test, simulate(test))
    assert left.simulated.failure is None
    specs = {spec.name: dict(spec.options) for spec in test.workload.checkers}
    quorum = QuorumProgress().check(left.simulated.history, left.simulated.telemetry, specs["quorum-progress"])
    stats = Stats().check(left.simulated.history, specs["stats"])
    return left, {"quorum-progress": quorum, "stats": stats}


PAUSE = ['[5.0, "pause", {"spec": "all"}]', '[10.0, "resume"]']


def cluster(verdicts: dict[str, Verdict]) -> dict[str, Any]:
    return verdicts["quorum-progress"].figures["availability"]["cluster"]


def end_s(ops: list[Op]) -> float:
    return ops[-1].time / 1e9


@pytest.mark.slow
@pytest.mark.parametrize("op_timeout", [10.0, 2.0])
def test_five_seconds_in_which_all_nodes_pause_are_no_time_in_which_the_cluster_answers(
    tmp_path: Path, op_timeout: float
) -> None:
    left, verdicts = simulated(tmp_path, PAUSE, op_timeout=op_timeout, availability=0.99)
    found = cluster(verdicts)
    assert found["silent"] == [[5, 10]]
    assert found["time"] == round(1 - 5 / end_s(left.ops), 6)
    assert found["time"] == pytest.approx(0.67, abs=0.01)
    assert verdicts["quorum-progress"].anomalies == ("Q9",)
    assert "from 5 s to 10 s" in verdicts["quorum-progress"].sentence


@pytest.mark.slow
def test_a_pause_at_the_end_of_the_faults_phase_counts_until_an_op_is_answered(tmp_path: Path) -> None:
    _, verdicts = simulated(tmp_path, ['[12.0, "pause", {"spec": "all"}]'], op_timeout=5.0)
    [[begin, end]] = cluster(verdicts)["silent"]
    assert begin == 12
    assert end >= 17, "ops of that moment wait for 5 s"


@pytest.mark.slow
def test_a_cluster_without_faults_is_there_all_the_time_at_any_rate(tmp_path: Path) -> None:
    for rate in (100.0, 0.2):
        _, verdicts = simulated(tmp_path, [], rate=rate)
        assert cluster(verdicts)["time"] == 1.0


@pytest.mark.slow
def test_one_silent_node_is_seen_by_its_own_clients_only(tmp_path: Path) -> None:
    lines = ['[5.0, "pause", {"spec": "one", "order": ["n2", "n1", "n3", "n4", "n5"]}]', '[10.0, "resume"]']
    _, verdicts = simulated(tmp_path, lines, op_timeout=10.0)
    found = verdicts["quorum-progress"].figures["availability"]
    assert found["nodes"]["n2"]["time"] == pytest.approx(0.67, abs=0.02)
    assert min(found["nodes"][node]["time"] for node in ("n1", "n3", "n4", "n5")) > 0.9


@pytest.mark.slow
def test_latencies_from_due_have_the_wait_for_a_client_in_them_and_a_plan_repeats_it(tmp_path: Path) -> None:
    """A stall of 5 s at 100 ops a second and ten clients: 500 ops were due in it, and a client saw ten of them."""
    left, verdicts = simulated(tmp_path, PAUSE, op_timeout=10.0)
    figures = verdicts["stats"].figures
    assert figures["latency_ms"]["ok"]["p99"] < 500
    assert figures["due_latency_ms"]["ok"]["p99"] > 4500
    assert "with the time for which they waited for a free client" in verdicts["stats"].sentence
    assert figures["load"]["achieved_per_s"] == figures["load"]["offered_per_s"] == 100.0
    scheduled = [op for op in left.ops if op.due is not None]
    assert [op.due for op in scheduled] == [scheduled[0].time + number * 10_000_000 for number in range(1500)]
    plan = decode(encode(plan_of(left.ops, left.test)))
    assert simulate(scripted(left.test, plan)).ops == left.ops


@pytest.mark.slow
def test_a_rate_that_clients_cannot_keep_is_told_in_words(tmp_path: Path) -> None:
    _, verdicts = simulated(tmp_path, [], rate=1000.0, concurrency="2", time_limit=3.0)
    found = verdicts["stats"].figures["load"]
    assert found["short"]
    assert found["asked_per_s"] == found["offered_per_s"] == 1000.0
    assert found["begun"] + found["never_begun"] == pytest.approx(3000, abs=2)
    assert "The rate was too low: 1000 ops a second requested" in verdicts["stats"].sentence
    assert "since no client was free" in verdicts["stats"].sentence

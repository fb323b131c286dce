"""A rolling upgrade in whole runs: under faults it breaks no promise, and ends with the latest version everywhere."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.consensus import Versions
from splitbrain.cluster.raft.leader import Leadership
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.running.simulate import simulate
from splitbrain.results.history import NEMESIS
from tests.cli.test_arguments import OPTIONS


def options(nemesis: str, seed: int, **more: object) -> RunOptions:
    given = {"backend": "sim", "workload": "read-modes", "nemesis": nemesis, "seed": seed, "nodes": "3"}
    return RunOptions.of(**{**OPTIONS, **given, "time_limit": 12.0, "interval": 2.0, "rate": 50.0, **more})


@pytest.mark.parametrize(
    ("nemesis", "seed"),
    [
        ("upgrade", 1),
        ("upgrade,kill", 2),
        *(pytest.param("upgrade,partition", s, marks=pytest.mark.slow) for s in range(6)),
    ],
)
def test_ra43_a_rolling_upgrade_under_faults_passes_all_checkers(nemesis: str, seed: int) -> None:
    test = compose(options(nemesis, seed))
    left = simulate(test)
    assert left.failure is None
    assert left.marks["every node upgraded"] == 1
    assert left.marks["machine version raised"] > 0
    assert left.marks["member is outdated"] == 0, "all had been upgraded when the version came into force"
    upgrades = [op for op in left.ops if op.process == NEMESIS and op.f in ("upgrade", "stop-upgrade")]
    assert [op.error for op in upgrades if op.type == "info"] == []
    verdicts = engine.judge(left.history, test.workload.checkers, left.telemetry)
    assert [verdict.checker for verdict in verdicts if verdict.valid == "false"] == []
    [versions] = [verdict for verdict in verdicts if verdict.checker == Versions.name]
    assert versions.figures["raised"] > 0


def test_ra43_a_leader_that_does_not_wait_for_members_which_said_nothing_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def of_those_that_said_one(leader: Any) -> int:
        said = [follower.version for follower in leader._followers.values() if follower.version]
        return min([leader._state.versions.supported, *said])

    monkeypatch.setattr(Leadership, "_supported_by_all", of_those_that_said_one)
    verdict = Versions().check(simulate(compose(options("upgrade", 1))).telemetry, {})
    assert verdict.anomalies == ("not-understood",)
    assert "had said nothing" in verdict.sentence


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("bugs", "broken"), [("", False), ("M30", True)])
def test_ra43_m30_a_rolled_back_node_is_seen_by_sessions_if_it_answers_reads(bugs: str, broken: bool) -> None:
    test = compose(options("rollback", 2, bug=bugs))
    left = simulate(test)
    assert left.failure is None
    assert (left.marks["node rolled back"], left.marks["member is outdated"]) == (1, 1)
    assert (left.marks["state of an outdated member refused"] == 0) is broken
    verdicts = engine.judge(left.history, test.workload.checkers, left.telemetry)
    assert [verdict.checker for verdict in verdicts if verdict.valid == "false"] == (["session"] if broken else [])

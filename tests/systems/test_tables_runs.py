"""Whole runs of the table store: what it loses is found and named, and without partitions it loses nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from splitbrain.checkers import engine
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.running.simulate import simulate
from tests.cli.support import splitbrain

RUN = ("run", "--system", "tables", "--backend", "sim", "--time-limit", "15", "--seed", "1")


def outcome(store: Path, *arguments: str) -> dict[str, Any]:
    result = splitbrain(*RUN, *arguments, "--store", str(store), "--json")
    assert result.returncode in (0, 1, 2), result.stderr
    return json.loads(result.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ignore", "autoheal"])
def test_mn_9_a_partition_loses_acknowledged_elements_which_the_set_checker_names(
    tmp_path: Path, strategy: str
) -> None:
    settings = f"strategy={strategy},net-tick-ms=1000"
    found = outcome(tmp_path, "--workload", "set", "--nemesis", "partition", "--settings", settings)
    assert found["outcome"] == "violation"
    (lost,) = [verdict for verdict in found["verdicts"] if verdict["checker"] == "set"]
    assert "Lost: element" in lost["sentence"]


@pytest.mark.slow
def test_mn_3_under_ignore_two_creations_of_one_name_are_acknowledged(tmp_path: Path) -> None:
    settings = "strategy=ignore,net-tick-ms=1000"
    found = outcome(tmp_path, "--workload", "declare", "--nemesis", "partition", "--settings", settings)
    assert found["outcome"] == "violation"
    assert [verdict for verdict in found["verdicts"] if verdict["checker"] == "declare" and verdict["valid"] is False]


@pytest.mark.slow
def test_mn_4_under_ignore_entities_are_lost_and_the_topology_checker_names_strategy_and_window(tmp_path: Path) -> None:
    settings = "strategy=ignore,net-tick-ms=1000"
    found = outcome(tmp_path, "--workload", "topology", "--nemesis", "partition", "--settings", settings)
    (verdict,) = [verdict for verdict in found["verdicts"] if verdict["checker"] == "topology"]
    assert verdict["valid"] is False
    assert "Strategy ignore; partition of " in verdict["sentence"]


@pytest.mark.slow
def test_db_7_tables_that_do_not_follow_from_others_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look-ups use these tables: a binding that is in one of them only leads messages elsewhere."""

    def counts_nothing(*_: Any) -> None:
        pass

    monkeypatch.setattr("splitbrain.cluster.tables.entities.routes._count", counts_nothing)
    options: dict[str, Any] = {"system": "tables", "backend": "sim", "workload": "topology", "nemesis": "none"}
    options |= {"bug": "", "nodes": "3", "concurrency": "2n", "rate": 60.0, "time_limit": 10.0, "interval": 3.0}
    test = compose(RunOptions.of(**options, op_timeout=2.0, recovery=20.0, seed=2))
    left = simulate(test)
    verdicts = engine.judge(left.history, test.workload.checkers, left.telemetry)
    (verdict,) = [verdict for verdict in verdicts if verdict.checker == "topology"]
    assert verdict.valid == "false"
    assert set(verdict.anomalies) & {"projection", "route"}


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["register", "declare", "set", "topology"])
def test_without_partitions_nothing_is_lost(tmp_path: Path, workload: str) -> None:
    found = outcome(tmp_path, "--workload", workload, "--nemesis", "kill", "--settings", "net-tick-ms=1000")
    assert found["outcome"] == "pass", found["verdicts"]

"""Whole runs of the table store: what it loses is found and named, and without partitions it loses nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

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
@pytest.mark.parametrize("workload", ["register", "declare", "set"])
def test_without_partitions_nothing_is_lost(tmp_path: Path, workload: str) -> None:
    found = outcome(tmp_path, "--workload", workload, "--nemesis", "kill", "--settings", "net-tick-ms=1000")
    assert found["outcome"] == "pass", found["verdicts"]

"""Runs on a real PostgreSQL: each level shows what it allows and nothing else, and a failover loses what it must."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from splitbrain.results.rundir import RunDir
from tests.cli.support import comes_out, only_run, processes_of, splitbrain
from tests.systems.postgresql.levels import LOSING, at_level, lost, shown

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.usefixtures("postgresql_programs")]

READ_SKEWS = {"G-single-item", "G-single", "lost-update", "G-nonadjacent-item", "internal"}
WRITE_SKEWS = {"G2-item", "G2"}


def test_each_level_shows_the_anomalies_that_it_allows_and_no_other(tmp_path: Path) -> None:
    runs = {"read-committed": "rw-register", "repeatable-read": "list-append", "serializable": "list-append"}
    found = {level: at_level(tmp_path / level, level, workload, seconds=10) for level, workload in runs.items()}
    assert {level: each["outcome"] for level, each in found.items() if each["outcome"] == "violation"} == {}
    seen = {level: set(shown(each, runs[level])) for level, each in found.items()}
    assert seen["read-committed"] & {"lost-update", "G-single-item"}
    assert seen["repeatable-read"] & WRITE_SKEWS
    assert not seen["repeatable-read"] & READ_SKEWS
    assert not seen["serializable"]


def test_a_register_of_one_node_passes_under_kills_pauses_and_losses_of_power(tmp_path: Path) -> None:
    faults = ["--nemesis", "kill,pause,power", "--interval", "3", "--time-limit", "40", "--seed", "5"]
    words = ["run", "--json", "--system", "postgresql", "--nodes", "1", "--workload", "register", *faults]
    found, store = comes_out(
        "pass", lambda store: splitbrain(*words, "--concurrency", "12", "--store", str(store)), tmp_path
    )
    assert "--system postgresql --nodes 1" in found["command"]
    assert processes_of(store) == []


def test_with_asynchronous_replication_a_failover_is_found_to_lose_what_was_acknowledged(tmp_path: Path) -> None:
    words = ["run", "--json", "--system", "postgresql", *LOSING, "--interval", "6", "--time-limit", "25"]
    found, store = comes_out(
        "violation", lambda store: splitbrain(*words, "--store", str(store)), tmp_path, shows=loses_after_a_failover
    )
    assert "Lost: element" in lost(found)
    assert {row["node"] for row in RunDir(only_run(store)).telemetry().to_pylist()} == {"n1", "n2", "n3"}
    assert timelines_of_primaries(store) >= {1, 2}, "no standby was promoted"
    assert processes_of(store) == []


def loses_after_a_failover(found: Any, store: Path) -> bool:
    return "Lost: element" in lost(found) and len(timelines_of_primaries(store)) > 1


def timelines_of_primaries(store: Path) -> set[int]:
    rows = RunDir(only_run(store)).telemetry().to_pylist()
    return {row["term"] for row in rows if row["role"] == "leader"}

"""Every bug of the cluster is found by a hunt, by a checker that names what the bug breaks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import answer, splitbrain

FOUND_AS = {
    "M01": ("voted-twice", "two-leaders", "elected-twice"),
    "M02": ("term-forgotten", "voted-twice", "two-leaders", "elected-twice"),
    "M09": ("two-leaders", "nonlinearizable", "divergence", "node-crash", "incomplete-leader"),
    "M15": ("incomplete-leader", "nonlinearizable", "divergence"),
    "M17": ("applied-beyond-commit", "divergence", "nonlinearizable"),
    "M22": ("no-recovery",),
    "M23": ("nonlinearizable",),
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", FOUND_AS)
def test_a_hunt_finds_it_with_the_right_anomaly(bug: str, tmp_path: Path) -> None:
    hunt = ["hunt", "--workload", "register", "--bug", bug, "--seed", "1", "--runs", "100", "--budget", "240"]
    done = splitbrain(*hunt, "--no-shrink", "--json", cwd=tmp_path, timeout_s=300)
    found = answer(done)
    assert done.returncode == 1, done.stdout[-2000:]
    told = " ".join(finding["kind"] for finding in found["findings"])
    assert any(anomaly in told for anomaly in FOUND_AS[bug]), told


ONLY_QUORUM_PROGRESS_SEES = {"M80": "Q3", "M81": "Q2", "M82": "Q8"}


@pytest.mark.slow
@pytest.mark.parametrize("bug", ONLY_QUORUM_PROGRESS_SEES)
def test_a_hunt_through_everything_finds_within_two_minutes_what_no_history_contradicts(
    bug: str, tmp_path: Path
) -> None:
    hunt = ["hunt", "--bug", bug, "--seed", "1", "--budget", "120", "--no-shrink", "--json"]
    done = splitbrain(*hunt, cwd=tmp_path, timeout_s=300)
    assert done.returncode == 1, done.stdout[-2000:]
    told = " ".join(finding["kind"] for finding in answer(done)["findings"])
    rules = told.partition("quorum-progress: ")[2].partition(";")[0].split(", ")
    assert ONLY_QUORUM_PROGRESS_SEES[bug] in rules, told


@pytest.mark.slow
def test_a_lost_write_that_is_never_read_is_seen_by_quorum_progress_alone(tmp_path: Path) -> None:
    hunt = ["hunt", "--workload", "records", "--nemesis", "partition", "--bug", "M81", "--seed", "1"]
    done = splitbrain(*hunt, "--budget", "120", "--no-shrink", "--json", cwd=tmp_path, timeout_s=300)
    assert done.returncode == 1, done.stdout[-2000:]
    (kind,) = {finding["kind"] for finding in answer(done)["findings"]}
    checker, _, rules = kind.partition(": ")
    assert checker == "quorum-progress"
    assert "Q2" in rules.split(", ")

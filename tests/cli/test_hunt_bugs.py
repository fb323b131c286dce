"""Every bug of the cluster is found by a hunt, by a checker that names what the bug breaks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import answer, splitbrain

BUDGET_S = "1200"
TIMEOUT_S = 1300.0
"""These hunts end after a number of runs. An idle machine needs two minutes for the longest, a busy one much more."""

FOUND_AS = {
    "M02": ("term-forgotten", "voted-twice", "two-leaders", "elected-twice"),
    "M09": ("two-leaders", "nonlinearizable", "divergence", "node-crash", "incomplete-leader"),
    "M15": ("log-forgotten", "incomplete-leader", "nonlinearizable", "divergence"),
    "M17": ("applied-beyond-commit", "divergence", "nonlinearizable"),
    "M22": ("no-recovery",),
    "M23": ("nonlinearizable",),
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", FOUND_AS)
def test_a_hunt_finds_it_with_the_right_anomaly(bug: str, tmp_path: Path) -> None:
    hunt = ["hunt", "--workload", "register", "--bug", bug, "--seed", "1", "--runs", "100", "--budget", BUDGET_S]
    done = splitbrain(*hunt, "--no-shrink", "--json", cwd=tmp_path, timeout_s=TIMEOUT_S)
    found = answer(done)
    assert done.returncode == 1, done.stdout[-2000:]
    told = " ".join(finding["kind"] for finding in found["findings"])
    assert any(anomaly in told for anomaly in FOUND_AS[bug]), told


SEEN_BY_QUORUM_PROGRESS = {
    "M80": ("Q3", 4),
    "M82": ("Q8", 48),
}
"""The rule that is broken, and the first seed of the hunt."""


@pytest.mark.slow
@pytest.mark.parametrize("bug", SEEN_BY_QUORUM_PROGRESS)
def test_a_hunt_through_everything_finds_within_sixty_runs_who_should_have_answered_and_who_not(
    bug: str, tmp_path: Path
) -> None:
    rule, seed = SEEN_BY_QUORUM_PROGRESS[bug]
    assert rule in rules_of(hunted(tmp_path, bug, seed=seed))


@pytest.mark.slow
def test_nodes_that_never_find_each_other_again_make_no_progress_and_do_not_meet(tmp_path: Path) -> None:
    assert {"Q3", "Q7"} & set(rules_of(hunted(tmp_path, "M22", "--nemesis", "partition")))


@pytest.mark.slow
def test_a_lost_write_that_is_never_read_is_seen_by_quorum_progress_alone(tmp_path: Path) -> None:
    kind = hunted(tmp_path, "M81", "--workload", "records", "--nemesis", "partition")
    assert "Q2" in rules_of(kind)
    assert ";" not in kind, "another checker saw it too"


SEEN_AT_ONCE = {
    "M01": (32, "durability: vote-forgotten"),
    "M03": (5, "leader-completeness: incomplete-leader"),
    "M04": (1, "election-safety: voted-twice"),
    "M10": (11, "election-safety: minority"),
    "M12": (2, "replica-agreement: divergence"),
    "M15": (1, "durability: log-forgotten"),
    "M33": (1, "linearizable: nonlinearizable"),
    "M35": (1, "replica-agreement: non-determinism"),
    "M36": (2, "crashes: node-crash"),
    "M37": (1, "replica-agreement: divergence"),
}
"""A seed of the default draw, and what one checker says of its test."""


@pytest.mark.slow
@pytest.mark.parametrize("bug", SEEN_AT_ONCE)
def test_one_test_shows_it_to_the_checker_that_is_made_for_it(bug: str, tmp_path: Path) -> None:
    seed, anomaly = SEEN_AT_ONCE[bug]
    assert anomaly in hunted(tmp_path, bug, seed=seed)


def hunted(cwd: Path, bug: str, *asked: str, seed: int = 1) -> str:
    """What the checkers called the first violation in sixty runs."""
    limits = ["--seed", str(seed), "--runs", "60", "--budget", BUDGET_S]
    done = splitbrain("hunt", "--bug", bug, *asked, *limits, "--no-shrink", "--json", cwd=cwd, timeout_s=TIMEOUT_S)
    assert done.returncode == 1, done.stdout[-2000:]
    (finding,) = answer(done)["findings"]
    return str(finding["kind"])


def rules_of(kind: str) -> list[str]:
    """The rules in "checker: anomaly, anomaly; checker: anomaly"."""
    return kind.partition("quorum-progress: ")[2].partition(";")[0].split(", ")

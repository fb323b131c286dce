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

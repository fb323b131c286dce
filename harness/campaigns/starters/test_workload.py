"""The workload passes on a cluster that is well, and finds a bug that is switched on."""

from __future__ import annotations

from pathlib import Path

import pytest

from splitbrain import Metadata, Outcome, SimBackend, Test, run_and_judge
from splitbrain.harness.campaigns.starters.workload import starter
from splitbrain.nemesis import catalogue as nemeses


@pytest.mark.parametrize(("bugs", "outcome"), [((), Outcome.PASS), (("M23",), Outcome.VIOLATION)])
def test_the_workload_judges(tmp_path: Path, bugs: tuple[str, ...], outcome: Outcome) -> None:
    test = Test(
        name="starter",
        seed=1,
        nodes=("n1", "n2", "n3"),
        system=Metadata(),
        workload=starter(),
        nemesis=nemeses.build(["partition"], time_limit_s=30.0),
        bugs=bugs,
        time_limit_s=30.0,
    )
    assert run_and_judge(test, SimBackend(), tmp_path).outcome is outcome

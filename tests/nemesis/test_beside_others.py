"""The nemeses that a tester starts from are right beside built-in ones that stop and pause the same nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from splitbrain.harness.campaigns.compose import RunOptions, backend_of, compose
from splitbrain.harness.campaigns.record import run_and_judge
from splitbrain.results.arrow import from_table
from splitbrain.results.history import NEMESIS
from splitbrain.results.reasons import Code

STARTER = "splitbrain.harness.campaigns.starters.nemesis:STARTER"
EXILE = "examples.own_nemesis:EXILE"


def options(nemesis: str, seed: int) -> RunOptions:
    """Of a simulated run of five nodes."""
    return RunOptions.of(
        workload="register",
        nemesis=nemesis,
        system="metadata",
        backend="sim",
        bug="",
        nodes="5",
        concurrency="2n",
        rate=50.0,
        time_limit=30.0,
        interval=1.0,
        op_timeout=2.0,
        recovery=20.0,
        seed=seed,
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
@pytest.mark.parametrize("nemesis", [STARTER, EXILE])
@pytest.mark.parametrize("others", ["kill", "pause,power"])
def test_every_fault_is_verified(tmp_path: Path, nemesis: str, others: str, seed: int) -> None:
    chosen = options(f"{nemesis},{others}", seed)
    found = run_and_judge(compose(chosen), backend_of(chosen), tmp_path)
    [coverage] = [verdict for verdict in found.verdicts if verdict.checker == "coverage"]
    unverified = [str(reason) for reason in coverage.inconclusive if reason.code == Code.FAULT_NOT_VERIFIED]
    assert not unverified
    ops = [op for op in from_table(found.run.history()) if op.process == NEMESIS and op.type != "invoke"]
    assert {"starter" if nemesis == STARTER else "exile"} <= {op.f for op in ops if op.type == "ok"}

"""Runs of which nothing took effect, for every workload: no checker breaks, and no verdict is a pass.

A run of each workload is recorded; then its clients' completions are rewritten, as a system would have answered that
refuses everything, that never says what became of a call, or that has no clients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

import msgspec
import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import Outcome
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.contract.test import Test
from splitbrain.harness.running.simulate import Simulated, simulate
from splitbrain.results.arrow import to_table
from splitbrain.results.history import Op, OpType
from splitbrain.workloads.catalogue import WORKLOADS
from tests.simulation.test_dead_clusters import GIVEN, OPTIONS

Rewritten = Callable[[Sequence[Op]], list[Op]]


def ended(kind: OpType) -> Rewritten:
    """All ops of clients end in this way."""

    def rewritten(ops: Sequence[Op]) -> list[Op]:
        called: dict[int, Op] = {}
        found: list[Op] = []
        for op in ops:
            if op.process >= 0 and op.type == "invoke":
                called[op.process] = op
            elif op.process >= 0:
                op = msgspec.structs.replace(op, type=kind, value=called[op.process].value)
            found.append(op)
        return found

    return rewritten


def without_clients(ops: Sequence[Op]) -> list[Op]:
    """Only what the harness and the nemeses did."""
    return [msgspec.structs.replace(op, index=at) for at, op in enumerate(op for op in ops if op.process < 0)]


ELSEWHERE: Final = {"lease-lock", "formation"}
"""Workloads of operations that the metadata cluster does not have."""

WAYS: Final[dict[str, Rewritten]] = {
    "all failed": ended("fail"),
    "all uncertain": ended("info"),
    "no clients": without_clients,
}


@cache
def recorded(workload: str) -> tuple[Test, Simulated]:
    given = {**OPTIONS, **GIVEN.get(workload, {}), "workload": workload, "nemesis": "kill", "time_limit": 8.0}
    test = compose(RunOptions.of(**given))
    return test, simulate(test)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("workload", sorted(set(WORKLOADS) - ELSEWHERE))
def test_no_checker_breaks_and_no_verdict_is_a_pass_where_nothing_took_effect(workload: str, way: str) -> None:
    test, left = recorded(workload)
    assert sum(op.type == "ok" and op.process >= 0 for op in left.ops) > 10, "the run tests nothing"
    verdicts = engine.judge(to_table(WAYS[way](left.ops)), test.workload.checkers, left.telemetry)
    assert engine.crashed(verdicts) is None
    assert engine.judged_outcome(verdicts)[0] is not Outcome.PASS

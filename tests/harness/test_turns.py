"""What a hunt draws is injected: every kind of fault has its turn in the time that a test has."""

from __future__ import annotations

import pytest
from simulator import MS, NODES, Ending, invocations, simulate

from splitbrain.harness.campaigns.compose import compose
from splitbrain.harness.campaigns.swarm import Asked, draw, possible
from splitbrain.nemesis.catalogue import KINDS
from splitbrain.results.history import Op, OpType
from splitbrain.results.nemesisop import action_in, fault_in


def at_once(op: Op, number: int) -> tuple[int, OpType]:
    return 10 * MS, "ok"


def as_late_as_can_be(op: Op, number: int) -> tuple[int, OpType]:
    takes_s = KINDS[str(fault_in(op.value))].takes_s if action_in(op.value) == "start" else 0.0
    return round(takes_s * 1000) * MS + 50 * MS, "ok"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("ending", [at_once, as_late_as_can_be])
@pytest.mark.parametrize("first", range(0, 300, 100))
def test_each_kind_of_fault_has_its_turn(first: int, ending: Ending) -> None:
    asked = Asked(workloads=("register",), nemeses=possible("metadata"), nodes=(len(NODES),))
    for seed in range(first, first + 100):
        test = compose(draw(seed, asked))
        assert test.nemesis.generator is not None
        assert test.nemesis.kinds is not None
        history = simulate(test.nemesis.generator, ending, seed=seed)
        in_time = [op for op in invocations(history) if op.time < test.time_limit_s * 1000 * MS]
        injected = {str(fault_in(op.value)) for op in in_time if action_in(op.value) == "start"}
        assert injected == set(test.nemesis.kinds), draw(seed, asked)

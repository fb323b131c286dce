"""What a hunt draws is injected: every kind of fault has its turn in the time that a test has."""

from __future__ import annotations

import pytest
from simulator import NODES, perfect

from splitbrain.harness.campaigns.compose import compose
from splitbrain.harness.campaigns.swarm import Asked, draw
from splitbrain.nemesis.catalogue import NEMESES
from splitbrain.results.nemesisop import action_in, fault_in


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_each_kind_of_fault_has_its_turn(first: int) -> None:
    asked = Asked(workloads=("register",), nemeses=tuple(NEMESES), nodes=(len(NODES),))
    for seed in range(first, first + 100):
        test = compose(draw(seed, asked))
        assert test.nemesis.generator is not None
        assert test.nemesis.kinds is not None
        history = perfect(test.nemesis.generator, seed=seed)
        injected = {str(fault_in(op.value)) for op in history if action_in(op.value) == "start"}
        assert injected == set(test.nemesis.kinds), draw(seed, asked)

"""Which tests of a hunt have clients that several processes share (`Test.sharing`)."""

from __future__ import annotations

from functools import cache
from typing import Final

from splitbrain.harness.contract.rng import Streams
from splitbrain.harness.contract.test import shared_by
from splitbrain.harness.systems import catalogue as systems
from splitbrain.workloads import catalogue as workloads

SHARED: Final = 0.15
"""The share of tests, of those in which it is possible."""

NUMBERS: Final = (1, 2, 3, 5, 10)
"""How many threads of a node share a client."""


def sharing(seed: int, workload: str, system: str) -> int:
    """How many threads of a node share a client in the test of a seed, apart from all other draws; 0 in most."""
    most = most_shared(workload, system)
    rng = Streams(seed)["sharing"]
    if not most or rng.random() >= SHARED:
        return 0
    return min(rng.choice(NUMBERS), most)


@cache
def most_shared(workload: str, system: str) -> int:
    """How many threads may share a client of a workload, where the system is the one of that name."""
    if not systems.build(system).capabilities.shared_sessions:
        return 0
    made = workloads.build(workload, nodes=("n1",), concurrency=1, operations=systems.operations(system))
    return shared_by(made.client)

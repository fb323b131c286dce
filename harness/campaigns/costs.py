"""What a drawn test may cost: how many ops, by what each of them costs to simulate.

A test that costs as much as five others finds less than they do. An op costs the same everywhere only if it is one
entry in one log: each node handles each entry, a queue has a log of its own besides, and without batches each entry is
sent, stored and acknowledged by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

OPS_MOST: Final = 3_000.0
"""The largest number of ops that are possible in a test of a hunt for more than one workload. Who asks for one workload
wants that one, and has long runs too.
"""

NODE_OPS_MOST: Final = 10_000.0
"""The same, times the number of nodes, where each op has the least cost: one to two CPU seconds on one core."""

OWN_LOGS: Final = frozenset({"queue", "single-active", "dead-letter", "poison", "replicas", "stream", "short-stream"})
"""Workloads whose queues or streams have logs of their own, each with a replica on each node."""

DEAR: Final = {
    **dict.fromkeys(OWN_LOGS, 3.0),
    **dict.fromkeys(("list-append", "rw-register", "tree", "topology", "projections", "multi-cas", "g2"), 2.0),
    "counter": 2.0,
}
"""By workload, how many times as much an op costs, checkers included; measured on 50 drawn tests."""

DEAR_NODES: Final = 5
"""The most nodes with workloads of `OWN_LOGS`, if fewer may be drawn."""

UNBATCHED: Final = "max-batch=1"
UNBATCHED_COST: Final = 1.5
"""How many times as much an op costs where each entry is sent by itself."""


def affordable_nodes(workload: str, counts: Sequence[int]) -> Sequence[int]:
    """The numbers of nodes, of those that may be drawn, that a test of a workload may have."""
    return [count for count in counts if count <= DEAR_NODES or workload not in OWN_LOGS] or counts


def affordable_ops(workload: str, nodes: int, settings: str) -> float:
    """How many ops of a workload a drawn test may have.

    Args:
        workload: its name.
        nodes: how many nodes the test has.
        settings: as for `splitbrain run --settings`.
    """
    cost = nodes * DEAR.get(workload, 1.0) * (UNBATCHED_COST if UNBATCHED in settings.split(",") else 1.0)
    return min(OPS_MOST, NODE_OPS_MOST / cost)

"""Create once: all clients of a group create the same key at once, then each of them reads the winner.

Members of a cluster agree on a first leader, or on a configuration, in this way: all try, and all must learn the same
winner. In `declare` some clients only read while others race; here every client races. After its creation, with any
outcome, it reads before it continues with the next key, or gives up after a few attempts.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import CREATIONS
from splitbrain.harness.contract.test import WHOLE, OpShape, Workload
from splitbrain.harness.generators import (
    Context,
    Generator,
    concurrent_keys,
    each,
    each_thread,
    invoke,
    limit,
    sequence,
    until_ok,
)
from splitbrain.results.history import Op
from splitbrain.workloads.declare import DeclareClient
from splitbrain.workloads.groups import final_reads, keys_used, threads_per_key

READS_MAX: Final = 2
"""A client on a node that is cut off must not hold up all others for as long as that lasts."""


def _creation(ctx: Context) -> Op:
    """A creation with the client's own number: a read shows the winner."""
    (thread,) = ctx.free_threads
    return invoke("create", ctx.processes[thread])


def create_once(
    *, nodes: Sequence[NodeId], concurrency: int, rate: float = 100.0, time_limit_s: float = 30.0
) -> Workload:
    """The workload for this number of clients of these nodes, at `rate` ops per second for `time_limit_s`."""
    threads = threads_per_key(concurrency, len(nodes))

    def of_key(_: str) -> Generator:
        asking = limit(READS_MAX, until_ok(each(lambda _: invoke("read"))))
        return each_thread(sequence(limit(1, each(_creation)), asking))

    return Workload(
        name="create-once",
        client=DeclareClient(),
        generator=concurrent_keys(threads, itertools.count(), of_key),
        final_generator=final_reads(keys_used(rate, time_limit_s, 2 * threads)),
        checkers=(
            CheckerSpec("linearizable", {"model": "create-once"}),
            CheckerSpec("stats"),
            CheckerSpec("coverage", {"fs": ["create", "read"]}),
        ),
        fs=("create", "read"),
        needs=frozenset({CREATIONS.name}),
        shapes={"create": OpShape(keyed=True, value=WHOLE), "read": OpShape(keyed=True)},
    )

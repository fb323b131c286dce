"""Formation: nodes without data start at once and find each other; clients ask each node which cluster it is in.

Faults begin while the nodes look for each other. Once all is healed, and nodes that gave up were started again, each
node is asked until it is in a cluster, and then all of them once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import FORMATION
from splitbrain.harness.contract.sessions import DefiniteError, Formation
from splitbrain.harness.contract.test import OpShape, Test, Workload
from splitbrain.harness.generators import each, final, invoke, phases
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.sessions import SessionClient

ASK: Final = "ask-formation"

SETTLES_S: Final = 40.0
"""For nodes that look for a cluster, once all is healed."""


class FormationClient(SessionClient[Formation]):
    """Asks a node which cluster it is in."""

    operations = FORMATION

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        if op.f != ASK:
            raise ProtocolError(f"the workload formation knows no op {op.f!r}, only {ASK}.")
        found = (await self.session.formed()).value
        if op.value == "settles" and found["phase"] == "looks":
            raise DefiniteError(f"it still looks for a cluster: {found['problem'] or 'it has just begun'}")
        return op.complete("ok", found)


def formation(
    *,
    nodes: Sequence[NodeId],  # noqa: ARG001 - as every builder
    concurrency: int,  # noqa: ARG001
    rate: float = 100.0,  # noqa: ARG001
    time_limit_s: float = 30.0,  # noqa: ARG001
) -> Workload:
    """The workload. It is the same for any number of nodes and clients."""
    return Workload(
        name="formation",
        client=FormationClient(),
        generator=each(lambda _: invoke(ASK)),
        final_generator=phases(
            final(invoke(ASK, "settles"), retry_s=0.5, timeout_s=SETTLES_S),
            final(invoke(ASK, "at rest"), retry_s=0.5, timeout_s=5.0),
        ),
        checkers=(
            CheckerSpec("one-cluster"),
            CheckerSpec("stats"),
            CheckerSpec("coverage", {"fs": [ASK], "reads": [ASK]}),
        ),
        fs=(ASK,),
        needs=frozenset({FORMATION.name}),
        shapes={ASK: OpShape(value=str | None)},
    )

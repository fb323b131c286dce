"""Nodes that get little of a CPU: alive and slow, which a failure detector cannot tell from dead (a grey failure).

An op has the spec of its target nodes (`spec`) and their share of one CPU (`share`), drawn when it is scheduled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.magnitudes import Bounds
from splitbrain.harness.contract.marks import reached
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.nemesis.draws import magnitude
from splitbrain.nemesis.effects import Effect, carry_out
from splitbrain.nemesis.kinds import Injection, Kind, Ways, always
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.targets import choose, fewest, leads, needs_views, views
from splitbrain.results.errors import BackendError, NemesisError, UsageError
from splitbrain.results.history import Op
from splitbrain.results.nemesisop import RequestOfNodes, asked

PERCENT: Final = (1, 30)
"""The share of a CPU that remains."""

SHARE: Final = Bounds(0.001, 1, "of a CPU")
"""The bounds of a share."""


def share(_: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
    """1 to 30 % of a CPU."""
    return {"share": magnitude(rng, *PERCENT) / 100}


class CpuRequest(RequestOfNodes, tag="cpu", frozen=True, kw_only=True):
    """The share of one CPU that some nodes get."""

    share: float

    def __post_init__(self) -> None:
        """Refuse a share out of bounds (UsageError)."""
        problem = SHARE.problem("share", self.share, whole=False)
        if problem is not None:
            raise UsageError(f"the share of a CPU fault: {problem}")


class Cpu:
    """Throttles nodes (`start-cpu`) and lifts the limit (`stop-cpu`).

    Args:
        ledger: shared with other nemeses of the test, if there are any.
    """

    fs = frozenset({"start-cpu", "stop-cpu"})
    faults: frozenset[FaultKind] = frozenset({"cpu"})

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger or Ledger()

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        """Throttle the op's target nodes, or none; reports how often the nodes throttled before had to wait."""

        async def start(effect: Effect) -> None:
            wanted = asked(op.value, CpuRequest)
            left = wanted.share
            await self._lift(context, Effect())
            seen = await views(context) if needs_views(wanted.node_spec) else ()
            chosen = choose(wanted.node_spec, wanted.order or context.deployment.nodes, seen)
            effect.target = " ".join(chosen)
            for node in chosen:
                self._ledger.throttled[node] = left
                effect.evidence[node] = dict(await context.deployment.throttle(node, left))
            if any(leads(node, seen) for node in chosen):
                reached("leader throttled")

        async def stop(effect: Effect) -> None:
            effect.hits(self._ledger.throttled, otherwise="no node was throttled")
            await self._lift(context, effect)

        return await carry_out(context, op, start if op.f == "start-cpu" else stop, self._ledger)

    async def heal(self, context: NemesisContext) -> None:
        """Lift every limit.

        Raises:
            NemesisError: a node stays throttled.
        """
        await self._lift(context, Effect())

    async def _lift(self, context: NemesisContext, effect: Effect) -> None:
        problems: list[str] = []
        for node in list(self._ledger.throttled):
            try:
                did = dict(await context.deployment.throttle(node, None))
            except BackendError as problem:
                problems.append(f"{node}: {problem}")
                continue
            del self._ledger.throttled[node]
            effect.evidence[node] = {"did": did, "bit": bool(did.get("throttled"))}
            if did.get("throttled"):
                reached("node throttled")
        if problems:
            raise NemesisError(f"cpu: {'; '.join(problems)}.")


# --- the kind of fault ------------------------------------------------------------------------------------------------


def _cpus(*names: str) -> tuple[Injection, ...]:
    return tuple(Injection({"spec": name}, nodes=fewest(name), figures=share, needs=("cpu",)) for name in names)


KIND: Final = Kind(
    request=CpuRequest,
    nemesis=Cpu,
    start_f="start-cpu",
    stop_f="stop-cpu",
    example='{"spec": "leader", "share": 0.05}',
    needs=always("cpu"),
    marks=("leader throttled", "node throttled"),
    healed=24,
    ways={
        "cpu": Ways(
            (_cpus("leader"), _cpus("one", "minority", "majority", "all")),
            "leaves 1 to 30 % of a CPU: in turn to the leader, and to one, some or all nodes",
        ),
        "cpu-leader": Ways((_cpus("leader"),), "leaves the leader 1 to 30 % of a CPU"),
        "cpu-one": Ways((_cpus("one"),), "leaves one node 1 to 30 % of a CPU"),
        "cpu-all": Ways((_cpus("all"),), "leaves every node 1 to 30 % of a CPU"),
    },
)

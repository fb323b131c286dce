"""Network partitions: cut, measured, recorded, healed, measured again.

An op names a shape and an order of the nodes, drawn when it was scheduled. Who leads is looked up when the fault
strikes. So a schedule is a function of the seed, and a stored op says all that it takes to strike again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from harness.protocols import Deployment, FaultKind, Link, NemesisContext, NodeId
from nemesis import grudges
from nemesis.effects import Effect, carry_out, request
from nemesis.grudges import Grudge
from nemesis.targets import leader, views
from results.errors import NemesisError, UnknownNameError
from results.history import Op

Draw: TypeAlias = "Callable[[Sequence[NodeId], NodeId], Grudge]"


def _by_chance(draw: Callable[[Sequence[NodeId]], Grudge]) -> Draw:
    """A topology that does not depend on who leads."""
    return lambda order, _: draw(order)


def _of_first(draw: Draw) -> Draw:
    """A topology about the first node of the order, whoever leads."""
    return lambda order, _: draw(order, order[0])


class Shape(NamedTuple):
    """A topology by name.

    `draw` takes the nodes in random order and the node that leads (the first in the order where nobody is known to);
    `by_role` says whether it looks at the leader; with fewer than `nodes` nodes the shape cuts nothing, or nothing of
    its own.
    """

    draw: Draw
    by_role: bool = False
    nodes: int = 2


SHAPES: Final[Mapping[str, Shape]] = {
    "halves": Shape(_by_chance(grudges.halves)),
    "isolate-one": Shape(_by_chance(grudges.isolate_one)),
    "isolate-leader": Shape(grudges.isolate, by_role=True),
    "leader-in-minority": Shape(grudges.in_minority, by_role=True),
    "majorities-ring": Shape(_by_chance(grudges.majorities_ring), nodes=3),
    "bridge": Shape(_by_chance(grudges.bridge), nodes=3),
    "one-way-mute": Shape(_of_first(grudges.mute)),
    "one-way-deaf": Shape(_of_first(grudges.deaf)),
    "one-way-mute-leader": Shape(grudges.mute, by_role=True),
    "one-way-deaf-leader": Shape(grudges.deaf, by_role=True),
    "one-way-halves": Shape(_by_chance(grudges.one_way_halves)),
    "thirds": Shape(_by_chance(grudges.thirds), nodes=3),
}
"""Shapes by the name that an op carries."""

_MEASUREMENTS_MAX = 3
"""A probe may be lost on a busy machine: a link is wrong only if that many measurements in a row say so."""


async def verify(deployment: Deployment, cut: frozenset[Link]) -> dict[str, Any]:
    """Measure every directed link: those in `cut` must not pass, all others must.

    Returns:
        The evidence: how many links were seen blocked and open, after how many measurements.

    Raises:
        NemesisError: a link does not do what it should, also when measured again.
    """
    links = grudges.all_links(deployment.nodes)
    wrong, measurements = links, 0
    while wrong and measurements < _MEASUREMENTS_MAX:
        passes = await deployment.passes(wrong)
        wrong = tuple(link for link in wrong if passes[link] is (link in cut))
        measurements += 1
    if wrong:
        seen = ", ".join(f"{a} -> {b} {'passes' if (a, b) in cut else 'is blocked'}" for a, b in wrong)
        raise NemesisError(f"the network is not as it was set: {seen} (measured {measurements} times).")
    return {"links_blocked": len(cut), "links_open": len(links) - len(cut), "measurements": measurements}


class Partition:
    """Cuts links by shape (`start-partition`) and heals them all (`stop-partition`)."""

    fs = frozenset({"start-partition", "stop-partition"})
    faults: frozenset[FaultKind] = frozenset({"cut"})

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        """Replace the whole topology, measure it, and say what it is now."""

        async def start(effect: Effect) -> None:
            grudge = await self._resolve(context, request(op), effect)
            effect.target = grudge.target
            await context.deployment.cut(grudge.cut)
            effect.evidence.update(await verify(context.deployment, grudge.cut))

        async def stop(effect: Effect) -> None:
            swallowed = await context.deployment.dropped()
            effect.target = "all links"
            effect.evidence["dropped"] = sum(swallowed.values())
            effect.evidence["dropped_by_link"] = [[*link, swallowed[link]] for link in sorted(swallowed)]
            await context.deployment.cut(frozenset())
            effect.evidence.update(await verify(context.deployment, frozenset()))

        return await carry_out(context, op, start if op.f == "start-partition" else stop)

    async def heal(self, context: NemesisContext) -> None:
        """Let every link pass, and see that it does.

        Raises:
            NemesisError: a link stays blocked.
        """
        await context.deployment.cut(frozenset())
        await verify(context.deployment, frozenset())

    async def _resolve(self, context: NemesisContext, wanted: Mapping[str, Any], effect: Effect) -> Grudge:
        """The topology that a request means now."""
        name = str(wanted.get("shape"))
        if name not in SHAPES:
            raise UnknownNameError("partition shape", name, SHAPES)
        shape = SHAPES[name]
        order: Sequence[NodeId] = wanted.get("order") or list(context.deployment.nodes)
        if len(order) < shape.nodes:
            raise NemesisError(f"a partition of shape {name} needs {shape.nodes} nodes, and there are {len(order)}.")
        boss: NodeId | None = None
        if shape.by_role:
            boss = effect.evidence["leader"] = leader(await views(context))
        return shape.draw(order, order[0] if boss is None else boss)

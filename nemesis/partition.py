"""Network partitions: cut, measured, recorded, healed, measured again.

An op has a shape and an order of the nodes, drawn when it was scheduled. The leader is looked up when the fault is
injected. So a schedule is a function of the seed, and a stored op has all that is needed to repeat it. A swizzle is a
partition that comes and goes in steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.marks import reached
from splitbrain.harness.contract.nodes import Link, NodeId
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.nemesis import grudges, swizzle
from splitbrain.nemesis.checks import check_enough, check_name, check_nodes
from splitbrain.nemesis.effects import Effect, carry_out
from splitbrain.nemesis.grudges import Grudge
from splitbrain.nemesis.kinds import Asked, Injection, Kind, Ways, always
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.swizzle import Swizzle
from splitbrain.nemesis.targets import leads, of_role, views
from splitbrain.results.errors import BackendError, NemesisError, UnknownNameError, UsageError
from splitbrain.results.history import Op
from splitbrain.results.nemesisop import Request, asked

Draw: TypeAlias = "Callable[[Sequence[NodeId], NodeId], Grudge]"


def _by_chance(draw: Callable[[Sequence[NodeId]], Grudge]) -> Draw:
    """A topology that does not depend on who leads."""
    return lambda order, _: draw(order)


def _of_first(draw: Draw) -> Draw:
    """A topology around the first node of the order, independent of the leader."""
    return lambda order, _: draw(order, order[0])


class Shape(NamedTuple):
    """A topology by name.

    `draw` takes the nodes in random order and the node that leads (the first in the order if no leader is known);
    `role` is what that node leads (`splitbrain.nemesis.targets.of_role`), none if the shape does not look at it; with
    fewer than `nodes` nodes the shape cuts nothing, or nothing of its own.
    """

    draw: Draw
    role: str = ""
    nodes: int = 2


SHAPES: Final[Mapping[str, Shape]] = {
    "halves": Shape(_by_chance(grudges.halves)),
    "isolate-one": Shape(_by_chance(grudges.isolate_one)),
    "isolate-leader": Shape(grudges.isolate, role="leader"),
    "leader-in-minority": Shape(grudges.in_minority, role="leader"),
    "isolate-queue-leader": Shape(grudges.isolate, role="queue-leader"),
    "isolate-store-leader": Shape(grudges.isolate, role="store-leader"),
    "majorities-ring": Shape(_by_chance(grudges.majorities_ring), nodes=3),
    "bridge": Shape(_by_chance(grudges.bridge), nodes=3),
    "one-way-mute": Shape(_of_first(grudges.mute)),
    "one-way-deaf": Shape(_of_first(grudges.deaf)),
    "one-way-mute-leader": Shape(grudges.mute, role="leader"),
    "one-way-deaf-leader": Shape(grudges.deaf, role="leader"),
    "one-way-halves": Shape(_by_chance(grudges.one_way_halves)),
    "thirds": Shape(_by_chance(grudges.thirds), nodes=3),
}
"""Shapes by the name that an op carries."""


class PartitionRequest(Request, tag="partition", frozen=True, kw_only=True):
    """What a partition looks like.

    Attributes:
        shape: a key of `SHAPES`, or that of a swizzle, which alone has the rest (see
            `splitbrain.nemesis.swizzle.Swizzle`).
    """

    shape: str | None = None
    nodes: tuple[NodeId, ...] = ()
    pauses_ms: tuple[int, ...] = ()
    heal_nodes: tuple[NodeId, ...] = ()
    heal_pauses_ms: tuple[int, ...] = ()

    @property
    def steps(self) -> Swizzle:
        """The steps of a swizzle."""
        return Swizzle(self.nodes, self.pauses_ms, self.heal_nodes, self.heal_pauses_ms)


_MEASUREMENTS_MAX = 3
"""A probe may be lost on a busy machine: a link is wrong only if that many measurements in a row say so."""


async def verify(
    deployment: Deployment, cut: frozenset[Link], clogged: frozenset[Link] = frozenset()
) -> dict[str, Any]:
    """Measure every directed link: those in `cut` must not pass, all others must, except `clogged` ones.

    Returns:
        The evidence: how many links were seen blocked and open, after how many measurements.

    Raises:
        NemesisError: a link does not do what it should, also when measured again.
    """
    links = tuple(link for link in grudges.all_links(deployment.nodes) if link in cut or link not in clogged)
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
    """Cuts links by shape (`start-partition`) and heals them all (`stop-partition`).

    The topology is measured when it is set, and again before it is replaced or healed. If rules were removed or expired
    meanwhile, the op that finds it is info.

    Args:
        ledger: shared with other nemeses of the test, if there are any.
    """

    fs = frozenset({"start-partition", "stop-partition"})
    faults: frozenset[FaultKind] = frozenset({"cut"})

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger or Ledger()
        self._swizzled: Swizzle | None = None
        self._topology: frozenset[Link] = frozenset()

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        """Replace the whole topology, measure it, and report it."""

        async def start(effect: Effect) -> None:
            wanted = asked(op.value, PartitionRequest)
            self._swizzled = None
            lapsed = await self._lapsed(context.deployment)
            if wanted.shape == swizzle.SHAPE:
                swizzle.check(wanted.steps, context.deployment.nodes)
                await self._swizzle(context, wanted.steps, effect)
            else:
                await self._cut(context, wanted, effect)
            if lapsed:
                raise NemesisError(" ".join(lapsed))

        async def stop(effect: Effect) -> None:
            swizzled, self._swizzled = self._swizzled, None
            effect.target = "all links"
            problems = await self._lapsed(context.deployment)
            try:
                swallowed = await context.deployment.dropped()
                if swizzled is not None:
                    swallowed = {**swallowed, **await self._unswizzle(context, swizzled, effect)}
                _record_dropped(swallowed, effect)
            except (NemesisError, BackendError) as problem:
                problems.append(str(problem))
            try:
                await self._set(context.deployment, frozenset(), effect.evidence)
            except (NemesisError, BackendError) as problem:
                problems.append(str(problem))
            if problems:
                raise NemesisError(" ".join(dict.fromkeys(problems)))

        return await carry_out(context, op, start if op.f == "start-partition" else stop, self._ledger)

    async def heal(self, context: NemesisContext) -> None:
        """Let every link pass, and see that it does.

        Raises:
            NemesisError: a link stays blocked.
        """
        self._swizzled = None
        await self._set(context.deployment, frozenset(), {})

    async def _cut(self, context: NemesisContext, wanted: PartitionRequest, effect: Effect) -> None:
        """Cut the links of a request, all at once."""
        nodes = context.deployment.nodes
        name = str(wanted.shape)
        if name not in SHAPES:
            raise UnknownNameError("partition shape", name, [*SHAPES, swizzle.SHAPE])
        shape = SHAPES[name]
        order = wanted.order or nodes
        if len(order) < shape.nodes:
            raise NemesisError(f"a partition of shape {name} needs {shape.nodes} nodes, and there are {len(order)}.")
        seen = await views(context) if shape.role else ()
        boss = of_role(shape.role, order, seen)
        if shape.role:
            effect.evidence["leader"] = boss
        grudge = shape.draw(order, order[0] if boss is None else boss)
        effect.target = grudge.target
        await self._set(context.deployment, grudge.cut, effect.evidence)
        _mark(grudge.cut, nodes, boss if leads(boss, seen) else None)

    async def _swizzle(self, context: NemesisContext, wanted: Swizzle, effect: Effect) -> None:
        """Cut the nodes off one after the other."""
        nodes = context.deployment.nodes
        effect.target = f"swizzle {' '.join(wanted.nodes)}"
        self._swizzled = wanted
        steps = _Steps(context, effect)
        for gone, node, pause_ms in swizzle.steps(wanted.nodes, wanted.pauses_ms):
            cut = swizzle.cut_off(gone, nodes)
            await self._set(context.deployment, cut, effect.evidence)
            await steps.end(node, cut, pause_ms)
        _mark(swizzle.cut_off(wanted.nodes, nodes), nodes, None)
        reached("swizzled")

    async def _unswizzle(self, context: NemesisContext, wanted: Swizzle, effect: Effect) -> dict[Link, int]:
        """Reconnect the nodes one after the other; returns what each link dropped until it was healed."""
        nodes = context.deployment.nodes
        swallowed: dict[Link, int] = {}
        steps = _Steps(context, effect)
        for back, node, pause_ms in swizzle.steps(wanted.heal_nodes, wanted.heal_pauses_ms):
            cut = swizzle.cut_off([other for other in wanted.nodes if other not in back], nodes)
            counted = await context.deployment.dropped()
            swallowed.update({link: counted[link] for link in sorted(counted) if link not in cut})
            await self._set(context.deployment, cut, effect.evidence)
            await steps.end(node, cut, pause_ms)
        return swallowed

    async def _lapsed(self, deployment: Deployment) -> list[str]:
        """Links that are no longer as they were set; empty if all are, or none is cut."""
        try:
            if self._topology:
                await verify(deployment, self._topology, self._ledger.clogged)
        except (NemesisError, BackendError) as problem:
            return [f"before the links were changed, {problem}"]
        return []

    async def _set(self, deployment: Deployment, cut: frozenset[Link], evidence: dict[str, Any]) -> None:
        """Cut exactly these links, and measure that they are."""
        await deployment.cut(cut)
        self._topology = cut
        evidence.update(await verify(deployment, cut, self._ledger.clogged))


def _record_dropped(swallowed: Mapping[Link, int], effect: Effect) -> None:
    """Record how many packets the cut links dropped, and whether there were any."""
    dropped = sum(swallowed.values())
    by_link = [[*link, swallowed[link]] for link in sorted(swallowed)]
    effect.evidence.update({"dropped": dropped, "dropped_by_link": by_link})
    if swallowed:
        effect.evidence["bit"] = dropped > 0
    if dropped:
        reached("cut swallowed traffic")


class _Steps:
    """Records the steps of a swizzle, and waits between them."""

    def __init__(self, context: NemesisContext, effect: Effect) -> None:
        self._clock = context.runtime.clock
        self._began_ns = self._clock.now_ns()
        self._steps: list[dict[str, Any]] = effect.evidence.setdefault("steps", [])

    async def end(self, node: NodeId, cut: frozenset[Link], pause_ms: int | None) -> None:
        """Record a measured step: `node` is cut off, or back, and these links are cut. Wait before the next one."""
        at_ms = round((self._clock.now_ns() - self._began_ns) / 1e6, 3)
        self._steps.append({"at_ms": at_ms, "node": node, "links_cut": len(cut)})
        if pause_ms is not None:
            await self._clock.sleep_ns(pause_ms * 1_000_000)


def _mark(cut: frozenset[Link], nodes: Sequence[NodeId], boss: NodeId | None) -> None:
    """Count the topologies that were reached; `boss` is a node that reported that it led."""
    company = grudges.company(cut, nodes)
    enough = grudges.majority(len(nodes))
    if any((destination, source) not in cut for source, destination in sorted(cut)):
        reached("one-way cut")
    if all(count < enough for count in company.values()):
        reached("no node reached a majority")
    if cut and all(count >= enough for count in company.values()):
        reached("every node reached a majority")
    if boss is not None and swizzle.cut_off([boss], nodes) <= cut:
        reached("leader isolated")
    elif boss is not None and company[boss] < enough:
        reached("leader in a minority")


# --- the kind of fault ------------------------------------------------------------------------------------------------


def _check(given: Asked[PartitionRequest]) -> None:
    request = given.request
    check_name("shape", request.shape, [*SHAPES, swizzle.SHAPE], f"of {given.f}")
    if request.shape == swizzle.SHAPE:
        check_nodes(given.f, "nodes", request.nodes, given.nodes)
        check_nodes(given.f, "heal_nodes", request.heal_nodes, given.nodes)
        swizzle.check(request.steps, given.nodes)
        if sorted(request.nodes) != sorted(request.heal_nodes) or len(set(request.nodes)) != len(request.nodes):
            raise UsageError("a swizzle lets back (heal_nodes) the nodes that it cuts off (nodes), each of them once.")
    elif steps := [name for name in Swizzle.__struct_fields__ if getattr(request, name)]:
        raise UsageError(f"the shape {request.shape!r} has no steps: leave {', '.join(steps)} out.")
    needed = 2 if request.shape == swizzle.SHAPE else SHAPES[str(request.shape)].nodes
    check_enough(given.order, needed, f"a partition of shape {request.shape}")


def _shapes(*names: str) -> tuple[Injection, ...]:
    return tuple(Injection({"shape": name}, nodes=SHAPES[name].nodes, needs=("cut",)) for name in names)


_ONE_WAY: Final = ("one-way-mute", "one-way-deaf", "one-way-mute-leader", "one-way-deaf-leader", "one-way-halves")

KIND: Final = Kind(
    request=PartitionRequest,
    nemesis=Partition,
    start_f="start-partition",
    stop_f="stop-partition",
    example='{"shape": "halves"}',
    needs=always("cut"),
    marks=(
        "leader isolated",
        "leader in a minority",
        "one-way cut",
        "no node reached a majority",
        "every node reached a majority",
        "cut swallowed traffic",
        "swizzled",
    ),
    healed=10,
    check=_check,
    ways={
        "partition": Ways(
            (
                _shapes("isolate-leader", "leader-in-minority"),
                _shapes(*2 * ("halves", "thirds", "bridge", "majorities-ring"), "isolate-one", *_ONE_WAY),
            ),
            "cuts links: in turn one that separates the leader from the majority, and one of any other shape",
        ),
        "swizzle": Ways(
            ((Injection({"shape": swizzle.SHAPE}, nodes=2, figures=swizzle.draw, needs=("cut",)),),),
            "cuts off some nodes one after the other, and lets them back in another order",
        ),
        "partition-halves": Ways((_shapes("halves"),), "a minority from a majority, at random"),
        "partition-one": Ways((_shapes("isolate-one"),), "one node from all others"),
        "partition-leader": Ways((_shapes("isolate-leader"),), "the leader from all others"),
        "partition-queue-leader": Ways((_shapes("isolate-queue-leader"),), "the leader of any queue from all others"),
        "partition-store-leader": Ways(
            (_shapes("isolate-store-leader"),), "the leader of the metadata store from all others"
        ),
        "partition-minority-leader": Ways(
            (_shapes("leader-in-minority"),), "the leader and the rest of a minority from the majority"
        ),
        "partition-ring": Ways((_shapes("majorities-ring"),), "every node sees a majority, no two nodes the same one"),
        "partition-bridge": Ways((_shapes("bridge"),), "two sides that only one node connects"),
        "partition-one-way": Ways((_shapes(*_ONE_WAY),), "nodes that hear and are not heard, or the reverse"),
        "partition-mute-leader": Ways((_shapes("one-way-mute-leader"),), "a leader that hears, and is not heard"),
        "partition-221": Ways((_shapes("thirds"),), "three parts, none of which is a majority"),
    },
)

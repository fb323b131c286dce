"""An example of a kind of fault: nodes are cut off from all other nodes for a while, but not from clients.

splitbrain run --nemesis examples.own_nemesis:EXILE --backend sim
"""

from __future__ import annotations

from splitbrain import (
    Effect,
    FaultKind,
    Injection,
    Kind,
    Ledger,
    Link,
    NemesisContext,
    NodeId,
    Op,
    RequestOfNodes,
    Ways,
    all_links,
    always,
    asked,
    carry_out,
    choose,
    fewest,
    needs_views,
    verify,
    views,
)


class ExileRequest(RequestOfNodes, tag="exile", frozen=True, kw_only=True):
    """Who is cut off (`spec`); one_way: whether they still hear the others."""

    one_way: bool = False


class Exile:
    """Cuts links of nodes (`exile`) and lets all pass again (`return`)."""

    fs = frozenset({"exile", "return"})
    faults: frozenset[FaultKind] = frozenset({"cut"})

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        """Carry out one op; `carry_out` adds what is in force afterwards."""

        async def exile(effect: Effect) -> None:
            wanted = asked(op.value, ExileRequest)
            nodes = context.deployment.nodes
            gone = await self._choose(context, wanted)
            sent = [link for link in all_links(nodes) if link[0] in gone]
            heard = [link for link in all_links(nodes) if link[1] in gone]
            effect.hits(gone, otherwise="no node fits the request")
            await self._set(context, frozenset(sent if wanted.one_way else sent + heard), effect)

        async def come_back(effect: Effect) -> None:
            swallowed = await context.deployment.dropped()
            effect.target = "all links"
            effect.evidence.update(dropped=sum(swallowed.values()), bit=any(swallowed.values()))
            await self._set(context, frozenset(), effect)

        return await carry_out(context, op, exile if op.f == "exile" else come_back, self._ledger)

    async def _choose(self, context: NemesisContext, wanted: ExileRequest) -> list[NodeId]:
        """Nodes that run first: to cut off a node that another fault has stopped changes nothing."""
        order = wanted.order or context.deployment.nodes
        states = {node: (await context.deployment.status(node)).state for node in order}
        by_state = sorted(order, key=lambda node: states[node] != "running")
        seen = await views(context) if needs_views(wanted.node_spec) else ()
        return choose(wanted.node_spec, by_state, seen)

    async def heal(self, context: NemesisContext) -> None:
        """Let all links pass."""
        await self._set(context, frozenset(), Effect())

    async def _set(self, context: NemesisContext, cut: frozenset[Link], effect: Effect) -> None:
        """Cut exactly these links, and measure that they are: NemesisError if one passes."""
        await context.deployment.cut(cut)
        effect.evidence.update(await verify(context.deployment, cut))


def _who(*specs: str) -> tuple[Injection, ...]:
    return tuple(Injection({"spec": spec}, nodes=max(2, fewest(spec)), needs=("cut",)) for spec in specs)


EXILE = Kind(
    request=ExileRequest,
    nemesis=Exile,
    start_f="exile",
    stop_f="return",
    example='{"spec": "leader", "one_way": true}',
    needs=always("cut"),
    healed=10,
    ways={
        "exile": Ways((_who("leader"), _who("one", "minority")), "cuts off the leader, and others, in turn"),
        "exile-leader": Ways((_who("leader"),), "cuts off the leader"),
    },
)

EXILE_LEADER = EXILE.entry("exile-leader")

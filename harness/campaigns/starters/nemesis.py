"""A kind of fault: a node is paused and resumed some seconds later."""

from __future__ import annotations

from splitbrain import (
    Effect,
    FaultKind,
    Injection,
    Kind,
    Ledger,
    NemesisContext,
    NemesisError,
    NodeId,
    Op,
    RequestOfNodes,
    Ways,
    always,
    asked,
    carry_out,
    choose,
    needs_views,
    views,
)


class StarterRequest(RequestOfNodes, tag="starter", frozen=True, kw_only=True):
    """Which nodes are paused (`spec`)."""


class Starter:
    """Pauses nodes (`starter`) and resumes them (`stop-starter`)."""

    fs = frozenset({"starter", "stop-starter"})
    faults: frozenset[FaultKind] = frozenset({"pause"})

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        """Carry out one op; `carry_out` adds what is in force afterwards."""
        act = self._pause if op.f == "starter" else self._resume

        async def do(effect: Effect) -> None:
            await act(context, op, effect)

        return await carry_out(context, op, do, self._ledger)

    async def heal(self, context: NemesisContext) -> None:
        """Resume every paused node."""
        for node in context.deployment.nodes:
            if (await context.deployment.status(node)).state == "paused":
                await context.deployment.resume(node)

    async def _pause(self, context: NemesisContext, op: Op, effect: Effect) -> None:
        nodes = await self._choose(context, asked(op.value, StarterRequest))
        effect.hits(nodes, otherwise="no node was running")
        for node in nodes:
            state = (await context.deployment.pause(node)).state
            effect.evidence[node] = {"state": state}
            if state != "paused":
                raise NemesisError(f"{node} is {state} instead of paused.")

    async def _choose(self, context: NemesisContext, wanted: RequestOfNodes) -> list[NodeId]:
        """The nodes of the request that run; if none of them does, another one. Other faults may have stopped nodes."""
        order = wanted.order or context.deployment.nodes
        states = {node: (await context.deployment.status(node)).state for node in order}
        running = [node for node in order if states[node] == "running"]
        others = [node for node in order if states[node] != "running"]
        seen = await views(context) if needs_views(wanted.node_spec) else ()
        chosen = choose(wanted.node_spec, [*running, *others], seen)
        return [node for node in chosen if node in running] or running[:1]

    async def _resume(self, context: NemesisContext, op: Op, effect: Effect) -> None:
        effect.target = "all nodes"
        await self.heal(context)


STARTER = Kind(
    request=StarterRequest,
    nemesis=Starter,
    start_f="starter",
    stop_f="stop-starter",
    example='{"spec": "leader"}',
    needs=always("pause"),
    ways={
        "starter": Ways(
            (
                (Injection({"spec": "leader"}, nodes=1, needs=("pause",)),),
                (Injection({"spec": "one"}, nodes=1, needs=("pause",)),),
            ),
            "pauses the leader, and any node, in turn",
        )
    },
)

"""A restart of every node: one after the other, all at once, or in one order and back in another.

Operators do this all the time, and it is not a fault: a cluster must not lose an acknowledged write by it. By a rolling
restart, in which each node is restarted once the one before it answers again, it must not lose its leader for longer
than an election, either. Nodes end by SIGKILL: a system that survives it survives a signal that it can handle.

An op has the order in which nodes end. Where they come back in another one, that was drawn when the op was scheduled,
with the pauses between their starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.marks import reached
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.harness.running.deadlines import together
from splitbrain.nemesis.checks import check_name, check_nodes, check_over
from splitbrain.nemesis.draws import STEPS_MAX, check_pauses
from splitbrain.nemesis.effects import Effect, carry_out
from splitbrain.nemesis.kinds import Asked, Injection, Kind, Ways, always
from splitbrain.nemesis.ledger import Ledger
from splitbrain.results.errors import BackendError, NemesisError, UsageError
from splitbrain.results.history import Op
from splitbrain.results.nemesisop import Request, asked

FAULT: Final = "restart"

BACK_S: Final = 10.0
"""Timeout of the wait for a node that does not answer."""

POLL_MS: Final = 50
"""The interval between two questions to a node."""

PAUSES_MS: Final = (0, 500)
"""The pause before each start of nodes that come back in another order."""

_MS: Final = 1_000_000

How: TypeAlias = Literal["rolling", "at-once", "any-order"]

HOW: Final = ("rolling", "at-once", "any-order")


class RestartRequest(Request, tag="restart", frozen=True, kw_only=True):
    """A restart of nodes in their order; it is always over when the op ends.

    Attributes:
        how: "rolling", one after the other; "at-once", all of them end, and start, at the same time; "any-order", they
            end one after the other, and start in another order.
        back: that other order.
        pauses_ms: the pause before each of these starts; there may be more, because shrinking removes nodes.
    """

    how: str = "rolling"
    back: tuple[NodeId, ...] = ()
    pauses_ms: tuple[int, ...] = ()
    over: bool = True


def draw(nodes: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
    """An order in which nodes come back, and the pauses."""
    back = list(nodes)
    rng.shuffle(back)
    return {"back": back, "pauses_ms": [rng.between(*PAUSES_MS) for _ in back]}


class Restarts:
    """Restarts all nodes that run (`restart`); its stop (`stop-restart`) starts those that did not come back.

    Nodes that are down or paused by then are left as they are.

    Args:
        ledger: shared with other nemeses of the test, if there are any.
    """

    fs = frozenset({"restart", "stop-restart"})
    faults: frozenset[FaultKind] = frozenset({"kill"})

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger or Ledger()
        self._down: dict[NodeId, None] = {}

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        """Restart the nodes in the op's order, or start those that stayed down; reports how long each was away."""

        async def restart(effect: Effect) -> None:
            wanted = asked(op.value, RestartRequest)
            check(wanted, context.deployment.nodes)
            order = wanted.order or context.deployment.nodes
            strangers = [node for node in order if node not in context.deployment.nodes]
            if strangers:
                raise NemesisError(
                    f"a restart of {', '.join(strangers)}: the nodes are {', '.join(context.deployment.nodes)}."
                )
            if wanted.how == "rolling":
                for node in order:
                    await self._restart(context, node, effect)
            else:
                await self._restart_all(context, wanted, order, effect)
            effect.hits(effect.evidence, otherwise="no node was there to be restarted")
            if len(effect.evidence) == len(context.deployment.nodes):
                reached(_MARKS[wanted.how])
            if missing := [node for node in self._down if not self._ledger.may_stay_down(node)]:
                raise NemesisError(f"{FAULT}: {', '.join(missing)} did not come back.")

        async def stop(effect: Effect) -> None:
            effect.hits(self._down, otherwise="every node came back")
            await self._start_all(context)

        return await carry_out(context, op, restart if op.f == "restart" else stop, self._ledger)

    async def heal(self, context: NemesisContext) -> None:
        """Start every node that did not come back.

        Raises:
            NemesisError: one does not start.
        """
        await self._start_all(context)

    async def _restart_all(
        self, context: NemesisContext, wanted: RestartRequest, order: Sequence[NodeId], effect: Effect
    ) -> None:
        """End all nodes that run before the first one starts again."""
        deployment, at_once = context.deployment, wanted.how == "at-once"
        before = {node: await deployment.status(node) for node in order}
        able = [
            node for node in order if before[node].state == "running" and not self._ledger.held_by_others(node, FAULT)
        ]
        self._down |= dict.fromkeys(able)
        if at_once:
            for answer in await together([deployment.kill(node) for node in able]):
                if isinstance(answer, Exception):
                    raise answer
        else:
            for node in able:
                await deployment.kill(node)
        back = able if at_once else [node for node in dict.fromkeys([*wanted.back, *able]) if node in able]
        pauses_ms = [0] * len(back) if at_once else [*wanted.pauses_ms, *([0] * len(back))]

        async def start(node: NodeId) -> None:
            try:
                after = await deployment.start(node)
            except BackendError as problem:
                effect.evidence[node] = {"problem": str(problem)}
                return
            self._down.pop(node, None)
            effect.evidence[node] = {"lives": [before[node].life, after.life]}

        if at_once:
            await together([start(node) for node in back])
        for node, pause_ms in zip(() if at_once else back, pauses_ms, strict=False):
            await context.runtime.clock.sleep_ns(pause_ms * _MS)
            await start(node)
        for node in back:
            if "lives" in effect.evidence[node]:
                effect.evidence[node]["answered"] = await self._answers(context, node)

    async def _restart(self, context: NemesisContext, node: NodeId, effect: Effect) -> None:
        deployment, clock = context.deployment, context.runtime.clock
        before = await deployment.status(node)
        if before.state != "running" or self._ledger.held_by_others(node, FAULT):
            return
        began_ns = clock.now_ns()
        await deployment.kill(node)
        self._down[node] = None
        try:
            after = await deployment.start(node)
        except BackendError as problem:
            effect.evidence[node] = {"problem": str(problem)}
            return
        del self._down[node]
        answered = await self._answers(context, node)
        effect.evidence[node] = {
            "lives": [before.life, after.life],
            "answered": answered,
            "away_ms": (clock.now_ns() - began_ns) // _MS,
        }

    async def _answers(self, context: NemesisContext, node: NodeId) -> bool:
        """Wait until the node answers; False after the timeout, for example because of another fault."""
        clock = context.runtime.clock
        end_ns = clock.now_ns() + round(BACK_S * 1e9)
        while await context.test.system.view(context.deployment, node) is None:
            if clock.now_ns() >= end_ns:
                return False
            await clock.sleep_ns(POLL_MS * _MS)
        return True

    async def _start_all(self, context: NemesisContext) -> None:
        problems: list[str] = []
        for node in [node for node in self._down if not self._ledger.held_by_others(node, FAULT)]:
            try:
                await context.deployment.start(node)
            except BackendError as problem:
                if not self._ledger.may_stay_down(node):
                    problems.append(f"{node}: {problem}")
            else:
                del self._down[node]
        if problems:
            raise NemesisError(f"{FAULT}: {'; '.join(problems)}.")


# --- the kind of fault ------------------------------------------------------------------------------------------------


def check(wanted: RestartRequest, known: Sequence[NodeId]) -> None:
    """Refuse restarts that are not possible.

    Raises:
        UsageError: there is no such way; or a request names nodes that are not in the test, or lacks pauses.
    """
    check_name("way to restart nodes (how)", wanted.how, HOW)
    if wanted.how != "any-order":
        if wanted.back:
            raise UsageError(f"a restart {wanted.how} has no other order to come back: remove back.")
        return
    check_nodes("restart", "back", wanted.back, known)
    if len(set(wanted.back)) != len(wanted.back) or not len(wanted.back) <= len(wanted.pauses_ms) <= STEPS_MAX:
        raise UsageError("a restart in any order names each node once in back, and a pause for each in pauses_ms.")
    check_pauses("pauses_ms", wanted.pauses_ms)


_MARKS: Final[Mapping[str, str]] = {
    "rolling": "rolling restart",
    "at-once": "restarted at once",
    "any-order": "restarted in another order",
}


def _check(given: Asked[RestartRequest]) -> None:
    check_over(given.request.over)
    check(given.request, given.nodes)


def _restarts(how: How) -> Injection:
    return Injection({"how": how, "over": True}, figures=draw if how == "any-order" else None, needs=("kill",))


KIND: Final = Kind(
    request=RestartRequest,
    nemesis=Restarts,
    start_f="restart",
    stop_f="stop-restart",
    example='{"how": "rolling"}',
    needs=always("kill"),
    marks=tuple(_MARKS.values()),
    healed=46,
    check=_check,
    over=True,
    ways={
        "restart": Ways(
            ((_restarts("rolling"),), (_restarts("at-once"), _restarts("any-order"))),
            "restarts all nodes: one after the other, each once the one before it answers again, and all together",
        ),
        "restart-rolling": Ways(
            ((_restarts("rolling"),),),
            "restarts all nodes, one after the other, each once the one before it answers again",
        ),
        "restart-at-once": Ways(((_restarts("at-once"),),), "ends all nodes at once, and starts them at once"),
        "restart-any-order": Ways(
            ((_restarts("any-order"),),), "ends all nodes one after the other, and starts them in another order"
        ),
    },
)

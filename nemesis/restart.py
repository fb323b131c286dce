"""A restart of every node: one after the other, all at once, or in one order and back in another.

Operators do this all the time, and it is not a fault: a cluster must not lose an acknowledged write by it. By a rolling
restart, in which each node is restarted once the one before it answers again, it must not lose its leader for longer
than an election, either. Nodes end by SIGKILL, which leaves nothing but what they wrote while they ran. Or they end in
good order (`ends`: "stop"), by SIGTERM: what a system writes only then, and what its next start makes of that, no kill
ever shows. A node that does not end within a grace is killed.

An op has the order in which nodes end. Where they come back in another one, that was drawn when the op was scheduled,
with the pauses between their starts.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args

from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.marks import reached
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.harness.running.deadlines import together
from splitbrain.nemesis.checks import check_name, check_nodes, check_over
from splitbrain.nemesis.draws import STEPS_MAX, check_pauses
from splitbrain.nemesis.effects import Effect, carry_out
from splitbrain.nemesis.kinds import Asked, Injection, Kind, Ways
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.restarting import IN_GOOD_ORDER, Ends, Restarting
from splitbrain.results.errors import NemesisError, UsageError
from splitbrain.results.history import Op
from splitbrain.results.nemesisop import Request, asked

T = TypeVar("T")

FAULT: Final = "restart"

PAUSES_MS: Final = (0, 500)
"""The pause before each start of nodes that come back in another order."""

_MS: Final = 1_000_000

How: TypeAlias = Literal["rolling", "at-once", "any-order"]

HOW: Final = ("rolling", "at-once", "any-order")

ENDS: Final[tuple[str, ...]] = get_args(Ends)


class RestartRequest(Request, tag="restart", frozen=True, kw_only=True):
    """A restart of nodes in their order; it is always over when the op ends.

    Attributes:
        how: "rolling", one after the other; "at-once", all of them end, and start, at the same time; "any-order", they
            end one after the other, and start in another order.
        back: that other order.
        pauses_ms: the pause before each of these starts; there may be more, because shrinking removes nodes.
        ends: "kill", nodes end by SIGKILL; "stop", in good order.
    """

    how: str = "rolling"
    back: tuple[NodeId, ...] = ()
    pauses_ms: tuple[int, ...] = ()
    over: bool = True
    ends: str = "kill"


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
    faults: frozenset[FaultKind] = frozenset({"kill", "stop"})

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger or Ledger()
        self._restarting = Restarting(FAULT, self._ledger)

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
                    if (seen := await self._restarting.restart(context, node, ends=_ends(wanted))) is not None:
                        effect.evidence[node] = seen
            else:
                await self._restart_all(context, wanted, order, effect)
            effect.hits(effect.evidence, otherwise="no node was there to be restarted")
            if len(effect.evidence) == len(context.deployment.nodes):
                reached(_MARKS[wanted.how])
                if all(seen.get("stopped") == IN_GOOD_ORDER and "lives" in seen for seen in effect.evidence.values()):
                    reached(_STOPPED)
            self._restarting.check_back()

        async def stop(effect: Effect) -> None:
            effect.hits(self._restarting.down, otherwise="every node came back")
            await self._restarting.start_all(context)

        return await carry_out(context, op, restart if op.f == "restart" else stop, self._ledger)

    async def heal(self, context: NemesisContext) -> None:
        """Start every node that did not come back.

        Raises:
            NemesisError: one does not start.
        """
        await self._restarting.start_all(context)

    async def _restart_all(
        self, context: NemesisContext, wanted: RestartRequest, order: Sequence[NodeId], effect: Effect
    ) -> None:
        """End all nodes that run before the first one starts again; each must answer once all have started."""
        restarting, at_once = self._restarting, wanted.how == "at-once"
        able = [node for node in order if await restarting.may(context, node)]
        began_ns = context.runtime.clock.now_ns()
        ends = _ends(wanted)
        if at_once:
            lives = await _all_of([restarting.end(context, node, ends) for node in able])
        else:
            lives = [await restarting.end(context, node, ends) for node in able]
        life = {node: before for node, (before, _) in zip(able, lives, strict=True)}
        ended = {node: seen for node, (_, seen) in zip(able, lives, strict=True)}
        if at_once:
            seen = await _all_of([restarting.start(context, node, life[node], began_ns) for node in able])
            effect.evidence.update({node: each | ended[node] for node, each in zip(able, seen, strict=True)})
            return
        back = [node for node in dict.fromkeys([*wanted.back, *able]) if node in able]
        for node, pause_ms in zip(back, [*wanted.pauses_ms, *([0] * len(back))], strict=False):
            await context.runtime.clock.sleep_ns(pause_ms * _MS)
            effect.evidence[node] = await restarting.come_back(context, node, life[node]) | ended[node]
        for node in back:
            await restarting.await_answer(context, node, effect.evidence[node], began_ns)


async def _all_of(works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of all of them at once; the first error, once all have ended."""
    results: list[T] = []
    for answer in await together(works):
        if isinstance(answer, Exception):
            raise answer
        results.append(answer)
    return results


# --- the kind of fault ------------------------------------------------------------------------------------------------


def check(wanted: RestartRequest, known: Sequence[NodeId]) -> None:
    """Refuse restarts that are not possible.

    Raises:
        UsageError: there is no such way; or a request names nodes that are not in the test, or lacks pauses.
    """
    check_name("way to restart nodes (how)", wanted.how, HOW)
    check_name("way to end nodes (ends)", wanted.ends, ENDS)
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

_STOPPED: Final = "restarted in good order"


def _ends(wanted: RestartRequest) -> Ends:
    return "stop" if wanted.ends == "stop" else "kill"


def _check(given: Asked[RestartRequest]) -> None:
    check_over(given.request.over)
    check(given.request, given.nodes)


def _restarts(how: How, ends: Ends = "kill") -> Injection:
    request = {"how": how, "over": True} if ends == "kill" else {"how": how, "over": True, "ends": ends}
    return Injection(request, figures=draw if how == "any-order" else None, needs=(ends,))


KIND: Final = Kind(
    request=RestartRequest,
    nemesis=Restarts,
    start_f="restart",
    stop_f="stop-restart",
    example='{"how": "rolling"}',
    needs=lambda wanted: (_ends(wanted),),
    marks=(*_MARKS.values(), _STOPPED),
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
        "restart-in-good-order": Ways(
            ((_restarts("rolling", "stop"),), (_restarts("at-once", "stop"), _restarts("any-order", "stop"))),
            "stops all nodes in good order (SIGTERM), one after the other or all together, and starts them",
        ),
    },
)

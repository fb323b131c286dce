"""A rolling restart: every node is restarted, one after the other, each once the one before it answers again.

Operators do this all the time, and it is not a fault: a cluster must not lose an acknowledged write by it, nor its
leader for longer than an election. Nodes end by SIGKILL: a system that survives it survives a signal that it can
handle.

An op has the order in which nodes are restarted.
"""

from __future__ import annotations

from typing import Final

from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.marks import reached
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.nemesis.checks import check_over
from splitbrain.nemesis.effects import Effect, carry_out
from splitbrain.nemesis.kinds import Asked, Injection, Kind, Ways, always
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.restarts import Restarts
from splitbrain.results.errors import NemesisError
from splitbrain.results.history import Op
from splitbrain.results.nemesisop import Request, asked

FAULT: Final = "restart"


class RestartRequest(Request, tag="restart", frozen=True, kw_only=True):
    """A restart of nodes in their order; it is always over when the op ends."""

    over: bool = True


class RollingRestart:
    """Restarts all nodes that run (`restart`); its stop (`stop-restart`) starts those that did not come back.

    Nodes that are down or paused by then are left as they are.

    Args:
        ledger: shared with other nemeses of the test, if there are any.
    """

    fs = frozenset({"restart", "stop-restart"})
    faults: frozenset[FaultKind] = frozenset({"kill"})

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger or Ledger()
        self._restarts = Restarts(FAULT, self._ledger)

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        """Restart the nodes in the op's order, or start those that stayed down; reports how long each was away."""

        async def restart(effect: Effect) -> None:
            order = asked(op.value, RestartRequest).order or context.deployment.nodes
            strangers = [node for node in order if node not in context.deployment.nodes]
            if strangers:
                raise NemesisError(
                    f"a restart of {', '.join(strangers)}: the nodes are {', '.join(context.deployment.nodes)}."
                )
            for node in order:
                if (seen := await self._restarts.restart(context, node)) is not None:
                    effect.evidence[node] = seen
            effect.hits(effect.evidence, otherwise="no node was there to be restarted")
            if len(effect.evidence) == len(context.deployment.nodes):
                reached("rolling restart")
            self._restarts.check_back()

        async def stop(effect: Effect) -> None:
            effect.hits(self._restarts.down, otherwise="every node came back")
            await self._restarts.start_all(context)

        return await carry_out(context, op, restart if op.f == "restart" else stop, self._ledger)

    async def heal(self, context: NemesisContext) -> None:
        """Start every node that did not come back.

        Raises:
            NemesisError: one does not start.
        """
        await self._restarts.start_all(context)


# --- the kind of fault ------------------------------------------------------------------------------------------------


def _check(given: Asked[RestartRequest]) -> None:
    check_over(given.request.over)


KIND: Final = Kind(
    request=RestartRequest,
    nemesis=RollingRestart,
    start_f="restart",
    stop_f="stop-restart",
    example="{}",
    needs=always("kill"),
    marks=("rolling restart",),
    healed=46,
    check=_check,
    over=True,
    ways={
        "restart": Ways(
            ((Injection({"over": True}, needs=("kill",)),),),
            "restarts all nodes, one after the other, each once the one before it answers again",
        ),
    },
)

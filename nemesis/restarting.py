"""Restarting nodes, and knowing those that did not come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

from splitbrain.harness.contract.deployments import StopsInGoodOrder
from splitbrain.harness.contract.nodes import NodeId, NodeStatus
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.nemesis.ledger import Ledger
from splitbrain.results.errors import BackendError, NemesisError

BACK_S: Final = 10.0
"""Timeout of the wait for a node that does not answer."""

POLL_MS: Final = 50
"""The interval between two questions to a node."""

_MS: Final = 1_000_000

Ends: TypeAlias = Literal["kill", "stop"]
"""How nodes end: by SIGKILL; or in good order, by SIGTERM, and by SIGKILL if that takes too long."""

IN_GOOD_ORDER: Final = "in good order"

_ORDERLY: Final = (None, "exit code 0", "exit code 143", "SIGTERM")
"""How a process ends that was asked to: as it wants to, or by the signal."""


class Restarting:
    """Restarts nodes for one fault, and knows those that did not come back.

    Args:
        fault: its name.
        ledger: of the test.
    """

    def __init__(self, fault: str, ledger: Ledger) -> None:
        self._fault = fault
        self._ledger = ledger
        self._down: dict[NodeId, None] = {}
        self._asked: dict[NodeId, None] = {}
        """Nodes that were asked to stop, of which it is not known whether they did: the op was given up meanwhile."""

    @property
    def down(self) -> tuple[NodeId, ...]:
        """The nodes that did not come back."""
        return tuple(self._down)

    async def may(self, context: NemesisContext, node: NodeId) -> bool:
        """Whether a node runs, and no other fault keeps it down."""
        running = (await context.deployment.status(node)).state == "running"
        return running and not self._ledger.held_by_others(node, self._fault)

    async def kill(self, context: NemesisContext, node: NodeId) -> int:
        """End a node that runs, which is to be started again soon; its life."""
        before = await context.deployment.status(node)
        await context.deployment.kill(node)
        self._down[node] = None
        return before.life

    async def end(self, context: NemesisContext, node: NodeId, ends: Ends) -> tuple[int, dict[str, Any]]:
        """End a node that runs, which is to be started again soon: its life, and what was seen of the end.

        Raises:
            NemesisError: it shall stop in good order, which the backend has no way to do.
        """
        if ends == "kill":
            return await self.kill(context, node), {}
        deployment = context.deployment
        if not isinstance(deployment, StopsInGoodOrder):
            raise NemesisError(f"{self._fault}: this backend cannot stop nodes in good order.")
        before = await deployment.status(node)
        # Before it is asked to: a stop that fails on the way may leave it down.
        self._down[node] = self._asked[node] = None
        after = await deployment.stop(node)
        del self._asked[node]
        return before.life, _seen(after)

    async def restart(
        self,
        context: NemesisContext,
        node: NodeId,
        meanwhile: Callable[[], None] = lambda: None,
        ends: Ends = "kill",
    ) -> dict[str, Any] | None:
        """Restart a node and wait until it answers; what was seen of it. None if it did not run, or is another fault's.

        Args:
            context: of the op.
            node: which.
            meanwhile: called while the node is down.
            ends: how it ends.
        """
        if not await self.may(context, node):
            return None
        began_ns = context.runtime.clock.now_ns()
        life, seen = await self.end(context, node, ends)
        meanwhile()
        return await self.start(context, node, life, began_ns) | seen

    async def start(self, context: NemesisContext, node: NodeId, life: int, began_ns: int) -> dict[str, Any]:
        """Start a node that was ended, and wait until it answers; what was seen of it.

        Args:
            context: of the op.
            node: which.
            life: in which it was ended.
            began_ns: when.
        """
        seen = await self.come_back(context, node, life)
        await self.await_answer(context, node, seen, began_ns)
        return seen

    async def come_back(self, context: NemesisContext, node: NodeId, life: int) -> dict[str, Any]:
        """Start a node that was ended in that life; what was seen of it."""
        try:
            after = await context.deployment.start(node)
        except BackendError as problem:
            return {"problem": str(problem)}
        del self._down[node]
        return {"lives": [life, after.life]}

    async def await_answer(self, context: NemesisContext, node: NodeId, seen: dict[str, Any], began_ns: int) -> None:
        """Wait until a node answers that came back, and add to what was seen of it."""
        if "lives" in seen:
            seen["answered"] = await self._answers(context, node)
            seen["away_ms"] = (context.runtime.clock.now_ns() - began_ns) // _MS

    def check_back(self) -> None:
        """Refuse that a node did not come back.

        Raises:
            NemesisError: one did not, although its disk is whole.
        """
        if missing := [node for node in self._down if not self._ledger.may_stay_down(node)]:
            raise NemesisError(f"{self._fault}: {', '.join(missing)} did not come back.")

    async def start_all(self, context: NemesisContext) -> None:
        """Start every node that did not come back.

        Raises:
            NemesisError: one does not start.
        """
        problems: list[str] = []
        for node in [node for node in self._down if not self._ledger.held_by_others(node, self._fault)]:
            try:
                if node in self._asked:  # it may still run, and would end once it was started
                    await context.deployment.kill(node)
                    del self._asked[node]
                await context.deployment.start(node)
            except BackendError as problem:
                if not self._ledger.may_stay_down(node):
                    problems.append(f"{node}: {problem}")
            else:
                del self._down[node]
        if problems:
            raise NemesisError(f"{self._fault}: {'; '.join(problems)}.")

    async def _answers(self, context: NemesisContext, node: NodeId) -> bool:
        """Wait until the node answers; False after the timeout, for example because of another fault."""
        clock = context.runtime.clock
        end_ns = clock.now_ns() + round(BACK_S * 1e9)
        while await context.test.system.view(context.deployment, node) is None:
            if clock.now_ns() >= end_ns:
                return False
            await clock.sleep_ns(POLL_MS * _MS)
        return True


def _seen(after: NodeStatus) -> dict[str, Any]:
    """How a node ended that was asked to stop."""
    ended = after.evidence.get("exit")
    seen = {"stopped": IN_GOOD_ORDER if ended in _ORDERLY else "failed on the way"}
    if after.evidence.get("killed"):
        seen["stopped"] = "killed"
    return seen if ended is None else {**seen, "exit": ended}

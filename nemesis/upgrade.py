"""A rolling upgrade: nodes that run an earlier version of a system's state machine are restarted with the latest one.

Operators upgrade one node after the other, while the cluster serves. Until the last one is upgraded its nodes differ,
and any of them may lead; a system must answer the same whichever does, and may not use what only some understand. A run
with this nemesis begins with the earlier version on all nodes (`Upgrades.begin`).

An upgrade (`upgrade`) restarts some nodes (`count`), in the order of the op, each once the one before it answers again.
Its stop (`stop-upgrade`) upgrades the others. So there are times at which nodes differ, and other faults strike then. A
node that is down, or has another fault, is not restarted: it has the latest version from its next start on. If it does
not start anew (a paused node goes on as it was), it is restarted by the next stop, or when everything is healed.

A rollback (`roll-back`) is an operator's mistake. All nodes are upgraded, but while one of those that have been is
down, the latest version comes into force; and this node is then started with the earlier one. It must answer nothing
that it cannot know, and do no harm. Its stop (`upgrade-again`) upgrades it. A cluster in that state has one node less
that can lead: it need not survive what it survives otherwise, so that this is unfair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.marks import reached
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.harness.contract.upgrades import Upgrades
from splitbrain.harness.running.deadlines import within
from splitbrain.nemesis.changes import Deadline
from splitbrain.nemesis.checks import check_enough
from splitbrain.nemesis.effects import Effect, carry_out
from splitbrain.nemesis.kinds import Asked, Injection, Kind, Ways, always
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.restarting import Restarting
from splitbrain.nemesis.targets import primaries, views
from splitbrain.results.errors import NemesisError, UsageError
from splitbrain.results.history import Op
from splitbrain.results.nemesisop import Request, asked

RAISED_S: Final = 3.0
"""Timeout of the wait for the latest version to come into force."""

HEARD_NS: Final = 300_000_000
"""In this time a leader hears of the others which version they support."""

ANSWER_S: Final = 1.0
"""Timeout of one question to a node."""

ROLLBACK_NODES_MIN: Final = 3
"""One is rolled back, and a majority must be left without it."""


class UpgradeRequest(Request, tag="upgrade", frozen=True, kw_only=True):
    """How many nodes are upgraded.

    Attributes:
        count: at most; all if it is None.
    """

    count: int | None = None


class RollbackRequest(Request, tag="rollback", frozen=True, kw_only=True):
    """A rollback of one node: the first in the order that does not lead, once all but one are upgraded."""


class Upgrade:
    """Upgrades some nodes (`upgrade`), and the others when it stops (`stop-upgrade`).

    Args:
        ledger: shared with other nemeses of the test, if there are any.
    """

    fs = frozenset({"upgrade", "stop-upgrade"})
    faults: frozenset[FaultKind] = frozenset({"upgrade", "kill"})

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger or Ledger()
        self._restarts = Restarting("upgrade", self._ledger)
        self._replacing = _Replacing(self._restarts)

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        """Upgrade nodes in the op's order, or those that are left; reports how long each was away."""

        async def upgrade(effect: Effect) -> None:
            wanted = asked(op.value, UpgradeRequest)
            await self._upgrade(context, _order(context, wanted.order), wanted.count, effect)
            self._restarts.check_back()

        async def stop(effect: Effect) -> None:
            await self._restarts.start_all(context)
            await self._upgrade(context, context.deployment.nodes, None, effect)
            self._restarts.check_back()

        return await carry_out(context, op, upgrade if op.f == "upgrade" else stop, self._ledger)

    async def heal(self, context: NemesisContext) -> None:
        """Start every node that did not come back, and upgrade those that were not.

        Raises:
            NemesisError: one does not start.
        """
        await self._restarts.start_all(context)
        await self._replacing.all(context)
        self._restarts.check_back()

    async def _upgrade(
        self, context: NemesisContext, order: Sequence[NodeId], count: int | None, effect: Effect
    ) -> None:
        due = await self._replacing.due(context, order)
        for node in due[:count]:
            effect.evidence[node] = await self._replacing.upgraded(context, node)
        effect.hits(effect.evidence, otherwise="every node is upgraded")
        if due and not await self._replacing.due(context, context.deployment.nodes):
            reached("every node upgraded")
        elif due:
            reached("some nodes upgraded")


class Rollback:
    """Upgrades all nodes and rolls one back (`roll-back`), and upgrades it again (`upgrade-again`).

    Args:
        ledger: shared with other nemeses of the test, if there are any.
    """

    fs = frozenset({"roll-back", "upgrade-again"})
    faults: frozenset[FaultKind] = frozenset({"upgrade", "kill"})

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger or Ledger()
        self._restarts = Restarting("rollback", self._ledger)
        self._replacing = _Replacing(self._restarts)
        self._rolled_back: dict[NodeId, None] = {}

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        """Roll a node back, or upgrade it again; reports which versions are in force."""

        async def roll_back(effect: Effect) -> None:
            if self._rolled_back:
                effect.nothing(f"{' '.join(self._rolled_back)} is rolled back already")
                return
            await self._roll_back(context, _order(context, asked(op.value, RollbackRequest).order), effect)
            self._restarts.check_back()

        async def stop(effect: Effect) -> None:
            effect.hits(self._rolled_back, otherwise="no node was rolled back")
            await self._upgrade_again(context, effect)
            self._restarts.check_back()

        return await carry_out(context, op, roll_back if op.f == "roll-back" else stop, self._ledger)

    async def heal(self, context: NemesisContext) -> None:
        """Start every node that did not come back, and upgrade what was rolled back.

        Raises:
            NemesisError: one does not start.
        """
        await self._upgrade_again(context, Effect())
        await self._replacing.all(context)
        self._restarts.check_back()

    async def _roll_back(self, context: NemesisContext, order: Sequence[NodeId], effect: Effect) -> None:
        unable = [node for node in order if not await self._restarts.may(context, node)]
        if unable:
            effect.nothing(f"{' '.join(unable)} is down, or has another fault")
            return
        upgrades = _upgrades(context)
        remaining = [node for node in order if upgrades.version(node) < upgrades.newest]
        if not remaining:
            effect.nothing("every node is upgraded, and would refuse to go back")
            return
        # The leaders first: the last one must not lead, or its successor does not know that the others were upgraded.
        while len(remaining) > 1:
            boss = await self._leader(context)
            remaining.sort(key=lambda node, boss=boss: node != boss)
            effect.evidence[remaining[0]] = await self._replacing.upgraded(context, remaining.pop(0))
        boss = await self._leader(context)
        node = next(node for node in order if node != boss and node not in remaining)
        began_ns = context.runtime.clock.now_ns()
        life = await self._restarts.kill(context, node)
        (last,) = remaining
        effect.evidence[last] = await self._replacing.upgraded(context, last)
        raised = await self._is_raised(context, last)
        effect.target = node
        effect.evidence[node] = await self._start_old(context, node, life, began_ns)
        effect.evidence[node] |= {"raised": raised, "bit": raised}
        self._rolled_back[node] = None

    async def _start_old(self, context: NemesisContext, node: NodeId, life: int, began_ns: int) -> dict[str, Any]:
        """Start a node with the version before the latest."""
        upgrades = _upgrades(context)
        upgrades.choose(node, upgrades.newest - 1)
        try:
            seen = await self._restarts.start(context, node, life, began_ns)
        finally:
            upgrades.choose(node, upgrades.newest)  # who starts it next knows better
        reached("node rolled back")
        return seen

    async def _leader(self, context: NemesisContext) -> NodeId | None:
        """The node that says it leads, once there is one, and has heard of the others; None if there is none."""
        deadline = Deadline(context, RAISED_S)
        while await deadline.allows_another():
            leading = primaries(await views(context))
            if leading:
                await context.runtime.clock.sleep_ns(HEARD_NS)
                return leading[0]
        return None

    async def _is_raised(self, context: NemesisContext, node: NodeId) -> bool:
        """Wait until a node knows that the latest version is in force; False if it does not come about."""
        upgrades, deadline = _upgrades(context), Deadline(context, RAISED_S)
        while True:
            try:
                asking = upgrades.in_force(context.deployment, node)
                if await within(context.runtime.clock, ANSWER_S, asking) >= upgrades.newest:
                    return True
            except (DefiniteError, IndefiniteError, TimeoutError):
                pass
            if not await deadline.allows_another():
                return False

    async def _upgrade_again(self, context: NemesisContext, effect: Effect) -> None:
        await self._restarts.start_all(context)
        for node in list(self._rolled_back):
            effect.evidence[node] = await self._replacing.upgraded(context, node)
            del self._rolled_back[node]


class _Replacing:
    """Starts nodes with the latest version, and knows those that have it only from their next start on.

    Args:
        restarts: of the fault.
    """

    def __init__(self, restarts: Restarting) -> None:
        self._restarts = restarts
        self._lives: dict[NodeId, int] = {}

    async def all(self, context: NemesisContext) -> None:
        """Upgrade the nodes that are left."""
        if context.test.system.capabilities.upgrades is None:
            return
        for node in await self.due(context, context.deployment.nodes):
            await self.upgraded(context, node)

    async def due(self, context: NemesisContext, order: Sequence[NodeId]) -> list[NodeId]:
        """Those of the nodes that do not have the latest version, or are still in a life that began without it."""
        upgrades = _upgrades(context)
        for node in list(self._lives):
            if (await context.deployment.status(node)).life != self._lives[node]:
                del self._lives[node]
        return [node for node in order if upgrades.version(node) < upgrades.newest or node in self._lives]

    async def upgraded(self, context: NemesisContext, node: NodeId) -> dict[str, Any]:
        """Restart a node with the latest version, or have it from its next start on; what was seen of it."""
        upgrades = _upgrades(context)

        def replace() -> None:
            upgrades.choose(node, upgrades.newest)

        before = await context.deployment.status(node)
        seen = await self._restarts.restart(context, node, replace)
        replace()
        if seen is None and before.state != "stopped":
            self._lives[node] = before.life
        return {"version": upgrades.newest, "bit": seen is not None and "problem" not in seen, **(seen or {})}


def _order(context: NemesisContext, order: Sequence[NodeId]) -> Sequence[NodeId]:
    """The order of an op, or that of the test.

    Raises:
        NemesisError: it has nodes that are not in the test.
    """
    nodes = context.deployment.nodes
    strangers = [node for node in order if node not in nodes]
    if strangers:
        raise NemesisError(f"an upgrade of {', '.join(strangers)}: the nodes are {', '.join(nodes)}.")
    return order or nodes


def _upgrades(context: NemesisContext) -> Upgrades:
    system = context.test.system
    upgrades = system.capabilities.upgrades
    if upgrades is None:
        raise NemesisError(f"upgrade: nodes of system {system.name!r} are not upgraded.")
    return upgrades


# --- the kinds of fault -----------------------------------------------------------------------------------------------


def _draw(nodes: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
    return {"count": rng.between(1, len(nodes))}


def _check(given: Asked[UpgradeRequest]) -> None:
    count = given.request.count
    if count is not None and count < 1:
        raise UsageError(f"an upgrade of {count} nodes: give count a number of 1 or more, or remove it.")


def _check_rollback(given: Asked[RollbackRequest]) -> None:
    check_enough(given.nodes, ROLLBACK_NODES_MIN, "a rollback")


UPGRADE: Final = Kind(
    request=UpgradeRequest,
    nemesis=Upgrade,
    start_f="upgrade",
    stop_f="stop-upgrade",
    example='{"count": 2}',
    needs=always("upgrade", "kill"),
    marks=("some nodes upgraded", "every node upgraded"),
    healed=60,
    check=_check,
    ways={
        "upgrade": Ways(
            ((Injection({}, figures=_draw, needs=("upgrade", "kill")),),),
            "starts all nodes with an earlier version, and restarts some with the latest one, and later the others",
        ),
    },
)

ROLLBACK: Final = Kind(
    request=RollbackRequest,
    nemesis=Rollback,
    start_f="roll-back",
    stop_f="upgrade-again",
    example="{}",
    needs=always("upgrade", "kill"),
    marks=("node rolled back",),
    healed=62,
    check=_check_rollback,
    ways={
        "rollback": Ways(
            ((Injection({}, nodes=ROLLBACK_NODES_MIN, needs=("upgrade", "kill")),),),
            "upgrades all nodes, and starts one of them with the earlier version again, and later with the latest",
            fair=False,
        ),
    },
)

"""Faults of node processes: kill -9 and loss of power with a later restart, and pauses (SIGSTOP, SIGCONT).

Each is verified against the operating system's own word on the process, before it counts.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.marks import reached
from splitbrain.harness.contract.nodes import NodeId, NodeStatus
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.harness.running.deadlines import together
from splitbrain.nemesis.effects import Effect, carry_out, statuses, told
from splitbrain.nemesis.kinds import Kind, Strike, Ways, always
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.targets import choose, fewest, leads, needs_views, views
from splitbrain.results.errors import BackendError, NemesisError
from splitbrain.results.history import Op
from splitbrain.results.nemesisop import RequestOfNodes, asked


class KillRequest(RequestOfNodes, tag="kill", frozen=True, kw_only=True):
    """Whose processes end."""


class PowerRequest(RequestOfNodes, tag="power", frozen=True, kw_only=True):
    """Whose machines lose their power."""


class PauseRequest(RequestOfNodes, tag="pause", frozen=True, kw_only=True):
    """Whose processes stop running."""


class _Means(Protocol):
    """How to do one thing to the process of one node."""

    def __call__(self, deployment: Deployment, node: NodeId) -> Coroutine[Any, Any, NodeStatus]: ...


class NodeFault:
    """A fault that strikes processes of nodes, and its relief: a `Nemesis`.

    Args:
        fault: its name, which is also what it needs of a backend.
        request: the type of its requests.
        strike_f: the function of ops that strike.
        relieve_f: the function of ops that undo it, on every node that suffers from it.
        state: the state of a struck process.
        spares: processes in these states are not struck (they suffer from this or from worse already).
        strike: how to strike one node.
        relieve: how to relieve one node.
        leader_mark: the coverage mark for a strike that hits a node which says that it leads.
        ledger: shared with other nemeses of the test, if there are any.
    """

    def __init__(
        self,
        fault: FaultKind,
        request: type[RequestOfNodes],
        *,
        strike_f: str,
        relieve_f: str,
        state: str,
        spares: tuple[str, ...],
        strike: _Means,
        relieve: _Means,
        leader_mark: str,
        ledger: Ledger | None = None,
    ) -> None:
        self.fs = frozenset({strike_f, relieve_f})
        self.faults: frozenset[FaultKind] = frozenset({fault})
        self._fault = fault
        self._request = request
        self._strike_f = strike_f
        self._state = state
        self._spares = spares
        self._strike = strike
        self._relieve = relieve
        self._leader_mark = leader_mark
        self._ledger = ledger or Ledger()

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        """Strike the nodes that the op's spec means now, or relieve all that suffer; look at them, and say so."""

        async def strike(effect: Effect) -> None:
            chosen = await self._choose(context, asked(op.value, self._request))
            effect.target = " ".join(chosen) or "nobody: no node was running"
            for node in chosen if self._state == "stopped" else ():
                self._ledger.hold(node, self._fault)
            await self._apply(context.deployment, self._strike, chosen, self._state, effect)

        async def relieve(effect: Effect) -> None:
            suffering = await self._suffering(context.deployment, effect)
            effect.target = " ".join(suffering) or "nobody: no node had to be relieved"
            await self._apply(context.deployment, self._relieve, suffering, "running", effect)

        return await carry_out(context, op, strike if op.f == self._strike_f else relieve, self._ledger)

    async def heal(self, context: NemesisContext) -> None:
        """Relieve every node that suffers.

        Raises:
            NemesisError: a node does not run afterwards.
        """
        effect = Effect()
        suffering = await self._suffering(context.deployment, effect)
        await self._apply(context.deployment, self._relieve, suffering, "running", effect)

    async def _choose(self, context: NemesisContext, wanted: RequestOfNodes) -> list[NodeId]:
        """The nodes to strike: those that can be struck come first in the order, so that the fault bites."""
        seen = await statuses(context.deployment)
        order = wanted.order or context.deployment.nodes
        able = [node for node in order if seen[node].state not in self._spares]
        unable = [node for node in order if seen[node].state in self._spares]
        seen_roles = await views(context) if needs_views(wanted.node_spec) else ()
        chosen = [node for node in choose(wanted.node_spec, able + unable, seen_roles) if node in able] or able[:1]
        if any(leads(node, seen_roles) for node in chosen):
            reached(self._leader_mark)
        return chosen

    async def _suffering(self, deployment: Deployment, effect: Effect) -> list[NodeId]:
        """Nodes to relieve: those in the state that the fault leaves, except those that another fault keeps down."""
        suffering = [node for node, status in (await statuses(deployment)).items() if status.state == self._state]
        if self._state != "stopped":
            return suffering
        self._ledger.release(self._fault)
        left = {node: others for node in suffering if (others := self._ledger.held_by_others(node, self._fault))}
        if left:
            effect.evidence["left to"] = left
        return [node for node in suffering if node not in left]

    def _may_stay_down(self, node: NodeId, wanted: str) -> bool:
        """Whether the node may stay stopped because its disk lost data for good."""
        return wanted == "running" and self._ledger.may_stay_down(node)

    async def _apply(
        self, deployment: Deployment, means: _Means, nodes: Sequence[NodeId], state: str, effect: Effect
    ) -> None:
        """Do it to all nodes at once, as a loss of power does, then look at all of them.

        A node that cannot be treated does not keep the next one from it.
        """
        problems: list[str] = []
        before = await statuses(deployment)
        answers: dict[NodeId, NodeStatus] = {}
        for node, answer in zip(nodes, await together([means(deployment, node) for node in nodes]), strict=True):
            if isinstance(answer, NodeStatus):
                answers[node] = answer
            elif not isinstance(answer, BackendError):
                raise answer
            elif not self._may_stay_down(node, state):
                problems.append(f"{node}: {answer}")
        after = await statuses(deployment)
        for node in nodes:
            effect.evidence[node] = {"before": told(before[node]), "after": told(after[node])}
            effect.evidence[node].update(_lost(answers.get(node)))
            _mark_restart(before[node], after[node])
            if after[node].state != state and not self._may_stay_down(node, state):
                problems.append(f"{node} is {after[node].state} instead of {state}")
        if problems:
            raise NemesisError(f"{self._fault}: {'; '.join(problems)}.")


def _lost(answer: NodeStatus | None) -> dict[str, Any]:
    """What a loss of power cost, and whether that was anything, where the backend told it when it happened.

    A system that had just synced everything was merely killed.
    """
    lost = {} if answer is None else {name: answer.evidence[name] for name in _LOSSES if name in answer.evidence}
    for name, mark in _LOSSES.items():
        if lost.get(name):
            reached(mark)
    return {"lost": lost, "bit": any(lost.values())} if lost else {}


_LOSSES = {
    "bytes_lost": "power loss lost writes",
    "sectors_torn": "power loss tore a sector",
    "names_lost": "power loss lost names",
}
"""Coverage marks by what a backend tells of a loss of power (`splitbrain.harness.simulation.disk`)."""


def _mark_restart(before: NodeStatus, after: NodeStatus) -> None:
    if before.state == "stopped" and after.state == "running":
        reached("node restarted")


async def _kill(deployment: Deployment, node: NodeId) -> NodeStatus:
    return await deployment.kill(node)


async def _start(deployment: Deployment, node: NodeId) -> NodeStatus:
    return await deployment.start(node)


async def _power_off(deployment: Deployment, node: NodeId) -> NodeStatus:
    return await deployment.power_off(node)


async def _pause(deployment: Deployment, node: NodeId) -> NodeStatus:
    return await deployment.pause(node)


async def _resume(deployment: Deployment, node: NodeId) -> NodeStatus:
    return await deployment.resume(node)


def kill(ledger: Ledger | None = None) -> NodeFault:
    """Processes end without warning (`kill`, SIGKILL) and are started again on the data that they left (`start`)."""
    return NodeFault(
        "kill",
        KillRequest,
        strike_f="kill",
        relieve_f="start",
        state="stopped",
        spares=("stopped",),
        strike=_kill,
        relieve=_start,
        leader_mark="leader killed",
        ledger=ledger,
    )


def power(ledger: Ledger | None = None) -> NodeFault:
    """Machines lose their power (`power-off`) and with it whatever was not synced; later they start (`power-on`)."""
    return NodeFault(
        "power",
        PowerRequest,
        strike_f="power-off",
        relieve_f="power-on",
        state="stopped",
        spares=("stopped",),
        strike=_power_off,
        relieve=_start,
        leader_mark="leader lost power",
        ledger=ledger,
    )


def pause(ledger: Ledger | None = None) -> NodeFault:
    """Processes stop running while their connections stay open (`pause`), and go on later (`resume`)."""
    return NodeFault(
        "pause",
        PauseRequest,
        strike_f="pause",
        relieve_f="resume",
        state="paused",
        spares=("paused", "stopped"),
        strike=_pause,
        relieve=_resume,
        leader_mark="leader paused",
        ledger=ledger,
    )


# --- the kinds of fault -----------------------------------------------------------------------------------------------

_WHOM: Final[Mapping[str, str]] = {
    "one": "one node",
    "minority": "as many nodes as leave a majority",
    "majority": "a majority of the nodes",
    "minority-third": "less than a third of the nodes",
    "all": "all nodes",
    "leader": "the leader",
    "follower": "one node that does not lead",
    "primaries": "every node that takes itself for the leader",
}


def _specs(need: FaultKind, *names: str) -> tuple[Strike, ...]:
    return tuple(Strike({"spec": name}, nodes=fewest(name), needs=(need,)) for name in names)


def _each(need: FaultKind, does: str) -> dict[str, Ways]:
    """A name for each node spec."""
    return {f"{need}-{spec}": Ways((_specs(need, spec),), f"{does} {whom}") for spec, whom in _WHOM.items()}


KILL: Final = Kind(
    request=KillRequest,
    nemesis=kill,
    start_f="kill",
    stop_f="start",
    example='{"spec": "minority"}',
    needs=always("kill"),
    healed=42,
    ways={
        "kill": Ways(
            (_specs("kill", "leader"), _specs("kill", "one", "minority", "minority", "majority", "all")),
            "kill -9 and restart: in turn the leader, and one, some or all nodes",
        ),
        **_each("kill", "kills"),
    },
)

PAUSE: Final = Kind(
    request=PauseRequest,
    nemesis=pause,
    start_f="pause",
    stop_f="resume",
    example='{"spec": "leader"}',
    needs=always("pause"),
    healed=40,
    ways={
        "pause": Ways(
            (_specs("pause", "leader"), _specs("pause", "one", "minority", "minority", "majority")),
            "stops processes from running (SIGSTOP): in turn the leader, and one or some nodes",
        ),
        **_each("pause", "pauses"),
    },
)

POWER: Final = Kind(
    request=PowerRequest,
    nemesis=power,
    start_f="power-off",
    stop_f="power-on",
    example='{"spec": "all"}',
    needs=always("power"),
    healed=48,
    ways={
        "power": Ways(
            (_specs("power", "all"), _specs("power", "leader", "minority", "majority")),
            "cuts the power, unsynced writes are lost or torn: in turn of all nodes, and of the leader or some",
        ),
        **_each("power", "cuts the power of"),
    },
)

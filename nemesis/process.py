"""Faults of node processes: kill -9 and loss of power with a later restart, and pauses (SIGSTOP, SIGCONT).

Each is verified against the operating system's status of the process, before it counts.
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
from splitbrain.nemesis.effects import Effect, carry_out, status_evidence, statuses
from splitbrain.nemesis.kinds import Injection, Kind, Ways, always
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.targets import choose, fewest, leads, needs_views, views
from splitbrain.results.errors import BackendError, NemesisError
from splitbrain.results.history import Op
from splitbrain.results.nemesisop import RequestOfNodes, asked


class KillRequest(RequestOfNodes, tag="kill", frozen=True, kw_only=True):
    """The nodes whose processes end."""


class PowerRequest(RequestOfNodes, tag="power", frozen=True, kw_only=True):
    """The nodes whose machines lose their power."""


class PauseRequest(RequestOfNodes, tag="pause", frozen=True, kw_only=True):
    """The nodes whose processes stop running."""


class _Means(Protocol):
    """A way to change the process of one node."""

    def __call__(self, deployment: Deployment, node: NodeId) -> Coroutine[Any, Any, NodeStatus]: ...


class NodeFault:
    """A fault of node processes, and its healing: a `Nemesis`.

    Args:
        fault: its name, which is also the kind of fault that it needs from a backend.
        request: the type of its requests.
        inject_f: the function of ops that inject it.
        release_f: the function of ops that heal it, on every affected node.
        state: the state of an affected process.
        spares: processes in these states are skipped (they have this fault or a worse one already).
        inject: injects it into one node.
        release: heals one node.
        leader_mark: the coverage mark for an op that hits a node that reports itself as leader.
        ledger: shared with other nemeses of the test, if there are any.
    """

    def __init__(
        self,
        fault: FaultKind,
        request: type[RequestOfNodes],
        *,
        inject_f: str,
        release_f: str,
        state: str,
        spares: tuple[str, ...],
        inject: _Means,
        release: _Means,
        leader_mark: str,
        ledger: Ledger | None = None,
    ) -> None:
        self.fs = frozenset({inject_f, release_f})
        self.faults: frozenset[FaultKind] = frozenset({fault})
        self._fault = fault
        self._request = request
        self._inject_f = inject_f
        self._state = state
        self._spares = spares
        self._inject = inject
        self._release = release
        self._leader_mark = leader_mark
        self._ledger = ledger or Ledger()

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        """Inject the fault into the op's target nodes, or heal all affected nodes; verify and report their states."""

        async def inject(effect: Effect) -> None:
            chosen = await self._choose(context, asked(op.value, self._request))
            effect.hits(chosen, otherwise="no node was running")
            for node in chosen if self._state == "stopped" else ():
                self._ledger.hold(node, self._fault)
            await self._apply(context.deployment, self._inject, chosen, self._state, effect)

        async def release(effect: Effect) -> None:
            suffering = await self._suffering(context.deployment, effect)
            effect.hits(suffering, otherwise="no node had this fault")
            await self._apply(context.deployment, self._release, suffering, "running", effect)

        return await carry_out(context, op, inject if op.f == self._inject_f else release, self._ledger)

    async def heal(self, context: NemesisContext) -> None:
        """Heal every affected node.

        Raises:
            NemesisError: a node does not run afterwards.
        """
        effect = Effect()
        suffering = await self._suffering(context.deployment, effect)
        await self._apply(context.deployment, self._release, suffering, "running", effect)

    async def _choose(self, context: NemesisContext, wanted: RequestOfNodes) -> list[NodeId]:
        """The target nodes: nodes that the fault can change come first in the order, so that it has an effect."""
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
        """The nodes to heal: those in the state that the fault leaves, except those that another fault keeps down."""
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
        """Change all nodes at once, like a loss of power, then verify all of them.

        After an error with one node the others are still changed.
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
            effect.evidence[node] = {"before": status_evidence(before[node]), "after": status_evidence(after[node])}
            effect.evidence[node].update(lost(answers.get(node)))
            _mark_restart(before[node], after[node])
            if after[node].state != state and not self._may_stay_down(node, state):
                problems.append(f"{node} is {after[node].state} instead of {state}")
        if problems:
            raise NemesisError(f"{self._fault}: {'; '.join(problems)}.")


def lost(answer: NodeStatus | None) -> dict[str, Any]:
    """What a loss of power lost, and whether that was anything, if the backend reported it.

    For a system that had just synced everything it was only a kill.
    """
    found = {} if answer is None else {name: answer.evidence[name] for name in _LOSSES if name in answer.evidence}
    for name, mark in _LOSSES.items():
        if found.get(name):
            reached(mark)
    return {"lost": found, "bit": any(found.values())} if found else {}


_LOSSES = {
    "bytes_lost": "power loss lost writes",
    "sectors_torn": "power loss tore a sector",
    "names_lost": "power loss lost names",
}
"""Coverage marks by what a backend reports of a loss of power (`splitbrain.harness.simulation.disk`)."""

_STOPPED = ("all nodes down", "majority down", "node restarted")
"""Coverage marks of every kind of fault that stops nodes until they are started."""


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
    """Processes end without warning (`kill`, SIGKILL) and restart on their data (`start`)."""
    return NodeFault(
        "kill",
        KillRequest,
        inject_f="kill",
        release_f="start",
        state="stopped",
        spares=("stopped",),
        inject=_kill,
        release=_start,
        leader_mark="leader killed",
        ledger=ledger,
    )


def power(ledger: Ledger | None = None) -> NodeFault:
    """Machines lose their power (`power-off`) and everything that was not synced; later they start (`power-on`)."""
    return NodeFault(
        "power",
        PowerRequest,
        inject_f="power-off",
        release_f="power-on",
        state="stopped",
        spares=("stopped",),
        inject=_power_off,
        release=_start,
        leader_mark="leader lost power",
        ledger=ledger,
    )


def pause(ledger: Ledger | None = None) -> NodeFault:
    """Processes stop running while their connections stay open (`pause`), and are resumed later (`resume`)."""
    return NodeFault(
        "pause",
        PauseRequest,
        inject_f="pause",
        release_f="resume",
        state="paused",
        spares=("paused", "stopped"),
        inject=_pause,
        release=_resume,
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
    "queue-leader": "the leader of any queue",
    "store-leader": "the leader of the metadata store",
    "follower": "one node that does not lead",
    "primaries": "every node that reports itself as leader",
}


def _specs(need: FaultKind, *names: str) -> tuple[Injection, ...]:
    return tuple(Injection({"spec": name}, nodes=fewest(name), needs=(need,)) for name in names)


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
    marks=("leader killed", *_STOPPED),
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
    marks=("leader paused",),
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
    marks=("leader lost power", *_STOPPED, *_LOSSES.values()),
    healed=48,
    ways={
        "power": Ways(
            (_specs("power", "all"), _specs("power", "leader", "minority", "majority")),
            "cuts the power, unsynced writes are lost or torn: in turn of all nodes, and of the leader or some",
        ),
        **_each("power", "cuts the power of"),
    },
)

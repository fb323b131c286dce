"""What a nemesis op did, as the history records it: the request, what is in force afterwards, and the evidence.

What the value of a completion carries is in `splitbrain.results.nemesisop`.

It is `ok` if the fault was seen to take effect (or to be gone), else `info` with an error that says what was seen.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.marks import reached
from splitbrain.harness.contract.nodes import NodeId, NodeStatus
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.nemesis.grudges import majority
from splitbrain.nemesis.ledger import Ledger
from splitbrain.results.errors import BackendError, NemesisError, UsageError
from splitbrain.results.history import Op
from splitbrain.results.nemesisop import NO_TARGET, InForce, action_in, hits_something, report

T = TypeVar("T")


@dataclass
class Effect:
    """What one nemesis op did, filled in while it runs: it is recorded even if the op fails.

    Attributes:
        target: the nodes or links that were hit, in words.
        evidence: what was measured.
    """

    target: str = ""
    evidence: dict[str, Any] = field(default_factory=dict[str, Any])

    def hits(self, nodes: Iterable[NodeId], *, otherwise: str) -> None:
        """Set the nodes that are hit, or, if there are none, that there is nothing to hit and why (`otherwise`)."""
        self.target = " ".join(nodes)
        if not self.target:
            self.nothing(otherwise)

    def nothing(self, reason: str) -> None:
        """Set that there was nothing to hit, and why ("no node was running"): coverage then counts no fault."""
        self.target = f"{NO_TARGET}: {reason}"


def status_evidence(status: NodeStatus) -> dict[str, Any]:
    """A node's status as evidence."""
    return {"state": status.state, "life": status.life, "process": dict(status.evidence)}


async def statuses(deployment: Deployment) -> dict[NodeId, NodeStatus]:
    """The status of every node, in the order of the test's nodes."""
    return {node: await deployment.status(node) for node in deployment.nodes}


async def in_force(deployment: Deployment, ledger: Ledger, problems: list[str] | None = None) -> InForce:
    """The faults in force: links and processes as the backend and the operating system report them, others as injected.

    Args:
        deployment: the nodes.
        ledger: of the test's nemeses.
        problems: takes the error if the backend cannot report a part; that part is then left out.

    Raises:
        BackendError: it cannot report a part, and there is no list of problems.
    """

    async def asked(question: Awaitable[T]) -> T | None:
        try:
            return await question
        except BackendError as problem:
            if problems is None:
                raise
            problems.append(f"the backend cannot say what is in force: {problem}")
            return None

    seen = await asked(statuses(deployment))
    disturbed = await asked(deployment.disturbed())
    cut = await asked(deployment.dropped())

    def those(state: str) -> tuple[NodeId, ...] | None:
        return None if seen is None else tuple(node for node, status in seen.items() if status.state == state)

    return InForce(
        cut=None if cut is None else tuple(sorted(cut)),
        down=those("stopped"),
        paused=those("paused"),
        links=tuple(sorted(disturbed or ())),
        disks=tuple(node for node in deployment.nodes if node in ledger.spoiled),
        clocks=tuple(node for node in deployment.nodes if node in ledger.skewed),
        clients=tuple(node for node in deployment.nodes if node in ledger.clients),
        cpus=tuple(node for node in deployment.nodes if node in ledger.throttled),
    )


async def carry_out(
    context: NemesisContext, op: Op, act: Callable[[Effect], Awaitable[None]], ledger: Ledger | None = None
) -> Op:
    """Complete a nemesis op: `ok` with the effect of `act`, or `info` with what went wrong and what is in force.

    Problems are in the order in which they occurred. It is a problem too if the backend cannot report what is in force.
    `ledger` is that of the nemesis, if it has one.
    """
    effect = Effect()
    problems: list[str] = []
    try:
        await act(effect)
    except (NemesisError, BackendError, UsageError) as problem:
        problems.append(str(problem))
    found = await in_force(context.deployment, ledger or Ledger(), problems)
    _mark(found, len(context.deployment.nodes))
    if action_in(op.value) == "start" and not problems and not hits_something(effect.target):
        reached("no node for the fault")
    value = report(op.value, effect.target, found, effect.evidence)
    return op.complete("info" if problems else "ok", value, error=" ".join(dict.fromkeys(problems)) or None)


def _mark(found: InForce, nodes: int) -> None:
    down = len(found.down or ())
    if down == nodes:
        reached("all nodes down")
    elif down > nodes - majority(nodes):
        reached("majority down")

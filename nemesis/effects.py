"""What a nemesis op did, as the history tells it: the request, what is in force afterwards, and the evidence.

The completion of every nemesis op carries the same dict, whatever the fault:

    {"fault": "partition", "action": "start", ...,    the request, as in the invocation
     "target": "n4 | n1 n2 n3 n5",                    what was hit, for a person
     "cut": [["n4", "n1"], ...],                      every directed link that is cut after this op
     "down": ["n2"], "paused": [],                    every node that is stopped or paused after this op
     "links": [["n1", "n2"], ...],                    every directed link that has a fault after this op
     "disks": ["n3"], "clocks": ["n1"],               nodes whose disk or clock has one,
     "cpus": ["n2"],                                  and those that get little of a CPU; all four only if
                                                      there are any
     "over": True,                                    only if what struck is over when the op ends
     "evidence": {...}}                               what was measured: links that pass, process states, drop counters

It is `ok` if the fault was seen to take effect (or to be gone), else `info` with an error that says what was seen.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from harness.marks import reached
from harness.protocols import Deployment, NemesisContext, NodeId, NodeStatus
from nemesis.grudges import majority
from nemesis.ledger import Ledger
from results.errors import BackendError, NemesisError
from results.faults import NOBODY
from results.history import Op


@dataclass
class Effect:
    """What one nemesis op did, filled in while it is carried out: it stands in the history even if the op fails."""

    target: str = ""
    evidence: dict[str, Any] = field(default_factory=dict[str, Any])


def request(op: Op) -> Mapping[str, Any]:
    """The request that a nemesis op carries; empty if it carries none."""
    return cast("dict[str, Any]", op.value) if isinstance(op.value, dict) else {}


def told(status: NodeStatus) -> dict[str, Any]:
    """A node's status as evidence."""
    return {"state": status.state, "life": status.life, "process": dict(status.evidence)}


async def statuses(deployment: Deployment) -> dict[NodeId, NodeStatus]:
    """The status of every node, in the order of the test's nodes."""
    return {node: await deployment.status(node) for node in deployment.nodes}


async def in_force(deployment: Deployment, ledger: Ledger) -> dict[str, Any]:
    """What is wrong now: links and processes as the backend and the operating system tell, the rest as it was done."""
    seen = await statuses(deployment)
    beyond = {
        "links": [list(link) for link in sorted(await deployment.disturbed())],
        "disks": [node for node in deployment.nodes if node in ledger.spoiled],
        "clocks": [node for node in deployment.nodes if node in ledger.skewed],
        "cpus": [node for node in deployment.nodes if node in ledger.throttled],
    }
    return {
        "cut": [list(link) for link in sorted(await deployment.dropped())],
        "down": [node for node, status in seen.items() if status.state == "stopped"],
        "paused": [node for node, status in seen.items() if status.state == "paused"],
        **{name: listed for name, listed in beyond.items() if listed},
    }


async def carry_out(
    context: NemesisContext, op: Op, act: Callable[[Effect], Awaitable[None]], ledger: Ledger | None = None
) -> Op:
    """Complete a nemesis op: `ok` with the effect of `act`, or `info` with what went wrong and what is in force.

    `ledger` is that of the nemesis, if it has one.

    Raises:
        BackendError: the backend cannot even say what is in force.
    """
    effect, error = Effect(), None
    try:
        await act(effect)
    except (NemesisError, BackendError) as problem:
        error = str(problem)
    value = {
        **request(op),
        "target": effect.target,
        **await in_force(context.deployment, ledger or Ledger()),
        "evidence": effect.evidence,
    }
    _mark(value, len(context.deployment.nodes))
    return op.complete("ok" if error is None else "info", value, error=error)


def _mark(value: Mapping[str, Any], nodes: int) -> None:
    if len(value["down"]) == nodes:
        reached("all nodes down")
    elif len(value["down"]) > nodes - majority(nodes):
        reached("majority down")
    if value.get("action") == "start" and str(value["target"]).startswith(NOBODY):
        reached("nobody to strike")

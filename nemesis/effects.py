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
from typing import Any, TypeVar, cast

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.marks import reached
from splitbrain.harness.contract.nodes import NodeId, NodeStatus
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.nemesis.grudges import majority
from splitbrain.nemesis.ledger import Ledger
from splitbrain.results.errors import BackendError, NemesisError, UsageError
from splitbrain.results.faults import NOBODY
from splitbrain.results.history import Op

T = TypeVar("T")


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


async def in_force(deployment: Deployment, ledger: Ledger, problems: list[str] | None = None) -> dict[str, Any]:
    """What is wrong now: links and processes as the backend and the operating system tell, the rest as it was done.

    Args:
        deployment: the nodes.
        ledger: of the test's nemeses.
        problems: takes what the backend says of a part that it cannot tell, which is then left out.

    Raises:
        BackendError: it cannot tell a part, and there is no list of problems.
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
    states = {} if seen is None else {node: status.state for node, status in seen.items()}
    beyond = {
        "links": [list(link) for link in sorted(disturbed or ())],
        "disks": [node for node in deployment.nodes if node in ledger.spoiled],
        "clocks": [node for node in deployment.nodes if node in ledger.skewed],
        "cpus": [node for node in deployment.nodes if node in ledger.throttled],
    }
    told = {
        "cut": None if cut is None else [list(link) for link in sorted(cut)],
        "down": None if seen is None else [node for node, state in states.items() if state == "stopped"],
        "paused": None if seen is None else [node for node, state in states.items() if state == "paused"],
    }
    return {
        **{name: listed for name, listed in told.items() if listed is not None},
        **{name: listed for name, listed in beyond.items() if listed},
    }


async def carry_out(
    context: NemesisContext, op: Op, act: Callable[[Effect], Awaitable[None]], ledger: Ledger | None = None
) -> Op:
    """Complete a nemesis op: `ok` with the effect of `act`, or `info` with what went wrong and what is in force.

    What went wrong first comes first. Where the backend cannot say what is in force, that is wrong as well. `ledger` is
    that of the nemesis, if it has one.
    """
    effect = Effect()
    problems: list[str] = []
    try:
        await act(effect)
    except (NemesisError, BackendError, UsageError) as problem:
        problems.append(str(problem))
    value = {
        **request(op),
        "target": effect.target,
        **await in_force(context.deployment, ledger or Ledger(), problems),
        "evidence": effect.evidence,
    }
    _mark(value, len(context.deployment.nodes))
    return op.complete("info" if problems else "ok", value, error=" ".join(dict.fromkeys(problems)) or None)


def _mark(value: Mapping[str, Any], nodes: int) -> None:
    down = len(value.get("down", ()))
    if down == nodes:
        reached("all nodes down")
    elif down > nodes - majority(nodes):
        reached("majority down")
    if value.get("action") == "start" and str(value["target"]).startswith(NOBODY):
        reached("nobody to strike")

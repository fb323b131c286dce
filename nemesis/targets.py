"""Which nodes a fault is for: node specs as in Jepsen's combined package, and roles.

A spec is symbolic ("leader", "minority"); it is resolved when the fault strikes, since only then it is known who leads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from splitbrain.harness.contract.marks import reached
from splitbrain.harness.contract.nodes import NodeId, NodeView
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.nemesis.grudges import majority
from splitbrain.results.errors import UnknownNameError


async def views(context: NemesisContext) -> list[NodeView]:
    """What the nodes that answer say of themselves, in the order of the test's nodes. Takes half a second at most."""
    system, deployment = context.test.system, context.deployment
    answers = await asyncio.gather(*(system.view(deployment, node) for node in deployment.nodes))
    seen = [view for view in answers if view is not None]
    if len(primaries(seen)) > 1:
        reached("two leaders at once")
    if leader(seen) is None:
        reached("no leader known")
    return seen


def leader(seen: Sequence[NodeView]) -> NodeId | None:
    """Who leads in the highest term: a node that says so of itself, else whom the others take for it, else None."""
    leading = [view for view in seen if view.role == "leader"]
    if leading:
        return max(leading, key=lambda view: view.term).node
    following = [view for view in seen if view.leader is not None]
    return max(following, key=lambda view: view.term).leader if following else None


def primaries(seen: Sequence[NodeView]) -> list[NodeId]:
    """Every node that takes itself for the leader, also one that was superseded and does not know."""
    return [view.node for view in seen if view.role == "leader"]


def leads(node: NodeId | None, seen: Sequence[NodeView]) -> bool:
    """Whether the node says of itself that it leads."""
    return node in primaries(seen)


Choice = Callable[[Sequence[NodeId], Sequence[NodeView]], Sequence[NodeId]]


def _followers(order: Sequence[NodeId], seen: Sequence[NodeView]) -> Sequence[NodeId]:
    boss = leader(seen)
    return [node for node in order if node != boss][:1]


def _leader(order: Sequence[NodeId], seen: Sequence[NodeView]) -> Sequence[NodeId]:
    boss = leader(seen)
    return order[:1] if boss is None else [boss]


def _primaries(order: Sequence[NodeId], seen: Sequence[NodeView]) -> Sequence[NodeId]:
    return primaries(seen) or order[:1]


SPECS: Final[Mapping[str, Choice]] = {
    "one": lambda order, _: order[:1],
    "minority": lambda order, _: order[: len(order) - majority(len(order))],
    "majority": lambda order, _: order[: majority(len(order))],
    "minority-third": lambda order, _: order[: (len(order) - 1) // 3],
    "all": lambda order, _: order,
    "leader": _leader,
    "follower": _followers,
    "primaries": _primaries,
}
"""Node specs by name. "minority" is the largest one; "minority-third" what a Byzantine quorum tolerates; where nobody
is known to lead, "leader" and "primaries" take the first node of the order."""

FEWEST: Final[Mapping[str, int]] = {"minority": 3, "minority-third": 4, "follower": 2}
"""With fewer nodes than these a spec means none, or not what it says: what is left of two nodes is no majority."""


def fewest(spec: str) -> int:
    """How many nodes a test needs at least, for a spec to mean any of them."""
    return FEWEST.get(spec, 1)


def choose(spec: str, order: Sequence[NodeId], seen: Sequence[NodeView]) -> list[NodeId]:
    """The nodes that a spec means now, in the order of `order`.

    Args:
        spec: a key of `SPECS`.
        order: every node of the test, in the order in which a random choice falls on them.
        seen: what nodes say of themselves; only specs by role look at it.

    Raises:
        UnknownNameError: there is no such spec.
    """
    if spec not in SPECS:
        raise UnknownNameError("node spec", spec, SPECS)
    chosen = SPECS[spec](order, seen)
    return [node for node in order if node in chosen]


def needs_views(spec: str) -> bool:
    """Whether a spec depends on who leads."""
    return spec in ("leader", "follower", "primaries")

"""Which nodes a fault is for: node specs as in Jepsen's combined package, and roles.

A spec is symbolic ("leader", "minority"); it is resolved when the fault is injected, because only then the leader is
known.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from splitbrain.harness.contract.marks import reached
from splitbrain.harness.contract.nodes import NodeId, NodeView
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.nemesis.grudges import majority
from splitbrain.results.errors import UnknownNameError


async def views(context: NemesisContext) -> list[NodeView]:
    """The status of the nodes that answer, in the order of the test's nodes. Takes at most half a second."""
    system, deployment = context.test.system, context.deployment
    answers = await asyncio.gather(*(system.view(deployment, node) for node in deployment.nodes))
    seen = [view for view in answers if view is not None]
    if len(primaries(seen)) > 1:
        reached("two leaders at once")
    if leader(seen) is None:
        reached("no leader known")
    return seen


def leader(seen: Sequence[NodeView]) -> NodeId | None:
    """The leader of the highest term: a node that reports itself as leader, else the leader that others report, else
    None.
    """
    leading = [view for view in seen if view.role == "leader"]
    if leading:
        return max(leading, key=lambda view: view.term).node
    following = [view for view in seen if view.leader is not None]
    return max(following, key=lambda view: view.term).leader if following else None


def primaries(seen: Sequence[NodeView]) -> list[NodeId]:
    """Every node that reports itself as leader, also one that was superseded and does not know it."""
    return [view.node for view in seen if view.role == "leader"]


def leads(node: NodeId | None, seen: Sequence[NodeView]) -> bool:
    """Whether the node reports itself as leader."""
    return node in primaries(seen)


def queue_leader(order: Sequence[NodeId], seen: Sequence[NodeView]) -> NodeId | None:
    """A node that leads a queue: the first in the order of those that say so of themselves, else of those of which
    others say it; where no queue has a leader that is known, the leader.
    """
    own = [view.node for view in seen if view.node in view.queue_leaders]
    said = [node for view in seen for node in view.queue_leaders]
    return next((node for known in (own, said) for node in order if node in known), leader(seen))


def store_leader(seen: Sequence[NodeView]) -> NodeId | None:
    """The leader of the metadata store, as most nodes name it; the leader where no node names one."""
    named = Counter(view.store_leader for view in seen if view.store_leader is not None)
    return named.most_common(1)[0][0] if named else leader(seen)


def of_role(role: str, order: Sequence[NodeId], seen: Sequence[NodeView]) -> NodeId | None:
    """The node with this role ("leader", "queue-leader" or "store-leader"); None if that is not known."""
    if role == "queue-leader":
        return queue_leader(order, seen)
    return store_leader(seen) if role == "store-leader" else leader(seen)


Choice = Callable[[Sequence[NodeId], Sequence[NodeView]], Sequence[NodeId]]


def _followers(order: Sequence[NodeId], seen: Sequence[NodeView]) -> Sequence[NodeId]:
    boss = leader(seen)
    return [node for node in order if node != boss][:1]


def _with_role(role: str) -> Choice:
    def chosen(order: Sequence[NodeId], seen: Sequence[NodeView]) -> Sequence[NodeId]:
        boss = of_role(role, order, seen)
        return order[:1] if boss is None else [boss]

    return chosen


def _primaries(order: Sequence[NodeId], seen: Sequence[NodeView]) -> Sequence[NodeId]:
    return primaries(seen) or order[:1]


SPECS: Final[Mapping[str, Choice]] = {
    "one": lambda order, _: order[:1],
    "minority": lambda order, _: order[: len(order) - majority(len(order))],
    "majority": lambda order, _: order[: majority(len(order))],
    "minority-third": lambda order, _: order[: (len(order) - 1) // 3],
    "all": lambda order, _: order,
    "leader": _with_role("leader"),
    "queue-leader": _with_role("queue-leader"),
    "store-leader": _with_role("store-leader"),
    "follower": _followers,
    "primaries": _primaries,
}
"""Node specs by name. "minority" is the largest one; "minority-third" what a Byzantine quorum tolerates; if no leader
is known, "leader" and "primaries" take the first node of the order. "queue-leader" is the leader of any queue, by the
order, and "store-leader" that of the metadata store: the leader, in a system that does not tell them from it.
"""

FEWEST: Final[Mapping[str, int]] = {"minority": 3, "minority-third": 4, "follower": 2}
"""With fewer nodes than these a spec has no target, or a wrong one: one of two nodes is not a majority."""


def fewest(spec: str) -> int:
    """The smallest number of nodes for which a spec has a target."""
    return FEWEST.get(spec, 1)


def choose(spec: str, order: Sequence[NodeId], seen: Sequence[NodeView]) -> list[NodeId]:
    """The target nodes of a spec, in the order of `order`.

    Args:
        spec: a key of `SPECS`.
        order: every node of the test, in the order in which a random choice falls on them.
        seen: the status of the nodes; only specs by role use it.

    Raises:
        UnknownNameError: there is no such spec.
    """
    if spec not in SPECS:
        raise UnknownNameError("node spec", spec, SPECS)
    chosen = SPECS[spec](order, seen)
    return [node for node in order if node in chosen]


def needs_views(spec: str) -> bool:
    """Whether a spec depends on who leads."""
    return spec in ("leader", "queue-leader", "store-leader", "follower", "primaries")

"""Where a new replica goes: functions that choose one of several candidates, by name or by place in a module.

    def mine(candidates: Sequence[NodeId], situation: Situation) -> NodeId: ...     # --placement my_module:mine

Candidates run, are not being drained, and are none of the queue's members yet. All nodes that may lead a queue are
started with the same function, which decides by its arguments alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias, cast

from splitbrain.cluster.errors import ArgumentError
from splitbrain.cluster.members import node_of
from splitbrain.cluster.ownparts import imported
from splitbrain.cluster.raft.messages import NodeId
from splitbrain.cluster.replicas.situation import Situation

Placement: TypeAlias = Callable[[Sequence[NodeId], Situation], NodeId]
"""Gives one of the candidates, of which there is at least one, sorted."""


def spread(candidates: Sequence[NodeId], situation: Situation) -> NodeId:
    """One of the zone in which the queue has the fewest live members; of these the one with the fewest queues."""
    zones = situation.zones
    taken = Counter(_zone(member, zones) for member in situation.counted)
    return min(candidates, key=lambda member: (taken[_zone(member, zones)], situation.load.get(member, 0), member))


def least_loaded(candidates: Sequence[NodeId], situation: Situation) -> NodeId:
    """The one that takes part in the fewest queues, in whatever zone."""
    return min(candidates, key=lambda member: (situation.load.get(member, 0), member))


def _zone(member: NodeId, zones: Mapping[str, str]) -> tuple[str, str]:
    node = node_of(member)
    return ("zone", zones[node]) if node in zones else ("node", node)


PLACEMENTS: Final[Mapping[str, Placement]] = MappingProxyType({"spread": spread, "least-loaded": least_loaded})


def placement_named(name: str) -> Placement:
    """The function of that name, or that which stands at `module:attribute`.

    Raises:
        ArgumentError: there is none.
    """
    if name in PLACEMENTS:
        return PLACEMENTS[name]
    if ":" not in name:
        raise ArgumentError(
            f"--placement: there is no placement {name!r}: it is one of {', '.join(PLACEMENTS)}, or module:attribute."
        )
    found = imported("--placement", name)
    if not callable(found):
        raise ArgumentError(f"--placement: {name!r} is no function.")
    return cast("Placement", found)

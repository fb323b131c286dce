"""What one node sees of another while a cluster forms."""

from __future__ import annotations

import msgspec

from splitbrain.cluster.runtime import Address


class Peer(msgspec.Struct, frozen=True, array_like=True):
    """A node that a backend found.

    Attributes:
        name: of the node.
        address: at which nodes and clients reach it.
    """

    name: str
    address: Address


class Properties(msgspec.Struct, frozen=True, array_like=True, tag="properties"):
    """What a node answers to who looks for a cluster (PD-3).

    Attributes:
        name: of the node.
        start_ns: when its process started, in nanoseconds since the Unix epoch by its own clock.
        members: names of the members of its cluster, sorted; none if it is in no cluster (RabbitMQ: itself alone).
        founders: names of the nodes with which that cluster began.
        ready: whether it can take in others now.
    """

    name: str
    start_ns: int
    members: tuple[str, ...] = ()
    founders: tuple[str, ...] = ()
    ready: bool = False


def in_order(found: tuple[Properties, ...]) -> list[Properties]:
    """Nodes in the order in which they are chosen: larger clusters first, then older nodes, then by name (PD-3)."""
    return sorted(found, key=lambda each: (-len(each.members), each.start_ns, each.name))

"""What a node says of itself: whether its server is a primary or a replica, whose, and in which epoch of Sentinel's.

An epoch of a configuration is to Sentinel what a term is to Raft: a failover has the next one, and Sentinels follow the
greatest that they hear of. A server knows nothing of it. So the epoch is that of the Sentinel beside the server, which
learns of a failover before it has demoted a former primary, or after: for a moment a primary may be seen in the epoch
of its successor. Telemetry has no terms, therefore: two primaries in one epoch would look like two winners of one
election.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from splitbrain.harness.contract.nodes import Address, NodeId, NodeView
from splitbrain.harness.contract.observing import Observed
from splitbrain.harness.systems.redis.connection import Connection
from splitbrain.harness.systems.redis.settings import GROUP

_PRIMARY: Final = b"master"
_CONNECTED: Final = b"connected"


def role_of(node: NodeId, answer: Any, places: Mapping[Address, NodeId]) -> tuple[str, NodeId | None]:
    """A server's answer to ROLE: its role in the words of telemetry, and the primary of which it receives writes.

    Args:
        node: whose server it is.
        answer: `[b"master", offset, replicas]` or `[b"slave", host, port, state, offset]`.
        places: of all nodes, by the addresses of their servers.
    """
    if answer[0] == _PRIMARY:
        return "leader", node
    host, port, state = answer[1].decode(), int(answer[2]), answer[3]
    return "follower", places.get((host, port)) if state == _CONNECTED else None


async def status(server: Connection, sentinel: Connection, node: NodeId, places: Mapping[Address, NodeId]) -> NodeView:
    """What server and Sentinel of a node say now.

    Raises:
        DefiniteError: one of them does not say.
    """
    role, leader = role_of(node, await server.ask("ROLE", changes=False), places)
    known: list[bytes] = await sentinel.ask("SENTINEL", "MASTER", GROUP, changes=False)
    fields = dict(zip(known[::2], known[1::2], strict=True))
    return NodeView(node, role=role, term=int(fields[b"config-epoch"]), leader=leader)


class RedisObserver:
    """Observes one process of one node: an `Observer`."""

    def __init__(self, server: Connection, node: NodeId, places: Mapping[Address, NodeId]) -> None:
        self._server = server
        self._node = node
        self._places = places

    async def look(self) -> Observed:
        """What the node's server says now.

        Raises:
            DefiniteError: it does not say, or the process has ended.
        """
        role, leader = role_of(self._node, await self._server.ask("ROLE", changes=False), self._places)
        return Observed(group="redis", role=role, leader=leader)

    async def close(self) -> None:
        """Drop the connection."""
        self._server.close()

"""A deployment of one node on loopback, as far as its probe is concerned: a socket of a test listens there."""

from __future__ import annotations

import socket
from typing import Any, cast

from splitbrain.harness.backends.shared.links import connected
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.systems.rabbitmq.settings import PROBE_BEHIND


class _Loopback:
    def __init__(self, host: str, port: int) -> None:
        self._clients = host, port - PROBE_BEHIND

    async def dial(self, node: NodeId, behind: int = 0) -> socket.socket:
        host, port = self._clients
        return await connected(socket.socket(), node, (host, port + behind))


def probed_at(address: Any) -> Deployment:
    """A deployment whose nodes have their probe at this address, as `getsockname` says it."""
    host, port = address[:2]
    return cast("Deployment", _Loopback(host, port))

"""What a node says of itself: the answer to `srvr`, one of ZooKeeper's four-letter words, on the port of clients.

A node that serves clients leads or follows. It does not name the leader that it follows: that is the node that says
that it leads, of several the one in the latest epoch. An epoch is to ZooKeeper what a term is to Raft; it is the upper
half of the last transaction's id. A node that follows may have none of the current epoch yet, the leader always has.
"""

from __future__ import annotations

import asyncio
import re
import socket  # noqa: TID251 - for the type of a dialled connection; nothing here opens one
from typing import Final, NamedTuple

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId, NodeView
from splitbrain.harness.contract.observing import Observed
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.harness.systems.sockets import is_closed, tcp

READ_BYTES: Final = 1 << 16
EPOCH_BITS: Final = 32

OTHERS_S: Final = 0.25
"""How long the others are waited for: a node that hangs must not hide what those that answer say."""

_ZXID: Final = re.compile(r"^Zxid: 0x([0-9a-f]+)$", re.MULTILINE)
_MODE: Final = re.compile(r"^Mode: (\w+)$", re.MULTILINE)
_ROLES: Final = {"leader": "leader", "follower": "follower", "standalone": "leader"}


class Status(NamedTuple):
    """The role of a node, and the epoch of the last transaction that it has applied."""

    role: str
    epoch: int


def status_of(answer: str) -> Status:
    """The status in the answer to `srvr`.

    Raises:
        DefiniteError: the node does not serve clients now.
    """
    mode, zxid = _MODE.search(answer), _ZXID.search(answer)
    if mode is None or zxid is None or mode[1] not in _ROLES:
        raise DefiniteError(f"the node does not serve: {' '.join(answer.split())[:100]}")
    return Status(_ROLES[mode[1]], int(zxid[1], 16) >> EPOCH_BITS)


async def ask(deployment: Deployment, node: NodeId) -> Status:
    """The status of a node; the caller sets the limit in time.

    Raises:
        DefiniteError: it does not say.
    """
    loop = asyncio.get_running_loop()
    connection = tcp(await deployment.dial(node), node, "ZooKeeper")
    answer = bytearray()
    try:
        await loop.sock_sendall(connection, b"srvr")
        while part := await loop.sock_recv(connection, READ_BYTES):
            answer += part
    except OSError as error:
        if not answer:  # a node that has said everything may reset the connection
            raise DefiniteError(f"the node does not answer: {error}") from error
    finally:
        connection.close()
    return status_of(answer.decode())


async def view(deployment: Deployment, node: NodeId) -> NodeView:
    """What a node says of itself, and the others of whom it follows; the caller sets the limit in time.

    Raises:
        DefiniteError: it does not say.
    """
    own = await ask(deployment, node)
    if own.role == "leader":
        return NodeView(node, role=own.role, term=own.epoch, leader=node)
    others = [other for other in deployment.nodes if other != node]
    found = await asyncio.gather(*(_in_time(deployment, other) for other in others), return_exceptions=True)
    said = zip(others, found, strict=True)
    leaders = [(each.epoch, other) for other, each in said if isinstance(each, Status) and each.role == "leader"]
    leader = max(leaders, default=None)
    return NodeView(node, role=own.role, term=own.epoch, leader=None if leader is None else leader[1])


async def _in_time(deployment: Deployment, node: NodeId) -> Status:
    async with asyncio.timeout(OTHERS_S):
        return await ask(deployment, node)


class ZookeeperObserver:
    """Observes one process of one node: an `Observer`.

    A connection can ask for the word once, so each look makes one. Another one is only held: it ends with the process.
    (The node ends it after ten seconds anyway, since nothing comes on it; the next one is made then.)

    Args:
        deployment: the nodes.
        node: which one.
        held: a connection to its process.
    """

    def __init__(self, deployment: Deployment, node: NodeId, held: socket.socket) -> None:
        self._deployment = deployment
        self._node = node
        self._held = held

    async def look(self) -> Observed:
        """What the node says now.

        Raises:
            DefiniteError: it does not say, or the process has ended.
        """
        seen = await ask(self._deployment, self._node)
        if is_closed(self._held):
            raise DefiniteError("the connection to the process ended")
        leads = seen.role == "leader"
        return Observed(
            group="zookeeper",
            role=seen.role,
            term=seen.epoch if leads else None,
            leader=self._node if leads else None,
        )

    async def close(self) -> None:
        """Drop the connection that is held."""
        self._held.close()

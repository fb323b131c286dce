"""Asks the probe of a node (`splitbrain_probe.erl`): a connection that stays open, a line for a line.

The probe listens on the port behind the clients'. A deployment dials clients' ports only, so that the address with
which the node was started is used: it is the one under which this machine and the other nodes know it.
"""

from __future__ import annotations

import asyncio
import socket  # noqa: TID251 - a deployment dials the port of clients only
from collections.abc import Mapping
from typing import Final

import msgspec

from splitbrain.harness.contract.nodes import Address, NodeId, NodeView
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.harness.systems.rabbitmq.settings import node_of

READ_BYTES: Final = 1 << 16

KHEPRI: Final = "khepri"
"""The store whose group has a leader that matters; while Mnesia is in force the group may be there as well."""


class Status(msgspec.Struct, frozen=True):
    """What a node says of itself: as in the probe. Names are Erlang's."""

    node: str
    connected: tuple[str, ...]
    partitions: tuple[str, ...]
    store: str
    metadata_leader: str | None
    queues: Mapping[str, str | None]


def probe_address(address: Address) -> Address:
    """Where the probe of a node listens that serves clients at `address`."""
    host, port = address
    return host, port + 1


async def ask(address: Address) -> Status:
    """What the node whose clients' address this is says now; the caller sets the limit in time.

    Raises:
        DefiniteError: it does not say.
    """
    loop = asyncio.get_running_loop()
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    connection.setblocking(False)
    try:
        await loop.sock_connect(connection, probe_address(address))
        await loop.sock_sendall(connection, b"status\n")
        line = bytearray()
        while not line.endswith(b"\n"):
            part = await loop.sock_recv(connection, READ_BYTES)
            if not part:
                raise DefiniteError("the probe closed the connection")
            line += part
        return msgspec.json.decode(line, type=Status)
    except (OSError, msgspec.DecodeError) as error:
        raise DefiniteError(f"the probe does not answer: {error}") from error
    finally:
        connection.close()


def view_of(node: NodeId, status: Status, nodes: int) -> NodeView:
    """What the status of a node says of leadership.

    RabbitMQ has no leader of all. It leads, for nemeses that aim at one, who leads the first queue, by name; without
    queues the leader of the metadata, if there is one, else the first node. A node that is not connected to a majority
    knows none.

    Args:
        node: which node.
        status: its answer.
        nodes: how many nodes the cluster has.
    """
    leaders = [status.queues[name] for name in sorted(status.queues)]
    leaders += [status.metadata_leader] if status.store == KHEPRI else []
    known = next((name for name in leaders if name is not None), status.connected[0])
    leader = node_of(known) if 2 * len(status.connected) > nodes else None
    return NodeView(node, role="leader" if leader == node else "follower", term=0, leader=leader)

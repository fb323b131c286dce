"""Requests to nodes of the metadata cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from splitbrain.harness.cli.clusters.layout import ClusterNode
from splitbrain.harness.cli.clusters.processes import HOST, alive

if TYPE_CHECKING:
    from splitbrain.cluster.client import Client

T = TypeVar("T")


async def statuses(nodes: Sequence[ClusterNode]) -> list[dict[str, Any]]:
    """One document per node: its status, or what is wrong with it."""
    from splitbrain.cluster.client import ClusterError

    async def ask(client: Client) -> dict[str, Any]:
        return msgspec.to_builtins(await client.status())

    async def one(node: ClusterNode) -> dict[str, Any]:
        try:
            async with asyncio.timeout(1.0):
                return await with_client(node, ask)
        except (ClusterError, OSError, TimeoutError) as error:
            problem = "does not answer" if alive(node) else "is not running"
            return {"node": node.node, "problem": f"{problem}{f' ({error})' if str(error) else ''}"}

    return list(await asyncio.gather(*(one(node) for node in nodes)))


async def with_client(node: ClusterNode, use: Callable[[Client], Awaitable[T]]) -> T:
    """What `use` makes of a connection to a node.

    Raises:
        OSError: nothing listens there.
    """
    import socket

    from splitbrain.cluster.client import connect

    endpoint = socket.socket()
    endpoint.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(endpoint, (HOST, node.port))
    except OSError:
        endpoint.close()
        raise
    client = await connect(endpoint)
    try:
        return await use(client)
    finally:
        await client.close()

"""Requests to nodes of the metadata cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from splitbrain.harness.cli.clusters.layout import ClusterNode
from splitbrain.harness.cli.clusters.processes import HOST, alive

if TYPE_CHECKING:
    from splitbrain.cluster.client import Client

T = TypeVar("T")

_STORES_MS: Final = 1_000
"""How long a node may take to say which store is in force."""


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


async def without_tables(nodes: Sequence[ClusterNode]) -> list[str]:
    """Which of these nodes, that have tables, cannot answer from them, or cannot say yet which store is in force."""
    from splitbrain.cluster.client import ClusterError

    async def serves(client: Client) -> bool:
        state = await client.stores(timeout_ms=_STORES_MS)
        flags = await client.feature_flags()
        is_known = all(flag.state != "unknown" for flag in flags)
        return is_known and (state.store == "tree" or (state.store == "tables" and state.phase == "running"))

    async def one(node: ClusterNode) -> bool:
        try:
            async with asyncio.timeout(2 * _STORES_MS / 1000):
                return await with_client(node, serves)
        except (ClusterError, OSError, TimeoutError):
            return False

    served = await asyncio.gather(*(one(node) for node in nodes))
    return [node.node for node, does in zip(nodes, served, strict=True) if not does]


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

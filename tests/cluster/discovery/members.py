"""What a node that runs says of its cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from splitbrain.cluster.client import ClusterError, connect
from splitbrain.cluster.real import RealNetwork
from splitbrain.cluster.runtime import Address


def _spawns_nothing(_: Awaitable[None], __: str) -> None:
    raise AssertionError("it only connects")


async def members_at(address: Address) -> tuple[str, ...]:
    """The members of the cluster that the node at an address is in; none if it does not answer."""
    network = RealNetwork(asyncio.get_running_loop(), _spawns_nothing)
    try:
        client = await connect(await network.connect(address))
    except ConnectionError:
        return ()
    try:
        return await client.members()
    except ClusterError:
        return ()
    finally:
        await client.close()

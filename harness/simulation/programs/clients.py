"""Connections of clients to nodes that speak a stream: the same on every backend."""

from __future__ import annotations

import asyncio
import socket  # noqa: TID251 - for the type of a dialled connection; nothing here opens one

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.simulation.programs.transports import StreamTransport
from splitbrain.harness.simulation.streams import StreamEnd
from splitbrain.results.errors import UsageError


async def open_streams(deployment: Deployment, node: NodeId) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to a node, as `asyncio.open_connection` has it.

    Raises:
        DefiniteError: the node could not be reached.
        UsageError: the nodes of this simulation do not serve streams.
    """
    found = await deployment.dial(node)
    if isinstance(found, socket.socket):
        return await asyncio.open_connection(sock=found)  # noqa: TID251 - of a real backend
    if not isinstance(found, StreamEnd):
        raise UsageError(f"{node} exchanges whole messages in this simulation, no stream: use Deployment.dial.")
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    extra = {"peername": (node, 0)}
    transport = StreamTransport(loop, found, protocol, extra, lambda act: act(), lambda: not loop.is_running())
    made = loop.create_future()
    transport.begin(lambda: made.done() or made.set_result(None))
    await made
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

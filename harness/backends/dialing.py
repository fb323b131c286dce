"""Connections of clients to nodes of real backends: the same patience and the same words wherever a node lives."""

from __future__ import annotations

import asyncio
import os
import socket

from splitbrain.harness.contract.nodes import Address, NodeId
from splitbrain.harness.contract.sessions import DefiniteError

CONNECTS_WITHIN_S = 2.0


async def connected(found: socket.socket, node: NodeId, address: Address) -> socket.socket:
    """The given TCP socket, non-blocking and connected to the node's address; closed if that does not succeed.

    Raises:
        DefiniteError: the connection was refused, or the node took no connection within two seconds.
    """
    try:
        found.setblocking(False)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        async with asyncio.timeout(CONNECTS_WITHIN_S):
            await asyncio.get_running_loop().sock_connect(found, address)
    except TimeoutError:
        found.close()
        raise DefiniteError(f"{node} took no connection within {CONNECTS_WITHIN_S:g} s") from None
    except OSError as error:
        found.close()
        reason = os.strerror(error.errno) if error.errno else error  # asyncio's own text says only that it failed
        raise DefiniteError(f"{node} cannot be reached: {reason}") from None
    except BaseException:
        found.close()
        raise
    return found

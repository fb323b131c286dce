"""One session over one connection to one node: requests go out once, and answers come back in their order.

kazoo, the usual client of Python, is not used: it connects again by itself, in threads of its own, with the session
that it had and to any server that it knows, and makes its sockets itself. What is needed here are eight requests of a
protocol that has not changed in fifteen years (`records`).

A session lasts longer than any run, so that no request is refused because a session expired, and no lock is lost: there
are no heartbeats. A node keeps sessions of clients that are gone. Another connection has another session.
"""

from __future__ import annotations

import asyncio
import socket  # noqa: TID251 - for the type of a dialled connection; nothing here opens one
import struct
from typing import Final

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.harness.systems.sockets import is_closed, tcp
from splitbrain.harness.systems.zookeeper import records
from splitbrain.harness.systems.zookeeper.errors import NO_NODE, error_of, unknown
from splitbrain.harness.systems.zookeeper.records import Reply, Request

SESSION_MS: Final = 2_000_000_000
"""23 days: about the longest that fits into the four bytes that the protocol has for it."""

MESSAGE_MAX_BYTES: Final = 1 << 28


class Connection:
    """A session, one exchange at a time; made by `open`."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket: socket.socket | None = connected
        self._xid = 0

    @classmethod
    async def open(cls, deployment: Deployment, node: NodeId) -> Connection:
        """A new session with a node.

        Raises:
            DefiniteError: it could not be reached, or grants none.
        """
        return await cls.on(tcp(await deployment.dial(node), node, "ZooKeeper"))

    @classmethod
    async def on(cls, connected: socket.socket) -> Connection:
        """The same on a socket that is connected.

        Raises:
            DefiniteError: there is no session.
        """
        made = cls(connected)
        try:
            await asyncio.get_running_loop().sock_sendall(connected, records.framed(records.connect(SESSION_MS)))
            granted_ms = records.session_timeout(await made._message(connected))
        except (OSError, struct.error) as error:
            made.close()
            raise DefiniteError(f"connect: {error}") from error
        except BaseException:
            made.close()
            raise
        if granted_ms != SESSION_MS:
            made.close()
            raise DefiniteError(f"connect: the node grants a session of {granted_ms} ms")
        return made

    async def ask(self, *requests: Request, changes: bool) -> bytes:
        """The record that answers the last of these requests, which are sent together.

        Args:
            requests: one, or what has to come before it, which may be about a node that is not there.
            changes: whether the last one may change something; the others must not.

        Raises:
            RefusedError: one was refused.
            DefiniteError: nothing was sent, or nothing of it changes anything.
            IndefiniteError: the outcome is unknown.
        """
        connection = self._socket
        if connection is None or is_closed(connection):
            self.close()
            raise DefiniteError("the node closed the connection")
        first = self._xid + 1
        self._xid += len(requests)
        messages = [records.framed(records.request(xid, each)) for xid, each in enumerate(requests, first)]
        try:
            await asyncio.get_running_loop().sock_sendall(connection, b"".join(messages))
            replies = [await self._reply(connection, xid) for xid in range(first, self._xid + 1)]
        except (OSError, struct.error) as error:
            self.close()
            raise unknown(f"the connection broke before the answer: {error}", changes=changes) from error
        except BaseException:  # cancelled: what comes later on this connection would answer the wrong request
            self.close()
            raise
        for each in replies:
            if each.error and (each is replies[-1] or each.error != NO_NODE):
                raise error_of(each.error, changes=changes)
        return replies[-1].record

    def close(self) -> None:
        """Drop the connection. The session stays, and with it its locks."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    async def _reply(self, connection: socket.socket, xid: int) -> Reply:
        found = records.reply(await self._message(connection))
        if found.xid != xid:
            raise ConnectionError(f"answer {found.xid} came in place of {xid}")
        return found

    async def _message(self, connection: socket.socket) -> bytes:
        length = records.length(await _exactly(connection, 4))
        if not 0 <= length <= MESSAGE_MAX_BYTES:
            raise ConnectionError(f"a message of {length} bytes was announced")
        return await _exactly(connection, length)


async def _exactly(connection: socket.socket, number: int) -> bytes:
    loop = asyncio.get_running_loop()
    received = bytearray()
    while len(received) < number:
        part = await loop.sock_recv(connection, number - len(received))
        if not part:
            raise ConnectionResetError("it was closed in place of an answer")
        received += part
    return bytes(received)

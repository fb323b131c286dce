"""One connection to one node: commands go out once, and answers come back in their order.

The deployment makes the socket, since only it reaches every node. hiredis, the parser of Redis's own clients, turns
bytes into answers and does nothing else. redis-py, the usual client of Python, is not used: it makes its sockets
itself, from a pool, connects again when one is broken, and by default sends a command again that failed.
"""

from __future__ import annotations

import asyncio
import socket  # noqa: TID251 - for the type of a dialled connection; nothing here opens one
from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

import hiredis

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.harness.systems.redis.errors import error_of
from splitbrain.harness.systems.sockets import is_closed, tcp

READ_BYTES: Final = 1 << 16

Command: TypeAlias = tuple[str | bytes | int, ...]

_pack: Callable[[Command], bytes] = cast("Any", hiredis).pack_command
"""Its own annotation allows commands of one word only."""


class Connection:
    """A connection, one exchange at a time."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket: socket.socket | None = connected
        self._reader = hiredis.Reader()

    @classmethod
    async def open(cls, deployment: Deployment, node: NodeId, behind: int = 0) -> Connection:
        """Connect to the server of a node, or to what listens so many ports behind it.

        Raises:
            DefiniteError: it could not be reached.
        """
        return cls(tcp(await deployment.dial(node, behind), node, "Redis"))

    async def ask(self, *command: str | bytes | int, changes: bool) -> Any:
        """The answer to one command.

        Raises:
            DefiniteError, IndefiniteError: as from `exchange`, or the answer is an error.
        """
        (answer,) = await self.exchange(command, changes=changes)
        return self.checked(answer, changes=changes)

    async def exchange(self, *commands: Command, changes: bool) -> list[Any]:
        """Send commands together, and wait for all their answers; an error of the server is an answer here.

        Args:
            commands: texts, bytes and whole numbers.
            changes: whether one of them, once sent, may change something.

        Raises:
            DefiniteError: nothing was sent, or nothing of it changes anything.
            IndefiniteError: the outcome is unknown.
        """
        connection = self._socket
        if connection is None or is_closed(connection):
            self.close()
            raise DefiniteError("the node closed the connection")
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_sendall(connection, b"".join(_pack(command) for command in commands))
            return [await self._answer(connection) for _ in commands]
        except (OSError, hiredis.ProtocolError) as error:
            self.close()
            raise error_of(f"the connection broke before the answer: {error}", changes=changes) from error
        except BaseException:  # cancelled: what comes later on this connection would answer the wrong command
            self.close()
            raise

    @staticmethod
    def checked(answer: Any, *, changes: bool) -> Any:
        """An answer that is no error.

        Raises:
            DefiniteError, IndefiniteError: it is one, as `error_of` says.
        """
        if isinstance(answer, hiredis.ReplyError):
            raise error_of(str(answer), changes=changes)
        return answer

    def close(self) -> None:
        """Drop the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    async def _answer(self, connection: socket.socket) -> Any:
        loop = asyncio.get_running_loop()
        while (answer := self._reader.gets()) is False:  # answers of RESP2 are never false
            received = await loop.sock_recv(connection, READ_BYTES)
            if not received:
                raise ConnectionResetError("it was closed in place of an answer")
            self._reader.feed(received)
        return answer

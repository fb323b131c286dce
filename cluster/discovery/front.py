"""The address of a node: it serves calls of nodes that look for a cluster, and passes others to the node behind it.

Before there is a node behind it, peers and clients are turned away.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from splitbrain.cluster.discovery.messages import (
    PREFIX,
    Done,
    Refused,
    Reply,
    Request,
    TakeLock,
    decode_request,
    encode,
)
from splitbrain.cluster.runtime import Address, Connection, Runtime, Timer

LOCK_MS: Final = 5_000
"""After so long without a word the owner of a lock has lost it: a machine that lost power closes no connection."""


class Front:
    """The network of a node behind it (see `splitbrain.cluster.runtime.Network`).

    Args:
        runtime: of the node.
        answer: to a request; not for `TakeLock`, which is answered here.
    """

    def __init__(self, runtime: Runtime, answer: Callable[[Request], Awaitable[Reply]]) -> None:
        self._runtime = runtime
        self._answer = answer
        self._behind: Callable[[Connection], Awaitable[None]] | None = None
        self._owner: str | None = None
        self._lock_of: Connection | None = None

    async def open(self, address: Address) -> None:
        """Serve the address from now on.

        Raises:
            OSError: it is taken, or not of this machine.
        """
        await self._runtime.network.listen(address, self._accept)

    async def connect(self, address: Address) -> Connection:
        """Open a connection, as without this."""
        return await self._runtime.network.connect(address)

    async def listen(self, address: Address, accept: Callable[[Connection], Awaitable[None]]) -> None:
        """The node behind it begins to serve the address."""
        self._behind = accept

    async def _accept(self, connection: Connection) -> None:
        try:
            first = await connection.receive()
            if first.startswith(PREFIX):
                await self._serve(connection, decode_request(first))
                return
        except ConnectionError:
            connection.close()
            return
        except msgspec.DecodeError as error:
            self._runtime.log(f"a request about formation makes no sense: {error}")
            connection.close()
            return
        if self._behind is None:
            connection.close()
        else:
            await self._behind(_Begun(connection, first))

    async def _serve(self, connection: Connection, request: Request) -> None:
        try:
            if isinstance(request, TakeLock):
                await self._lock(connection, request.owner)
            else:
                connection.send(encode(await self._answer(request)))
                await connection.receive()  # until the other side has read the answer, and closes
        finally:
            connection.close()

    async def _lock(self, connection: Connection, owner: str) -> None:
        if self._owner is not None and self._owner != owner:  # one that asks again has started anew
            connection.send(encode(Refused(f"{self._owner} has the lock")))
            await connection.receive()
            return
        self._owner, self._lock_of = owner, connection
        connection.send(encode(Done()))
        timer: Timer | None = None
        try:
            while True:
                timer = self._runtime.clock.call_later(LOCK_MS * 1_000_000, connection.close)
                await connection.receive()
                timer.cancel()
        finally:
            if timer is not None:
                timer.cancel()
            if self._lock_of is connection:
                self._owner = self._lock_of = None


class _Begun:
    """A connection whose first message has been received already."""

    def __init__(self, connection: Connection, first: bytes) -> None:
        self._connection = connection
        self._first: bytes | None = first

    def send(self, message: bytes) -> None:
        self._connection.send(message)

    async def receive(self) -> bytes:
        first, self._first = self._first, None
        return await self._connection.receive() if first is None else first

    async def hand_over(self, take: Callable[[bytes], None]) -> None:
        first, self._first = self._first, None
        if first is not None:
            take(first)
        await self._connection.hand_over(take)

    def close(self) -> None:
        self._connection.close()

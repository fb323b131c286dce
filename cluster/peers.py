"""Links to the other members: one connection per direction, opened by its sender, and opened again whenever it is lost.

A node sends to a peer only on the connection that it dialled, so that cutting one direction of a link cuts exactly what
the one says to the other.

A cut link swallows everything without a word, so a link keeps itself fresh: it says that it is alive four times a
second, which makes the runtime notice within seconds that nothing is acknowledged any more (on TCP, see
`splitbrain.cluster.real`) and within a round trip that the peer was restarted. From then on it dials, each attempt
bounded, until the peer answers: after a heal it is up again within about 0.7 s, however long the cut was. An attempt is
bounded here and not left to the network because a dial that began during the cut repeats itself ever more slowly (TCP:
after 1, 3, 7, 15 s).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from splitbrain.cluster.bugs import M22, Bugs
from splitbrain.cluster.knownfunctions import KnownFunctions
from splitbrain.cluster.marks import reached
from splitbrain.cluster.runtime import Address, Connection, Runtime, Timer
from splitbrain.cluster.wire import ALIVE, PROTOCOL_VERSION, PeerHello, encode

_MS: Final = 1_000_000
# One attempt and the longest pause after it add up to the 0.7 s that a link needs after a heal.
DIAL_TIMEOUT_MS: Final = 400
BACK_OFF_MIN_MS: Final = 50
BACK_OFF_MAX_MS: Final = 300
ALIVE_INTERVAL_MS: Final = 250

MAX_QUEUED: Final = 64
"""The largest number of frames that wait for a connection; the oldest are dropped, and consensus sends them again."""


class PeerLink:
    """The way to one peer.

    Attributes:
        knows: the registered functions of this node, which it says when it calls.
    """

    def __init__(
        self, runtime: Runtime, node: str, peer: str, address: Address, changed: Callable[[], None], bugs: Bugs
    ) -> None:
        """`changed` is called each time when a connection has been made, or broke."""
        self._runtime = runtime
        self._node = node
        self._peer = peer
        self._address = address
        self._changed = changed
        self.knows: KnownFunctions | None = None
        self._dials_once = M22 in bugs
        self._queue: deque[bytes] = deque(maxlen=MAX_QUEUED)
        self._connection: Connection | None = None
        self._broke_ns: int | None = None
        self._refused = False
        self._closed = False

    @property
    def has_been_up(self) -> bool:
        """Whether there ever was a connection."""
        return self._connection is not None or self._broke_ns is not None

    @property
    def is_up(self) -> bool:
        """Whether there is a connection."""
        return self._connection is not None

    @property
    def up_until_ns(self) -> int | None:
        """Until when there was a connection: now, if there is one; None if there never was one."""
        return self._broke_ns if self._connection is None else self._runtime.clock.monotonic_ns()

    @property
    def refused(self) -> bool:
        """Whether the last attempt was refused: no process listens at the peer's address."""
        return self._connection is None and self._refused

    def send(self, frame: bytes) -> None:
        """Send a frame now, or when there is a connection. It may get lost."""
        if self._connection is not None:
            self._connection.send(frame)
        else:
            if len(self._queue) == MAX_QUEUED:
                reached("messages for a peer were thrown away")
            self._queue.append(frame)

    def send_if_up(self, frame: bytes) -> bool:
        """Send a frame now, or not at all; whether it was sent. It may get lost."""
        if self._connection is None:
            return False
        self._connection.send(frame)
        return True

    def close(self) -> None:
        """Close the connection, and make no other."""
        self._closed = True
        if self._connection is not None:
            self._connection.close()

    async def run(self) -> None:
        """Until it is closed: dial, keep the connection until it breaks, dial again."""
        back_off_ms = BACK_OFF_MIN_MS
        while not self._closed:
            connection = await self._dial()
            if self._closed:
                if connection is not None:
                    connection.close()
                return
            if connection is None:
                back_off_ms = min(2 * back_off_ms, BACK_OFF_MAX_MS)
            else:
                back_off_ms = BACK_OFF_MIN_MS
                await self._keep(connection)
                if self._dials_once:
                    return
            # Random, so that nodes which lost each other at one moment do not dial in step.
            delay_ms = self._runtime.rng.between(BACK_OFF_MIN_MS, back_off_ms)
            await self._runtime.clock.sleep(delay_ms * _MS)

    async def _dial(self) -> Connection | None:
        """One attempt: a connection, or None if there was none in time."""
        outcome: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()

        async def attempt() -> None:
            try:
                connection = await self._runtime.network.connect(self._address)
            except ConnectionError as error:
                # What comes late, or was given up by the network, says nothing about the peer's process.
                if not outcome.done():
                    self._refused = isinstance(error, ConnectionRefusedError)
                settle(None)
            else:
                settle(connection)

        def settle(connection: Connection | None) -> None:
            if not outcome.done():
                outcome.set_result(connection)
            elif connection is not None:
                connection.close()

        def give_up() -> None:
            reached("dial not answered")
            self._refused = False
            settle(None)

        timer = self._runtime.clock.call_later(DIAL_TIMEOUT_MS * _MS, give_up)
        self._runtime.spawn(attempt(), f"dial {self._peer}")
        try:
            return await outcome
        finally:
            timer.cancel()

    async def _keep(self, connection: Connection) -> None:
        """Use a connection until it breaks."""
        connection.send(encode(PeerHello(PROTOCOL_VERSION, self._node, self._peer, self.knows)))
        # Frames that waited go first: from the next line on, `send` bypasses the queue.
        while self._queue:
            connection.send(self._queue.popleft())
        self._connection, self._refused = connection, False
        if self._broke_ns is not None:
            reached("link came up again")
        self._runtime.log(f"link to {self._peer}: up")
        self._changed()
        alive = _SignsOfLife(self._runtime, connection)
        reason = ""
        try:
            while True:
                await connection.receive()
        except ConnectionError as error:
            reason = str(error)
        finally:
            alive.stop()
            self._connection = None
            connection.close()
        reached("link broke")
        self._broke_ns = self._runtime.clock.monotonic_ns()
        self._runtime.log(f"link to {self._peer}: down ({reason})")
        self._changed()


class _SignsOfLife:
    """Sends an empty frame at an even interval until it is stopped."""

    def __init__(self, runtime: Runtime, connection: Connection) -> None:
        self._runtime = runtime
        self._connection = connection
        self._timer = self._again()

    def stop(self) -> None:
        self._timer.cancel()

    def _send(self) -> None:
        self._connection.send(ALIVE)
        self._timer = self._again()

    def _again(self) -> Timer:
        return self._runtime.clock.call_later(ALIVE_INTERVAL_MS * _MS, self._send)

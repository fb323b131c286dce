"""asyncio's transports and servers over simulated connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias, cast

from splitbrain.harness.simulation.guard import offence
from splitbrain.harness.simulation.places import caller
from splitbrain.harness.simulation.streams import StreamEnd

Act: TypeAlias = Callable[[Callable[[], None]], None]
"""Does something to the world: now, or when the process that asks is no longer held up."""


class StreamTransport(asyncio.Transport):
    """One end of a connection.

    There is no flow control to the outside: what is written is on its way, and `drain` does not wait. A connection that
    does not get rid of it breaks after two seconds.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        end: StreamEnd,
        protocol: asyncio.BaseProtocol,
        extra: Mapping[str, Any],
        act: Act,
        over: Callable[[], bool],
    ) -> None:
        """`over` says whether its process, or the simulation, has ended: then it need not be closed."""
        super().__init__(dict(extra))
        self._loop = loop
        self._end = end
        self._protocol = cast("asyncio.Protocol", protocol)
        self._act = act
        self._over = over
        self._closing = False
        self._paused = False
        self._at_end = False

    def begin(self, made: Callable[[], object] | None = None) -> None:
        """Call the protocol with the connection, then `made`, then pass on what arrives."""
        self._loop.call_soon(self._protocol.connection_made, self)
        self._loop.call_soon(self._listen)
        if made is not None:
            self._loop.call_soon(made)

    def is_closing(self) -> bool:
        """Whether it was closed, or broke."""
        return self._closing or self._over()

    def close(self) -> None:
        """Close it; the other side learns of it behind all that was written."""
        self._leave(self._end.close, None)

    def abort(self) -> None:
        """Close it at once; data in flight is lost."""
        self._leave(self._end.reset, None)

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Send bytes; silently lost on a connection that is over, as by asyncio."""
        if data and not self._closing:
            sent = bytes(data)
            self._act(lambda: self._end.send(sent))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview[Any]]) -> None:
        """Send all of it."""
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        """Connections are closed in both directions at once."""
        return False

    def write_eof(self) -> None:
        """Refused."""
        raise offence(
            f"write_eof was called inside a simulation, at {caller()}. Simulated connections are closed in both "
            "directions at once: end the last message by other means."
        )

    def get_write_buffer_size(self) -> int:
        """Nothing waits here."""
        return 0

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """No limits."""
        return 0, 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Without effect."""

    def pause_reading(self) -> None:
        """Hand the protocol nothing until `resume_reading`."""
        self._paused = True

    def resume_reading(self) -> None:
        """Hand the protocol what came meanwhile."""
        self._paused = False
        self._loop.call_soon(self._deliver)

    def is_reading(self) -> bool:
        """Whether arriving data is passed to the protocol."""
        return not self._paused and not self._closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand everything to another protocol from now on."""
        self._protocol = cast("asyncio.Protocol", protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol that gets the arriving data."""
        return self._protocol

    def _listen(self) -> None:
        self._end.notify = self._come
        self._deliver()

    def _come(self) -> None:
        self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        """Hand over what is there; then its end, if that is there."""
        while not self._paused and not self._closing:
            data = self._end.take()
            if data is not None:
                self._protocol.data_received(data)
                continue
            if self._end.broken is not None:
                self._ended(self._end.broken)
            return

    def _ended(self, reason: str) -> None:
        if not self._end.ended:
            self._leave(_nothing, ConnectionResetError(reason))
        elif not self._at_end:
            self._at_end = True
            if not self._protocol.eof_received():
                self.close()

    def _leave(self, leave: Callable[[], None], error: Exception | None) -> None:
        if self._closing:
            return
        self._closing = True
        self._act(leave)
        self._loop.call_soon(self._protocol.connection_lost, error)


def _nothing() -> None:
    pass


class Home(Protocol):
    """The process that serves."""

    def begin_serving(self, server: StreamServer) -> None:
        """Begin to take connections.

        Raises:
            OSError: the port is in use.
        """
        ...

    def end_serving(self, server: StreamServer) -> None:
        """Take no more."""
        ...


class StreamServer(asyncio.AbstractServer):
    """A port that is served. Made by `create_server`.

    Attributes:
        port: the port.
        factory: makes the protocol of each connection.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, home: Home, port: int, factory: Callable[[], asyncio.BaseProtocol]
    ) -> None:
        self._loop = loop
        self._home = home
        self._serving = False
        self._closed = loop.create_future()
        self.port = port
        self.factory = factory

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The loop of its process."""
        return self._loop

    def is_serving(self) -> bool:
        """Whether it takes connections."""
        return self._serving

    @property
    def sockets(self) -> tuple[Any, ...]:
        """There are none in a simulation."""
        return ()

    async def start_serving(self) -> None:
        """Begin to take connections; nothing if it does already."""
        if not self._serving:
            self._home.begin_serving(self)
            self._serving = True

    async def serve_forever(self) -> None:
        """Take connections until this is cancelled, or the server is closed."""
        await self.start_serving()
        try:
            await asyncio.shield(self._closed)
        finally:
            self.close()
        raise asyncio.CancelledError

    def close(self) -> None:
        """Take no more connections; those that there are stay."""
        if self._serving:
            self._home.end_serving(self)
        self._serving = False
        if not self._closed.done():
            self._closed.set_result(None)

    async def wait_closed(self) -> None:
        """Wait until it is closed."""
        await asyncio.shield(self._closed)

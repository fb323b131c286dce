"""Measuring links with real datagrams, from one node's network to another's.

Faults that hit only some packets do not hit probes (BYPASS_MARK), so that a lost probe means a cut. On a link that
holds everything they are held as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Collection, Sequence

from .packets import BYPASS_MARK

Link = tuple[str, str]

PORT = 65009
WAITS_S = 0.15
ATTEMPTS = 20
_LONGEST = 2048
_SO_MARK = 36


class DatagramProbes:
    """A UDP socket in every node's network, open for the life of the deployment."""

    def __init__(self) -> None:
        self._sockets: dict[str, socket.socket] = {}
        self._under_way: dict[bytes, Link] = {}
        self._arrived: list[Link] = []
        self._changed = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self._round = 0

    def add(self, node: str, address: str) -> None:
        """Open the socket of a node; called inside its network."""
        probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        probe.setblocking(False)
        probe.bind((address, PORT))
        self._sockets[node] = probe
        asyncio.get_running_loop().add_reader(probe, self._receive, node)

    async def measure(self, links: Sequence[Link], expected: Sequence[Link], held: Collection[Link] = ()) -> list[Link]:
        """Send a datagram over every link, all at once; the links over which they arrived.

        One that is expected to arrive is sent up to ATTEMPTS times, within three seconds: a busy machine brings up a
        new interface late, and must not report a working link as cut. The others get WAITS_S to prove the expectation
        wrong, and so do those over links that hold everything (`held`).
        """
        async with self._one_at_a_time:
            self._round += 1
            self._arrived = []
            self._under_way = {f"{self._round} {source} {to}".encode(): (source, to) for source, to in links}
            self._send(links, held)
            await self._wait(len(self._under_way))
            for _ in range(ATTEMPTS - 1):
                missing = [link for link in links if link in expected and link not in self._arrived]
                if not missing:
                    break
                self._send(missing, held)
                await self._wait(len(self._under_way))
            return self._arrived

    def _send(self, links: Sequence[Link], held: Collection[Link]) -> None:
        for token, (source, destination) in self._under_way.items():
            if (source, destination) in links:
                probe = self._sockets[source]
                probe.setsockopt(socket.SOL_SOCKET, _SO_MARK, 0 if (source, destination) in held else BYPASS_MARK)
                probe.sendto(token, self._sockets[destination].getsockname())

    async def _wait(self, count: int) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAITS_S):
                while len(self._arrived) < count:
                    self._changed.clear()
                    await self._changed.wait()

    def _receive(self, node: str) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                link = self._under_way.get(self._sockets[node].recv(_LONGEST))
                if link is not None and link[1] == node and link not in self._arrived:
                    self._arrived.append(link)
                    self._changed.set()

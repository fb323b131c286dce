"""The fabric of a host: one node in the host's own network, links cut where they arrive and disturbed where they leave.

Each host has its own agent, so two of them measure a link: one sends a probe, the other reports whether it arrived. The
controller provides the tokens that identify probes. Faults that hit only some packets do not hit probes (BYPASS_MARK).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from .disturbances import Disturbances
from .packets import BYPASS_MARK, PACKAGES, PacketFaults
from .receivers import Receiver
from .tools import AgentError, find_tool

PROBE_PORT = 65009
LOCK = "/run/splitbrain.lock"
"""Held while an agent lives: two runs on the same host would cut each other's links."""
_SO_MARK = 36
_LONGEST_PROBE = 512
_MOST_PROBES = 10_000
"""Arrived tokens that are kept until they are asked for."""


class Host:
    """This host as the place of one node.

    Args:
        node: the node's name.
        addresses: of every node, this one included.
        port: on which nodes serve.
    """

    def __init__(self, node: str, addresses: dict[str, str], port: int) -> None:
        self._node = node
        self._addresses = dict(addresses)
        self._port = port
        self._node_at = {address: name for name, address in addresses.items()}
        self._network = os.open("/proc/self/ns/net", os.O_RDONLY)
        self._receiver = Receiver(node, self._network)
        self._disturbances = Disturbances({name: (self._network, address) for name, address in addresses.items()})
        self._probes: socket.socket | None = None
        self._lost_probes: dict[str, int] = {}
        self._cut: list[str] = []
        self._arrived: set[str] = set()
        self._changed = asyncio.Event()

    async def lay_out(self) -> None:
        """Take the host, its address and its port, and make the table in which links are cut.

        Raises:
            AgentError: they are in use, or nftables do not work here.
        """
        lock = os.open(LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        if not take_lock(lock):
            raise AgentError(f"another run of splitbrain uses this host (it holds {LOCK})")
        address = self._addresses[self._node]
        _bound(socket.SOCK_STREAM, address, self._port).close()
        self._probes = _bound(socket.SOCK_DGRAM, address, PROBE_PORT)
        asyncio.get_running_loop().add_reader(self._probes, self._receive)
        await self._receiver.lay_out()
        # An agent that was killed leaves its chain; the table is replaced above.
        with contextlib.suppress(AgentError):  # without the tool there is no chain
            find_tool("iptables", PACKAGES)
            PacketFaults(self._node, self._network, self._network).remove()

    async def remove(self) -> None:
        """Delete the table with every cut in it, and every fault of packets."""
        try:
            self._disturbances.forget(self._node)
        finally:
            await self._receiver.remove()

    # --- links --------------------------------------------------------------------------------------------------------

    async def cut(self, sources: list[str]) -> None:
        """Drop what exactly these nodes send."""
        await self._receiver.cut([self._addresses[source] for source in sources])
        self._lost_probes = {source: lost for source, lost in self._lost_probes.items() if source in sources}
        self._cut = list(sources)

    async def dropped(self) -> dict[str, int]:
        """Packets dropped by source since it was cut, probes left out."""
        counted = await self._receiver.dropped()
        return {
            source: max(0, counted.get(self._addresses[source], 0) - self._lost_probes.get(source, 0))
            for source in self._cut
        }

    async def refresh(self) -> None:
        """Keep the cuts from expiring."""
        await self._receiver.refresh()

    async def disturb(self, faults: list[tuple[str, Mapping[str, Any]]]) -> None:
        """Give what is sent to exactly these nodes these faults: pairs of (node, fields of a LinkFault)."""
        self._disturbances.set({(self._node, to): fault for to, fault in faults})

    async def disturbed(self) -> dict[str, dict[str, int]]:
        """For each node to which packets have a fault what it did since they have it."""
        return {to: counted for (_, to), counted in self._disturbances.counts().items()}

    # --- probes -------------------------------------------------------------------------------------------------------

    async def send_probes(self, probes: Sequence[tuple[str, str, bool]]) -> None:
        """Send a datagram with a token to each of some nodes: (token, node, whether the link holds everything)."""
        assert self._probes is not None
        for token, node, held in probes:
            self._probes.setsockopt(socket.SOL_SOCKET, _SO_MARK, 0 if held else BYPASS_MARK)
            with contextlib.suppress(OSError):  # no route: it does not arrive, which is what is measured
                self._probes.sendto(token.encode(), (self._addresses[node], PROBE_PORT))

    async def heard_probes(self, tokens: dict[str, str], within_s: float) -> list[str]:
        """Those tokens (by token the node that sent it) that have arrived; waits up to `within_s` for all of them."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while not self._arrived.issuperset(tokens):
                    self._changed.clear()
                    await self._changed.wait()
        heard = [token for token in tokens if token in self._arrived]
        self._arrived.clear()
        for token, source in tokens.items():
            if token not in heard and source in self._cut:
                self._lost_probes[source] = self._lost_probes.get(source, 0) + 1
        return heard

    def _receive(self) -> None:
        assert self._probes is not None
        with contextlib.suppress(BlockingIOError):
            while True:
                data, (sender, *_) = self._probes.recvfrom(_LONGEST_PROBE)
                if sender in self._node_at and len(self._arrived) < _MOST_PROBES:
                    self._arrived.add(data.decode(errors="replace"))
                    self._changed.set()


def take_lock(descriptor: int) -> bool:
    """Take the lock of an open file for as long as this process lives; False if another process has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _bound(kind: int, address: str, port: int) -> socket.socket:
    found = socket.socket(socket.AF_INET, kind)
    found.setblocking(False)
    try:
        if kind == socket.SOCK_STREAM:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((address, port))
        if kind == socket.SOCK_STREAM:
            found.listen()  # two sockets with SO_REUSEADDR may both be bound, but only one can listen
    except OSError as error:
        found.close()
        raise AgentError(
            _problem(error, f"{'TCP' if kind == socket.SOCK_STREAM else 'UDP'} port {port}", address)
        ) from None
    return found


def _problem(error: OSError, port: str, address: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{port} of {address} is taken by another program"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{address} is no address of this host: name hosts by the addresses under which they reach each other"
    return f"{port} of {address} cannot be taken: {error.strerror}"

"""The fabric of proxies, for machines where namespaces are not to be had: nodes on loopback, a proxy per directed link.

Node i reaches peer j only under the address of the proxy (i, j). Nodes send on connections that they dialled, so what i
sends to j crosses that proxy forwards, and what comes back on such a connection belongs to the link (j, i).

While a link is cut, its proxy takes the bytes and drops them, as a network would: the sender notices nothing. New
connections are accepted and lead nowhere. Ends of connections are not passed on either. A connection that lost
something cannot go on after the heal, its stream has a hole: it is reset then, and its node dials again at once.

A link with a fault (`stream_link`) passes on later what a connection brings, its beginning and its end included.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from .packet_link import Fault
from .stream_link import Lane, StreamLink
from .tools import AgentError

Link = tuple[str, str]
Address = tuple[str, int]

HOST = "127.0.0.1"
CONNECTS_WITHIN_S = 5.0
PROBE_WAITS_S = 2.0
"""For a probe of which nothing is seen at all. One that was swallowed is known at once, however busy the machine."""
BACKLOG = 128

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Proxies:
    """Addresses, proxies and cuts of one deployment."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self._nodes = list(nodes)
        self._held: dict[str, socket.socket] = {}
        self._links: dict[Link, _LinkProxy] = {}
        self._sink: asyncio.Server | None = None
        self.sink: Address = (HOST, 0)
        self.cut_links: dict[Link, int] = {}
        self.streams: dict[Link, StreamLink] = {}
        self.probes: dict[int, asyncio.Future[bool]] = {}  # by the port that the probe comes from

    async def lay_out(self) -> None:
        """Take a port for every node and for every proxy.

        The ports of the nodes are held by sockets that are bound but do not listen: no other process gets such a port
        by chance, while the node itself can listen on it because, as servers do, it sets SO_REUSEADDR.
        """
        loop = asyncio.get_running_loop()
        self._sink = await loop.create_server(lambda: _Sink(self.probes), HOST, 0)
        self.sink = self._sink.sockets[0].getsockname()
        try:
            for node in self._nodes:
                self._held[node] = held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
                held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                held.bind((HOST, 0))
            for source in self._nodes:
                for destination in self._nodes:
                    if source != destination:
                        proxy = _LinkProxy(self, (source, destination), self._held[destination].getsockname())
                        await proxy.listen()
                        self._links[source, destination] = proxy
                        self.streams[source, destination] = StreamLink(proxy.break_connections)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise AgentError("too few file descriptors for a proxy per link: raise `ulimit -n`") from None
            raise

    # --- where nodes are --------------------------------------------------------------------------------------------

    def listen_addresses(self) -> dict[str, Address]:
        """The address on which each node serves."""
        return {node: held.getsockname() for node, held in self._held.items()}

    def peer_addresses(self) -> dict[str, dict[str, Address]]:
        """For each node, the addresses under which it reaches the others: those of the proxies."""
        return {
            node: {peer: self._links[node, peer].address for peer in self._nodes if peer != node}
            for node in self._nodes
        }

    def enter(self, node: str) -> None:
        """Nodes live in the agent's own network."""

    def open_socket(self) -> socket.socket:
        """A TCP socket that reaches the nodes across no link."""
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM)

    def relays(self, link: Link) -> list[_Relay]:
        """The connections through the proxy of a link."""
        return list(self._links[link].relays)

    # --- links --------------------------------------------------------------------------------------------------------

    async def cut(self, links: Sequence[Link]) -> None:
        """Cut exactly these links. What was swallowed on a link that stays cut stays counted."""
        self.cut_links = {link: self.cut_links.get(link, 0) for link in links}
        for proxy in self._links.values():
            proxy.reset_damaged()

    async def disturb(self, faults: Mapping[Link, Mapping[str, Any]]) -> None:
        """Give exactly these links these faults, and all others none.

        Raises:
            AgentError: a fault that streams cannot have.
        """
        wanted = {link: Fault.of(fault) for link, fault in faults.items()}
        for link, stream in self.streams.items():
            stream.set(wanted.get(link))

    async def disturbed(self) -> dict[Link, dict[str, int]]:
        """For each link with a fault what it did since it has it."""
        return {link: dict(stream.counts) for link, stream in self.streams.items() if stream.fault is not None}

    async def refresh(self) -> None:
        """Nothing expires here: the proxies end with the controller."""

    async def dropped(self) -> dict[Link, int]:
        """Bytes that each cut link swallowed since it was cut, probes left out."""
        return dict(self.cut_links)

    async def passes(self, links: Sequence[Link]) -> dict[Link, bool]:
        """Send a line through the proxy of every link, all at once, and see which arrive and which are swallowed.

        A probe takes the node's way through the proxy, except that it ends in the agent and not in a node that may be
        down or would make nothing of it.
        """
        results = await asyncio.gather(*(self._probe(link) for link in links))
        return dict(zip(links, results, strict=True))

    async def _probe(self, link: Link) -> bool:
        loop = asyncio.get_running_loop()
        arrived: asyncio.Future[bool] = loop.create_future()
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            probe.bind((HOST, 0))
            port = probe.getsockname()[1]
            self.probes[port] = arrived
            try:
                async with asyncio.timeout(PROBE_WAITS_S):
                    await loop.sock_connect(probe, self._links[link].address)
                    await loop.sock_sendall(probe, b"%d\n" % port)
                    return await arrived
            except (OSError, TimeoutError):
                return False
            finally:
                del self.probes[port]


class _LinkProxy:
    """The proxy of one directed link."""

    def __init__(self, proxies: Proxies, link: Link, target: Address) -> None:
        self.proxies = proxies
        self.link = link
        self.back = (link[1], link[0])
        self.target = target
        self.address: Address = (HOST, 0)
        self.relays: list[_Relay] = []
        self._server: asyncio.Server | None = None

    async def listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Relay(self).near, HOST, 0, backlog=BACKLOG)
        self.address = self._server.sockets[0].getsockname()

    def is_cut(self, link: Link) -> bool:
        return link in self.proxies.cut_links

    def break_connections(self) -> int:
        """Reset all connections between the two nodes, in both directions; returns their number.

        None while one of the two directions is cut: a reset would not arrive.
        """
        if self.is_cut(self.link) or self.is_cut(self.back):
            return 0
        both = [relay for link in (self.link, self.back) for relay in self.proxies.relays(link) if not relay.probes]
        for relay in both:
            relay.reset()
        return len(both)

    def reset_damaged(self) -> None:
        """Reset the connections that lost something on a link that passes again."""
        for relay in list(self.relays):
            if any(not self.is_cut(link) for link in relay.damaged):
                relay.reset()


class _Side(asyncio.Protocol):
    """One of the two TCP connections of a relay. `link` carries what is received on it."""

    def __init__(self, relay: _Relay, link: Link) -> None:
        self.relay = relay
        self.link = link
        self.transport: asyncio.Transport | None = None
        self.at_end = False
        self.end_passed = False
        self.lane = Lane(relay.proxy.proxies.streams[link], lambda full: self.stop_reading("lane", full))
        self._stopped: set[str] = set()

    def stop_reading(self, why: str, stop: bool) -> None:
        """Take in nothing for a reason, or no longer for this one."""
        if stop == (why in self._stopped):
            return
        (self._stopped.add if stop else self._stopped.discard)(why)
        if self.transport is not None:
            if self._stopped:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.relay.connected(self)

    def data_received(self, data: bytes) -> None:
        self.relay.received(self, data)

    def eof_received(self) -> bool:
        self.at_end = True
        self.relay.received_end(self)
        return True  # the other direction may go on

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self.relay.lost(self)

    def pause_writing(self) -> None:
        self.relay.other(self).stop_reading("other side is slow", True)

    def resume_writing(self) -> None:
        self.relay.other(self).stop_reading("other side is slow", False)

    def reset(self) -> None:
        if self.transport is not None:
            transport, self.transport = self.transport, None
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            transport.abort()


class _Relay:
    """One connection through a proxy: the near side was dialled by the node, the far side leads to its peer."""

    def __init__(self, proxy: _LinkProxy) -> None:
        self.proxy = proxy
        self.near = _Side(self, proxy.link)
        self.far = _Side(self, proxy.back)
        self.damaged: list[Link] = []
        self._probe: asyncio.Future[bool] | None = None
        self._dialling: asyncio.Task[None] | None = None
        self._waits_for_far = False
        self._early = bytearray()

    @property
    def probes(self) -> bool:
        """Whether it measures the link instead of joining two nodes."""
        return self._probe is not None

    def other(self, side: _Side) -> _Side:
        return self.far if side is self.near else self.near

    def connected(self, side: _Side) -> None:
        if side.transport is None:
            return
        if side is self.far:
            self._far_is_there()
            return
        self.proxy.relays.append(self)
        self._probe = self.proxy.proxies.probes.get(side.transport.get_extra_info("peername")[1])
        if self.proxy.is_cut(side.link):
            self._damage(side.link)  # it leads nowhere in any case
        else:
            # What comes before the far side is there is kept all the same: some releases of Python 3.11 read on after
            # a pause that was asked for this early.
            self._waits_for_far = True
            side.stop_reading("nobody to pass it to", True)
            if self.probes:
                self._start_to_dial()
            else:
                side.lane.put(0, self._start_to_dial)

    def _start_to_dial(self) -> None:
        self._dialling = asyncio.get_running_loop().create_task(self._dial())

    async def _dial(self) -> None:
        loop = asyncio.get_running_loop()
        target = self.proxy.target if self._probe is None else self.proxy.proxies.sink
        try:
            async with asyncio.timeout(CONNECTS_WITHIN_S):
                await loop.create_connection(lambda: self.far, *target)
        except (OSError, TimeoutError):
            self._far_is_there()
            self.lost(self.far)

    def _far_is_there(self) -> None:
        """Pass on what came in before; discard it if the far side could not be reached and the near one must not see
        that.
        """
        self._waits_for_far = False
        early = bytes(self._early)
        self._early.clear()
        if early:
            self.received(self.near, early)
        if self.near.at_end:
            self.received_end(self.near)
        self.near.stop_reading("nobody to pass it to", False)

    def received(self, side: _Side, data: bytes) -> None:
        if side is self.near and self._waits_for_far:
            self._early += data
            return
        if self._probe is not None:
            self._measured(side, data, self._probe)
        elif not self._swallowed(side, len(data)):
            side.lane.put_data(data, lambda piece: self._pass_on(side, piece))

    def _measured(self, side: _Side, data: bytes, probe: asyncio.Future[bool]) -> None:
        """Pass a probe on at once: neither a delay nor a rate is what is measured."""
        if self.proxy.is_cut(side.link) or self.proxy.proxies.streams[side.link].held:
            if not probe.done():
                probe.set_result(False)
        else:
            self._pass_on(side, data)

    def _swallowed(self, side: _Side, size: int) -> bool:
        """Whether what comes from a side leads nowhere; bytes that meet the cut itself are counted."""
        cut_links = self.proxy.proxies.cut_links
        if side.link in cut_links:
            self._damage(side.link)
            cut_links[side.link] += size
        return side.link in self.damaged

    def _pass_on(self, side: _Side, data: bytes) -> None:
        other = self.other(side)
        if not self._swallowed(side, len(data)) and other.transport is not None:
            other.transport.write(data)

    def received_end(self, side: _Side) -> None:
        if side is self.near and self._waits_for_far:
            return
        if not self._swallowed(side, 0):
            side.lane.put(0, lambda: self._pass_on_end(side))

    def _pass_on_end(self, side: _Side) -> None:
        side.end_passed = True
        other = self.other(side)
        if not self._swallowed(side, 0) and other.transport is not None:
            other.transport.write_eof()
            if other.end_passed and other.link not in self.damaged:
                for both in (side, other):
                    if both.transport is not None:
                        both.transport.close()

    def lost(self, side: _Side) -> None:
        """A side is gone: the other one learns of it unless the link is cut, behind everything that came before."""
        if self.proxy.is_cut(side.link) and not self.probes:
            self._damage(side.link)
        elif self.near.at_end and self.far.at_end:
            self._forget()  # both were closed cleanly, and their data is still in flight
        elif self.probes:
            self.reset()
        else:
            side.lane.put(0, self.reset)

    def reset(self) -> None:
        """End both sides so that their peers see a reset and dial again."""
        if self._dialling is not None:
            self._dialling.cancel()
        self._forget()
        for side in (self.near, self.far):
            side.lane.clear()
            side.reset()

    def _damage(self, link: Link) -> None:
        if link not in self.damaged:
            self.damaged.append(link)

    def _forget(self) -> None:
        with contextlib.suppress(ValueError):
            self.proxy.relays.remove(self)


class _Sink(asyncio.Protocol):
    """Where probes arrive: a probe names the port that it comes from."""

    def __init__(self, probes: dict[int, asyncio.Future[bool]]) -> None:
        self._probes = probes
        self._received = b""

    def data_received(self, data: bytes) -> None:
        self._received = (self._received + data)[:16]
        line, newline, _ = self._received.partition(b"\n")
        probe = self._probes.get(int(line)) if newline and line.isdigit() else None
        if probe is not None and not probe.done():
            probe.set_result(True)

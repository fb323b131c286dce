"""The network of a simulated cluster: every directed link between nodes, who listens, how connections come about."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from splitbrain.harness.contract.faults import ClientFault, LinkFault
from splitbrain.harness.contract.nodes import Address, Link, NodeId
from splitbrain.harness.contract.rng import Streams
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.harness.simulation.connections import End, connection
from splitbrain.harness.simulation.lanes import Lane
from splitbrain.harness.simulation.links import SimLink
from splitbrain.harness.simulation.process import resolve
from splitbrain.harness.simulation.streams import StreamEnd
from splitbrain.harness.simulation.worlds import Latency, World

if TYPE_CHECKING:
    from splitbrain.harness.simulation.loop import SimLoop
    from splitbrain.harness.simulation.process import SimProcess
    from splitbrain.harness.simulation.trace import Trace

_MS: Final = 1_000_000

REFUSED: Final = "connection refused"

CONNECT_NS: Final = 1_000 * _MS
"""How long a node's attempt to connect lasts where nothing answers."""

DIAL_NS: Final = 2_000 * _MS
"""How long a client's attempt lasts."""

CLIENT: Final = "client"
"""The source of what clients send, and where answers go."""


EndT = TypeVar("EndT", bound=End)


class _Listener(NamedTuple):
    process: SimProcess
    accept: Callable[[Any], Awaitable[None]]
    kind: type[End]


class SimNetwork:
    """All links, and all connections over them."""

    def __init__(
        self, loop: SimLoop, streams: Streams, nodes: Sequence[NodeId], world: World, trace: Trace | None
    ) -> None:
        self._loop = loop
        self._trace = trace
        self._listeners: dict[Address, _Listener] = {}
        self._off: dict[NodeId, bool] = {}

        # A stream for each directed link: a message more on one link does not change what happens on another.
        def link(pair: Link, latency: Latency) -> SimLink:
            return SimLink(loop, pair, latency, streams["network/{}>{}".format(*pair)], world.stalls)

        pairs = [(a, b) for a in nodes for b in nodes if a != b]
        self.links = {pair: link(pair, world.link) for pair in pairs}
        to_clients = [pair for node in nodes for pair in ((CLIENT, node), (node, CLIENT))]
        self._client_links = {pair: link(pair, world.client) for pair in to_clients}
        self._loopbacks: dict[Link, SimLink] = {}
        self._streams = streams
        self._latency = world.link

    def of(self, node: NodeId, process: SimProcess) -> ProcessNetwork:
        """The network of a process of a node."""
        return ProcessNetwork(self, node, process)

    # --- faults ---------------------------------------------------------------------------------------------------

    def cut(self, cut: frozenset[Link]) -> None:
        """Cut exactly these links."""
        for pair, link in self.links.items():
            link.set_cut(pair in cut)

    def swallowed(self) -> dict[Link, int]:
        """Messages that each cut link swallowed since it is cut."""
        return {pair: link.swallowed for pair, link in self.links.items() if link.cut}

    def disturb(self, faults: Mapping[Link, LinkFault]) -> None:
        """Give exactly these links these faults."""
        for pair, link in self.links.items():
            link.set_fault(faults.get(pair))

    def disturbed(self) -> dict[Link, dict[str, int]]:
        """What the faults did."""
        return {pair: dict(link.counts) for pair, link in self.links.items() if link.fault is not None}

    def disturb_clients(self, faults: Mapping[NodeId, ClientFault]) -> dict[NodeId, dict[str, int]]:
        """Give the links between clients and exactly these nodes these faults; what the former ones did."""
        did: dict[NodeId, dict[str, int]] = {}
        for (source, destination), link in self._client_links.items():
            node = destination if source == CLIENT else source
            if link.cut or link.fault is not None:
                counts = did.setdefault(node, {})
                for what, count in (*link.counts.items(), ("swallowed", link.swallowed if link.cut else 0)):
                    counts[what] = counts.get(what, 0) + count
            fault = faults.get(node, ClientFault())
            link.set_cut(fault.cut_requests if source == CLIENT else fault.cut_answers)
            link.set_fault(fault.of_link())
        return did

    async def probe(self, links: Sequence[Link]) -> dict[Link, bool]:
        """Send a probe over each link, and report whether it arrives. Faults neither hit nor count probes."""
        passed: dict[Link, bool] = {}
        over = asyncio.Future[None](loop=self._loop)

        def arrived(pair: Link) -> None:
            passed[pair] = self.links[pair].passes()
            if len(passed) == len(links) and not over.done():
                over.set_result(None)

        for pair in links:
            self._loop.after(self.links[pair].latency_ns(), lambda pair=pair: arrived(pair))
        if links:
            await over
        return {pair: passed[pair] for pair in links}

    def process_ended(self, node: NodeId, process: SimProcess) -> None:
        """A process has ended: its peers see it, unless its whole machine lost power."""
        self._listeners = {at: found for at, found in self._listeners.items() if found.process is not process}
        self._off[node] = process.silent
        for links in (self.links, self._client_links, self._loopbacks):
            for (source, _), link in links.items():
                if source == node:
                    for end in [end for end in link.carried if isinstance(end, End) and end.owner is process]:
                        end.owner_died(silent=process.silent)

    def process_started(self, node: NodeId) -> None:
        """The machine has power."""
        self._off[node] = False

    # --- connections ----------------------------------------------------------------------------------------------

    def listen(
        self, process: SimProcess, address: Address, accept: Callable[[EndT], Awaitable[None]], kind: type[EndT]
    ) -> None:
        """Serve an address until the process ends, or `stop_listening`; its connections are of that kind.

        A process that has ended, in the middle of the step that calls this, serves nothing.
        """
        if not process.alive():
            return
        self._listeners[address] = _Listener(process, accept, kind)

    def listens(self, address: Address) -> bool:
        """Whether the address is served."""
        return address in self._listeners

    def stop_listening(self, address: Address) -> None:
        """Serve an address no more; its connections stay."""
        self._listeners.pop(address, None)

    async def connect(self, node: NodeId, process: SimProcess, address: Address) -> End:
        """A connection between two nodes, dialled by a process of `node`.

        Raises:
            ConnectionRefusedError: no process listens there.
            ConnectionError: there is no such node, or there was no answer within a second.
        """
        pair = (node, address[0])
        if node == address[0]:
            links = self._loopback(node), self._loopback(node)
        elif pair in self.links:
            links = self.links[pair], self.links[address[0], node]
        else:
            raise ConnectionError(f"{address[0]}:{address[1]}: no route to host")
        outcome = self._shake_hands(process, links, address, CONNECT_NS, process.post)
        found = await outcome
        if isinstance(found, str):
            kind = ConnectionRefusedError if found == REFUSED else ConnectionError
            raise kind(f"{address[0]}:{address[1]}: {found}")
        return found

    async def dial(self, address: Address) -> End:
        """A connection of a client.

        Raises:
            DefiniteError: the connection was refused, or there was no answer within two seconds.
        """
        node = address[0]
        links = self._client_links[CLIENT, node], self._client_links[node, CLIENT]
        found = await self._shake_hands(None, links, address, DIAL_NS, lambda callback: callback())
        if isinstance(found, str):
            raise DefiniteError(f"{node} cannot be reached: {found}")
        return found

    def _loopback(self, node: NodeId) -> SimLink:
        """What a node says to itself."""
        pair = (node, node)
        if pair not in self._loopbacks:
            stream = self._streams["network/{}>{}".format(*pair)]
            self._loopbacks[pair] = SimLink(self._loop, pair, self._latency, stream)
        return self._loopbacks[pair]

    def _shake_hands(
        self,
        caller: SimProcess | None,
        links: tuple[SimLink, SimLink],
        address: Address,
        limit_ns: int,
        post: Callable[[Callable[[], None]], None],
    ) -> asyncio.Future[End | str]:
        """Request a connection and wait for the answer: the caller's end of it, or the reason of the refusal."""
        loop, (out, back) = self._loop, links
        outcome = asyncio.Future[End | str](loop=loop)

        def settle(found: End | str) -> None:
            timer.cancel()
            if outcome.done() and isinstance(found, End):
                found.close()  # the caller has timed out meanwhile
            post(lambda: resolve(outcome, found))

        def asked(_: Address) -> None:
            if crossed(out) and not self._off.get(address[0], False):
                send(back, answered)

        def answered(_: Address) -> None:
            if not crossed(back) or timer_ran_out():
                return
            listener = self._listeners.get(address)
            if listener is None or (caller is not None and not caller.alive()):
                settle(REFUSED)
                return
            here, there = connection(listener.kind, loop, (caller, listener.process), links, self._trace)
            process = listener.process
            process.post(lambda: process.spawn(listener.accept(there), "accept"))
            settle(here)

        def crossed(link: SimLink) -> bool:
            link.swallowed += link.cut  # who dials for each request sends nothing else over a cut link
            return link.passes()

        def send(link: SimLink, arrive: Callable[[Address], None]) -> None:
            Lane(loop, link).launch(0, arrive, address)

        def timer_ran_out() -> bool:
            return loop.now_ns >= limit_at_ns

        limit_at_ns = loop.now_ns + limit_ns
        timer = loop.at(limit_at_ns, lambda: settle(f"no answer within {limit_ns / 1e9:g} s"))
        send(out, asked)
        return outcome


class ProcessNetwork:
    """The network of one process (`splitbrain.cluster.runtime.Network`).

    Attributes:
        node: the node on which the process runs.
    """

    def __init__(self, network: SimNetwork, node: NodeId, process: SimProcess) -> None:
        self._network = network
        self._process = process
        self.node = node

    async def connect(self, address: Address) -> End:
        """Open a connection.

        Raises:
            ConnectionRefusedError: no process listens there.
            ConnectionError: there is no such node, or there was no answer within a second.
        """
        return await self._network.connect(self.node, self._process, address)

    async def listen(self, address: Address, accept: Callable[[End], Awaitable[None]]) -> None:
        """Serve `address` until the process ends; `accept` runs as a task of its own per connection."""
        self._network.listen(self._process, address, accept, End)

    def serve(self, port: int, accept: Callable[[StreamEnd], Awaitable[None]]) -> None:
        """Serve streams on a port of the node, until the process ends or `stop`.

        Raises:
            OSError: the port is in use.
        """
        address = (self.node, port)
        if self._network.listens(address):
            raise OSError(errno.EADDRINUSE, f"address already in use: {self.node}:{port}")
        self._network.listen(self._process, address, accept, StreamEnd)

    def stop(self, port: int) -> None:
        """Serve the port no more."""
        self._network.stop_listening((self.node, port))

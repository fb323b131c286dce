"""A deployment of containers: nodes under the control of the engine, links under that of an agent on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from harness import faultkinds
from harness.backends.channel import Agent
from harness.backends.dialing import connected
from harness.backends.docker import labels, subnets
from harness.backends.docker.clocks import CLOCK_DIR, Clocks
from harness.backends.docker.disks import Disks
from harness.backends.docker.engine import Engine, containers_with, networks_with
from harness.backends.docker.nodes import DATA_DIR, NODE_PORT, Containers, Node
from harness.backends.docker.runners import Runners
from harness.backends.linkfaults import SeededFaults
from harness.protocols import ClockFault, DiskFault, Link, LinkFault, NodeId, NodePlace, NodeStatus
from harness.rng import Streams
from harness.test import Test
from results.errors import BackendError, FaultNotSupportedError, UnknownNodeError, UsageError

Result = TypeVar("Result")

ALIVE_EVERY_S = 10.0
REMOVAL_TRIES = 5


class DockerDeployment:
    """Nodes as containers on a network of their own. Made by `DockerBackend.deploy`.

    Attributes:
        nodes: names of the nodes, in the test's order.
        run: the id under which the engine lists what belongs to this deployment (label "splitbrain.run").
        places: where each node lives.
    """

    def __init__(self, test: Test, run_dir: Path, image: str, run: str, engine: Engine, agent: Agent) -> None:
        self.nodes: Sequence[NodeId] = test.nodes
        self.run = run
        self.places: Mapping[NodeId, NodePlace] = {}
        self._test = test
        self._folders = {node: run_dir.absolute() / "nodes" / node for node in test.nodes}
        self._engine = engine
        self._agent = agent
        self._nodes: dict[NodeId, Node] = {}
        self._containers = Containers(engine, run, _name(run), image)
        self._runners = Runners(engine, self._containers)
        self._disks = Disks(test, agent, self._runners)
        self._clocks: Clocks | None = None
        self._seeded = SeededFaults()
        self._streams = Streams(test.seed)
        self._alive: asyncio.Task[None] | None = None
        self._closed = False

    async def lay_out(self) -> None:
        """Make directories, the network, the containers that keep the nodes' networks, and the rules in those.

        Raises:
            BackendError: something of it cannot be made here.
        """
        subnet = await self._engine.ask(
            "make a network", lambda api: subnets.create_network(api, _name(self.run), labels.of_run(self.run))
        )
        self.places = _places(self.nodes, subnet)
        hosts = {node: place.listen[0] for node, place in self.places.items()}
        clocks = any(kind in faultkinds.CLOCK_KINDS for kind in self._test.nemesis.faults)
        for node in self.nodes:
            found = self._nodes[node] = Node(self.places[node], self._folders[node])
            found.data.mkdir(parents=True, exist_ok=True)
            found.log.touch()
            self._disks.prepare(found)
            if clocks:
                found.binds[CLOCK_DIR] = found.folder / "clock"
                found.binds[CLOCK_DIR].mkdir(exist_ok=True)
        if clocks:
            self._clocks = Clocks(self._engine, {node.name: node.binds[CLOCK_DIR] for node in self._all()})
        await _together([self._containers.keep(node, hosts) for node in self._all()])
        networks = {node.name: [node.keeper_pid, hosts[node.name]] for node in self._all()}
        try:
            await self._agent.ask("join", nodes=networks)
        except BackendError:
            await _together([self._containers.check_keeper(node) for node in self._all()])
            raise
        await self._disks.lay_out(self._all())
        self._alive = asyncio.get_running_loop().create_task(self._keep_alive())

    # --- nodes --------------------------------------------------------------------------------------------------------

    async def start(self, node: NodeId) -> NodeStatus:
        """Start the node's container; returns when the node listens, at the latest after five seconds.

        Raises:
            NodeStartError: it could not be run, or it ended at once.
        """
        found = self._node(node)
        async with found.changing:
            status = await self._runners.status(found)
            if status.state != "stopped":
                return status
            logged = found.log.stat().st_size
            command = self._test.system.command(self._test, found.place)
            if self._clocks is not None:
                clock = self._clocks.prepare(found, command)
                command = msgspec.structs.replace(command, env={**command.env, **clock})
            await self._runners.start(found, command)
        return await self._runners.until_it_listens(found, logged)

    async def kill(self, node: NodeId) -> NodeStatus:
        """End every process of the node with SIGKILL and wait until the kernel has ended them."""
        found = self._node(node)
        async with found.changing:
            return await self._runners.kill(found)

    async def pause(self, node: NodeId) -> NodeStatus:
        """Freeze every process of the node (control group freezer); a stopped node stays stopped.

        Raises:
            BackendError: the kernel does not show the node's processes as frozen.
        """
        found = self._node(node)
        async with found.changing:
            return await self._runners.pause(found)

    async def resume(self, node: NodeId) -> NodeStatus:
        """Let a paused node run again."""
        found = self._node(node)
        async with found.changing:
            return await self._runners.resume(found)

    async def status(self, node: NodeId) -> NodeStatus:
        """What engine and kernel say of the node: the first pid, its state letter, whether it is frozen; how it ended.

        Of one that ended although nobody stopped it, also the last line of its log.
        """
        return await self._runners.status(self._node(node))

    async def throttle(self, node: NodeId, share: float | None) -> Mapping[str, Any]:
        """Give the node this share of one CPU; None lifts the limit. A limit outlives the node's process.

        Evidence: in how many periods ("throttled") the node ran into the limit until now. What a process that ended by
        itself had counted is lost.
        """
        found = self._node(node)
        async with found.changing:
            return await self._runners.throttle(found, share)

    async def skew(self, node: NodeId, fault: ClockFault | None) -> Mapping[str, Any]:
        """Give the node's clock this fault, or none; what a process of its image saw "before" and "after".

        Raises:
            FaultNotSupportedError: the test was deployed without clock faults.
        """
        found = self._node(node)
        if self._clocks is not None:
            async with found.changing:
                return await self._clocks.skew(found, fault)
        if fault is not None:
            raise FaultNotSupportedError(
                f"the clock of {node} cannot be faked: it was started without libfaketime, as the test's nemesis does "
                "not need it."
            )
        return {}

    async def spoil(self, node: NodeId, fault: DiskFault | None) -> Mapping[str, Any]:
        """Give the node's disk this fault, or none. A node that holds a failed file system is killed for its heal.

        Raises:
            FaultNotSupportedError: it can be done only to the disk of a stopped node.
        """
        found = self._node(node)
        async with found.changing:
            return await self._disks.spoil(found, fault)

    async def power_off(self, node: NodeId) -> NodeStatus:
        """End the node's processes with SIGKILL, and lose what they did not sync.

        The evidence has "bytes_lost" and "names_lost": compared with what they had written.
        """
        found = self._node(node)
        async with found.changing:
            return await self._disks.lose_power(found)

    # --- links --------------------------------------------------------------------------------------------------------

    async def cut(self, links: frozenset[Link]) -> None:
        """Make exactly these directed links drop everything, and all others pass; each receiver changes in one step.

        A cut expires after a minute unless this controller refreshes it, which it does by itself.
        """
        await self._agent.ask("cut", links=self._known(sorted(links)))

    async def passes(self, links: Sequence[Link]) -> Mapping[Link, bool]:
        """Send a probe over each link, all at once; one that has not arrived after 150 ms does not pass."""
        passed = await self._agent.ask("passes", links=self._known(links))
        return dict(zip(links, passed, strict=True))

    async def dropped(self) -> Mapping[Link, int]:
        """Packets that each cut link swallowed since it was cut, as the receivers' rules counted them."""
        return {(source, destination): count for source, destination, count in await self._agent.ask("dropped")}

    async def disturb(self, faults: Mapping[Link, LinkFault]) -> None:
        """Give exactly these directed links these faults, and all others none.

        They strike packets where these leave their sender's network.
        """
        self._known(list(faults))
        await self._agent.ask("disturb", faults=self._seeded.request(faults, self._streams))

    async def disturbed(self) -> Mapping[Link, Mapping[str, int]]:
        """For each link with a fault what it did since it has it: counts of packets (`agent.packets`)."""
        counts = await self._agent.ask("disturbed")
        return {(source, destination): counted for source, destination, counted in counts}

    async def dial(self, node: NodeId) -> socket.socket:
        """A connected, non-blocking TCP socket from this machine to the node, across no link.

        Raises:
            DefiniteError: nobody listens there, or the node took no connection within two seconds.
        """
        address = self._node(node).place.listen
        return await connected(socket.socket(socket.AF_INET, socket.SOCK_STREAM), node, address)

    # --- the end ------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Stop every node (SIGTERM, a second later SIGKILL) and remove everything except logs and data.

        Everything is tried whatever fails. Closing twice does no harm.

        Raises:
            BackendError: something was left behind; the next start sweeps it.
        """
        if self._closed:
            return
        self._closed = True
        if self._alive is not None:
            self._alive.cancel()
        if self._clocks is not None:
            await self._clocks.close()
        try:
            await _together([self._stop(node) for node in self._all()])
        finally:
            try:
                await self._remove_everything()
            finally:
                try:
                    await self._agent.ask("stop")  # file systems are unmounted once no container holds them
                finally:
                    await self._agent.close()
                    self._engine.close()

    async def _stop(self, node: Node) -> None:
        async with node.changing:
            await self._runners.stop(node)

    async def _remove_everything(self) -> None:
        """By label, for an interrupted start leaves containers that nobody here knows of. Runners go before keepers."""
        mine = [f"{label}={value}" for label, value in labels.of_run(self.run).items()]
        found = await self._engine.ask("list containers", lambda api: containers_with(api, mine))
        await _together([self._engine.remove(container.id) for container in found])
        for network in await self._engine.ask("list networks", lambda api: networks_with(api, mine)):
            await self._remove_network(network.id)

    async def _remove_network(self, network: str) -> None:
        """The engine refuses for a moment after the last container has gone."""
        for attempt in range(REMOVAL_TRIES):
            try:
                await self._engine.ask("remove a network", lambda api: api.remove_network(network))
            except BackendError:
                if attempt == REMOVAL_TRIES - 1:
                    raise
                await asyncio.sleep(0.1 * 2**attempt)
            else:
                return

    async def _keep_alive(self) -> None:
        with contextlib.suppress(BackendError):  # whoever asks for something next is told
            while True:
                await asyncio.sleep(ALIVE_EVERY_S)
                await self._agent.ask("alive")

    # --- checks -------------------------------------------------------------------------------------------------------

    def _all(self) -> list[Node]:
        return list(self._nodes.values())

    def _node(self, node: NodeId) -> Node:
        if node not in self._nodes:
            raise UnknownNodeError(f"there is no node {node!r} in this test. Known: {', '.join(self.nodes)}.")
        return self._nodes[node]

    def _known(self, links: Sequence[Link]) -> list[Link]:
        for source, destination in links:
            self._node(source)
            if source == self._node(destination).name:
                raise UsageError(f"{source} has no link to itself: a link joins two different nodes.")
        return list(links)


def _name(run: str) -> str:
    """What the network of a run is called."""
    return f"splitbrain-{run}"


def _places(nodes: Sequence[NodeId], subnet: ipaddress.IPv4Network) -> dict[NodeId, NodePlace]:
    listen = {node: (subnets.address_in(subnet, number), NODE_PORT) for number, node in enumerate(nodes)}
    return {
        node: NodePlace(
            node=node,
            data_dir=DATA_DIR,
            listen=listen[node],
            peers={peer: listen[peer] for peer in nodes if peer != node},
            home="image",
        )
        for node in nodes
    }


async def _together(work: Sequence[Awaitable[Result]]) -> list[Result]:
    """Results in order. All of it is brought to its end, then the first failure is raised."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]

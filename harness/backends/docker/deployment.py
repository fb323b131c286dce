"""A deployment of containers: nodes under the control of the engine, links under that of an agent on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import socket
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from harness.backends.agent import syscalls
from harness.backends.channel import Agent
from harness.backends.docker import labels, subnets
from harness.backends.docker.engine import ContainerState, Engine, containers_with, networks_with, short
from harness.backends.docker.freezer import frozen
from harness.backends.docker.nodes import DATA_DIR, NODE_PORT, Containers, Node, ended_how, log_end
from harness.backends.limits import OnlyCutsKillsAndPauses
from harness.protocols import DefiniteError, Link, NodeId, NodePlace, NodeStatus
from harness.test import Test
from results.errors import BackendError, NodeStartError, UnknownNodeError, UsageError

Result = TypeVar("Result")

CONNECTS_WITHIN_S = 2.0
LISTENS_WITHIN_S = 2.0
"""How long a start waits for the node to listen. A node that needs longer has started all the same."""
ALIVE_EVERY_S = 10.0
POLL_S = 0.02
LOG_CHARACTERS_SHOWN = 300
STOP_GRACE_S = 1
REMOVAL_TRIES = 5


class DockerDeployment(OnlyCutsKillsAndPauses):
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
        self._image = image
        self._engine = engine
        self._agent = agent
        self._nodes: dict[NodeId, Node] = {}
        self._containers: Containers | None = None
        self._alive: asyncio.Task[None] | None = None
        self._closed = False

    async def lay_out(self) -> None:
        """Make directories, the network, the containers that keep the nodes' networks, and the rules in those.

        Raises:
            BackendError: something of it cannot be made here.
        """
        name = f"splitbrain-{self.run}"
        subnet = await self._engine.ask(
            "make a network", lambda api: subnets.create_network(api, name, labels.of_run(self.run))
        )
        self.places = _places(self.nodes, subnet)
        hosts = {node: place.listen[0] for node, place in self.places.items()}
        self._nodes = {node: Node(self.places[node], self._folders[node]) for node in self.nodes}
        for node in self._nodes.values():
            node.data.mkdir(parents=True, exist_ok=True)
            node.log.touch()
        self._containers = Containers(self._engine, self.run, name, self._image, hosts)
        await _together([self._containers.keep(node) for node in self._nodes.values()])
        try:
            await self._agent.ask(
                "join", nodes={node.name: [node.keeper_pid, hosts[node.name]] for node in self._all()}
            )
        except BackendError:
            await _together([self._containers.check_keeper(node) for node in self._all()])
            raise
        self._alive = asyncio.get_running_loop().create_task(self._keep_alive())

    # --- nodes --------------------------------------------------------------------------------------------------------

    async def start(self, node: NodeId) -> NodeStatus:
        """Start the node's container; returns when the node listens, at the latest after two seconds.

        Raises:
            NodeStartError: it could not be run, or it ended at once.
        """
        found = self._node(node)
        async with found.changing:
            status = await self._status(found)
            if status.state != "stopped":
                return status
            logged = found.log.stat().st_size
            try:
                await self._begin(found)
            except NodeStartError:
                raise
            except BackendError as error:
                raise NodeStartError(f"{node} cannot be started: {error}") from None
        return await self._until_it_listens(found, logged)

    async def kill(self, node: NodeId) -> NodeStatus:
        """End every process of the node with SIGKILL and wait until the kernel has ended them."""
        found = self._node(node)
        async with found.changing:
            found.signalled = True
            if found.runner:
                await self._engine.kill(found.runner)
            return await self._status(found)

    async def pause(self, node: NodeId) -> NodeStatus:
        """Freeze every process of the node (control group freezer); a stopped node stays stopped.

        Raises:
            BackendError: the kernel does not show the node's processes as frozen.
        """
        found = self._node(node)
        async with found.changing:
            if found.runner:
                await self._engine.pause(found.runner)
            status = await self._status(found)
        if status.state == "paused" and status.evidence.get("frozen") is False:
            raise BackendError(f"{node} was paused, but the kernel does not show its processes as frozen.")
        return status

    async def resume(self, node: NodeId) -> NodeStatus:
        """Let a paused node run again."""
        found = self._node(node)
        async with found.changing:
            if found.runner:
                await self._engine.unpause(found.runner)
            return await self._status(found)

    async def status(self, node: NodeId) -> NodeStatus:
        """What engine and kernel say of the node: the first pid, its state letter, whether it is frozen; how it ended.

        Of one that ended although nobody stopped it, also the last line of its log.
        """
        return await self._status(self._node(node))

    async def _begin(self, node: Node) -> None:
        assert self._containers is not None
        command = self._test.system.command(self._test, node.place)
        await self._containers.prepare(node, command)
        await self._engine.start(node.runner)
        node.life += 1
        node.signalled = False

    async def _until_it_listens(self, node: Node, logged: int) -> NodeStatus:
        life = node.life
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LISTENS_WITHIN_S
        while not (listening := syscalls.listens(node.keeper_pid, NODE_PORT)) and loop.time() < deadline:
            status = await self._status(node)
            if status.state != "running" or node.life != life:
                break
            await asyncio.sleep(POLL_S)
        status = await self._status(node)
        if status.state == "stopped" and node.life == life and not node.signalled:
            raise NodeStartError(
                f"{node.name} ended at once ({status.evidence['exit']}); its log, {node.log}, ends with: "
                f"{log_end(node.log, logged)}"
            )
        return NodeStatus(status.state, status.life, {**status.evidence, "listening": listening})

    async def _status(self, node: Node) -> NodeStatus:
        if not node.runner or node.life == 0:
            return NodeStatus("stopped", node.life)
        state = await self._engine.state(node.runner)
        if state.has_processes:
            return NodeStatus("paused" if state.status == "paused" else "running", node.life, _seen(node, state))
        evidence: dict[str, Any] = {"container": short(node.runner), "exit": ended_how(state)}
        if not node.signalled:
            evidence["by_itself"] = True
            evidence["log"] = log_end(node.log, lines=1)[-LOG_CHARACTERS_SHOWN:]
        return NodeStatus("stopped", node.life, evidence)

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

    async def dial(self, node: NodeId) -> socket.socket:
        """A connected, non-blocking TCP socket from this machine to the node, across no link.

        Raises:
            DefiniteError: nobody listens there, or the node took no connection within two seconds.
        """
        address = self._node(node).place.listen
        found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            found.setblocking(False)
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(CONNECTS_WITHIN_S):
                await asyncio.get_running_loop().sock_connect(found, address)
        except TimeoutError:
            found.close()
            raise DefiniteError(f"{node} took no connection within {CONNECTS_WITHIN_S:g} s") from None
        except OSError as error:
            found.close()
            reason = os.strerror(error.errno) if error.errno else error  # asyncio's own text says only that it failed
            raise DefiniteError(f"{node} cannot be reached: {reason}") from None
        except BaseException:
            found.close()
            raise
        return found

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
        try:
            await _together([self._stop(node) for node in self._all()])
        finally:
            try:
                await self._remove_everything()
            finally:
                await self._agent.close()
                self._engine.close()

    async def _stop(self, node: Node) -> None:
        async with node.changing:
            node.signalled = True
            if node.runner and (await self._engine.state(node.runner)).has_processes:
                await self._engine.unpause(node.runner)
                await self._engine.stop(node.runner, STOP_GRACE_S)

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


def _seen(node: Node, state: ContainerState) -> dict[str, Any]:
    process = syscalls.process_state(state.pid)
    evidence: dict[str, Any] = {"container": short(node.runner), "pid": state.pid}
    if process is not None:
        evidence["stat"] = process[0]
    freezer = frozen(state.pid)
    return evidence if freezer is None else {**evidence, "frozen": freezer}


async def _together(work: Sequence[Awaitable[Result]]) -> list[Result]:
    """Results in order. All of it is brought to its end, then the first failure is raised."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]

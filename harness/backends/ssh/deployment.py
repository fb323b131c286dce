"""A deployment on hosts: one node per host, run by an agent there, links cut by each receiver."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

from splitbrain.harness.backends.agentnodes import AgentNode, to_status
from splitbrain.harness.backends.deployed import Deployed
from splitbrain.harness.backends.nodefaults import NodeFaults
from splitbrain.harness.backends.nodelogs import last_lines
from splitbrain.harness.backends.ownership import this_controller
from splitbrain.harness.backends.ssh import machine
from splitbrain.harness.backends.ssh.agents import RemoteAgent, agent_command
from splitbrain.harness.backends.ssh.clocks import estimated
from splitbrain.harness.backends.ssh.connection import Connection, HostError
from splitbrain.harness.backends.ssh.faults import lay_out_disk, make_clock
from splitbrain.harness.backends.ssh.links import HostLinks, together
from splitbrain.harness.contract.deployments import Surroundings
from splitbrain.harness.contract.nodes import Address, ClockOffset, NodeId, NodePlace, NodeStatus
from splitbrain.harness.contract.test import Test
from splitbrain.results.errors import BackendError, NodeStartError

NODE_PORT: Final = 7000

T = TypeVar("T")


class SshDeployment(Deployed[AgentNode]):
    """Nodes on hosts. Made by `SshBackend.deploy`.

    Attributes:
        homes: the run's directory on each host.
        surroundings: links are cut by rules on the receiving host.
    """

    surroundings = Surroundings(links="receivers")

    def __init__(
        self,
        test: Test,
        run_dir: Path,
        connections: Mapping[NodeId, Connection],
        executor: ThreadPoolExecutor,
    ) -> None:
        self._agents: dict[NodeId, RemoteAgent] = {}
        super().__init__(test, HostLinks(self._agents))
        self.homes: dict[NodeId, str] = {}
        self._dirs = {node: run_dir.absolute() / "nodes" / node for node in test.nodes}
        self._connections = connections
        self._executor = executor

    async def lay_out(self, libraries: Mapping[NodeId, str | None]) -> None:
        """Upload, start the agents, take the hosts, and see that they reach each other.

        Args:
            libraries: where libfaketime is on each host.

        Raises:
            BackendError: it cannot be done on some hosts; all of them are named.
        """
        for node_dir in self._dirs.values():
            node_dir.mkdir(parents=True, exist_ok=True)

        uploads = dict(self._test.system.capabilities.uploads)

        async def settle(node: NodeId) -> None:
            self.homes[node] = await self._off_loop(machine.upload, self._connections[node], uploads)
            await self._start_agent(node)

        await self._on_all(settle)
        addresses = {node: self._connections[node].address for node in self.nodes}

        async def take(node: NodeId) -> None:
            await self._agents[node].ask("lay_out", node=node, addresses=addresses, port=NODE_PORT)

        await self._on_all(take)
        listen: dict[NodeId, Address] = {node: (addresses[node], NODE_PORT) for node in self.nodes}
        self.places = {
            node: NodePlace(
                node=node,
                data_dir=f"{self.homes[node]}/data",
                listen=listen[node],
                peers={peer: listen[peer] for peer in self.nodes if peer != node},
                home="host",
                home_dir=self.homes[node],
            )
            for node in self.nodes
        }
        self._begins()
        await self._check_links()

        async def lay_out_node(node: NodeId) -> None:
            agent, place = self._agents[node], self.places[node]
            await lay_out_disk(self._test, agent, place)
            clock = await make_clock(self._test, agent, place, libraries.get(node), self._dirs[node])
            control = AgentNode(node, agent, functools.partial(agent.ask, "log_end"))
            self._controls[node] = control
            self._faults[node] = NodeFaults(node, agent, control.status, control.kill, self._streams, clock)

        await self._on_all(lay_out_node)

    async def _start_agent(self, node: NodeId) -> None:
        connection = self._connections[node]
        command = agent_command(self.homes[node], this_controller().marker)
        channel = await self._off_loop(connection.open, command)
        self._agents[node] = RemoteAgent(connection, channel, self._executor, lambda line: self._note(node, line))

    async def _check_links(self) -> None:
        links = [(source, to) for source in self.nodes for to in self.nodes if source != to]
        broken = [f"{source} -> {to}" for (source, to), passed in (await self.passes(links)).items() if not passed]
        if broken:
            raise BackendError(
                f"the hosts do not reach each other: nothing passes {', '.join(broken[:10])}"
                f"{' and more' if len(broken) > 10 else ''} on UDP port 65009. A firewall must let hosts of a test "
                f"through to each other there and on TCP port {NODE_PORT}."
            )

    # --- nodes --------------------------------------------------------------------------------------------------------

    async def start(self, node: NodeId) -> NodeStatus:
        """Start the node's process; returns when it listens, at the latest after two seconds.

        Raises:
            NodeStartError: it could not be run, or it ended at once.
        """
        command = self._test.system.command(self._test, self._place(node))
        answer = await self._controls[node].start(command, self._faults[node].prepare)
        if "failed" in answer:
            said = last_lines(answer["log"])
            raise NodeStartError(f"{node} ended at once ({answer['failed']}); its log ends with: {said}")
        return to_status(answer)

    async def offsets(self) -> Mapping[NodeId, ClockOffset]:
        """Estimated from exchanges with the agents; all hosts at once, the exchanges with each one after the other.

        Raises:
            BackendError: an agent does not answer; all such hosts are named.
        """
        offsets = await self._on_all(lambda node: estimated(self._agents[node]))
        return dict(zip(self.nodes, offsets, strict=True))

    # --- the end ------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Stop every node (SIGTERM, a second later SIGKILL), fetch logs and data, remove everything from the hosts.

        Closing twice does no harm.

        Raises:
            BackendError: a host could not be cleared; all of them are named, and the others are clear.
        """
        if not self._ends():
            return
        try:
            await self._on_all(self._clear)
        finally:
            for connection in self._connections.values():
                await self._off_loop(connection.close)
            self._executor.shutdown(wait=False)

    async def _clear(self, node: NodeId) -> None:
        agent, home = self._agents.get(node), self.homes.get(node)
        problems: list[HostError] = []
        if node in self._faults:
            with contextlib.suppress(HostError):  # as below
                await self._faults[node].close()
        if agent is not None:
            if self.places and agent.answers:
                with contextlib.suppress(HostError):  # an agent that is gone has taken its node with it
                    await agent.ask("stop")
            if not await agent.close():
                problems.append(HostError(self._connections[node].host, "the agent was not seen to end."))
        connection = self._connections.get(node)
        if connection is not None and home is not None:
            steps = [functools.partial(machine.remove, connection, home)]
            if self.places:
                steps.insert(0, functools.partial(machine.collect, connection, home, self._dirs[node]))
            for step in steps:
                try:
                    await self._off_loop(step)
                except HostError as error:
                    problems.append(error)
        if problems:
            raise problems[0]

    # --- many hosts ---------------------------------------------------------------------------------------------------

    async def _off_loop(self, blocking: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, blocking, *arguments)

    async def _on_all(self, work: Callable[[NodeId], Awaitable[T]]) -> Sequence[T]:
        return await together([work(node) for node in self.nodes])

    def _note(self, node: NodeId, line: str) -> None:
        """Keep what concerns one host beside its node's log."""
        with (self._dirs[node] / "ssh.log").open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

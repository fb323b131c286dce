"""A deployment on hosts: one node per host, run by an agent there, links cut by each receiver."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from harness.backends.dialing import connected
from harness.backends.ssh import machine
from harness.backends.ssh.agents import RemoteAgent, agent_command
from harness.backends.ssh.connection import Connection, HostError
from harness.backends.ssh.faults import HostFaults
from harness.backends.ssh.links import HostLinks, together
from harness.protocols import (
    Address,
    ClockFault,
    DiskFault,
    Link,
    LinkFault,
    NodeId,
    NodePlace,
    NodeStatus,
    Runtime,
)
from harness.test import Test
from results.errors import BackendError, NodeStartError, UnknownNodeError, UsageError

NODE_PORT: Final = 7000
ALIVE_EVERY_S: Final = 8.0
LOG_LINES_SHOWN: Final = 8
LOG_CHARACTERS_SHOWN: Final = 300

T = TypeVar("T")


class SshDeployment:
    """Nodes on hosts. Made by `SshBackend.deploy`.

    Attributes:
        nodes: names of the nodes, in the test's order.
        places: where each node lives, once it is laid out.
        homes: the run's directory on each host.
    """

    def __init__(
        self,
        test: Test,
        run_dir: Path,
        runtime: Runtime,
        connections: Mapping[NodeId, Connection],
        executor: ThreadPoolExecutor,
    ) -> None:
        self.nodes: Sequence[NodeId] = test.nodes
        self.places: Mapping[NodeId, NodePlace] = {}
        self.homes: dict[NodeId, str] = {}
        self._test = test
        self._dirs = {node: run_dir.absolute() / "nodes" / node for node in test.nodes}
        self._connections = connections
        self._executor = executor
        self._agents: dict[NodeId, RemoteAgent] = {}
        self._faults: dict[NodeId, HostFaults] = {}
        self._runtime = runtime
        self._links = HostLinks(self._agents)
        self._alive: asyncio.Task[None] | None = None
        self._closed = False

    async def lay_out(self, libraries: Mapping[NodeId, str | None]) -> None:
        """Upload, start the agents, take the hosts, and see that they reach each other.

        Args:
            libraries: where libfaketime is on each host.

        Raises:
            BackendError: it cannot be done on some hosts; all of them are named.
        """
        for node_dir in self._dirs.values():
            node_dir.mkdir(parents=True, exist_ok=True)

        uploads = dict(self._test.system.uploads)

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
        self._alive = asyncio.get_running_loop().create_task(self._keep_alive())
        await self._check_links()

        async def lay_out_faults(node: NodeId) -> None:
            faults = HostFaults(self._test, self._agents[node], self.places[node], self._dirs[node])
            self._faults[node] = faults
            await faults.lay_out(libraries.get(node))

        await self._on_all(lay_out_faults)

    async def _start_agent(self, node: NodeId) -> None:
        connection = self._connections[node]
        command = agent_command(self.homes[node], machine.owner().split()[1])
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
        agent = self._agents[node]
        env = dict(command.env)
        try:
            if (await self.status(node)).state == "stopped":
                env |= await self._faults[node].prepare(command)
            answer = await agent.ask("start", name=node, argv=list(command.argv), env=env)
        except HostError as error:
            raise NodeStartError(str(error)) from None
        if "failed" in answer:
            said = _last_lines(answer["log"], LOG_LINES_SHOWN)
            raise NodeStartError(f"{node} ended at once ({answer['failed']}); its log ends with: {said}")
        return _status(answer)

    async def kill(self, node: NodeId) -> NodeStatus:
        """End the node's processes with SIGKILL and wait until they are reaped."""
        return await self._ask_about(node, "kill")

    async def pause(self, node: NodeId) -> NodeStatus:
        """Stop the node's processes with SIGSTOP and wait until the kernel says so. A stopped node stays stopped."""
        return await self._ask_about(node, "pause")

    async def resume(self, node: NodeId) -> NodeStatus:
        """Let a paused node run again."""
        return await self._ask_about(node, "resume")

    async def status(self, node: NodeId) -> NodeStatus:
        """What the host's kernel says of the node's process: pid (in the agent's PID namespace), state letter, exit.

        Of one that ended although nobody stopped it, also the last line of its log.
        """
        status = await self._ask_about(node, "status")
        if not status.evidence.get("by_itself"):
            return status
        last = _last_lines(await self._agents[node].ask("log_end"), 1)
        return msgspec.structs.replace(status, evidence={**status.evidence, "log": last[-LOG_CHARACTERS_SHOWN:]})

    # --- disks, clocks, processors ------------------------------------------------------------------------------------

    async def power_off(self, node: NodeId) -> NodeStatus:
        """End the node's processes with SIGKILL, and lose what they did not sync.

        The evidence has "bytes_lost" and "names_lost": compared with what they had written.
        """
        status = await self.kill(node)
        lost = await self._faults[node].lose_power()
        return msgspec.structs.replace(status, evidence={**status.evidence, **lost})

    async def spoil(self, node: NodeId, fault: DiskFault | None) -> Mapping[str, Any]:
        """Give the node's disk this fault, or none: a node whose file system failed is killed for its heal."""
        return await self._faults[self._place(node).node].spoil(fault, await self.status(node), self.kill)

    async def skew(self, node: NodeId, fault: ClockFault | None) -> Mapping[str, Any]:
        """Give the node's wall clock this fault, or none: a probe with the node's environment measures it."""
        return await self._faults[self._place(node).node].skew(fault)

    async def throttle(self, node: NodeId, share: float | None) -> Mapping[str, Any]:
        """Give the node this share of one CPU, or all that it wants: what the kernel counted of the limit before."""
        return await self._faults[self._place(node).node].throttle(share)

    # --- links --------------------------------------------------------------------------------------------------------

    async def cut(self, links: frozenset[Link]) -> None:
        """Make exactly these directed links drop everything, and all others pass: on every host in one transaction."""
        self._check(links)
        await self._links.cut(links)

    async def passes(self, links: Sequence[Link]) -> Mapping[Link, bool]:
        """Send a datagram over each link, all at once, and see which arrive."""
        self._check(links)
        return await self._links.passes(links)

    async def dropped(self) -> Mapping[Link, int]:
        """Packets that each cut link swallowed since it was cut, the backend's own probes left out."""
        return await self._links.dropped()

    async def disturb(self, faults: Mapping[Link, LinkFault]) -> None:
        """Give exactly these directed links these faults, and all others none: packets, where they leave their host."""
        self._check(list(faults))
        await self._links.disturb(faults, self._runtime.streams)

    async def disturbed(self) -> Mapping[Link, Mapping[str, int]]:
        """For each link with a fault what it did since it has it: counts of packets (`agent.packets`)."""
        return await self._links.disturbed()

    async def dial(self, node: NodeId) -> socket.socket:
        """A connected, non-blocking TCP socket to the node, straight from this machine.

        Raises:
            DefiniteError: nobody listens there, or the node took no connection within two seconds.
        """
        address = self._place(node).listen
        return await connected(socket.socket(socket.AF_INET, socket.SOCK_STREAM), node, address)

    # --- the end ------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Stop every node (SIGTERM, a second later SIGKILL), fetch logs and data, remove everything from the hosts.

        Closing twice does no harm.

        Raises:
            BackendError: a host could not be cleared; all of them are named, and the others are clear.
        """
        if self._closed:
            return
        self._closed = True
        if self._alive is not None:
            self._alive.cancel()
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

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(ALIVE_EVERY_S)
            # At the same time, so that a host that is gone does not keep the others waiting; whoever asks it for
            # something next is told.
            await asyncio.gather(*(agent.ask("alive") for agent in self._agents.values()), return_exceptions=True)

    # --- many hosts ---------------------------------------------------------------------------------------------------

    async def _off_loop(self, blocking: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, blocking, *arguments)

    async def _on_all(self, work: Callable[[NodeId], Awaitable[T]]) -> Sequence[T]:
        return await together([work(node) for node in self.nodes])

    def _note(self, node: NodeId, line: str) -> None:
        """Keep what concerns one host beside its node's log."""
        with (self._dirs[node] / "ssh.log").open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    # --- checks -------------------------------------------------------------------------------------------------------

    def _place(self, node: NodeId) -> NodePlace:
        if node not in self.places:
            raise UnknownNodeError(f"there is no node {node!r} in this test. Known: {', '.join(self.nodes)}.")
        return self.places[node]

    def _check(self, links: Sequence[Link] | frozenset[Link]) -> None:
        for source, destination in links:
            if self._place(source) is self._place(destination):
                raise UsageError(f"{source} has no link to itself: a link joins two different nodes.")

    async def _ask_about(self, node: NodeId, op: str) -> NodeStatus:
        return _status(await self._agents[self._place(node).node].ask(op, name=node))


def _status(answer: Any) -> NodeStatus:
    return msgspec.convert({name: answer[name] for name in ("state", "life", "evidence")}, NodeStatus)


def _last_lines(text: str, count: int) -> str:
    """The last lines of a log, as one."""
    return " | ".join(line.strip() for line in text.splitlines()[-count:] if line.strip()) or "(nothing)"

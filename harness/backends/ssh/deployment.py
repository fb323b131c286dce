"""A deployment on hosts: one node per host, run by an agent there, links cut by each receiver.

A wrong clock is libfaketime of the host, controlled by a file in the run's directory there. The file is made here and
sent whenever it changes, which takes as long as a message to the agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

from splitbrain.harness.backends.shared import disks, faketime
from splitbrain.harness.backends.shared.channel import Asked
from splitbrain.harness.backends.shared.deployed import AgentNode, Deployed, last_lines, to_status
from splitbrain.harness.backends.shared.faketime import FakeClock, Measured, NodeClock
from splitbrain.harness.backends.shared.nodefaults import NodeFaults
from splitbrain.harness.backends.shared.ownership import this_controller
from splitbrain.harness.backends.ssh import machine
from splitbrain.harness.backends.ssh.connection import Connection, HostError
from splitbrain.harness.backends.ssh.links import HostLinks, together
from splitbrain.harness.backends.ssh.machine import RemoteAgent, agent_command
from splitbrain.harness.contract.deployments import Surroundings
from splitbrain.harness.contract.nodes import Address, ClockOffset, NodeId, NodePlace, NodeStatus
from splitbrain.harness.contract.offsets import EXCHANGES, Exchange, estimate
from splitbrain.harness.contract.realtime import wall_offset_ns
from splitbrain.harness.contract.test import Test
from splitbrain.results.errors import BackendError, FaultNotSupportedError, NodeStartError

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
        last_words = self._test.system.capabilities.last_words

        async def lay_out_node(node: NodeId) -> None:
            agent, place = self._agents[node], self.places[node]
            await lay_out_disk(self._test, agent, place)
            clock = await make_clock(self._test, agent, place, libraries.get(node), self._dirs[node])
            control = AgentNode(node, agent, functools.partial(agent.ask, "log_end"), last_words)
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


# --- disks and clocks -------------------------------------------------------------------------------------------------


async def lay_out_disk(test: Test, agent: RemoteAgent, place: NodePlace) -> None:
    """Make the file system of the node on a host, if the test's nemesis needs that.

    Raises:
        BackendError: it cannot be made there.
    """
    kind = "volume" if disks.needing_volumes(test) else "directory"
    home = Path(place.home_dir)
    disk = disks.request(test, kind, home, "disk", aside=home)
    await agent.ask("lay_out_disks", disks={place.node: disk}, private=kind == "volume")


async def make_clock(
    test: Test, agent: RemoteAgent, place: NodePlace, library: str | None, folder: Path
) -> NodeClock | None:
    """Make a clock for the node on a host, if the test's nemesis needs that.

    Args:
        test: the test.
        agent: on the host.
        place: where the node lives there.
        library: where libfaketime is there.
        folder: of the node, on this machine.

    Raises:
        FaultNotSupportedError: the host has no libfaketime, or it does not reach the system's program.
        BackendError: the program is not there.
    """
    if not faketime.needed(test):
        return None
    if library is None:
        raise FaultNotSupportedError(f"the clock of {place.node} cannot be faked: {faketime.INSTALL} on its host.")
    program = test.system.command(test, place).argv[0]
    return await host_clock(agent, library, place.home_dir, folder / "clock", program)


async def host_clock(agent: RemoteAgent, library: str, home: str, file: Path, program: str) -> NodeClock:
    """The clock of the node on one host.

    Args:
        agent: on the host.
        library: libfaketime there.
        home: the run's directory there.
        file: where the file is made here.
        program: the node's, there.

    Raises:
        FaultNotSupportedError: libfaketime does not reach the program (`faketime.require_reach`).
        BackendError: the program is not there.
    """
    why = await agent.ask("out_of_reach", program=program)
    if why is not None:
        raise faketime.refusal(program, why)
    variables = faketime.environment(library, f"{home}/clock")
    probe = list(faketime.probe_command("python3"))

    async def measured(clock: FakeClock) -> Measured:
        asked_s = time.monotonic()
        seen = await agent.ask("look_at_clock", argv=probe, env=dict(variables))
        # Both clocks of the host as this machine's show the same moments: what is measured is not how the two differ.
        monotonic_ns = time.monotonic_ns() - seen["monotonic_ns"]
        wall_ns = monotonic_ns + wall_offset_ns() - seen["real_ns"]
        try:
            here = [[at + monotonic_ns, shown + wall_ns] for at, shown in json.loads(seen["said"])]
            return clock.measured(json.dumps(here), asked_s)
        except ValueError:
            raise BackendError(f"a clock could not be measured: python3 there said {seen['said'][-300:]!r}.") from None

    async def sent() -> None:
        await agent.ask("write_clock", text=file.read_text())

    return NodeClock(file, variables, measured, sent)


async def estimated(agent: Asked) -> ClockOffset:
    """How far the clocks of an agent's host are ahead of this machine's.

    Raises:
        BackendError: the agent does not answer.
    """
    exchanges: list[Exchange] = []
    for _ in range(EXCHANGES):
        asked_ns = time.monotonic_ns()
        seen = await agent.ask("clocks")
        exchanges.append(Exchange(asked_ns, seen["mono_ns"], seen["wall_ns"], time.monotonic_ns()))
    return estimate(exchanges, wall_offset_ns())

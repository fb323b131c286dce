"""A deployment of OS processes on this machine, under the control of one agent."""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from splitbrain.harness.backends.local import support
from splitbrain.harness.backends.shared import disks, faketime
from splitbrain.harness.backends.shared.channel import Agent, Asked
from splitbrain.harness.backends.shared.deployed import AgentNode, Deployed, log_end, log_text, to_status
from splitbrain.harness.backends.shared.faketime import FakeClock, Measured, NodeClock
from splitbrain.harness.backends.shared.links import AgentLinks
from splitbrain.harness.backends.shared.marks import MarksFiles
from splitbrain.harness.backends.shared.nodefaults import NodeFaults
from splitbrain.harness.backends.shared.ownership import this_controller
from splitbrain.harness.contract.deployments import Surroundings
from splitbrain.harness.contract.faults import LinkFault
from splitbrain.harness.contract.moments import Act, Moment, Passed
from splitbrain.harness.contract.nodes import Address, Link, NodeId, NodePlace, NodeStatus
from splitbrain.harness.contract.test import Test
from splitbrain.results.errors import BackendError, NodeStartError


class LocalDeployment(Deployed[AgentNode]):
    """Nodes as processes, links as a fabric of the agent's. Made by `LocalBackend.deploy`.

    Attributes:
        links: how links are carried: "namespaces" or "proxy".
        surroundings: the same, as `test.json` keeps it.
    """

    def __init__(self, test: Test, run_dir: Path, links: str, agent: Agent) -> None:
        super().__init__(test, AgentLinks(agent))
        self.links = links
        self.surroundings = Surroundings(links=links)
        self._dirs = {node: run_dir.absolute() / "nodes" / node for node in test.nodes}
        self._agent = agent
        marks = test.system.capabilities.marks if "moment" in test.nemesis.faults else None
        self._marks = None if marks is None else MarksFiles(marks.variable, self._dirs)

    async def lay_out(self) -> None:
        """Make directories, networks and addresses, and file systems and clocks where the test's nemesis needs them."""
        for node_dir in self._dirs.values():
            (node_dir / "data").mkdir(parents=True, exist_ok=True)
        answer = await self._agent.ask("lay_out", nodes=list(self.nodes))
        self.places = {
            node: NodePlace(
                node=node,
                data_dir=str(self._dirs[node] / "data"),
                listen=_address(answer["listen"][node]),
                peers={peer: _address(address) for peer, address in answer["peers"][node].items()},
            )
            for node in self.nodes
        }
        await _lay_out_disks(self._test, self._agent, self._dirs, self.links)
        clocks = _make_clocks(self._test, self.places, self._dirs)
        last_words = self._test.system.capabilities.last_words
        for node in self.nodes:
            control = AgentNode(node, self._agent, functools.partial(_logged, self._dirs[node] / "log"), last_words)
            self._controls[node] = control
            self._faults[node] = NodeFaults(
                node, self._agent, control.status, control.kill, self._streams, clocks.get(node)
            )
        self._begins()

    @property
    def agent_pid(self) -> int:
        """The pid of the process whose end is the end of every node."""
        return self._agent.pid

    async def start(self, node: NodeId) -> NodeStatus:
        """Start the node's process; returns when it listens, at the latest after two seconds.

        Raises:
            NodeStartError: it could not be run, or it ended at once.
        """
        command = self._test.system.command(self._test, self._place(node))
        if self._marks is not None:
            command = self._marks.reported(node, command)
        folder, log = self._dirs[node], self._dirs[node] / "log"
        logged = log.stat().st_size if log.exists() else 0
        answer = await self._controls[node].start(command, self._faults[node].prepare, cwd=str(folder), log=str(log))
        if "failed" in answer:
            raise NodeStartError(
                f"{node} ended at once ({answer['failed']}); its log, {log}, ends with: {log_end(log, logged)}"
            )
        return to_status(answer)

    async def disturb(self, faults: Mapping[Link, LinkFault]) -> None:
        """Give exactly these directed links these faults, and all others none.

        Raises:
            FaultNotSupportedError: a fault is not supported here.
        """
        support.refuse_faults(self.links, faults)
        await super().disturb(faults)

    async def at_moment(self, moments: Sequence[Moment], act: Act, within_ns: int) -> Passed | None:
        """Wait for the first of some moments, and act on its node as soon as its mark was read.

        Raises:
            BackendError: the test has no faults at moments.
        """
        if self._marks is None:
            raise BackendError("nodes report no marks in this test: its nemesis package does not list 'moment'.")
        return await self._marks.at_moment(moments, act, within_ns)

    async def _open_socket(self) -> socket.socket:
        """A socket of the agent's, whose network has all nodes."""
        return await self._agent.ask_for_socket()

    async def close(self) -> None:
        """Stop every node (SIGTERM, a second later SIGKILL) and remove everything except logs and data.

        Closing twice does no harm.

        Raises:
            BackendError: a node's data are still in an image beside its data directory.
        """
        if not self._ends():
            return
        try:
            await self._agent.ask("stop")
        except BackendError:
            if not self._agent.gone:  # one that is gone has taken everything with it
                raise
        finally:
            for faults in self._faults.values():
                await faults.close()
            await self._agent.close()


async def _lay_out_disks(test: Test, agent: Asked, folders: Mapping[NodeId, Path], links: str) -> None:
    """Make the file systems that the test's nemesis needs, below each node's folder.

    Raises:
        BackendError: they cannot be made here.
    """
    kind = support.kind_of_disks(test, links)
    image = f"{this_controller().marker}.disk"
    requests = {node: disks.request(test, kind, folder, image, aside=folder) for node, folder in folders.items()}
    await agent.ask("lay_out_disks", disks=requests, private=kind == "volume" and links != "namespaces")


def _make_clocks(
    test: Test, places: Mapping[NodeId, NodePlace], folders: Mapping[NodeId, Path]
) -> dict[NodeId, NodeClock]:
    """Make a clock for each node, if the test's nemesis needs them.

    Raises:
        FaultNotSupportedError: libfaketime does not reach the system's program.
        BackendError: libfaketime is not installed.
    """
    if not faketime.needed(test):
        return {}
    library = support.require_faketime()
    for place in places.values():
        faketime.require_reach(test.system.command(test, place).argv[0])
    return {node: _clock(folder / "clock", library) for node, folder in folders.items()}


def _clock(file: Path, library: str) -> NodeClock:
    async def measured(clock: FakeClock) -> Measured:
        return await asyncio.to_thread(faketime.measure, clock, library, str(file))

    return NodeClock(file, faketime.environment(library, str(file)), measured)


def _address(pair: Sequence[Any]) -> Address:
    host, port = pair
    return str(host), int(port)


async def _logged(log: Path) -> str:
    return log_text(log)

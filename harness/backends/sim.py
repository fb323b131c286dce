"""The simulated backend: nodes are objects of this process, under virtual time. It needs no system package and no root.

A deployment lives inside a running `splitbrain.harness.simulation.loop.SimLoop`;
`splitbrain.harness.running.simulate.simulate` makes both.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.deployments import MessageConnection, Surroundings
from splitbrain.harness.contract.faultkinds import INJECTED_KINDS
from splitbrain.harness.contract.faults import ClientFault, ClockFault, DiskFault, FaultKind, LinkFault, Support
from splitbrain.harness.contract.moments import Act, Moment, Passed
from splitbrain.harness.contract.nodes import Address, ClockOffset, Link, NodeId, NodePlace, NodeStatus
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.harness.contract.test import Test
from splitbrain.harness.simulation.host import DATA_DIR, Outputs, SimHost
from splitbrain.harness.simulation.loop import SimLoop
from splitbrain.harness.simulation.marks import Listener, MarkedProcess
from splitbrain.harness.simulation.network import SimNetwork
from splitbrain.harness.simulation.places import raised_at
from splitbrain.harness.simulation.process import SimProcess
from splitbrain.harness.simulation.trace import Trace
from splitbrain.harness.simulation.worlds import World, world
from splitbrain.results.errors import HarnessError, NodeStartError, UnknownNodeError, UsageError

STOP_GRACE_S = 10.0
"""How long a node may take to stop in good order, in true time."""

PORT = 7000
"""The port of every node, on a host of the node's own name."""

# --- what it can do ---------------------------------------------------------------------------------------------------

_HOW: Mapping[FaultKind, str] = {
    "cut": "the simulated network, per directed link",
    "delay": "messages take longer, in order",
    "loss": "messages vanish",
    "duplicate": "messages arrive twice",
    "reorder": "later messages overtake",
    "corrupt": "messages fail their checksum and are gone",
    "rate": "messages wait for a link with a limited bit rate",
    "mtu": "messages that are too large never arrive, and block those behind them",
    "reset": "connections over a link break",
    "hold": "messages wait until the link is let go",
    "client-links": "the simulated network between clients and nodes: messages are swallowed, late, lost or repeated",
    "kill": "the node's tasks end, its disk's cache stays",
    "stop": "the node does what it does at a stop in good order, then its tasks end; its disk's cache stays",
    "pause": "timers and messages wait until the node is resumed",
    "cpu": "in each tenth of a second a limited number of timers and messages is handled, the others wait",
    "disk-full": "writes that need space fail (ENOSPC)",
    "disk-read-only": "changes fail (EROFS)",
    "disk-fails": "reads, writes and syncs fail (EIO)",
    "disk-sync": "a sync fails (EIO) and drops what it should have made durable",
    "disk-slow": "syncs take longer",
    "disk-rot": "bits flip in durable sectors",
    "disk-truncate": "the ends of files are gone",
    "power": "what was not synced is lost, or torn at sector boundaries",
    "clock-jump": "the wall clock is set",
    "clock-drift": "wall clock and timers run at another rate",
    "clock-strobe": "the wall clock jumps back and forth",
    "membership": "the system takes the member off its list, its node is killed and its disk emptied",
    "moment": "marks of the system are heard as nodes pass them, before they do anything else",
}


def _support(kind: FaultKind) -> Support:
    if kind in _HOW:
        return Support(True, _HOW[kind])
    return Support(False, "the simulation has no such fault.")


def check_embeddable(test: Test) -> None:
    """Refuse a system whose nodes cannot run inside this process.

    Raises:
        UsageError: they cannot.
    """
    if test.system.capabilities.simulation is None:
        raise UsageError(
            f"system {test.system.name!r} cannot be simulated: its nodes run as processes only. Use another --backend, "
            f"or give the system Capabilities(simulation=...) (see splitbrain.harness.contract.embedding.Embeddable)."
        )


# --- the backend ------------------------------------------------------------------------------------------------------


class SimBackend:
    """Nodes in this process, under virtual time.

    Args:
        world: what links, disks and clocks are like (`splitbrain.harness.simulation.worlds.WORLDS`).
        outputs: where what nodes say goes; without it nothing can be deployed, only looked at.
        trace: takes every event, to find where two runs part.
    """

    name = "sim"

    def __init__(self, world: str = "lan", outputs: Outputs | None = None, trace: Trace | None = None) -> None:
        self.world = world
        self._outputs = outputs
        self._trace = trace

    def support(self) -> Mapping[str, Support]:
        """What is simulated works everywhere."""
        return {kind: _support(kind) for kind in INJECTED_KINDS}

    def check(self, test: Test) -> None:
        """Refuse a test whose nodes cannot run inside this process.

        Raises:
            UsageError: they cannot.
        """
        check_embeddable(test)

    def sweep(self) -> list[str]:
        """Nothing is ever left behind."""
        return []

    async def deploy(self, test: Test, run_dir: Path, runtime: Runtime) -> SimDeployment:
        """Lay out the test's nodes, not yet started. No file is touched.

        Raises:
            UsageError: the system's nodes cannot run inside this process.
            HarnessError: no simulation is running.
        """
        check_embeddable(test)
        loop = asyncio.get_running_loop()
        if not isinstance(loop, SimLoop) or self._outputs is None:
            raise HarnessError(
                "the sim backend works inside a simulation only: use splitbrain.harness.running.simulate.simulate."
            )
        nature = world(self.world, runtime.streams["world"])
        return SimDeployment(test, loop, runtime, nature, self._outputs, self._trace)


AT_ONCE: Final = 0.5
"""The share of losses of power that wait for nothing."""

SYNC_LOOK_NS: Final = 250_000
SYNC_LOOKS: Final = 1_000
"""The others look so often, at this distance, whether a sync is under way: for a quarter of a second."""


@dataclass(slots=True)
class PowerCut:
    """Nodes that lose their power together.

    Attributes:
        hosts: their machines.
        looked_ns: when it was last looked whether one of them syncs: once for all of them.
        is_due: whether one did.
    """

    hosts: list[SimHost] = field(default_factory=list["SimHost"])
    looked_ns: int = -1
    is_due: bool = False


# --- deployments ------------------------------------------------------------------------------------------------------


class SimDeployment:
    """Simulated nodes, and the links between them. Made by `SimBackend.deploy`.

    Attributes:
        nodes: names of the nodes, in the test's order.
    """

    surroundings = Surroundings()

    def __init__(
        self, test: Test, loop: SimLoop, runtime: Runtime, nature: World, outputs: Outputs, trace: Trace | None
    ) -> None:
        self.nodes: Sequence[NodeId] = test.nodes
        simulation = test.system.capabilities.simulation
        assert simulation is not None, "the backend has checked it"
        self._test = test
        self._runtime = runtime
        self._cuts: dict[int, PowerCut] = {}
        self._simulation = simulation
        self._network = SimNetwork(loop, runtime.streams, test.nodes, nature, trace)
        # Only a test that waits for marks pays for knowing which node passes them.
        marks = test.system.capabilities.marks if "moment" in test.nemesis.faults else None
        process = SimProcess if marks is None else MarkedProcess
        self._hosts = {
            node: SimHost(loop, node, self._network, runtime.streams, nature, outputs, trace, process)
            for node in test.nodes
        }
        self._recovery = test.system.capabilities.recovery
        if self._recovery is not None:
            for host in self._hosts.values():
                host.watch_disk()
        self._listener = None if marks is None else Listener(loop, self._hosts, marks)

    # --- nodes --------------------------------------------------------------------------------------------------------

    async def start(self, node: NodeId) -> NodeStatus:
        """Start the node's process; one that is there, running or paused, is left alone.

        Raises:
            NodeStartError: it ended at once.
        """
        host = self._host(node)
        if host.process is not None and host.process.alive():
            return host.status()
        process, world = host.boot()
        command = self._test.system.command(self._test, self._place(node))
        if host.images is not None and self._recovery is not None:
            host.images.begins(functools.partial(self._recovery.recover, command))
        await process.run(self._simulation.embed(command, world), "start")
        if not process.alive():
            reason = host.status().evidence.get("exit", "it was killed")
            raise NodeStartError(f"{node} does not start: {reason}{_raised(process.failure)}")
        return host.status()

    async def kill(self, node: NodeId) -> NodeStatus:
        """End the node's process; a stopped one is left alone."""
        self._host(node).kill()
        return self._host(node).status()

    async def stop(self, node: NodeId, grace_s: float = STOP_GRACE_S) -> NodeStatus:
        """Let the node's process do what it does at a stop, and end it; a paused one is resumed before.

        The evidence says "killed" if it was not done within the grace, "failed" if it ended by an exception.
        """
        host = self._host(node)
        ran = host.status().state != "stopped"
        killed = await host.stop(round(grace_s * 1e9))
        status = host.status()
        how = {"killed": killed, "failed": ran and "exit" in status.evidence}
        return NodeStatus(status.state, status.life, {**status.evidence, **{name: True for name in how if how[name]}})

    async def power_off(self, node: NodeId) -> NodeStatus:
        """End the node's process like a loss of power; the evidence has what was lost."""
        host = self._host(node)
        await self._amid_a_sync(host)
        lost = host.power_off()
        return NodeStatus("stopped", host.status().life, {**host.status().evidence, **lost})

    async def _amid_a_sync(self, host: SimHost) -> None:
        """Half of the times, wait for a short while until a program is blocked by a sync.

        One that syncs at once what it writes has nothing to lose at most other moments. Nodes whose power is to be cut
        at the same moment wait for a sync of one of them, and lose it at the same moment.
        """
        if not host.syncs_by_blocking or self._listener is not None:  # at a mark nothing may wait
            return
        clock = self._runtime.clock
        cut = self._cuts.get(clock.now_ns())
        if cut is None:
            waits = self._runtime.streams["power cuts"].random() >= AT_ONCE
            cut = self._cuts[clock.now_ns()] = PowerCut(is_due=not waits)
        cut.hosts.append(host)
        if cut.is_due:
            return
        for _ in range(SYNC_LOOKS):
            await clock.sleep_ns(SYNC_LOOK_NS)
            if cut.looked_ns != clock.now_ns():
                cut.looked_ns = clock.now_ns()
                cut.is_due = any(each.disk.sync_under_way for each in cut.hosts)
            if cut.is_due:
                return

    async def pause(self, node: NodeId) -> NodeStatus:
        """Let the node's process do nothing until it is resumed."""
        host = self._host(node)
        if host.process is not None:
            host.process.pause()
        return host.status()

    async def resume(self, node: NodeId) -> NodeStatus:
        """Resume a paused process."""
        host = self._host(node)
        if host.process is not None:
            host.process.resume()
        return host.status()

    async def status(self, node: NodeId) -> NodeStatus:
        """The state of the node's process."""
        return self._host(node).status()

    # --- links --------------------------------------------------------------------------------------------------------

    async def cut(self, links: frozenset[Link]) -> None:
        """Make exactly these directed links swallow everything."""
        self._network.cut(links)

    async def passes(self, links: Sequence[Link]) -> Mapping[Link, bool]:
        """Send a probe over each link."""
        return await self._network.probe(links)

    async def dropped(self) -> Mapping[Link, int]:
        """Messages that each cut link swallowed."""
        return self._network.swallowed()

    async def disturb(self, faults: Mapping[Link, LinkFault]) -> None:
        """Give exactly these links these faults."""
        self._network.disturb(faults)

    async def disturbed(self) -> Mapping[Link, Mapping[str, int]]:
        """What the faults of links did."""
        return self._network.disturbed()

    async def disturb_clients(self, faults: Mapping[NodeId, ClientFault]) -> Mapping[NodeId, Mapping[str, int]]:
        """Give the links between clients and exactly these nodes these faults; what the former ones did."""
        return self._network.disturb_clients(faults)

    # --- disks and clocks ---------------------------------------------------------------------------------------------

    async def spoil(self, node: NodeId, fault: DiskFault | None) -> Mapping[str, Any]:
        """Give the node's disk this fault, or none."""
        return self._host(node).spoil(fault)

    async def skew(self, node: NodeId, fault: ClockFault | None) -> Mapping[str, Any]:
        """Give the node's clock this fault, or none."""
        return self._host(node).skew(fault)

    async def throttle(self, node: NodeId, share: float | None) -> Mapping[str, Any]:
        """Give the node's process this share of a CPU, or all of one."""
        return self._host(node).throttle(share)

    async def offsets(self) -> Mapping[NodeId, ClockOffset]:
        """Telemetry has true times: no offset, no error."""
        return {node: ClockOffset() for node in self.nodes}

    # --- moments ------------------------------------------------------------------------------------------------------

    async def at_moment(self, moments: Sequence[Moment], act: Act, within_ns: int) -> Passed | None:
        """Wait for the first of some moments, and act on its node before that does anything else.

        Raises:
            HarnessError: the test has no faults at moments.
        """
        if self._listener is None:
            raise HarnessError(
                "marks are not heard in this test: its nemesis package does not list the fault 'moment', or its "
                "system reports none."
            )
        return await self._listener.at_moment(moments, act, within_ns)

    # --- clients, and the end -----------------------------------------------------------------------------------------

    async def dial(self, node: NodeId, behind: int = 0) -> MessageConnection:
        """A connection to the node, across no link.

        Raises:
            DefiniteError: the connection was refused, or another port than the clients' was wanted.
        """
        if behind:
            raise DefiniteError(f"{node} is simulated: it listens on its clients' port only.")
        return await self._network.dial(_address(self._host(node).node))

    async def close(self) -> None:
        """End every process."""
        if self._listener is not None:
            self._listener.close()
        for host in self._hosts.values():
            host.kill()

    def _host(self, node: NodeId) -> SimHost:
        if node not in self._hosts:
            raise UnknownNodeError(f"there is no node {node!r} in this test. Known: {', '.join(self.nodes)}.")
        return self._hosts[node]

    def _place(self, node: NodeId) -> NodePlace:
        peers = {peer: _address(peer) for peer in self.nodes if peer != node}
        return NodePlace(node, DATA_DIR, _address(node), peers)


def _address(node: NodeId) -> Address:
    return (node, PORT)


def _raised(failure: BaseException | None) -> str:
    """Where the program failed, for a reader who has no traceback."""
    where = "" if failure is None else raised_at(failure)
    return f" (raised at {where})" if where else ""  # it is in histories: the same wherever splitbrain is installed

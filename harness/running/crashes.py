"""Nodes that stop by themselves: detected, recorded in the history, and restarted when the run is healed.

A node that died by itself is a finding about the system under test, and a run that continues without it tests less than
it reports. Code that stops nodes on purpose uses `Watched`, so that this is not taken for a crash. A node whose disk is
at fault may well stop by itself: that is what it should do when it can no longer keep its promises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from splitbrain.harness.contract.clock import Clock
from splitbrain.harness.contract.deployments import Deployment, MessageConnection, StopsInGoodOrder
from splitbrain.harness.contract.faults import ClientFault, ClockFault, DiskFault, LinkFault
from splitbrain.harness.contract.marks import reached
from splitbrain.harness.contract.moments import Act, HearsMarks, Moment, Passed
from splitbrain.harness.contract.nodes import ClockOffset, Link, NodeId, NodeStatus
from splitbrain.harness.running.journal import Journal
from splitbrain.results.errors import BackendError, NodeStartError

if TYPE_CHECKING:
    import socket  # noqa: TID251 - for the type of a dialled connection; nothing here opens one

LOOK_NS = 500_000_000
"""Pause between two looks at all nodes."""

AFTERMATH_NS = 1_000_000_000
"""For so long after a disk is well again a node may stop over what it met before."""


def must_not_end(_: NodeId) -> bool:
    """For `Watched`: no node may end by itself."""
    return False


class Watched:
    """A deployment that knows which nodes should run: `Deployment`, and a witness of crashes.

    A crash is noted once for each life of a node, as an op of the harness: `f` "crash", with the node, how its process
    ended, and the line of its log that says why if the backend reports them. It is `f` "halt" if the node's disk had a
    fault; "damaged" means that the disk lost data for good, so that the node may never run again.

    Args:
        deployment: the nodes.
        journal: takes the crash ops.
        may_end: whether a node may end by itself now, such as a removed member.
        gives_up: the name of the error with which a node ends that gives up (`Capabilities.gives_up`): a "halt" too.
    """

    def __init__(
        self,
        deployment: Deployment,
        journal: Journal,
        may_end: Callable[[NodeId], bool] = must_not_end,
        gives_up: str = "",
    ) -> None:
        self.nodes: Sequence[NodeId] = deployment.nodes
        self.surroundings = deployment.surroundings
        self._deployment = deployment
        self._journal = journal
        self._may_end = may_end
        self._gives_up = gives_up
        self._stopped: dict[NodeId, bool] = {}
        self._orders: dict[NodeId, int] = dict.fromkeys(deployment.nodes, 0)
        self._noted: dict[NodeId, int] = {}
        self._spoiled_until_ns: dict[NodeId, int | None] = {}
        self._at_disk: dict[NodeId, None] = {}
        self._damaged: dict[NodeId, None] = {}

    async def look(self) -> None:
        """Note every node that should run and does not."""
        for node in self.nodes:
            await self._look_at(node)

    async def restart(self) -> None:
        """Start every stopped node; one that does not start is reported later.

        One that left the cluster and did not join again stays out: started now, it would take itself for the member
        that it was, without the data of that one.
        """
        for node in self.nodes:
            if (await self.status(node)).state == "stopped" and not self._may_end(node):
                try:
                    await self.start(node)
                except NodeStartError:
                    continue

    async def _look_at(self, node: NodeId) -> None:
        if self._stopped.get(node) or node in self._at_disk or self._may_end(node):
            return
        orders = self._orders[node]
        status = await self._deployment.status(node)
        # It may have been stopped, and even restarted, while the status was requested.
        overtaken = self._orders[node] != orders or node in self._at_disk
        if status.state != "stopped" or overtaken or self._noted.get(node) == status.life:
            return
        self._note_end(node, status)

    def _note_end(self, node: NodeId, status: NodeStatus) -> None:
        self._noted[node] = status.life
        evidence = {name: status.evidence[name] for name in ("exit", "log") if name in status.evidence}
        if node in self._damaged:
            evidence["damaged"] = True
        gave_up = bool(self._gives_up) and self._gives_up in str(evidence.get("exit", ""))
        if gave_up:
            self._journal.note("halt", {"node": node, **evidence})
            return
        halted = self._may_halt(node)
        reached("node stopped by its disk" if halted else "node stopped by itself")
        self._journal.note("halt" if halted else "crash", {"node": node, **evidence})

    def _order(self, node: NodeId) -> int:
        self._orders[node] += 1
        return self._orders[node]

    def _started(self, node: NodeId, order: int) -> None:
        """A start is done: until then the backend shows the life before. Who killed it meanwhile has the say."""
        if self._orders[node] == order:
            self._stopped[node] = False

    def _may_halt(self, node: NodeId) -> bool:
        if node in self._damaged:
            return True
        until_ns = self._spoiled_until_ns.get(node, 0)
        return until_ns is None or self._journal.time_ns() < until_ns

    async def start(self, node: NodeId) -> NodeStatus:
        """Start a node, which should run once that is done; one that ends at once has crashed."""
        # A crash before this start is noted now: afterwards the backend shows the new life.
        await self._look_at(node)
        order = self._order(node)
        try:
            status = await self._deployment.start(node)
        except NodeStartError:
            self._started(node, order)
            await self._look_at(node)
            raise
        self._started(node, order)
        return status

    async def kill(self, node: NodeId) -> NodeStatus:
        """Kill a node, which should not run from now on."""
        await self._look_at(node)
        self._order(node)
        # Before the kill is awaited: the node may be looked at meanwhile, and must not pass for crashed.
        self._stopped[node] = True
        return await self._deployment.kill(node)

    async def stop(self, node: NodeId) -> NodeStatus:
        """Stop a node in good order, which should not run from now on; one that fails on the way has crashed.

        Raises:
            BackendError: the deployment can only kill nodes.
        """
        if not isinstance(self._deployment, StopsInGoodOrder):
            raise BackendError("this backend cannot stop nodes in good order: leave such restarts out of --nemesis.")
        await self._look_at(node)
        self._order(node)
        self._stopped[node] = True
        status = await self._deployment.stop(node)
        if status.evidence.get("failed") and self._noted.get(node) != status.life and not self._may_end(node):
            self._note_end(node, status)
        return status

    async def pause(self, node: NodeId) -> NodeStatus:
        """As the deployment does it."""
        return await self._deployment.pause(node)

    async def resume(self, node: NodeId) -> NodeStatus:
        """As the deployment does it."""
        return await self._deployment.resume(node)

    async def status(self, node: NodeId) -> NodeStatus:
        """As the deployment."""
        return await self._deployment.status(node)

    async def cut(self, links: frozenset[Link]) -> None:
        """As the deployment does it."""
        await self._deployment.cut(links)

    async def passes(self, links: Sequence[Link]) -> Mapping[Link, bool]:
        """As the deployment measures it."""
        return await self._deployment.passes(links)

    async def dropped(self) -> Mapping[Link, int]:
        """As the deployment counts it."""
        return await self._deployment.dropped()

    async def power_off(self, node: NodeId) -> NodeStatus:
        """Cut a node's power; it should not run from now on."""
        await self._look_at(node)
        self._order(node)
        self._stopped[node] = True
        return await self._deployment.power_off(node)

    async def disturb(self, faults: Mapping[Link, LinkFault]) -> None:
        """As the deployment does it."""
        await self._deployment.disturb(faults)

    async def disturbed(self) -> Mapping[Link, Mapping[str, int]]:
        """As the deployment counts it."""
        return await self._deployment.disturbed()

    async def spoil(self, node: NodeId, fault: DiskFault | None) -> Mapping[str, Any]:
        """As the deployment does it; while the disk has a fault, and shortly after, the node may stop by itself.

        Whether it did, or was killed for the sake of its disk, is known only once that is done.
        """
        await self._look_at(node)
        if fault is not None and not fault.wipe:
            # Before the fault is there: the node may stop the moment it is.
            self._spoiled_until_ns[node] = None
        self._at_disk[node] = None
        try:
            done = await self._deployment.spoil(node, fault)
        finally:
            self._at_disk.pop(node, None)
        if done.get("truncated"):
            self._damaged[node] = None
        elif fault is not None and fault.wipe:
            self._damaged.pop(node, None)
        if done.get("killed"):
            self._order(node)
            self._stopped[node] = True
        if fault is None and node in self._spoiled_until_ns:
            self._spoiled_until_ns[node] = self._journal.time_ns() + AFTERMATH_NS
        return done

    async def skew(self, node: NodeId, fault: ClockFault | None) -> Mapping[str, Any]:
        """As the deployment does it."""
        return await self._deployment.skew(node, fault)

    async def disturb_clients(self, faults: Mapping[NodeId, ClientFault]) -> Mapping[NodeId, Mapping[str, int]]:
        """As the deployment does it."""
        return await self._deployment.disturb_clients(faults)

    async def throttle(self, node: NodeId, share: float | None) -> Mapping[str, Any]:
        """As the deployment does it."""
        return await self._deployment.throttle(node, share)

    async def at_moment(self, moments: Sequence[Moment], act: Act, within_ns: int) -> Passed | None:
        """As the deployment does it.

        Raises:
            BackendError: it does not know which marks its nodes pass.
        """
        if not isinstance(self._deployment, HearsMarks):
            raise BackendError("this backend does not hear which marks nodes pass: leave moments out of --nemesis.")
        return await self._deployment.at_moment(moments, act, within_ns)

    async def offsets(self) -> Mapping[NodeId, ClockOffset]:
        """As the deployment."""
        return await self._deployment.offsets()

    async def dial(self, node: NodeId, behind: int = 0) -> socket.socket | MessageConnection:
        """As the deployment does it."""
        return await self._deployment.dial(node, behind)

    async def close(self) -> None:
        """As the deployment does it."""
        await self._deployment.close()


async def watch_nodes(clock: Clock, deployment: Watched, broken: Callable[[Exception], None]) -> None:
    """Until cancelled: look for crashed nodes. `broken` is called when the backend can no longer report their
    status.
    """
    try:
        while True:
            await clock.sleep_ns(LOOK_NS)
            await deployment.look()
    except Exception as error:
        broken(error)

"""The nodes of one test, under control."""

from __future__ import annotations

import socket  # noqa: TID251 - for the type of a dialled connection; nothing here opens one
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import msgspec

from splitbrain.harness.contract.faults import ClientFault, ClockFault, DiskFault, LinkFault
from splitbrain.harness.contract.nodes import ClockOffset, Link, NodeId, NodeStatus


class ImageUsed(NamedTuple):
    """What the nodes' containers are made from: a tag, which may mean another image tomorrow, and the image's id."""

    tag: str
    id: str


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What the nodes of a deployment run in; `test.json` keeps it.

    Attributes:
        image: the image of their containers; None if they are no containers.
        links: how links are cut: "namespaces" or "proxy" on this machine, "receivers" between containers and between
            hosts; None in simulation.
    """

    image: ImageUsed | None = None
    links: str | None = None


class Deployment(Protocol):
    """The nodes of one test and the links between them, under control. Everything that it starts dies with it."""

    @property
    def nodes(self) -> Sequence[NodeId]:
        """Names of the nodes, in the test's order."""
        ...

    @property
    def surroundings(self) -> Surroundings:
        """What the nodes run in."""
        ...

    async def start(self, node: NodeId) -> NodeStatus:
        """Start the node's process; one that is there, running or paused, is left alone, and so is its state.

        Links that are cut stay cut for the new process.

        Raises:
            NodeStartError: it ended at once.
        """
        ...

    async def kill(self, node: NodeId) -> NodeStatus:
        """End the node's process with SIGKILL and wait until it is gone; a stopped one is left alone."""
        ...

    async def pause(self, node: NodeId) -> NodeStatus:
        """Stop the node's process from running (SIGSTOP) and wait until the kernel says so; one that ended stays so."""
        ...

    async def resume(self, node: NodeId) -> NodeStatus:
        """Let a paused process run again; one that ended stays so."""
        ...

    async def status(self, node: NodeId) -> NodeStatus:
        """What the operating system says of the node's process now."""
        ...

    async def cut(self, links: frozenset[Link]) -> None:
        """Make exactly these directed links drop everything, and all others pass: the whole topology at once."""
        ...

    async def passes(self, links: Sequence[Link]) -> Mapping[Link, bool]:
        """Measure, for each link, whether a packet sent by its source reaches its destination now.

        Both ends need not run: the measurement is the backend's own, over the same path as the nodes' traffic.
        """
        ...

    async def dropped(self) -> Mapping[Link, int]:
        """Packets (or bytes, where the backend counts those) that each cut link swallowed since it was cut."""
        ...

    async def power_off(self, node: NodeId) -> NodeStatus:
        """End the node's process like a loss of power: writes that were not synced may be lost or torn.

        The status's evidence has the number of lost bytes and of torn sectors.
        """
        ...

    async def disturb(self, faults: Mapping[Link, LinkFault]) -> None:
        """Give exactly these directed links these faults, and all others none: the whole set at once."""
        ...

    async def disturbed(self) -> Mapping[Link, Mapping[str, int]]:
        """For each link with a fault what it did since it has it: counts of "lost", "duplicated", "reordered", ..."""
        ...

    async def disturb_clients(self, faults: Mapping[NodeId, ClientFault]) -> Mapping[NodeId, Mapping[str, int]]:
        """Give the links between clients and exactly these nodes these faults, and all others none.

        Returns:
            For each node whose links had a fault until now, what that did: counts of "swallowed", "lost", ...
        """
        ...

    async def spoil(self, node: NodeId, fault: DiskFault | None) -> Mapping[str, Any]:
        """Give the node's disk this fault, or none; evidence: what the fault before it did, what this one found."""
        ...

    async def skew(self, node: NodeId, fault: ClockFault | None) -> Mapping[str, Any]:
        """Give the node's clock this fault, or none; evidence: offset and rate as measured, before and after."""
        ...

    async def throttle(self, node: NodeId, share: float | None) -> Mapping[str, Any]:
        """Give the node this share of one CPU, above 0; None lifts the limit. A limit outlives the node's process.

        Evidence: how often ("throttled") the limit that was in force so far made the node wait since it was set.
        """
        ...

    async def offsets(self) -> Mapping[NodeId, ClockOffset]:
        """The current offsets of the clocks of the nodes' hosts from the controller's clock.

        The offset of a node that is left out is unknown; its telemetry is placed in time by its wall clock, as if that
        were the controller's.
        """
        ...

    async def dial(self, node: NodeId, behind: int = 0) -> socket.socket | MessageConnection:
        """Connect to the node's client address: a connected non-blocking TCP socket; in a simulation, a connection.

        Clients are outside the nodes' network: of all faults only those of `disturb_clients` affect them.

        Args:
            node: which node.
            behind: how far behind the clients' port the node listens, where it serves something else there as well,
                such as its status. Simulated nodes have one port.

        Raises:
            DefiniteError: the connection was refused.
        """
        ...

    async def close(self) -> None:
        """Stop every node, heal every link, remove everything that `deploy` laid out except logs and data."""
        ...


@runtime_checkable
class StopsInGoodOrder(Protocol):
    """A deployment that can ask a node to end, and wait for that; the fault kind "stop" needs it."""

    async def stop(self, node: NodeId) -> NodeStatus:
        """End the node's process in good order (SIGTERM; a paused one is let run first), and wait until it is gone.

        What is still there after a grace ends by SIGKILL, as does what the first process leaves by ending; the status's
        evidence then says `killed: True`. It says `failed: True` if the process certainly ended by an error of its own.
        A stopped one is left alone.
        """
        ...


class MessageConnection(Protocol):
    """An ordered connection that carries whole messages."""

    def send(self, message: bytes) -> None:
        """Queue a message. Sending on a closed connection is silently lost, as on a network."""
        ...

    async def receive(self) -> bytes:
        """The next message.

        Raises:
            ConnectionError: the peer closed the connection.
        """
        ...

    def close(self) -> None:
        """Close both directions."""
        ...

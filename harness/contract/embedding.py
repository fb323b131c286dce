"""Systems whose nodes can run inside this process, each with a given world: what a simulation needs from them.

`splitbrain.cluster.runtime` defines what the parts of a world must do. A node that uses anything else, such as a clock
or a socket of the operating system, cannot be simulated.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from splitbrain.cluster.embedded import Clock, Disk, Network, Rng
from splitbrain.harness.contract.nodes import NodeCommand


class NodeWorld(Protocol):
    """Everything that one process of one node may touch. Each start of a node gets a new one; only the disk is kept."""

    @property
    def clock(self) -> Clock:
        """Time as the node sees it."""
        ...

    @property
    def rng(self) -> Rng:
        """The node's own stream of randomness."""
        ...

    @property
    def network(self) -> Network:
        """Connections, under the addresses that its command names."""
        ...

    @property
    def disk(self) -> Disk:
        """The node's directory."""
        ...

    @property
    def spawn(self) -> Callable[[Awaitable[None], str], None]:
        """Run something as a background task of that name; an exception that it raises stops the node."""
        ...

    @property
    def telemetry(self) -> Callable[[bytes], None]:
        """Append one line (JSON, without the newline) to the node's telemetry."""
        ...

    @property
    def log(self) -> Callable[[str], None]:
        """Append one line to the node's log."""
        ...

    @property
    def last_words(self) -> Callable[[Callable[[], bytes]], None]:
        """Take what gives the last line of the node's telemetry: it is called when the process ends, also if it is
        killed. What a node last promised to others can be said exactly there, at no cost while it runs.
        """
        ...

    @property
    def stops(self) -> Callable[[Callable[[], Awaitable[None]]], None]:
        """Take what the node does when it is asked to stop in good order (SIGTERM); of several the last one counts.

        It runs as a task of the process, which ends with it, or after a grace. A node that says nothing ends at once,
        as a process without a handler of the signal does.
        """
        ...

    @property
    def applied(self) -> Callable[[int], None]:
        """Say that the node applied so many entries of a log: it is busy for as long as that takes in the world."""
        ...

    @property
    def waker(self) -> Callable[[Callable[[], None]], Callable[[], None]]:
        """Give what has a callback called as a step of its own, after the present one: for less than a task costs."""
        ...

    @property
    def resume(self) -> Callable[[Future[Any], Any], None]:
        """Give a future its result; the task that waits for it goes on before anything else happens."""
        ...


class Embeddable(Protocol):
    """Starts nodes of a system inside this process (`Capabilities.simulation`); usually the system itself."""

    async def embed(self, command: NodeCommand, world: NodeWorld) -> None:
        """Start the node that `command` (the system's own, see `System.command`) would start, on `world`.

        Returns when the node serves; the node then lives in the tasks that it spawned, and ends with them.

        Raises:
            Exception: the node cannot start; the message is for the person who runs the test.
        """
        ...


class Recoverable(Protocol):
    """Says what a node of a system would recover from a disk (`Capabilities.recovery`); usually the system itself.

    A simulation asks now and then, while the node runs, with a copy of its disk as a loss of power would leave it.
    """

    def recover(self, command: NodeCommand, disk: Disk, rng: Rng) -> Sequence[Mapping[str, Any]]:
        """What the node that `command` starts would find there, as lines of telemetry without their clocks.

        The disk is a copy: it may be changed, and nothing of it waits. A node that would refuse to start says so in a
        line of event "unrecoverable", whose `problem` goes into its log.

        Args:
            command: the system's own, with which the node runs.
            disk: what would be left.
            rng: for what a start leaves to chance.
        """
        ...

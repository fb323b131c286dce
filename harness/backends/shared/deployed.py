"""The common part of deployments of real nodes: each request goes to the controller of the node, or to the carrier of
the links.

`AgentNode` is the controller of a node that an agent runs as a process. Errors and evidence quote the ends of logs.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from splitbrain.harness.backends.shared.channel import Asked
from splitbrain.harness.backends.shared.links import Links, connected
from splitbrain.harness.backends.shared.nodefaults import ClientLinksStayWhole, NodeFaults
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.faults import ClockFault, DiskFault, LinkFault
from splitbrain.harness.contract.nodes import ClockOffset, Link, NodeCommand, NodeId, NodePlace, NodeStatus
from splitbrain.harness.contract.rng import Streams
from splitbrain.harness.contract.test import Test
from splitbrain.results.errors import BackendError, NodeStartError, UnknownNodeError, UsageError

STOP_GRACE_S: Final = 8.0
"""How long a node may take to stop in good order. An agent then waits for its end by SIGKILL, and must have answered
before its controller gives it up (`channel.ANSWERS_WITHIN_S`).
"""


_OF_ITS_OWN: Final = frozenset(
    text
    for name in ("ABRT", "BUS", "FPE", "ILL", "SEGV", "SYS", "TRAP")
    for text in (f"SIG{name}", f"exit code {128 + getattr(signal, f'SIG{name}')}")
)
"""How a process ends by an error of its own; containers, and shells, show the signal as an exit code."""


class NodeControl(Protocol):
    """The control of one node, as in `Deployment`."""

    async def kill(self) -> NodeStatus:
        """End its processes with SIGKILL and wait until they are gone."""
        ...

    async def stop(self, grace_s: float) -> NodeStatus:
        """End it in good order, as of `StopsInGoodOrder`."""
        ...

    async def pause(self) -> NodeStatus:
        """Stop its processes from running and wait until the kernel says so; a stopped node stays stopped."""
        ...

    async def resume(self) -> NodeStatus:
        """Let its processes run again."""
        ...

    async def status(self) -> NodeStatus:
        """What is known of its process: pid, state letter, how it ended; if by itself, why, by its log."""
        ...

    async def throttle(self, share: float | None) -> Mapping[str, Any]:
        """Give it this share of one CPU, or all that it wants; what the limit before did."""
        ...


Control = TypeVar("Control", bound=NodeControl)

_NODE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class Deployed(ClientLinksStayWhole, Generic[Control]):
    """Nodes that are laid out, and the links between them.

    All methods raise UnknownNodeError for a node that is not in the test, and UsageError for a link from a node to
    itself.

    Attributes:
        nodes: names of the nodes, in the test's order.
        places: where each node lives, once it is laid out.
    """

    def __init__(self, test: Test, links: Links) -> None:
        self.nodes: Sequence[NodeId] = test.nodes
        self.places: Mapping[NodeId, NodePlace] = {}
        self._test = test
        self._links = links
        self._streams = Streams(test.seed)
        self._controls: dict[NodeId, Control] = {}
        self._faults: dict[NodeId, NodeFaults] = {}
        self._alive: asyncio.Task[None] | None = None
        self._closed = False

    # --- nodes --------------------------------------------------------------------------------------------------------

    async def kill(self, node: NodeId) -> NodeStatus:
        """End the node's processes with SIGKILL and wait until they are gone."""
        return await self._controls[self._place(node).node].kill()

    async def stop(self, node: NodeId, grace_s: float = STOP_GRACE_S) -> NodeStatus:
        """End the node's processes with SIGTERM, after the grace with SIGKILL, and wait until they are gone."""
        status = await self._controls[self._place(node).node].stop(grace_s)
        if status.evidence.get("exit") not in _OF_ITS_OWN:
            return status
        return msgspec.structs.replace(status, evidence={**status.evidence, "failed": True})

    async def pause(self, node: NodeId) -> NodeStatus:
        """Stop the node's processes from running and wait until the kernel says so; a stopped node stays stopped."""
        return await self._controls[self._place(node).node].pause()

    async def resume(self, node: NodeId) -> NodeStatus:
        """Let a paused node run again."""
        return await self._controls[self._place(node).node].resume()

    async def status(self, node: NodeId) -> NodeStatus:
        """The status of the node's process from the kernel: pid, state letter, how it ended.

        For a process that ended by itself also the line of its log that says why.
        """
        return await self._controls[self._place(node).node].status()

    async def throttle(self, node: NodeId, share: float | None) -> Mapping[str, Any]:
        """Give the node this share of one CPU; None lifts the limit. A limit outlives the node's process.

        Evidence: in how many periods ("throttled") the node ran into the limit until now.
        """
        return await self._controls[self._place(node).node].throttle(share)

    async def power_off(self, node: NodeId) -> NodeStatus:
        """End the node's processes with SIGKILL, and lose what they did not sync (`NodeFaults.power_off`)."""
        return await self._faults[self._place(node).node].power_off()

    async def spoil(self, node: NodeId, fault: DiskFault | None) -> Mapping[str, Any]:
        """Give the node's disk this fault, or none: a node whose file system failed is killed for its heal."""
        return await self._faults[self._place(node).node].spoil(fault)

    async def skew(self, node: NodeId, fault: ClockFault | None) -> Mapping[str, Any]:
        """Give the node's wall clock this fault, or none: a probe with the node's environment measures it."""
        return await self._faults[self._place(node).node].skew(fault)

    async def offsets(self) -> Mapping[NodeId, ClockOffset]:
        """Nodes on this machine, in containers or not, share the clocks of its kernel: no offset, no error."""
        return {node: ClockOffset() for node in self.nodes}

    async def dial(self, node: NodeId, behind: int = 0) -> socket.socket:
        """A connected, non-blocking TCP socket from this machine to the node, across no link.

        The port is the clients', or one so far `behind` it.

        Raises:
            DefiniteError: the connection was refused, or the node took no connection within two seconds.
        """
        host, port = self._place(node).listen
        return await connected(await self._open_socket(), node, (host, port + behind))

    async def _open_socket(self) -> socket.socket:
        """A TCP socket from which nodes can be reached."""
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM)

    # --- links --------------------------------------------------------------------------------------------------------

    async def cut(self, links: frozenset[Link]) -> None:
        """Make exactly these directed links drop everything, and all others pass.

        Where packets are dropped, a cut expires after a minute unless the controller refreshes it, which it does by
        itself.
        """
        self._check(links)
        await self._links.cut(links)

    async def passes(self, links: Sequence[Link]) -> Mapping[Link, bool]:
        """Send a probe over each link, all at once, and see which arrive."""
        self._check(links)
        return await self._links.passes(links)

    async def dropped(self) -> Mapping[Link, int]:
        """What each cut link swallowed since it was cut: packets, or bytes where proxies carry them."""
        return await self._links.dropped()

    async def disturb(self, faults: Mapping[Link, LinkFault]) -> None:
        """Give exactly these directed links these faults, and all others none.

        They hit packets where these leave their sender; with proxies, the data of connections.
        """
        self._check(faults)
        await self._links.disturb(faults, self._streams)

    async def disturbed(self) -> Mapping[Link, Mapping[str, int]]:
        """For each link with a fault what it did since it has it: counts of packets, of pieces of streams with proxies.

        What a full queue or a full memory dropped is "overflowed".
        """
        return await self._links.disturbed()

    # --- the course of a deployment -----------------------------------------------------------------------------------

    def _begins(self) -> None:
        """From now on cuts are kept from expiring."""
        self._alive = asyncio.get_running_loop().create_task(self._links.keep_alive())

    def _ends(self) -> bool:
        """Whether this is the first request to end. From now on nothing is kept alive."""
        first, self._closed = not self._closed, True
        if self._alive is not None:
            self._alive.cancel()
        return first

    # --- checks -------------------------------------------------------------------------------------------------------

    def _place(self, node: NodeId) -> NodePlace:
        if node not in self.places:
            raise UnknownNodeError(f"there is no node {node!r} in this test. Known: {', '.join(self.nodes)}.")
        return self.places[node]

    def _check(self, links: Iterable[Link]) -> None:
        for source, destination in links:
            if self._place(source) is self._place(destination):
                raise UsageError(f"{source} has no link to itself: a link joins two different nodes.")


def check_nodes(backend: str, nodes: Sequence[NodeId], most: int) -> None:
    """Refuse more nodes than the limit of the backend of this name.

    Raises:
        UsageError: a name that cannot be a host's and a directory's, or too many nodes.
    """
    for node in nodes:
        if not _NODE_NAME.fullmatch(node):
            raise UsageError(f"{node!r} cannot be a node's name here: use letters, digits, '.', '_' and '-'.")
    if len(nodes) > most:
        raise UsageError(f"the {backend} backend takes at most {most} nodes, not {len(nodes)}.")


@asynccontextmanager
async def closed_on_failure(deployment: Deployment) -> AsyncGenerator[None, None]:
    """Lay a deployment out in here: what it began is undone if that fails."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(BackendError):  # what failed first is the news
            await deployment.close()
        raise


# --- ends of logs -----------------------------------------------------------------------------------------------------

LINES_SHOWN = 8
CHARACTERS_SHOWN = 300


def last_lines(text: str, lines: int = LINES_SHOWN) -> str:
    """The last lines of a text, as one line."""
    return " | ".join(line.strip() for line in text.splitlines()[-lines:] if line.strip()) or "(nothing)"


def log_text(log: Path) -> str:
    """What was logged; an empty text if there is no log."""
    try:
        return log.read_text(errors="replace")
    except OSError:
        return ""


def log_end(log: Path, start: int = 0, lines: int = LINES_SHOWN) -> str:
    """The last lines that were logged from a position on, as one line."""
    try:
        return last_lines(log.read_bytes()[start:].decode(errors="replace"), lines)
    except OSError:
        return last_lines("")


LastWords: TypeAlias = Callable[[str], str] | None
"""`Capabilities.last_words`."""


def shown_end(log: str, last_words: LastWords) -> str:
    """The line that says why a node ended, or else the last line, no longer than is shown.

    A system's own words begin with what matters, a last line may be the end of a long one.
    """
    found = "" if last_words is None else last_words(log)
    return found[:CHARACTERS_SHOWN] if found else last_lines(log, 1)[-CHARACTERS_SHOWN:]


# --- nodes that an agent runs -----------------------------------------------------------------------------------------


class AgentNode:
    """One node that an agent runs.

    Args:
        name: as in the test.
        agent: runs it.
        logged: reads the end of its log.
        last_words: finds in it why the node ended.
    """

    def __init__(
        self, name: NodeId, agent: Asked, logged: Callable[[], Awaitable[str]], last_words: LastWords = None
    ) -> None:
        self._name = name
        self._agent = agent
        self._logged = logged
        self._last_words = last_words

    async def start(
        self, command: NodeCommand, prepare: Callable[[NodeCommand], Awaitable[Mapping[str, str]]], **where: str
    ) -> Mapping[str, Any]:
        """Start the node's process; the agent's answer, as soon as the node listens, after two seconds at the latest.

        Args:
            command: how.
            prepare: called right before a start: returns further variables for the node. Not called if it runs already.
            where: further arguments for the agent.

        Raises:
            NodeStartError: it could not be run.
        """
        env = dict(command.env)
        try:
            if (await self.status()).state == "stopped":
                env |= await prepare(command)
            return await self._agent.ask("start", name=self._name, argv=list(command.argv), env=env, **where)
        except BackendError as error:
            raise NodeStartError(str(error)) from None

    async def kill(self) -> NodeStatus:
        """End the node's processes with SIGKILL and wait until they are reaped."""
        return await self._ask("kill")

    async def stop(self, grace_s: float) -> NodeStatus:
        """End the node's processes with SIGTERM, after the grace with SIGKILL, and wait until they are reaped."""
        return to_status(await self._agent.ask("stop_node", name=self._name, grace_s=grace_s))

    async def pause(self) -> NodeStatus:
        """Stop the node's processes with SIGSTOP and wait until the kernel says so. A stopped node stays stopped."""
        return await self._ask("pause")

    async def resume(self) -> NodeStatus:
        """Let a paused node run again."""
        return await self._ask("resume")

    async def status(self) -> NodeStatus:
        """The status of the node's process from the kernel: pid (in the agent's PID namespace), state letter, exit.

        For a process that ended by itself also the line of its log that says why.
        """
        status = await self._ask("status")
        if not status.evidence.get("by_itself"):
            return status
        shown = shown_end(await self._logged(), self._last_words)
        return msgspec.structs.replace(status, evidence={**status.evidence, "log": shown})

    async def throttle(self, share: float | None) -> Mapping[str, Any]:
        """Give the node this share of one CPU, or all that it wants: what the kernel counted of the limit before."""
        return await self._agent.ask("throttle", name=self._name, share=share)

    async def _ask(self, op: str) -> NodeStatus:
        return to_status(await self._agent.ask(op, name=self._name))


def to_status(answer: Mapping[str, Any]) -> NodeStatus:
    """The status in what an agent answered."""
    return msgspec.convert(answer, NodeStatus)

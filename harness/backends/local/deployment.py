"""A deployment of OS processes on this machine, under the control of one agent."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.backends.channel import Agent
from harness.backends.dialing import connected
from harness.backends.linkfaults import SeededFaults
from harness.backends.local.linkkinds import refuse_unsupported
from harness.backends.local.nodefaults import NodeFaults
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

ALIVE_EVERY_S = 10.0
LOG_LINES_SHOWN = 8
LOG_CHARACTERS_SHOWN = 300

_NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MOST_NODES = 250


class LocalDeployment:
    """Nodes as processes, links as a fabric of the agent's. Made by `LocalBackend.deploy`.

    Attributes:
        nodes: names of the nodes, in the test's order.
        links: how links are carried: "namespaces" or "proxy".
        places: where each node lives.
    """

    def __init__(self, test: Test, run_dir: Path, links: str, agent: Agent, runtime: Runtime) -> None:
        self.nodes: Sequence[NodeId] = test.nodes
        self.links = links
        self.places: Mapping[NodeId, NodePlace] = {}
        self._test = test
        self._dirs = {node: run_dir.absolute() / "nodes" / node for node in test.nodes}
        self._agent = agent
        self._runtime = runtime
        self._seeded = SeededFaults()
        self._faults = NodeFaults(test, agent, self._dirs, links)
        self._alive: asyncio.Task[None] | None = None
        self._closed = False

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
        await self._faults.lay_out(self.places)
        self._alive = asyncio.get_running_loop().create_task(self._keep_alive())

    @property
    def agent_pid(self) -> int:
        """The pid of the process whose end is the end of every node."""
        return self._agent.pid

    # --- nodes --------------------------------------------------------------------------------------------------------

    async def start(self, node: NodeId) -> NodeStatus:
        """Start the node's process; returns when it listens, at the latest after two seconds.

        Raises:
            NodeStartError: it could not be run, or it ended at once.
        """
        place = self._place(node)
        command = self._test.system.command(self._test, place)
        log = self._dirs[node] / "log"
        logged = log.stat().st_size if log.exists() else 0
        try:
            env = dict(command.env)
            if (await self.status(node)).state == "stopped":
                env |= await self._faults.prepare(node, command)
            answer = await self._agent.ask(
                "start",
                name=node,
                argv=list(command.argv),
                env=env,
                cwd=str(self._dirs[node]),
                log=str(log),
            )
        except BackendError as error:
            raise NodeStartError(str(error)) from None
        if "failed" in answer:
            raise NodeStartError(
                f"{node} ended at once ({answer['failed']}); its log, {log}, ends with: {_log_end(log, logged)}"
            )
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
        """What the kernel says of the node's process: pid (in the agent's PID namespace), state letter, exit.

        Of one that ended although nobody stopped it, also the last line of its log.
        """
        status = await self._ask_about(node, "status")
        if not status.evidence.get("by_itself"):
            return status
        last = _log_end(self._dirs[node] / "log", 0, lines=1)
        return msgspec.structs.replace(status, evidence={**status.evidence, "log": last[-LOG_CHARACTERS_SHOWN:]})

    # --- disks, clocks, processors ------------------------------------------------------------------------------------

    async def power_off(self, node: NodeId) -> NodeStatus:
        """End the node's processes with SIGKILL, and lose what they did not sync.

        The evidence has "bytes_lost" and "names_lost": compared with what they had written.
        """
        status = await self.kill(node)
        lost = await self._faults.lose_power(node)
        return msgspec.structs.replace(status, evidence={**status.evidence, **lost})

    async def spoil(self, node: NodeId, fault: DiskFault | None) -> Mapping[str, Any]:
        """Give the node's disk this fault, or none: a node whose file system failed is killed for its heal."""
        return await self._faults.spoil(node, fault, await self.status(node), self.kill)

    async def skew(self, node: NodeId, fault: ClockFault | None) -> Mapping[str, Any]:
        """Give the node's wall clock this fault, or none: a probe with the node's environment measures it."""
        return await self._faults.skew(self._place(node).node, fault)

    async def throttle(self, node: NodeId, share: float | None) -> Mapping[str, Any]:
        """Give the node this share of one CPU, or all that it wants: what the kernel counted of the limit before."""
        return await self._faults.throttle(self._place(node).node, share)

    # --- links --------------------------------------------------------------------------------------------------------

    async def cut(self, links: frozenset[Link]) -> None:
        """Make exactly these directed links drop everything, and all others pass, in one step.

        In namespaces a cut expires after a minute unless this controller refreshes it, which it does by itself.
        """
        await self._agent.ask("cut", links=self._known(sorted(links)))

    async def passes(self, links: Sequence[Link]) -> Mapping[Link, bool]:
        """Send a probe over each link, all at once; one that has not arrived after 150 ms does not pass."""
        passed = await self._agent.ask("passes", links=self._known(links))
        return dict(zip(links, passed, strict=True))

    async def dropped(self) -> Mapping[Link, int]:
        """What each cut link swallowed since it was cut: packets in namespaces, bytes with proxies."""
        return {(source, destination): count for source, destination, count in await self._agent.ask("dropped")}

    async def disturb(self, faults: Mapping[Link, LinkFault]) -> None:
        """Give exactly these directed links these faults, and all others none.

        In namespaces they strike packets where their sender's leave it; with proxies, what a connection carries.

        Raises:
            FaultNotSupportedError: a fault is none of those that can be had here.
        """
        self._known(list(faults))
        refuse_unsupported(self.links, faults)
        await self._agent.ask("disturb", faults=self._seeded.request(faults, self._runtime.streams))

    async def disturbed(self) -> Mapping[Link, Mapping[str, int]]:
        """For each link with a fault what it did since it has it: counts of packets, of pieces of streams with proxies.

        What a full queue or a full memory dropped is "overflowed".
        """
        counts = await self._agent.ask("disturbed")
        return {(source, destination): counted for source, destination, counted in counts}

    async def dial(self, node: NodeId) -> socket.socket:
        """A connected, non-blocking TCP socket to the node, across no link.

        Raises:
            DefiniteError: nobody listens there, or the node took no connection within two seconds.
        """
        address = self._place(node).listen
        return await connected(await self._agent.ask_for_socket(), node, address)

    # --- the end ------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Stop every node (SIGTERM, a second later SIGKILL) and remove everything except logs and data.

        Closing twice does no harm.

        Raises:
            BackendError: a node's data are still in an image beside its data directory.
        """
        if self._closed:
            return
        self._closed = True
        if self._alive is not None:
            self._alive.cancel()
        try:
            await self._agent.ask("stop")
        except BackendError:
            if not self._agent.gone:  # one that is gone has taken everything with it
                raise
        finally:
            await self._faults.close()
            await self._agent.close()

    async def _keep_alive(self) -> None:
        with contextlib.suppress(BackendError):  # whoever asks for something next is told
            while True:
                await asyncio.sleep(ALIVE_EVERY_S)
                await self._agent.ask("alive")

    # --- checks -------------------------------------------------------------------------------------------------------

    def _place(self, node: NodeId) -> NodePlace:
        if node not in self.places:
            raise UnknownNodeError(f"there is no node {node!r} in this test. Known: {', '.join(self.nodes)}.")
        return self.places[node]

    def _known(self, links: Sequence[Link]) -> list[Link]:
        for source, destination in links:
            self._place(source)
            if source == self._place(destination).node:
                raise UsageError(f"{source} has no link to itself: a link joins two different nodes.")
        return list(links)

    async def _ask_about(self, node: NodeId, op: str) -> NodeStatus:
        return _status(await self._agent.ask(op, name=self._place(node).node))


def check_nodes(nodes: Sequence[NodeId]) -> None:
    """Refuse nodes that this backend cannot house.

    Raises:
        UsageError: a name that cannot be a directory's, or too many nodes.
    """
    for node in nodes:
        if not _NODE_NAME.fullmatch(node):
            raise UsageError(f"{node!r} cannot be a node's name here: use letters, digits, '.', '_' and '-'.")
    if len(nodes) > MOST_NODES:
        raise UsageError(f"the local backend takes at most {MOST_NODES} nodes, not {len(nodes)}.")


def _address(pair: Sequence[Any]) -> Address:
    host, port = pair
    return str(host), int(port)


def _status(answer: Any) -> NodeStatus:
    return msgspec.convert(answer, NodeStatus)


def _log_end(log: Path, start: int, lines: int = LOG_LINES_SHOWN) -> str:
    """The last lines that were logged from a position on, as one line."""
    try:
        text = log.read_bytes()[start:].decode(errors="replace")
    except OSError:
        text = ""
    return " | ".join(line.strip() for line in text.splitlines()[-lines:] if line.strip()) or "(nothing)"

"""Links cut where they end: in the receiver's network namespace a table of nftables drops what some sources send.

As in Jepsen, a cut is enforced at the receiver (its input chain), so that one direction of a link can be cut alone. The
table is this project's own, `table inet splitbrain`: it is created and deleted as a whole, and other rules are not
changed. A source is an element of a set: a namespace's part of a topology changes in one transaction, each element
counts what it dropped, and it expires after CUT_EXPIRES_S unless it is refreshed, so that a partition heals by itself
when the controller is gone. One that is missing without a heal was removed, for example by a reload of the firewall, or
not refreshed in time: its count is unknown, and the caller gets an error. Addresses are IPv4. ARP does not pass through
these rules: a node whose cache entry expired during a one-way cut would else lose the direction that is open.

A `Receiver` is one namespace, which may be this process's own; `Receivers` are all nodes of a deployment on one
machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from . import syscalls
from .disturbances import Disturbances
from .probes import DatagramProbes
from .tools import AgentError, all_of, find_tool

Link = tuple[str, str]

CUT_EXPIRES_S = 60
"""How long the kernel keeps an element without a refresh."""
REFRESH_AFTER_S = 20
TOOL_TIMEOUT_S = 10

# To delete a table that is not there is an error, to declare one that is there is none.
_REMOVE = "table inet splitbrain\ndelete table inet splitbrain\n"
# nft 1.0.6 does not parse rules that share a line with the brace behind them.
_TABLE = """table inet splitbrain {{
    set cut {{
        type ipv4_addr
        flags timeout
        counter
        {elements}
    }}
    chain input {{
        type filter hook input priority -150
        policy accept
        ip saddr @cut drop
    }}
}}
"""
_ELEMENT = re.compile(r"(\d+\.\d+\.\d+\.\d+)[^,}]*?packets (\d+)")


class Receiver:
    """The cuts of one network namespace.

    Args:
        name: whose namespace it is, for messages.
        namespace: a descriptor of it (`/proc/PID/ns/net`).
    """

    def __init__(self, name: str, namespace: int) -> None:
        self.name = name
        self._namespace = namespace
        self._nft = find_tool("nft")
        self._sources: list[str] = []
        self._applied_at = 0.0
        self._counted: dict[str, int] = {}  # by elements that have been replaced since
        self._one_at_a_time = asyncio.Lock()

    async def lay_out(self) -> None:
        """Make the table, without cuts; one that is there already is replaced.

        Raises:
            AgentError: nftables do not work in this namespace.
        """
        await self._apply(())

    async def remove(self) -> None:
        """Delete the table and with it every cut."""
        self._sources, self._counted = [], {}
        await self._run("-f", "-", text=_REMOVE)

    async def cut(self, sources: Sequence[str]) -> None:
        """Drop what exactly these addresses send, in one transaction. A source that stays cut continues to count.

        It works also if the table was removed or emptied.
        """
        async with self._one_at_a_time:
            if not sources and not self._sources:
                return
            kept = [source for source in sources if source in self._sources]
            counted = await self._in_kernel() if kept else {}
            await self._apply(sources)
            self._counted = {source: self._counted.get(source, 0) + counted.get(source, 0) for source in kept}
            self._sources = list(sources)

    async def refresh(self) -> None:
        """Refresh the cuts so that they do not expire; called at intervals while the controller lives.

        Raises:
            AgentError: a cut is missing. It is not added again, so that the problem is reported.
        """
        async with self._one_at_a_time:
            if self._sources and _now() - self._applied_at > REFRESH_AFTER_S:
                counted = await self._dropped()
                await self._apply(self._sources)
                self._counted = counted

    async def dropped(self) -> dict[str, int]:
        """Packets dropped by source, for every source that is cut, since it was cut.

        Raises:
            AgentError: a cut is missing, and its count is unknown.
        """
        async with self._one_at_a_time:
            return await self._dropped()

    async def _dropped(self) -> dict[str, int]:
        if not self._sources:
            return {}
        counted = await self._in_kernel()
        missing = ", ".join(source for source in self._sources if source not in counted)
        if missing:
            raise AgentError(
                f"{self.name} no longer drops what {missing} sends: the rules of table inet splitbrain were not "
                "refreshed in time and expired, or somebody removed them"
            )
        return {source: counted[source] + self._counted.get(source, 0) for source in self._sources}

    async def _in_kernel(self) -> dict[str, int]:
        """Packets by element that is there; none where the table is gone."""
        tables = await self._run("list", "tables", "inet")
        if "table inet splitbrain" not in tables.splitlines():
            return {}
        listed = await self._run("list", "set", "inet", "splitbrain", "cut")
        return {source: int(count) for source, count in _ELEMENT.findall(listed)}

    async def _apply(self, sources: Sequence[str]) -> None:
        """Create the table again, with these sources; removed rules are restored."""
        elements = ", ".join(f"{source} timeout {CUT_EXPIRES_S}s" for source in sources)
        table = _TABLE.format(elements=f"elements = {{ {elements} }}" if elements else "")
        await self._run("-f", "-", text=_REMOVE + table)
        self._applied_at = _now()

    async def _run(self, *arguments: str, text: str = "") -> str:
        return await run_inside(self._namespace, [self._nft, *arguments], text, self.name)


class Receivers:
    """The links between the nodes of a deployment whose network namespaces are all on this machine.

    Args:
        places: for every node a descriptor of its network namespace, and its address there.
    """

    def __init__(self, places: Mapping[str, tuple[int, str]]) -> None:
        self._addresses = {node: address for node, (_, address) in places.items()}
        self._node_at = {address: node for node, address in self._addresses.items()}
        self._namespaces = {node: namespace for node, (namespace, _) in places.items()}
        self._receivers = {node: Receiver(node, namespace) for node, namespace in self._namespaces.items()}
        self._disturbances = Disturbances(places)
        self._probes = DatagramProbes()
        self._cut: list[Link] = []
        self._lost_probes: dict[Link, int] = {}
        self._one_at_a_time = asyncio.Lock()

    async def lay_out(self) -> None:
        """Make every node's table, and open a socket for probes beside each node.

        Raises:
            AgentError: a namespace is not that of its node, or nftables do not work in it.
        """
        with _home() as home:
            for node, namespace in self._namespaces.items():
                with syscalls.inside(namespace, home):
                    try:
                        self._probes.add(node, self._addresses[node])
                    except OSError as error:
                        raise AgentError(
                            f"the network of {node} does not have its address {self._addresses[node]} "
                            f"({error.strerror}): its container does not run on this machine"
                        ) from None
        await all_of([receiver.lay_out() for receiver in self._receivers.values()])

    async def cut(self, links: Sequence[Link]) -> None:
        """Cut exactly these links: every receiver in one transaction of its own, all of them at the same time."""
        async with self._one_at_a_time:
            await all_of(
                [
                    receiver.cut([self._addresses[source] for source, to in links if to == node])
                    for node, receiver in self._receivers.items()
                ]
            )
            kept = [link for link in links if link in self._cut]
            self._lost_probes = {link: lost for link, lost in self._lost_probes.items() if link in kept}
            self._cut = list(links)

    async def refresh(self) -> None:
        """Keep the cut links from expiring; called now and then for as long as the controller lives."""
        async with self._one_at_a_time:
            await all_of([receiver.refresh() for receiver in self._receivers.values()])

    async def dropped(self) -> dict[Link, int]:
        """Packets that each cut link dropped since it was cut, without this agent's own probes.

        Raises:
            AgentError: a link is no longer cut, because the rules were removed or expired.
        """
        async with self._one_at_a_time:
            counts = await all_of([receiver.dropped() for receiver in self._receivers.values()])
        packets = {
            (self._node_at[source], node): count
            for node, counted in zip(self._receivers, counts, strict=True)
            for source, count in counted.items()
        }
        return {link: max(0, packets.get(link, 0) - self._lost_probes.get(link, 0)) for link in self._cut}

    async def passes(self, links: Sequence[Link]) -> dict[Link, bool]:
        """Send a datagram over every link, all at once, and see which arrive."""
        held = self._disturbances.held
        expected = [link for link in links if link not in self._cut and link not in held]
        arrived = await self._probes.measure(links, expected, held)
        for link in links:
            if link not in arrived and link in self._cut:
                self._lost_probes[link] = self._lost_probes.get(link, 0) + 1
        return {link: link in arrived for link in links}

    async def disturb(self, faults: Mapping[Link, Mapping[str, Any]]) -> None:
        """Give exactly these links these faults, and all others none."""
        self._disturbances.set(faults)

    async def disturbed(self) -> dict[Link, dict[str, int]]:
        """For each link with a fault what it did since it has it."""
        return self._disturbances.counts()


async def run_inside(namespace: int, argv: Sequence[str], text: str, where: str) -> str:
    """Run a tool in a network namespace without blocking the event loop; returns its output.

    Its end is awaited through a descriptor of the process. A tool with error output has failed, with any exit code:
    where this process reaps all its children, the code may be gone.

    Raises:
        AgentError: it could not be run, complained, or took longer than TOOL_TIMEOUT_S.
    """
    tool = os.path.basename(argv[0])
    try:
        with _home() as home, syscalls.inside(namespace, home):
            process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
    except OSError as error:
        raise AgentError(f"{tool} could not be run for {where}: {error}") from None
    try:
        assert process.stdin is not None
        process.stdin.write(text)
        process.stdin.close()
        process.stdin = None
        await _ended(process.pid)
        output, complaint = process.communicate(timeout=1)
    except (OSError, TimeoutError, subprocess.TimeoutExpired) as error:
        process.kill()
        process.communicate()
        raise AgentError(f"{tool} did not end for {where}: {error or f'not within {TOOL_TIMEOUT_S} s'}") from None
    if process.returncode != 0 or complaint:
        problem = " ".join(complaint.split())[:300]
        raise AgentError(f"{tool} failed for {where} with code {process.returncode}: {problem}")
    return output


async def _ended(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:  # reaped already
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        async with asyncio.timeout(TOOL_TIMEOUT_S):
            await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


@contextlib.contextmanager
def _home() -> Generator[int, None, None]:
    """A descriptor of this process's own network namespace."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        yield home
    finally:
        os.close(home)


def _now() -> float:
    return asyncio.get_running_loop().time()

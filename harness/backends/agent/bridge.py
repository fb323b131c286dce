"""The fabric of namespaces: a network namespace per node, one bridge between them, links cut on the bridge by nftables.

Links are cut where they cross the bridge, not in the nodes' namespaces: the whole topology changes in one transaction,
each link has a counter, and a node that restarts finds the same cuts. An element of the set of cut links expires after
CUT_EXPIRES_S unless it is refreshed, so a partition heals by itself when the controller hangs.

ARP crosses every cut: a node whose cache entry for a peer expired during a one-way cut would else lose the direction
that is open. IPv6 is switched off on the nodes' interfaces, so that its chatter is not counted as swallowed traffic.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from . import syscalls
from .disturbances import Disturbances
from .probes import DatagramProbes
from .tools import AgentError, find_tool

Link = tuple[str, str]
Address = tuple[str, int]

NODE_PORT = 7000
PREFIX_BITS = 16
BRIDGE_ADDRESS = "10.203.255.254"
CUT_EXPIRES_S = 60
"""How long the kernel keeps an element without a refresh."""
REFRESH_AFTER_S = 20
TOOL_TIMEOUT_S = 10

# nft 1.0.6 does not parse rules that share a line with the brace behind them.
_TABLE = """
table bridge splitbrain {
    set cut {
        type ifname . ifname
        flags timeout
        counter
    }
    chain forward {
        type filter hook forward priority 0
        policy accept
        ether type arp accept
        iifname . oifname @cut drop
    }
}
"""
_ELEMENT = re.compile(r'"(v\d+)" \. "(v\d+)"[^,}]*?packets (\d+)')


def enter_namespaces() -> None:
    """Move into new network, mount and PID namespaces, without root also into a user namespace.

    Returns in the first process of the new PID namespace; the process that called stays outside and waits for it. When
    either ends, the kernel kills everything in the namespace, paused processes included.

    Raises:
        AgentError: the kernel refuses.
    """
    uid, gid = os.geteuid(), os.getegid()
    flags = syscalls.CLONE_NEWNET | syscalls.CLONE_NEWNS | syscalls.CLONE_NEWPID
    try:
        if uid != 0 or not _unshared(flags):
            syscalls.unshare(flags | syscalls.CLONE_NEWUSER)
            # The kernel takes a map of groups from a plain user only after this (user_namespaces(7)).
            _write("/proc/self/setgroups", "deny")
            _write("/proc/self/uid_map", f"0 {uid} 1")
            _write("/proc/self/gid_map", f"0 {gid} 1")
    except OSError as error:
        raise AgentError(f"the kernel refuses new namespaces to uid {uid} ({error.strerror})") from None


def _unshared(flags: int) -> bool:
    try:
        syscalls.unshare(flags)
    except PermissionError:  # root without the capability, as in most containers
        return False
    return True


def mount_proc() -> None:
    """Show the new PID namespace under /proc.

    Raises:
        AgentError: the kernel refuses, as it does where parts of /proc are masked.
    """
    try:
        syscalls.mount_own_proc()
        syscalls.mount_own_shared_memory()
    except OSError as error:
        raise AgentError(f"the kernel refuses a /proc for new namespaces ({error.strerror})") from None


class Bridge:
    """The nodes' networks and the links between them. Must be made inside the namespaces."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self._ip = find_tool("ip")
        self._nft = find_tool("nft")
        self._nodes = list(nodes)
        self._ports = {node: f"v{number}" for number, node in enumerate(nodes)}
        self._node_of_port = {port: node for node, port in self._ports.items()}
        self._addresses = {node: f"10.203.{number // 250}.{number % 250 + 1}" for number, node in enumerate(nodes)}
        self._home = os.open("/proc/self/ns/net", os.O_RDONLY)
        self._namespaces: dict[str, int] = {}
        self._places: dict[str, tuple[int, str]] = {}
        self._disturbances = Disturbances(self._places)
        self._probes = DatagramProbes()
        self._cut: list[Link] = []
        self._applied_at = 0.0
        self._counted: dict[Link, int] = {}  # by elements that have been replaced since
        self._lost_probes: dict[Link, int] = {}

    def lay_out(self) -> None:
        """Make namespaces, interfaces, the bridge and its rules."""
        _switch_off_ipv6()
        for node in self._nodes:
            syscalls.unshare(syscalls.CLONE_NEWNET)
            _switch_off_ipv6()
            self._namespaces[node] = os.open("/proc/self/ns/net", os.O_RDONLY)
            syscalls.set_network_namespace(self._home)
        lines = [
            "link set dev lo up",
            "link add name splitbrain type bridge forward_delay 0 mcast_snooping 0",
            f"addr add {BRIDGE_ADDRESS}/{PREFIX_BITS} dev splitbrain",
            "link set dev splitbrain up",
        ]
        for node in self._nodes:
            port, namespace = self._ports[node], self._namespaces[node]
            lines += [
                f"link add name {port} type veth peer name eth0 netns /proc/{os.getpid()}/fd/{namespace}",
                f"link set dev {port} master splitbrain up",
            ]
        self._run([self._ip, "-batch", "-"], "\n".join(lines))
        for node in self._nodes:
            address = self._addresses[node]
            with syscalls.inside(self._namespaces[node], self._home):
                self._run(
                    [self._ip, "-batch", "-"],
                    f"link set dev lo up\naddr add {address}/{PREFIX_BITS} dev eth0\nlink set dev eth0 up\n",
                )
                self._probes.add(node, address)
            self._places[node] = self._namespaces[node], address
        self._run([self._nft, "-f", "-"], _TABLE)

    # --- where nodes are --------------------------------------------------------------------------------------------

    def listen_addresses(self) -> dict[str, Address]:
        """The address on which each node serves."""
        return {node: (address, NODE_PORT) for node, address in self._addresses.items()}

    def peer_addresses(self) -> dict[str, dict[str, Address]]:
        """For each node, the addresses under which it reaches the others."""
        listen = self.listen_addresses()
        return {node: {peer: listen[peer] for peer in self._nodes if peer != node} for node in self._nodes}

    def enter(self, node: str) -> None:
        """Move this process into a node's network."""
        syscalls.set_network_namespace(self._namespaces[node])

    def open_socket(self) -> socket.socket:
        """A TCP socket that reaches the nodes across no link: from the bridge itself."""
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM)

    # --- links --------------------------------------------------------------------------------------------------------

    async def cut(self, links: Sequence[Link]) -> None:
        """Cut exactly these links, in one transaction. What was swallowed on a link that stays cut stays counted."""
        kept = [link for link in links if link in self._cut]
        counted = self._in_kernel() if kept else {}
        self._apply(links)
        self._counted = {link: self._counted.get(link, 0) + counted.get(link, 0) for link in kept}
        self._lost_probes = {link: lost for link, lost in self._lost_probes.items() if link in kept}
        self._cut = list(links)

    async def refresh(self) -> None:
        """Refresh the cut links so that they do not expire; called at intervals while the controller lives.

        Raises:
            AgentError: a link is no longer cut. It is not cut again, so that the problem is reported.
        """
        if self._cut and _now() - self._applied_at > REFRESH_AFTER_S:
            self._counted = self._all_dropped()
            self._apply(self._cut)

    async def dropped(self) -> dict[Link, int]:
        """Packets that each cut link dropped since it was cut, without this agent's own probes.

        Raises:
            AgentError: a link is no longer cut, and its count is unknown.
        """
        return {link: max(0, packets - self._lost_probes.get(link, 0)) for link, packets in self._all_dropped().items()}

    async def passes(self, links: Sequence[Link]) -> dict[Link, bool]:
        """Send a datagram over every link, all at once, and see which arrive."""
        held = self._disturbances.held
        arrived = await self._probes.measure(
            links, [link for link in links if link not in self._cut and link not in held], held
        )
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

    def _apply(self, links: Sequence[Link]) -> None:
        commands = ["flush set bridge splitbrain cut"]
        if links:
            elements = ", ".join(
                f'"{self._ports[source]}" . "{self._ports[destination]}" timeout {CUT_EXPIRES_S}s'
                for source, destination in links
            )
            commands.append(f"add element bridge splitbrain cut {{ {elements} }}")
        self._run([self._nft, "-f", "-"], "\n".join(commands) + "\n")
        self._applied_at = _now()

    def _all_dropped(self) -> dict[Link, int]:
        if not self._cut:
            return {}
        counted = self._in_kernel()
        missing = ", ".join(" -> ".join(link) for link in self._cut if link not in counted)
        if missing:
            raise AgentError(
                f"{missing} is no longer cut: the rules of table bridge splitbrain were not refreshed in time and "
                "expired, or somebody removed them"
            )
        return {link: counted[link] + self._counted.get(link, 0) for link in self._cut}

    def _in_kernel(self) -> dict[Link, int]:
        """Packets by element that is there."""
        listed = self._run([self._nft, "list", "set", "bridge", "splitbrain", "cut"])
        return {
            (self._node_of_port[source], self._node_of_port[destination]): int(count)
            for source, destination, count in _ELEMENT.findall(listed)
        }

    def _run(self, argv: list[str], text: str = "") -> str:
        try:
            done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise AgentError(f"{os.path.basename(argv[0])} did not run: {error}") from None
        if done.returncode != 0:
            problem = " ".join(done.stderr.split())[:300]
            raise AgentError(f"{os.path.basename(argv[0])} failed with code {done.returncode}: {problem}")
        return done.stdout


def _now() -> float:
    return asyncio.get_running_loop().time()


def _switch_off_ipv6() -> None:
    with contextlib.suppress(FileNotFoundError):  # a kernel without IPv6
        _write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)

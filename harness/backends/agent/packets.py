"""Faults of packets: loss, delay and the like for what one network namespace sends to each of some addresses.

A rule in a separate chain (table mangle, from POSTROUTING, where a packet's destination is known) sends packets to such
an address into a queue of this process (`nfqueue`), and a `PacketLink` decides their fate. A rule exists only while its
fault does: other links are not slowed. With `--queue-bypass` packets pass when this process is gone. Other rules are
not changed. Addresses are IPv4.

What a link sends later, twice or instead goes out by a raw socket and carries BYPASS_MARK, as measurements may
(SO_MARK): what carries it is not queued.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import socket
from collections.abc import Mapping, Sequence
from typing import Any, Final

from . import syscalls
from .nfqueue import Queue
from .packet_link import Fault, PacketLink
from .segments import fragments
from .tools import AgentError, find_tool, run_tool

BYPASS_MARK: Final = 0x73_70_6C_62
"""The mark of packets that our faults do not hit."""

PACKETS_MAX: Final = 4096
"""The limit of packets of a link that the kernel queues for this process; further ones are lost."""

CHAIN: Final = "SPLITBRAIN"
PACKAGES: Final = "iptables"

_SO_MARK: Final = 36
_SO_SNDBUFFORCE: Final = 32
_SEND_BUFFER_BYTES: Final = 8 << 20
_FIRST_QUEUE: Final = 0x5B00
_QUEUES_TRIED: Final = 512
_QUEUE_NUMBER: Final = re.compile(r"--queue-num (\d+)")
_STATISTICS: Final = "/proc/thread-self/net/netfilter/nfnetlink_queue"


class PacketFaults:
    """The faults of what one network namespace sends.

    Args:
        name: whose namespace it is, for messages.
        namespace: a descriptor of it (`/proc/PID/ns/net`); it must stay open.
        home: a descriptor of the namespace in which this process lives.
        chain: the name of the chain; one of the same name that is there already is replaced.
    """

    def __init__(self, name: str, namespace: int, home: int, chain: str = CHAIN) -> None:
        self._name = name
        self._namespace = namespace
        self._home = home
        self._chain = chain
        self._links: dict[str, PacketLink] = {}
        self._raw: socket.socket | None = None
        self._next_queue = _FIRST_QUEUE
        self._certain = True  # that the rules are those for the links

    def set(self, faults: Mapping[str, Mapping[str, Any]]) -> None:
        """Give what goes to exactly these addresses these faults, and everything else none.

        A link whose fault stays the same keeps its counts and its stream; any other starts again. Packets that waited
        on a link that loses its fault pass at once, in order.

        Args:
            faults: fields of `LinkFault` by destination; "seed", a whole number, seeds the link's stream.

        Raises:
            AgentError: the faults cannot be had here, or the rules are not as they were written: those for the faults
                from before, which are gone then, or those for these.
        """
        wanted = {destination: Fault.of(fault) for destination, fault in faults.items()}
        over = {to: link for to, link in self._links.items() if wanted.get(to) != link.fault}
        kept = {to: link for to, link in self._links.items() if to not in over}
        if self._certain and not over and len(kept) == len(wanted):
            return
        first = not self._links
        for link in over.values():
            link.open()
        closed: list[PacketLink] = []
        certain, self._certain = self._certain, False
        try:
            if certain and self._links:
                self._check_rules()
            self._links = {to: kept[to] if to in kept else self._link(fault) for to, fault in wanted.items()}
            with syscalls.inside(self._namespace, self._home):
                self._write_rules(first)
            self._check_rules()
            self._certain = True
        except BaseException:
            closed += self._links.values()
            with contextlib.suppress(AgentError):
                self.remove()
            raise
        finally:
            for link in over.values():
                if link not in closed:
                    link.close()

    def counts(self) -> dict[str, dict[str, int]]:
        """For each address with a fault what it did since it has it.

        Counts of packets that were "lost", "duplicated", "reordered", "corrupted", "delayed", "held", "queued" (behind
        others, for the rate), "oversized", or "overflowed" (lost for want of room); and of connections "reset".
        """
        found = {to: dict(link.counts) for to, link in self._links.items()}
        dropped = self._dropped_by_kernel() if found else {}
        for to, link in self._links.items():
            if dropped.get(link.queue.number):
                found[to]["overflowed"] = found[to].get("overflowed", 0) + dropped[link.queue.number]
        return found

    def remove(self) -> None:
        """Take every fault away, and our chain with it, also one that an earlier process left behind.

        Raises:
            AgentError: the chain cannot be removed.
        """
        links, self._links = self._links, {}
        for link in links.values():
            link.open()
        try:
            with syscalls.inside(self._namespace, self._home):
                self._remove_rules()
            self._check_rules()
            self._certain = True
        finally:
            for link in links.values():
                link.close()
            if self._raw is not None:
                self._raw.close()
                self._raw = None

    # --- queues -------------------------------------------------------------------------------------------------------

    def _link(self, fault: Fault) -> PacketLink:
        with syscalls.inside(self._namespace, self._home):
            if self._raw is None:
                self._raw = _raw_socket()
            queue = self._queue()
        return PacketLink(fault, queue, self._send)

    def _queue(self) -> Queue:
        """A queue with a free number: the kernel returns EPERM for one that belongs to another socket."""
        problem: OSError | None = None
        for _ in range(_QUEUES_TRIED):
            number, self._next_queue = self._next_queue, self._next_queue + 1
            if self._next_queue == _FIRST_QUEUE + _QUEUES_TRIED:
                self._next_queue = _FIRST_QUEUE
            try:
                return Queue(number, PACKETS_MAX)
            except OSError as error:
                problem = error
                if error.errno not in (errno.EPERM, errno.EBUSY):
                    break
        raise AgentError(f"{self._name}: the kernel hands no packets over (NFQUEUE: {problem})")

    def _send(self, packet: bytes) -> bool:
        """Send past all queues; as on any line, a packet may find no room."""
        if self._raw is None:
            return False
        destination = (socket.inet_ntoa(packet[16:20]), 0)
        try:
            self._raw.sendto(packet, socket.MSG_DONTWAIT, destination)
        except OSError as error:
            if error.errno != errno.EMSGSIZE:
                return False
            return all(self._send(part) for part in fragments(packet))
        return True

    def _dropped_by_kernel(self) -> dict[int, int]:
        """Packets by queue that found the queue, or the way to this process, full."""
        try:
            with syscalls.inside(self._namespace, self._home), open(_STATISTICS) as file:
                rows = [line.split() for line in file]
        except FileNotFoundError:  # /proc without the kernel's own account of queues
            return {}
        return {int(row[0]): int(row[5]) + int(row[6]) for row in rows}

    # --- rules --------------------------------------------------------------------------------------------------------

    def _write_rules(self, first: bool) -> None:
        """Replace the chain, in one transaction, and the first time route packets there."""
        if not self._links:
            self._remove_rules()
            return
        lines = [f"-A {self._chain} -m mark --mark {BYPASS_MARK:#x} -j RETURN"]
        lines += [
            f"-A {self._chain} -d {to}/32 -j NFQUEUE --queue-num {link.queue.number} --queue-bypass"
            for to, link in self._links.items()
        ]
        if first:
            lines += [f"-D POSTROUTING -j {self._chain}"] * self._jumps()
            lines += [f"-I POSTROUTING -j {self._chain}"]
        self._change([f":{self._chain} - [0:0]", *lines])

    def _remove_rules(self) -> None:
        if f"-N {self._chain}" in self._rules():
            jumps = [f"-D POSTROUTING -j {self._chain}"] * self._jumps()
            self._change([*jumps, f"-F {self._chain}", f"-X {self._chain}"])

    def _check_rules(self) -> None:
        """See that packets are led into exactly the queues of links with a fault: none where there is none."""
        with syscalls.inside(self._namespace, self._home):
            rules = self._rules()
        led = f"-A POSTROUTING -j {self._chain}" in rules
        there = sorted(rule for rule in rules if rule.startswith(f"-A {self._chain} ") and "NFQUEUE" in rule)
        queues = [int(word) for rule in there for word in _QUEUE_NUMBER.findall(rule)]
        wanted = sorted(link.queue.number for link in self._links.values())
        if sorted(queues) != wanted or led != bool(wanted):
            raise AgentError(
                f"{self._name}: {len(queues)} rules of chain {self._chain} (table mangle) lead to a queue instead of "
                f"{len(wanted)}, and packets are {'' if led else 'not '}led there: somebody else changes these rules"
            )

    def _jumps(self) -> int:
        return self._rules().count(f"-A POSTROUTING -j {self._chain}")

    def _rules(self) -> Sequence[str]:
        return run_tool([_iptables(), "-w", "-t", "mangle", "-S"], on=self._name).splitlines()

    def _change(self, lines: Sequence[str]) -> None:
        # -w waits for others who change rules meanwhile; without --noflush theirs would be gone.
        text = "\n".join(["*mangle", *lines, "COMMIT", ""])
        run_tool([_iptables("-restore"), "-w", "--noflush"], text, on=self._name)


def _iptables(suffix: str = "") -> str:
    """The one that speaks to nftables, where there is a choice: it needs no lock, which is beyond a plain user."""
    try:
        return find_tool(f"iptables-nft{suffix}", PACKAGES)
    except AgentError:
        return find_tool(f"iptables{suffix}", PACKAGES)


def _raw_socket() -> socket.socket:
    """A socket for whole packets that pass all queues."""
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    raw.setsockopt(socket.SOL_SOCKET, _SO_MARK, BYPASS_MARK)
    with contextlib.suppress(PermissionError):  # a plain user's namespace stays with net.core.wmem_max
        raw.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _SEND_BUFFER_BYTES)
    return raw


# --- whether it works here --------------------------------------------------------------------------------------------

_FROM: Final = "127.0.0.1"
_TO: Final = "127.0.0.2"
_WAITS_S: Final = 0.5


async def problem() -> str | None:
    """Why packets cannot be given faults here; None if they can: tried in a network namespace made for that."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        syscalls.unshare(syscalls.CLONE_NEWNET)
        namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    except OSError as error:
        os.close(home)
        return f"the kernel refuses a network namespace to try it in ({error.strerror})"
    syscalls.set_network_namespace(home)
    faults = PacketFaults("trial", namespace, home)
    try:
        return await _try_out(faults, namespace, home)
    except AgentError as error:
        return str(error)
    except OSError as error:
        return f"a system call failed: {error}"
    finally:
        with contextlib.suppress(AgentError):
            faults.remove()
        os.close(namespace)
        os.close(home)


async def _try_out(faults: PacketFaults, namespace: int, home: int) -> str | None:
    with syscalls.inside(namespace, home):
        run_tool([find_tool("ip"), "link", "set", "dev", "lo", "up"], on="trial")
        sender, receiver = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    with sender, receiver:
        for end, host in ((sender, _FROM), (receiver, _TO)):
            end.setblocking(False)
            end.bind((host, 0))
        faults.set({_TO: {"loss": 1.0}})
        sender.sendto(b"lost", receiver.getsockname())
        deadline_s = asyncio.get_running_loop().time() + _WAITS_S
        while not faults.counts()[_TO].get("lost") and asyncio.get_running_loop().time() < deadline_s:
            await asyncio.sleep(0.001)
        lost = faults.counts()[_TO].get("lost", 0)
        faults.set({})
        sender.sendto(b"passes", receiver.getsockname())
        try:
            arrived = receiver.recv(64)
        except BlockingIOError:
            return "a rule for NFQUEUE was removed, and packets still do not pass"
        return None if lost and arrived == b"passes" else "a rule for NFQUEUE hands no packets over here"

"""Two network namespaces joined by a wire, for tests of what happens to packets on it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import socket
import subprocess
from collections.abc import Generator

import pytest

from splitbrain.harness.backends.agent import packets, syscalls
from splitbrain.harness.backends.agent.packets import PacketFaults

SENDER = "10.77.0.1"
RECEIVER = "10.77.0.2"
OTHER = "10.77.0.3"
"""A second address of the receiver, for traffic that no fault concerns."""

WAITS_S = 60.0


class Wire:
    """A sender's and a receiver's namespace.

    Attributes:
        sender: a descriptor of the sender's namespace.
        home: a descriptor of the namespace of this process.
    """

    def __init__(self) -> None:
        self.home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        self.sender = self._namespace()
        self._receiver = self._namespace()
        peer = f"/proc/{os.getpid()}/fd/{self._receiver}"
        self.at_sender(
            f"ip link set lo up && ip link add w0 type veth peer name w0 netns {peer} "
            f"&& ip addr add {SENDER}/24 dev w0 && ip link set w0 up"
        )
        with syscalls.inside(self._receiver, self.home):
            _shell(f"ip addr add {RECEIVER}/24 dev w0 && ip addr add {OTHER}/24 dev w0 && ip link set w0 up")

    def _namespace(self) -> int:
        syscalls.unshare(syscalls.CLONE_NEWNET)
        found = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        syscalls.set_network_namespace(self.home)
        return found

    def close(self) -> None:
        for descriptor in (self.sender, self._receiver, self.home):
            os.close(descriptor)

    def at_sender(self, command: str) -> str:
        """What a shell command prints in the sender's namespace."""
        with syscalls.inside(self.sender, self.home):
            return _shell(command)

    def sends(self, kind: int = socket.SOCK_DGRAM) -> socket.socket:
        """A non-blocking socket of the sender."""
        with syscalls.inside(self.sender, self.home):
            return _bound(kind, SENDER)

    def receives(self, kind: int = socket.SOCK_DGRAM, host: str = RECEIVER) -> socket.socket:
        """A non-blocking socket of the receiver; one for streams listens."""
        with syscalls.inside(self._receiver, self.home):
            return _bound(kind, host)

    async def connected(self, host: str = RECEIVER) -> tuple[socket.socket, socket.socket]:
        """Both ends of a TCP connection that the sender dialled."""
        loop = asyncio.get_running_loop()
        with self.receives(socket.SOCK_STREAM, host) as listener:
            listener.listen()
            near = self.sends(socket.SOCK_STREAM)
            async with asyncio.timeout(WAITS_S):
                await loop.sock_connect(near, listener.getsockname())
                far, _ = await loop.sock_accept(listener)
        return near, far

    def rules(self) -> list[str]:
        """All rules and chains of the sender's namespace, without counters."""
        return self.at_sender("iptables -t mangle -S").splitlines()

    @contextlib.contextmanager
    def faults(self) -> Generator[PacketFaults]:
        """Faults for what the sender sends; taken away at the end."""
        faults = PacketFaults("sender", self.sender, self.home)
        try:
            yield faults
        finally:
            faults.remove()


def _bound(kind: int, host: str) -> socket.socket:
    found = socket.socket(socket.AF_INET, kind)
    found.setblocking(False)
    found.bind((host, 0))
    return found


def _shell(command: str) -> str:
    return subprocess.run(["sh", "-ec", command], check=True, capture_output=True, text=True, timeout=60).stdout


@functools.cache
def problem() -> str | None:
    """Why this process cannot give packets faults; None if it can."""
    return asyncio.run(packets.problem())


def skip_without_nfqueue() -> None:
    """Skip where it cannot work for want of rights, tools or kernel; in CI nothing may be wanting."""
    if (reason := problem()) is not None:
        if "CI" in os.environ:
            pytest.fail(f"packets cannot be given faults here: {reason}")
        pytest.skip(f"packets cannot be given faults here: {reason}")


async def received(end: socket.socket, count: int) -> list[bytes]:
    """The next datagrams, or pieces of a stream."""
    async with asyncio.timeout(WAITS_S):
        return [await asyncio.get_running_loop().sock_recv(end, 65536) for _ in range(count)]


async def until_silent(end: socket.socket, quiet_s: float = 0.3) -> list[bytes]:
    """All datagrams that come until none has come for a while."""
    found: list[bytes] = []
    with contextlib.suppress(TimeoutError):
        while True:
            async with asyncio.timeout(quiet_s):
                found.append(await asyncio.get_running_loop().sock_recv(end, 65536))
    return found

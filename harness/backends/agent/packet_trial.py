"""Whether packets can be given faults on this machine: found by trying, in a network namespace made for that."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import Final

from . import syscalls
from .errors import AgentError
from .packets import PacketFaults
from .tools import find_tool, run_tool

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

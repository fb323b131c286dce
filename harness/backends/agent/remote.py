"""The agent on a host that is reached over ssh: `sudo python3 -I -S -c ... DIRECTORY MARKER`.

It lives as long as the ssh channel whose ends are its standard input and output, and no longer than QUIET_S without a
word from its controller: a controller that lost its network cannot say goodbye. With it go its node and its rules.
Where the kernel allows, it lives in PID and mount namespaces of its own, so that the kernel ends whatever the node has
become.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import signal
import traceback
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NoReturn

from . import syscalls
from .errors import AgentError
from .host import Host, take_lock
from .lines import Lines
from .processes import Processes

QUIET_S = 45.0
STOP_GRACE_S = 1.0
LOG_BYTES_SHOWN = 8192

Handler = Callable[..., Awaitable[Any]]


def main(argv: Sequence[str]) -> NoReturn:
    """Run the agent of the run whose directory on this host is `argv[0]`; `argv[1]` marks it as somebody's process."""
    home = argv[0]
    syscalls.signal_on_parent_death(signal.SIGTERM)
    if not isolate():
        syscalls.adopt_orphans()
    asyncio.run(_RemoteAgent(Lines(), home).serve())
    os._exit(0)


def isolate() -> bool:
    """Move into PID and mount namespaces of their own; whether the kernel allowed it.

    Returns in the first process of the namespace, while the caller waits outside for its end.
    """
    trial = os.fork()
    if trial == 0:
        try:
            _enter_namespaces()
        except OSError:
            os._exit(1)
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(trial, 0)[1]) != 0:
        return False
    _enter_namespaces()
    return True


def _enter_namespaces() -> None:
    syscalls.unshare(syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNS)
    first = os.fork()
    if first != 0:
        os.closerange(0, 3)  # the pipes end with the agent, not with who waits for it
        os._exit(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]) & 0xFF)
    syscalls.signal_on_parent_death(signal.SIGKILL)
    syscalls.mount_own_proc()


class _RemoteAgent:
    """Serves one controller, and runs one node for it."""

    def __init__(self, lines: Lines, home: str) -> None:
        self._lines = lines
        self._home = home
        self._data = os.path.join(home, "data")
        self._log = os.path.join(home, "log")
        self._host: Host | None = None
        self._processes: Processes | None = None
        self._over = asyncio.Event()
        self._heard_at = 0.0
        self._tasks: list[asyncio.Task[None]] = []

    async def serve(self) -> None:
        """Answer requests until the channel ends, the controller asks for the end, or stays quiet for too long."""
        if not take_lock(os.open(self._home, os.O_RDONLY)):  # whoever sweeps sees by it that the directory is in use
            raise AgentError(f"another agent lives in {self._home}")
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._over.set)
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        self._heard_at = loop.time()
        self._lines.attach(self._receive, self._over.set)
        while not self._over.is_set() and loop.time() - self._heard_at < QUIET_S:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._over.wait()
        if self._processes is not None:
            self._processes.kill_all()
        if self._host is not None:
            await self._host.remove()

    def _reap(self) -> None:
        if self._processes is not None:
            self._processes.reap()

    def _receive(self, line: bytes) -> None:
        loop = asyncio.get_running_loop()
        self._heard_at = loop.time()
        self._tasks = [task for task in self._tasks if not task.done()]
        self._tasks.append(loop.create_task(self._answer(json.loads(line))))

    async def _answer(self, request: dict[str, Any]) -> None:
        number, name = request.pop("id"), request.pop("op")
        try:
            reply = {"id": number, "ok": await self._handler(name)(**request)}
        except AgentError as error:
            reply = {"id": number, "error": str(error)}
        except Exception as error:
            traceback.print_exc()
            reply = {"id": number, "error": f"{name}: {type(error).__name__}: {error}"}
        try:
            self._lines.send(json.dumps(reply).encode())
        except OSError:
            self._over.set()
        if name == "stop":
            self._over.set()

    def _handler(self, name: str) -> Handler:
        handlers: dict[str, Handler] = {"lay_out": self._lay_out, "log_end": self._log_end}
        if self._processes is not None and self._host is not None:
            processes, host = self._processes, self._host
            handlers |= {
                "lay_files": self._lay_files,
                "start": self._start,
                "kill": processes.kill,
                "pause": processes.pause,
                "resume": processes.resume,
                "status": self._status,
                "cut": host.cut,
                "dropped": host.dropped,
                "send_probes": host.send_probes,
                "heard_probes": host.heard_probes,
                "alive": host.refresh,
                "stop": self._stop,
            }
        if name not in handlers:
            raise AgentError(f"the agent cannot {name!r} now")
        return handlers[name]

    async def _lay_out(self, node: str, addresses: dict[str, str], port: int) -> None:
        os.makedirs(self._data, exist_ok=True)
        host = Host(node, addresses, port)
        await host.lay_out()
        self._host = host
        self._processes = Processes({node: port}, host.enter)

    async def _lay_files(self, files: dict[str, str]) -> None:
        """Write files (base64) by their paths below the data directory."""
        for name, content in files.items():
            path = os.path.join(self._data, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(base64.b64decode(content))

    async def _start(self, name: str, argv: list[str], env: dict[str, str]) -> dict[str, Any]:
        assert self._processes is not None
        logged = os.stat(self._log).st_size if os.path.exists(self._log) else 0
        status = await self._processes.start(name, argv, env, self._home, self._log)
        if "failed" in status:
            status["log"] = await self._log_end(logged)
        return status

    async def _status(self, name: str) -> dict[str, Any]:
        assert self._processes is not None
        return self._processes.status(name)

    async def _log_end(self, start: int = 0) -> str:
        """The end of what the node logged from a position on."""
        try:
            with open(self._log, "rb") as file:
                file.seek(max(start, os.fstat(file.fileno()).st_size - LOG_BYTES_SHOWN))
                return file.read().decode(errors="replace")
        except FileNotFoundError:
            return ""

    async def _stop(self) -> None:
        assert self._processes is not None
        await self._processes.stop_all(STOP_GRACE_S)

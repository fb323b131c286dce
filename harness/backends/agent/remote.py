"""The agent on a host that is reached over ssh: `sudo python3 -I -S -c ... DIRECTORY serve|look ...`.

It lives as long as the ssh channel whose ends are its standard input and output, and no longer than QUIET_S without a
word from its controller: a controller that lost its network cannot say goodbye. With it go its node and its rules.
If the kernel allows it, it has its own PID and mount namespaces, so that the kernel ends all processes of the node.

Requests and answers are JSON objects, one a line.
"""

from __future__ import annotations

import asyncio
import contextlib
import glob
import json
import os
import signal
import subprocess
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from . import cgroups, packets, syscalls, volumes
from .freezer import Freezer
from .host import Host, take_lock
from .node_faults import NodeFaults
from .processes import Processes
from .programs import out_of_reach
from .tools import AgentError

QUIET_S = 45.0
STOP_GRACE_S = 1.0
LOG_BYTES_SHOWN = 32768
GROUPS = "splitbrain-host"
"""How the names of control groups begin. Who holds the host may remove all of them."""
PROBE_ENDS_WITHIN_S = 10.0
HOME_IS_FREE_WITHIN_S = 3.0
_POLL_S = 0.02

Handler = Callable[..., Awaitable[Any]]


def main(argv: Sequence[str]) -> NoReturn:
    """Run the agent of the run whose directory on this host is `argv[0]`; or report the faults that the host supports.

    `DIRECTORY serve MARKER` serves its owner; `DIRECTORY look PATTERN...` prints what `look` found.
    """
    home, what, *rest = argv
    if what == "look":
        print(json.dumps(asyncio.run(look(rest))), flush=True)
        os._exit(0)
    syscalls.signal_on_parent_death(signal.SIGTERM)
    freezer = Freezer()  # before the namespaces that end with this process
    if not isolate(freezer):
        syscalls.adopt_orphans()
    asyncio.run(_RemoteAgent(Lines(), home, freezer).serve())
    os._exit(0)


async def look(libraries: Sequence[str]) -> dict[str, str | None]:
    """What keeps faults of packets, file systems and processors from this host, None where nothing does.

    And "library", the first file that one of the patterns matches: libfaketime.
    """
    found = (path for pattern in libraries for path in sorted(glob.glob(pattern)))
    return {
        "packets": await packets.problem(),
        "volumes": volumes.problem(),
        "processors": cgroups.problem(),
        "library": next(found, None),
    }


def isolate(freezer: Freezer) -> bool:
    """Move into PID and mount namespaces of their own; whether the kernel allowed it.

    Returns in the first process of the namespace, while the caller lets go of what belongs to it and waits for its end.
    """
    # First in a child: a process cannot leave namespaces again, and the kernel may refuse what comes after them.
    trial = os.fork()
    if trial == 0:
        try:
            _enter_namespaces(freezer)
        except OSError:
            os._exit(1)
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(trial, 0)[1]) != 0:
        return False
    _enter_namespaces(freezer)
    return True


def _enter_namespaces(freezer: Freezer) -> None:
    syscalls.unshare(syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNS)
    first = os.fork()
    if first != 0:
        os.closerange(0, 3)  # the pipes end with the agent, not with who waits for it
        freezer.close()
        os._exit(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]) & 0xFF)
    syscalls.signal_on_parent_death(signal.SIGKILL)
    syscalls.mount_own_proc()
    syscalls.mount_own_shared_memory()


class _RemoteAgent:
    """Serves one controller, and runs one node for it."""

    def __init__(self, lines: Lines, home: str, freezer: Freezer) -> None:
        self._lines = lines
        self._home = home
        self._data = os.path.join(home, "data")
        self._log = os.path.join(home, "log")
        self._faults = NodeFaults(GROUPS, self._members, freezer)
        self._host: Host | None = None
        self._processes: Processes | None = None
        self._over = asyncio.Event()
        self._heard_at = 0.0
        self._tasks: list[asyncio.Task[None]] = []

    async def serve(self) -> None:
        """Answer requests until the channel ends, the controller asks for the end, or stays quiet for too long."""
        await self._take_home()
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
        try:
            self._faults.close()
        finally:
            if self._host is not None:
                await self._host.remove()

    async def _take_home(self) -> None:
        """Hold the lock of the run's directory: a sweep sees by it that the directory is in use.

        Who looks whether it is held holds it himself for an instant.
        """
        home = os.open(self._home, os.O_RDONLY)
        deadline = time.monotonic() + HOME_IS_FREE_WITHIN_S
        while not take_lock(home):
            if time.monotonic() > deadline:
                raise AgentError(f"another agent lives in {self._home}")
            await asyncio.sleep(_POLL_S)

    def _members(self, node: str) -> Iterable[int]:
        return () if self._processes is None else self._processes.members(node)

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
        handlers: dict[str, Handler] = {
            "lay_out": self._lay_out,
            "log_end": self._log_end,
            "out_of_reach": self._out_of_reach,
            "write_clock": self._write_clock,
            "look_at_clock": self._look_at_clock,
            "clocks": self._clocks,
        }
        if self._processes is not None and self._host is not None:
            processes, host = self._processes, self._host
            handlers |= {
                "start": self._start,
                "kill": processes.kill,
                "stop_node": processes.stop,
                "pause": processes.pause,
                "resume": processes.resume,
                "status": self._status,
                "cut": host.cut,
                "dropped": host.dropped,
                "disturb": host.disturb,
                "disturbed": host.disturbed,
                "send_probes": host.send_probes,
                "heard_probes": host.heard_probes,
                "alive": host.refresh,
                "stop": self._stop,
                **self._faults.handlers(),
            }
        if name not in handlers:
            raise AgentError(f"the agent cannot {name!r} now")
        return handlers[name]

    async def _lay_out(self, node: str, addresses: dict[str, str], port: int) -> None:
        os.makedirs(self._data, exist_ok=True)
        host = Host(node, addresses, port)
        await host.lay_out()
        self._host = host
        cgroups.sweep(lambda name: name.startswith(f"{GROUPS}."))  # the host is ours alone: they were left behind
        self._processes = Processes({node: port}, self._faults.enter)

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

    async def _out_of_reach(self, program: str) -> str | None:
        """Why libfaketime does not reach a program, None if it does."""
        return out_of_reach(program)

    async def _write_clock(self, text: str) -> None:
        """Say in the file that libfaketime reads what the node's clock shows."""
        scratch = f"{self._home}/clock.new"
        with open(scratch, "w") as file:
            file.write(text)
        os.replace(scratch, f"{self._home}/clock")

    async def _look_at_clock(self, argv: list[str], env: Mapping[str, str]) -> dict[str, Any]:
        """What a probe sees that runs like the node, and what this host's true clocks show, in nanoseconds."""

        def run() -> str:
            done = subprocess.run(
                argv,
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=PROBE_ENDS_WITHIN_S,
            )
            return done.stdout

        try:
            said = await asyncio.to_thread(run)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise AgentError(f"the clock cannot be looked at: {error}") from None
        return {"said": said, "real_ns": time.time_ns() - time.monotonic_ns(), "monotonic_ns": time.monotonic_ns()}

    async def _clocks(self) -> dict[str, int]:
        """What this host's monotonic and wall clocks show, in nanoseconds."""
        return {"mono_ns": time.monotonic_ns(), "wall_ns": time.time_ns()}

    async def _stop(self) -> None:
        assert self._processes is not None
        await self._processes.stop_all(STOP_GRACE_S)
        self._faults.close()


# --- the wire ---------------------------------------------------------------------------------------------------------

LINE_BYTES = 16 << 20
"""The longest request: it may carry a node's files."""
_READ_BYTES = 1 << 16


class Lines:
    """Standard input and output, taken over.

    What else this process prints goes to standard error from now on, and no child of it holds either pipe.
    """

    def __init__(self) -> None:
        self._input = os.dup(0)
        self._output = os.dup(1)
        os.dup2(2, 1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)

    def attach(self, take: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        """Hand every line to `take` from now on, and call `ended` once when no more can come."""
        loop = asyncio.get_running_loop()
        begun = bytearray()

        def receive() -> None:
            try:
                data = os.read(self._input, _READ_BYTES)
            except OSError:
                data = b""
            begun.extend(data)
            if not data or len(begun) > LINE_BYTES:
                loop.remove_reader(self._input)
                ended()
                return
            if b"\n" in data:
                *lines, rest = bytes(begun).split(b"\n")
                begun[:] = rest
                for line in lines:
                    take(line)

        loop.add_reader(self._input, receive)

    def send(self, line: bytes) -> None:
        """Send a line. The controller reads all the time, so that the pipe does not stay full.

        Raises:
            OSError: the other side is gone.
        """
        rest = memoryview(line + b"\n")
        while rest:
            rest = rest[os.write(self._output, rest) :]

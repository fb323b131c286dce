"""The controller's end of an agent: it starts one, asks it, and sees to its end."""

from __future__ import annotations

import array
import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from splitbrain.harness.backends import agent as agent_package
from splitbrain.harness.backends.shared import ownership
from splitbrain.results.errors import BackendError

ANSWERS_WITHIN_S = 15.0
"""More than an agent waits for a tool (10 s), so that its reason comes first."""
ENDS_WITHIN_S = 5.0
PROBE_ENDS_WITHIN_S = 20.0

_MESSAGE_BYTES = 1 << 20
_BUFFER_BYTES = 4 << 20
_ANCILLARY_BYTES = socket.CMSG_SPACE(16 * array.array("i").itemsize)
_RUN_AGENT = "import sys; sys.path.append(sys.argv.pop(1)); from agent.main import main; main(sys.argv[1:])"


def agent_command(*arguments: str) -> list[str]:
    """How to run an agent that belongs to this process."""
    here = str(Path(agent_package.__path__[0]).parent)
    marker = ownership.this_controller().marker
    return [sys.executable, "-I", "-S", "-c", _RUN_AGENT, here, marker, *arguments]


def probe_namespaces() -> str | None:
    """Try namespaces, a bridge, a cut and a probe in a throw-away agent; None if all works, else what does not."""
    return _tried("probe")


def probe_packets() -> str | None:
    """Try faults of packets in namespaces of a throw-away agent; None if they work, else what does not."""
    return _tried("probe packets")


def _tried(what: str) -> str | None:
    try:
        done = subprocess.run(
            agent_command(what),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PROBE_ENDS_WITHIN_S,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return f"the trial did not end within {PROBE_ENDS_WITHIN_S:g} s"
    if done.returncode == 0:
        return None
    return _last_line(done.stderr) or f"the trial ended with code {done.returncode}"


class Asked(Protocol):
    """An agent, wherever it runs: it is asked for something, and answers."""

    async def ask(self, op: str, **arguments: Any) -> Any:
        """Ask the agent for something and return its answer.

        Raises:
            BackendError: it could not, did not answer in time, or is gone.
        """
        ...


class Agent:
    """A running agent. Use it from the event loop in which it was started."""

    def __init__(self, process: subprocess.Popen[bytes], channel: socket.socket, errors: IO[bytes]) -> None:
        self._process = process
        self._channel = channel
        self._errors = errors
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, asyncio.Future[tuple[Any, list[socket.socket]]]] = {}
        self._last = 0
        self._problem: str | None = None
        self._loop.add_reader(channel, self._receive)

    @classmethod
    def start(cls, links: str) -> Agent:
        """Start an agent whose life is bound to the calling thread's."""
        # Packets, not a stream: a request is read whole, and sockets stay with the answer that they belong to.
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs:
            for end in (ours, theirs):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
            errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the agent
            process = subprocess.Popen(
                agent_command(links, str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # an interrupt from the terminal is for the controller, which ends the agent
                env={**os.environ, ownership.MARKER_VARIABLE: ownership.this_controller().marker},
            )
        return cls(process, ours, errors)

    @property
    def pid(self) -> int:
        """The pid of the agent's first process, as the controller sees it."""
        return self._process.pid

    @property
    def gone(self) -> bool:
        """Whether it has ended, and everything that lived in it."""
        return self._problem is not None

    async def ask(self, op: str, **arguments: Any) -> Any:
        """Ask the agent for something and return its answer.

        Raises:
            BackendError: it could not, did not answer in time, or is gone.
        """
        answer, unexpected = await self._ask(op, arguments)
        _close(unexpected)
        return answer

    async def ask_for_socket(self) -> socket.socket:
        """A socket that the agent opened."""
        _, sockets = await self._ask("socket", {})
        if len(sockets) != 1:
            _close(sockets)
            raise BackendError(f"the backend's agent sent {len(sockets)} sockets instead of one.")
        return sockets[0]

    async def _ask(self, op: str, arguments: dict[str, Any]) -> tuple[Any, list[socket.socket]]:
        if self._problem is not None:
            raise BackendError(self._problem)
        self._last += 1
        number = self._last
        try:
            self._channel.send(json.dumps({"id": number, "op": op, **arguments}).encode())
        except OSError as error:
            raise BackendError(f"the backend's agent does not take {op!r}: {error.strerror}.") from None
        future = self._waiting[number] = self._loop.create_future()
        try:
            async with asyncio.timeout(ANSWERS_WITHIN_S):
                return await _taken(future)
        except TimeoutError:
            raise BackendError(
                f"the backend's agent (process {self.pid}) did not answer {op!r} within {ANSWERS_WITHIN_S:g} s."
            ) from None
        finally:
            self._waiting.pop(number, None)

    def _receive(self) -> None:
        try:
            packet, ancillary, _, _ = self._channel.recvmsg(_MESSAGE_BYTES, _ANCILLARY_BYTES)
        except BlockingIOError:
            return
        except OSError:
            packet, ancillary = b"", []
        sockets = _received_sockets(ancillary)
        if not packet:
            self._fail("the backend's agent ended unexpectedly")
            return
        reply = json.loads(packet)
        future = self._waiting.pop(reply["id"], None)
        if reply["id"] == 0:
            self._fail(reply["error"])
        elif future is None or future.done():
            _close(sockets)
        elif "error" in reply:
            future.set_exception(BackendError(f"{reply['error']}."))
        else:
            future.set_result((reply["ok"], sockets))

    def _fail(self, problem: str) -> None:
        self._loop.remove_reader(self._channel)
        self._errors.seek(0)
        said = _last_line(self._errors.read().decode(errors="replace"))
        self._problem = f"{problem}{f' ({said})' if said else ''}."
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(BackendError(self._problem))

    async def close(self) -> None:
        """End the agent, and with it everything that lives in it; returns when it is gone."""
        self._loop.remove_reader(self._channel)
        self._channel.close()
        self._problem = self._problem or "the deployment is closed."
        if self._process.returncode is None and not await self._ended(ENDS_WITHIN_S):
            self._process.kill()
            await self._ended(ENDS_WITHIN_S)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=0)
        self._errors.close()

    async def _ended(self, within_s: float) -> bool:
        pidfd = os.pidfd_open(self._process.pid)
        ended = asyncio.Event()
        self._loop.add_reader(pidfd, ended.set)
        try:
            async with asyncio.timeout(within_s):
                await ended.wait()
        except TimeoutError:
            return False
        finally:
            self._loop.remove_reader(pidfd)
            os.close(pidfd)
        return True


async def _taken(answer: asyncio.Future[tuple[Any, list[socket.socket]]]) -> tuple[Any, list[socket.socket]]:
    try:
        return await answer
    except asyncio.CancelledError:
        # The answer can be there already when its request is cancelled or times out: its sockets have no owner then.
        if answer.done() and not answer.cancelled() and answer.exception() is None:
            _close(answer.result()[1])
        raise


def _close(unclaimed: Sequence[socket.socket]) -> None:
    for each in unclaimed:
        each.close()


def _received_sockets(ancillary: list[tuple[int, int, bytes]]) -> list[socket.socket]:
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    return [socket.socket(fileno=descriptor) for descriptor in descriptors]


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""

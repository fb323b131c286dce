"""The controller's end of an agent on a host: lines of JSON over a channel of the ssh connection."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final

import paramiko

from splitbrain.harness.backends.ssh.connection import Connection, HostError

ANSWERS_WITHIN_S: Final = 20.0
ENDS_WITHIN_S: Final = 8.0
_CHUNK_BYTES: Final = 1 << 16
_RUN_AGENT: Final = "import sys; sys.path.append(sys.argv[1]); from agent.remote import main; main(sys.argv[1:])"


AS_ROOT: Final = '$([ "$(id -u)" = 0 ] || echo sudo -n)'
"""What turns a shell command into one of root's: nothing for root."""


def agent_command(home: str, marker: str) -> str:
    """The shell command that runs the agent which lies in a directory of a host."""
    return f"exec {_run(home)} serve {marker}"


def look_command(home: str) -> str:
    """The shell command that reports, by the agent in a directory of a host, which faults the host supports.

    It takes patterns of the files that can be libfaketime.
    """
    return f"exec {_run(home)} look"


def _run(home: str) -> str:
    return f"{AS_ROOT} python3 -I -S -c '{_RUN_AGENT}' {home}"


class RemoteAgent:
    """An agent on a host. Use it from the event loop in which it was started.

    Args:
        connection: to the host.
        channel: to the agent's standard input and output.
        executor: for what blocks.
        complain: called with what the agent prints on its standard error.

    Attributes:
        answers: whether it answered in time when it was asked last.
    """

    def __init__(
        self, connection: Connection, channel: paramiko.Channel, executor: Executor, complain: Callable[[str], None]
    ) -> None:
        self._host = connection.host
        self._channel = channel
        self._executor = executor
        self._complain = complain
        self._loop = asyncio.get_running_loop()
        self._sending = asyncio.Lock()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._begun = b""
        self._errors = b""
        self._last = 0
        self._problem: str | None = None
        self.answers = True
        self._ended = asyncio.Event()
        channel.settimeout(ANSWERS_WITHIN_S)
        self._readable = channel.fileno()
        self._loop.add_reader(self._readable, self._receive)

    async def ask(self, op: str, **arguments: Any) -> Any:
        """Ask the agent for something and return its answer.

        Raises:
            HostError: it could not, did not answer in time, or is gone.
        """
        if self._problem is not None:
            raise HostError(self._host, self._problem)
        self._last += 1
        number = self._last
        future = self._waiting[number] = self._loop.create_future()
        line = json.dumps({"id": number, "op": op, **arguments}).encode() + b"\n"
        try:
            async with asyncio.timeout(ANSWERS_WITHIN_S):
                async with self._sending:
                    await self._loop.run_in_executor(self._executor, self._channel.sendall, line)
                return await future
        except TimeoutError:
            self.answers = False
            raise HostError(self._host, f"the agent did not answer {op!r} within {ANSWERS_WITHIN_S:g} s.") from None
        except OSError:
            async with asyncio.timeout(1.0):  # the reader learns at once why
                with contextlib.suppress(TimeoutError):
                    await self._ended.wait()
            raise HostError(self._host, self._problem or f"the agent does not take {op!r}.") from None
        finally:
            self._waiting.pop(number, None)

    def _receive(self) -> None:
        # paramiko's descriptor shows that data arrived, on either stream; neither call waits then.
        while self._channel.recv_stderr_ready():
            self._errors = (self._errors + self._channel.recv_stderr(_CHUNK_BYTES))[-_CHUNK_BYTES:]
        while self._channel.recv_ready():
            *lines, self._begun = (self._begun + self._channel.recv(_CHUNK_BYTES)).split(b"\n")
            for line in lines:
                self._take(line)
        if self._channel.closed or self._channel.eof_received:
            self._fail()

    def _take(self, line: bytes) -> None:
        reply = json.loads(line)
        self.answers = True
        future = self._waiting.get(reply["id"])
        if future is None or future.done():
            return
        if "error" in reply:
            future.set_exception(HostError(self._host, f"{reply['error']}."))
        else:
            future.set_result(reply["ok"])

    def _fail(self) -> None:
        self._loop.remove_reader(self._readable)
        said = [line.strip() for line in self._errors.decode(errors="replace").splitlines() if line.strip()]
        for line in said:
            self._complain(line)
        why = f" ({said[-1][:300]})" if said else ""
        self._problem = self._problem or f"the agent ended, or the connection to it{why}."
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(HostError(self._host, self._problem))
        self._ended.set()

    async def close(self) -> bool:
        """End the agent by closing its standard input; whether it was seen to end."""
        self._problem = self._problem or "the deployment is closed."
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            await self._loop.run_in_executor(self._executor, self._channel.shutdown_write)
        try:
            async with asyncio.timeout(ENDS_WITHIN_S):
                await self._ended.wait()
                # Its pipes are closed a moment before the process is gone.
                await self._loop.run_in_executor(self._executor, self._channel.status_event.wait, ENDS_WITHIN_S)
        except TimeoutError:
            self._loop.remove_reader(self._readable)
            return False
        finally:
            self._channel.close()
        return True

"""What a run has on one host: a directory, and an agent that lives in it.

The directory is created, fetched from, removed, and distinguished from those that others left behind. The agent is
asked by lines of JSON over a channel of the ssh connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import shlex
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Final

import msgspec
import paramiko

from splitbrain.harness.backends import agent as agent_package
from splitbrain.harness.backends.shared import ownership
from splitbrain.harness.backends.ssh.connection import Connection, HostError

# --- the directory ----------------------------------------------------------------------------------------------------

DIRECTORIES: Final = "/var/tmp/splitbrain-"
"""How the directories of runs begin on a host: on its disk, not in memory."""
UPLOADS_WITHIN_S: Final = 120.0
ABANDONED_AFTER_S: Final = 3600.0
"""A directory in which no agent lives is left alone for so long if its owner cannot be asked: it may be about to."""
_COLLECTED: Final = ("log", "data")


class Leftover(msgspec.Struct, frozen=True):
    """The directory of an earlier run, or of another that goes on."""

    path: str
    owner: str
    in_use: bool
    age_s: float


def upload(connection: Connection, uploads: Mapping[str, Path]) -> str:
    """Lay the agent and the system's files into a fresh directory on a host; its path there.

    Raises:
        HostError: it could not be done.
    """
    command = (
        f'umask 022; home=$(mktemp -d {DIRECTORIES}XXXXXXXXXX) && tar -xzf - -C "$home" --no-same-owner '
        '&& printf %s "$home"'
    )
    done = connection.run(command, _archive(uploads), UPLOADS_WITHIN_S)
    if done.code != 0 or not done.output.startswith(DIRECTORIES):
        said = " ".join(done.errors.split())[-300:]
        raise HostError(connection.host, f"the files cannot be laid out there (code {done.code}): {said}.")
    return done.output


def _archive(uploads: Mapping[str, Path]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        marked = tarfile.TarInfo("owner")
        text = ownership.this_controller().marker.encode()
        marked.size = len(text)
        archive.addfile(marked, io.BytesIO(text))
        for name, path in {"agent": Path(agent_package.__path__[0]), **uploads}.items():
            archive.add(path.resolve(), name, filter=_packed)
    return packed.getvalue()


def _packed(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if "__pycache__" in entry.name.split("/"):
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def collect(connection: Connection, home: str, into: Path) -> None:
    """Fetch the node's log and data from a host.

    Raises:
        HostError: they could not be read, or what came is no archive.
    """
    with tempfile.TemporaryFile() as packed:
        # tar fails for a name that is not there, and a node that was never started has no log.
        command = f"cd {shlex.quote(home)} && {AS_ROOT} tar -cf - $(ls -d {' '.join(_COLLECTED)} 2>/dev/null)"
        done = connection.fetch(command, packed)
        if done.code != 0:
            said = " ".join(done.errors.split())[-300:]
            raise HostError(connection.host, f"log and data cannot be fetched (code {done.code}): {said}.")
        packed.seek(0)
        try:
            with tarfile.open(fileobj=packed) as archive:
                _unpack(archive, into)
        except (tarfile.TarError, OSError) as error:
            raise HostError(connection.host, f"log and data came broken: {error}.") from None


def _unpack(archive: tarfile.TarFile, into: Path) -> None:
    """Create plain files and folders, readable by the user of the test; a host cannot create anything else here.

    By hand, because the filters of `tarfile` came in the middle of Python 3.11 (3.11.4, PEP 706). No link is ever made,
    so none can lead a later entry astray.

    Raises:
        TarError: an entry has a place that was not asked for.
    """
    for entry in archive:
        if not (entry.isreg() or entry.isdir()):
            continue
        top, *below = entry.name.rstrip("/").split("/")
        if top not in _COLLECTED or not {"", ".", ".."}.isdisjoint(below):
            raise tarfile.ReadError(f"{entry.name!r} was not asked for")
        path = into.joinpath(top, *below)
        if entry.isdir():
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        packed = archive.extractfile(entry)
        assert packed is not None, "it is a plain file"
        with packed, path.open("wb") as file:
            shutil.copyfileobj(packed, file)
        os.utime(path, (entry.mtime, entry.mtime))


def remove(connection: Connection, home: str) -> None:
    """Remove the directory of a run from a host.

    Raises:
        HostError: it could not be removed.
    """
    assert home.startswith(DIRECTORIES), home
    assert "/" not in home.removeprefix(DIRECTORIES), home
    # The file system of a node that is still mounted there is not to be emptied.
    done = connection.run(f"{AS_ROOT} rm -rf --one-file-system -- {shlex.quote(home)}")
    if done.code != 0:
        raise HostError(connection.host, f"{home} cannot be removed: {' '.join(done.errors.split())[-300:]}.")


def is_abandoned(leftover: Leftover) -> bool:
    """Whether the run of a directory is over: no agent lives in it, and its controller is dead.

    Agents end with their channel. A controller on another machine cannot be asked, and an upload that broke off does
    not name one: such a directory counts as abandoned when it has lain there for ABANDONED_AFTER_S.
    """
    if leftover.in_use:
        return False
    controller = ownership.parse(leftover.owner)
    if controller is not None and controller.here:
        return controller.gone
    return leftover.age_s > ABANDONED_AFTER_S


# --- the agent --------------------------------------------------------------------------------------------------------

ANSWERS_WITHIN_S: Final = 20.0
"""More than an agent waits for a tool (10 s), so that its reason comes first."""
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

"""The runtime of a node on the operating system: its clock, entropy, TCP sockets, directory and event loop.

Syncing a file takes as long as the disk likes, so it happens in a worker thread: the loop meanwhile goes on answering
heartbeats, and a slow disk does not look like a dead node.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from splitbrain.cluster.errors import StorageError
from splitbrain.cluster.marks import heard
from splitbrain.cluster.runtime import Address, Connection, Runtime, Timer
from splitbrain.cluster.stream import StreamConnection

USER_TIMEOUT_MS: Final = 2000
"""After so long without an acknowledgement the kernel gives a connection up (TCP_USER_TIMEOUT).

A cut link swallows packets silently, and the kernel doubles its retransmission time-out meanwhile: after a cut of ten
seconds a stream may stay silent for as much as ten more after the heal. Given up after two seconds, it is replaced
by a fresh connection (see `splitbrain.cluster.peers`), whose first packet goes out at once. Until then the time-out has
doubled to 0.8 s at most, which bounds the silence after a shorter cut.
"""

CONNECT_TIMEOUT_S: Final = 1.0
"""How long an attempt to connect holds a socket. Over a cut link the kernel would go on for two minutes, and a
node that dials again twice a second would run out of file descriptors."""

_BACKLOG: Final = 256
_SCRATCH_SUFFIX: Final = ".new"


class RealClock:
    """The machine's clocks and the event loop's timers.

    Args:
        loop: whose timers these are.
        failed: called with what a timer's callback raised; None to let the loop report it.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, failed: Callable[[BaseException], object] | None = None
    ) -> None:
        self._loop = loop
        self._failed = failed

    def monotonic_ns(self) -> int:
        """Nanoseconds since an arbitrary start."""
        return time.monotonic_ns()

    def wall_ns(self) -> int:
        """Nanoseconds since the Unix epoch."""
        return time.time_ns()

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> Timer:
        """Run `callback` after `delay_ns`; what it raises is handed to `failed`."""
        return self._loop.call_later(delay_ns / 1e9, self._ring, callback)

    def _ring(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as error:
            # The loop would log it and go on: the node with it, whatever was left half done.
            if self._failed is None:
                raise
            self._failed(error)

    async def sleep(self, delay_ns: int) -> None:
        """Suspend the calling task."""
        await asyncio.sleep(delay_ns / 1e9)


class RealRng:
    """A stream that the operating system's entropy seeds."""

    def __init__(self) -> None:
        self._random = random.Random()

    def between(self, low: int, high: int) -> int:
        """A whole number in [low, high]."""
        return self._random.randint(low, high)


class RealNetwork:
    """TCP, with Nagle's algorithm off: a consensus message is small and waited for."""

    def __init__(self, loop: asyncio.AbstractEventLoop, spawn: Callable[[Awaitable[None], str], None]) -> None:
        self._loop = loop
        self._spawn = spawn
        self._servers: list[asyncio.Server] = []

    async def connect(self, address: Address) -> Connection:
        """Open a connection.

        Raises:
            ConnectionRefusedError: no process listens there.
            ConnectionError: it could not be reached, or not in time.
        """
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                transport, connection = await self._loop.create_connection(StreamConnection, *address)
        except TimeoutError as error:
            raise ConnectionError(f"{address[0]}:{address[1]}: no answer within {CONNECT_TIMEOUT_S:g} s") from error
        except ConnectionRefusedError as error:
            raise ConnectionRefusedError(f"{address[0]}:{address[1]}: {error}") from error
        except (OSError, ValueError) as error:  # ValueError: the name of a host that cannot be one
            raise ConnectionError(f"{address[0]}:{address[1]}: {error}") from error
        _tune(transport)
        return connection

    async def listen(self, address: Address, accept: Callable[[Connection], Awaitable[None]]) -> None:
        """Serve `address` until `close`.

        Raises:
            OSError: the address is taken, or not of this machine.
        """

        def opened(connection: StreamConnection) -> None:
            self._spawn(accept(connection), "accept")

        def accepted() -> StreamConnection:
            return _Accepted(opened)

        server = await self._loop.create_server(accepted, *address, backlog=_BACKLOG, reuse_address=True)
        self._servers.append(server)

    def close(self) -> None:
        """Stop listening."""
        for server in self._servers:
            server.close()


class _Accepted(StreamConnection):
    """The accepting end of a connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        _tune(transport)
        super().connection_made(transport)


def _tune(transport: asyncio.BaseTransport) -> None:
    sock: socket.socket | None = transport.get_extra_info("socket")
    assert sock is not None
    # A peer that is gone already cannot be tuned; the loss of the connection is reported by the next receive.
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_MS)


@contextlib.contextmanager
def _naming(path: Path) -> Generator[None]:
    """Adds the path to an OSError: an error about a descriptor does not say which disk is full."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


class RealFile:
    """An append-only file."""

    def __init__(self, path: Path, in_worker: InWorker) -> None:
        self._path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._in_worker = in_worker

    def append(self, data: bytes) -> None:
        """Hand `data` to the operating system."""
        rest = memoryview(data)
        with _naming(self._path):
            while rest:
                rest = rest[os.write(self._fd, rest) :]

    async def sync(self) -> None:
        """Make what was appended before this call durable."""
        with _naming(self._path):
            await self._in_worker(lambda: os.fdatasync(self._fd))

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        os.ftruncate(self._fd, size)

    def close(self) -> None:
        """Close without syncing."""
        os.close(self._fd)


class InWorker:
    """Runs one blocking call after the other in a thread of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="disk")

    async def __call__(self, call: Callable[[], None]) -> None:
        """Run `call` and wait for it."""
        await self._loop.run_in_executor(self._executor, call)

    def close(self) -> None:
        """Wait for the call that is running, if any, and end the thread."""
        self._executor.shutdown(wait=True, cancel_futures=True)


class Folder:
    """The files of one directory, to be read only."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def names(self) -> list[str]:
        """Names of all files, sorted; without those of replacements that a crash interrupted."""
        with os.scandir(self._directory) as found:
            names = [entry.name for entry in found if entry.is_file()]
        return sorted(name for name in names if not name.endswith(_SCRATCH_SUFFIX))

    def has(self, name: str) -> bool:
        """Whether there is a file of that name.

        Raises:
            OSError: the disk failed, which says nothing of the file.
        """
        try:
            os.stat(self._directory / name)
        except FileNotFoundError:
            return False
        return True

    def read(self, name: str) -> bytes | None:
        """The content of a file, None if there is none."""
        try:
            return (self._directory / name).read_bytes()
        except FileNotFoundError:
            return None


def _make_durable(directory: Path) -> None:
    """Make a directory with those above it, of which none goes with a power loss: the files in it would go with it."""
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    for each in reversed(missing):
        _sync_names(each.parent)


def _sync_names(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class RealDisk(Folder):
    """The files of one directory, which is created if missing."""

    def __init__(self, directory: Path, in_worker: InWorker) -> None:
        try:
            _make_durable(directory)
        except OSError as error:
            raise StorageError(f"{directory}: the data directory cannot be created: {error.strerror}.") from error
        super().__init__(directory)
        self._in_worker = in_worker

    def open(self, name: str) -> RealFile:
        """Open for appending."""
        return RealFile(self._directory / name, self._in_worker)

    async def replace(self, name: str, data: bytes) -> None:
        """Give a file a new content, atomically and durably."""
        await self._in_worker(lambda: self._replace(name, data))

    def rename(self, source: str, target: str) -> None:
        """Name a file otherwise (durably only after `sync_names`)."""
        (self._directory / source).replace(self._directory / target)

    def remove(self, name: str) -> None:
        """Remove a file; no harm if there is none."""
        (self._directory / name).unlink(missing_ok=True)

    async def sync_names(self) -> None:
        """Make creations, renames and removals durable."""
        await self._in_worker(self._sync_directory)

    def _replace(self, name: str, data: bytes) -> None:
        scratch = self._directory / (name + _SCRATCH_SUFFIX)
        with _naming(scratch), scratch.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(self._directory / name)
        self._sync_directory()

    def _sync_directory(self) -> None:
        _sync_names(self._directory)


@contextlib.contextmanager
def marks_reported(path: str | None) -> Generator[None]:
    """Append each mark that the node passes to a file, a line each, while the context lasts; to none without a path.

    Raises:
        OSError: the file cannot be opened.
    """
    if path is None:
        yield
        return
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def report(mark: str) -> None:
        os.write(fd, f"{mark}\n".encode())

    try:
        with heard(report):
            yield
    finally:
        os.close(fd)


class RealWorld:
    """Everything real that one node uses, and the tasks that run in it.

    Attributes:
        runtime: clock, randomness, network and disk of the node.
    """

    def __init__(self, directory: Path, node: str, failed: Callable[[BaseException], object]) -> None:
        """Must be called while the event loop runs.

        `failed` is called when a task or a timer of the node raised an exception.

        Raises:
            StorageError: the directory cannot be created.
        """
        loop = asyncio.get_running_loop()
        self._node = node
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._failed = failed
        self._in_worker = InWorker(loop)
        self._network = RealNetwork(loop, self._spawn)
        disk = RealDisk(directory, self._in_worker)
        self._telemetry_path = directory / "telemetry.jsonl"
        how = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._telemetry_fd: int | None = os.open(self._telemetry_path, how, 0o644)
        self.runtime = Runtime(
            clock=RealClock(loop, failed),
            rng=RealRng(),
            network=self._network,
            disk=disk,
            spawn=self._spawn,
            telemetry=self._telemetry,
            log=self._log,
        )

    async def close(self) -> None:
        """Stop listening, cancel every task in the order in which they were spawned, and finish what the disk does.

        No task goes on while another one ends: the node has said already that it stops.
        """
        self._network.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
        self._in_worker.close()
        telemetry_fd, self._telemetry_fd = self._telemetry_fd, None
        if telemetry_fd is not None:
            os.close(telemetry_fd)

    def _spawn(self, awaitable: Awaitable[None], name: str) -> None:
        task = asyncio.ensure_future(awaitable)
        task.set_name(name)
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._failed(error)

    def _telemetry(self, line: bytes) -> None:
        if self._telemetry_fd is None:
            return  # a timer of before: the number may belong to another file by now
        with _naming(self._telemetry_path):
            os.write(self._telemetry_fd, line + b"\n")

    def _log(self, line: str) -> None:
        stamp = time.strftime("%H:%M:%S", time.gmtime())
        millis = time.time_ns() // 1_000_000 % 1000
        print(f"{stamp}.{millis:03d} {self._node} {line}", file=sys.stderr, flush=True)

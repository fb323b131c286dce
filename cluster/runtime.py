"""The interfaces through which a node uses clock, randomness, network and disk.

`splitbrain.cluster.real` implements these with the operating system. A simulation implements them under virtual time;
nothing else in this package may know which of the two it runs on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

Address: TypeAlias = tuple[str, int]

STOPS: Final = "stops in good order"
"""The last line of the log of a node that does."""


class Timer(Protocol):
    """A callback that is due."""

    def cancel(self) -> None:
        """Forget it; no harm if it has run."""
        ...


class Clock(Protocol):
    """Time as one node sees it."""

    def monotonic_ns(self) -> int:
        """Nanoseconds since an arbitrary start; never goes back."""
        ...

    def wall_ns(self) -> int:
        """Nanoseconds since the Unix epoch; may jump."""
        ...

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> Timer:
        """Run `callback` after `delay_ns`; an exception that it raises stops the node."""
        ...

    async def sleep(self, delay_ns: int) -> None:
        """Suspend the calling task."""
        ...


class Rng(Protocol):
    """A stream of randomness."""

    def between(self, low: int, high: int) -> int:
        """A whole number in [low, high], both included."""
        ...


class Connection(Protocol):
    """An ordered connection that carries whole messages."""

    def send(self, message: bytes) -> None:
        """Queue a message. Sending on a closed connection is silently lost, as on a network."""
        ...

    async def receive(self) -> bytes:
        """The next message.

        Raises:
            ConnectionError: the other side is gone.
        """
        ...

    async def hand_over(self, take: Callable[[bytes], None]) -> None:
        """Call `take` with each message, the next ones too, as soon as it is there.

        Raises:
            ConnectionError: the other side is gone, and all that it sent was taken.
            Exception: what `take` raised; nothing more is taken then.
        """
        ...

    def close(self) -> None:
        """Close both directions."""
        ...


class Network(Protocol):
    """Connections to and from other processes."""

    async def connect(self, address: Address) -> Connection:
        """Open a connection.

        Raises:
            ConnectionRefusedError: no process listens there.
            ConnectionError: it could not be reached in a time that the network bounds.
        """
        ...

    async def listen(self, address: Address, accept: Callable[[Connection], Awaitable[None]]) -> None:
        """Serve `address` until the process ends; `accept` runs as a task of its own per connection."""
        ...


class File(Protocol):
    """An append-only file."""

    def append(self, data: bytes) -> None:
        """Write at the end. Not durable before `sync` returned."""
        ...

    async def sync(self) -> None:
        """Make everything that was appended before this call durable.

        Raises:
            OSError: it is not known what is durable; the node must stop.
        """
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes. Not durable before `sync` returned."""
        ...

    def close(self) -> None:
        """Close without syncing."""
        ...


class Disk(Protocol):
    """The node's own directory: a flat set of files."""

    def names(self) -> list[str]:
        """Names of all files, sorted."""
        ...

    def has(self, name: str) -> bool:
        """Whether there is a file of that name. Quicker than `names` where there are many."""
        ...

    def read(self, name: str) -> bytes | None:
        """The content of a file, None if there is none."""
        ...

    def open(self, name: str) -> File:
        """Open for appending; created if missing (durably only after `sync_names`)."""
        ...

    async def replace(self, name: str, data: bytes) -> None:
        """Give a file a new content, atomically and durably: written aside, synced, renamed, names synced."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Name a file otherwise (durably only after `sync_names`); one that had that name loses it.

        Raises:
            FileNotFoundError: there is no such file.
        """
        ...

    def remove(self, name: str) -> None:
        """Remove a file (durably only after `sync_names`)."""
        ...

    async def sync_names(self) -> None:
        """Make creations, renames and removals durable."""
        ...


def waker(callback: Callable[[], None]) -> Callable[[], None]:
    """What has the running event loop call `callback`, each time that it is called itself (`Runtime.waker`)."""
    call_soon = asyncio.get_running_loop().call_soon

    def wake() -> None:
        call_soon(callback)

    return wake


@dataclass(frozen=True)
class Runtime:
    """The world of one node."""

    clock: Clock
    rng: Rng
    network: Network
    disk: Disk
    spawn: Callable[[Awaitable[None], str], None]
    """Run something as a background task of that name; an exception that it raises stops the node."""
    telemetry: Callable[[bytes], None]
    """Append one line (JSON, without the newline) to the node's telemetry."""
    log: Callable[[str], None]
    """Append one line to the node's log."""
    last_words: Callable[[Callable[[], bytes]], None] = lambda _: None
    """Take what gives a last line of telemetry, one for each group. A simulation calls it when the process ends, killed
    or not; a real process that is killed says nothing, and there it is never called."""
    stops: Callable[[Callable[[], Awaitable[None]]], None] = lambda _: None
    """Take what an embedded node does when it is asked to stop in good order, as a process is by SIGTERM."""
    applied: Callable[[int], None] = lambda _: None
    """Take how many entries the node has applied. In a simulation it is busy for as long as that takes."""
    waker: Callable[[Callable[[], None]], Callable[[], None]] = waker
    """Give what has a callback called as a step of its own, after the present one; it must not raise."""
    resume: Callable[[asyncio.Future[Any], Any], None] = asyncio.Future[Any].set_result
    """Give a future its result. In a simulation the task that waits for it goes on before anything else happens."""

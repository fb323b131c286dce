"""What migration, rollback and expiry have in common: one effect after the other, and a marker that changes by CAS.

A machine is a generator over effects, wrapped so that a caller sees where it stands: it yields an effect, is sent the
event that answers it, and returns how it ended. It has no clock and no other input.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Final, TypeAlias

import msgspec

from splitbrain.cluster.migration.converters import Path, Write
from splitbrain.cluster.migration.marker import Marker
from splitbrain.cluster.migration.steps import (
    AskOwner,
    ClearTree,
    Done,
    Effect,
    Ended,
    Event,
    NotDone,
    ReadMarker,
    SetAccess,
    SwapMarker,
    Wait,
    WriteTree,
)
from splitbrain.cluster.tables.entities.access import Access

Steps: TypeAlias = Generator[Effect, Event, Any]
Machine: TypeAlias = Generator[Effect, Event, Ended]

TRIES: Final = 5
"""So often a step is tried that was not carried out, or whose outcome is unknown and that may come twice."""

BYTES_AT_ONCE: Final = 48 * 1024
"""Of writes in one command: what a request to the tree may carry is about twice as much."""

WAITS: Final = 1_000
"""So often another process is waited for; it is at work all the time."""

SETTINGS: Final = 4
"""Of the tables' access in one generation; each has a number, and they rise."""


class FailedError(Exception):
    """A step failed for good."""


class SupersededError(Exception):
    """Another process has the migration: nothing more may be done.

    Attributes:
        found: the marker that is there instead; None if it was not read.
    """

    def __init__(self, message: str, found: Marker | None = None) -> None:
        super().__init__(message)
        self.found = found


def number_of(generation: int, access: Access, *, again: bool = False) -> int:
    """The number of a setting: opened first, then closed step by step, or opened again."""
    return generation * SETTINGS + (3 if again else ("read_write", "read_only", "retired").index(access))


def tried(effect: Effect, *, twice: bool = True) -> Steps:
    """Carry out an effect; what it gave.

    Args:
        effect: it.
        twice: whether it may be carried out twice, and late; if not, it is given up once its outcome is unknown.

    Raises:
        FailedError: it was not carried out.
    """
    event: Event = NotDone("it was not tried")
    for _ in range(TRIES):
        event = yield effect
        if isinstance(event, Done):
            return event.value
        if not twice and not isinstance(event, NotDone):
            break
    raise FailedError(f"{type(effect).__name__}: {event.why if not isinstance(event, Done) else ''}")


def read_marker() -> Steps:
    """The marker.

    Raises:
        FailedError: it cannot be read.
    """
    return (yield from tried(ReadMarker()))


def swapped(expected: Marker, **changed: Any) -> Steps:
    """Change the marker; the new one. Coming twice or late does no harm: no marker comes back.

    Raises:
        SupersededError: the marker is another one.
        FailedError: it is not known what it is.
    """
    wanted = msgspec.structs.replace(expected, **changed)
    found = yield from tried(SwapMarker(expected, wanted))
    if found != wanted:
        raise SupersededError(f"the marker is {found}", found)
    return wanted


def set_access(access: Access, marker: Marker, *, again: bool = False) -> Steps:
    """Open or close the tables.

    Raises:
        SupersededError: a later migration did.
        FailedError: it is not known whether they are.
    """
    if not (yield from tried(SetAccess(access, number_of(marker.generation, access, again=again)))):
        raise SupersededError("a later migration has set the access of the tables")


def written(marker: Marker, writes: list[Write]) -> Steps:
    """Write to the tree, in order. Late writes are refused once the marker has changed, so it has to change then.

    Raises:
        SupersededError: the marker is another one.
        FailedError: it is not known whether they were written.
    """
    if writes and not (yield from tried(WriteTree(marker, writes), twice=False)):
        raise SupersededError("the marker is another one")


def cleared(marker: Marker, roots: tuple[Path, ...]) -> Steps:
    """Remove what was written.

    Raises:
        SupersededError: the marker is another one.
        FailedError: it is not known whether it was removed.
    """
    # Late it does harm: it would remove what is written after it. So it, too, is followed by another marker.
    if not (yield from tried(ClearTree(marker, roots), twice=False)):
        raise SupersededError("the marker is another one")


def claimed(owner: str, wanted: Callable[[Marker], Marker | Ended]) -> Steps:
    """Take the marker: once no live process has it (M2K-2: wait for that process; if it is dead, take its place).

    Args:
        owner: the process that takes it.
        wanted: the marker to be, or how it ends, by the one that is there; it is not asked while a process has it.

    Raises:
        FailedError: it is not known whether the marker was taken, or another process has it all the time.
    """
    for _ in range(WAITS):
        there: Marker = yield from read_marker()
        is_taken = there.state in ("in_flight", "undoing", "rolling_back") and there.owner != owner
        if is_taken and (yield from tried(AskOwner(there.owner))):
            yield from tried(Wait())
            continue
        to_be = wanted(there)
        if isinstance(to_be, Ended):
            return to_be
        to_be = msgspec.structs.replace(to_be, owner=owner, generation=there.generation + 1)
        found = yield from tried(SwapMarker(there, to_be))
        if found == to_be:
            return to_be
    raise FailedError("another process has the migration all the time")


def put_right(marker: Marker, roots: tuple[Path, ...]) -> Steps:
    """Open the tables, remove what the tree got, and say that no migration is under way. The marker is not in flight.

    Raises:
        SupersededError: another process has the migration.
        FailedError: something of it was not done; the next process has to begin with it.
    """
    yield from set_access("read_write", marker, again=True)
    yield from cleared(marker, roots)
    yield from swapped(marker, state="idle", written=False)


def put_back(owner: str, wanted: Callable[[Marker], Marker | Ended], roots: tuple[Path, ...]) -> Machine:
    """Have the tables in force again: take the migration, clear the tree, and let the tables answer.

    Args:
        owner: the process: no other run has this name.
        wanted: what the marker is to be changed into, or why nothing is to be done.
        roots: below which the tree has what was migrated.
    """
    try:
        marker: Marker | Ended = yield from claimed(owner, wanted)
        if isinstance(marker, Ended):
            return marker
        yield from put_right(marker, roots)
    except SupersededError as error:
        return Ended("superseded", str(error))
    except FailedError as error:
        return Ended("stuck", str(error))
    return Ended("finished")


class Run:
    """A machine under way.

    Args:
        machine: it.

    Attributes:
        effect: what is to be carried out now; None once it has ended.
        ended: how it ended; None before.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.effect: Effect | None = None
        self.ended: Ended | None = None
        self._go_on(None)

    def happened(self, event: Event) -> None:
        """The effect was carried out, or not."""
        self._go_on(event)

    def _go_on(self, event: Event | None) -> None:
        try:
            self.effect = next(self._machine) if event is None else self._machine.send(event)
        except StopIteration as stopped:
            self.effect, self.ended = None, stopped.value


def in_batches(writes: Iterable[Write], size: int) -> list[list[Write]]:
    """Writes in lists of at most so many, and of `BYTES_AT_ONCE`, unless a single one is larger."""
    batches: list[list[Write]] = []
    left, bytes_left = 0, 0
    for write in writes:
        taken = len(msgspec.msgpack.encode(write))
        if not left or taken > bytes_left:
            batches.append([])
            left, bytes_left = size, BYTES_AT_ONCE
        batches[-1].append(write)
        left, bytes_left = left - 1, bytes_left - taken
    return batches

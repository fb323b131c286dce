"""Carries out what a migration wants, on a tree and on tables: the I/O around its state machines.

The tree may be one in this process or a cluster's, behind a client; the tables those of this process or of a replica.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec

from splitbrain.cluster.entities.store import MetadataStore
from splitbrain.cluster.errors import ClientError, UnavailableError
from splitbrain.cluster.migration import treewrites
from splitbrain.cluster.migration.marker import Marker, marker_of
from splitbrain.cluster.migration.procedure import Machine, Run
from splitbrain.cluster.migration.steps import (
    AskOwner,
    ClearTree,
    Done,
    DropTables,
    Effect,
    Ended,
    Event,
    NotDone,
    ReadClock,
    ReadMarker,
    SetAccess,
    Subscribe,
    SwapMarker,
    TakeCheckpoint,
    TakeEvents,
    Unknown,
    Unsubscribe,
    Wait,
    WriteTree,
)
from splitbrain.cluster.tables.entities.store import RunsProcedures
from splitbrain.cluster.tables.records import Change, Contents


class MigratedTables(RunsProcedures, Protocol):
    """The tables as a migration sees them."""

    def contents(self) -> Contents:
        """All records, as they are at this moment."""
        ...

    def subscribe(self, subscriber: Callable[[Sequence[Change]], None]) -> Callable[[], None]:
        """Have the changes of each transaction from now on, as it is applied here; what ends it."""
        ...

    def problem(self) -> str | None:
        """Why changes may be missing since the subscription began, or other replicas may have some; None if not."""
        ...


class Surroundings(Protocol):
    """What a migration needs beside the two stores."""

    def is_alive(self, owner: str) -> Awaitable[bool]:
        """Whether a process runs that has a migration."""
        ...

    def progress(self) -> Awaitable[None]:
        """Wait until something goes on, for 1 s at most."""
        ...

    def wall_ms(self) -> int:
        """The wall clock."""
        ...


class TreeSwitch:
    """Which store is in force, by the marker in the tree (`splitbrain.cluster.migration.dispatch.Switch`).

    Args:
        tree: the store after the migration.
        progress: waits until something goes on, for 1 s at most.
        here: the same store, as the member has it that look-ups are answered from; None if that is `tree`.
    """

    def __init__(
        self, tree: MetadataStore, progress: Callable[[], Awaitable[None]], here: MetadataStore | None = None
    ) -> None:
        self._tree = tree
        self._progress = progress
        self._here = here or tree

    async def look(self) -> Marker:
        """See `Switch`."""
        return marker_of(await self._tree.ask(treewrites.READ, None))

    async def look_here(self) -> Marker:
        """See `Switch`."""
        return marker_of(await self._here.ask(treewrites.READ, None))

    async def note_written(self, marker: Marker) -> bool:
        """See `Switch`."""
        if marker.written:
            return True
        wanted = msgspec.structs.replace(marker, written=True)
        _, found = await self._tree.change(treewrites.SWAP, {"expected": marker, "wanted": wanted})
        return marker_of(found) == wanted

    async def progress(self) -> None:
        """See `Switch`."""
        await self._progress()


class Shell:
    """Runs machines of a migration, one at a time.

    Args:
        tree: the store after the migration, with the functions of `treewrites`.
        tables: the store before it.
        surroundings: the rest.
    """

    def __init__(self, tree: MetadataStore, tables: MigratedTables, surroundings: Surroundings) -> None:
        self._tree = tree
        self._tables = tables
        self._surroundings = surroundings
        self._queued: list[Sequence[Change]] = []
        self._unsubscribe: Callable[[], None] | None = None

    async def run(self, machine: Machine) -> Ended:
        """Carry out all that a machine wants; how it ended."""
        run = Run(machine)
        try:
            while run.effect is not None:
                run.happened(await self.carry_out(run.effect))
        finally:
            # A machine that is stuck or cancelled takes no more changes from the queue.
            self._end_subscription()
        assert run.ended is not None, "without an effect it has ended"
        return run.ended

    async def carry_out(self, effect: Effect) -> Event:
        """Carry out one effect."""
        try:
            return Done(await self._carry_out(effect))
        except ClientError as error:
            return NotDone(str(error)) if error.definite else Unknown(str(error))

    async def _carry_out(self, effect: Effect) -> Any:
        match effect:
            case AskOwner(owner):
                return await self._surroundings.is_alive(owner)
            case Wait():
                return await self._surroundings.progress()
            case ReadClock():
                return self._surroundings.wall_ms()
            case ReadMarker() | SwapMarker() | ClearTree() | WriteTree():
                return await self._on_tree(effect)
            case _:
                return await self._on_tables(effect)

    async def _on_tree(self, effect: ReadMarker | SwapMarker | ClearTree | WriteTree) -> Any:
        match effect:
            case ReadMarker():
                return marker_of(await self._tree.ask(treewrites.READ, None))
            case SwapMarker(expected, wanted):
                there = None if expected == marker_of(None) else expected
                _, found = await self._tree.change(treewrites.SWAP, {"expected": there, "wanted": wanted})
                return marker_of(found)
            case ClearTree(marker, roots):
                return await self._tree.change(treewrites.CLEAR, {"marker": marker, "roots": roots})
            case WriteTree(marker, writes):
                return await self._tree.change(treewrites.WRITE, {"marker": marker, "writes": writes})

    async def _on_tables(self, effect: Effect) -> Any:
        match effect:
            case SetAccess(access, number):
                return await self._tables.run("set_access", (access, number))
            case DropTables(number):
                return await self._tables.run("drop_entities", (number,))
            case TakeCheckpoint():
                # What is queued is in it already: what follows is what the checkpoint lacks.
                self._queued.clear()
                return self._tables.contents()
            case TakeEvents():
                problem = self._tables.problem()
                if problem is not None:
                    raise UnavailableError(f"the tables cannot be migrated: {problem}.")
                taken = [list(changes) for changes in self._queued]
                self._queued.clear()
                return taken
            case _:
                return self._subscription(effect)

    def _subscription(self, effect: Effect) -> None:
        match effect:
            case Subscribe():
                self._end_subscription()
                self._unsubscribe = self._tables.subscribe(self._queued.append)
            case Unsubscribe():
                self._end_subscription()
            case _:
                raise AssertionError(f"no effect on tables: {effect}")

    def _end_subscription(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
        self._unsubscribe = None
        self._queued.clear()

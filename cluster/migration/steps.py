"""What a migration wants done, one after the other, what it hears of each, and how it ends."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from splitbrain.cluster.migration.converters import Path, Write
from splitbrain.cluster.migration.marker import Marker
from splitbrain.cluster.tables.entities.access import Access

# --- effects ------------------------------------------------------------------------------------------------------


class ReadMarker(msgspec.Struct, frozen=True):
    """Read the marker: a `Marker`."""


class SwapMarker(msgspec.Struct, frozen=True):
    """Change the marker if it is as expected: the one that is there afterwards, a `Marker`."""

    expected: Marker
    wanted: Marker


class AskOwner(msgspec.Struct, frozen=True):
    """Ask whether a process still runs: true or false."""

    owner: str


class Wait(msgspec.Struct, frozen=True):
    """Wait until another process's migration goes on, or a store may answer again."""


class ReadClock(msgspec.Struct, frozen=True):
    """Read the wall clock: milliseconds since the epoch."""


class SetAccess(msgspec.Struct, frozen=True):
    """Open or close the tables on all replicas: whether no setting of a higher number has come before."""

    access: Access
    number: int


class ClearTree(msgspec.Struct, frozen=True):
    """Remove nodes: whether the marker was this one."""

    marker: Marker
    roots: tuple[Path, ...]


class WriteTree(msgspec.Struct, frozen=True):
    """Write to the tree: whether the marker was this one."""

    marker: Marker
    writes: list[Write]


class Subscribe(msgspec.Struct, frozen=True):
    """Queue the changes of every transaction of the tables from now on."""


class Unsubscribe(msgspec.Struct, frozen=True):
    """Queue no more of them, and drop those that wait."""


class TakeCheckpoint(msgspec.Struct, frozen=True):
    """Copy all tables as they are at one moment, and forget what is queued until then: `Contents`."""


class TakeEvents(msgspec.Struct, frozen=True):
    """Take what is queued, in order: a list of transactions, each a list of `Change`s."""


class DropTables(msgspec.Struct, frozen=True):
    """Remove records of the tables: how many keys are left, None if they were not retired under this number."""

    number: int


Effect: TypeAlias = (
    ReadMarker
    | SwapMarker
    | AskOwner
    | Wait
    | ReadClock
    | SetAccess
    | ClearTree
    | WriteTree
    | Subscribe
    | Unsubscribe
    | TakeCheckpoint
    | TakeEvents
    | DropTables
)

# --- events -------------------------------------------------------------------------------------------------------


class Done(msgspec.Struct, frozen=True):
    """The effect was carried out; what it gave."""

    value: Any = None


class NotDone(msgspec.Struct, frozen=True):
    """The effect was certainly not carried out."""

    why: str


class Unknown(msgspec.Struct, frozen=True):
    """The effect may have been carried out, or may still be."""

    why: str


Event: TypeAlias = Done | NotDone | Unknown

# --- ends ---------------------------------------------------------------------------------------------------------


class Ended(msgspec.Struct, frozen=True):
    """How it ended.

    Attributes:
        how: "finished": as it was meant. "nothing": there was nothing to do. "undone": it failed, and the store that
            was in force before is again, as if nothing had been. "stuck": it failed, and so did what was to put things
            right: the next migration or rollback begins with that. "superseded": another process has it. "refused":
            it may not be done.
        why: it did not do what it was to do.
    """

    how: Literal["finished", "nothing", "undone", "stuck", "superseded", "refused"]
    why: str = ""

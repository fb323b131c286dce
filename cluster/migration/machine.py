"""The migration of entities from tables to the tree (M2K-2, M2K-3): a pure state machine.

    looking     which marker is there; who has it, if it is in flight, and whether that process runs
    claiming    the marker is made this process's, by compare-and-swap
    clearing    the tables are opened, and what a former migration left in the tree is removed
    copying     changes are queued from now on; a checkpoint of the tables is copied, record by record
    closing     the tables take no more changes
    draining    the queued changes are applied, behind what was copied
    retiring    the tables answer nothing any more
    finishing   the marker says that the tree is in force, from this compare-and-swap on; or that all is prepared,
                where others decide about it (`splitbrain.cluster.twostores`)
    undoing     a step failed: the marker says so, the tables are opened, the tree is cleared, the marker is idle

A process may die at each step. The marker then names a process that does not run, and the next one begins anew. No step
of a process that lost its marker has an effect: its settings of the tables have lower numbers, and what it writes to
the tree names another marker. The tables stay as they were, closed, for a rollback (D5).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, Literal, TypeAlias

import msgspec

from splitbrain.cluster.migration.converters import ConverterError, Converters, Write
from splitbrain.cluster.migration.marker import Marker
from splitbrain.cluster.migration.procedure import (
    FailedError,
    Machine,
    Steps,
    SupersededError,
    claimed,
    cleared,
    in_batches,
    put_right,
    set_access,
    swapped,
    tried,
    written,
)
from splitbrain.cluster.migration.steps import (
    Ended,
    ReadClock,
    Subscribe,
    SwapMarker,
    TakeCheckpoint,
    TakeEvents,
    Unsubscribe,
)
from splitbrain.cluster.tables.records import Change

Step: TypeAlias = Literal[
    "looking", "claiming", "clearing", "copying", "closing", "draining", "retiring", "finishing", "undoing", "ended"
]

Until: TypeAlias = Literal["prepared", "finished"]
"""How far a migration goes: until the tree could answer, or until it does."""

Broken: TypeAlias = Literal["M64", "M65"]
"""Switches, to prove that tests find what they break. M64: queued changes are applied before what is left of the
checkpoint is copied, so that a record comes back that was deleted. M65: the tables take changes while the queued ones
are applied."""

COPIED_AT_ONCE: Final = 100
"""Records that one command of the tree copies."""

APPLIED_AT_ONCE: Final = 2_000
"""Writes of one transaction of the tables that one command applies; most have fewer, and are applied whole."""


class Migration:
    """One run of one process.

    Args:
        owner: the process: no other run has this name.
        converters: of the tables to migrate.
        copied_at_once: records that one command copies.
        broken: what is broken on purpose.
        until: how far it goes.
        again: whether it moves also what a client had rolled back.
        entered: is called with each step as it begins.

    Attributes:
        step: where it stands.
    """

    def __init__(
        self,
        owner: str,
        converters: Converters,
        copied_at_once: int = COPIED_AT_ONCE,
        broken: Collection[Broken] = (),
        until: Until = "finished",
        again: bool = True,
        entered: Callable[[Step], None] = lambda _: None,
    ) -> None:
        self.step: Step = "looking"
        self._until: Until = until
        self._again = again
        self._entered = entered
        self._owner = owner
        self._converters = converters
        self._copied_at_once = copied_at_once
        self._broken = broken

    def steps(self) -> Machine:
        """What is to be done (`splitbrain.cluster.migration.procedure.Run`)."""
        try:
            marker: Marker | Ended = yield from claimed(self._owner, self._wanted)
        except FailedError as error:
            # If the marker was taken after all, it names this process, which has ended.
            return self._ended("stuck", error)
        if isinstance(marker, Ended):
            self.step = "ended"
            return marker
        try:
            yield from self._migrate(marker)
        except SupersededError as error:
            yield Unsubscribe()
            return self._ended("finished") if _finished(marker, error.found) else self._ended("superseded", error)
        except FailedError as error:
            return (yield from self._undo(marker, error))
        yield Unsubscribe()
        return self._ended("finished")

    def _wanted(self, there: Marker) -> Marker | Ended:
        if there.tree_is_in_force:
            return Ended("nothing", "the tree is in force already")
        if there.state == "prepared":
            return Ended("nothing", "it is prepared already")
        if there.rolled_back and not self._again:
            # Another process had the marker, was waited for, and rolled back.
            return Ended("nothing", "a client had it rolled back")
        self._enter("claiming")
        return msgspec.structs.replace(
            there, state="in_flight", written=False, finished_ms=0, keeps_tables=True, rolled_back=False
        )

    def _migrate(self, marker: Marker) -> Steps:
        self._enter("clearing")
        yield from set_access("read_write", marker)
        yield from cleared(marker, self._converters.roots)
        self._enter("copying")
        yield from tried(Subscribe())
        yield from self._copy(marker)
        self._enter("closing")
        if "M65" not in self._broken:
            yield from set_access("read_only", marker)
        self._enter("draining")
        yield from self._drain(marker)
        self._enter("retiring")
        yield from set_access("retired", marker)
        self._enter("finishing")
        if self._until == "prepared":
            yield from swapped(marker, state="prepared")
            return
        now_ms: int = yield from tried(ReadClock())
        yield from swapped(marker, state="finished", finished_ms=now_ms)

    def _enter(self, step: Step) -> None:
        self.step = step
        self._entered(step)

    def _copy(self, marker: Marker) -> Steps:
        contents: Any = yield from tried(TakeCheckpoint())
        writes = self._converted(self._converters.ordered(contents))
        one_by_one = "M64" in self._broken  # as the original copies: then the order matters for each record
        for batch in in_batches(writes, 1 if one_by_one else self._copied_at_once):
            if one_by_one:
                yield from self._drain(marker)
            yield from written(marker, batch)

    def _drain(self, marker: Marker) -> Steps:
        """Apply the queued changes, each transaction for itself: in between the tree is as the tables were."""
        transactions: Any = yield from tried(TakeEvents())
        for changes in transactions:
            for batch in in_batches(self._converted(changes), APPLIED_AT_ONCE):
                yield from written(marker, batch)

    def _converted(self, changes: Iterable[Change]) -> list[Write]:
        try:
            return self._converters.writes(changes)
        except ConverterError as error:
            raise FailedError(f"{error}: mend the converter, then migrate again") from error

    def _undo(self, marker: Marker, failed: FailedError) -> Machine:
        """Undo the migration, unless its last step took effect although no answer came."""
        undoing = msgspec.structs.replace(marker, state="undoing")
        self._enter("undoing")
        try:
            found: Marker = yield from tried(SwapMarker(marker, undoing))
            yield Unsubscribe()
            if _finished(marker, found):
                return self._ended("finished")
            if found != undoing:
                return self._ended("superseded", failed)
            yield from put_right(undoing, self._converters.roots)
        except SupersededError as error:
            return self._ended("superseded", error)
        except FailedError as error:
            return self._ended("stuck", f"{failed}; then {error}")
        return self._ended("undone", failed)

    def _ended(self, how: Any, why: object = "") -> Ended:
        self.step = "ended"
        return Ended(how, str(why))


def _finished(marker: Marker, found: Marker | None) -> bool:
    """Whether the migration of a marker did all that it was to do.

    Since then it may have been decided that the tree answers, a client may have written to the tree, or the tables be
    gone, which the marker that is found says, too.
    """
    done = found is not None and (found.tree_is_in_force or found.state == "prepared")
    return found is not None and done and found.generation == marker.generation

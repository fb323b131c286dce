"""A `MetadataStore` that asks the store in force, and asks again if that changes meanwhile (M2K-1).

Calls race with a migration on any node, so each is fenced where it is carried out:

- Tables that are closed refuse. The call waits for the migration to go on, looks again which store is in force, and is
  repeated: nothing was done.
- Before the first change the tree is noted as written, by compare-and-swap of the marker. From then on there is no
  rollback (M2K-5): a change that the tree acknowledged stays.
- What the tree answers before that counts only if the same marker is there afterwards.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec

from splitbrain.cluster.entities.errors import EntityError
from splitbrain.cluster.entities.store import MetadataStore, Operation, encoded
from splitbrain.cluster.errors import OutcomeUnknownError, RefusedError, UnavailableError
from splitbrain.cluster.migration.marker import Marker
from splitbrain.cluster.migration.repeating import CREATE_OR_GET, IDEMPOTENT
from splitbrain.cluster.tables.entities.access import TablesClosedError

T = TypeVar("T")

ATTEMPTS: Final = 100
"""So often a call is repeated, and once more at the end."""


class Switch(Protocol):
    """Which store is in force."""

    def look(self) -> Awaitable[Marker]:
        """The marker; linearizable.

        Raises:
            ClientError: the tree does not answer.
        """
        ...

    def look_here(self) -> Awaitable[Marker]:
        """The marker as the member has it that look-ups are answered from: of now, or of an earlier time.

        Raises:
            ClientError: the tree does not answer.
        """
        ...

    def note_written(self, marker: Marker) -> Awaitable[bool]:
        """Note in the marker that the tree is written to; False, and no change, if it is another one meanwhile.

        Raises:
            ClientError: the tree does not answer.
        """
        ...

    def progress(self) -> Awaitable[None]:
        """Wait until the migration goes on, for 1 s at most.

        Raises:
            OutOfTimeError: there is no time left.
        """
        ...


class OutOfTimeError(Exception):
    """The call has no more time: it ends with what is known of it."""


class Known:
    """What all calls of a process have in common.

    Attributes:
        tree_for_ever: whether the tree is known to be in force, and to stay.
        tree_is_here: whether all that was moved is known to be where look-ups are answered from, too.
    """

    def __init__(self) -> None:
        self.tree_for_ever = False
        self.tree_is_here = False


class _Again(Exception):  # noqa: N818 - no error: what follows is the next attempt
    """The store that was asked is not in force; nothing that it did counts."""


class FallbackStore:
    """See the module.

    Args:
        tables: the store before the migration.
        tree: the store after it.
        switch: which of them is in force.
        known: what is known from earlier calls.
        repeats_all: any call is repeated if the marker has changed while the tables carried it out (M66).
    """

    def __init__(
        self,
        tables: MetadataStore,
        tree: MetadataStore,
        switch: Switch,
        known: Known | None = None,
        *,
        repeats_all: bool = False,
    ) -> None:
        self._tables = tables
        self._tree = tree
        self._switch = switch
        self._known = known or Known()
        self._repeats_all = repeats_all

    async def change(self, operation: Operation, data: Any) -> Any:
        """See `MetadataStore`.

        Raises:
            UnavailableError: no store was in force for all attempts; nothing was done.
            OutcomeUnknownError: the store that was asked gave no answer, and the operation may not be repeated, or was
                refused when it was, or found another entity then.
        """

        async def once() -> Any:
            if await self._tree_takes_changes():
                return await self._tree.change(operation, data)
            if not self._repeats_all:
                return await self._tables.change(operation, data)
            before = await _of_marker(self._switch.look())
            changed = await self._tables.change(operation, data)
            if await _of_marker(self._switch.look()) != before:
                raise _Again
            return changed

        def is_another(answer: Any) -> bool:
            return operation in CREATE_OR_GET and answer is not None and not _is_as_given(answer, data["record"])

        may_repeat = IDEMPOTENT.get(operation, False)
        return await self._repeated(once, operation.name, changes=True, may_repeat=may_repeat, is_another=is_another)

    async def ask(self, operation: Operation, data: Any) -> Any:
        """See `MetadataStore`."""
        return await self._read(lambda store: store.ask(operation, data), operation.name)

    async def records(self, table: str, key: Any = None) -> Sequence[Sequence[Any]]:
        """See `MetadataStore`."""
        return await self._read(lambda store: store.records(table, key), table, here=True)

    async def _read(self, asked: Callable[[MetadataStore], Awaitable[Any]], name: str, *, here: bool = False) -> Any:
        async def once() -> Any:
            marker = await self._marker()
            if marker is not None and not marker.tree_is_in_force:
                return await asked(self._tables)
            if here:
                await self._moved_here(marker)
            if marker is None:
                return await asked(self._tree)
            answer, refused = None, None
            try:
                answer = await asked(self._tree)
            except EntityError as error:
                refused = error
            # Neither an answer nor a refusal counts of a tree that was taken out of force meanwhile.
            if not _is_same(marker, await _of_marker(self._switch.look())):
                raise _Again
            if refused is not None:
                raise refused
            return answer

        return await self._repeated(once, name, changes=False, may_repeat=True)

    async def _moved_here(self, marker: Marker | None) -> None:
        """Have the attempt repeated unless the member that answers look-ups has applied all that was moved.

        Its own marker says so, as that was written behind it.

        Args:
            marker: of the tree in force; None once it is in force for ever.
        """
        if self._known.tree_is_here:
            return
        there = await _of_marker(self._switch.look_here())
        if not (there.written if marker is None else _is_same(marker, there)):
            raise _Again
        self._known.tree_is_here = there.written

    async def _marker(self) -> Marker | None:
        """The marker; None once the tree is in force for ever."""
        if self._known.tree_for_ever:
            return None
        marker = await _of_marker(self._switch.look())
        if marker.tree_is_in_force and marker.written:
            self._known.tree_for_ever = True
            return None
        return marker

    async def _tree_takes_changes(self) -> bool:
        marker = await self._marker()
        if marker is not None and marker.tree_is_in_force:
            if not await _of_marker(self._switch.note_written(marker)):
                raise _Again
            self._known.tree_for_ever = True
        return self._known.tree_for_ever

    async def _repeated(
        self,
        once: Callable[[], Awaitable[Any]],
        name: str,
        *,
        changes: bool,
        may_repeat: bool,
        is_another: Callable[[Any], bool] = lambda _: False,
    ) -> Any:
        unknown: OutcomeUnknownError | None = None
        tried = 0
        for attempt in range(ATTEMPTS + 1):
            tried = attempt
            try:
                if attempt:
                    await self._switch.progress()
                answer = await once()
            except (_Again, TablesClosedError):
                continue
            except OutOfTimeError:
                break
            except OutcomeUnknownError as error:
                unknown = error
                if not may_repeat:
                    what = "it may have happened, and may not be repeated"
                    raise OutcomeUnknownError(f"{name}: {what}: {error}", error.term) from error
            except RefusedError as error:
                if unknown is None or not changes:
                    raise
                # It says of this attempt only that nothing happened.
                what = "it may have happened before it was refused"
                raise OutcomeUnknownError(f"{name}: {what}: {error}", error.term) from error
            else:
                if unknown is not None and is_another(answer):
                    what = "it may have happened before another one was found"
                    raise OutcomeUnknownError(f"{name}: {what}: {unknown}", unknown.term)
                return answer
        if unknown is not None:
            raise OutcomeUnknownError(f"{name}: no answer after {tried + 1} attempts: {unknown}") from unknown
        raise UnavailableError(
            f"no_exists: {name}: nothing was done: neither tables nor tree answered, {tried + 1} times. See why the "
            "migration does not go on, then ask again."
        )


async def _of_marker(asked: Awaitable[T]) -> T:
    """What is asked of the marker. Without an answer nothing was done that matters: to note twice is to note once."""
    try:
        return await asked
    except OutcomeUnknownError as error:
        raise _Again from error


def _is_as_given(answer: Any, record: Any) -> bool:
    """Whether a store answers with what it was given."""
    return answer == msgspec.msgpack.decode(encoded(record))


def _is_same(before: Marker, after: Marker) -> bool:
    """Whether the tree was in force all the time: nothing brings it back under a generation that it had."""
    return after.tree_is_in_force and after.generation == before.generation

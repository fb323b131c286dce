"""A classic queue at the node that holds it: who has which message, and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from splitbrain.cluster.bugs import Bugs
from splitbrain.cluster.classic import (
    ClassicQueue,
    DeadLetter,
    Index,
    Transformations,
    delivery_limit,
    open_index,
    open_queue,
)
from splitbrain.cluster.classic.index import MAX_JOURNAL_ENTRIES
from splitbrain.cluster.classic.limits import ARGUMENT
from splitbrain.cluster.classicqueues.deadletters import HandOver, Letters
from splitbrain.cluster.classicqueues.frames import (
    Look,
    Nothing,
    Purge,
    Purged,
    Put,
    Reply,
    Seen,
    Settle,
    Settled,
    Settlement,
    Stored,
    Take,
    Taken,
)
from splitbrain.cluster.classicqueues.messages import annotations_of, body_of, to_store
from splitbrain.cluster.classicqueues.part import Part
from splitbrain.cluster.classicqueues.records import DEAD_LETTER_TO, ClassicRecord
from splitbrain.cluster.marks import reached
from splitbrain.cluster.runtime import Clock, Runtime

TAKEN_MS: Final = 5000
"""After so long a message that was taken and not settled goes back: its consumer may be gone."""

_MS: Final = 1_000_000
_ID_BYTES: Final = 8


class _Taken(NamedTuple):
    seq: int
    until_ns: int


class Settings(NamedTuple):
    """What declaration and policies say of a queue.

    Attributes:
        limit: how often a message may be delivered again, None for any number of times.
        dead_letter_to: name of the queue that gets dead letters; None: they are dropped.
    """

    limit: int | None
    dead_letter_to: str | None


def settings_of(record: ClassicRecord, policy: Mapping[str, Any]) -> Settings:
    """The lowest limit counts (CQ-6); a declaration says where dead letters go before a policy does."""
    limit = delivery_limit({} if record.delivery_limit is None else {ARGUMENT: record.delivery_limit}, policy)
    return Settings(limit, record.dead_letter_to or policy.get(DEAD_LETTER_TO) or None)


class HeldQueue:
    """A queue that is open. Errors of the disk, and damage, reach the caller: then the node must stop.

    Args:
        life: distinguishes this process from the node's earlier ones.
        index: of its messages.
        runtime: of the node.
        hand_over: a dead letter to another queue.
    """

    def __init__(self, life: int, index: Index, runtime: Runtime, hand_over: HandOver) -> None:
        self._life = life
        self._index = index
        self._runtime = runtime
        self._clock: Clock = runtime.clock
        self._letters = Letters(hand_over, self._remove_dead, runtime.clock)
        self._queue: ClassicQueue
        self._taken: dict[str, _Taken] = {}
        self._last_tag = self._last_id = 0
        self._dropped = 0

    async def begin(self, record: ClassicRecord, policy: Mapping[str, Any]) -> None:
        """Read what is there."""
        settings = settings_of(record, policy)
        wall_ns = self._clock.wall_ns
        self._letters.to = settings.dead_letter_to
        self._queue = await open_queue(self._index, self._bury, lambda: wall_ns() // 1000, limit=settings.limit)

    async def set(self, record: ClassicRecord, policy: Mapping[str, Any]) -> None:
        """Work by these settings from now on, also for messages that are there; nothing, if they are the same."""
        settings = settings_of(record, policy)
        if settings == self._settings:
            return
        reached("settings of a classic queue changed")
        self._letters.to = settings.dead_letter_to
        await self._queue.set_limit(settings.limit)
        await self._queue.confirm()

    @property
    def _settings(self) -> Settings:
        return Settings(self._queue.limit, self._letters.to)

    def _bury(self, letter: DeadLetter) -> bool:
        """Take a dead letter; whether it stays in the queue until it was handed over."""
        if letter.reason == "expired":
            reached("message of a classic queue dropped")
            self._dropped += 1
        if self._letters.to is None:
            return False
        if self._letters.add(letter):
            self._runtime.spawn(self._letters.work(), "dead letters of a classic queue")
        return True

    async def _remove_dead(self, seq: int) -> None:
        await self._queue.drop(seq)
        await self._queue.confirm()

    @property
    def unconverted(self) -> int:
        """How many messages `convert` converts."""
        return self._index.unconverted

    async def convert(self) -> None:
        """Have all files of version 2; publishers wait meanwhile (CQ-4).

        Raises:
            ConversionRefusedError: it is not permitted; no file was converted.
        """
        if 1 in self._index.versions.values():
            await self._index.convert()
            reached("classic queue converted")

    async def carry_out(self, wanted: Put | Take | Settle | Purge | Look) -> Reply:
        """Do what a client wants; durable when this returns, except that a message was taken."""
        match wanted:
            case Put(_, body, annotations):
                await self._queue.publish(to_store(self._new_id(), body, annotations))
                await self._queue.confirm()
                return Stored()
            case Take():
                return await self._take()
            case Settle(_, tag, how):
                return await self._settle(tag, how)
            case Purge():
                return await self._purge()
            case Look():
                return self._seen()

    def _seen(self) -> Seen:
        versions = {name: int(version) for name, version in self._index.versions.items()}
        queue = self._queue
        return Seen(queue.ready, len(self._taken), self._dropped, versions, queue.dead, *self._settings)

    def _new_id(self) -> bytes:
        self._last_id += 1
        return self._life.to_bytes(_ID_BYTES, "big") + self._last_id.to_bytes(_ID_BYTES, "big")

    async def _take(self) -> Reply:
        found = await self._queue.deliver()
        if found is None:
            return Nothing()
        self._last_tag += 1
        tag = f"{self._life}-{self._last_tag}"
        self._taken[tag] = _Taken(found.seq, self._clock.monotonic_ns() + TAKEN_MS * _MS)
        stored = found.record
        return Taken(tag, body_of(stored), found.redelivered, stored.redeliveries, annotations_of(stored))

    async def _settle(self, tag: str, how: Settlement) -> Reply:
        taken = self._taken.pop(tag, None)
        if taken is None:
            return Settled(False)
        match how:
            case "ack":
                await self._queue.ack(taken.seq)
            case "requeue":
                await self._queue.requeue(taken.seq)
            case "discard":
                await self._queue.reject(taken.seq)
        await self._queue.confirm()
        return Settled(True)

    async def _purge(self) -> Reply:
        count = 0
        for _ in range(self._queue.ready):  # what comes meanwhile stays
            found = await self._queue.deliver()
            if found is None:
                break
            await self._queue.ack(found.seq)
            count += 1
        await self._queue.confirm()
        return Purged(count)

    @property
    def has_late(self) -> bool:
        """Whether a message was taken and not settled for long."""
        now = self._clock.monotonic_ns()
        return any(taken.until_ns <= now for taken in self._taken.values())

    async def give_back_late(self) -> None:
        """What was taken and not settled for long goes back."""
        now = self._clock.monotonic_ns()
        for tag, taken in list(self._taken.items()):
            if taken.until_ns <= now and self._taken.pop(tag, None) is not None:
                reached("message of a classic queue went back")
                await self._queue.requeue(taken.seq)

    @property
    def is_dropping(self) -> bool:
        """Whether a dead letter that was handed over is just being removed."""
        return self._letters.is_dropping

    def end(self) -> None:
        """Hand over no more dead letters."""
        self._letters.end()

    async def stop(self) -> None:
        """Stop in good order: counts of redeliveries are written down, where files may hold them, and files closed."""
        await self._queue.close()

    def close(self) -> None:
        """Close the files."""
        self._index.close()


async def hold(
    queue: ClassicRecord,
    policy: Mapping[str, Any],
    disk: Part,
    table: Transformations,
    bugs: Bugs,
    life: int,
    runtime: Runtime,
    hand_over: HandOver,
) -> HeldQueue:
    """Open a queue, or begin it.

    Args:
        queue: as it was declared.
        policy: the settings that policies have for it.
        disk: its files.
        table: of the node's transformations, which is asked before files are converted.
        bugs: those that are switched on.
        life: distinguishes this process from the node's earlier ones.
        runtime: of the node.
        hand_over: a dead letter to another queue.

    Raises:
        CorruptStorageError: something that had been made durable is damaged or gone.
        OSError: the disk failed.
    """
    # A queue's record says of which version its new files are; the table only what may be converted.
    options = replace(table.index_options(MAX_JOURNAL_ENTRIES), version=queue.version, bugs=bugs)
    held = HeldQueue(life, await open_index(disk, options), runtime, hand_over)
    await held.begin(queue, policy)
    return held

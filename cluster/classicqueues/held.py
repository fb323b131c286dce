"""A classic queue at the node that holds it: who has which message, and for how long."""

from __future__ import annotations

from typing import Final, NamedTuple

from splitbrain.cluster.bugs import Bugs
from splitbrain.cluster.classic import ClassicQueue, DeadLetter, Index, IndexOptions, open_index, open_queue, record
from splitbrain.cluster.classicqueues.frames import (
    Look,
    Nothing,
    OfQueue,
    Purge,
    Purged,
    Put,
    Reply,
    Seen,
    Settle,
    Settled,
    Stored,
    Take,
    Taken,
)
from splitbrain.cluster.classicqueues.part import Part
from splitbrain.cluster.classicqueues.records import ClassicRecord
from splitbrain.cluster.marks import reached
from splitbrain.cluster.runtime import Clock

TAKEN_MS: Final = 5000
"""After so long a message that was taken and not settled goes back: its consumer may be gone."""

_MS: Final = 1_000_000
_ID_BYTES: Final = 8


class _Taken(NamedTuple):
    seq: int
    until_ns: int


class HeldQueue:
    """A queue that is open. Errors of the disk, and damage, reach the caller: then the node must stop.

    Args:
        life: distinguishes this process from the node's earlier ones.
        index: of its messages.
        clock: of the node.
    """

    def __init__(self, life: int, index: Index, clock: Clock) -> None:
        self._life = life
        self._index = index
        self._clock = clock
        self._queue: ClassicQueue
        self._taken: dict[str, _Taken] = {}
        self._last_tag = self._last_id = 0
        self._dropped = 0

    async def begin(self, limit: int | None) -> None:
        """Read what is there."""
        wall_ns = self._clock.wall_ns
        self._queue = await open_queue(self._index, self._drop, lambda: wall_ns() // 1000, limit=limit)

    def _drop(self, _: DeadLetter) -> None:
        reached("message of a classic queue dropped")
        self._dropped += 1

    async def convert(self) -> None:
        """Have all files of version 2; publishers wait meanwhile (CQ-4)."""
        if 1 in self._index.versions.values():
            reached("classic queue converted")
            await self._index.convert()

    async def carry_out(self, wanted: OfQueue) -> Reply:
        """Do what a client wants; durable when this returns, except that a message was taken."""
        match wanted:
            case Put(_, body):
                await self._queue.publish(record(self._new_id(), len(body), body=body))
                await self._queue.confirm()
                return Stored()
            case Take():
                return await self._take()
            case Settle(_, tag, how):
                return await self._settle(tag, how == "requeue")
            case Purge():
                return await self._purge()
            case Look():
                versions = {name: int(version) for name, version in self._index.versions.items()}
                return Seen(self._queue.ready, len(self._taken), self._dropped, versions)

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
        return Taken(tag, found.record.body, found.redelivered, found.record.redeliveries)

    async def _settle(self, tag: str, goes_back: bool) -> Reply:
        taken = self._taken.pop(tag, None)
        if taken is None:
            return Settled(False)
        if goes_back:
            await self._queue.requeue(taken.seq)
        else:
            await self._queue.ack(taken.seq)
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

    def close(self) -> None:
        """Close the files."""
        self._index.close()


async def hold(queue: ClassicRecord, disk: Part, bugs: Bugs, life: int, clock: Clock) -> HeldQueue:
    """Open a queue, or begin it.

    Raises:
        CorruptStorageError: something that had been made durable is damaged or gone.
        OSError: the disk failed.
    """
    options = IndexOptions(version=queue.version, bugs=bugs)
    held = HeldQueue(life, await open_index(disk, options), clock)
    await held.begin(queue.delivery_limit)
    return held

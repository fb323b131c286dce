"""A classic queue above its index: what is in memory, who has what, and the delivery limit (CQ-4 to CQ-6).

Counts of redeliveries are in memory. They are written down when a message leaves memory for the disk (paging) and at an
orderly stop, never on the way of a message that is delivered once. A node that is killed forgets those that were not: a
message is then delivered more often than the limit says, and none is lost.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from splitbrain.cluster.classic.index import Index, Stored
from splitbrain.cluster.classic.records import Record
from splitbrain.cluster.errors import ConversionRefusedError, UnknownMessageError

MAX_IN_MEMORY: Final = 65_536
"""Messages that are ready, and held in memory; the others are on disk only (the delta of CQ-4)."""


class Delivered(NamedTuple):
    """A message for a consumer: sequence id, record with its count, and whether it was delivered before."""

    seq: int
    record: Record
    redelivered: bool


Reason: TypeAlias = Literal["expired", "rejected"]
"""Why a message is a dead letter: `expired` for both its age and the delivery limit (D8)."""


class DeadLetter(NamedTuple):
    """A message that the queue drops."""

    seq: int
    record: Record
    reason: Reason = "expired"


@dataclass(slots=True)
class _Held:
    """A message in memory. `record` has the count; `written` is the count that the index has."""

    record: Record
    delivered: bool
    written: int


class ClassicQueue:
    """A queue. Open it with `open_queue`.

    A call that is cancelled while it waits for the index loses no message: what is on disk changes first, and then what
    is in memory. A dead letter may be handed over again, and a count may be forgotten.

    Attributes:
        limit: how often a message may be delivered again, None for any number of times.
        lost_counts: how many counts could not be written, as no file may be converted.
    """

    def __init__(
        self,
        index: Index,
        limit: int | None,
        dead_letter: Callable[[DeadLetter], bool | None],
        now_us: Callable[[], int],
        max_in_memory: int,
    ) -> None:
        self.limit = _unless_below_0(limit)
        self.lost_counts = 0
        self._index = index
        self._dead_letter = dead_letter
        self._now_us = now_us
        self._max = max_in_memory
        self._busy = asyncio.Lock()
        self._held: dict[int, _Held] = {}
        self._ready: list[int] = []
        self._unsettled: dict[int, None] = {}
        self._dead: dict[int, None] = {}
        self._delta, self._former = index.bounds
        """From which sequence id on ready messages are on disk only; below which they are of an earlier life."""

    # --- publishers ---------------------------------------------------------------------------------------------------

    async def publish(self, record: Record, *, persistent: bool = True) -> int:
        """Add a message at the end; its sequence id. `confirm` makes it durable.

        Raises:
            OSError: it is not known what is durable; open the queue again.
        """
        async with self._busy:
            seq = await self._index.publish(record, persistent=persistent)
            if self._delta == seq and len(self._ready) < self._max:
                self._held[seq] = _Held(record, delivered=False, written=record.redeliveries)
                heapq.heappush(self._ready, seq)
                self._delta = seq + 1
            return seq

    async def publish_delivered(self, record: Record, *, persistent: bool = True) -> Delivered:
        """Add a message that a consumer gets on arrival; this delivery counts for nothing (CQ-5).

        Raises:
            OSError: it is not known what is durable; open the queue again.
        """
        async with self._busy:
            seq = await self._index.publish(record, persistent=persistent)
            await self._index.deliver([seq])
            if self._delta == seq:
                self._delta = seq + 1
            self._held[seq] = _Held(record, delivered=True, written=record.redeliveries)
            self._unsettled[seq] = None
            return Delivered(seq, record, redelivered=False)

    async def confirm(self) -> None:
        """Make durable what was done; then what was published may be confirmed.

        Raises:
            OSError: it is not known what is durable; open the queue again.
        """
        await self._index.sync()

    # --- consumers ----------------------------------------------------------------------------------------------------

    async def deliver(self) -> Delivered | None:
        """The first message that is ready, for a consumer that settles it; None if there is none.

        Raises:
            CorruptStorageError: a file is damaged.
            OSError: it is not known what is durable; open the queue again.
        """
        async with self._busy:
            while True:
                seq = await self._next()
                if seq is None:
                    return None
                held = self._held[seq]
                if self._has_expired(held):
                    await self._drop_or_keep(seq)
                    continue
                again = held.delivered
                if again:
                    held.record = held.record.counted(held.record.redeliveries + 1)
                else:
                    await self._note_first(seq, held)
                self._unsettled[seq] = None
                return Delivered(seq, held.record, again)

    async def ack(self, seq: int) -> None:
        """Settle a message that was delivered: it is done with.

        Raises:
            UnknownMessageError: no consumer has it.
            OSError: it is not known what is durable; open the queue again.
        """
        async with self._busy:
            self._require_unsettled(seq)
            await self._index.ack([seq])
            del self._unsettled[seq], self._held[seq]

    async def requeue(self, seq: int) -> None:
        """Give a message back to its place, or drop it if it may not be delivered again.

        Raises:
            UnknownMessageError: no consumer has it.
            OSError: it is not known what is durable; open the queue again.
        """
        async with self._busy:
            self._require_unsettled(seq)
            del self._unsettled[seq]
            if self._is_above_limit(self._held[seq]):
                await self._drop_or_keep(seq)
            elif seq >= self._delta:
                await self._page_out(seq)
            else:
                heapq.heappush(self._ready, seq)
                await self._make_room()

    async def reject(self, seq: int) -> None:
        """Settle a message that was delivered: it is a dead letter.

        Raises:
            UnknownMessageError: no consumer has it.
            OSError: it is not known what is durable; open the queue again.
        """
        async with self._busy:
            self._require_unsettled(seq)
            await self._drop(seq, "rejected")
            del self._unsettled[seq]

    def _require_unsettled(self, seq: int) -> None:
        if seq not in self._unsettled:
            raise UnknownMessageError(f"message {seq} is with no consumer: it was settled before, or never delivered.")

    async def _note_first(self, seq: int, held: _Held) -> None:
        """Note the first delivery of a message that was taken from those that are ready."""
        try:
            await self._index.deliver([seq])
        except BaseException:
            heapq.heappush(self._ready, seq)  # it was given up, and has no consumer
            raise
        held.delivered = True

    # --- the limit ----------------------------------------------------------------------------------------------------

    async def set_limit(self, limit: int | None) -> int:
        """Change the delivery limit, as a policy does, and drop what is above it; how many messages went.

        Args:
            limit: None, or a number below 0, for none.
        """
        self.limit = _unless_below_0(limit)
        return await self.expire()

    async def expire(self) -> int:
        """Drop messages that are too old or above the limit; how many. Others go when they come into memory.

        One pass over what is in memory serves both, as in S003.
        """
        async with self._busy:
            gone = sorted(seq for seq in self._ready if self._has_expired(self._held[seq]))
            try:
                for seq in gone:
                    await self._drop(seq)
            finally:
                self._ready = [seq for seq in self._ready if seq in self._held and seq not in self._dead]
                heapq.heapify(self._ready)
            return len(gone)

    def _has_expired(self, held: _Held) -> bool:
        expiry = held.record.expiry
        return (expiry is not None and expiry <= self._now_us()) or self._is_above_limit(held)

    def _is_above_limit(self, held: _Held) -> bool:
        """Whether the next delivery would be one too many."""
        return self.limit is not None and held.delivered and held.record.redeliveries + 1 > self.limit

    async def _drop_or_keep(self, seq: int) -> None:
        try:
            await self._drop(seq)
        except BaseException:
            if seq in self._held:  # its dead letter was not taken, or it is not gone: it waits for its turn again
                heapq.heappush(self._ready, seq)
            raise

    async def _drop(self, seq: int, reason: Reason = "expired") -> None:
        # The dead letter comes first: a crash between the two may repeat it, and loses nothing.
        if self._dead_letter(DeadLetter(seq, self._held[seq].record, reason)):
            self._dead[seq] = None
            return
        await self._index.ack([seq])
        del self._held[seq]

    async def drop(self, seq: int) -> None:
        """A dead letter that was to be handed over later has been: its message goes.

        Raises:
            UnknownMessageError: it is no dead letter that waits for that.
            OSError: it is not known what is durable; open the queue again.
        """
        async with self._busy:
            if seq not in self._dead:
                raise UnknownMessageError(f"message {seq} is no dead letter that waits to be handed over.")
            await self._index.ack([seq])
            del self._dead[seq], self._held[seq]

    # --- memory and disk ----------------------------------------------------------------------------------------------

    async def _next(self) -> int | None:
        while not self._ready:
            end = self._index.bounds[1]
            if self._delta >= end:
                return None
            begin = self._index.following(self._delta)
            until = min(begin + self._max, end)
            for stored in await self._index.read(begin, until):
                await self._take_in(stored)
            self._delta = until
        return heapq.heappop(self._ready)

    async def _take_in(self, stored: Stored) -> None:
        seq, record, persistent, delivered = stored
        if seq in self._held:
            return
        if seq < self._former and not persistent:
            await self._index.ack([seq])  # a transient message ends with the process
            return
        self._held[seq] = _Held(record, delivered, record.redeliveries)
        heapq.heappush(self._ready, seq)

    async def _make_room(self) -> None:
        """Have no more in memory than may be: the last ones go to disk."""
        if len(self._ready) <= self._max:
            return
        self._ready.sort()
        while len(self._ready) > self._max:
            seq = self._ready.pop()
            self._delta = min(self._delta, seq)
            await self._page_out(seq)

    async def _page_out(self, seq: int) -> None:
        """Forget a message that is ready, for the index has it, and write down what it has not: the count."""
        await self._write_count(seq, self._held.pop(seq))

    async def _write_count(self, seq: int, held: _Held) -> None:
        if held.record.redeliveries <= held.written:
            return
        try:
            await self._index.recount(seq, held.record)
            held.written = held.record.redeliveries
        except ConversionRefusedError:
            self.lost_counts += 1

    @property
    def ready(self) -> int:
        """How many messages wait for a consumer, with transient ones of an earlier life that were not met yet."""
        return len(self._index) - len(self._unsettled) - len(self._dead)

    @property
    def dead(self) -> int:
        """How many dead letters wait to be handed over."""
        return len(self._dead)

    async def close(self) -> None:
        """Stop in good order: write down all counts, and make all durable. What consumers have is there again.

        Raises:
            OSError: it is not known what is durable.
        """
        async with self._busy:
            for seq, held in sorted(self._held.items()):
                await self._write_count(seq, held)
            await self._index.flush()
            self._index.close()


def _unless_below_0(limit: int | None) -> int | None:
    return None if limit is None or limit < 0 else limit


async def open_queue(
    index: Index,
    dead_letter: Callable[[DeadLetter], bool | None],
    now_us: Callable[[], int],
    *,
    limit: int | None = None,
    max_in_memory: int = MAX_IN_MEMORY,
) -> ClassicQueue:
    """A queue above an open index.

    Args:
        index: that holds its messages.
        dead_letter: takes each message that the queue drops, before it is gone. What it raises reaches the caller, and
            the message stays. With True it stays, too, for no consumer, until `drop`: when it was handed over.
        now_us: microseconds since the Unix epoch.
        limit: how often a message may be delivered again (`splitbrain.cluster.classic.limits`).
        max_in_memory: how many ready messages are held in memory.
    """
    return ClassicQueue(index, limit, dead_letter, now_us, max_in_memory)

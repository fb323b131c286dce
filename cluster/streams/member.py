"""A copy of a stream, as its writer or as a replica (ST-2): a pure state machine.

The writer of an epoch appends chunks; the replicas ask it for what they lack, and their next question says what they
have durably. What a majority of the voters has is committed. It is confirmed to publishers, and only it is read.

Only positions of the writer's own epoch count towards a majority. So what an earlier epoch left behind is committed
together with the chunk that begins this one: a later choice among logs prefers it to anything that another epoch in
between may have left elsewhere (figure 8 of the Raft paper).

A replica first asks where its log agrees with the writer's, and cuts off what is behind. That was never committed.

The caller carries out effects in order. It makes what an effect writes durable before it goes on to the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from splitbrain.cluster.bugs import M98, M99, NO_BUGS, Bugs
from splitbrain.cluster.marks import reached
from splitbrain.cluster.streams.chunks import Chunk, ChunkLog, StreamMessage
from splitbrain.cluster.streams.coordinator import majority
from splitbrain.cluster.streams.frames import (
    Attach,
    Attached,
    Chunks,
    Confirmed,
    Messages,
    NotDone,
    OfReplica,
    OfWriter,
    Pull,
    ReadFrom,
    Reply,
)
from splitbrain.cluster.streams.position import BEGIN, Position, agreed
from splitbrain.cluster.streams.retention import Retention

BATCH_BYTES: Final = 1024 * 1024
"""About the most of messages in one chunk, in one frame to a replica, and in one answer to a reader."""

AGAIN_MS: Final = 1000
"""After so long without anything of its writer a replica asks again."""

MAX_WAITING: Final = 10_000
"""Messages that wait to be committed; the writer takes no more meanwhile."""


class Meta(msgspec.Struct, frozen=True, array_like=True):
    """What a copy has promised; durable before it is said.

    Attributes:
        member: whose copy it is.
        stream: its number.
        name: of the stream.
        born: index of the entry of the coordinator that first asked it for something.
        stopped: the last epoch that it takes no part in any more.
        wrote: the last epoch that it has begun to write: it begins none twice.
        version: of the files.
    """

    member: str
    stream: int
    name: str
    born: int
    stopped: int = -1
    wrote: int = -1
    version: int = 1


class Persist(msgspec.Struct, frozen=True):
    """Make the promises durable."""

    meta: Meta


class AppendChunks(msgspec.Struct, frozen=True):
    """Append records to the log, and make it durable."""

    records: tuple[bytes, ...]


class Truncate(msgspec.Struct, frozen=True):
    """Cut the log to this size, and make that durable."""

    size: int


class Replace(msgspec.Struct, frozen=True):
    """Write the log anew, with this content, at once and durably."""

    content: bytes


class SendTo(msgspec.Struct, frozen=True):
    """Send a frame to a member; it may get lost."""

    member: str
    frame: OfWriter | OfReplica


class AnswerTo(msgspec.Struct, frozen=True):
    """Answer a request."""

    token: Any
    reply: Reply


class SayEstablished(msgspec.Struct, frozen=True):
    """Say to the coordinator that the beginning of the epoch is committed."""

    epoch: int


Effect: TypeAlias = Persist | AppendChunks | Truncate | Replace | SendTo | AnswerTo | SayEstablished

Role: TypeAlias = Literal["stopped", "writer", "replica"]

_NOT_WRITER: Final = NotDone("unavailable", True, "this node does not write the stream: try again")


class StreamMember:
    """One copy.

    Args:
        meta: its promises.
        chunks: its log, all of which is durable.
        bugs: those that are switched on.

    Attributes:
        meta: its promises.
        log: its log.
        role: what it does.
        epoch: in which it does that; without meaning while the member is stopped.
        writer: of the epoch, while it is a replica.
        committed: offset behind the last message that it knows to be committed.
        is_established: whether it writes, and the beginning of its epoch is committed.
        has_caught_up: whether it is a replica that had all that was committed at some moment of its epoch.
    """

    def __init__(self, meta: Meta, chunks: Sequence[Chunk] = (), bugs: Bugs = NO_BUGS) -> None:
        self.meta = meta
        self.log = ChunkLog(chunks)
        self.role: Role = "stopped"
        self.epoch = 0
        self.writer = ""
        self.committed = self.log.start
        self._bugs = bugs
        # as the writer
        self._voters: tuple[str, ...] = ()
        self._durable: dict[str, Position] = {}
        self._asking: dict[str, Position] = {}  # replicas that wait for more, with the end of their logs
        self._last: dict[str, tuple[int, int]] = {}  # by publisher, number and offset of the last message
        self._waiting: list[tuple[int, int | None, Any]] = []  # offset to be committed, offset to be said, token
        self.is_established = False
        # as a replica
        self.has_caught_up = False
        self._is_attached = False
        self._taken: Position | None = None  # with M99: how much of the writer's log it has gone through
        self._heard_ms = 0

    @property
    def voters(self) -> tuple[str, ...]:
        """The members of which a majority commits, in the epoch that it writes."""
        return self._voters

    # --- the coordinator ------------------------------------------------------------------------------------------

    def stop(self, epoch: int) -> list[Effect] | None:
        """Take part in no epoch up to this one any more; None: in later ones it does already."""
        if self.role != "stopped" and self.epoch > epoch:
            return None
        effects = self._leave()
        if epoch > self.meta.stopped:
            self.meta = msgspec.structs.replace(self.meta, stopped=epoch)
            effects.insert(0, Persist(self.meta))
        return effects

    def write(self, epoch: int, voters: Sequence[str], wall_ms: int = 0) -> list[Effect] | None:
        """Write an epoch, from this time on; None: that is over, or was begun before."""
        over = max(self.meta.stopped, self.meta.wrote, self.log.end.epoch)
        if epoch <= over or (self.role != "stopped" and self.epoch >= epoch):
            return None
        effects = self._leave()
        self.meta = msgspec.structs.replace(self.meta, wrote=epoch)
        self.role, self.epoch, self._voters = "writer", epoch, tuple(voters)
        self._durable, self._asking = {}, {}
        self._last = {}
        for chunk in self.log.chunks:
            self._remember(chunk)
        begin = self.log.append(Chunk(epoch, self.log.end.offset, (), wall_ms))
        return [*effects, Persist(self.meta), AppendChunks((begin,)), *self._written()]

    def follow(self, epoch: int, writer: str, now_ms: int) -> list[Effect] | None:
        """Copy what the writer of an epoch writes; None: that is over."""
        # A node that applies the log again from before its last start meets epochs that its copy is past.
        is_over = epoch <= self.meta.stopped or epoch < self.log.end.epoch
        if is_over or (self.role != "stopped" and self.epoch > epoch):
            return None
        if self.role == "replica" and self.epoch == epoch:
            return []
        if self.role == "writer" and self.epoch == epoch:
            return None
        effects = self._leave()
        self.role, self.epoch, self.writer, self._is_attached = "replica", epoch, writer, False
        self._taken, self.has_caught_up = None, False
        return [*effects, *self._ask(now_ms)]

    def _leave(self) -> list[Effect]:
        """Be stopped."""
        self.role, self.is_established = "stopped", False
        detail = "another member writes the stream now, and may have the message"
        lost = [AnswerTo(token, NotDone("leadership_lost", False, detail)) for _, _, token in self._waiting]
        self._waiting.clear()
        return [*lost]

    # --- the writer -----------------------------------------------------------------------------------------------

    def publish(self, messages: Sequence[tuple[StreamMessage, Any]], wall_ms: int = 0) -> list[Effect]:
        """Append messages, each with the token of its request, at this time; those that are there already are not."""
        if self.role != "writer":
            return [AnswerTo(token, _NOT_WRITER) for _, token in messages]
        first = self.log.end.offset
        new: list[StreamMessage] = []
        effects: list[Effect] = []
        for message, token in messages:
            number, offset = self._last.get(message.publisher, (0, 0)) if message.publisher else (0, 0)
            if len(self._waiting) >= MAX_WAITING:
                detail = f"{MAX_WAITING} messages wait to be committed: try again later"
                effects.append(AnswerTo(token, NotDone("busy", True, detail)))
            elif message.publisher and message.number <= number:
                reached("message of a stream came again")
                self._waiting.append((offset, offset if message.number == number else None, token))
            else:
                offset = first + len(new)
                new.append(message)
                self._waiting.append((offset, offset, token))
                if message.publisher:
                    self._last[message.publisher] = (message.number, offset)
        if new:
            effects.append(AppendChunks((self.log.append(Chunk(self.epoch, first, tuple(new), wall_ms)),)))
        return [*effects, *self._written()]

    def _remember(self, chunk: Chunk) -> None:
        for each in chunk.last_of_publishers():
            self._last[each.publisher] = (each.number, each.offset)

    def _written(self) -> list[Effect]:
        """Its log is durable as far as it reaches."""
        self._durable[self.meta.member] = self.log.end
        return [*self._commit(), *self._feed()]

    def asked_to_attach(self, replica: str, frame: Attach) -> list[Effect]:
        """A replica wants to know where the logs agree."""
        if self.role != "writer" or frame.epoch != self.epoch:
            return []
        common, end = agreed(self.log.ends(), frame.ends), frame.ends[-1] if frame.ends else BEGIN
        return [SendTo(replica, Attached(frame.stream, self.epoch, common, end))]

    def pulled(self, replica: str, frame: Pull) -> list[Effect]:
        """A replica has a part of the log, and wants more."""
        if self.role != "writer" or frame.epoch != self.epoch or not self.log.reaches(frame.end):
            return []
        self._asking[replica] = frame.end
        self._durable[replica] = max(frame.end, self._durable.get(replica, BEGIN))
        before = self.committed
        effects = self._commit()
        if before == self.committed > frame.committed:
            effects.append(self._notice(replica, frame.end))
        return [*effects, *self._feed()]

    def _notice(self, replica: str, end: Position) -> SendTo:
        return SendTo(replica, Chunks(self.meta.stream, self.epoch, end, (), self.committed))

    def _feed(self) -> list[Effect]:
        effects: list[Effect] = []
        for replica, end in list(self._asking.items()):
            if end < self.log.end:
                del self._asking[replica]
                effects.append(SendTo(replica, self._chunks(end)))
        return effects

    def _chunks(self, after: Position) -> Chunks:
        chunks: list[Chunk] = []
        size = 0
        for chunk in self.log.after(after):
            chunks.append(chunk)
            size += sum(message.size for message in chunk.messages)
            if size >= BATCH_BYTES:
                break
        return Chunks(self.meta.stream, self.epoch, after, tuple(chunks), self.committed)

    def _commit(self) -> list[Effect]:
        """What a majority has is committed."""
        has = sorted((self._durable.get(voter, BEGIN) for voter in self._voters), reverse=True)
        end = self.log.end if M98 in self._bugs else has[majority(len(has)) - 1]
        if end.epoch != self.epoch:
            return []
        effects: list[Effect] = [] if self.is_established else [SayEstablished(self.epoch)]
        self.is_established = True
        if end.offset > self.committed:
            self.committed = end.offset
            effects += [self._notice(replica, its_end) for replica, its_end in self._asking.items()]
        return [*effects, *self._confirm()]

    def _confirm(self) -> list[Effect]:
        done = [each for each in self._waiting if each[0] < self.committed]
        self._waiting = [each for each in self._waiting if each[0] >= self.committed]
        return [AnswerTo(token, Confirmed(said, self.epoch)) for _, said, token in done]

    # --- a replica ------------------------------------------------------------------------------------------------

    def attached(self, writer: str, frame: Attached, now_ms: int) -> list[Effect]:
        """The writer says where the logs agree: what is behind that goes."""
        if not self._follows(writer, frame.epoch) or self._is_attached or frame.end != self.log.end:
            return []  # with another end it is the answer to a question of before a restart: what it cuts may count
        self._is_attached, self._heard_ms = True, now_ms
        if self.log.end == frame.agreed:
            return self._ask(now_ms)
        reached("log of a stream cut off")
        if M99 in self._bugs:
            self._taken = frame.agreed
            return self._ask(now_ms)
        cut = Truncate(self.log.truncate(frame.agreed))
        self.committed = min(self.committed, self.log.end.offset)
        return [cut, *self._ask(now_ms)]

    def chunks(self, writer: str, frame: Chunks, now_ms: int) -> list[Effect]:
        """The writer sends what comes next, or how far it has committed."""
        if not self._follows(writer, frame.epoch) or not self._is_attached:
            return []
        self._heard_ms = now_ms
        effects: list[Effect] = []
        if frame.after == self._has and frame.chunks:
            records = tuple(self.log.append(self._kept(chunk), not at) for at, chunk in enumerate(frame.chunks))
            self._taken = frame.chunks[-1].end if self._taken is not None else None
            if frame.chunks[0].gone is not None:
                reached("beginning of a stream's log dropped by its writer")
                effects = [Replace(self.log.content), *self._ask(now_ms)]
            else:
                effects = [AppendChunks(records), *self._ask(now_ms)]
            self.committed = max(self.committed, self.log.start)
        self.committed = max(self.committed, min(frame.committed, self.log.end.offset))
        if self.log.end.epoch == self.epoch and frame.committed <= self.log.end.offset:
            self.has_caught_up = True
        return effects

    @property
    def _has(self) -> Position:
        """How much of the writer's log it has."""
        return self.log.end if self._taken is None else self._taken

    def _kept(self, chunk: Chunk) -> Chunk:
        """The chunk; with M99 that part of it which is behind what was not cut off."""
        own = self.log.end.offset
        if self._taken is None or chunk.first >= own or chunk.gone is not None:
            return chunk
        return Chunk(chunk.epoch, own, chunk.messages[own - chunk.first :], chunk.at_ms)

    def tick(self, now_ms: int) -> list[Effect]:
        """A moment has passed: ask again, if the writer was silent for long, or what was sent was lost."""
        if self.role == "replica" and now_ms - self._heard_ms >= AGAIN_MS:
            return self._ask(now_ms)
        return []

    def _follows(self, writer: str, epoch: int) -> bool:
        return self.role == "replica" and (self.writer, self.epoch) == (writer, epoch)

    def _ask(self, now_ms: int) -> list[Effect]:
        self._heard_ms = now_ms
        if self._is_attached:
            return [SendTo(self.writer, Pull(self.meta.stream, self.epoch, self._has, self.committed))]
        return [SendTo(self.writer, Attach(self.meta.stream, self.epoch, self.log.ends()))]

    # --- retention ------------------------------------------------------------------------------------------------

    def retain(self, retention: Retention, wall_ms: int) -> list[Effect]:
        """Drop what is not kept any more at this time, in ms since the Unix epoch. Each copy does that by itself."""
        if retention.keeps_all or not self.log.drop(retention, self.committed, wall_ms):
            return []
        reached("beginning of a stream's log dropped")
        return [Replace(self.log.content)]

    # --- readers --------------------------------------------------------------------------------------------------

    def read(self, wanted: ReadFrom) -> Messages:
        """Committed messages, about `BATCH_BYTES` of them at most; from the first one on that was not dropped."""
        first = max(wanted.offset, self.log.start)
        bodies: list[bytes] = []
        size = 0
        for _, message in self.log.messages(first, self.committed, wanted.most):
            bodies.append(message.body)
            size += message.size
            if size >= BATCH_BYTES:
                break
        return Messages(first, tuple(bodies), self.committed)

"""The state of a quorum queue, and how it stands in a snapshot (QQ-6)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final

import msgspec

from splitbrain.cluster.bugs import M72, NO_BUGS, Bugs
from splitbrain.cluster.queues.checkpoints import Checkpoints
from splitbrain.cluster.queues.config import QueueConfig
from splitbrain.cluster.queues.consumers import Consumer, in_succession
from splitbrain.cluster.queues.deadletters import DeadLetters, DumpedDeadLetters
from splitbrain.cluster.queues.effects import Reason
from splitbrain.cluster.queues.enqueuers import Enqueuer, Enqueuers
from splitbrain.cluster.queues.identities import ConsumerId, ConsumerKey, Process, in_key_order
from splitbrain.cluster.queues.liveindexes import LiveIndexes
from splitbrain.cluster.queues.messages import DumpedMessages, Message, ReadyMessages
from splitbrain.cluster.queues.service import ServiceQueue
from splitbrain.cluster.queues.step import Step

FORMAT: Final = 1
"""Of snapshots."""

COUNTED_ANEW: Final = 10_000
"""Messages at most that are looked at one by one: of more it would take longer than a moment."""


class Dumped(msgspec.Struct, array_like=True):
    """`QueueState` as it stands in a snapshot."""

    format: int
    config: QueueConfig
    ready: DumpedMessages
    consumers: list[Consumer]
    waiting: list[Consumer]
    service: list[tuple[int, list[ConsumerKey]]]
    enqueuers: list[tuple[Process, Enqueuer]]
    dead_letters: DumpedDeadLetters
    last_active: int | None
    timer_ms: int | None
    checkpoints: Checkpoints


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Dumped)


class QueueState:
    """All that a queue knows.

    Attributes:
        config: as it was declared, or updated last.
        ready: messages that may be handed out.
        consumers: those that get messages, or have some, by key; with a single active consumer the others wait.
        waiting: in the order of succession (QQ-4).
        service: who is served next.
        enqueuers: publishers.
        dead_letters: what waits for the worker, or is with it.
        live: entries whose messages left the lanes, and are needed still.
        checked_out: how many messages consumers have.
        bytes_checked_out: of their bodies.
        last_active: when the queue was used last, in ms; None: never.
        timer_ms: when the timer of the oldest message is to run out; None: it is not set.
        checkpoints: the last one.
        bugs: those that are switched on; all replicas have the same.
    """

    def __init__(self, config: QueueConfig, bugs: Bugs = NO_BUGS) -> None:
        self.bugs = bugs
        self.config = config
        self.ready = ReadyMessages()
        self.consumers: dict[ConsumerKey, Consumer] = {}
        self.waiting: list[Consumer] = []
        self.service = ServiceQueue()
        self.enqueuers = Enqueuers()
        self.dead_letters = DeadLetters()
        self.live = LiveIndexes()
        self.checked_out = 0
        self.bytes_checked_out = 0
        self.last_active = config.created
        self.timer_ms: int | None = None
        self.checkpoints = Checkpoints()

    # --- to look at it ------------------------------------------------------------------------------------------------

    @property
    def total(self) -> int:
        """How many messages are ready, or with consumers."""
        return len(self.ready) + self.checked_out

    @property
    def active(self) -> Consumer | None:
        """The single active consumer, None if there is none; also one that quiesces."""
        up = next((each for each in self.consumers.values() if each.status == "up"), None)
        return up or next((each for each in self.consumers.values() if each.status == "quiescing"), None)

    @property
    def consumer_count(self) -> int:
        """How many consumers there are, without those that are suspected, unless they wait."""
        up = sum(consumer.status != "suspected_down" for consumer in self.consumers.values())
        return up + len(self.waiting)

    @property
    def lowest_live_index(self) -> int | None:
        """The lowest index of an entry whose message is still in the queue, or a dead letter; None: there is none."""
        found = [index for index in (self.ready.lowest_new_index, self.live.lowest) if index is not None]
        return min(found, default=None)

    def first_needed(self, applied: int) -> int | None:
        """That index counted message by message, to be compared with what is let go; `applied` + 1 if there is none.

        None of very many messages.
        """
        if self.total + len(self.dead_letters) > COUNTED_ANEW:
            return None
        held = (message.index for each in self.consumers.values() for message in each.checked_out.values())
        ready = (message.index for message in self.ready)
        return min((*ready, *held, *self.dead_letters.indexes()), default=applied + 1)

    @property
    def withheld(self) -> int:
        """How many messages consumers have that are suspected: none, as they go back when their nodes are (QQ-4)."""
        every = (*self.consumers.values(), *self.waiting)
        return sum(len(each.checked_out) for each in every if each.status == "suspected_down")

    def find(self, key: ConsumerKey) -> Consumer | None:
        """A consumer that may have messages, by its key or its id."""
        found = self.consumers.get(key)
        if found is None and not isinstance(key, int):
            found = next((consumer for consumer in self.consumers.values() if consumer.id == key), None)
        return found

    def key_of(self, id: ConsumerId) -> ConsumerKey | None:
        """The key of a consumer, also of one that waits; None if it is not known."""
        found = self.find(id) or next((consumer for consumer in self.waiting if consumer.id == id), None)
        return None if found is None else found.key

    def in_order(self, of: Process | str | None = None) -> list[Consumer]:
        """The consumers that may have messages, by key; all, or those of a process, or of a node's processes."""
        found: Iterable[Consumer] = self.consumers.values()
        if isinstance(of, str):
            found = [consumer for consumer in found if consumer.id.process.node == of]
        elif of is not None:
            found = [consumer for consumer in found if consumer.id.process == of]
        return sorted(found, key=lambda consumer: in_key_order(consumer.key))

    def processes(self, node: str | None = None) -> list[Process]:
        """All that are known, or those of a node, sorted."""
        known = dict.fromkeys(self.enqueuers)
        known.update(dict.fromkeys(consumer.id.process for consumer in (*self.consumers.values(), *self.waiting)))
        return sorted(known if node is None else [process for process in known if process.node == node])

    # --- consumers ----------------------------------------------------------------------------------------------------

    def keep(self, consumer: Consumer, now: int) -> None:
        """A consumer changed: it is done, or one that quiesces has nothing left, or it may be in for more messages."""
        if consumer.is_done:
            self.drop(consumer)
            self.last_active = now
        elif consumer.status == "quiescing" and not consumer.checked_out:
            consumer.status = "up"
            self.drop(consumer)
            if all(each.key != consumer.key for each in self.waiting):  # else it was attached again meanwhile
                self.wait(consumer)
        else:
            self.consumers[consumer.key] = consumer
            self.offer(consumer)

    def drop(self, consumer: Consumer) -> None:
        """The consumer gets no more messages; those that it has are no longer known, unless they were taken before."""
        self.consumers.pop(consumer.key, None)
        self.service.discard(consumer.key)

    def offer(self, consumer: Consumer) -> None:
        """The consumer is to be served, if it takes messages."""
        if consumer.takes_messages:
            self.service.push(consumer.key, consumer.priority)

    def wait(self, consumer: Consumer) -> None:
        """The consumer waits from now on; in place of one with its key."""
        others = [each for each in self.waiting if each.key != consumer.key]
        self.waiting = in_succession([*others, consumer])

    # --- messages -----------------------------------------------------------------------------------------------------

    def take_back(self, consumer: Consumer, ids: Sequence[int]) -> list[Message]:
        """Messages that a consumer has no more, in this order; what it does not have is left out."""
        checked_out = consumer.checked_out
        taken = [checked_out.pop(each) for each in ids if each in checked_out]
        self.checked_out -= len(taken)
        self.bytes_checked_out -= sum(message.size for message in taken)
        consumer.regain(len(taken))
        return taken

    def dead_letter(self, step: Step, messages: Sequence[Message], reason: Reason) -> None:
        """Messages leave the queue unsettled."""
        effects, are_needed = self.dead_letters.add(messages, reason, self.config.dead_letter)
        step.effects.extend(effects)
        for message in messages:
            (self.live.add if are_needed else self.live.discard)(message.index)

    # --- as bytes -----------------------------------------------------------------------------------------------------

    def dump(self) -> bytes:
        """All of it; equal bytes for equal states."""
        return _encoder.encode(
            Dumped(
                FORMAT,
                self.config,
                self.ready.dump(),
                list(self.consumers.values()),
                self.waiting,
                self.service.dump(),
                self.enqueuers.dump(),
                self.dead_letters.dump(),
                self.last_active,
                self.timer_ms,
                self.checkpoints,
            )
        )

    @classmethod
    def load(cls, data: bytes, bugs: Bugs = NO_BUGS) -> QueueState:
        """The state whose dump this is.

        Raises:
            msgspec.DecodeError: these bytes are no dump, or one of another format.
        """
        dumped = _decoder.decode(data)
        if dumped.format != FORMAT:
            raise msgspec.ValidationError(f"a snapshot of a queue of format {dumped.format}; this is {FORMAT}")
        state = cls(dumped.config, bugs)
        try:
            state.ready = ReadyMessages.load(dumped.ready)
        except ValueError as error:
            raise msgspec.ValidationError(str(error)) from error
        state.consumers = {consumer.key: consumer for consumer in dumped.consumers}
        state.waiting = dumped.waiting
        state.service = ServiceQueue.load(dumped.service)
        state.enqueuers = Enqueuers({} if M72 in bugs else dict(dumped.enqueuers))
        state.dead_letters = DeadLetters.load(dumped.dead_letters)
        state.last_active, state.timer_ms = dumped.last_active, dumped.timer_ms
        state.checkpoints = dumped.checkpoints
        held = [message for consumer in dumped.consumers for message in consumer.checked_out.values()]
        state.checked_out, state.bytes_checked_out = len(held), sum(message.size for message in held)
        state.live = LiveIndexes(
            [
                *state.ready.returned_indexes(),
                *(message.index for message in held),
                *state.dead_letters.indexes(),
            ]
        )
        return state

    @property
    def hash(self) -> str:
        """Of the state as it stands in a snapshot: 32 hexadecimal digits, equal for equal states. Takes O(messages)."""
        return blake2b(self.dump(), digest_size=16).hexdigest()

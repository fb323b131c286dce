"""The state machine of a queue's group: a quorum queue, and where it stands between declaration and end (QQ-8).

The first command of the log configures the queue: the leader takes it from the metadata. `Retire` ends it: nothing is
carried out any more, and every leader asks for the record to be removed, until the group is.

Bodies of messages stay in the log (QQ-6). So this machine lets the log go itself, up to the last entry before those of
its messages, and a node begins with the snapshot and not with a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from hashlib import blake2b
from typing import Final, Self

import msgspec

from splitbrain.cluster.bugs import NO_BUGS, Bugs
from splitbrain.cluster.machine import (
    AttachWorker,
    ClientDown,
    ForgetQueue,
    FromLog,
    MachineEffect,
    SetTimer,
    Timeout,
    WantConfiguration,
    WithEffects,
    WriteCheckpoint,
)
from splitbrain.cluster.machinestore import HASH_BYTES, MachineStore
from splitbrain.cluster.queuegroups import log, notes
from splitbrain.cluster.queuegroups.effects import EXPIRY, carried_out
from splitbrain.cluster.queuegroups.log import Configure, Logged, Retire, address_of, process_of
from splitbrain.cluster.queuegroups.notes import STATUS, Answered, QueueReport, Taken, Unready
from splitbrain.cluster.queuegroups.worker import PREFETCH
from splitbrain.cluster.queues import Process, QuorumQueue
from splitbrain.cluster.queues.commands import AttachDeadLetterWorker, Expire, ProcessDown, QueueCommand
from splitbrain.cluster.queues.effects import Deliver, Delivered, Effect
from splitbrain.cluster.queues.replies import ACCEPTED, Dequeued
from splitbrain.cluster.raft import Entry
from splitbrain.cluster.tree import NO_FUNCTIONS, Functions, InSlices, InvalidCommand, Result, Value

TICK: Final = "tick"
TICK_MS: Final = 5000
"""From a command to the moment when the log is let go, and what is not used is deleted (QQ-6, QQ-7)."""


class _Dump(msgspec.Struct, frozen=True, array_like=True):
    applied_index: int
    chain: bytes
    machine: int
    group: str
    queue: bytes | None
    dead_letter_to: str | None
    is_retired: bool
    ticks: bool


class QueueStore(MachineStore):
    """What a node has applied of a queue; its tree stays empty.

    Args are those of `Store`.
    """

    QUESTION = STATUS

    def __init__(self, node: str = "", bugs: Bugs = NO_BUGS, functions: Functions = NO_FUNCTIONS) -> None:
        super().__init__(node, bugs, functions)
        self._group = ""
        self._queue: QuorumQueue | None = None
        self._dead_letter_to: str | None = None
        self._is_retired = False
        self._ticks = False  # whether the timer is set, as the log says
        self._hash: tuple[int, str] = (-1, "")

    @property
    def releases_itself(self) -> bool:
        """Yes: it needs the bodies of its messages, which are in the log."""
        return True

    @property
    def first_needed(self) -> int | None:
        """The first entry with the body of a message of the queue, or the next one if there is none."""
        if self._queue is None or self._is_retired:
            return None
        return self._queue.state.first_needed(self.applied_index)

    @property
    def withheld(self) -> int:
        """How many messages suspected consumers have."""
        return 0 if self._queue is None else self._queue.state.withheld

    # --- to apply -------------------------------------------------------------------------------------------------

    def _command(self, entry: Entry) -> Result | WithEffects:
        found = log.decode(entry.data)
        if isinstance(found, str):
            return InvalidCommand(found)
        answered, effects = self._carried_out(entry.index, *found)
        return WithEffects(_result(answered), tuple(effects))

    def _carried_out(self, index: int, now: int, command: Logged) -> tuple[Answered | Dequeued, list[MachineEffect]]:
        match command:
            case Configure():
                return ACCEPTED, self._configure(command)
            case Retire():
                return ACCEPTED, self._retire()
            case _ if self._queue is None or self._is_retired:
                is_tick = isinstance(command, Timeout)
                return Unready(self._is_retired), self._retire() if is_tick and self._is_retired else []
            case Timeout(name) if name == TICK:
                self._ticks = False
                return ACCEPTED, self._tick(self._queue, index, now)
            case _:
                effects = [*self._set_tick()]
                reply: Answered | Dequeued = ACCEPTED
                for each in self._of_queue(self._queue, command):
                    applied = self._queue.apply(index, now, each)
                    reply = applied.reply
                    effects += self._translated(applied.effects)
                return reply, effects

    def _configure(self, command: Configure) -> list[MachineEffect]:
        if self._queue is not None:
            return []
        self._group, self._dead_letter_to = command.group, command.dead_letter_to
        self._queue = QuorumQueue(command.config, self._bugs)
        return [*self._set_tick(), *self._attach_worker(self._queue)]

    def _retire(self) -> list[MachineEffect]:
        """Have the record removed, and try again later: the member that leads then does."""
        farewell = [] if self._is_retired or self._queue is None else self._translated(self._queue.deleted())
        self._is_retired = True
        return [*farewell, ForgetQueue(), SetTimer(TICK, TICK_MS)]

    def _set_tick(self) -> list[MachineEffect]:
        if self._ticks:
            return []
        self._ticks = True
        return [SetTimer(TICK, TICK_MS)]

    def _tick(self, queue: QuorumQueue, index: int, now: int) -> list[MachineEffect]:
        again = self._set_tick() if queue.state.config.expires is not None else []
        # The checkpoint first: it may be what takes the place of the log.
        return [WriteCheckpoint(), *self._translated(queue.tick(index, now)), *again]

    def _of_queue(self, queue: QuorumQueue, command: Logged) -> Iterable[QueueCommand]:
        """The commands of the queue that one of the log stands for."""
        match command:
            case Timeout(name):
                return (Expire(),) if name == EXPIRY else ()
            case ClientDown(client, "no_connection"):
                return (ProcessDown(process_of(client), suspected=True),)
            case ClientDown(client):
                there = queue.state.processes(client.node)
                return [ProcessDown(each, suspected=False) for each in there if address_of(each) == client]
            case Configure() | Retire():
                raise AssertionError("these are of the group")
            case _:
                return (command,)

    def _translated(self, effects: Sequence[Effect]) -> list[MachineEffect]:
        return [*carried_out(effects, self._group, self._dead_letter_to)]

    # --- to lead --------------------------------------------------------------------------------------------------

    def begin_leading(self) -> Sequence[MachineEffect]:
        """Timers and monitors anew; consumers get again what they have, as deliveries may be lost with a leader."""
        if self._is_retired:
            return (ForgetQueue(), SetTimer(TICK, TICK_MS))
        if self._queue is None:
            return (WantConfiguration(),)
        effects = (*self._queue.begin_leading(), *self._delivered_before(self._queue))
        return (*self._translated(effects), SetTimer(TICK, TICK_MS), *self._attach_worker(self._queue))

    def _attach_worker(self, queue: QuorumQueue) -> Sequence[MachineEffect]:
        """Have the leader publish dead letters, if that is to be at least once, from this entry on."""
        if queue.state.config.dead_letter != "at_least_once":
            return ()
        worker = Process(str(self.applied_index), self._node)  # no other leadership has applied this entry last
        return (AttachWorker(worker.name, log.encode(AttachDeadLetterWorker(worker, PREFETCH))),)

    def _delivered_before(self, queue: QuorumQueue) -> Iterable[Deliver]:
        for consumer in queue.state.in_order():
            held = consumer.checked_out
            if held and isinstance(consumer.key, int):  # others take single messages, which are answers
                yield Deliver(
                    consumer.id,
                    tuple(
                        Delivered(number, message.index, message.acquired, message.failed, message.annotations, None)
                        for number, message in sorted(held.items())
                    ),
                )

    # --- to read --------------------------------------------------------------------------------------------------

    def _answer(self) -> Result:
        return Value(notes.encode(self._report()))

    def _report(self) -> QueueReport:
        if self._queue is None:
            return QueueReport(is_deleted=self._is_retired)
        state = self._queue.state
        return QueueReport(
            is_configured=True,
            is_deleted=self._is_retired,
            ready=len(state.ready),
            ready_bytes=state.ready.bytes,
            checked_out=state.checked_out,
            consumers=state.consumer_count,
            publishers=sum(1 for _ in state.enqueuers),
            dead_letters=len(state.dead_letters),
        )

    @property
    def state_hash(self) -> str:
        """32 hexadecimal digits; equal for equal queues. Takes time in the number of messages, once for each entry."""
        if self._hash[0] != self.applied_index:
            digest = blake2b(self._content(b"", 0), digest_size=HASH_BYTES).hexdigest()
            self._hash = (self.applied_index, digest)
        return self._hash[1]

    # --- as bytes -------------------------------------------------------------------------------------------------

    def _dump(self, index: int) -> bytes:
        return self._content(self._chain, index)

    def _content(self, chain: bytes, index: int) -> bytes:
        queue = None if self._queue is None else self._queue.dump()
        return msgspec.msgpack.encode(
            _Dump(index, chain, self.version, self._group, queue, self._dead_letter_to, self._is_retired, self._ticks)
        )

    @classmethod
    def load_in_slices(
        cls, data: bytes, node: str = "", bugs: Bugs = NO_BUGS, functions: Functions = NO_FUNCTIONS
    ) -> InSlices[Self]:
        """The store whose `dump` this is, without pauses.

        Raises:
            msgspec.DecodeError: these bytes are no dump (msgspec.ValidationError is one).
        """
        yield from ()
        dump = msgspec.msgpack.decode(data, type=_Dump)
        store = cls._empty_at((dump.applied_index, dump.chain), dump.machine, node, bugs, functions)
        store._group, store._dead_letter_to = dump.group, dump.dead_letter_to
        store._queue = None if dump.queue is None else QuorumQueue.load(dump.queue, bugs)
        store._is_retired, store._ticks = dump.is_retired, dump.ticks
        return store


def _result(answered: Answered | Dequeued) -> Result | FromLog:
    if isinstance(answered, Dequeued):
        return FromLog((answered.index,), partial(_taken, answered))
    return Value(notes.encode(answered))


def _taken(reply: Dequeued, entries: tuple[Entry, ...]) -> Result:
    body = log.body_of(entries[0].data)
    return Value(notes.encode(Taken(reply.id, reply.acquired, reply.failed, reply.annotations, reply.ready, body)))

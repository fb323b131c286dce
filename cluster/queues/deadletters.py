"""Dead letters: published at most once by an effect, or at least once by a worker that settles them (QQ-5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from splitbrain.cluster.queues.config import Strategy
from splitbrain.cluster.queues.effects import (
    DeadLetter,
    DeadLetterDelivery,
    DeadLettered,
    DeliverDeadLetters,
    Effect,
    Reason,
)
from splitbrain.cluster.queues.identities import Process
from splitbrain.cluster.queues.messages import Message


class Worker(msgspec.Struct, array_like=True):
    """Who publishes dead letters at least once.

    Attributes:
        process: on the leader.
        prefetch: how many it has at most.
        next_id: of the next one that it gets.
        checked_out: what it has, by id.
    """

    process: Process
    prefetch: int
    next_id: int = 0
    checked_out: dict[int, tuple[Reason, Message]] = msgspec.field(
        default_factory=dict[int, tuple[Reason, Message]],
    )


class DumpedDeadLetters(msgspec.Struct, array_like=True):
    """`DeadLetters` as they stand in a snapshot."""

    waiting: list[tuple[Reason, Message]]
    worker: Worker | None


class DeadLetters:
    """Dead letters that wait for the worker, or are with it; with another strategy there are none.

    Attributes:
        worker: None until one is attached.
        bytes: of their bodies.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Reason, Message]] = deque()
        self.worker: Worker | None = None
        self.bytes = 0

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @property
    def checked_out(self) -> int:
        """How many are with the worker."""
        return 0 if self.worker is None else len(self.worker.checked_out)

    def __len__(self) -> int:
        return self.waiting + self.checked_out

    def add(self, messages: Sequence[Message], reason: Reason, strategy: Strategy) -> tuple[list[Effect], bool]:
        """Messages left the queue unsettled; what is to be done, and whether their entries are needed longer.

        What is dropped above a limit never waits for the worker: it would count towards the limit all the same.
        """
        if not messages:
            return [], False
        waits = strategy == "at_least_once" and reason != "maxlen"
        if waits:
            self._waiting.extend((reason, message) for message in messages)
            self.bytes += sum(message.size for message in messages)
        elif strategy == "at_least_once":
            strategy = "at_most_once"
        now = tuple(map(_lettered, messages)) if strategy == "at_most_once" else ()
        return [DeadLetter(reason, strategy, len(messages), now)], waits

    def attach(self, process: Process, prefetch: int) -> None:
        """A worker begins: what another had, or it itself, comes first, in the same order."""
        if self.worker is not None:
            self._waiting.extendleft(letter for _, letter in sorted(self.worker.checked_out.items(), reverse=True))
        self.worker = Worker(process, prefetch)

    def deliver(self) -> list[Effect]:
        """Hand the worker as many as it takes."""
        worker, given = self.worker, list[DeadLetterDelivery]()
        if worker is None:
            return []
        while self._waiting and len(worker.checked_out) < worker.prefetch:
            reason, message = worker.checked_out[worker.next_id] = self._waiting.popleft()
            given.append(DeadLetterDelivery(worker.next_id, reason, message.index, message.failed, message.annotations))
            worker.next_id += 1
        return [DeliverDeadLetters(worker.process, tuple(given))] if given else []

    def settle(self, ids: Iterable[int]) -> list[int] | None:
        """The worker is done with these; the indexes of their entries, None if there is no worker."""
        if self.worker is None:
            return None
        checked_out = self.worker.checked_out
        settled = [checked_out.pop(each)[1] for each in dict.fromkeys(ids) if each in checked_out]
        self.bytes -= sum(message.size for message in settled)
        return [message.index for message in settled]

    def clear(self) -> list[int]:
        """Forget all, and the worker; the indexes of their entries."""
        indexes = list(self.indexes())
        self._waiting.clear()
        self.worker, self.bytes = None, 0
        return indexes

    def indexes(self) -> Iterable[int]:
        """Of the entries with their bodies."""
        yield from (message.index for _, message in self._waiting)
        if self.worker is not None:
            yield from (message.index for _, message in self.worker.checked_out.values())

    def dump(self) -> DumpedDeadLetters:
        """As they stand in a snapshot."""
        return DumpedDeadLetters(list(self._waiting), self.worker)

    @classmethod
    def load(cls, dumped: DumpedDeadLetters) -> DeadLetters:
        """As they were."""
        letters = cls()
        letters._waiting.extend(dumped.waiting)
        letters.worker = dumped.worker
        with_worker = () if dumped.worker is None else dumped.worker.checked_out.values()
        letters.bytes = sum(message.size for _, message in (*dumped.waiting, *with_worker))
        return letters


def _lettered(message: Message) -> DeadLettered:
    return DeadLettered(message.index, message.failed, message.annotations)

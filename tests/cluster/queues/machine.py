"""A queue for tests: counts the entries of its log, and keeps the bodies."""

from __future__ import annotations

from splitbrain.cluster.queues import (
    Applied,
    ConsumerId,
    Process,
    QueueCommand,
    QueueConfig,
    QuorumQueue,
    decode_command,
    encode_command,
)
from splitbrain.cluster.queues.commands import Attach, Enqueue, Mode, Prefetch
from splitbrain.cluster.queues.effects import Deliver, Effect

PUBLISHER = Process("p", "n1")
CONSUMER = Process("c", "n2")


def consumer(tag: str, node: str = "n2") -> ConsumerId:
    return ConsumerId(tag, Process("c", node))


class Log:
    """A queue, and what was said about the last command."""

    def __init__(self, config: QueueConfig = QueueConfig()) -> None:  # noqa: B008 - it is frozen
        self.queue = QuorumQueue(config)
        self.commands: list[tuple[int, int, QueueCommand]] = []
        self.index = 0
        self.now = 0
        self.seq = 0
        self.effects: tuple[Effect, ...] = ()

    def apply(self, command: QueueCommand) -> Applied:
        self.index += 1
        self.commands.append((self.index, self.now, command))
        applied = self.queue.apply(self.index, self.now, decode_command(encode_command(command)))
        self.effects = applied.effects
        return applied

    def enqueue(self, body: bytes = b"x", *, ttl: int | None = None, priority: int = 4) -> int:
        """The entry's index."""
        self.seq += 1
        self.apply(Enqueue(PUBLISHER, self.seq, body, ttl, priority))
        return self.index

    def attach(self, tag: str, mode: Mode | int = 1, *, priority: int = 0, node: str = "n2") -> int:
        """The consumer's key."""
        taken = Prefetch(mode) if isinstance(mode, int) else mode
        self.apply(Attach(consumer(tag, node), "auto", taken, priority))
        return self.index

    def delivered(self) -> list[tuple[str, int, int]]:
        """What the last command delivered: tag of the consumer, message id, index."""
        return [
            (effect.consumer.tag, message.id, message.index)
            for effect in self.effects
            if isinstance(effect, Deliver)
            for message in effect.messages
        ]

    def of(self, kind: type[Effect]) -> list[Effect]:
        """Effects of the last command of this kind."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

"""What one command does: its place in the log, and the effects that it has so far."""

from __future__ import annotations

from splitbrain.cluster.queues.effects import Deliver, Delivered, Effect
from splitbrain.cluster.queues.identities import ConsumerId


class Step:
    """One entry of the log as it is applied.

    Args:
        index: of the entry.
        now: its time, in ms since the Unix epoch, as the leader stamped it.
        had_limit: whether there was a length limit before.
        was_below: whether the queue was below the soft one.

    Attributes:
        effects: so far.
        body: of the message that the entry brings, None for none.
        checkpoint: whether the state is to be written down behind it.
    """

    def __init__(self, index: int, now: int, had_limit: bool, was_below: bool) -> None:
        self.index = index
        self.now = now
        self.had_limit = had_limit
        self.was_below = was_below
        self.effects: list[Effect] = []
        self.body: bytes | None = None
        self.checkpoint = False
        self._deliveries: dict[ConsumerId, list[Delivered]] = {}

    def deliver(self, consumer: ConsumerId, message: Delivered) -> None:
        """Send a message, with others of this step to the same consumer."""
        self._deliveries.setdefault(consumer, []).append(message)

    def end_deliveries(self) -> None:
        """What comes from now on is sent after all of these messages."""
        self.effects.extend(Deliver(consumer, tuple(messages)) for consumer, messages in self._deliveries.items())
        self._deliveries = {}

"""Consumers: what they have, and how much more they take (QQ-3, QQ-4)."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from splitbrain.cluster.queues.commands import Credit, Credited, Life, Mode, Prefetch
from splitbrain.cluster.queues.identities import ConsumerId, ConsumerKey, in_key_order
from splitbrain.cluster.queues.messages import Message

Status: TypeAlias = Literal["up", "suspected_down", "cancelled", "quiescing"]

SERIAL_MODULUS: Final = 2**32
"""Of delivery counts, version 2: they are serial numbers (RFC 1982)."""


class Consumer(msgspec.Struct, array_like=True):
    """A consumer.

    Attributes:
        key: what commands name it by.
        id: its own name.
        life: "once": it gets no more credit than it had at first.
        mode: how it gets credit.
        priority: the highest is served first, or is the active one.
        credit: how many messages more it takes.
        delivery_count: how many it was given, with what it let lapse; a serial number in mode `Credited`.
        status: "up": gets messages; "suspected_down": its node cannot be reached; "cancelled": it settles what it has;
            "quiescing": it settles what it has, and then another becomes active.
        next_msg_id: of the next message that it gets.
        checked_out: what it has, by message id.
    """

    key: ConsumerKey
    id: ConsumerId
    life: Life
    mode: Mode
    priority: int
    credit: int = 0
    delivery_count: int = 0
    status: Status = "up"
    next_msg_id: int = 0
    checked_out: dict[int, Message] = msgspec.field(default_factory=dict[int, Message])

    @classmethod
    def new(cls, key: ConsumerKey, id: ConsumerId, life: Life, mode: Mode, priority: int) -> Consumer:
        """One that has no messages yet."""
        count = mode.delivery_count if isinstance(mode, Credited) else 0
        return cls(key, id, life, mode, priority, _included_credit(mode), count)

    def merge(self, life: Life, mode: Mode, priority: int) -> None:
        """It is attached again: what it has counts against the credit that comes with its mode."""
        self.life, self.mode, self.priority = life, mode, priority
        self.status = "up"
        self.credit = max(0, _included_credit(mode) - len(self.checked_out))

    @property
    def takes_messages(self) -> bool:
        """Whether a message can be handed to it."""
        return self.credit > 0 and self.status == "up"

    @property
    def is_done(self) -> bool:
        """Whether it gets nothing more, and has nothing."""
        if self.checked_out:
            return False
        return self.status == "cancelled" or (self.life == "once" and self.credit == 0)

    def hand_out(self, message: Message) -> int:
        """Give it a message; the message's id."""
        number = self.next_msg_id
        self.checked_out[number] = message
        self.next_msg_id = number + 1
        self.credit -= 1
        self.delivery_count = self._advanced(1)
        return number

    def regain(self, count: int) -> None:
        """So many messages were settled or given back."""
        if count and self.life == "auto" and isinstance(self.mode, Prefetch):
            regained = self.credit + count
            self.credit = min(self.mode.count, regained) if self.mode.count else regained

    def grant(self, command: Credit) -> None:
        """Set its credit. The consumer may not know of the last deliveries, which counted against it."""
        if isinstance(self.mode, Credited):
            ahead = (command.delivery_count + command.credit - self.delivery_count) % SERIAL_MODULUS
            self.credit = ahead if ahead < SERIAL_MODULUS // 2 else 0
        else:
            self.credit = max(0, command.delivery_count + command.credit - self.delivery_count)

    def drain(self) -> int:
        """Take its credit back, as if it had been used; how much that was."""
        drained = self.credit
        self.delivery_count = self._advanced(drained)
        self.credit = 0
        return drained

    def _advanced(self, by: int) -> int:
        count = self.delivery_count + by
        return count % SERIAL_MODULUS if isinstance(self.mode, Credited) else count


def _included_credit(mode: Mode) -> int:
    return mode.count if isinstance(mode, Prefetch) else 0


def in_succession(waiting: list[Consumer]) -> list[Consumer]:
    """Waiting consumers as they follow the active one: those that are up, by priority, credit and key; then others."""
    up = [consumer for consumer in waiting if consumer.status == "up"]
    up.sort(key=lambda consumer: (-consumer.priority, -consumer.credit, in_key_order(consumer.key)))
    return up + [consumer for consumer in waiting if consumer.status != "up"]

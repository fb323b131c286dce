"""What a queue is declared with, and what policies change (QQ-3, QQ-5, QQ-7)."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

Overflow: TypeAlias = Literal["drop_head", "reject_publish"]
Strategy: TypeAlias = Literal["disabled", "at_most_once", "at_least_once"]


Amount: TypeAlias = Annotated[int, Meta(ge=0, lt=2**62)]


class QueueConfig(msgspec.Struct, frozen=True, array_like=True):
    """The configuration of a queue. Times are milliseconds; None and, for the delivery limit, less than 0 mean none.

    Attributes:
        overflow: what happens above a length limit: the oldest messages go, or publishers are asked to stop.
        max_length: how many messages may be ready.
        max_bytes: how many bytes of message bodies may be ready.
        message_ttl: a message is too old when it has been in the queue for so long; the message itself may say less.
        expires: the queue is to be deleted when it was not used for longer than this.
        created: since the Unix epoch; the queue counts as used then. Without it `expires` begins with the first use.
        delivery_limit: a message that was acquired more often than this, and given back, is dead-lettered.
        single_active_consumer: whether one consumer gets all messages, and the others wait to succeed it.
        dead_letter: what happens to messages that were refused, or expired, or dropped.
    """

    overflow: Overflow = "drop_head"
    max_length: Amount | None = None
    max_bytes: Amount | None = None
    message_ttl: Amount | None = None
    expires: Amount | None = None
    created: Amount | None = None
    delivery_limit: int | None = None
    single_active_consumer: bool = False
    dead_letter: Strategy = "disabled"

    @property
    def has_length_limit(self) -> bool:
        """Whether there is a limit of messages or of bytes."""
        return self.max_length is not None or self.max_bytes is not None

    @property
    def limit_of_deliveries(self) -> int | None:
        """The delivery limit; None for none."""
        return None if self.delivery_limit is None or self.delivery_limit < 0 else self.delivery_limit

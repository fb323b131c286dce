"""What a queue is declared with."""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from splitbrain.cluster.errors import InvalidRequestError
from splitbrain.cluster.queuegroups.records import DELIVERY_LIMIT, GROUP_SIZE, QueueRecord
from splitbrain.cluster.queues import QueueConfig

MAX_QUEUES: Final = 900
"""In one cluster; each is a group, and nodes have room for some others."""


_PLACE: Final = re.compile(r"`\$\[(\d+)\]`")
"""Of an option in an error about a configuration, which is an array."""


class QueueOptions(msgspec.Struct, frozen=True):
    """What a queue is declared with. Times are milliseconds; None means none.

    Attributes:
        initial_group_size: how many members replicate it; all nodes if there are fewer.
        delivery_limit: a message that was given back more often than this is a dead letter; less than 0: no limit.
        max_length: how many messages may be ready.
        max_bytes: how many bytes of message bodies may be ready.
        overflow: what happens above: the oldest messages go, or publishers are asked to stop.
        message_ttl: a message is a dead letter when it has been in the queue for so long.
        expires: the queue is deleted when it was not used for longer than this.
        single_active_consumer: whether one consumer gets all messages, and the others wait to succeed it.
        dead_letter_to: name of the queue that gets dead letters; None: they are dropped.
        dead_letter_strategy: whether it gets each at most once, or at least once: then with `reject_publish` only.
        target_group_size: how many live replicas it is to have at any time (CMR-1); None: as a policy or the
            configuration of the nodes says.
    """

    initial_group_size: int = GROUP_SIZE
    delivery_limit: int = DELIVERY_LIMIT
    max_length: int | None = None
    max_bytes: int | None = None
    overflow: Literal["drop_head", "reject_publish"] = "drop_head"
    message_ttl: int | None = None
    expires: int | None = None
    single_active_consumer: bool = False
    dead_letter_to: str | None = None
    dead_letter_strategy: Literal["at_most_once", "at_least_once"] = "at_most_once"
    target_group_size: int | None = None

    def config(self) -> QueueConfig:
        """The same for the machine.

        Raises:
            InvalidRequestError: an option is out of bounds, or does not go with another one.
        """
        if self.dead_letter_strategy == "at_least_once":
            self._check_at_least_once()
        config = QueueConfig(
            overflow=self.overflow,
            max_length=self.max_length,
            max_bytes=self.max_bytes,
            message_ttl=self.message_ttl,
            expires=self.expires,
            delivery_limit=self.delivery_limit,
            single_active_consumer=self.single_active_consumer,
            dead_letter="disabled" if self.dead_letter_to is None else self.dead_letter_strategy,
        )
        try:
            return msgspec.msgpack.decode(msgspec.msgpack.encode(config), type=QueueConfig)
        except (msgspec.MsgspecError, OverflowError) as error:
            named = _PLACE.sub(lambda found: QueueConfig.__struct_fields__[int(found[1])], str(error))
            raise InvalidRequestError(f"a queue cannot be declared so: {named}.") from error

    def _check_at_least_once(self) -> None:
        if self.dead_letter_to is None:
            raise InvalidRequestError("dead letters at least once need a queue that gets them: say dead_letter_to.")
        if self.overflow != "reject_publish":
            raise InvalidRequestError(
                "dead letters are published at least once only by a queue that drops nothing above its limits: declare "
                "it with overflow reject_publish."
            )


class Declared(msgspec.Struct, frozen=True):
    """A queue that is there.

    Attributes:
        is_new: whether this declaration made it.
        term: of the entry of the declaration in the metadata.
        record: what the metadata say of it.
    """

    is_new: bool
    term: int
    record: QueueRecord


def options_of(record: QueueRecord) -> QueueOptions:
    """What a queue was declared with, by its record."""
    config = record.config
    limit = config.limit_of_deliveries
    return QueueOptions(
        initial_group_size=record.size,
        delivery_limit=-1 if limit is None else limit,
        max_length=config.max_length,
        max_bytes=config.max_bytes,
        overflow=config.overflow,
        message_ttl=config.message_ttl,
        expires=config.expires,
        single_active_consumer=config.single_active_consumer,
        dead_letter_to=record.dead_letter_to,
        dead_letter_strategy="at_most_once" if config.dead_letter == "disabled" else config.dead_letter,
        target_group_size=record.target,
    )

"""Who speaks with a queue: processes on nodes, and the consumers that they attach."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Process(NamedTuple):
    """A process that publishes, consumes, or takes dead letters on.

    Attributes:
        name: unique on its node.
        node: where it runs.
    """

    name: str
    node: str


class ConsumerId(NamedTuple):
    """A consumer, as its process names it: a tag is unique in its process."""

    tag: str
    process: Process


ConsumerKey: TypeAlias = int | ConsumerId
"""What commands name a consumer by: the index of the entry that attached it, or its id where that has none."""


def in_key_order(key: ConsumerKey) -> tuple[bool, int, ConsumerId | tuple[()]]:
    """Sorts keys as RabbitMQ does: indexes first, then ids."""
    return (False, key, ()) if isinstance(key, int) else (True, 0, key)

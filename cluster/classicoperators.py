"""What operators ask and say of classic queues, and of what nodes may convert (CQ-6, CQ-7)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from splitbrain.cluster.classicqueues.frames import NodeSeen, Seen
from splitbrain.cluster.classicqueues.records import DEAD_LETTER_TO, ClassicRecord
from splitbrain.cluster.client import Client, ClientError
from splitbrain.cluster.entities import policies, vhosts
from splitbrain.cluster.entities.client import ClientStore
from splitbrain.cluster.members import node_of
from splitbrain.cluster.queuereplicas.facts import VHOST

POLICY: Final = "delivery-limit"
"""The name of the operator's policy that `set_limit` sets."""

AT_ONCE: Final = 32
"""Queues that are asked at the same time."""


class SeenClassicQueue(msgspec.Struct, frozen=True):
    """A classic queue. What only its node knows is None while that does not answer.

    Attributes:
        name: of it.
        node: that holds it.
        ready: how many messages wait.
        taken: how many are taken and not settled.
        dropped: how many were found above the delivery limit since the node began.
        dead: how many dead letters wait for the queue that is to get them.
        limit: how often a message may be delivered again, by declaration and policies; None for any number of times.
        dead_letter_to: the queue that gets dead letters, by declaration or policy; None: they are dropped.
        versions: of the records of its files, by name.
        problem: why its node says nothing of it, None if it does.
    """

    name: str
    node: str
    ready: int | None
    taken: int | None
    dropped: int | None
    dead: int | None
    limit: int | None
    dead_letter_to: str | None
    versions: Mapping[str, int] | None
    problem: str | None


class SeenConversions(msgspec.Struct, frozen=True):
    """What a node may convert.

    Attributes:
        node: its name.
        alarms: that are active, in the order in which they were set; None if the node does not answer.
        transformations: that were begun, with their versions; None if it has no numpy, or does not answer.
        problem: why it does not answer, None if it does.
    """

    node: str
    alarms: list[str] | None
    transformations: Mapping[str, int] | None
    problem: str | None


async def every(client: Client, timeout_ms: int) -> list[SeenClassicQueue]:
    """All queues, by name; each node gets half of the time to answer."""
    found = await client.get_nodes("/classic_queues/*", timeout_ms=timeout_ms)
    queues, slots = await client.classic_queues(), asyncio.Semaphore(AT_ONCE)

    async def look(name: str, value: object) -> SeenClassicQueue | None:
        try:
            record = msgspec.convert(value, ClassicRecord)
        except msgspec.ValidationError:
            return None  # clients may write anything there
        async with slots:
            try:
                seen = await queues.look(name, timeout_ms=max(1, timeout_ms // 2))
            except ClientError as error:
                return _unseen(name, record, str(error))
        return _seen(name, record, seen)

    rows = await asyncio.gather(*(look(node.path.rpartition("/")[2], node.value) for node in found.nodes))
    return [row for row in rows if row is not None]


def _seen(name: str, record: ClassicRecord, seen: Seen) -> SeenClassicQueue:
    return SeenClassicQueue(
        name=name,
        node=node_of(record.member),
        ready=seen.ready,
        taken=seen.taken,
        dropped=seen.dropped,
        dead=seen.dead,
        limit=seen.limit,
        dead_letter_to=seen.dead_letter_to,
        versions=seen.versions,
        problem=None,
    )


def _unseen(name: str, record: ClassicRecord, problem: str) -> SeenClassicQueue:
    return SeenClassicQueue(name, node_of(record.member), None, None, None, None, None, None, None, problem)


async def set_limit(client: Client, limit: int, pattern: str, dead_letter_to: str | None, timeout_ms: int) -> None:
    """Set the operator's policy of classic queues whose names match; it counts beside those of users.

    Args:
        client: of any node.
        limit: how often a message may be delivered again at most, -1 for any number of times.
        pattern: a regular expression, found in the names of the queues.
        dead_letter_to: the queue that gets dead letters, before what users' policies say; None to leave that to them.
        timeout_ms: after so long it is given up.

    Raises:
        InvalidRequestError: the expression is not in order.
    """
    store = ClientStore(client, timeout_ms)
    await vhosts.declare(store, VHOST)
    definition = {"delivery-limit": limit} | ({} if dead_letter_to is None else {DEAD_LETTER_TO: dead_letter_to})
    await policies.put(store, VHOST, POLICY, pattern, definition, apply_to="queues", operator=True)


async def conversions(client: Client, timeout_ms: int) -> list[SeenConversions]:
    """What each member may convert, by name; each gets half of the time to answer."""
    queues = await client.classic_queues()

    async def look(node: str) -> SeenConversions:
        try:
            return of_node(node, await queues.look_at_node(node, timeout_ms=max(1, timeout_ms // 2)))
        except ClientError as error:
            return SeenConversions(node, None, None, str(error))

    members = await queues.members(timeout_ms)
    return list(await asyncio.gather(*(look(node_of(member)) for member in members)))


def of_node(node: str, seen: NodeSeen) -> SeenConversions:
    """What a node said."""
    return SeenConversions(node, list(seen.alarms), seen.transformations, None)

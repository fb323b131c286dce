"""What operators ask and say of quorum queues, of their replicas and of streams, besides growing and shrinking them.

`splitbrain.cluster.queueclient.Queues` grows and shrinks one.
"""

from __future__ import annotations

from typing import Final

import msgspec

from splitbrain.cluster.client import Client, UnavailableError
from splitbrain.cluster.entities import maintenance, policies, vhosts
from splitbrain.cluster.entities.client import ClientStore
from splitbrain.cluster.entities.records import NodeState
from splitbrain.cluster.groupnames import COORDINATOR_PATH
from splitbrain.cluster.queuegroups.records import record_of
from splitbrain.cluster.queuereplicas.facts import VHOST
from splitbrain.cluster.replicas import SETTING
from splitbrain.cluster.streamclient import StreamStatus
from splitbrain.cluster.tree.paths import format_path

POLICY: Final = "target-of-replicas"
"""The name of the policy that `set_target` sets."""


class SeenQueue(msgspec.Struct, frozen=True):
    """A quorum queue, as the metadata have it.

    Attributes:
        name: of it.
        leader: id of the member that led it when that was noted last, None if none was yet.
        members: ids of its members.
        target: how many live replicas it was declared to have, None if that is left to policies.
        change: the change of members that is under way, in words, None if there is none.
    """

    name: str
    leader: str | None
    members: list[str]
    target: int | None
    change: str | None


async def every(client: Client) -> list[SeenQueue]:
    """All queues, by name."""
    found = await client.get_nodes("/quorum_queues/*")
    return [_seen(node.path.rpartition("/")[2], node.value) for node in found.nodes]


def _seen(name: str, value: object) -> SeenQueue:
    record = record_of(value)
    change = record.change
    words = None if change is None else f"{change.kind} {change.member}"
    return SeenQueue(name, record.leader, list(record.members), record.target, words)


async def every_stream(client: Client) -> list[StreamStatus]:
    """All streams, in the order of their declarations; none as long as none was ever declared."""
    streams = await client.streams()
    try:
        return list(await streams.status())
    except UnavailableError:
        if await client.exists(format_path(COORDINATOR_PATH)):
            raise
        return []


async def note(client: Client, node: str, state: NodeState, timeout_ms: int) -> None:
    """Note that a node is being drained, or that it takes on work again."""
    await maintenance.put(ClientStore(client, timeout_ms), node, state)


async def set_target(client: Client, target: int, pattern: str, timeout_ms: int) -> None:
    """Set the policy that queues whose names match are to have so many live replicas.

    Raises:
        InvalidRequestError: the expression is not in order.
    """
    store = ClientStore(client, timeout_ms)
    await vhosts.declare(store, VHOST)
    await policies.put(store, VHOST, POLICY, pattern, {SETTING: target}, apply_to="queues")

"""Replicas of quorum queues of the metadata cluster, for the workload `replicas`."""

from __future__ import annotations

from typing import Any, Final, Literal

from splitbrain.cluster import queueoperators
from splitbrain.cluster.client import Client
from splitbrain.harness.contract.sessions import Answer
from splitbrain.harness.systems.metadata_queues import MetadataQueues

SHORT_TIMES: Final = ("--replica-trigger-ms", "500", "--replica-recovery-ms", "1500", "--replica-check-ms", "3000")
"""Arguments of nodes: a run is shorter than the times of the defaults. The workload knows the second (`RECOVERY_S`)."""


class MetadataReplicas:
    """What one session asks about replicas, and has changed.

    Args:
        client: of the node that is asked.
        timeout_ms: of a request.
        queues: of the session.
    """

    def __init__(self, client: Client, timeout_ms: int, queues: MetadataQueues) -> None:
        self._client = client
        self._timeout_ms = timeout_ms
        self._queues = queues

    async def replicas(self, queue: str) -> Answer:
        """What the metadata say of the members of a queue, and which members the cluster has."""
        record = await (await self._queues.opened()).record(queue, timeout_ms=self._timeout_ms)
        cluster = await self._client.members(learners=True)
        found: dict[str, Any] = {
            "members": list(record.members),
            "cluster": list(cluster),
            "last": record.last_change,
            "change": None if record.change is None else _listed(record.change),
            "changes": [_listed(change) for change in record.changes],
        }
        return Answer(found)

    async def grow(self, queue: str, node: str) -> Answer:
        """Have a node take part, and wait until it does."""
        await (await self._queues.opened()).grow(queue, node, timeout_ms=self._timeout_ms)
        return Answer()

    async def shrink(self, queue: str, node: str) -> Answer:
        """Have a node take part no more, and wait until it does not."""
        await (await self._queues.opened()).shrink(queue, node, timeout_ms=self._timeout_ms)
        return Answer()

    async def set_state(self, node: str, state: Literal["regular", "draining"]) -> Answer:
        """Note whether a node is being drained."""
        await queueoperators.note(self._client, node, state, self._timeout_ms)
        return Answer()


def _listed(change: Any) -> list[Any]:
    return [change.number, change.kind, change.member, change.by, change.outcome]

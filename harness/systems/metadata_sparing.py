"""When a member may leave the metadata cluster without an end to what is above the store.

Members of queues, of streams and of the coordinator of streams follow those of the cluster one by one. A group that
loses half of its votes at once, with their data, is lost; so the next member is removed only once all have followed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Final, TypeAlias

from splitbrain.cluster.client import Client, NodeNotFoundError
from splitbrain.cluster.groupnames import COORDINATOR_PATH, STREAM_COORDINATOR
from splitbrain.harness.contract.sessions import DefiniteError

Sparing: TypeAlias = Callable[[Client, str], Awaitable[None]]
"""Refuses with a DefiniteError that a member of this id leaves now."""

_QUEUES: Final = "/quorum_queues"
"""Where the records of queues stand; each names the members of a queue."""

_COORDINATOR: Final = f"/{'/'.join(COORDINATOR_PATH)}"

_SPARED: Final = 3
"""Of so many votes at least one may go at once: the others are a majority, and have it leave."""

_ASK_MS: Final = 1000


async def spared_by_queues(client: Client, member: str) -> None:
    """Refuse that a member leaves before all queues have followed those that left earlier, or from a queue of two.

    Raises:
        DefiniteError: so it is.
    """
    members = await client.members(learners=True)
    try:
        names = (await client.children(_QUEUES, mode="local")).names
        records = [(await client.get(f"{_QUEUES}/{name}", mode="local")).value for name in names]
    except NodeNotFoundError:
        return  # no queue was declared, or one was deleted meanwhile
    for name, record in zip(names, records, strict=True):
        if record.get("change") is not None:
            raise DefiniteError(f"queue {name}: a change of its members is under way: try again later.")
        _refuse_early(f"queue {name}", record["members"], members, member)


async def spared_by_streams(client: Client, member: str) -> None:
    """Refuse the same of the copies of each stream, and of the group of their coordinator.

    Raises:
        DefiniteError: so it is.
        ClientError: the coordinator did not answer: it may have no majority without a further loss.
    """
    members = await client.members(learners=True)
    try:
        await client.get(_COORDINATOR, mode="local")
    except NodeNotFoundError:
        return  # no stream was declared
    _refuse_early("the coordinator of streams", await client.of_group(STREAM_COORDINATOR).members(), members, member)
    for stream in await (await client.streams()).status(timeout_ms=_ASK_MS):
        _refuse_early(f"stream {stream.name}", stream.voters, members, member)


def _refuse_early(what: str, votes: Collection[str], members: Collection[str], member: str) -> None:
    left = [each for each in votes if each not in members and each != member]
    if left:
        raise DefiniteError(f"{what} still has {', '.join(left)}, which left before: try again later.")
    if member in votes and len(votes) < _SPARED:
        raise DefiniteError(f"{what} has {', '.join(votes)} alone, and needs both.")

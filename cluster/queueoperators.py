"""What operators ask and say of quorum queues, of their replicas and of streams, besides growing and shrinking them.

`splitbrain.cluster.queueclient.Queues` grows and shrinks one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from splitbrain.cluster.classicqueues.records import DEAD_LETTER_TO
from splitbrain.cluster.classicqueues.records import PATH as CLASSIC
from splitbrain.cluster.client import Client, InvalidRequestError, UnavailableError
from splitbrain.cluster.entities import maintenance, policies, vhosts
from splitbrain.cluster.entities.client import ClientStore
from splitbrain.cluster.entities.records import AppliesTo, NodeState, Policy
from splitbrain.cluster.groupnames import COORDINATOR_PATH
from splitbrain.cluster.queueclient.connection import pause
from splitbrain.cluster.queueclient.options import QueueOptions, options_of
from splitbrain.cluster.queuegroups.notes import QueueReport
from splitbrain.cluster.queuegroups.records import PATH as QUORUM
from splitbrain.cluster.queuegroups.records import record_of
from splitbrain.cluster.queuereplicas.facts import VHOST
from splitbrain.cluster.reading import ReadMode
from splitbrain.cluster.replicas import SETTING
from splitbrain.cluster.streamclient import StreamStatus
from splitbrain.cluster.streams.retention import MAX_AGE, MAX_LENGTH_BYTES, Retention
from splitbrain.cluster.tree.paths import format_path

POLICY: Final = "target-of-replicas"
"""The name of the policy that `set_target` sets."""

SETTINGS: Final[Mapping[str, str]] = {
    SETTING: "quorum queues and streams",
    MAX_LENGTH_BYTES: "streams",
    MAX_AGE: "streams",
    "delivery-limit": "classic queues",
    DEAD_LETTER_TO: "classic queues",
    "queue-mode": "classic queues",
}
"""What policies can say that nodes follow, and of what."""


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


async def every(client: Client, mode: ReadMode = "consistent") -> list[SeenQueue]:
    """All queues, by name."""
    found = await client.get_nodes("/quorum_queues/*", mode=mode)
    return [_seen(node.path.rpartition("/")[2], node.value) for node in found.nodes]


def _seen(name: str, value: object) -> SeenQueue:
    record = record_of(value)
    change = record.change
    words = None if change is None else f"{change.kind} {change.member}"
    return SeenQueue(name, record.leader, list(record.members), record.target, words)


class SeenStatus(QueueReport, frozen=True, kw_only=True):
    """How a queue is, as its leader knows it, and what it was declared with.

    Attributes:
        is_configured: whether it takes commands: not yet in the first moments.
        is_deleted: whether it takes none any more.
        ready: messages that may be handed out.
        ready_bytes: of their bodies.
        checked_out: messages that consumers have.
        consumers: how many there are, without those that are suspected.
        publishers: how many are known.
        dead_letters: that wait.
        declared: what it was declared with.
    """

    declared: QueueOptions


async def status(client: Client, name: str, timeout_ms: int) -> SeenStatus:
    """Of a quorum queue.

    Raises:
        QueueNotFoundError: there is none of that name.
    """
    queues = await client.queues()
    report = await queues.status(name, timeout_ms=timeout_ms)
    record = await queues.record(name, timeout_ms=timeout_ms)
    return SeenStatus(**msgspec.structs.asdict(report), declared=options_of(record))


async def types_of(client: Client, name: str) -> list[Literal["quorum", "classic"]]:
    """Of which types there is a queue of that name; a quorum queue and a classic one may have the same."""
    paths: dict[Literal["quorum", "classic"], tuple[str, ...]] = {"quorum": QUORUM, "classic": CLASSIC}
    return [kind for kind, parent in paths.items() if await client.exists(format_path((*parent, name)))]


async def every_stream(client: Client) -> list[StreamStatus]:
    """All streams, in the order of their declarations; none as long as none was ever declared."""
    streams = await client.streams()
    try:
        return list(await streams.status())
    except UnavailableError:
        if await client.exists(format_path(COORDINATOR_PATH)):
            raise
        return []


class SeenStream(StreamStatus, frozen=True):
    """A stream, with what policies say of it.

    Attributes:
        kept_bytes: what each copy keeps at most, by declaration and policies, in bytes; None: all.
        kept_ms: how old messages may get, by declaration and policies; None: as old as they will.
    """

    kept_bytes: int | None
    kept_ms: int | None


async def every_stream_kept(client: Client, timeout_ms: int) -> list[SeenStream]:
    """All streams, in the order of their declarations, with what is kept of each."""
    found = await every_stream(client)
    if not found:
        return []
    users, operators = await _policies(client, timeout_ms)
    return [_kept(each, users, operators) for each in found]


def _kept(stream: StreamStatus, users: Sequence[Policy], operators: Sequence[Policy]) -> SeenStream:
    declared = Retention(stream.max_length_bytes, stream.max_age_ms)
    kept = declared.within(policies.effective("queue", stream.name, users, operators))
    return SeenStream(**msgspec.structs.asdict(stream), kept_bytes=kept.max_length_bytes, kept_ms=kept.max_age_ms)


class SeenPolicy(msgspec.Struct, frozen=True):
    """A policy, as the node that is asked has it.

    Attributes:
        name: of it.
        pattern: a regular expression that is found in the names of those that it is for.
        definition: settings by name.
        priority: of several that match, the one of the highest priority counts; of equals the first by name.
        apply_to: all, queues (streams are some) or exchanges.
        operator: whether it is one of the operator, which counts beside those of users.
    """

    name: str
    pattern: str
    definition: Mapping[str, Any]
    priority: int
    apply_to: AppliesTo
    operator: bool


async def every_policy(client: Client, timeout_ms: int) -> list[SeenPolicy]:
    """The policies for queues and streams, in the order in which they count; those of users first.

    Raises:
        UnavailableError: the node does not know them in time.
    """
    users, operators = await _policies(client, timeout_ms)
    return [*(_seen_policy(each, False) for each in users), *(_seen_policy(each, True) for each in operators)]


def _seen_policy(policy: Policy, operator: bool) -> SeenPolicy:
    return SeenPolicy(
        policy.name, policy.pattern, policy.definition, policy.priority, policy.apply_to, operator=operator
    )


async def _policies(client: Client, timeout_ms: int) -> tuple[Sequence[Policy], Sequence[Policy]]:
    """Those of users and of operators."""
    store = ClientStore(client, timeout_ms)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            return await _policies_of(store, operator=False), await _policies_of(store, operator=True)
    except TimeoutError as error:
        raise UnavailableError("unavailable: this node does not know the policies yet: ask again.", 0) from error


async def _policies_of(store: ClientStore, *, operator: bool) -> Sequence[Policy]:
    """Those of the virtual host whose policies count, as soon as the node that is asked keeps them."""
    while True:
        try:
            found = await policies.every(store, operator=operator)
        except UnavailableError:  # it keeps them from now on
            await pause()
        else:
            own = (each for each in found if each.vhost == VHOST)
            return sorted(own, key=lambda each: (-each.priority, each.name))


async def set_policy(
    client: Client,
    name: str,
    pattern: str,
    definition: Mapping[str, Any],
    *,
    priority: int,
    apply_to: AppliesTo,
    operator: bool,
    timeout_ms: int,
) -> None:
    """Set a policy; one of that name is replaced.

    Raises:
        InvalidRequestError: a setting is none that nodes follow, or its value, or the expression, is not in order.
    """
    unknown = [setting for setting in definition if setting not in SETTINGS]
    if unknown:
        known = ", ".join(f"{setting} ({of})" for setting, of in SETTINGS.items())
        raise InvalidRequestError(f"invalid_policy: {unknown[0]!r} is no setting that nodes follow. Those are {known}.")
    store = ClientStore(client, timeout_ms)
    await vhosts.declare(store, VHOST)
    await policies.put(store, VHOST, name, pattern, definition, priority=priority, apply_to=apply_to, operator=operator)


async def clear_policy(client: Client, name: str, *, operator: bool, timeout_ms: int) -> bool:
    """Remove a policy; whether there was one."""
    return await policies.clear(ClientStore(client, timeout_ms), VHOST, name, operator=operator)


async def note(client: Client, node: str, state: NodeState, timeout_ms: int) -> None:
    """Note that a node is being drained, or that it takes on work again."""
    await maintenance.put(ClientStore(client, timeout_ms), node, state)


async def drained(client: Client, timeout_ms: int) -> list[str]:
    """Names of the nodes that are being drained, sorted."""
    return sorted(await maintenance.drained(ClientStore(client, timeout_ms)))


async def set_target(client: Client, target: int, pattern: str, timeout_ms: int) -> None:
    """Set the policy that queues whose names match are to have so many live replicas.

    Raises:
        InvalidRequestError: the expression is not in order.
    """
    store = ClientStore(client, timeout_ms)
    await vhosts.declare(store, VHOST)
    await policies.put(store, VHOST, POLICY, pattern, {SETTING: target}, apply_to="queues")

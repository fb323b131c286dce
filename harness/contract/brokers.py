"""What a client may ask of a node of a message broker: its entities, and its queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NotRequired, Protocol, TypeAlias, TypedDict

from splitbrain.harness.contract.sessions import Answer, Session

Entity: TypeAlias = list[Any]
"""Its kind, and its names: `["vhost", v]`, `["user", u]`, `["permission", v, u]`, `["policy", v, name]`,
`["exchange", v, x, type]`, with True at the end if it goes with its last binding, `["queue", v, q]`,
`["exclusive", v, q, owner]` for the queue of a connection, or
`["binding", v, x, kind, destination, key, number]`, where `kind` is that of the destination, and the number is in the
binding's arguments: bindings that differ in it alone are several. Messages have the number 0 in their headers."""


ENTITIES_WITH_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "vhost": ("description", "tags"),
    "user": ("password_hash", "tags"),
    "permission": ("configure", "write", "read"),
    "topic_permission": ("write", "read"),
    "exchange": ("type", "durable", "auto_delete", "internal", "arguments"),
    "queue": ("durable", "auto_delete", "owner", "node", "arguments"),
    "binding": ("arguments",),
    "policy": ("pattern", "definition", "priority", "apply_to"),
    "operator_policy": ("pattern", "definition", "priority", "apply_to"),
    "parameter": ("value",),
    "global_parameter": ("value",),
    "maintenance": ("state",),
}
"""The fields of the value of each kind of entity, a dict at its end.

The names before it are `["vhost", v]`, `["user", u]`, `["permission", v, u]`, `["topic_permission", v, u, x]`,
`["exchange", v, x]`, `["queue", v, q]`, `["binding", v, x, kind, destination, key, number]`, `["policy", v, name]`,
`["operator_policy", v, name]`, `["parameter", v, component, name]`, `["global_parameter", name]` and
`["maintenance", node]`.
"""

PROJECT: Final = "project"
"""The function of ops that a node answers by itself, from what it holds of a topology (`Topology.projected`)."""


class Topology(Session, Protocol):
    """Entities of a message broker. What is there already as it is declared can be declared again."""

    async def prepare_topology(self) -> Answer:
        """Have the system keep what `projected` reads; no error where nothing is to be done."""
        ...

    async def declare(self, entity: Entity) -> Answer:
        """Make an entity, if it is not there.

        Its errors begin with "not_found" where what the entity needs is not there, and with "precondition_failed" where
        there is one of that name that differs.
        """
        ...

    async def delete(self, entity: Entity) -> Answer:
        """Remove an entity, and all that needs it; the answer's value is whether it was there, None if unknown.

        An exclusive queue of the workload `migration` has at its end as whom it is removed: `{"owner": NAME}`.
        """
        ...

    async def claim(self, vhost: str, queue: str) -> Answer:
        """Make a queue that is exclusive to the connection of this session; the answer's value is its owner.

        Its error begins with "resource_locked" where there is one of another connection. The owner's name is never used
        again. When the session is closed its connection ends.
        """
        ...

    async def disconnect(self) -> Answer:
        """End that connection, so that its queues go, and have another; the answer's value is who owned them, or None.

        Never fails definitely once it has begun.
        """
        ...

    async def entities(self) -> Answer:
        """All entities at one moment, a sorted list; linearizable."""
        ...

    async def projected(self, keys: Sequence[str]) -> Answer:
        """What the node of this session holds at one moment, in three ways that have to agree; it may be old.

        Ops that ask for it are of function `PROJECT`.

        Args:
            keys: routing keys.

        Returns:
            A dict. "tree": all entities, sorted. "tables": the same from what the node looks into on hot paths.
            "routes": by the latter, for each exchange and each of `keys`, `[v, x, key, queues]`. Always None if the
            system cannot show these at one moment.
        """
        ...


class OwnedQueues(Topology, Protocol):
    """The same, where a client can see what its connection has."""

    async def owned(self) -> Answer:
        """The queues that are exclusive to the connection of this session; linearizable.

        Returns:
            Who owns them, as `claim` said, None if it was not called since the connection began; and the queues, each
            as `[vhost, queue]`, sorted. It proves that the connection is open still.
        """
        ...


class Migration(Topology, Protocol):
    """Entities in a system with two stores of them, from one of which they can be moved to the other, and back.

    The term of an answer about entities says which store gave it: 0 for the first store, any other for the second.
    `delete` takes entities of every kind without their values, but for `["maintenance", node]`.
    """

    async def declare_with_value(self, entity: Entity) -> Answer:
        """Make an entity with the value at its end (`ENTITIES_WITH_VALUES`), or give the one that is there this value.

        A virtual host, an exchange and a queue keep the value that they were made with. Errors are those of `declare`.
        """
        ...

    async def entities_with_values(self) -> Answer:
        """All entities of every kind at one moment, with their values, a sorted list; linearizable."""
        ...

    async def migrate(self) -> Answer:
        """Have all entities moved to the second store; returns once it is in force. To ask again does no harm."""
        ...

    async def roll_back(self) -> Answer:
        """Have the first store in force again.

        Its error begins with "migration_refused" where the second one has taken changes.
        """
        ...


class Delivery(TypedDict):
    """A message that a queue gave to a session, which has it until it acknowledges it, gives it back, or ends.

    Attributes:
        value: what was published.
        tag: what the session knows it by.
        redelivered: whether the system says that it may have delivered it before.
        reason: why it is a dead letter, if it is one (`LimitedQueues`).
    """

    value: int
    tag: int
    redelivered: bool
    reason: NotRequired[str]


class Queues(Session, Protocol):
    """Durable queues of whole numbers. What a session took and did not acknowledge goes back when the session ends."""

    async def declare_queue(self, queue: str) -> Answer:
        """Make a queue; no error where it is there already."""
        ...

    async def publish(self, queue: str, value: int) -> Answer:
        """Put a message into a queue; returns once the system has confirmed that it is responsible for it."""
        ...

    async def take(self, queue: str) -> Answer:
        """Take the next message; the answer's value is a `Delivery`, None if the queue has none that is not taken."""
        ...

    def ack(self, tag: int) -> None:
        """Say that a message was dealt with. It is not answered, and may be lost: then the message is delivered again.

        It is sent without waiting, so that no client is given up between this and the end of its op.
        """
        ...

    def reject(self, tag: int, *, requeue: bool) -> None:
        """Give a message back to its queue, or else have it discarded or moved as the queue says; as `ack`."""
        ...

    async def purge(self, queue: str) -> Answer:
        """Remove all messages that are not taken; the answer's value is their number."""
        ...


class SingleActive(Queues, Protocol):
    """Queues with a single active consumer: of the sessions that consume from one, one at a time is given messages."""

    async def declare_single_active(self, queue: str) -> Answer:
        """Make such a queue; no error where it is there already."""
        ...

    async def consume(self, queue: str, priority: int = 0) -> Answer:
        """What the queue has given to this session; a `Delivery`, None if nothing has come yet.

        The first call makes the session a consumer of the queue, of this priority if the system knows any; it stays one
        until it leaves, or ends. The queue gives it no message before it has acknowledged the one before. Its turn ends
        when a consumer of a higher priority comes, once it has acknowledged what it has, and it waits for its next one.

        Raises:
            DefiniteError: it is no consumer any more; what it was given and did not report goes back to the queue.
        """
        ...

    async def leave(self, queue: str) -> Answer:
        """Be no consumer any more; what the session was given and did not report goes back to the queue."""
        ...


class LimitedQueues(Queues, Protocol):
    """Queues that give up a message which its consumers fail at, and publish it elsewhere."""

    async def declare_limited(self, queue: str, limit: int, dead_letters: str) -> Answer:
        """Make a queue; no error where it is there already.

        A message that was given back more often than `limit` is published to the queue `dead_letters`, which is there,
        at least once. A `Delivery` from there has a `reason`, "delivery_limit". One that a consumer rejects for good is
        published there, too, for the reason "rejected".
        """
        ...


class MaintainedReplicas(Queues, Protocol):
    """Queues whose replicas the system maintains: it replaces those that fail, and operators add and remove others."""

    async def declare_maintained(self, queue: str, target: int) -> Answer:
        """Make a queue that is to have `target` live replicas at any time; no error where it is there already."""
        ...

    async def replicas(self, queue: str) -> Answer:
        """Where a queue is, and how that changed; linearizable.

        Returns:
            A dict. "members": ids of the members that the queue has, or is about to have. "cluster": ids of the members
            of the cluster. "last": the number of the change that began last, 0 for none. "change": the one that is
            under way, or None. "changes": some that have ended, in their order. A change is `[number, kind, member, by,
            outcome]`: "grow" or "shrink", "automation" or "operator"; and "done", another word, or None.
        """
        ...

    async def grow(self, queue: str, node: str) -> Answer:
        """Have a node take part in a queue. A DefiniteError where it does not come to that."""
        ...

    async def shrink(self, queue: str, node: str) -> Answer:
        """Have a node take part in a queue no more. A DefiniteError where it does not come to that."""
        ...

    async def drain(self, node: str) -> Answer:
        """Have the system place no replica on a node from now on, and lead no queue from there."""
        ...

    async def revive(self, node: str) -> Answer:
        """Have a node take on work again."""
        ...


class ExpiringQueues(LimitedQueues, Protocol):
    """The same, also of queues in which a message may wait for so long only."""

    async def declare_expiring(self, queue: str, limit: int, ttl_ms: int, dead_letters: str) -> Answer:
        """Make a limited queue; what waits in it for so many milliseconds is a dead letter: reason "expired"."""
        ...


class ClassicQueues(Session, Protocol):
    """Durable queues of whole numbers, each in files of one node, which can be converted to another format.

    What was taken and not settled goes back after a while.
    """

    async def declare_classic(self, queue: str) -> Answer:
        """Make a queue; no error where it is there already."""
        ...

    async def put_classic(self, queue: str, value: int) -> Answer:
        """Put a message into a queue; returns once it is durable. Ops that do this need no majority of nodes."""
        ...

    async def take_classic(self, queue: str) -> Answer:
        """Take the next message; the answer's value is a `Delivery`, None if the queue has none that is not taken."""
        ...

    def settle_classic(self, tag: int, *, requeue: bool) -> None:
        """Be done with a message, or give it back. It is sent without waiting, is not answered, and may be lost."""
        ...

    async def convert_classic(self, queue: str) -> Answer:
        """Have the files of a queue converted; the answer's value is whether that was to be done."""
        ...


class Streams(Session, Protocol):
    """Logs of whole numbers, which are read by offset, as often as one likes. The first message has offset 0."""

    async def declare_stream(self, stream: str) -> Answer:
        """Make a stream; no error where it is there already."""
        ...

    async def publish_to_stream(self, stream: str, value: int) -> Answer:
        """Append a message; returns once it is confirmed. The answer's value is its offset, None if it is not known.

        A message that the session has to send again is in the stream once.
        """
        ...

    async def read_stream(self, stream: str, offset: int, most: int) -> Answer:
        """Read up to `most` messages from an offset on, as the node of this session has them, which may lag.

        Returns:
            A dict. "values": of the messages, without a gap. "end": the offset behind the last message that the node
            knows to be confirmed. "first": the offset of the first value, only where the node has dropped what is at
            the one that was asked for.
        """
        ...


class ShortStreams(Streams, Protocol):
    """The same, also of streams whose beginnings are dropped, and with messages that several sessions publish."""

    async def publish_once(self, stream: str, value: int) -> Answer:
        """As `publish_to_stream`, but what any session published by this before is not appended again.

        That holds also where the message is no longer in the stream. The answer's value is the offset that it had
        first.
        """
        ...

    async def declare_short_stream(self, stream: str, max_length_bytes: int | None, max_age_ms: int | None) -> Answer:
        """Make a stream of which nodes keep at most about so much, or nothing that is older; None: no such limit.

        No error where it is there already.
        """
        ...

"""What a client may ask of a node, by groups of operations, and how a node refuses.

A session has the operations of some groups: a system says which (`Capabilities.operations`), and a workload says which
groups its clients need (`Workload.needs`). So a new group is one protocol and one value, and no system has to fill it.
(In Jepsen each pair of a workload and a system has a client of its own.)
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Generic, NotRequired, Protocol, TypeAlias, TypedDict, TypeVar, cast

import msgspec

from splitbrain.results import plugins
from splitbrain.results.errors import ProtocolError, UnknownNameError, UsageError
from splitbrain.results.standbys import STANDBY


class DefiniteError(Exception):
    """The op certainly did not happen, and never will. Recorded as `fail`."""


class StandbyError(DefiniteError):
    """The node does not lead, and only the one that leads does this (`Capabilities.standbys`).

    Recorded as `fail` with an error that begins so that coverage knows it: the node answers, but the system did not.
    """

    def __init__(self, words: str) -> None:
        super().__init__(f"{STANDBY}{words}")


class IndefiniteError(Exception):
    """The outcome of the op is unknown. Recorded as `info`, like every exception that is not a DefiniteError."""


Mop: TypeAlias = list[Any]
"""One read or write of a transaction: its function, key and value."""

Change: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
"""What a transaction writes after what it read, by key; None to abort."""


class Answer(msgspec.Struct, frozen=True):
    """The answer of a node, and its term, if the system reports it."""

    value: Any = None
    term: int | None = None


class Session(Protocol):
    """A connection of one client to one node; it neither redirects nor fails over.

    Every operation raises DefiniteError where the system refused, and IndefiniteError (or anything else) where the
    outcome is unknown.
    """

    async def close(self) -> None:
        """Drop the connection."""
        ...


class CreatedKeys(Session, Protocol):
    """Keys that are created once, each with a value. Keys are strings without slashes; values are whole numbers."""

    async def read(self, key: str) -> Answer:
        """The value of a key, None if there is none; linearizable."""
        ...

    async def create(self, key: str, value: Any) -> Answer:
        """Set a key if it does not exist; the answer's value is whether this call created it."""
        ...


class KeyValue(CreatedKeys, Protocol):
    """Registers by key. Keys are strings without slashes; values are what JSON can carry."""

    async def write(self, key: str, value: Any) -> Answer:
        """Set a key unconditionally."""
        ...

    async def compare_and_set(self, key: str, expected: Any, value: Any) -> Answer:
        """Set a key if it holds `expected`; the answer's value is whether it did. A missing key matches nothing."""
        ...


class ReadModes(KeyValue, Protocol):
    """Registers that one session reads in several modes: those of `Capabilities.session_reads`."""

    async def read_as(self, key: str, f: str) -> Answer:
        """The value of a key, None if there is none, read as function `f` promises (`read-local`)."""
        ...


class FencedReads(ReadModes, Protocol):
    """The same, of a system that has the mode `read-fenced`."""


class Collections(Session, Protocol):
    """Sets of whole numbers that only grow."""

    async def add(self, collection: str, element: int) -> Answer:
        """Put an element into a collection."""
        ...

    async def elements(self, collection: str) -> Answer:
        """All elements of a collection, a list of whole numbers; linearizable."""
        ...


class Counters(Session, Protocol):
    """Whole numbers to which amounts are added; each is 0 at first."""

    async def increment(self, counter: str, by: int) -> Answer:
        """Add to a counter; the answer's value is the sum afterwards.

        An increment counts once. A session may send one again while its time lasts, if the system then knows it again.
        """
        ...

    async def read_counter(self, counter: str) -> Answer:
        """The value of a counter, None if nothing was ever added; linearizable."""
        ...


class Triggers(Counters, Protocol):
    """Counters of which each change triggers two procedures, which write down that they ran: "first" and "second"."""

    async def prepare_triggers(self) -> Answer:
        """Have what is changed from now on trigger them; no error where that is so already.

        Raises:
            DefiniteError: it may not be so.
        """
        ...

    async def read_runs(self, counter: str, at_rest: bool) -> Answer:
        """What the changes of a counter have triggered so far; linearizable.

        Args:
            counter: its name.
            at_rest: ask again while something is to be run, and the time of the session lasts.

        Returns:
            A dict. "changes": how often the counter has changed. "runs": in their order `[event, trigger, changes]`:
            the number of the event, "first" or "second", and the changes that the procedure saw. Of each change
            "first" has to run before "second". An event may be run again, by its number.
        """
        ...


class Trees(Session, Protocol):
    """Small trees of named nodes with payloads and versions, each by a name of its own."""

    async def in_tree(self, tree: str, f: str, value: Any) -> Answer:
        """Carry out an op of the model `tree` (`splitbrain.checkers.models.trees`); its result."""
        ...


class ProjectedRecords(Session, Protocol):
    """Records with a key and a whole number, which every node answers from a table of its own."""

    async def write_record(self, key: str, value: int) -> Answer:
        """Set a record; this node has it when it is acknowledged."""
        ...

    async def look_up(self, key: str) -> Answer:
        """The value of a record as this node has it, None if it has none; maybe old. Refused if it does not know."""
        ...

    async def come_and_go(self, key: str, value: int) -> Answer:
        """Make a record of a key that no other op uses, which goes with what keeps it; the answer's value is what this
        node had of it then, and afterwards."""
        ...

    async def differing_records(self) -> Answer:
        """The keys of which this node's records are not what the system holds, at rest."""
        ...


class Locks(Session, Protocol):
    """Locks that are held until they are given back. A lock is free until it is taken; no client waits for one."""

    async def lock(self, name: str, owner: int) -> Answer:
        """Take a lock if it is free; the answer's value is its fencing token, None if the lock is held.

        Tokens of one lock are whole numbers that grow from each owner to the next (the fencing of Kleppmann's "How to
        do distributed locking", 2016; Chubby's sequencers).
        """
        ...

    async def unlock(self, name: str, owner: int) -> Answer:
        """Release a lock; the answer's value is whether `owner` held it."""
        ...


class LeaseLocks(Session, Protocol):
    """Locks that stand on short leases. A session keeps its lease alive until it is closed."""

    async def lease_lock(self, name: str, owner: int, lease_s: int) -> Answer:
        """Acquire a lock with a lease (in seconds) if it is free; a fencing token, None if the lock is held."""
        ...

    def lease_holds(self, name: str) -> bool:
        """Whether this client believes that it holds the lock. It asks no node: it uses the answers so far."""
        ...

    async def lease_unlock(self, name: str, owner: int) -> Answer:
        """Release a lock; the answer's value is whether it was still held.

        A client that knows that its lease has expired asks no node.
        """
        ...


class Transactions(Session, Protocol):
    """Transactions over registers and lists of whole numbers by key, which are kept apart from all other keys.

    A transaction that was refused or aborted is a DefiniteError: nothing of it is ever seen.
    """

    async def transact(self, mops: Sequence[Mop]) -> Answer:
        """Do these reads and writes in this order as one transaction; the answer's value is the mops with their reads.

        Args:
            mops: `["r", key, None]`, `["w", key, value]` or `["append", key, element]`. A read gives a register's value
                or a list, None if there is neither; a key is one of both for the length of a test.
        """
        ...

    async def update(self, keys: Sequence[str], change: Change) -> Answer:
        """Read registers, and write what follows from them, in one transaction; the answer's value is what was read.

        Args:
            keys: of the registers that are read.
            change: a pure function of their values by key, None for one that does not exist. It gives what to write by
                key, or None to abort. It may be called again if the transaction is tried again.
        """
        ...


class Predicates(Session, Protocol):
    """Transactions over the objects of universes, apart from all other keys, with reads of all that match a predicate.

    An object is a whole number from 0 on by key, in one universe; it need not be there.
    """

    async def in_universe(self, universe: str, steps: Sequence[Mop]) -> Answer:
        """Do these in this order as one transaction; the answer's value is the steps with what they read.

        Args:
            universe: its name.
            steps: `["r", key, None]`, which gives a value, None if there is no such object; `["rp", predicate, None]`,
                which gives a mapping from keys to values of all objects that match; `["insert", key, value]`, `["w",
                key, value]`, `["delete", key, None]`. A predicate is "true", `["=", value]` or `["mod", divisor,
                rest]`.
        """
        ...


Entity: TypeAlias = list[Any]
"""Its kind, and its names: `["vhost", v]`, `["user", u]`, `["permission", v, u]`, `["policy", v, name]`,
`["exchange", v, x, type]`, with True at the end if it goes with its last binding, `["queue", v, q]`,
`["exclusive", v, q, owner]` for the queue of a connection, or
`["binding", v, x, kind, destination, key, number]`, where `kind` is that of the destination, and the number is in the
binding's arguments: bindings that differ in it alone are several. Messages have the number 0 in their headers."""


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
        """Remove an entity, and all that needs it; the answer's value is whether it was there."""
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
            "routes": by the latter, for each exchange and each of `keys`, `[v, x, key, queues]`.
        """
        ...


class Migration(Topology, Protocol):
    """Entities in a system with two stores of them, from one of which they can be moved to the other, and back.

    The term of an answer about entities says which store gave it: 0 for the first store, any other for the second.
    """

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

    async def consume(self, queue: str) -> Answer:
        """What the queue has given to this session; a `Delivery`, None if nothing has come yet.

        The first call makes the session a consumer of the queue; it stays one until it leaves, or ends. The queue gives
        it no message before it has acknowledged the one before.

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
            knows to be confirmed.
        """
        ...


FLAGS_MAX: Final = 900


def flag_count(time_limit_s: float) -> int:
    """How many feature flags a system knows in a test of this length: two a second, as each is enabled only once."""
    return min(FLAGS_MAX, max(8, math.ceil(2 * time_limit_s)))


class FeatureFlags(Session, Protocol):
    """Feature flags, numbered from 1 to `flag_count`: each is enabled on all nodes or on none, and never disabled."""

    async def enable_flag(self, number: int) -> Answer:
        """Have a flag enabled on all nodes, after those that it depends on; returns when it is."""
        ...

    async def list_flags(self) -> Answer:
        """What the node of this session reports, by itself.

        Returns:
            A dict. "enabled" and "changing": the flags that are so there, sorted. "needs": of each flag that depends
            on others a list of itself and those.

        Raises:
            DefiniteError: the node has not joined completely.
        """
        ...


class Formation(Session, Protocol):
    """Nodes that find each other, and form a cluster."""

    async def formed(self) -> Answer:
        """What the node of this session says of the cluster that it is in, or looks for.

        Returns:
            A dict. "phase": "looks", or "done" once it looks no more. "founded": whether it founded the cluster.
            "members": the names of its members, sorted; none if the node is in no cluster. "problem": why it was in
            none after its last attempt.
        """
        ...


AnySession = TypeVar("AnySession", bound=Session)
SomeSession = TypeVar("SomeSession", bound=Session, covariant=True)


@dataclass(frozen=True)
class OperationGroup(Generic[SomeSession]):
    """A group of operations that a session may have.

    Attributes:
        name: as systems and workloads name it; "module:attribute" for a group of another package, where this value is.
        protocol: what a session with these operations can be asked.
    """

    name: str
    protocol: type[SomeSession]


CREATIONS: Final = OperationGroup("creations", CreatedKeys)
KEY_VALUE: Final = OperationGroup("key-value", KeyValue)
READ_MODES: Final = OperationGroup("read-modes", ReadModes)
FENCED_READS: Final = OperationGroup("fenced-reads", FencedReads)
COLLECTIONS: Final = OperationGroup("collections", Collections)
COUNTERS: Final = OperationGroup("counters", Counters)
TRIGGERS: Final = OperationGroup("triggers", Triggers)
TREES: Final = OperationGroup("trees", Trees)
PROJECTIONS: Final = OperationGroup("projections", ProjectedRecords)
LOCKS: Final = OperationGroup("locks", Locks)
LEASE_LOCKS: Final = OperationGroup("lease-locks", LeaseLocks)
TRANSACTIONS: Final = OperationGroup("transactions", Transactions)
PREDICATES: Final = OperationGroup("predicates", Predicates)
TOPOLOGY: Final = OperationGroup("topology", Topology)
MIGRATION: Final = OperationGroup("migration", Migration)
QUEUES: Final = OperationGroup("queues", Queues)
SINGLE_ACTIVE: Final = OperationGroup("single-active", SingleActive)
LIMITED_QUEUES: Final = OperationGroup("limited-queues", LimitedQueues)
MAINTAINED_REPLICAS: Final = OperationGroup("maintained-replicas", MaintainedReplicas)
EXPIRING_QUEUES: Final = OperationGroup("expiring-queues", ExpiringQueues)
STREAMS: Final = OperationGroup("streams", Streams)
FEATURE_FLAGS: Final = OperationGroup("feature-flags", FeatureFlags)
FORMATION: Final = OperationGroup("formation", Formation)

GROUPS: Final[Mapping[str, OperationGroup[Session]]] = {
    group.name: group
    for group in (
        *(
            CREATIONS,
            KEY_VALUE,
            READ_MODES,
            FENCED_READS,
            COLLECTIONS,
            COUNTERS,
            TRIGGERS,
            TREES,
            PROJECTIONS,
            LOCKS,
            LEASE_LOCKS,
            TRANSACTIONS,
            PREDICATES,
            TOPOLOGY,
            MIGRATION,
            QUEUES,
            SINGLE_ACTIVE,
            LIMITED_QUEUES,
            MAINTAINED_REPLICAS,
            EXPIRING_QUEUES,
            STREAMS,
            FEATURE_FLAGS,
            FORMATION,
        ),
    )
}
"""The groups that splitbrain has itself, by name."""


def group_named(name: str) -> OperationGroup[Session]:
    """The group of operations of that name: one of `GROUPS`, or that of another package.

    Raises:
        UnknownNameError: there is none.
        UsageError: that of another package cannot be imported, or is none.
    """
    if name in GROUPS:
        return GROUPS[name]
    if not plugins.is_plugin("operations", name):
        raise UnknownNameError("group of operations", name, GROUPS)
    found: Any = plugins.find("operations", name, GROUPS)
    if not isinstance(found, OperationGroup):
        raise UsageError(
            f"operations {name!r} is {found!r:.80}, not an OperationGroup (splitbrain.harness.contract.sessions)."
        )
    return cast("OperationGroup[Session]", found)


def included(operations: Collection[str]) -> frozenset[str]:
    """These groups of operations, and those whose operations they include: "creations" where there is "key-value".

    Raises:
        UnknownNameError, UsageError: as `group_named`.
    """
    protocols = {above for name in operations for above in group_named(name).protocol.__mro__}
    return frozenset(operations) | {group.name for group in GROUPS.values() if group.protocol in protocols}


@cache
def calls(protocol: type[Session]) -> Mapping[str, bool]:
    """The methods of a protocol by name, those of `Session` left out, and of each whether it is awaited."""
    return {
        name: inspect.iscoroutinefunction(method)
        for name, method in inspect.getmembers(protocol, inspect.isfunction)
        if not name.startswith("_") and name not in vars(Session)
    }


def lacking(session: object, group: OperationGroup[Session]) -> list[str]:
    """The methods of the group that a session, or a class of sessions, does not have."""
    return [name for name in calls(group.protocol) if not callable(getattr(session, name, None))]


def need(session: Session, group: OperationGroup[AnySession], system: str) -> AnySession:
    """The session, as one that has the operations of the group.

    Args:
        session: as `System.connect` returned it.
        group: what is needed of it.
        system: the system's name, for the error.

    Raises:
        ProtocolError: it does not have them.
    """
    missing = lacking(session, group)
    if missing:
        raise ProtocolError(
            f"system {system!r}: its sessions lack {', '.join(missing)} of the operations {group.name!r}. Give them "
            f"these methods, or use a workload that does not need {group.name!r}."
        )
    return cast("AnySession", session)

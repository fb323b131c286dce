"""A session with a node of the metadata cluster: a key is a tree node, a collection one with its elements below it."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

from splitbrain.cluster.client import (
    Client,
    ClientError,
    MismatchingNodeError,
    NodeNotFoundError,
    QueueOptions,
    Refs,
    retrying,
)
from splitbrain.cluster.streams.retention import Retention
from splitbrain.harness.contract.brokers import Entity
from splitbrain.harness.contract.read_modes import (
    READ,
    READ_AFTER,
)
from splitbrain.harness.contract.sessions import Answer, Change, Mop, NonsenseError
from splitbrain.harness.systems import metadata_trees
from splitbrain.harness.systems.locks import CompareAndSetLocks
from splitbrain.harness.systems.metadata_classic import MetadataClassic
from splitbrain.harness.systems.metadata_errors import CLASSIFIED as _CLASSIFIED
from splitbrain.harness.systems.metadata_errors import readable, refused
from splitbrain.harness.systems.metadata_flags import MetadataFlags
from splitbrain.harness.systems.metadata_projections import ProjectedRecords
from splitbrain.harness.systems.metadata_queues import MetadataQueues
from splitbrain.harness.systems.metadata_reads import MODES
from splitbrain.harness.systems.metadata_replicas import MetadataReplicas
from splitbrain.harness.systems.metadata_streams import MetadataStreams
from splitbrain.harness.systems.metadata_topology import MetadataTopology
from splitbrain.harness.systems.metadata_transactions import MetadataTransactions
from splitbrain.harness.systems.metadata_triggers import MetadataTriggers

ATTEMPT_TIMEOUT_MS: Final = 400
"""How long an increment waits for its answer before it is sent again."""

KEEP_REFS_MS: Final = 60_000
"""Of a session that is gone; longer than any session takes for one op."""


class MetadataSession(CompareAndSetLocks):
    """One client's connection to one node of the metadata cluster."""

    def __init__(
        self,
        client: Client,
        timeout_ms: int,
        queue_options: dict[str, QueueOptions] | None = None,
        kept: dict[str, Retention] | None = None,
    ) -> None:
        self._client = client
        self._timeout_ms = timeout_ms
        self._transactions = MetadataTransactions(client, timeout_ms)
        self._topology = MetadataTopology(client, timeout_ms)
        self._refs: Refs | None = None
        self._projected = ProjectedRecords(client, timeout_ms)
        self._triggers = MetadataTriggers(client, timeout_ms, f"{_COUNTERS}/*")
        self._queues = MetadataQueues(client, timeout_ms, {} if queue_options is None else queue_options)
        self._replicas = MetadataReplicas(client, timeout_ms, self._queues)
        self._streams = MetadataStreams(client, timeout_ms, self._new_name, {} if kept is None else kept)
        self._classic = MetadataClassic(client, timeout_ms)
        self._flags = MetadataFlags(client, timeout_ms)
        self._written: tuple[int, int] | None = None

    @property
    def broken(self) -> bool:
        """Whether its connection is gone: no op can succeed any more."""
        return self._client.is_broken

    async def read(self, key: str) -> Answer:
        """The value of a key."""
        return await self.read_as(key, READ)

    async def read_as(self, key: str, f: str) -> Answer:
        """The value of a key, read as one of `READS`."""
        after = self._written if f == READ_AFTER else None
        with _CLASSIFIED:
            try:
                node = await self._client.get(_register(key), mode=MODES[f], after=after, timeout_ms=self._timeout_ms)
            except NodeNotFoundError as error:
                return Answer(None, error.term)
            return Answer(node.value, node.term)

    async def write(self, key: str, value: Any) -> Answer:
        """Set a key unconditionally."""
        with _CLASSIFIED:
            node = await self._client.put(_register(key), value, timeout_ms=self._timeout_ms)
            self._written = (node.index, node.term)
            return Answer(value, node.term)

    async def compare_and_set(self, key: str, expected: Any, value: Any) -> Answer:
        """Set a key if it holds `expected`; whether it did."""
        with _CLASSIFIED:
            try:
                node = await self._client.compare_and_swap(_register(key), expected, value, timeout_ms=self._timeout_ms)
            except (MismatchingNodeError, NodeNotFoundError) as error:
                return Answer(False, error.term)
            self._written = (node.index, node.term)
            return Answer(True, node.term)

    async def create(self, key: str, value: Any) -> Answer:
        """Set a key if it does not exist; whether this call did."""
        with _CLASSIFIED:
            try:
                node = await self._client.create(_register(key), value, timeout_ms=self._timeout_ms)
            except MismatchingNodeError as error:
                return Answer(False, error.term)
            return Answer(True, node.term)

    async def add(self, collection: str, element: int) -> Answer:
        """Put an element into a collection; one that is there already is a definite failure."""
        with _CLASSIFIED:
            path = f"{_collection(collection)}/{element}"
            node = await self._client.create(path, None, timeout_ms=self._timeout_ms)
            return Answer(element, node.term)

    async def elements(self, collection: str) -> Answer:
        """All elements of a collection, in ascending order."""
        with _CLASSIFIED:
            try:
                children = await self._client.children(_collection(collection), timeout_ms=self._timeout_ms)
            except NodeNotFoundError as error:
                return Answer([], error.term)
            return Answer(sorted(_whole(name) for name in children.names), children.term)

    async def increment(self, counter: str, by: int) -> Answer:
        """Add to a counter: sent again, with the same ref, while its outcome is unknown and its time lasts."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        with _CLASSIFIED:
            refs = self._refs = self._refs or await self._new_refs()
            ref, path = refs.next(), _counter(counter)
            left_ms = self._timeout_ms - round((loop.time() - begun) * 1000)
            try:
                node = await retrying(
                    lambda ms: self._client.increment(path, by, ref=ref, timeout_ms=ms),
                    max(1, left_ms),
                    attempt_ms=ATTEMPT_TIMEOUT_MS,
                )
            finally:
                refs.answered(ref)
            return Answer(node.value, node.term)

    async def read_counter(self, counter: str) -> Answer:
        """The value of a counter, None if nothing was added."""
        with _CLASSIFIED:
            try:
                node = await self._client.get(_counter(counter), timeout_ms=self._timeout_ms)
            except NodeNotFoundError as error:
                return Answer(None, error.term)
            return Answer(node.value, node.term)

    async def prepare_triggers(self) -> Answer:
        """Have changes of counters trigger what they are to."""
        return await self._triggers.prepare()

    async def read_runs(self, counter: str, at_rest: bool) -> Answer:
        """What changes of a counter have triggered so far."""
        with _CLASSIFIED:
            return await self._triggers.read(_counter(counter), _name(counter), at_rest=at_rest)

    async def transact(self, mops: Sequence[Mop]) -> Answer:
        """Do reads and writes in their order as one transaction; the mops with their reads."""
        with _CLASSIFIED:
            return await self._transactions.transact(mops)

    async def update(self, keys: Sequence[str], change: Change) -> Answer:
        """Read registers, and write what follows from them, in one transaction; what was read."""
        with _CLASSIFIED:
            return await self._transactions.update(keys, change)

    async def in_universe(self, universe: str, steps: Sequence[Mop]) -> Answer:
        """Do reads and writes of objects, and predicate reads, as one transaction; the steps with their reads."""
        with _CLASSIFIED:
            return await self._transactions.in_universe(universe, steps)

    async def in_tree(self, tree: str, f: str, value: Any) -> Answer:
        """Carry out an op on a small tree."""
        with _CLASSIFIED:
            return await metadata_trees.carry_out(self._client, _tree(tree), f, value, self._timeout_ms)

    async def write_record(self, key: str, value: int) -> Answer:
        """Set a record of the projection."""
        with _CLASSIFIED:
            return await self._projected.write(_name(key), value)

    async def look_up(self, key: str) -> Answer:
        """The value of a record as the node has it."""
        with _CLASSIFIED:
            return await self._projected.look_up(_name(key))

    async def come_and_go(self, key: str, value: int) -> Answer:
        """Make a record that goes with what keeps it."""
        with _CLASSIFIED:
            return await self._projected.come_and_go(_name(key), value)

    async def differing_records(self) -> Answer:
        """The keys of which the node's records differ from its nodes."""
        with _CLASSIFIED:
            return await self._projected.differing()

    async def prepare_topology(self) -> Answer:
        """Have the cluster keep the projections of entities."""
        with _CLASSIFIED:
            return await self._topology.prepare()

    async def declare(self, entity: Entity) -> Answer:
        """Make an entity, if it is not there."""
        with _CLASSIFIED:
            return await self._topology.declare(entity)

    async def delete(self, entity: Entity) -> Answer:
        """Remove an entity; whether it was there."""
        with _CLASSIFIED:
            return await self._topology.delete(entity)

    async def claim(self, vhost: str, queue: str) -> Answer:
        """Make a queue that is exclusive to this session's connection."""
        with _CLASSIFIED:
            return await self._topology.claim(vhost, queue)

    async def owned(self) -> Answer:
        """Which queues are exclusive to this session's connection."""
        with _CLASSIFIED:
            return await self._topology.owned()

    async def disconnect(self) -> Answer:
        """End that connection, and begin another."""
        return await self._topology.disconnect()

    async def entities(self) -> Answer:
        """All entities at one moment."""
        with _CLASSIFIED:
            return await self._topology.entities()

    async def projected(self, keys: Sequence[str]) -> Answer:
        """What the node of this session holds, in its tree, its projections, and routes by these."""
        with _CLASSIFIED:
            return await self._topology.projected(keys)

    async def declare_with_value(self, entity: Entity) -> Answer:
        """Make an entity with its value, or give the one that is there this value."""
        with _CLASSIFIED:
            return await self._topology.declare_with_value(entity)

    async def entities_with_values(self) -> Answer:
        """All entities of every kind at one moment, with their values."""
        with _CLASSIFIED:
            return await self._topology.entities_with_values()

    async def migrate(self) -> Answer:
        """Have all entities moved from the tables to the tree."""
        with _CLASSIFIED:
            await self._client.migrate(timeout_ms=self._timeout_ms)
            return Answer(None)

    async def roll_back(self) -> Answer:
        """Have the tables in force again."""
        with _CLASSIFIED:
            await self._client.roll_back(timeout_ms=self._timeout_ms)
            return Answer(None)

    async def declare_queue(self, queue: str) -> Answer:
        """Make a quorum queue; no error where it is there already."""
        with _CLASSIFIED:
            return await self._queues.declare(queue)

    async def publish(self, queue: str, value: int) -> Answer:
        """Publish a message, and wait for the confirm; sent again under its number while it may be lost."""
        with _CLASSIFIED:
            return await self._queues.publish(queue, value)

    async def take(self, queue: str) -> Answer:
        """Take the next message; None if the queue has none."""
        with _CLASSIFIED:
            return await self._queues.take(queue)

    def ack(self, tag: int) -> None:
        """Say that a message was dealt with, which is not answered."""
        self._queues.ack(tag)

    def reject(self, tag: int, *, requeue: bool) -> None:
        """Give a message back, or have it dead-lettered."""
        self._queues.reject(tag, requeue=requeue)

    async def declare_limited(self, queue: str, limit: int, dead_letters: str) -> Answer:
        """Make a quorum queue with a delivery limit; its dead letters go to another one at least once."""
        with _CLASSIFIED:
            return await self._queues.declare_limited(queue, limit, dead_letters)

    async def declare_expiring(self, queue: str, limit: int, ttl_ms: int, dead_letters: str) -> Answer:
        """The same, and a message may wait in it for so long only."""
        with _CLASSIFIED:
            return await self._queues.declare_expiring(queue, limit, ttl_ms, dead_letters)

    async def declare_single_active(self, queue: str) -> Answer:
        """Make a quorum queue with a single active consumer; no error where it is there already."""
        with _CLASSIFIED:
            return await self._queues.declare(queue, single_active=True)

    async def consume(self, queue: str, priority: int = 0) -> Answer:
        """What the queue gave to this session's consumer, which the first call makes; None if nothing has come yet."""
        with _CLASSIFIED:
            return await self._queues.consume(queue, priority)

    async def leave(self, queue: str) -> Answer:
        """Be no consumer any more, and give back what was given and not reported."""
        with _CLASSIFIED:
            return await self._queues.leave(queue)

    async def declare_maintained(self, queue: str, target: int) -> Answer:
        """Make a quorum queue that is to have so many live replicas."""
        with _CLASSIFIED:
            return await self._queues.declare_maintained(queue, target)

    async def replicas(self, queue: str) -> Answer:
        """Where a queue is, and how that changed."""
        with _CLASSIFIED:
            return await self._replicas.replicas(queue)

    async def grow(self, queue: str, node: str) -> Answer:
        """Have a node take part in a queue."""
        with _CLASSIFIED:
            return await self._replicas.grow(queue, node)

    async def shrink(self, queue: str, node: str) -> Answer:
        """Have a node take part in a queue no more."""
        with _CLASSIFIED:
            return await self._replicas.shrink(queue, node)

    async def drain(self, node: str) -> Answer:
        """Have no replica placed on a node."""
        with _CLASSIFIED:
            return await self._replicas.set_state(node, "draining")

    async def revive(self, node: str) -> Answer:
        """Have a node take on work again."""
        with _CLASSIFIED:
            return await self._replicas.set_state(node, "regular")

    async def declare_stream(self, stream: str) -> Answer:
        """Make a stream; no error where it is there already."""
        with _CLASSIFIED:
            return await self._streams.declare(stream)

    async def declare_short_stream(self, stream: str, max_length_bytes: int | None, max_age_ms: int | None) -> Answer:
        """Make a stream whose beginning is dropped; no error where it is there already."""
        with _CLASSIFIED:
            return await self._streams.declare(stream, Retention(max_length_bytes, max_age_ms))

    async def publish_to_stream(self, stream: str, value: int) -> Answer:
        """Append a message, and wait for the confirm; sent again under its number while it may be lost."""
        with _CLASSIFIED:
            return await self._streams.publish(stream, value)

    async def publish_once(self, stream: str, value: int) -> Answer:
        """Append a message that is known by its value, unless it was before."""
        with _CLASSIFIED:
            return await self._streams.publish_once(stream, value)

    async def read_stream(self, stream: str, offset: int, most: int) -> Answer:
        """Read from an offset on, as this node has it."""
        with _CLASSIFIED:
            return await self._streams.read(stream, offset, most)

    async def declare_classic(self, queue: str) -> Answer:
        """Make a classic queue; no error where it is there already."""
        with _CLASSIFIED:
            return await self._classic.declare(queue)

    async def put_classic(self, queue: str, value: int) -> Answer:
        """Put a message into a classic queue; returns once it is durable."""
        with _CLASSIFIED:
            return await self._classic.put(queue, value)

    async def take_classic(self, queue: str) -> Answer:
        """Take the next message of a classic queue; None if there is none."""
        with _CLASSIFIED:
            return await self._classic.take(queue)

    def settle_classic(self, tag: int, *, requeue: bool) -> None:
        """Be done with a message of a classic queue, or give it back; this is not answered."""
        self._classic.settle(tag, requeue=requeue)

    async def convert_classic(self, queue: str) -> Answer:
        """Have the files of a classic queue converted; whether that was to be done."""
        with _CLASSIFIED:
            return await self._classic.convert(queue)

    async def enable_flag(self, number: int) -> Answer:
        """Have a feature flag enabled on all nodes."""
        with _CLASSIFIED:
            return await self._flags.enable(number)

    async def list_flags(self) -> Answer:
        """What the node says of its feature flags."""
        with _CLASSIFIED:
            return await self._flags.listed()

    async def purge(self, queue: str) -> Answer:
        """Remove all messages that are not taken; their number."""
        with _CLASSIFIED:
            return await self._queues.purge(queue)

    async def _new_refs(self) -> Refs:
        return Refs(await self._new_name(), KEEP_REFS_MS)

    async def _new_name(self) -> str:
        """The name of a client that no other one is: the cluster counts them.

        Raises:
            DefiniteError: it did not answer. Nothing but that count may have changed.
        """
        try:
            node = await self._client.increment(_CLIENTS, timeout_ms=self._timeout_ms)
        except ClientError as error:
            raise refused(error) from error
        return str(readable(node.value, int, "the count of clients"))

    async def close(self) -> None:
        """Drop the connection; what is exclusive to it goes."""
        await self._topology.close()
        await self._client.close()


def _register(key: str) -> str:
    return f"/registers/{_name(key)}"


def _collection(name: str) -> str:
    return f"/sets/{_name(name)}"


def _whole(name: str) -> int:
    try:
        return int(name)
    except ValueError as error:
        raise NonsenseError(f"elements was answered with {name!r:.80}; expected were whole numbers") from error


def _counter(name: str) -> str:
    return f"{_COUNTERS}/{_name(name)}"


def _tree(name: str) -> str:
    return f"/trees/{_name(name)}"


_COUNTERS: Final = "/counters"

_CLIENTS: Final = "/clients"
"""How many sessions have asked for a name."""


@functools.lru_cache(maxsize=4096)
def _name(text: str) -> str:
    """`text` as one name of a path: `*` would make it a pattern, a slash two names."""
    return quote(text, safe="")

"""The metadata cluster as a system under test: a key is a tree node, a collection one with its elements below it."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path  # noqa: TID251 - says where files of a node are; touches none
from typing import Any, Final
from urllib.parse import quote

import msgspec

from splitbrain import cluster
from splitbrain.cluster.client import (
    BUGS,
    Client,
    ClientError,
    MismatchingNodeError,
    NodeNotFoundError,
    QueueOptions,
    Refs,
    connect,
    retrying,
)
from splitbrain.cluster.embedded import (
    MARKS,
    MARKS_VARIABLE,
    OF_CLASSIC,
    OF_FLAGS,
    OF_QUEUES,
    OF_STORES,
    OF_STREAMS,
    Disk,
    Rng,
    Seen,
    counted,
    heard,
    recoverable,
    start,
)
from splitbrain.cluster.groupnames import METADATA, STREAM_COORDINATOR
from splitbrain.cluster.groupnames import QUEUES as QUEUES_BEGIN
from splitbrain.harness.contract.brokers import PROJECT, Entity
from splitbrain.harness.contract.capabilities import Capabilities
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.elections import Elections
from splitbrain.harness.contract.embedding import NodeWorld
from splitbrain.harness.contract.moments import SystemMarks
from splitbrain.harness.contract.nodes import NodeCommand, NodeId, NodePlace, NodeView
from splitbrain.harness.contract.operations import (
    EXPIRING_QUEUES,
    FEATURE_FLAGS,
    LIMITED_QUEUES,
    MAINTAINED_REPLICAS,
    MIGRATION,
    QUEUES,
    SINGLE_ACTIVE,
    STREAMS,
)
from splitbrain.harness.contract.read_modes import (
    LOOK_UP,
    READ,
    READ_AFTER,
    answered_alone,
)
from splitbrain.harness.contract.sessions import Answer, Change, DefiniteError, Mop, NonsenseError, flag_count
from splitbrain.harness.contract.test import Test
from splitbrain.harness.systems import metadata_trees
from splitbrain.harness.systems.embedding import runtime_on
from splitbrain.harness.systems.locks import CompareAndSetLocks
from splitbrain.harness.systems.metadata_classic import MetadataClassic
from splitbrain.harness.systems.metadata_errors import CLASSIFIED as _CLASSIFIED
from splitbrain.harness.systems.metadata_errors import readable, refused
from splitbrain.harness.systems.metadata_flags import MetadataFlags
from splitbrain.harness.systems.metadata_functions import MetadataFunctions
from splitbrain.harness.systems.metadata_groups import MetadataGroups
from splitbrain.harness.systems.metadata_members import MetadataLearners, MetadataMembership
from splitbrain.harness.systems.metadata_nodes import RUN_NODE, address_of, interpreter
from splitbrain.harness.systems.metadata_projections import ProjectedRecords
from splitbrain.harness.systems.metadata_queues import MetadataQueues
from splitbrain.harness.systems.metadata_reads import MODES, READS
from splitbrain.harness.systems.metadata_replicas import SHORT_TIMES, MetadataReplicas
from splitbrain.harness.systems.metadata_settings import MACHINE_VERSION, SETTINGS, STORE, TABLES, argument_of
from splitbrain.harness.systems.metadata_streams import MetadataStreams
from splitbrain.harness.systems.metadata_topology import MetadataTopology
from splitbrain.harness.systems.metadata_transactions import MetadataTransactions
from splitbrain.harness.systems.metadata_transfer import MetadataTransfer
from splitbrain.harness.systems.metadata_triggers import MetadataTriggers
from splitbrain.harness.systems.metadata_upgrades import MetadataUpgrades

VIEW_TIMEOUT_S: Final = 0.5
_OPERATIONS: Final = frozenset(
    {
        *("key-value", "read-modes", "fenced-reads", "collections", "counters", "triggers", "trees", "projections"),
        *("locks", "transactions", "predicates", "topology", "migration", "queues", "single-active", "limited-queues"),
        "expiring-queues",
        "maintained-replicas",
        "feature-flags",
        "streams",
        "classic-queues",
    }
)
REQUEST_TIMEOUT_MS: Final = 1500
"""How long a node tries. Shorter than the usual op timeout of two seconds, so that the node can still say whether what
it gave up was definite: an op that the runner must give up is always indefinite."""

ATTEMPT_TIMEOUT_MS: Final = 400
"""How long an increment waits for its answer before it is sent again."""

KEEP_REFS_MS: Final = 60_000
"""Of a session that is gone; longer than any session takes for one op."""

ELECTION_S: Final = 1.2

LEASE_S: Final = 0.6
"""A lease is 0.45 s of the leader's clock (`splitbrain.cluster.raft.config`), which may be slow by a quarter."""
RECOVERY_S: Final = 6 * ELECTION_S
"""A leader without contact stays leader for two election timeouts (D12), the others notice its silence within one, and
votes may split three times. Measured from when links were set until every node of a core had answered: on containers of
a busy machine 1.5 s at worst after 15 cuts and 0.6 s after 15 heals; simulated, 5.8 s after 190 cuts, most of them of a
deaf leader among slow links (2 took longer than 5 s: votes had split twice), and 1.1 s after 190 heals."""


OF_QUEUE_GROUPS: Final = (
    QUEUES.name,
    SINGLE_ACTIVE.name,
    LIMITED_QUEUES.name,
    EXPIRING_QUEUES.name,
    MAINTAINED_REPLICAS.name,
)
"""The operations that groups of queues answer."""

_OWN_GROUPS: Final = {
    **dict.fromkeys(OF_QUEUE_GROUPS, f"{QUEUES_BEGIN}*"),
    # Where replicas are, who is drained, and what changes, is said by the metadata store.
    MAINTAINED_REPLICAS.name: f"{METADATA} {QUEUES_BEGIN}*",
    STREAMS.name: STREAM_COORDINATOR,
}
"""Groups other than the metadata store that answer, by operations."""

CONSUME, LEAVE = "consume", "leave"
"""Ops that a client answers by itself: with what came, and where it is no consumer."""

OF_CLASSIC_OPS: Final = frozenset({"send", "receive", "return", "exhaust"})
"""Ops that the node of a classic queue answers by itself."""

FETCH: Final = "fetch"
"""Ops that a node answers by itself: from its copy of a stream."""

OF_FLAG_OPS: Final = frozenset({"enable-flag", "list-flags"})
"""Ops that a node answers by itself (a flag that is enabled already), or only where all nodes run: never a majority."""

OF_MIGRATION_OPS: Final = frozenset({"declare-entity", "delete-entity", "look-at-entities", "migrate", "roll-back"})
"""Ops of the workload migration: tables answer without a majority, and entities move where all nodes run."""

OF_SOME: Final = OF_QUEUES | OF_CLASSIC | OF_STREAMS | OF_FLAGS | OF_STORES

_OF_WORKLOADS: Final = {mark: line for mark, line in MARKS.items() if mark not in OF_SOME}
"""Of all workloads those of queues, classic queues and streams alone declare some, and that of migration alone has
flags and two stores: faults do not wait for moments that never come with the others."""


_OF_MIGRATIONS: Final = {mark: line for mark, line in MARKS.items() if mark in OF_STORES | OF_FLAGS}
"""For faults that are to come at a step of a migration."""


class MetadataSession(CompareAndSetLocks):
    """One client's connection to one node of the metadata cluster."""

    def __init__(self, client: Client, timeout_ms: int, queue_options: dict[str, QueueOptions] | None = None) -> None:
        self._client = client
        self._timeout_ms = timeout_ms
        self._transactions = MetadataTransactions(client, timeout_ms)
        self._topology = MetadataTopology(client, timeout_ms, self._new_name)
        self._refs: Refs | None = None
        self._projected = ProjectedRecords(client, timeout_ms)
        self._triggers = MetadataTriggers(client, timeout_ms, f"{_COUNTERS}/*")
        self._queues = MetadataQueues(client, timeout_ms, {} if queue_options is None else queue_options)
        self._replicas = MetadataReplicas(client, timeout_ms, self._queues)
        self._streams = MetadataStreams(client, timeout_ms, self._new_name)
        self._classic = MetadataClassic(client, timeout_ms)
        self._flags = MetadataFlags(client, timeout_ms)
        self._written: tuple[int, int] | None = None

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

    async def consume(self, queue: str) -> Answer:
        """What the queue gave to this session's consumer, which the first call makes; None if nothing has come yet."""
        with _CLASSIFIED:
            return await self._queues.consume(queue)

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

    async def publish_to_stream(self, stream: str, value: int) -> Answer:
        """Append a message, and wait for the confirm; sent again under its number while it may be lost."""
        with _CLASSIFIED:
            return await self._streams.publish(stream, value)

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


class Metadata:
    """The metadata cluster that ships with splitbrain.

    Attributes:
        name: as given to `--system`.
        bugs: mutations that a node can be started with.
        election_timeout_s: the longest random election timeout of a node.
        marks: the states that embedded nodes count, with a line on each.
        capabilities: reads go through a leader that a majority confirms, there are no leases; nodes can be simulated;
            members change, leadership can be handed over, nodes can take part in further groups, and are upgraded.
    """

    name = "metadata"
    bugs = BUGS
    election_timeout_s = ELECTION_S
    marks = MARKS

    def __init__(
        self,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        founders: Sequence[NodeId] = (),
        functions: Sequence[str] = (),
    ) -> None:
        """Args say how nodes are started, and used.

        Args:
            request_timeout_ms: how long a node tries.
            founders: the nodes with which the cluster begins, all if none are given; the others run, and wait.
            functions: where other packages have registered functions for transactions (`MetadataFunctions`).
        """
        self._functions = MetadataFunctions(functions)
        self._request_timeout_ms = request_timeout_ms
        self._queue_options: dict[str, QueueOptions] = {}
        self._seen: dict[tuple[str, ...], Seen] = {}  # of each node that is simulated
        self._members = MetadataMembership(_client, founders)
        self._upgrades = MetadataUpgrades(_client)
        self.capabilities = Capabilities(
            operations=_OPERATIONS,
            session_reads=READS,
            elections=Elections(
                timeout_s=ELECTION_S,
                recovery_s=RECOVERY_S,
                lease_s=LEASE_S,
                lease_setting="lease-reads",
                local=answered_alone(READS)
                | {LOOK_UP, PROJECT, CONSUME, LEAVE, FETCH}
                | OF_CLASSIC_OPS
                | OF_FLAG_OPS
                | OF_MIGRATION_OPS,
                group=METADATA,
                own_groups=_OWN_GROUPS,
            ),
            membership=self._members,
            upgrades=self._upgrades,
            transfer=MetadataTransfer(_client),
            learners=MetadataLearners(self._members),
            groups=MetadataGroups(_client, self._members.member),
            image="node",
            uploads={"splitbrain/cluster": Path(cluster.__path__[0])},
            imports=("msgspec",),
            settings=SETTINGS,
            simulation=self,
            recovery=self,
            count_marks=counted,
            marks=SystemMarks(_OF_WORKLOADS, heard, MARKS_VARIABLE, _OF_MIGRATIONS),
        )

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        """How to start the node that lives at `place`.

        Raises:
            NodeStartError: it left the cluster, and was not taken in again.
        """
        self._members.has_queues = not test.workload.needs.isdisjoint(OF_QUEUE_GROUPS)
        python, import_path = interpreter(place)
        argv = [python, *RUN_NODE, "--node", place.node, "--listen", address_of(place.listen)]
        for peer in sorted(place.peers):
            argv += ["--peer", f"{peer}={address_of(place.peers[peer])}"]
        membership = self._members.arguments(place.node, sorted([place.node, *place.peers]))
        argv += ["--data", place.data_dir, *membership]
        argv += self._upgrades.arguments(place.node, joins="--incarnation" in membership)
        for setting, value in test.settings.items():
            if setting != MACHINE_VERSION or not self._upgrades.decide:
                argv += argument_of(setting, value)
        if MIGRATION.name in test.workload.needs and STORE not in test.settings:
            argv += [f"--{STORE}", TABLES]
        if MAINTAINED_REPLICAS.name in test.workload.needs:
            argv += SHORT_TIMES
        if FEATURE_FLAGS.name in test.workload.needs:
            argv += ["--flag-probes", str(flag_count(test.time_limit_s))]
        if test.bugs:
            argv += ["--bugs", ",".join(test.bugs)]
        argv += self._functions.arguments
        paths = os.pathsep.join([import_path, *self._functions.import_path(place)])
        return NodeCommand(tuple(argv), env={"PYTHONPATH": paths}, files=self._functions.files)

    async def embed(self, command: NodeCommand, world: NodeWorld) -> None:
        """Start the node of `command` inside this process, on `world`; returns when it serves.

        Raises:
            ClusterError: it cannot start.
            OSError: the world's disk or network failed.
        """
        await start(command.argv[1 + len(RUN_NODE) :], runtime_on(world))

    def recover(self, command: NodeCommand, disk: Disk, rng: Rng) -> Sequence[Mapping[str, Any]]:
        """What the node of `command` would find on a disk, a line for each of its groups."""
        seen = self._seen.setdefault(command.argv, Seen())
        return [msgspec.to_builtins(line) for line in recoverable(command.argv[1 + len(RUN_NODE) :], disk, rng, seen)]

    async def connect(self, deployment: Deployment, node: NodeId) -> MetadataSession:
        """A session with one node.

        Raises:
            DefiniteError: the node could not be reached.
        """
        return MetadataSession(await _client(deployment, node), self._request_timeout_ms, self._queue_options)

    async def view(self, deployment: Deployment, node: NodeId) -> NodeView | None:
        """What the node says of itself, None if it takes more than half a second to connect, or to answer."""
        try:
            async with asyncio.timeout(VIEW_TIMEOUT_S):
                client = await _client(deployment, node)
        except (DefiniteError, TimeoutError):
            return None
        timer = asyncio.get_running_loop().call_later(VIEW_TIMEOUT_S, client.abort)
        try:
            status = await client.status()
        except ClientError:
            return None
        finally:
            timer.cancel()
            await client.close()
        return NodeView(
            node,
            status.role,
            status.term,
            status.leader,
            commit_index=status.commit_index,
            applied_index=status.applied_index,
            received_bytes=status.received,
        )

    def telemetry(self, test: Test, node_dir: Path) -> Path | None:
        """The node's telemetry: in its data directory, `data` below the directory of the node."""
        return node_dir / "data" / "telemetry.jsonl"


async def _client(deployment: Deployment, node: NodeId) -> Client:
    try:
        return await connect(await deployment.dial(node))
    except ClientError as error:
        raise DefiniteError(str(error)) from error


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

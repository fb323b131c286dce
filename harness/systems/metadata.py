"""The metadata cluster as a system under test: how nodes are started and observed, and what they can do."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path  # noqa: TID251 - says where files of a node are; touches none
from typing import Any, Final

import msgspec

from splitbrain import cluster
from splitbrain.cluster.client import (
    BUGS,
    Client,
    ClientError,
    QueueOptions,
    connect,
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
from splitbrain.cluster.streams.retention import Retention
from splitbrain.harness.contract.brokers import PROJECT
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
    SHORT_STREAMS,
    SINGLE_ACTIVE,
    STREAMS,
)
from splitbrain.harness.contract.read_modes import (
    LOOK_UP,
    answered_alone,
)
from splitbrain.harness.contract.sessions import DefiniteError, flag_count
from splitbrain.harness.contract.test import REQUEST_TIMEOUT_MS, Test
from splitbrain.harness.systems.embedding import runtime_on
from splitbrain.harness.systems.metadata_functions import MetadataFunctions
from splitbrain.harness.systems.metadata_groups import MetadataGroups
from splitbrain.harness.systems.metadata_members import MetadataLearners, MetadataMembership
from splitbrain.harness.systems.metadata_nodes import RUN_NODE, address_of, interpreter
from splitbrain.harness.systems.metadata_queues import queue_leaders
from splitbrain.harness.systems.metadata_reads import READS
from splitbrain.harness.systems.metadata_replicas import SHORT_TIMES
from splitbrain.harness.systems.metadata_session import MetadataSession
from splitbrain.harness.systems.metadata_settings import (
    MACHINE_VERSION,
    SETTINGS,
    STORE,
    TABLES,
    argument_of,
    judges_of_telemetry,
)
from splitbrain.harness.systems.metadata_sparing import Sparing, spared_by_queues, spared_by_streams
from splitbrain.harness.systems.metadata_transfer import MetadataTransfer
from splitbrain.harness.systems.metadata_upgrades import MetadataUpgrades

VIEW_TIMEOUT_S: Final = 0.5
_OPERATIONS: Final = frozenset(
    {
        *("key-value", "read-modes", "fenced-reads", "collections", "counters", "triggers", "trees", "projections"),
        *("locks", "transactions", "predicates", "topology", "owned-queues", "migration", "queues", "single-active"),
        "limited-queues",
        "expiring-queues",
        "maintained-replicas",
        "feature-flags",
        "streams",
        "short-streams",
        "classic-queues",
    }
)
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
    **dict.fromkeys(OF_QUEUE_GROUPS, (f"{QUEUES_BEGIN}*",)),
    # The metadata store says where replicas are, which nodes are drained, and what changes.
    MAINTAINED_REPLICAS.name: (METADATA, f"{QUEUES_BEGIN}*"),
    STREAMS.name: (STREAM_COORDINATOR,),
    SHORT_STREAMS.name: (STREAM_COORDINATOR,),
}
"""Groups other than the metadata store that answer, by operations."""

_SPARING: Final[Mapping[Sparing, Collection[str]]] = {
    spared_by_queues: OF_QUEUE_GROUPS,
    spared_by_streams: (STREAMS.name, SHORT_STREAMS.name),
}
"""What is asked before a member leaves, with the operations for which it is."""

CONSUME, LEAVE = "consume", "leave"
"""Ops that a client answers by itself: with what came, and where it is no consumer."""

OF_CLASSIC_OPS: Final = frozenset({"send", "receive", "return", "exhaust"})
"""Ops that the node of a classic queue answers by itself."""

OF_STREAM_OPS: Final = frozenset({"fetch", "repeat"})
"""Ops that a node answers by itself: from its copy of a stream; and its writer, about what is committed already."""

OF_FLAG_OPS: Final = frozenset({"enable-flag", "list-flags"})
"""Ops that a node answers by itself (a flag that is enabled already), or only where all nodes run: never a majority."""

OF_MIGRATION_OPS: Final = frozenset({"declare-entity", "delete-entity", "look-at-entities", "migrate", "roll-back"})
"""Ops of the workload migration: tables answer without a majority, and entities move where all nodes run."""

OF_TOPOLOGY_OPS: Final = frozenset(
    {"declare", "delete", "bind", "unbind", "claim", "own", "disconnect", "look", "project"}
)
"""Ops of the workload topology: where entities are in tables, these answer without a majority."""

OF_SOME: Final = OF_QUEUES | OF_CLASSIC | OF_STREAMS | OF_FLAGS | OF_STORES

_OF_WORKLOADS: Final = {mark: line for mark, line in MARKS.items() if mark not in OF_SOME}
"""Of all workloads those of queues, classic queues and streams alone declare some, and that of migration alone has
flags and two stores: faults do not wait for moments that never come with the others."""


_OF_MIGRATIONS: Final = {mark: line for mark, line in MARKS.items() if mark in OF_STORES | OF_FLAGS}
"""For faults that are to come at a step of a migration."""


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
        request_timeout_ms: int | None = None,
        founders: Sequence[NodeId] = (),
        functions: Sequence[str] = (),
    ) -> None:
        """Args say how nodes are started, and used.

        Args:
            request_timeout_ms: how long a node tries; None for as long as each test says (`Test.request_timeout_ms`).
            founders: the nodes with which the cluster begins, all if none are given; the others run, and wait.
            functions: where other packages have registered functions for transactions (`MetadataFunctions`).
        """
        self._functions = MetadataFunctions(functions)
        self._given_timeout_ms = request_timeout_ms
        self._request_timeout_ms = request_timeout_ms or REQUEST_TIMEOUT_MS
        self._queue_options: dict[str, QueueOptions] = {}
        self._kept: dict[str, Retention] = {}
        self._seen: dict[tuple[str, ...], Seen] = {}  # of each node that is simulated
        self._has_queues = False
        self._members = MetadataMembership(_client, founders)
        self._upgrades = MetadataUpgrades(_client)
        self.capabilities = Capabilities(
            slow_worlds=True,
            shared_sessions=True,
            operations=_OPERATIONS,
            session_reads=READS,
            elections=Elections(
                timeout_s=ELECTION_S,
                recovery_s=RECOVERY_S,
                lease_s=LEASE_S,
                lease_setting="lease-reads",
                local=answered_alone(READS)
                | {LOOK_UP, PROJECT, CONSUME, LEAVE}
                | OF_STREAM_OPS
                | OF_CLASSIC_OPS
                | OF_FLAG_OPS
                | OF_MIGRATION_OPS,
                local_where=((STORE, SETTINGS[STORE].words.index(TABLES), OF_TOPOLOGY_OPS),),
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
            telemetry_checkers=judges_of_telemetry,
            count_marks=counted,
            marks=SystemMarks(_OF_WORKLOADS, heard, MARKS_VARIABLE, _OF_MIGRATIONS),
        )

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        """How to start the node that lives at `place`.

        Raises:
            NodeStartError: it left the cluster, and was not taken in again.
        """
        self._members.sparing = tuple(
            refuse_early for refuse_early, needs in _SPARING.items() if not test.workload.needs.isdisjoint(needs)
        )
        self._request_timeout_ms = self._given_timeout_ms or test.request_timeout_ms
        self._has_queues = not test.workload.needs.isdisjoint(OF_QUEUE_GROUPS)
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
        client = await _client(deployment, node)
        return MetadataSession(client, self._request_timeout_ms, self._queue_options, self._kept)

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
            leaders = await queue_leaders(client) if self._has_queues else ()
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
            queue_leaders=leaders,
        )

    def telemetry(self, test: Test, node_dir: Path) -> Path | None:
        """The node's telemetry: in its data directory, `data` below the directory of the node."""
        return node_dir / "data" / "telemetry.jsonl"


async def _client(deployment: Deployment, node: NodeId) -> Client:
    try:
        return await connect(await deployment.dial(node))
    except ClientError as error:
        raise DefiniteError(str(error)) from error

"""The replicated-table store as a system under test: no consensus, and a strategy for partitions that can be chosen."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path  # noqa: TID251 - says where files of a node are; touches none
from typing import Any, Final

from splitbrain import cluster
from splitbrain.cluster.embedded_tables import BUGS, STRATEGY_NAMES, TICK_MS, start
from splitbrain.cluster.tables_client import ClientError, TablesClient, connect
from splitbrain.harness.contract.brokers import Entity
from splitbrain.harness.contract.capabilities import Capabilities
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.embedding import NodeWorld
from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.nodes import NodeCommand, NodeId, NodePlace, NodeView
from splitbrain.harness.contract.sessions import Answer, DefiniteError, IndefiniteError
from splitbrain.harness.contract.settings import Setting
from splitbrain.harness.contract.test import REQUEST_TIMEOUT_MS, Test
from splitbrain.harness.systems.embedding import runtime_on
from splitbrain.harness.systems.metadata_errors import CLASSIFIED
from splitbrain.harness.systems.metadata_nodes import address_of, interpreter
from splitbrain.harness.systems.strategies import PAUSES_IF_ALL_DOWN, STRATEGY, strategy_checkers
from splitbrain.harness.systems.tables_topology import TablesTopology

RUN_NODE: Final = ("-P", "-m", "splitbrain.cluster.tables")
VIEW_TIMEOUT_S: Final = 0.5
REGISTERS: Final = "registers"
SETS: Final = "sets"

TICK: Final = "net-tick-ms"
PREFERRED: Final = "preferred"

SETTINGS: Final[Mapping[str, Setting]] = {
    STRATEGY: Setting.of_words("what nodes do about partitions", STRATEGY_NAMES, drawn=True),
    TICK: Setting(
        line="a node of which nothing was heard for so many milliseconds is down",
        default=TICK_MS,
        least=100,
        drawn=(500, 1_000, TICK_MS),
    ),
    PREFERRED: Setting(
        line="how many nodes, from the first, are listed for pause-if-all-down; other strategies list none",
        default=1,
        drawn=(1, 2),
    ),
}


class TablesSession:
    """One client's connection to one node of the table store."""

    def __init__(self, client: TablesClient, timeout_ms: int) -> None:
        self._client = client
        self._timeout_ms = timeout_ms
        self._topology = TablesTopology(client, timeout_ms)

    async def read(self, key: str) -> Answer:
        """The value of a key."""
        return await _answer(self._client.read(REGISTERS, key, self._timeout_ms))

    async def write(self, key: str, value: Any) -> Answer:
        """Set a key unconditionally."""
        await _answer(self._client.write(REGISTERS, key, value, self._timeout_ms))
        return Answer(value)

    async def compare_and_set(self, key: str, expected: Any, value: Any) -> Answer:
        """Set a key if it holds `expected`; whether it did."""
        return await _answer(self._client.compare_and_swap(REGISTERS, key, expected, value, self._timeout_ms))

    async def create(self, key: str, value: Any) -> Answer:
        """Set a key if it does not exist; whether this call did."""
        return await _answer(self._client.create(REGISTERS, key, value, self._timeout_ms))

    async def add(self, collection: str, element: int) -> Answer:
        """Put an element into a collection; one that is there already stays there."""
        await _answer(self._client.insert(SETS, collection, element, self._timeout_ms))
        return Answer(element)

    async def elements(self, collection: str) -> Answer:
        """All elements of a collection, in ascending order."""
        found = await _answer(self._client.read_all(SETS, collection, self._timeout_ms))
        return Answer(sorted(found.value))

    async def prepare_topology(self) -> Answer:
        """Nothing is to be done: tables follow from others by themselves."""
        return Answer(None)

    async def declare(self, entity: Entity) -> Answer:
        """Make an entity, if it is not there."""
        with CLASSIFIED:
            return await self._topology.declare(entity)

    async def delete(self, entity: Entity) -> Answer:
        """Remove an entity; whether it was there."""
        with CLASSIFIED:
            return await self._topology.delete(entity)

    async def claim(self, vhost: str, queue: str) -> Answer:
        """Make a queue that is exclusive to this session's connection."""
        with CLASSIFIED:
            return await self._topology.claim(vhost, queue)

    async def owned(self) -> Answer:
        """Which queues are exclusive to this session's connection."""
        with CLASSIFIED:
            return await self._topology.owned()

    async def disconnect(self) -> Answer:
        """End that connection, and begin another."""
        return await self._topology.disconnect()

    async def entities(self) -> Answer:
        """All entities at one moment."""
        with CLASSIFIED:
            return await self._topology.entities()

    async def projected(self, keys: Sequence[str]) -> Answer:
        """What the node of this session holds, in its tables, in those that follow from them, and routes by these."""
        with CLASSIFIED:
            return await self._topology.projected(keys)

    async def close(self) -> None:
        """Drop the connection; what is exclusive to it goes."""
        await self._topology.close()
        await self._client.close()


class TableStore:
    """The replicated-table store that ships with splitbrain.

    Attributes:
        name: as given to `--system`.
        bugs: breaks of what its strategies promise; what it loses, it loses by design, without a switch.
        election_timeout_s: there are no elections; the tick time by which a node is taken for down.
        capabilities: registers, sets and entities of a broker; no elections, and so no promise of who answers during a
            partition.
    """

    name = "tables"
    bugs = BUGS
    election_timeout_s = TICK_MS / 1000

    def __init__(self, request_timeout_ms: int | None = None) -> None:
        """Nodes try for `request_timeout_ms`; None for as long as each test says (`Test.request_timeout_ms`)."""
        self._given_timeout_ms = request_timeout_ms
        self._request_timeout_ms = request_timeout_ms or REQUEST_TIMEOUT_MS
        self.capabilities = Capabilities(
            slow_worlds=True,
            operations=frozenset({"key-value", "collections", "topology", "owned-queues"}),
            image="node",
            uploads={"splitbrain/cluster": Path(cluster.__path__[0])},
            imports=("msgspec",),
            settings=SETTINGS,
            simulation=self,
            telemetry_checkers=_checkers,
        )

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        """How to start the node that lives at `place`."""
        self._request_timeout_ms = self._given_timeout_ms or test.request_timeout_ms
        python, import_path = interpreter(place)
        argv = [python, *RUN_NODE, "--node", place.node, "--listen", address_of(place.listen)]
        for peer in sorted(place.peers):
            argv += ["--peer", f"{peer}={address_of(place.peers[peer])}"]
        strategy = _strategy(test.settings)
        argv += ["--data", place.data_dir, "--partition-strategy", strategy]
        if strategy.startswith(PAUSES_IF_ALL_DOWN):
            listed = sorted([place.node, *place.peers])[: test.settings.get(PREFERRED, SETTINGS[PREFERRED].default)]
            argv += ["--preferred", ",".join(listed)]
        argv += ["--net-tick-ms", str(test.settings.get(TICK, SETTINGS[TICK].default))]
        if test.bugs:
            argv += ["--bugs", ",".join(test.bugs)]
        return NodeCommand(tuple(argv), env={"PYTHONPATH": import_path})

    async def embed(self, command: NodeCommand, world: NodeWorld) -> None:
        """Start the node of `command` inside this process, on `world`; returns when it serves.

        Raises:
            ClusterError: it cannot start.
            OSError: the world's disk or network failed.
        """
        await start(command.argv[1 + len(RUN_NODE) :], runtime_on(world))

    async def connect(self, deployment: Deployment, node: NodeId) -> TablesSession:
        """A session with one node.

        Raises:
            DefiniteError: the node could not be reached.
        """
        return TablesSession(await _client(deployment, node), self._request_timeout_ms)

    async def view(self, deployment: Deployment, node: NodeId) -> NodeView | None:
        """Whether the node's database serves: role "running", "waiting" or "stopped".

        No node leads. Every node that serves names the same one, which decides where partitions are healed (MN-7).
        """
        try:
            async with asyncio.timeout(VIEW_TIMEOUT_S):
                client = await _client(deployment, node)
        except (DefiniteError, TimeoutError):
            return None
        timer = asyncio.get_running_loop().call_later(VIEW_TIMEOUT_S, client.abort)
        try:
            state = await client.state()
        except ClientError:
            return None
        finally:
            timer.cancel()
            await client.close()
        return NodeView(node, state.phase, 0, state.members[0] if state.phase == "running" else None)

    def telemetry(self, test: Test, node_dir: Path) -> Path | None:
        """What the node reports of itself: in its data directory, `data` below the directory of the node."""
        return node_dir / "data" / "telemetry.jsonl"


def _strategy(settings: Mapping[str, int]) -> str:
    return STRATEGY_NAMES[settings.get(STRATEGY, SETTINGS[STRATEGY].default)]


def _checkers(settings: Mapping[str, int], faults: frozenset[FaultKind]) -> tuple[str, ...]:
    return strategy_checkers(_strategy(settings), faults)


async def _client(deployment: Deployment, node: NodeId) -> TablesClient:
    try:
        return await connect(await deployment.dial(node))
    except ClientError as error:
        raise DefiniteError(str(error)) from error


async def _answer(result: Any) -> Answer:
    """What a request gave.

    Raises:
        DefiniteError: it certainly did not happen.
        IndefiniteError: its outcome is unknown.
    """
    try:
        return Answer(await result)
    except ClientError as error:
        raise (DefiniteError if error.definite else IndefiniteError)(str(error)) from error

"""Nodes of the metadata cluster that form a cluster by themselves, with peer discovery, as a system under test."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path  # noqa: TID251 - says where files of a node are; touches none
from typing import Any, Final
from weakref import WeakKeyDictionary

from splitbrain.cluster.embedded_formation import (
    BACKENDS,
    BUGS,
    RETRIES,
    Backend,
    Classic,
    Peer,
    UnavailableError,
    ask_formation,
    start,
)
from splitbrain.harness.contract.capabilities import Capabilities
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.discovery import DiscoveryTrouble
from splitbrain.harness.contract.embedding import NodeWorld
from splitbrain.harness.contract.nodes import NodeCommand, NodeId, NodePlace, NodeView
from splitbrain.harness.contract.sessions import Answer, DefiniteError
from splitbrain.harness.contract.settings import Setting
from splitbrain.harness.contract.test import Test
from splitbrain.harness.systems.embedding import runtime_on
from splitbrain.harness.systems.formation_services import WELL, Late, Model, Service
from splitbrain.harness.systems.metadata_nodes import RUN_NODE, address_of, interpreter

METHOD: Final = "discovery"
RETRIES_SETTING: Final = "discovery-retries"
SPREAD: Final = "spread-ms"

ASK_TIMEOUT_S: Final = 0.5

SETTINGS: Final[Mapping[str, Setting]] = {
    METHOD: Setting.of_words("how nodes find each other", BACKENDS, drawn=True),
    RETRIES_SETTING: Setting(
        line="attempts after the first one, a second apart; then a node gives up",
        default=RETRIES,
        least=0,
        most=1000,
        drawn=(3, 8, 15),
    ),
    SPREAD: Setting(
        line="nodes begin to look for a cluster within so many milliseconds of their start; simulated ones only",
        default=3000,
        least=0,
        most=9000,
        drawn=(0, 3000, 6000),
    ),
}


class FormationSession:
    """Asks one node of the cluster that it is in."""

    def __init__(self, deployment: Deployment, node: NodeId) -> None:
        self._deployment = deployment
        self._node = node

    async def formed(self) -> Answer:
        """What the node says.

        Raises:
            DefiniteError: it does not answer.
        """
        try:
            async with asyncio.timeout(ASK_TIMEOUT_S):
                said = await ask_formation(await self._deployment.dial(self._node))
        except (UnavailableError, TimeoutError) as error:
            raise DefiniteError(f"unavailable: {error or 'no answer in time'}") from error
        return Answer(
            {
                "phase": said.phase,
                "founded": said.founded,
                "members": list(said.members),
                "problem": said.problem,
            }
        )

    async def close(self) -> None:
        """Nothing is open between two questions."""


class FormationSystem:
    """Nodes that have no founders, and find each other.

    Attributes:
        name: as given to `--system`.
        bugs: mutations that a node can be started with.
        election_timeout_s: of the cluster that forms; how long it takes to form, no figure bounds.
        capabilities: it can be asked for its cluster, and nothing else; a node that gives up with a clear error has
            done what it promises.
    """

    name = "formation"
    bugs = BUGS
    election_timeout_s = 1.2

    def __init__(self) -> None:
        self._services: WeakKeyDictionary[asyncio.AbstractEventLoop, Service] = WeakKeyDictionary()
        self.capabilities = Capabilities(
            slow_worlds=True,
            operations=frozenset({"formation"}),
            imports=("msgspec",),
            settings=SETTINGS,
            simulation=self,
            discovery=self,
            gives_up="FormationError",
        )

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        """How to start the node that lives at `place`."""
        python, import_path = interpreter(place)
        argv = [python, *RUN_NODE, "--node", place.node, "--listen", address_of(place.listen)]
        for peer in sorted(place.peers):
            argv += ["--peer", f"{peer}={address_of(place.peers[peer])}"]
        argv += ["--data", place.data_dir, "--discovery", BACKENDS[_setting(test, METHOD)]]
        argv += ["--discovery-nodes", str(len(test.nodes))]
        argv += ["--discovery-retries", str(_setting(test, RETRIES_SETTING))]
        if test.bugs:
            argv += ["--bugs", ",".join(test.bugs)]
        spread = {"SPLITBRAIN_SPREAD_MS": str(_setting(test, SPREAD))}
        return NodeCommand(tuple(argv), env={"PYTHONPATH": import_path, **spread})

    async def embed(self, command: NodeCommand, world: NodeWorld) -> None:
        """Start the node of `command` inside this process, on `world`; returns when it listens.

        Raises:
            ClusterError: it cannot start.
            OSError: the world's disk or network failed.
        """
        runtime = runtime_on(world)
        argv = command.argv[1 + len(RUN_NODE) :]
        kind, spread_ms = argv[argv.index("--discovery") + 1], int(command.env["SPLITBRAIN_SPREAD_MS"])

        def backend(node: str, peers: tuple[Peer, ...]) -> Backend:
            is_classic = kind == "classic"
            made = Classic(runtime, node, peers) if is_classic else Model(kind, self._service(), runtime, peers)
            return Late(made, runtime, world.rng.between(0, spread_ms))

        await start(argv, runtime, backend)

    async def trouble(self, deployment: Deployment, trouble: DiscoveryTrouble | None) -> Mapping[str, Any]:
        """From now on let the service do this wrong, and nothing else."""
        del deployment
        return self._service().changes(trouble or WELL)

    def _service(self) -> Service:
        """That of the simulation which runs now: a system may take part in several, one after the other."""
        return self._services.setdefault(asyncio.get_running_loop(), Service())

    async def connect(self, deployment: Deployment, node: NodeId) -> FormationSession:
        """A session with one node; nothing is opened yet."""
        return FormationSession(deployment, node)

    async def view(self, deployment: Deployment, node: NodeId) -> NodeView | None:
        """Whether the node answers. Who leads, if there is a cluster, is not asked: every node names the first."""
        try:
            said = (await FormationSession(deployment, node).formed()).value
        except DefiniteError:
            return None
        return NodeView(node, said["phase"], 0, deployment.nodes[0])

    def telemetry(self, test: Test, node_dir: Path) -> Path | None:
        """None is judged: clusters form here, and rules of consensus are for a cluster that is there."""
        return None


def _setting(test: Test, name: str) -> int:
    return test.settings.get(name, SETTINGS[name].default)

"""The containers of a run: for every node one that keeps its network, and one in which it runs.

    keeper   sleeps for as long as the run lasts; it owns the node's network namespace, with the address, the rules of
             cut links and the queues of disturbed ones
    runner   joins that network; it is started and killed with the node

A container that is started again gets a new network namespace, in which no link is cut. With a keeper (Kubernetes'
pause container does the same for a pod) there is no such moment: a node that restarts finds the cuts that it left, and
cannot speak before they are there.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from splitbrain.harness.backends.docker import labels
from splitbrain.harness.backends.docker.engine import ContainerSpec, ContainerState, Engine
from splitbrain.harness.contract.nodes import NodeCommand, NodeId, NodePlace
from splitbrain.results.errors import BackendError

DATA_DIR = "/data"
"""Where a node finds its data directory."""
LOG_FILE = "/splitbrain.log"
"""The file to which a runner appends the output of its node: on this machine, so that it survives any end."""
NODE_PORT = 7000

_KEEP = ("sleep", "infinity")
_RUN = ("/bin/sh", "-c", f'exec "$@" >>{LOG_FILE} 2>&1', "sh")


@dataclass
class Node:
    """What is known of one node."""

    place: NodePlace
    folder: Path
    binds: dict[str, Path] = field(default_factory=dict[str, Path])
    """Directories of this machine by their places in both of its containers, beside data and log."""
    keeper: str = ""
    keeper_pid: int = 0
    runner: str = ""
    command: NodeCommand | None = None
    life: int = 0
    signalled: bool = False
    """Whether its process was asked to end."""
    share: float | None = None
    """Of one CPU, that it is limited to."""
    throttled: int = 0
    """How often that limit throttled earlier lives of the process, minus the count of the current life before the
    limit.
    """
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def name(self) -> NodeId:
        """As in the test."""
        return self.place.node

    @property
    def data(self) -> Path:
        """Its data directory on this machine."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """Its log on this machine."""
        return self.folder / "log"


class Containers:
    """Makes, finds and removes the containers of a run.

    Args:
        engine: the engine.
        run: the id of the run, unique on this machine.
        network: the name of its network.
        image: the image of the system under test; it needs `sh` and `sleep`.
    """

    def __init__(self, engine: Engine, run: str, network: str, image: str) -> None:
        self._engine = engine
        self._run = run
        self._network = network
        self._image = image

    async def keep(self, node: Node, hosts: Mapping[NodeId, str]) -> None:
        """Start the container that keeps a node's network; `hosts` are the addresses of all nodes."""
        spec = ContainerSpec(
            name=f"splitbrain-{self._run}-{node.name}-net",
            image=self._image,
            entrypoint=_KEEP,
            labels={**labels.of_run(self._run), labels.NODE: node.name},
            hostname=node.name,
            hosts=hosts,
            binds=_mounted(node.binds),
            network=(self._network, hosts[node.name]),
            init=False,
        )
        node.keeper = await self._engine.create(spec)
        await self._engine.start(node.keeper)
        node.keeper_pid = (await self.check_keeper(node)).pid

    async def check_keeper(self, node: Node) -> ContainerState:
        """Whether the container that keeps a node's network does so.

        Raises:
            BackendError: it ended.
        """
        state = await self._engine.state(node.keeper)
        if state.status != "running":
            raise BackendError(
                f"the container that keeps the network of {node.name} ended ({ended_how(state)}): the image "
                f"{self._image} must have `sleep`, and no one else may stop containers with the label {labels.RUN}."
            )
        return state

    async def prepare(self, node: Node, command: NodeCommand) -> None:
        """Make sure that the node has a container for this command."""
        if node.runner and node.command is not None and _same(node.command, command):
            return
        if node.runner:
            await self._engine.remove(node.runner)
            node.runner = ""
        spec = ContainerSpec(
            name=f"splitbrain-{self._run}-{node.name}",
            image=self._image,
            entrypoint=(*_RUN, *command.argv),
            labels={**labels.of_run(self._run), labels.NODE: node.name},
            env=command.env,
            binds={str(node.data): DATA_DIR, str(node.log): LOG_FILE, **_mounted(node.binds)},
            working_dir=DATA_DIR,
            shares_network_of=node.keeper,
        )
        node.runner = await self._engine.create(spec)
        node.command = command
        if node.share is not None:
            await self._engine.limit_cpu(node.runner, node.share)


def _mounted(binds: Mapping[str, Path]) -> dict[str, str]:
    return {str(source): place for place, source in binds.items()}


def ended_how(state: ContainerState) -> str:
    """How a container ended: "exit code 3", "SIGKILL", or that it ran out of memory."""
    if state.oom_killed:
        return "out of memory"
    number = state.exit_code - 128
    if number in signal.Signals.__members__.values():
        return signal.Signals(number).name
    return f"exit code {state.exit_code}"


def _same(one: NodeCommand, other: NodeCommand) -> bool:
    """Whether the same container does for two commands: their files are laid before every start anyway."""
    return one.argv == other.argv and dict(one.env) == dict(other.env)

"""A deployment of containers: nodes under the control of the engine, links under that of an agent on this machine.

Wrong clocks are libfaketime of the node's own image, controlled by a file that is bound into it. What a node sees is
measured in the container that keeps its network, which is of the same image and has the same file.
"""

from __future__ import annotations

import functools
import glob
import ipaddress
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from splitbrain.harness.backends.agent.tools import all_of
from splitbrain.harness.backends.docker import labels, subnets
from splitbrain.harness.backends.docker.engine import Engine, containers_with, networks_with, remove_network
from splitbrain.harness.backends.docker.nodes import DATA_DIR, NODE_PORT, Containers, Node
from splitbrain.harness.backends.docker.runners import CLOSE_GRACE_S, ContainerNode, Runners
from splitbrain.harness.backends.shared import disks, faketime
from splitbrain.harness.backends.shared.channel import Agent
from splitbrain.harness.backends.shared.deployed import Deployed
from splitbrain.harness.backends.shared.faketime import FakeClock, Measured, NodeClock
from splitbrain.harness.backends.shared.links import AgentLinks
from splitbrain.harness.backends.shared.nodefaults import NodeFaults
from splitbrain.harness.backends.shared.ownership import this_controller
from splitbrain.harness.contract.deployments import ImageUsed, Surroundings
from splitbrain.harness.contract.nodes import NodeCommand, NodeId, NodePlace, NodeStatus
from splitbrain.harness.contract.test import Test
from splitbrain.results.errors import BackendError
from splitbrain.results.telemetry import ASIDE


class DockerDeployment(Deployed[ContainerNode]):
    """Nodes as containers on a network of their own. Made by `DockerBackend.deploy`.

    Attributes:
        run: the id under which the engine lists what belongs to this deployment (label "splitbrain.run").
        image: the image of the system under test.
        surroundings: that image; links are cut by rules in the network of the receiving node.
    """

    def __init__(self, test: Test, run_dir: Path, image: ImageUsed, run: str, engine: Engine, agent: Agent) -> None:
        super().__init__(test, AgentLinks(agent))
        self.run = run
        self.image = image
        self.surroundings = Surroundings(image=image, links="receivers")
        self._folders = {node: run_dir.absolute() / "nodes" / node for node in test.nodes}
        self._engine = engine
        self._agent = agent
        self._nodes: dict[NodeId, Node] = {}
        self._containers = Containers(engine, run, _name(run), image.tag)
        self._runners = Runners(engine, self._containers, test.system.capabilities.last_words)

    async def lay_out(self) -> None:
        """Make directories, the network, the containers that keep the nodes' networks, and the rules in those.

        Raises:
            BackendError: something of it cannot be made here.
        """
        subnet = await self._engine.ask(
            "make a network", lambda api: subnets.create_network(api, _name(self.run), labels.of_run(self.run))
        )
        self.places = _places(self.nodes, subnet)
        hosts = {node: place.listen[0] for node, place in self.places.items()}
        for node in self.nodes:
            self._nodes[node] = self._make_folders(Node(self.places[node], self._folders[node]))
        await all_of([self._containers.keep(node, hosts) for node in self._all()])
        networks = {node.name: [node.keeper_pid, hosts[node.name]] for node in self._all()}
        try:
            await self._agent.ask("join", nodes=networks)
        except BackendError:
            await all_of([self._containers.check_keeper(node) for node in self._all()])
            raise
        await self._agent.ask("lay_out_disks", disks=self._disks(), private=False)
        for node in self._all():
            self._take(node)
        self._begins()

    def _make_folders(self, node: Node) -> Node:
        """What is bound into its containers must be there before those are."""
        node.data.mkdir(parents=True, exist_ok=True)
        node.log.touch()
        # A link stands for a file that lies aside: it must mean the same in the container.
        node.binds[str(_aside(node))] = _aside(node)
        if faketime.needed(self._test):
            node.binds[CLOCK_DIR] = node.folder / "clock"
        for folder in node.binds.values():
            folder.mkdir(exist_ok=True)
        return node

    def _disks(self) -> dict[NodeId, dict[str, Any]]:
        kind = "volume" if disks.needing_volumes(self._test) else "directory"
        image = f"{this_controller().marker}.disk"
        return {node.name: disks.request(self._test, kind, node.folder, image, _aside(node)) for node in self._all()}

    def _take(self, node: Node) -> None:
        """Control a node whose keeper runs."""
        clock = None
        if faketime.needed(self._test):
            clock = container_clock(self._engine, node, self._test.system.command(self._test, node.place))
        status, kill = functools.partial(self._runners.status, node), functools.partial(self._runners.kill, node)
        self._controls[node.name] = ContainerNode(self._runners, node)
        self._faults[node.name] = NodeFaults(
            node.name, self._agent, status, kill, self._streams, clock, changing=node.changing
        )

    async def start(self, node: NodeId) -> NodeStatus:
        """Start the node's container; returns when the node listens, at the latest after five seconds.

        Raises:
            NodeStartError: it could not be run, or it ended at once.
        """
        command = self._test.system.command(self._test, self._place(node))
        return await self._controls[node].start(command, self._faults[node].prepare)

    # --- the end ------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Stop every node (SIGTERM, a second later SIGKILL) and remove everything except logs and data.

        After an error the rest is still tried. Closing twice is safe.

        Raises:
            BackendError: something was left behind; the next start sweeps it.
        """
        if not self._ends():
            return
        try:
            await all_of([control.stop(CLOSE_GRACE_S) for control in self._controls.values()])
        finally:
            try:
                await all_of([faults.close() for faults in self._faults.values()])
                await self._remove_everything()
            finally:
                try:
                    await self._agent.ask("stop")  # file systems are unmounted once no container holds them
                finally:
                    await self._agent.close()
                    self._engine.close()

    async def _remove_everything(self) -> None:
        """By label, because an interrupted start leaves containers that are not recorded here. Runners are removed
        before keepers.
        """
        mine = [f"{label}={value}" for label, value in labels.of_run(self.run).items()]
        found = await self._engine.ask("list containers", lambda api: containers_with(api, mine))
        await all_of([self._engine.remove(container.id) for container in found])
        for network in await self._engine.ask("list networks", lambda api: networks_with(api, mine)):
            kept_by = await self._engine.ask("remove a network", functools.partial(remove_network, network=network.id))
            if kept_by is not None:
                raise BackendError(f"the network {network.shown} cannot be removed: {kept_by}.")

    def _all(self) -> list[Node]:
        return list(self._nodes.values())


def _aside(node: Node) -> Path:
    """The folder of files that no disk fault may hit."""
    return node.folder / ASIDE


def _name(run: str) -> str:
    """What the network of a run is called."""
    return f"splitbrain-{run}"


def _places(nodes: Sequence[NodeId], subnet: ipaddress.IPv4Network) -> dict[NodeId, NodePlace]:
    listen = {node: (subnets.address_in(subnet, number), NODE_PORT) for number, node in enumerate(nodes)}
    return {
        node: NodePlace(
            node=node,
            data_dir=DATA_DIR,
            listen=listen[node],
            peers={peer: listen[peer] for peer in nodes if peer != node},
            home="image",
        )
        for node in nodes
    }


# --- wrong clocks -----------------------------------------------------------------------------------------------------

CLOCK_DIR = "/splitbrain.clock"
"""Where a container finds the directory with the file of its clock."""
_FILE = "clock"
_LAUNCH = """
import json, os, sys, time
variables = {**os.environ, **json.loads(sys.argv[1])}
print(time.monotonic_ns(), flush=True)
os.execvpe(sys.argv[2], sys.argv[2:], variables)
"""
"""Becomes the probe, and says when: the engine takes much longer to begin a process than a clock may be wrong by."""
_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


def container_clock(engine: Engine, node: Node, command: NodeCommand) -> NodeClock:
    """The clock of a node whose keeper runs with `CLOCK_DIR` bound into it.

    Raises:
        FaultNotSupportedError: libfaketime does not reach the program of the command.
        BackendError: the image has no libfaketime, or not the program.
    """
    root = f"/proc/{node.keeper_pid}/root"
    faketime.require_reach(command.argv[0], ":".join(f"{root}{folder}" for folder in _PATH))
    variables = faketime.environment(_library(node, root), f"{CLOCK_DIR}/{_FILE}")
    launch = ["python3", "-I", "-S", "-c", _LAUNCH, json.dumps(dict(variables)), *faketime.probe_command("python3")]

    async def measured(clock: FakeClock) -> Measured:
        printed = await engine.execute(node.keeper, launch)
        try:
            began, answer = printed.split("\n", 1)
            return clock.measured(answer, int(began) / 1e9)
        except ValueError:
            raise BackendError(
                f"the clock of {node.name} could not be measured: python3 in its image said {printed[-300:]!r}."
            ) from None

    return NodeClock(node.binds[CLOCK_DIR] / _FILE, variables, measured)


def _library(node: Node, root: str) -> str:
    """Where libfaketime is in the node's image, whose root directory this machine sees at `root`."""
    found = [path for pattern in faketime.LIBRARY_PLACES for path in sorted(glob.glob(f"{root}{pattern}"))]
    if not found:
        raise BackendError(
            f"the image of {node.name} has no libfaketime: add it to its Dockerfile, or leave clocks out of --nemesis."
        )
    return found[0].removeprefix(root)

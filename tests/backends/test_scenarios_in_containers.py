"""Scenarios One, Two and Three of the document on maintained replicas (S001), on five containers.

`tests.cluster.replicas.scenarios` plays them in memory, with faults around them. Here nodes are real processes, killed
and started by the backend. A to E are the same nodes there and here; C fails.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

import pytest

from splitbrain.cluster.client import Client, ClientError, QueueOptions, connect
from splitbrain.cluster.members import node_of
from splitbrain.cluster.queuegroups.records import QueueRecord
from splitbrain.cluster.tree import NEWEST_VERSION
from splitbrain.harness.backends.docker import DockerBackend, DockerDeployment
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.nodes import NodeCommand, NodeId, NodePlace
from splitbrain.harness.contract.test import Test
from splitbrain.harness.systems.metadata import Metadata
from tests.backends import docker_support
from tests.cli.test_arguments import OPTIONS
from tests.cluster.replicas.scenarios import BODIES, QUEUE, ZONES, A, B, C, D, E

engine = docker_support.engine
pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.usefixtures("engine")]

NAMES: Final = ",".join(sorted(ZONES))
ENDS_S: Final = 90.0
"""After so long it must have come, also on a busy machine."""

POLL_S: Final = 0.2
CHECK_S: Final = 3.0
"""How often nodes look at replicas in tests (`metadata_replicas.SHORT_TIMES`)."""


class Zoned(Metadata):
    """The metadata cluster whose nodes are in zones, and take a node for failed after some time."""

    def __init__(self, recovery_ms: int) -> None:
        super().__init__()
        self._recovery_ms = recovery_ms

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        command = super().command(test, place)
        zones = ",".join(f"{node}={zone}" for node, zone in ZONES.items())
        times = ("--replica-recovery-ms", str(self._recovery_ms))
        at = command.argv.index("--replica-recovery-ms")
        argv = (*command.argv[:at], *times, *command.argv[at + 2 :], "--zones", zones)
        return NodeCommand(argv, env=command.env, files=command.files)


class Cluster:
    """Five nodes in containers, of which some run."""

    def __init__(self, deployment: DockerDeployment) -> None:
        self.deployment = deployment
        self.up: set[NodeId] = set()

    async def start(self, *nodes: NodeId) -> None:
        for node in nodes:
            await self.deployment.start(node)
            self.up.add(node)

    async def kill(self, node: NodeId) -> None:
        self.up.discard(node)
        await self.deployment.kill(node)

    async def asked(self, what: Callable[[Client], Awaitable[bool]]) -> None:
        """Ask one node after the other until the answer is yes; what gives no answer is asked again."""
        until, last = time.monotonic() + ENDS_S, "no node answered"
        while time.monotonic() < until:
            for node in sorted(self.up):
                try:
                    client = await connect(await self.deployment.dial(node))
                    try:
                        if await what(client):
                            return
                    finally:
                        await client.close()
                except (ClientError, OSError) as error:
                    last = f"{node}: {error}"
            await asyncio.sleep(POLL_S)
        pytest.fail(f"it did not come in {ENDS_S:g} s; {last}; {await self.record()}")

    async def record(self) -> QueueRecord:
        """Of the queue, as a node that runs has it."""
        client = await connect(await self.deployment.dial(min(self.up)))
        try:
            return await (await client.queues()).record(QUEUE)
        finally:
            await client.close()

    async def ends_on(self, *nodes: NodeId) -> None:
        """The queue has members on these nodes and nowhere else, and no change is under way."""

        async def is_so(client: Client) -> bool:
            record = await (await client.queues()).record(QUEUE)
            return record.change is None and {node_of(member) for member in record.members} == set(nodes)

        await self.asked(is_so)

    async def stays(self) -> None:
        """Future checks find that no action is necessary."""
        before = (await self.record()).last_change
        await asyncio.sleep(3 * CHECK_S)
        assert (await self.record()).last_change == before

    async def drained(self) -> list[bytes]:
        """The messages that are in the queue."""
        client = await connect(await self.deployment.dial(E))
        try:
            queues, bodies = await client.queues(), list[bytes]()
            while (message := await queues.take(QUEUE, settle=True)) is not None:
                bodies.append(message.body)
            return bodies
        finally:
            await client.close()


@asynccontextmanager
async def scenario(run_dir: Path, recovery_ms: int = 2500) -> AsyncGenerator[Cluster]:
    """A queue with three messages on A, B and C, which is to have three replicas; C was just killed."""
    chosen = {**OPTIONS, "workload": "replicas", "nemesis": "kill", "backend": "docker", "nodes": NAMES}
    test = replace(compose(RunOptions.of(**chosen)), system=Zoned(recovery_ms))
    deployment = await DockerBackend().deploy(test, run_dir, cast(Runtime, None))
    try:
        cluster = Cluster(deployment)
        await cluster.start(*sorted(ZONES))
        await cluster.asked(_in_force)
        client = await connect(await deployment.dial(A))
        queues = await client.queues()
        await queues.declare(QUEUE, QueueOptions(initial_group_size=3, target_group_size=3), timeout_ms=30_000)
        publisher = queues.publisher(QUEUE)
        for body in BODIES:
            await publisher.publish(body, timeout_ms=30_000)
        await client.close()
        await cluster.ends_on(A, B, C)
        await cluster.kill(C)
        yield cluster
        assert await cluster.drained() == BODIES
    finally:
        await deployment.close()


async def _in_force(client: Client) -> bool:
    return (await client.status()).machine_version == NEWEST_VERSION


def play(run_dir: Path, story: Callable[[Cluster], Awaitable[None]], recovery_ms: int = 2500) -> None:
    async def run() -> None:
        async with scenario(run_dir, recovery_ms) as cluster:
            await story(cluster)
            await cluster.stays()

    asyncio.run(run())


def test_scenario_one_a_node_that_left_the_cluster_is_replaced(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        async def has_left(client: Client) -> bool:
            if C in map(node_of, await client.members()):
                await client.remove_member(C)
            return C not in map(node_of, await client.members())

        await cluster.asked(has_left)
        await cluster.ends_on(A, B, D)

    play(tmp_path, story)


def test_scenario_two_what_an_operator_adds_beside_the_replacement_stays(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        async def has_begun(client: Client) -> bool:
            record = await (await client.queues()).record(QUEUE)
            return record.last_change > 0

        async def has_grown(client: Client) -> bool:
            queues = await client.queues()
            if E not in map(node_of, (await queues.record(QUEUE)).members):
                await queues.grow(QUEUE, E)
            return E in map(node_of, (await queues.record(QUEUE)).members)

        await cluster.asked(has_begun)
        await cluster.asked(has_grown)
        await cluster.ends_on(A, B, D, E)

    play(tmp_path, story)


def test_scenario_three_a_node_that_comes_back_in_time_changes_nothing(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        await asyncio.sleep(1.0)
        await cluster.start(C)
        await cluster.ends_on(A, B, C)
        await cluster.stays()
        assert (await cluster.record()).last_change == 0

    play(tmp_path, story, recovery_ms=60_000)

"""Nodes inside this process, started the way a simulation starts them."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from splitbrain.cluster.embedded import start
from splitbrain.cluster.errors import ArgumentError
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodePlace
from splitbrain.harness.contract.sessions import Answer
from splitbrain.harness.contract.test import Test
from splitbrain.harness.systems.metadata import Metadata
from tests.cluster.support import World, eventually, in_virtual_time

THREE = ["n1", "n2", "n3"]


class _Deployment:
    def __init__(self, world: World) -> None:
        self.world = world

    async def dial(self, node: str) -> Any:
        return self.world.dial("client", node)


async def _embed(world: World, node: str) -> None:
    test = cast(
        Test,
        SimpleNamespace(
            request_timeout_ms=1500, bugs=(), settings={}, workload=SimpleNamespace(needs=frozenset({"key-value"}))
        ),
    )
    place = NodePlace(node, "data", (node, 1), {peer: (peer, 1) for peer in THREE if peer != node})
    system = Metadata()
    await system.embed(system.command(test, place), world.runtime(node))


def test_embedded_nodes_form_a_cluster_and_one_that_is_started_again_finds_what_it_had_stored() -> None:
    async def check() -> None:
        world = World(THREE)
        deployment = cast(Deployment, _Deployment(world))
        system = Metadata()

        async def leader() -> str | None:
            views = [await system.view(deployment, node) for node in THREE]
            return next((view.node for view in views if view and view.role == "leader"), None)

        try:
            for node in THREE:
                await _embed(world, node)
            await eventually(leader)
            session = await system.connect(deployment, "n2")
            await session.write("k", 1)
            await session.close()
            for node in THREE:
                await world.kill(node)
            for node in THREE:
                await _embed(world, node)
            await eventually(leader)
            session = await system.connect(deployment, "n3")
            assert isinstance(answer := await session.read("k"), Answer)
            assert answer.value == 1
            await session.close()
            assert world.failures == []
        finally:
            await world.close()

    in_virtual_time(check())


def test_the_metadata_cluster_is_embeddable() -> None:
    system = Metadata()
    assert system.capabilities.simulation is system


def test_an_embedded_node_takes_the_arguments_of_a_node_process() -> None:
    async def check() -> None:
        world = World(["n1"])
        with pytest.raises(ArgumentError, match="--listen"):
            await start(["--node", "n1", "--listen", "nowhere", "--data", "-"], world.runtime("n1"))

    in_virtual_time(check())


def test_an_embedded_node_that_stops_in_good_order_says_so_in_its_telemetry() -> None:
    async def check() -> None:
        world = World(["n1"])
        node = await start(["--node", "n1", "--listen", "n1:1", "--data", "-"], world.runtime("n1"))
        await node.stop()
        await world.close()
        assert [line["event"] for line in world.telemetry["n1"]][-1] == "stop"

    in_virtual_time(check())


def test_importing_embedded_nodes_brings_in_nothing_of_the_operating_systems_runtime() -> None:
    runtime = ("splitbrain.cluster.real", "splitbrain.cluster.stream")
    code = f"import sys, splitbrain.cluster.embedded; sys.exit(any(m in sys.modules for m in {runtime}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

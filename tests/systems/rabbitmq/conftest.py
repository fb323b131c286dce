"""Real brokers in containers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from splitbrain.harness import images
from splitbrain.harness.backends.docker import DockerBackend, DockerDeployment
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.test import Test
from splitbrain.harness.systems.rabbitmq import Rabbitmq, RabbitmqSession
from splitbrain.results.errors import BackendError
from tests.backends.support import missing

T = TypeVar("T")

STARTS_WITHIN_S = 240
ANSWERS_WITHIN_S = 480
OPTIONS: dict[str, Any] = {
    "workload": "queue",
    "nemesis": "none",
    "system": "rabbitmq",
    "backend": "docker",
    "bug": "",
    "nodes": "3",
    "concurrency": "2n",
    "rate": 100.0,
    "time_limit": 5.0,
    "interval": None,
    "op_timeout": 2.0,
    "recovery": 60.0,
    "seed": 1,
}
"""Options of a test of RabbitMQ."""


def installed() -> str:
    """The release of RabbitMQ on this machine, as two numbers."""
    found = [folder.name for folder in Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*")]
    if not found:
        missing("there is no RabbitMQ on this machine (apt install rabbitmq-server)")
    return release_of(found[0])


def release_of(folder: str) -> str:
    """The release, as two numbers, in the name of the folder where a package puts it."""
    return ".".join(folder.strip().partition("-")[2].split(".")[:2])


class Cluster:
    """Nodes that run; coroutines about them are run in the event loop that they belong to."""

    def __init__(self, runner: asyncio.Runner, test: Test, deployment: DockerDeployment) -> None:
        self._runner = runner
        self.test = test
        self.deployment = deployment
        self.system = cast(Rabbitmq, test.system)
        self._sessions: list[RabbitmqSession] = []

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Its result; fails if the broker leaves it without an answer for long. It leaves no session open."""

        async def within() -> T:
            try:
                async with asyncio.timeout(ANSWERS_WITHIN_S):
                    return await coroutine
            finally:
                while self._sessions:
                    await self._sessions.pop().close()

        return self._runner.run(within())

    async def session(self, node: NodeId = "n1") -> RabbitmqSession:
        """A session with a node."""
        session = await self.system.connect(self.deployment, node)
        self._sessions.append(session)
        return session

    async def until_usable(self) -> None:
        """Wait until all nodes run in one cluster."""
        nodes = self.test.nodes
        async with asyncio.timeout(STARTS_WITHIN_S):
            while True:
                views = [await self.system.view(self.deployment, node) for node in nodes]
                leaders = {None if view is None else view.leader for view in views}
                if len(leaders) == 1 and None not in leaders:
                    return
                await asyncio.sleep(0.2)


def _running(nodes: int, run_dir: Path) -> Iterator[Cluster]:
    if os.geteuid() != 0:
        missing("the docker backend needs root")
    try:
        images.ensure("rabbitmq")
    except BackendError as error:
        missing(str(error))
    with asyncio.Runner() as runner:
        test = compose(RunOptions.of(**{**OPTIONS, "nodes": str(nodes), "concurrency": "6"}))
        deployment = runner.run(DockerBackend().deploy(test, run_dir, cast(Runtime, None)))
        cluster = Cluster(runner, test, deployment)
        try:
            for node in test.nodes:
                runner.run(deployment.start(node))
            runner.run(cluster.until_usable())
            yield cluster
        finally:
            runner.run(deployment.close())


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node."""
    yield from _running(1, tmp_path_factory.mktemp("one"))


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes."""
    yield from _running(3, tmp_path_factory.mktemp("three"))

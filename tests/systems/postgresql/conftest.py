"""A real PostgreSQL of one node, for everything that needs no faults."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from splitbrain.harness.backends.local import LocalBackend, LocalDeployment
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.systems.postgresql import Postgresql, PostgresqlSession
from splitbrain.harness.systems.postgresql.node import find_programs
from tests.backends.support import missing, skip_without_namespaces

OPTIONS: dict[str, Any] = {
    "workload": "register",
    "nemesis": "none",
    "system": "postgresql",
    "backend": "local",
    "bug": "",
    "nodes": "1",
    "concurrency": "2n",
    "rate": 100.0,
    "time_limit": 5.0,
    "interval": None,
    "op_timeout": 2.0,
    "recovery": 20.0,
    "seed": 1,
}
"""Options of a test of PostgreSQL."""


class Running:
    """A node that runs; coroutines about it are run in the event loop that it belongs to."""

    def __init__(self, runner: asyncio.Runner, deployment: LocalDeployment) -> None:
        self._runner = runner
        self.deployment = deployment

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._runner.run(coroutine)

    async def session(self) -> PostgresqlSession:
        return await Postgresql().connect(self.deployment, "n1")


@pytest.fixture(scope="session")
def postgresql_programs() -> None:
    """PostgreSQL on this machine, and namespaces to run nodes in."""
    skip_without_namespaces()
    try:
        find_programs()
    except SystemExit:
        missing("there is no PostgreSQL here (Debian: postgresql)")


@pytest.fixture(scope="module")
def postgresql(postgresql_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One node at read committed."""
    with asyncio.Runner() as runner:
        running = Running(runner, runner.run(started(tmp_path_factory.mktemp("postgresql"))))
        try:
            yield running
        finally:
            runner.run(running.deployment.close())


async def started(run_dir: Path) -> LocalDeployment:
    """A deployment whose node answers."""
    test = compose(RunOptions.of(**OPTIONS))
    deployment = await LocalBackend("namespaces").deploy(test, run_dir, cast(Runtime, None))
    try:
        await deployment.start("n1")
        async with asyncio.timeout(120):
            while await Postgresql().view(deployment, "n1") is None:
                await asyncio.sleep(0.05)
    except BaseException:
        await deployment.close()
        raise
    return deployment

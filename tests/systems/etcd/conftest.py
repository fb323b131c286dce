"""A real etcd of one node, for everything that needs no faults."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from splitbrain.harness.backends.local import LocalBackend, LocalDeployment
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.read_modes import LINEARIZABLE, ReadMode
from splitbrain.harness.systems.etcd import Etcd, EtcdSession
from tests.backends.support import missing, skip_without_namespaces

OPTIONS: dict[str, Any] = {
    "workload": "register",
    "nemesis": "partition",
    "system": "etcd",
    "backend": "local",
    "bug": "",
    "nodes": "3",
    "concurrency": "2n",
    "rate": 100.0,
    "time_limit": 5.0,
    "interval": None,
    "op_timeout": 2.0,
    "recovery": 20.0,
    "seed": 1,
}
"""Options of a test of etcd."""


class Running:
    """A node that runs; coroutines about it are run in the event loop that it belongs to."""

    def __init__(self, runner: asyncio.Runner, deployment: LocalDeployment) -> None:
        self._runner = runner
        self.deployment = deployment

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._runner.run(coroutine)

    async def session(self, read_mode: ReadMode = LINEARIZABLE) -> EtcdSession:
        return await Etcd(read_mode).connect(self.deployment, "n1")


@pytest.fixture(scope="session")
def etcd_program() -> None:
    """etcd on this machine, and namespaces to run nodes in."""
    skip_without_namespaces()
    if shutil.which("etcd") is None:
        missing("there is no etcd here (Debian: etcd-server)")


@pytest.fixture(scope="module")
def etcd(etcd_program: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One node that leads itself."""
    with asyncio.Runner() as runner:
        running = runner.run(_started(runner, tmp_path_factory.mktemp("etcd")))
        try:
            yield running
        finally:
            runner.run(running.deployment.close())


async def _started(runner: asyncio.Runner, run_dir: Path) -> Running:
    test = compose(RunOptions.of(**{**OPTIONS, "nodes": "1", "nemesis": "none"}))
    deployment = await LocalBackend("namespaces").deploy(test, run_dir, cast(Runtime, None))
    running = Running(runner, deployment)
    try:
        await deployment.start("n1")
        async with asyncio.timeout(120):
            while (view := await Etcd().view(deployment, "n1")) is None or view.leader is None:
                await asyncio.sleep(0.05)
    except BaseException:
        await deployment.close()
        raise
    return running

"""Every kind of fault on every backend: injected, measured by who did not inject it, healed, measured again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import get_args

import pytest

from splitbrain.harness.backends.catalogue import BACKENDS as KNOWN
from splitbrain.harness.contract.faults import DiskFault, FaultKind, LinkFault
from tests.backends import docker_support, ssh_support
from tests.backends.fault_matrix import BYSTANDERS, LINK, MEASUREMENTS, Round, is_well, stores
from tests.backends.matrix_rows import BACKENDS, NEVER, Nodes, backend_of, deployed, measured_in_simulation, works
from tests.backends.support import missing, skip_without_namespaces
from tests.backends.wire import skip_without_nfqueue

hosts = ssh_support.hosts
engine = docker_support.engine
pytestmark = [pytest.mark.cluster, pytest.mark.slow]


class Row:
    """A row of the matrix: its nodes live for all measurements in it, except in a simulation, which begins anew."""

    def __init__(
        self, name: str, supported: dict[FaultKind, bool], nodes: Nodes | None, runner: asyncio.Runner
    ) -> None:
        self.name = name
        self.supported = supported
        self._nodes = nodes
        self._runner = runner
        self._clean = True

    def measure(self, measurement: Callable[[Nodes], Awaitable[None]]) -> None:
        if self._nodes is None:
            measured_in_simulation(measurement)
            return
        nodes = self._nodes

        async def scenario() -> None:
            if not self._clean:
                await nodes.tidy()
            self._clean = False
            await measurement(nodes)
            self._clean = True

        self._runner.run(scenario())


@pytest.fixture(scope="module", params=BACKENDS)
def row(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Row, None, None]:
    name: str = request.param
    if name == "local":
        skip_without_namespaces()
        skip_without_nfqueue()
    if name == "docker":
        request.getfixturevalue("engine")
    backend = backend_of(name, lambda: request.getfixturevalue("hosts"))
    supported = works(backend)
    with asyncio.Runner() as runner:
        if name == "sim":
            yield Row(name, supported, None, runner)
            return
        nodes = runner.run(deployed(name, backend, tmp_path_factory.mktemp("matrix")))
        try:
            yield Row(name, supported, nodes, runner)
        finally:
            runner.run(nodes.deployment.close())


@pytest.mark.parametrize("kind", MEASUREMENTS)
def test_a_fault_does_what_it_says_and_only_until_it_is_healed(row: Row, kind: FaultKind) -> None:
    if kind in NEVER[row.name]:
        assert not row.supported[kind], "what works is measured"
        return
    if not row.supported[kind]:
        missing(f"{row.name} cannot do {kind!r} on this machine: see `splitbrain doctor`")
    row.measure(MEASUREMENTS[kind])


def test_what_a_backend_says_it_can_do_is_measured(row: Row) -> None:
    assert {kind for kind, works_here in row.supported.items() if works_here} <= set(MEASUREMENTS)
    assert set(row.supported) == set(get_args(FaultKind))


def test_every_backend_has_a_row() -> None:
    assert set(BACKENDS.values()) == set(KNOWN)


@pytest.mark.parametrize("name", ["local", "docker"])
def test_deployments_at_the_same_time_share_no_fault_of_links_or_disks(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if name == "docker":
        request.getfixturevalue("engine")
    else:
        skip_without_namespaces()
        skip_without_nfqueue()
    backend = backend_of(name, lambda: request.getfixturevalue("hosts"))
    if not (works(backend)["loss"] and works(backend)["disk-full"]):
        missing(f"{name} cannot lose packets or fill disks on this machine: see `splitbrain doctor`")

    async def is_spoiled(nodes: Nodes) -> None:
        assert await (await Round(nodes, LINK).send(20)).settled() == []
        assert (await nodes.ask("n1", "write"))["wrote"] == "ENOSPC"
        await is_well(nodes, *BYSTANDERS)
        await stores(nodes, "n2")

    async def spoil(nodes: Nodes) -> None:
        await nodes.deployment.disturb({LINK: LinkFault(loss=1.0)})
        await nodes.deployment.spoil("n1", DiskFault(full=True))

    async def scenario() -> None:
        one = await deployed(name, backend, tmp_path / "one")
        try:
            other = await deployed(name, backend, tmp_path / "other")
            try:
                await spoil(one)
                await is_spoiled(one)
                await is_well(other, LINK, *BYSTANDERS)
                await stores(other)
                await spoil(other)
                await other.deployment.disturb({})
                await other.deployment.spoil("n1", None)
                await is_well(other, LINK)
                await stores(other)
                await is_spoiled(one)
            finally:
                await other.deployment.close()
            await is_spoiled(one)
        finally:
            await one.deployment.close()

    asyncio.run(scenario())

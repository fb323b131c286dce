"""The rows of the suite: nodes on a backend, which live for all tests of that row."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from splitbrain.harness.backends.sim import SimBackend
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.realtime import RealClock
from splitbrain.harness.contract.rng import Streams
from splitbrain.harness.contract.test import Backend, Test
from splitbrain.harness.simulation.clock import EPOCH_NS, TrueClock
from splitbrain.harness.simulation.loop import SimLoop
from tests.backends.conformance.adapters import Adapter
from tests.backends.conformance.nodes import ConformanceSystem, Nodes
from tests.backends.support import NODES, missing

Measurement = Callable[[Nodes], Awaitable[None]]


class Row:
    """The nodes of a row.

    Attributes:
        adapter: their backend.
        supported: which kinds of fault work on it.
        folder: of their logs and data.
    """

    def __init__(self, adapter: Adapter, folder: Path) -> None:
        self.adapter = adapter
        self.supported = adapter.works()
        self.folder = folder
        self._runner = asyncio.Runner()
        self._nodes: Nodes | None = None
        self._clean = True

    def measure(self, measurement: Measurement) -> None:
        """Measure on nodes with which nothing is wrong: those of the row, or of a simulation that begins anew."""
        if self.adapter.name == "sim":
            measured_in_simulation(self.adapter, measurement)
        else:
            self._runner.run(self._measure(measurement))

    async def _measure(self, measurement: Measurement) -> None:
        if self._nodes is None:
            deployment, system = await deployed(
                self.adapter.python, self.adapter.backend(), NODES, self.works(), self.folder
            )
            self._nodes = Nodes(deployment, system, self.adapter.seen, packets=self.adapter.packets)
        elif not self._clean:
            await self._nodes.tidy()
        self._clean = False
        await measurement(self._nodes)
        self._clean = True

    def measure_fault(self, kind: FaultKind, measurement: Measurement) -> None:
        """Measure a kind of fault, if the backend has it; if it has it on no machine, see that it says so."""
        if kind in self.adapter.never:
            assert not self.supported[kind], "what works is measured"
            return
        self.needs(kind)
        self.measure(measurement)

    def works(self) -> list[FaultKind]:
        """The kinds of fault that work."""
        return [kind for kind, works in self.supported.items() if works]

    def needs(self, kind: FaultKind) -> None:
        """Skip a test of a kind of fault that this machine lacks."""
        if not self.supported[kind]:
            missing(f"{self.adapter.name} cannot do {kind!r} on this machine: see `splitbrain doctor`")

    @asynccontextmanager
    async def apart(
        self, folder: Path, nodes: Sequence[NodeId] = ("n1",), faults: Collection[FaultKind] = ()
    ) -> AsyncGenerator[Nodes, None]:
        """A deployment beside that of the row, whose nodes do not run yet; it is closed at the end."""
        deployment, system = await deployed(
            self.adapter.python, self.adapter.apart(), nodes, faults, folder, start=False
        )
        try:
            yield Nodes(deployment, system, self.adapter.seen, packets=self.adapter.packets)
        finally:
            await deployment.close()

    def close(self) -> None:
        """End the nodes, and see that logs and data of n1 are left in plain folders."""
        with self._runner:
            if self._nodes is not None:
                self._runner.run(self._close(self._nodes))

    async def _close(self, nodes: Nodes) -> None:
        if not self._clean:  # the test that failed says what is wrong
            await nodes.deployment.close()
            return
        await nodes.ask("n1", "time")  # on a busy machine a start may return before the node has made its files
        life = (await nodes.deployment.status("n1")).life
        await nodes.deployment.close()
        left = self.folder / "nodes/n1"
        assert sorted(path.name for path in (left / "data").iterdir()) == ["telemetry.jsonl", "written"]
        # A life that was killed at once may have written neither.
        assert 1 <= (left / "log").read_text().count("n1 listens") <= life, "the log goes on over lives"
        telemetry = (left / "data/telemetry.jsonl").read_text()
        assert telemetry == "start\n" * len(telemetry.splitlines()), "no fault hits telemetry"
        assert 1 <= len(telemetry.splitlines()) <= life
        assert not (left / "data").is_mount()


def conformance_test(system: ConformanceSystem, nodes: Sequence[NodeId], faults: Collection[FaultKind]) -> Test:
    """As much of a test as a backend looks at; `faults` are those that its nemesis needs."""
    nemesis = SimpleNamespace(faults=frozenset(faults))
    return cast(Test, SimpleNamespace(nodes=tuple(nodes), system=system, nemesis=nemesis, seed=1))


async def deployed(
    python: str,
    backend: Backend,
    nodes: Sequence[NodeId],
    faults: Collection[FaultKind],
    folder: Path,
    *,
    start: bool = True,
) -> tuple[Deployment, ConformanceSystem]:
    """A deployment, whose nodes run, and what runs on them."""
    system = ConformanceSystem(python)
    runtime = Runtime(clock=RealClock(), streams=Streams(1))
    deployment = await backend.deploy(conformance_test(system, nodes, faults), folder, runtime)
    try:
        if start:
            await asyncio.gather(*(deployment.start(node) for node in nodes))
    except BaseException:
        await deployment.close()
        raise
    return deployment, system


class _Silence:
    def telemetry(self, node: NodeId, time_ns: int, line: bytes) -> None:
        pass

    def log(self, node: NodeId, time_ns: int, line: str) -> None:
        pass


def measured_in_simulation(adapter: Adapter, measure: Measurement) -> None:
    """Measure on simulated nodes that nothing happened to before."""
    streams = Streams(1)
    loop = SimLoop(streams["scheduler"])
    system = ConformanceSystem()
    test = conformance_test(system, NODES, [kind for kind, works in adapter.works().items() if works])

    async def scenario() -> None:
        backend = SimBackend("lan", _Silence())
        deployment = await backend.deploy(test, Path("simulation"), Runtime(TrueClock(loop), streams))
        for node in NODES:
            await deployment.start(node)
        true_s = lambda: (EPOCH_NS + loop.now_ns) / 1e9  # noqa: E731
        await measure(Nodes(deployment, system, adapter.seen, packets=False, wall_s=true_s))
        await deployment.close()

    loop.run(scenario())

"""Worlds in memory: a system without a network, a deployment without processes, and a test made of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from splitbrain.harness.backends.shared.nodefaults import OnlyCutsKillsAndPauses
from splitbrain.harness.contract.capabilities import Capabilities
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.deployments import Deployment, MessageConnection, Surroundings
from splitbrain.harness.contract.faults import FaultKind, Support
from splitbrain.harness.contract.nodes import Link, NodeCommand, NodeId, NodePlace, NodeStatus, NodeView
from splitbrain.harness.contract.sessions import Answer, DefiniteError, Session
from splitbrain.harness.contract.test import Nemesis, NemesisContext, NemesisPackage, Test, Workload
from splitbrain.harness.generators import Generator, each, invoke
from splitbrain.results.history import HARNESS, Op

NODES = ("n1", "n2", "n3")


class MemoryRecorder:
    """A history in a list."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.flushes = 0
        self.closed = False

    def record(self, op: Op) -> None:
        self.ops.append(op)

    def flush(self) -> None:
        self.flushes += 1

    def close(self) -> None:
        self.closed = True

    def notes(self, f: str) -> list[Any]:
        """Values of the harness's own ops of one kind."""
        return [op.value for op in self.ops if op.process == HARNESS and op.f == f]

    def of(self, process: int) -> list[Op]:
        """The ops of one process."""
        return [op for op in self.ops if op.process == process]

    def clients(self) -> list[Op]:
        """Client ops."""
        return [op for op in self.ops if op.process >= 0]


class MemorySession:
    """One register for the whole system."""

    def __init__(self, system: MemorySystem) -> None:
        self._system = system

    async def read(self, key: str) -> Answer:
        return Answer(self._system.registers.get(key))

    async def write(self, key: str, value: Any) -> Answer:
        self._system.registers[key] = value
        return Answer()

    async def compare_and_set(self, key: str, expected: Any, value: Any) -> Answer:
        if self._system.registers.get(key) != expected:
            return Answer(False)
        self._system.registers[key] = value
        return Answer(True)

    async def create(self, key: str, value: Any) -> Answer:
        if key in self._system.registers:
            return Answer(False)
        self._system.registers[key] = value
        return Answer(True)

    async def add(self, collection: str, element: int) -> Answer:
        self._system.registers.setdefault(collection, []).append(element)
        return Answer()

    async def elements(self, collection: str) -> Answer:
        return Answer(list(self._system.registers.get(collection, [])))

    async def close(self) -> None:
        return


class MemorySystem:
    """A system that is one dictionary; `leaders` says whom each node follows."""

    name = "memory"
    bugs: Mapping[str, str] = {}
    election_timeout_s = 0.1

    def __init__(self) -> None:
        self.capabilities = Capabilities(operations=frozenset({"key-value", "collections"}))
        self.registers: dict[str, Any] = {}
        self.leaders: dict[NodeId, NodeId | None] = {}

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        return NodeCommand(("memory", place.node))

    async def connect(self, deployment: Deployment, node: NodeId) -> Session:
        if (await deployment.status(node)).state != "running":
            raise DefiniteError("connection refused")
        return MemorySession(self)

    async def view(self, deployment: Deployment, node: NodeId) -> NodeView | None:
        return NodeView(node, "follower", 1, self.leaders.get(node, "n1"))

    def telemetry(self, test: Test, node_dir: Path) -> Path | None:
        return None


class MemoryDeployment(OnlyCutsKillsAndPauses):
    """Nodes that are a state each."""

    surroundings = Surroundings()

    def __init__(self, nodes: Sequence[NodeId] = NODES) -> None:
        self.nodes = nodes
        self.states: dict[NodeId, NodeStatus] = {node: NodeStatus("running", 1) for node in nodes}
        self.links: frozenset[Link] = frozenset()
        self.closed = 0

    def _set(self, node: NodeId, status: NodeStatus) -> NodeStatus:
        self.states[node] = status
        return status

    async def start(self, node: NodeId) -> NodeStatus:
        return self._set(node, NodeStatus("running", self.states[node].life + 1))

    async def kill(self, node: NodeId) -> NodeStatus:
        return self._set(node, NodeStatus("stopped", self.states[node].life))

    async def pause(self, node: NodeId) -> NodeStatus:
        return self._set(node, NodeStatus("paused", self.states[node].life))

    async def resume(self, node: NodeId) -> NodeStatus:
        return self._set(node, NodeStatus("running", self.states[node].life))

    async def status(self, node: NodeId) -> NodeStatus:
        return self.states[node]

    async def cut(self, links: frozenset[Link]) -> None:
        self.links = links

    async def passes(self, links: Sequence[Link]) -> Mapping[Link, bool]:
        return {link: link not in self.links for link in links}

    async def dropped(self) -> Mapping[Link, int]:
        return dict.fromkeys(sorted(self.links), 1)

    async def dial(self, node: NodeId, behind: int = 0) -> MessageConnection:
        raise DefiniteError("nobody listens in memory")

    async def close(self) -> None:
        self.closed += 1


class MemoryBackend:
    """A place in memory."""

    name = "memory"

    def __init__(self, deployment: MemoryDeployment, works: bool = True) -> None:
        self.deployment = deployment
        self.works = works
        self.swept = 0

    def support(self) -> Mapping[str, Support]:
        return dict.fromkeys(get_args(FaultKind), Support(self.works, "memory has no network"))

    def check(self, test: Test) -> None:
        pass

    def sweep(self) -> list[str]:
        self.swept += 1
        return []

    async def deploy(self, test: Test, run_dir: Path, runtime: Runtime) -> Deployment:
        return self.deployment


Invoke = Callable[[Op], Awaitable[Op]]


async def answer_ok(op: Op) -> Op:
    """Every op works at once."""
    return op.complete("ok", op.value)


class FakeClient:
    """A client that does what a function says; the prototype counts what becomes of its clients."""

    def __init__(self, invoke: Invoke = answer_ok, *, node: NodeId = "", parent: FakeClient | None = None) -> None:
        self._invoke = invoke
        self.node = node
        self.parent = parent
        self.opened: list[FakeClient] = []
        self.closes = 0
        self.setups = 0

    async def open(self, test: Test, deployment: Deployment, node: NodeId) -> FakeClient:
        if (await deployment.status(node)).state == "stopped":
            raise DefiniteError("connection refused")
        client = FakeClient(self._invoke, node=node, parent=self)
        self.opened.append(client)
        return client

    async def setup(self, test: Test) -> None:
        self.setups += 1
        if self.parent is not None:
            self.parent.setups += 1

    async def invoke(self, test: Test, op: Op) -> Op:
        return await self._invoke(op)

    async def close(self) -> None:
        self.closes += 1


class FakeNemesis:
    """Kills and starts one node."""

    fs = frozenset({"kill", "start"})
    faults: frozenset[FaultKind] = frozenset({"kill"})

    def __init__(self, node: NodeId = "n2") -> None:
        self.node = node
        self.heals = 0

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        if op.f == "kill":
            await context.deployment.kill(self.node)
        else:
            await context.deployment.start(self.node)
        action = "start" if op.f == "kill" else "stop"
        down = [self.node] if op.f == "kill" else []
        told = {"fault": "kill", "action": action, "target": self.node, "cut": [], "down": down, "paused": []}
        return op.complete("ok", told)

    async def heal(self, context: NemesisContext) -> None:
        self.heals += 1
        await context.deployment.start(self.node)


READ = each(lambda ctx: invoke("read"))


def make_test(
    client: Any,
    *,
    generator: Generator = READ,
    final: Generator | None = None,
    nemesis: Nemesis | None = None,
    faults: Generator | None = None,
    heal: Generator | None = None,
    **options: Any,
) -> Test:
    """A test in memory; short unless told otherwise."""
    values: dict[str, Any] = {
        "name": "memory",
        "seed": 1,
        "nodes": NODES,
        "system": MemorySystem(),
        "concurrency": 3,
        "rate": 200.0,
        "time_limit_s": 0.2,
        "op_timeout_s": 0.5,
        "recovery_s": 1.0,
        "workload": Workload(
            name="w",
            client=client,
            generator=generator,
            final_generator=final,
            checkers=(),
            fs=("read", "write", "cas", "last", "block", "refused", "unclear", "surprise", "fine"),
        ),
        "nemesis": NemesisPackage(
            name="none" if nemesis is None else "kill",
            nemesis=nemesis,
            generator=faults,
            final_generator=heal,
            faults=frozenset() if nemesis is None else nemesis.faults,
        ),
    }
    return Test(**{**values, **options})


async def never(op: Op) -> Op:
    """An answer that never comes."""
    await asyncio.get_running_loop().create_future()
    return op

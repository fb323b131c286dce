"""A deployment of nodes that do and report what a client asks of them, whichever backend they live on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from splitbrain.harness.contract.capabilities import Capabilities
from splitbrain.harness.contract.deployments import Deployment, MessageConnection
from splitbrain.harness.contract.embedding import NodeWorld
from splitbrain.harness.contract.nodes import Link, NodeCommand, NodeId, NodePlace
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.harness.contract.test import Test
from tests.backends.conformance.sim_node import SimNode

PROGRAM: Final = Path(__file__).with_name("node.py").read_text()
ANSWERS_WITHIN_S: Final = 30.0


class ConformanceSystem:
    """Nodes that do what a client asks them; in a simulation they are `SimNode`s.

    Attributes:
        programs: what runs instead on some nodes; `{data}`, `{host}` and `{port}` stand for where the node lives.
        files: what is laid into the data directories of some nodes.
    """

    name = "conformance"

    def __init__(self, python: str = "python3") -> None:
        self.capabilities = Capabilities(image="node", simulation=self)
        self.python = python
        self.programs: dict[NodeId, tuple[str, ...]] = {}
        self.files: dict[NodeId, Mapping[str, bytes]] = {}

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        peers = [f"{peer}={host}:{port}" for peer, (host, port) in place.peers.items()]
        host, port = place.listen
        argv = (self.python, "-S", "-E", "-c", PROGRAM, place.node, host, str(port), place.data_dir, *peers)
        if place.node in self.programs:
            there = {"{data}": place.data_dir, "{host}": host, "{port}": str(port), "{python}": self.python}
            argv = tuple(_filled(word, there) for word in self.programs[place.node])
        return NodeCommand(argv, files=self.files.get(place.node, {}))

    def telemetry(self, test: Test, node_dir: Path) -> Path | None:
        return node_dir / "data" / "telemetry.jsonl"

    async def embed(self, command: NodeCommand, world: NodeWorld) -> None:
        await SimNode(command, world).start()


def _filled(word: str, there: Mapping[str, str]) -> str:
    for name, value in there.items():
        word = word.replace(name, value)
    return word


@dataclass(frozen=True)
class Seen:
    """What the evidence of a backend has beside what all backends say.

    Attributes:
        killed: of a node that was killed.
        paused: of a node that is paused.
        pids: whose pids are in it: "node" (as the node itself sees it), "machine" (as this machine sees it), or "".
        refuses_programs: whether a program that is not there is refused before it counts as a life of the node.
    """

    killed: Mapping[str, Any]
    paused: Mapping[str, Any]
    pids: str = ""
    refuses_programs: bool = True


class Nodes:
    """A deployment of three nodes, and the true time.

    Attributes:
        deployment: of the nodes.
        system: what runs on them.
        packets: whether their links carry packets; else they carry what streams and connections carry.
        seen: what the evidence of their backend has.
    """

    def __init__(
        self,
        deployment: Deployment,
        system: ConformanceSystem,
        seen: Seen,
        *,
        packets: bool,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self.deployment = deployment
        self.system = system
        self.seen = seen
        self.packets = packets
        self.wall_s = wall_s

    @property
    def links(self) -> list[Link]:
        """All of them, sorted."""
        names = self.deployment.nodes
        return sorted((source, to) for source in names for to in names if source != to)

    async def ask(self, node: NodeId, do: str, **rest: Any) -> Any:
        """Let a node do something; its answer."""
        async with asyncio.timeout(ANSWERS_WITHIN_S):
            with await self.line(node) as line:
                line.send({"do": do, **rest})
                return await line.answer()

    async def line(self, node: NodeId) -> Line:
        """A connection to a node, as soon as it takes one."""
        while True:
            with contextlib.suppress(DefiniteError):
                return Line(await self.deployment.dial(node))
            status = await self.deployment.status(node)
            assert status.state != "stopped", f"{node} has ended: {status.evidence}"
            await asyncio.sleep(0.05)

    async def tidy(self) -> None:
        """Let all nodes run their own program with nothing wrong."""
        await self.deployment.cut(frozenset())
        await self.deployment.disturb({})
        for node in self.deployment.nodes:
            if node in self.system.programs or node in self.system.files:
                await self.restore(node)
            await self.deployment.resume(node)
            await self.deployment.throttle(node, None)
            await self.deployment.spoil(node, None)
            await self.deployment.skew(node, None)
            await self.deployment.start(node)

    async def restore(self, node: NodeId) -> None:
        """Let a node run its own program again."""
        await self.deployment.kill(node)
        self.system.programs.pop(node, None)
        self.system.files.pop(node, None)
        await self.deployment.start(node)


class Line:
    """A client's connection to a node."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def send(self, asked: dict[str, Any]) -> None:
        self._connection.send(json.dumps(asked).encode() + b"\n")

    async def answer(self) -> Any:
        if hasattr(self._connection, "receive"):
            return json.loads(await cast(MessageConnection, self._connection).receive())
        received = b""
        while not received.endswith(b"\n"):
            piece = await asyncio.get_running_loop().sock_recv(self._connection, 65536)
            assert piece, "the node closed the connection"
            received += piece
        return json.loads(received)

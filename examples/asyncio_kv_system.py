"""The server of `asyncio_kv` as a system under test: on real backends by its command line, in simulation by its main.

splitbrain hunt --system examples.asyncio_kv_system:System --workload register
splitbrain hunt --system examples.asyncio_kv_system:WriteBack --runs 300
splitbrain run --system examples.asyncio_kv_system:System --nemesis kill
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from examples.asyncio_kv import main
from splitbrain import (
    Answer,
    Capabilities,
    DefiniteError,
    Deployment,
    IndefiniteError,
    NodeCommand,
    NodePlace,
    NodeView,
    Program,
    Test,
    open_streams,
)

ROOT = str(Path(__file__).resolve().parents[1])
"""Where a node's interpreter finds the server."""


class KVSession:
    """A connection to one node: a request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def _ask(self, do: str, **arguments: Any) -> Any:
        self._writer.write(json.dumps({"id": 0, "do": do, **arguments}).encode() + b"\n")
        line = await self._reader.readline()
        if not line:
            raise IndefiniteError("the node closed the connection")
        answer = json.loads(line)
        if "error" in answer:
            raise (DefiniteError if do == "read" else IndefiniteError)(answer["error"])
        return answer

    async def read(self, key: str) -> Answer:
        """The value of a key."""
        return Answer((await self._ask("read", key=key))["value"])

    async def write(self, key: str, value: Any) -> Answer:
        """Set a key."""
        return Answer((await self._ask("write", key=key, value=value))["value"])

    async def compare_and_set(self, key: str, expected: Any, value: Any) -> Answer:
        """Set a key if it holds `expected`; whether it did."""
        return Answer((await self._ask("cas", key=key, expected=expected, value=value))["value"])

    async def create(self, key: str, value: Any) -> Answer:
        """Set a key if it does not exist; whether this call did."""
        return Answer((await self._ask("create", key=key, value=value))["value"])

    async def add(self, collection: str, element: int) -> Answer:
        """Put an element into a collection."""
        return Answer((await self._ask("add", key=f"set {collection}", value=element))["value"])

    async def elements(self, collection: str) -> Answer:
        """All elements of a collection."""
        return Answer((await self._ask("read", key=f"set {collection}"))["value"] or [])

    async def nodes(self) -> list[str]:
        """The names of all nodes, as the node knows them."""
        return (await self._ask("status"))["nodes"]

    async def close(self) -> None:
        """Drop the connection."""
        self._writer.close()


class System:
    """The server as it is."""

    name = "asyncio-kv"
    bugs: Mapping[str, str] = {}
    election_timeout_s = 1.0
    capabilities = Capabilities(operations=frozenset({"key-value", "collections"}), simulation=Program(main))
    arguments: tuple[str, ...] = ()

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        """How to start a node."""
        argv = [sys.executable, "-m", "examples.asyncio_kv", "--node", place.node, "--data", place.data_dir]
        argv += ["--listen", "{}:{}".format(*place.listen), *self.arguments]
        for peer, (host, port) in place.peers.items():
            argv += ["--peer", f"{peer}={host}:{port}"]
        return NodeCommand(tuple(argv), env={"PYTHONPATH": ROOT})

    async def connect(self, deployment: Deployment, node: str) -> KVSession:
        """A session with one node."""
        return KVSession(*await open_streams(deployment, node))

    async def view(self, deployment: Deployment, node: str) -> NodeView | None:
        """That the node answers. No node leads; the first is named, so that all agree on one."""
        try:
            async with asyncio.timeout(0.5):
                session = await self.connect(deployment, node)
                try:
                    nodes = await session.nodes()
                finally:
                    await session.close()
        except (DefiniteError, IndefiniteError, OSError):
            return None
        return NodeView(node, "peer", 0, nodes[0])

    def telemetry(self, test: Test, node_dir: Path) -> Path | None:
        """Nodes write none."""
        return None


class WriteBack(System):
    """The server with reads that are right."""

    name = "asyncio-kv-write-back"
    arguments = ("--write-back",)

"""A system: how a node is started, how clients talk to it, and that the simulation can run it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

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
from splitbrain.harness.campaigns.starters.server import main

MODULE = "splitbrain.harness.campaigns.starters.server"
FOLDER = str(Path(__file__).resolve().parents[MODULE.count(".")])
"""Where the interpreter of a node finds the module."""


class StarterSession:
    """A connection of one client to one node, with the operations of the group "key-value"."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def _ask(self, do: str, key: str, **arguments: Any) -> Answer:
        self._writer.write(json.dumps({"do": do, "key": key, **arguments}).encode() + b"\n")
        line = await self._reader.readline()
        answer = json.loads(line) if line else {"error": "the node closed the connection"}
        if "error" in answer:  # a read that failed changed nothing; a write may have happened
            raise (DefiniteError if do == "read" else IndefiniteError)(answer["error"])
        return Answer(answer["value"])

    async def read(self, key: str) -> Answer:
        """The value of a key, None if there is none."""
        return await self._ask("read", key)

    async def write(self, key: str, value: Any) -> Answer:
        """Set a key."""
        return await self._ask("write", key, value=value)

    async def compare_and_set(self, key: str, expected: Any, value: Any) -> Answer:
        """Set a key if it holds `expected`; whether it did."""
        return await self._ask("cas", key, expected=expected, value=value)

    async def create(self, key: str, value: Any) -> Answer:
        """Set a key if it does not exist; whether this call did."""
        return await self._ask("create", key, value=value)

    async def close(self) -> None:
        """Drop the connection."""
        self._writer.close()


class Starter:
    """The server of `server.py`."""

    name = "starter"
    bugs: dict[str, str] = {}  # noqa: RUF012 - nothing changes it
    election_timeout_s = 1.0
    capabilities = Capabilities(operations=frozenset({"key-value"}), simulation=Program(main))

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        """How to start a node; the simulation calls `main` with what follows the module."""
        argv = [sys.executable, "-m", MODULE, "--node", place.node, "--data", place.data_dir]
        argv += ["--listen", "{}:{}".format(*place.listen)]
        for peer, (host, port) in place.peers.items():
            argv += ["--peer", f"{peer}={host}:{port}"]
        return NodeCommand(tuple(argv), env={"PYTHONPATH": FOLDER})

    async def connect(self, deployment: Deployment, node: str) -> StarterSession:
        """A session with one node; DefiniteError if it cannot be reached."""
        return StarterSession(*await open_streams(deployment, node))

    async def view(self, deployment: Deployment, node: str) -> NodeView | None:
        """What a node says of itself, None if it does not answer within half a second. The first node leads."""
        try:
            async with asyncio.timeout(0.5):
                session = await self.connect(deployment, node)
                try:
                    await session.read("")
                finally:
                    await session.close()
        except (DefiniteError, IndefiniteError, OSError):
            return None
        first = min(deployment.nodes)
        return NodeView(node, "leader" if node == first else "follower", 0, first)

    def telemetry(self, test: Test, node_dir: Path) -> Path | None:
        """The file to which a node writes telemetry; None, as these write none."""
        return None

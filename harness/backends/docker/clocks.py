"""Wrong clocks for nodes in containers: libfaketime of the node's own image, told by a file that is bound into it.

What a node sees is measured in the container that keeps its network, which is of the same image and has the same file.
"""

from __future__ import annotations

import asyncio
import contextlib
import glob
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.backends import faketime
from harness.backends.docker.engine import Engine
from harness.backends.docker.nodes import Node
from harness.protocols import ClockFault, NodeCommand, NodeId
from results.errors import BackendError

CLOCK_DIR = "/splitbrain.clock"
"""Where a container finds the directory with the file of its clock."""
_FILE = "clock"
_LAUNCH = """
import json, os, sys, time
variables = {**os.environ, **json.loads(sys.argv[1])}
print(time.monotonic_ns(), flush=True)
os.execvpe(sys.argv[2], sys.argv[2:], variables)
"""
"""Becomes the probe, and says when: the engine takes much longer to begin a process than a clock may be wrong by."""
_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


class Clocks:
    """The clocks of the nodes of a deployment. Their keepers must run, with `CLOCK_DIR` bound into them.

    Args:
        engine: the engine.
        folders: the directory on this machine that is bound into each node's containers as `CLOCK_DIR`.
    """

    def __init__(self, engine: Engine, folders: Mapping[NodeId, Path]) -> None:
        self._engine = engine
        self._clocks = {node: faketime.FakeClock(folder / _FILE) for node, folder in folders.items()}
        self._strobes: dict[NodeId, asyncio.Task[None]] = {}
        self._jumps: dict[NodeId, int] = {}
        self._libraries: dict[NodeId, str] = {}

    def prepare(self, node: Node, command: NodeCommand) -> Mapping[str, str]:
        """To be called right before a node starts: the environment that it needs.

        Raises:
            FaultNotSupportedError: libfaketime does not reach its program.
            BackendError: the image has no libfaketime, or not the program.
        """
        root = _root(node)
        faketime.require_reach(command.argv[0], ":".join(f"{root}{folder}" for folder in _PATH))
        self._clocks[node.name].process_begins()
        return faketime.environment(self._library(node), f"{CLOCK_DIR}/{_FILE}")

    async def skew(self, node: Node, fault: ClockFault | None) -> dict[str, Any]:
        """Give a node's clock this fault, or none; what it showed before and shows now, and of a strobe its "jumps".

        A clock that jumps to and fro is ahead when it is measured.

        Raises:
            BackendError: it could not be measured.
        """
        clock = self._clocks[node.name]
        jumps = await self._end_strobe(node.name)
        before = await self._measured(node)
        fault = fault or ClockFault()
        clock.set(fault.offset_ms, fault.drift_ppm)
        after = await self._measured(node)
        if fault.strobe_ms:
            self._jumps[node.name] = 0
            self._strobes[node.name] = asyncio.get_running_loop().create_task(self._strobe(node.name, fault))
        return {**faketime.evidence(before, after), **jumps}

    async def close(self) -> None:
        """Let no clock jump any more."""
        for node in list(self._strobes):
            await self._end_strobe(node)

    async def _strobe(self, node: NodeId, fault: ClockFault) -> None:
        ahead = True
        while True:
            await asyncio.sleep(fault.strobe_ms / 1000)
            ahead = not ahead
            self._clocks[node].set(fault.offset_ms if ahead else 0.0, fault.drift_ppm)
            self._jumps[node] += 1

    async def _end_strobe(self, node: NodeId) -> dict[str, int]:
        task = self._strobes.pop(node, None)
        if task is None:
            return {}
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return {"jumps": self._jumps.pop(node)}

    async def _measured(self, node: Node) -> faketime.Measured:
        variables = faketime.environment(self._library(node), f"{CLOCK_DIR}/{_FILE}")
        probe = faketime.probe_command("python3")
        launch = ["python3", "-I", "-S", "-c", _LAUNCH, json.dumps(dict(variables)), *probe]
        printed = await self._engine.execute(node.keeper, launch)
        try:
            began, answer = printed.split("\n", 1)
            return self._clocks[node.name].measured(answer, int(began) / 1e9)
        except ValueError:
            raise BackendError(
                f"the clock of {node.name} could not be measured: python3 in its image said {printed[-300:]!r}."
            ) from None

    def _library(self, node: Node) -> str:
        """Where libfaketime is in the node's image."""
        if node.name not in self._libraries:
            root = _root(node)
            found = [path for pattern in faketime.LIBRARY_PLACES for path in sorted(glob.glob(f"{root}{pattern}"))]
            if not found:
                raise BackendError(
                    f"the image of {node.name} has no libfaketime: add it to its Dockerfile, or leave clocks out of "
                    "--nemesis."
                )
            self._libraries[node.name] = found[0].removeprefix(root)
        return self._libraries[node.name]


def _root(node: Node) -> str:
    """The root directory of a node's image, seen from this machine."""
    return f"/proc/{node.keeper_pid}/root"

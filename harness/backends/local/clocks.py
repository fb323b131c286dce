"""Wrong clocks of nodes that run on this machine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.backends import faketime
from harness.backends.faketime import FakeClock, Measured
from harness.protocols import ClockFault, NodeId
from results.errors import BackendError


class Clocks:
    """The clocks of nodes that are started with libfaketime.

    Args:
        files: for every node the file that says what its clock shows.

    Raises:
        BackendError: libfaketime is not installed.
    """

    def __init__(self, files: Mapping[NodeId, Path]) -> None:
        library = faketime.find_library()
        if library is None:
            raise BackendError(f"clocks cannot be faked: {faketime.INSTALL}.")
        self._library = library
        self._files = files
        self._clocks = {node: FakeClock(file) for node, file in files.items()}
        self._strobes: dict[NodeId, asyncio.Task[None]] = {}
        self._jumps: dict[NodeId, int] = {}

    def environment(self, node: NodeId) -> Mapping[str, str]:
        """What to start the node with."""
        return faketime.environment(self._library, str(self._files[node]))

    def begins(self, node: NodeId) -> None:
        """To be called right before the node's process begins."""
        self._clocks[node].process_begins()

    async def skew(self, node: NodeId, fault: ClockFault | None) -> dict[str, Any]:
        """Give the node's clock this fault, or none; as measured before and after, and of a strobe its "jumps".

        Raises:
            BackendError: the clock could not be measured.
        """
        jumps = await self._end_strobe(node)
        before = await self._measure(node)
        fault = fault or ClockFault()
        self._clocks[node].set(fault.offset_ms, fault.drift_ppm)
        after = await self._measure(node)
        if fault.strobe_ms:
            self._jumps[node] = 0
            self._strobes[node] = asyncio.get_running_loop().create_task(self._strobe(node, fault))
        return {**faketime.evidence(before, after), **jumps}

    async def close(self) -> None:
        """Leave no task and no file."""
        for node, file in self._files.items():
            await self._end_strobe(node)
            file.unlink(missing_ok=True)

    async def _measure(self, node: NodeId) -> Measured:
        return await asyncio.to_thread(faketime.measure, self._clocks[node], self._library, str(self._files[node]))

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

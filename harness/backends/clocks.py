"""The wrong clock of a node, wherever the node lives: a jump, a drift or a strobe, measured before and after."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from splitbrain.harness.backends import faketime
from splitbrain.harness.backends.faketime import FakeClock, Measured
from splitbrain.harness.contract import faultkinds
from splitbrain.harness.contract.faults import ClockFault
from splitbrain.harness.contract.test import Test


def needed(test: Test) -> bool:
    """Whether the test's nemesis needs clocks that can be wrong."""
    return any(kind in faultkinds.CLOCK_KINDS for kind in test.nemesis.faults)


class NodeClock:
    """The clock of one node, which runs with libfaketime.

    Args:
        file: says what the clock shows; made here.
        variables: what the node is started with, so that its library reads that file, or a copy of it.
        measured: looks at the clock as a process sees it that is like the node; it may raise a BackendError.
        sent: called whenever the file has changed, where the node reads a copy.
    """

    def __init__(
        self,
        file: Path,
        variables: Mapping[str, str],
        measured: Callable[[FakeClock], Awaitable[Measured]],
        sent: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._file = file
        self._clock = FakeClock(file)
        self._variables = variables
        self._measured = measured
        self._sent = sent
        self._strobe_task: asyncio.Task[None] | None = None
        self._jumps = 0

    async def begins(self) -> Mapping[str, str]:
        """To be called right before the node's process begins: what to start it with."""
        self._clock.process_begins()
        await self._send()
        return self._variables

    async def skew(self, fault: ClockFault | None) -> dict[str, Any]:
        """Give the clock this fault, or none; as measured before and after, and of a strobe its "jumps".

        A strobing clock is ahead when it is measured.

        Raises:
            BackendError: the clock could not be measured.
        """
        jumps = await self._end_strobe()
        before = await self._measured(self._clock)
        fault = fault or ClockFault()
        await self._set(fault.offset_ms, fault.drift_ppm)
        after = await self._measured(self._clock)
        if fault.strobe_ms:
            self._jumps = 0
            self._strobe_task = asyncio.get_running_loop().create_task(self._strobe(fault))
        return {**faketime.evidence(before, after), **jumps}

    async def close(self) -> None:
        """Leave no task and no file; the node has ended."""
        await self._end_strobe()
        self._file.unlink(missing_ok=True)

    async def _set(self, offset_ms: float, drift_ppm: float) -> None:
        self._clock.set(offset_ms, drift_ppm)
        await self._send()

    async def _send(self) -> None:
        if self._sent is not None:
            await self._sent()

    async def _strobe(self, fault: ClockFault) -> None:
        ahead = True
        while True:
            await asyncio.sleep(fault.strobe_ms / 1000)
            ahead = not ahead
            await self._set(fault.offset_ms if ahead else 0.0, fault.drift_ppm)
            self._jumps += 1

    async def _end_strobe(self) -> dict[str, int]:
        task, self._strobe_task = self._strobe_task, None
        if task is None:
            return {}
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return {"jumps": self._jumps}

"""The runtime of a real run: the machine's monotonic clock, asyncio's timers, streams from the root seed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.rng import Streams


def wall_offset_ns() -> int:
    """How much CLOCK_REALTIME is ahead of CLOCK_MONOTONIC, in nanoseconds.

    It is read several times, and the quickest reading counts: between the two clocks the scheduler may stop a process.
    """
    readings: list[tuple[int, int]] = []
    for _ in range(20):
        before, wall, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        readings.append((after - before, wall - (before + after) // 2))
    return min(readings)[1]


class RealClock:
    """CLOCK_MONOTONIC, and the wall clock at the moment of construction for those who must relate the two."""

    def __init__(self) -> None:
        self._wall_offset_ns = wall_offset_ns()

    def now_ns(self) -> int:
        """Nanoseconds since an arbitrary start; never goes back."""
        return time.monotonic_ns()

    async def sleep_ns(self, duration_ns: int) -> None:
        """Suspend the calling task; the event loop rounds up to whole milliseconds."""
        await asyncio.sleep(duration_ns / 1e9)

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Run `callback` after `delay_ns`; the event loop rounds up to whole milliseconds."""
        return asyncio.get_running_loop().call_later(delay_ns / 1e9, callback)

    def wall_ns(self, now_ns: int) -> int:
        """The Unix time, in nanoseconds, of a time that `now_ns` gave. Later steps of the wall clock do not count."""
        return now_ns + self._wall_offset_ns


def real_runtime(seed: int) -> Runtime:
    """The runtime for a run on real nodes."""
    return Runtime(clock=RealClock(), streams=Streams(seed))

"""A clock for tests that jumps from one sleeper to the next: claims about time hold on a busy machine too."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable
from typing import TypeVar

from splitbrain.harness.contract.clock import Timer
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.simulation.clock import TrueClock
from splitbrain.harness.simulation.loop import SimLoop

T = TypeVar("T")


def in_virtual_time(story: Callable[[TrueClock], Awaitable[T]]) -> T:
    """Run a coroutine on a loop whose time, asyncio's too, passes only while every task waits."""
    loop = SimLoop(Rng(1))

    async def main() -> T:
        return await story(TrueClock(loop))

    result = loop.run(main())
    assert loop.unhandled == []
    return result


ROUNDS = 30
"""Rounds of the event loop in which everything that is ready has run; the longest chain of wake-ups is shorter."""


class VirtualClock:
    """Time that stands still while anything can run, then jumps to the next sleeper."""

    def __init__(self) -> None:
        self._now_ns = 0
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._slept = 0

    def now_ns(self) -> int:
        return self._now_ns

    async def sleep_ns(self, duration_ns: int) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._slept += 1
        heapq.heappush(self._sleepers, (self._now_ns + duration_ns, self._slept, waiter))
        await waiter

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> Timer:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter.add_done_callback(lambda _: None if waiter.cancelled() else callback())
        self._slept += 1
        heapq.heappush(self._sleepers, (self._now_ns + delay_ns, self._slept, waiter))
        return waiter

    async def advance(self) -> None:
        while True:
            for _ in range(ROUNDS):
                await asyncio.sleep(0)
            while self._sleepers and self._sleepers[0][2].done():
                heapq.heappop(self._sleepers)
            if self._sleepers:
                self._now_ns, _, waiter = heapq.heappop(self._sleepers)
                waiter.set_result(None)

"""Waiting with a deadline, on a given clock.

`asyncio.wait_for`, `timeout` and `gather` either read the loop's own clock or differ between Python versions in the
callbacks that they schedule, and a simulated run must not depend on either. These equivalents are plain futures and
tasks, started and cancelled in a fixed order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from splitbrain.harness.contract.clock import Clock, Timer

T = TypeVar("T")


async def within(clock: Clock, timeout_s: float, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work` if it comes within `timeout_s`; else `work` is cancelled and waited for.

    Work that swallows its cancellation is left alone after as long again: nothing may hold up the end of a run.

    Raises:
        TimeoutError: it did not come in time.
    """
    task = asyncio.ensure_future(work)
    try:
        if not await _done_within(clock, timeout_s, task):
            task.cancel()
            await _done_within(clock, timeout_s, task)
            raise TimeoutError(f"no answer within {timeout_s:g} s")
    except asyncio.CancelledError:
        task.cancel()
        raise
    return task.result()


async def _done_within(clock: Clock, timeout_s: float, task: asyncio.Future[Any]) -> bool:
    """Whether the task ended, with or without an error, within the time."""
    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(_: asyncio.Future[Any]) -> None:
        if not waiter.done():
            waiter.set_result(None)

    timer = asyncio.ensure_future(clock.sleep_ns(max(0, round(timeout_s * 1e9))))
    task.add_done_callback(wake)
    timer.add_done_callback(wake)
    try:
        await waiter
    finally:
        timer.cancel()
        task.remove_done_callback(wake)
    if task.done() and not task.cancelled():
        task.exception()  # a late failure of cancelled work is of no interest, and not to be complained about
    return task.done()


async def finished(clock: Clock, timeout_s: float, tasks: Sequence[asyncio.Task[Any]]) -> bool:
    """Whether all these tasks ended within the time; those that did not are cancelled, and not waited for."""
    end_ns = clock.now_ns() + round(timeout_s * 1e9)
    for task in tasks:
        if not task.done():
            await _done_within(clock, (end_ns - clock.now_ns()) / 1e9, task)
    late = [task for task in tasks if not task.done()]
    for task in late:
        task.cancel()
    return not late


async def together(works: Sequence[Coroutine[Any, Any, T]]) -> list[T | Exception]:
    """All of them at once; their results or exceptions, in their order."""
    tasks = [asyncio.ensure_future(work) for work in works]
    results: list[T | Exception] = []
    try:
        for task in tasks:
            try:
                results.append(await task)
            except Exception as error:
                results.append(error)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        raise
    return results


class Alarm:
    """Wakes one waiting task: when it is rung, or at a deadline. A ring without a waiting task is not lost."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiter: asyncio.Future[None] | None = None
        self._rung = False
        self._timer: Timer | None = None
        self._set_to_ns = 0

    def ring(self) -> None:
        """Wake the waiting task, or let the next wait return at once."""
        self._rung = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, until_ns: int | None) -> None:
        """Until `ring`, or until the clock shows `until_ns`; may also wake earlier, for nothing."""
        if not self._rung:
            if until_ns is not None:
                self._set(until_ns)
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        self._rung = False

    def close(self) -> None:
        """Forget the time that was set."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, until_ns: int) -> None:
        if self._timer is not None:
            if self._set_to_ns <= until_ns:
                return
            self._timer.cancel()
        self._set_to_ns = until_ns
        # Behind what is ready already: ops that were just started come first.
        self._timer = asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._timer = self._clock.call_later(max(0, self._set_to_ns - self._clock.now_ns()), self._run_out)

    def _run_out(self) -> None:
        self._timer = None
        self.ring()

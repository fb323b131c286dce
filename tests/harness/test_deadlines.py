"""Bounded waiting on a clock that is handed in."""

from __future__ import annotations

import asyncio
import time

import pytest

from harness.deadlines import Alarm, finished, together, within
from harness.realtime import RealClock

CLOCK = RealClock()


async def after(seconds: float, value: object = None) -> object:
    await asyncio.sleep(seconds)
    if isinstance(value, Exception):
        raise value
    return value


def test_within_returns_results_and_raises_errors_of_work_that_is_in_time() -> None:
    assert asyncio.run(within(CLOCK, 5, after(0.01, "done"))) == "done"
    with pytest.raises(KeyError):
        asyncio.run(within(CLOCK, 5, after(0.01, KeyError("x"))))


def test_within_cancels_work_that_is_late_and_waits_for_its_cleaning_up() -> None:
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            seen.append("cleaned up")

    with pytest.raises(TimeoutError, match=r"no answer within 0\.05 s"):
        asyncio.run(within(CLOCK, 0.05, work()))
    assert seen == ["cleaned up"]


def test_within_does_not_wait_for_work_that_ignores_its_cancellation() -> None:
    async def scenario() -> float:
        release = asyncio.Event()

        async def stubborn() -> None:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

        began = time.monotonic()
        with pytest.raises(TimeoutError):
            await within(CLOCK, 0.05, stubborn())
        waited = time.monotonic() - began
        release.set()
        return waited

    assert asyncio.run(scenario()) < 1


def test_cancelling_the_waiter_cancels_the_work() -> None:
    async def scenario() -> bool:
        cancelled = False

        async def work() -> None:
            nonlocal cancelled
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled = True
                raise

        waiter = asyncio.ensure_future(within(CLOCK, 30, work()))
        await asyncio.sleep(0.01)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        await asyncio.sleep(0.01)
        return cancelled

    assert asyncio.run(scenario())


def test_together_runs_at_once_and_keeps_the_order_and_the_errors() -> None:
    async def scenario() -> list[object]:
        return list(await together([after(0.5, 1), after(0.5, KeyError("x")), after(0.5, 3)]))

    began = time.monotonic()
    one, error, three = asyncio.run(scenario())
    assert time.monotonic() - began < 1.4
    assert (one, three) == (1, 3)
    assert isinstance(error, KeyError)


def test_finished_tells_whether_all_ended_and_cancels_the_rest() -> None:
    async def scenario() -> tuple[bool, bool, bool]:
        quick, slow = asyncio.ensure_future(after(0.01)), asyncio.ensure_future(after(60))
        first = await finished(CLOCK, 1, [quick])
        second = await finished(CLOCK, 0.05, [quick, slow])
        await asyncio.sleep(0)
        return first, second, slow.cancelled()

    assert asyncio.run(scenario()) == (True, False, True)


def test_an_alarm_wakes_when_it_rings_or_when_its_time_has_come() -> None:
    async def scenario() -> tuple[float, float, float]:
        alarm = Alarm(CLOCK)
        times: list[float] = []
        for ring, until_s in ((0.02, None), (None, 0.05), (0.02, 60.0)):
            began = time.monotonic()
            if ring is not None:
                asyncio.get_running_loop().call_later(ring, alarm.ring)
            await alarm.wait(None if until_s is None else CLOCK.now_ns() + round(until_s * 1e9))
            times.append(time.monotonic() - began)
        alarm.close()
        return times[0], times[1], times[2]

    first, second, third = asyncio.run(scenario())
    assert 0.01 < first < 0.5
    assert 0.045 < second < 0.5
    assert third < 0.5


def test_a_ring_while_nobody_waits_is_not_lost_and_an_earlier_time_replaces_a_later_one() -> None:
    async def scenario() -> None:
        alarm = Alarm(CLOCK)
        alarm.ring()
        await alarm.wait(None)
        asyncio.get_running_loop().call_later(0.01, alarm.ring)
        await alarm.wait(CLOCK.now_ns() + 60_000_000_000)
        await alarm.wait(CLOCK.now_ns() + 10_000_000)
        alarm.close()

    began = time.monotonic()
    asyncio.run(asyncio.wait_for(scenario(), 5))
    assert time.monotonic() - began < 2

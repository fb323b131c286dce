"""Bounded waiting on a clock that is handed in."""

from __future__ import annotations

import asyncio

import pytest

from splitbrain.harness.contract.clock import Clock
from splitbrain.harness.running.deadlines import Alarm, finished, together, within
from tests.harness.virtual import in_virtual_time


async def after(seconds: float, value: object = None) -> object:
    await asyncio.sleep(seconds)
    if isinstance(value, Exception):
        raise value
    return value


def test_within_returns_results_and_raises_errors_of_work_that_is_in_time() -> None:
    assert in_virtual_time(lambda clock: within(clock, 5, after(4.9, "done"))) == "done"
    with pytest.raises(KeyError):
        in_virtual_time(lambda clock: within(clock, 5, after(4.9, KeyError("x"))))


def test_within_cancels_work_that_is_late_and_waits_for_its_cleaning_up() -> None:
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            seen.append("cleaned up")

    with pytest.raises(TimeoutError, match=r"no answer within 0\.05 s"):
        in_virtual_time(lambda clock: within(clock, 0.05, work()))
    assert seen == ["cleaned up"]


def test_within_does_not_wait_for_work_that_ignores_its_cancellation() -> None:
    async def scenario(clock: Clock) -> float:
        release = asyncio.Event()

        async def stubborn() -> None:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

        began_ns = clock.now_ns()
        with pytest.raises(TimeoutError):
            await within(clock, 0.05, stubborn())
        waited_s = (clock.now_ns() - began_ns) / 1e9
        release.set()
        return waited_s

    assert in_virtual_time(scenario) < 1


def test_cancelling_the_waiter_cancels_the_work() -> None:
    async def scenario(clock: Clock) -> bool:
        cancelled = False

        async def work() -> None:
            nonlocal cancelled
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled = True
                raise

        waiter = asyncio.ensure_future(within(clock, 30, work()))
        await asyncio.sleep(0.01)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        await asyncio.sleep(0.01)
        return cancelled

    assert in_virtual_time(scenario)


def test_together_runs_at_once_and_keeps_the_order_and_the_errors() -> None:
    async def scenario(clock: Clock) -> tuple[list[object], int]:
        told = await together([after(0.5, 1), after(0.5, KeyError("x")), after(0.4, 3)])
        return list(told), clock.now_ns()

    (one, error, three), now_ns = in_virtual_time(scenario)
    assert now_ns == 500_000_000
    assert (one, three) == (1, 3)
    assert isinstance(error, KeyError)


def test_finished_tells_whether_all_ended_and_cancels_the_rest() -> None:
    async def scenario(clock: Clock) -> tuple[bool, bool, bool]:
        quick, slow = asyncio.ensure_future(after(0.01)), asyncio.ensure_future(after(60))
        first = await finished(clock, 1, [quick])
        second = await finished(clock, 0.05, [quick, slow])
        await asyncio.sleep(0)
        return first, second, slow.cancelled()

    assert in_virtual_time(scenario) == (True, False, True)


def test_an_alarm_wakes_when_it_rings_or_when_its_time_has_come() -> None:
    async def scenario(clock: Clock) -> list[int]:
        alarm = Alarm(clock)
        times: list[int] = []
        for ring, until_s in ((0.02, None), (None, 0.05), (0.02, 60.0)):
            began_ns = clock.now_ns()
            if ring is not None:
                asyncio.get_running_loop().call_later(ring, alarm.ring)
            await alarm.wait(None if until_s is None else clock.now_ns() + round(until_s * 1e9))
            times.append(clock.now_ns() - began_ns)
        alarm.close()
        return times

    assert in_virtual_time(scenario) == [20_000_000, 50_000_000, 20_000_000]


def test_a_ring_while_nobody_waits_is_not_lost_and_an_earlier_time_replaces_a_later_one() -> None:
    async def scenario(clock: Clock) -> int:
        alarm = Alarm(clock)
        alarm.ring()
        await alarm.wait(None)
        asyncio.get_running_loop().call_later(0.01, alarm.ring)
        await alarm.wait(clock.now_ns() + 60_000_000_000)
        await alarm.wait(clock.now_ns() + 10_000_000)
        alarm.close()
        return clock.now_ns()

    assert in_virtual_time(scenario) == 20_000_000

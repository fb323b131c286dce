"""Clocks of simulated nodes: drift, jumps, and timers that never go off before their time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.simulation.clock import EPOCH_NS, Oscillator, TrueClock
from splitbrain.harness.simulation.loop import SimLoop
from splitbrain.harness.simulation.process import ProcessClock, SimProcess

S = 1_000_000_000


def after(oscillator: Oscillator, loop: SimLoop, seconds: int) -> tuple[int, int]:
    """What a clock shows so many true seconds later: monotonic, and wall since the epoch."""
    loop.run(TrueClock(loop).sleep_ns(seconds * S))
    return oscillator.monotonic_ns(), oscillator.wall_ns() - EPOCH_NS


def test_a_clock_drifts_and_jumps_as_it_is_told_and_its_monotonic_side_never_jumps() -> None:
    loop = SimLoop(Rng(1))
    oscillator = Oscillator(loop, drift_ppm=1_000, offset_ns=5 * S)
    assert after(oscillator, loop, 10) == (10 * S + S // 100, 15 * S + S // 100)
    oscillator.set(-1_000, -S)
    assert after(oscillator, loop, 10) == (20 * S, 19 * S)
    oscillator.set(0, 0)
    assert after(oscillator, loop, 1) == (21 * S, 21 * S)


@given(drift_ppm=st.integers(-100_000, 100_000), delay_ns=st.integers(0, 10**10), before_ns=st.integers(0, 10**10))
def test_a_timer_goes_off_when_the_nodes_own_clock_says_so_and_never_before(
    drift_ppm: int, delay_ns: int, before_ns: int
) -> None:
    loop = SimLoop(Rng(1))
    oscillator = Oscillator(loop, drift_ppm)
    shown: list[int] = []

    async def main() -> None:
        await TrueClock(loop).sleep_ns(before_ns)
        clock = ProcessClock(loop, oscillator, SimProcess(loop, 1, lambda: None))
        began_ns = clock.monotonic_ns()
        await clock.sleep(delay_ns)
        shown.append(clock.monotonic_ns() - began_ns)

    loop.run(main())
    assert delay_ns <= shown[0] <= delay_ns + 5


def test_a_timer_that_was_set_while_the_clock_ran_slow_does_not_stay_late_once_it_is_set_right() -> None:
    loop = SimLoop(Rng(1))
    oscillator = Oscillator(loop)
    rang: list[tuple[str, int]] = []

    async def main() -> None:
        true = TrueClock(loop)
        clock = ProcessClock(loop, oscillator, SimProcess(loop, 1, lambda: None))
        oscillator.set(-500_000, 0)
        for name, seconds in (("short", 1), ("long", 10), ("cancelled", 10)):
            timer = clock.call_later(seconds * S, lambda name=name: rang.append((name, loop.now_ns)))
        await true.sleep_ns(4 * S)
        oscillator.set(0, 0)
        timer.cancel()
        await true.sleep_ns(20 * S)

    loop.run(main())
    assert [name for name, _ in rang] == ["short", "long"]
    assert [at_ns for _, at_ns in rang] == pytest.approx([2 * S, 12 * S], abs=10)


def test_a_timer_of_a_paused_process_waits_for_it_and_one_of_an_ended_process_never_comes() -> None:
    loop = SimLoop(Rng(1))
    rang: list[tuple[str, int]] = []

    async def main() -> None:
        true = TrueClock(loop)
        paused, ended = SimProcess(loop, 1, lambda: None), SimProcess(loop, 1, lambda: None)
        for name, process in (("paused", paused), ("ended", ended)):
            clock = ProcessClock(loop, Oscillator(loop), process)
            clock.call_later(S, lambda name=name: rang.append((name, loop.now_ns)))
        paused.pause()
        ended.end()
        await true.sleep_ns(3 * S)
        paused.resume()
        await true.sleep_ns(3 * S)

    loop.run(main())
    assert rang == [("paused", 3 * S)]

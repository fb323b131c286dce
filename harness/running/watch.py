"""The sweeper of a run: op deadlines, flushing of the history, and an eye on the controller itself.

One task that wakes every few milliseconds does for all ops together what a timer for each op would do, at a hundredth
of the cost. It is also the run's own pulse: when it wakes late, nothing else in this process ran on time either. Such a
stall is written into the history, because latencies, rates and time bounds across it say nothing about the system.
"""

from __future__ import annotations

from collections.abc import Callable

from splitbrain.harness.contract.clock import Clock
from splitbrain.harness.running.journal import Journal

FLUSH_NS = 250_000_000
"""How much history a crash of the controller may cost."""

STALL_NS = 200_000_000
"""From this delay on a late wake-up is recorded."""


def tick_ns(op_timeout_s: float) -> int:
    """How often to wake: a twentieth of the op timeout, between 1 and 20 ms. An op may end that much late."""
    return min(20_000_000, max(1_000_000, round(op_timeout_s * 1e9 / 20)))


async def watch(
    clock: Clock, journal: Journal, tick: int, expire: Callable[[int], None], broken: Callable[[Exception], None]
) -> None:
    """Until cancelled: call `expire` with the clock's time every `tick` nanoseconds, flush, and record stalls.

    Args:
        clock: the run's clock.
        journal: the history.
        tick: nanoseconds between two looks.
        expire: ends the ops whose deadline has passed.
        broken: called with an error (for example a full disk), which also ends the watch.
    """
    last_ns = flushed_ns = clock.now_ns()
    try:
        while True:
            await clock.sleep_ns(tick)
            now_ns = clock.now_ns()
            gap_ns = now_ns - last_ns - tick
            if gap_ns > STALL_NS:
                journal.note("stall", {"gap_ms": round(gap_ns / 1e6)})
            last_ns = now_ns
            expire(now_ns)
            if now_ns - flushed_ns >= FLUSH_NS:
                journal.flush()
                flushed_ns = now_ns
    except Exception as error:
        broken(error)

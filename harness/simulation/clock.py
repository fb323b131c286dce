"""The clock of a simulated node: it starts wrong, drifts and jumps; and the harness's own clock, which does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from splitbrain.harness.simulation.loop import SimLoop, SimTimer

EPOCH_NS: Final = 1_577_836_800_000_000_000
"""The Unix time at which every simulation begins: 2020-01-01T00:00:00Z."""

_MILLION: Final = 1_000_000


class TrueClock:
    """Virtual time itself: what the harness measures with (`Clock`)."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def now_ns(self) -> int:
        """Nanoseconds since the simulation began."""
        return self._loop.now_ns

    async def sleep_ns(self, duration_ns: int) -> None:
        """Suspend the calling task."""
        woken = self._loop.create_future()
        timer = self._loop.after(duration_ns, lambda: woken.done() or woken.set_result(None))
        try:
            await woken
        finally:
            timer.cancel()

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> SimTimer:
        """Run `callback` after `delay_ns`."""
        return self._loop.after(delay_ns, callback)


class LocalTimer:
    """A timer that goes off when a host's clock says so, also if the clock changes its rate meanwhile."""

    __slots__ = ("callback", "due_ns", "oscillator", "timer")

    def __init__(self, oscillator: Oscillator, due_ns: int, callback: Callable[[], object]) -> None:
        """`due_ns` is in the host's monotonic time."""
        self.oscillator = oscillator
        self.due_ns = due_ns
        self.callback = callback
        self.timer: SimTimer | None = None

    def cancel(self) -> None:
        """Forget it; no harm if it has run."""
        self.oscillator.forget(self)
        if self.timer is not None:
            self.timer.cancel()


class Oscillator:
    """The time of one host: its own rate, and a wall clock with an offset.

    Attributes:
        drift_ppm: how much too fast it runs, in millionths; below 0 too slow.
        offset_ns: how much the wall clock is ahead, beside the drift.
    """

    def __init__(self, loop: SimLoop, drift_ppm: int = 0, offset_ns: int = 0) -> None:
        self._loop = loop
        self._since_ns = loop.now_ns
        self._shown_ns = loop.now_ns
        self._nature_ppm = drift_ppm
        self._timers: dict[LocalTimer, None] = {}  # those that were set while a fault bends the rate
        self.drift_ppm = drift_ppm
        self.offset_ns = offset_ns

    def monotonic_ns(self) -> int:
        """Nanoseconds since an arbitrary start, as counted here."""
        if self.drift_ppm == 0:
            return self._shown_ns + self._loop.now_ns - self._since_ns
        elapsed_ns = self._loop.now_ns - self._since_ns
        return self._shown_ns + elapsed_ns + elapsed_ns * self.drift_ppm // _MILLION

    def wall_ns(self) -> int:
        """Nanoseconds since the Unix epoch, as shown here."""
        return EPOCH_NS + self.monotonic_ns() + self.offset_ns

    def lasts_ns(self, local_ns: int) -> int:
        """The true time for a duration on this host, rounded up: a timer must not fire early."""
        return local_ns if self.drift_ppm == 0 else local_ns * _MILLION // (_MILLION + self.drift_ppm) + 2

    def set(self, drift_ppm: int, offset_ns: int) -> None:
        """From now on run at this rate, with this offset; the monotonic clock continues from its current value."""
        self._shown_ns, self._since_ns = self.monotonic_ns(), self._loop.now_ns
        changed = drift_ppm != self.drift_ppm
        self.drift_ppm, self.offset_ns = drift_ppm, offset_ns
        if changed:
            for timer in self._timers:
                assert timer.timer is not None, "a timer that is kept was set"
                timer.timer.cancel()
                self._schedule(timer)

    def call_later(self, delay_ns: int, callback: Callable[[], object]) -> SimTimer | LocalTimer:
        """Run `callback` after a duration of the host's time; its rate may change meanwhile."""
        if self.drift_ppm == self._nature_ppm:
            if self.drift_ppm:  # as `lasts_ns`, in place: most timers are set here
                delay_ns = delay_ns * _MILLION // (_MILLION + self.drift_ppm) + 2
            return self._loop.after(delay_ns, callback)
        timer = LocalTimer(self, self.monotonic_ns() + delay_ns, callback)
        self._timers[timer] = None
        self._schedule(timer)
        return timer

    def forget(self, timer: LocalTimer) -> None:
        """The timer was cancelled."""
        self._timers.pop(timer, None)

    def _schedule(self, timer: LocalTimer) -> None:
        def ring() -> None:
            self.forget(timer)
            timer.callback()

        timer.timer = self._loop.after(self.lasts_ns(max(0, timer.due_ns - self.monotonic_ns())), ring)

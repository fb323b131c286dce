"""The timers that consensus asks for: election timeout (RA-2) and heartbeat (RA-3).

Between the moment when a timer runs out and the one when consensus handles it, it may have been stopped or started
anew by an event that was handled first. So a timer passes a token, and the node checks whether it still holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from splitbrain.cluster.runtime import Clock, Rng, Timer

_MS: Final = 1_000_000


class ElectionTimer:
    """Runs out after a random time, drawn anew at each start, so that members seldom stand together (RA-2).

    Every message of a leader starts it anew, so that must cost next to nothing.
    """

    def __init__(self, clock: Clock, rng: Rng, min_ms: int, max_ms: int, ran_out: Callable[[int], None]) -> None:
        self._clock = clock
        self._rng = rng
        self._min_ms = min_ms
        self._max_ms = max_ms
        self._ran_out = ran_out
        self._token = 0
        self._deadline_ns: int | None = None
        self._alarm: Timer | None = None
        self._alarm_ns = 0

    def start(self, _: object = None) -> None:
        """Run for a random time from now on, whether or not it ran before; what asks for it is of no interest."""
        self._token += 1
        now = self._clock.monotonic_ns()
        self._deadline_ns = now + self._rng.between(self._min_ms * _MS, self._max_ms * _MS)
        if self._alarm is not None and self._alarm_ns > self._deadline_ns:
            self._alarm.cancel()
            self._alarm = None
        if self._alarm is None:
            self._set_alarm(self._deadline_ns, now)

    def stop(self) -> None:
        """Run no more."""
        self._token += 1
        self._deadline_ns = None

    def holds(self, token: int) -> bool:
        """Whether it has been neither started nor stopped since it ran out with this token."""
        return token == self._token

    def _set_alarm(self, deadline_ns: int, now: int) -> None:
        self._alarm_ns = deadline_ns
        self._alarm = self._clock.call_later(deadline_ns - now, self._on_alarm)

    def _on_alarm(self) -> None:
        self._alarm = None
        if self._deadline_ns is None:
            return
        now = self._clock.monotonic_ns()
        if now < self._deadline_ns:
            self._set_alarm(self._deadline_ns, now)
        else:
            self._deadline_ns = None
            self._ran_out(self._token)


class Heartbeat:
    """Ticks at an even interval (RA-3); a tick that comes late is not made up for."""

    def __init__(self, clock: Clock, interval_ms: int, tick: Callable[[int], None]) -> None:
        self._clock = clock
        self._interval_ns = interval_ms * _MS
        self._tick = tick
        self._token = 0
        self._alarm: Timer | None = None

    def start(self) -> None:
        """Tick from now on."""
        self.stop()
        self._set_alarm()

    def stop(self) -> None:
        """Tick no more."""
        self._token += 1
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def holds(self, token: int) -> bool:
        """Whether it has been neither started nor stopped since it ticked with this token."""
        return token == self._token

    def _set_alarm(self) -> None:
        self._alarm = self._clock.call_later(self._interval_ns, self._on_alarm)

    def _on_alarm(self) -> None:
        self._set_alarm()
        self._tick(self._token)

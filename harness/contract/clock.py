"""Time and randomness of a run: it takes them from nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from splitbrain.harness.contract.rng import Streams


class Timer(Protocol):
    """A callback that is due."""

    def cancel(self) -> object:
        """Forget it; no harm if it has run."""
        ...


class Clock(Protocol):
    """The only source of time in a run: monotonic, in nanoseconds."""

    def now_ns(self) -> int:
        """Nanoseconds since an arbitrary start."""
        ...

    async def sleep_ns(self, duration_ns: int) -> None:
        """Suspend the calling task."""
        ...

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> Timer:
        """Run `callback` after `delay_ns`. No task is woken for it."""
        ...


class Runtime(msgspec.Struct, frozen=True):
    """The runtime that a run gets: its only source of time, and of named streams of randomness."""

    clock: Clock
    streams: Streams

"""Time and randomness of a run: it takes them from nowhere else."""

from __future__ import annotations

from typing import Protocol

import msgspec

from splitbrain.harness.contract.rng import Streams


class Clock(Protocol):
    """The only source of time in a run: monotonic, in nanoseconds."""

    def now_ns(self) -> int:
        """Nanoseconds since an arbitrary start."""
        ...

    async def sleep_ns(self, duration_ns: int) -> None:
        """Suspend the calling task."""
        ...


class Runtime(msgspec.Struct, frozen=True):
    """The runtime that a run gets: its only source of time, and of named streams of randomness."""

    clock: Clock
    streams: Streams

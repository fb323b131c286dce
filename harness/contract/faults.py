"""Faults that a backend can inject: their kinds, their figures, and whether they work where a test runs."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from splitbrain.harness.contract.magnitudes import Bounds, check_magnitudes

FaultKind: TypeAlias = Literal[
    "cut",
    "delay",
    "loss",
    "duplicate",
    "reorder",
    "corrupt",
    "rate",
    "mtu",
    "reset",
    "hold",
    "kill",
    "pause",
    "cpu",
    "disk-full",
    "disk-read-only",
    "disk-fails",
    "disk-sync",
    "disk-slow",
    "disk-rot",
    "disk-truncate",
    "power",
    "clock-jump",
    "clock-drift",
    "clock-strobe",
    "membership",
]
"""What a backend can be asked to do to links, processes, disks, clocks and the set of members. The ways in which
nemeses strike name the kinds that they need; a delay includes jitter."""


HOUR_MS: Final = 3_600_000


YEAR_MS: Final = 365 * 24 * HOUR_MS


Share: TypeAlias = Annotated[float, Bounds(0, 1, "of all")]


DelayMs: TypeAlias = Annotated[float, Bounds(0, HOUR_MS, "ms")]


class LinkFault(msgspec.Struct, frozen=True):
    """What a directed link does to the messages that it carries, beyond its nature.

    Attributes:
        delay_ms: how much longer each message takes.
        jitter_ms: up to so much more, evenly spread, without disturbing the order.
        loss: the share of messages that vanish.
        duplicate: the share of messages that arrive twice, the second time a little later.
        reorder: the share of messages that later ones may overtake.
        resets: how often a second, on average, connections over the link break (a flaky link).
        held: nothing arrives until the fault is gone, then everything does (a clogged link).
        corrupt: the share of messages in which a bit is flipped; checksums on the way drop most of them.
        rate_kbit: no more than so many kilobits a second get through, the rest waits; 0 for no limit.
        mtu: larger packets, in bytes, vanish without a word (a black hole of path MTU discovery); 0 for none.
    """

    delay_ms: DelayMs = 0.0
    jitter_ms: DelayMs = 0.0
    loss: Share = 0.0
    duplicate: Share = 0.0
    reorder: Share = 0.0
    resets: Annotated[float, Bounds(0.001, 1000, "a second", off=0)] = 0.0
    held: bool = False
    corrupt: Share = 0.0
    rate_kbit: Annotated[int, Bounds(0, 100_000_000, "kbit/s")] = 0
    mtu: Annotated[int, Bounds(0, 65_535, "bytes")] = 0

    def __post_init__(self) -> None:
        """Refuse figures that no link can have (UsageError)."""
        check_magnitudes(self)


class DiskFault(msgspec.Struct, frozen=True):
    """What a node's disk does wrong.

    Attributes:
        full: writes that need more room fail (ENOSPC).
        sync_fails: the next sync fails (EIO), and what it should have made durable is gone from the cache as well: a
            sync after it succeeds and proves nothing (the kernel's behaviour behind PostgreSQL's "fsyncgate" of 2018).
        slow_ms: how much longer each sync takes.
        rot: flip a bit in so many of the sectors that were durable when the fault began; they read well again once it
            is gone.
        read_only: writes fail (EROFS).
        fails: every read, write and sync fails (EIO) until the fault is gone.
        truncate: cut off the end of so many files, at a random place within the last sector; gone for good.
        wipe: everything that the node ever wrote is gone for good. A fault that only a member that left is given
            ("membership"): one that forgets what it voted for breaks what every system builds on.
    """

    full: bool = False
    sync_fails: bool = False
    slow_ms: DelayMs = 0.0
    rot: Annotated[int, Bounds(0, 1000, "sectors")] = 0
    read_only: bool = False
    fails: bool = False
    truncate: Annotated[int, Bounds(0, 1000, "files")] = 0
    wipe: bool = False

    def __post_init__(self) -> None:
        """Refuse figures that no disk can have (UsageError)."""
        check_magnitudes(self)


class ClockFault(msgspec.Struct, frozen=True):
    """What is wrong with a node's clock.

    Attributes:
        offset_ms: the wall clock jumps by so much when the fault begins, and back when it ends.
        drift_ppm: both the wall clock and timers run so much too fast (or, below 0, too slow), in millionths.
        strobe_ms: the jump comes and goes every so many milliseconds instead of lasting; 0 for no strobe.
    """

    offset_ms: Annotated[float, Bounds(-YEAR_MS, YEAR_MS, "ms")] = 0.0
    drift_ppm: Annotated[float, Bounds(-900_000, 1_000_000, "millionths")] = 0.0
    strobe_ms: Annotated[float, Bounds(1, HOUR_MS, "ms", off=0)] = 0.0

    def __post_init__(self) -> None:
        """Refuse figures that no clock can have (UsageError): one that stands still would let no timer go off."""
        check_magnitudes(self)


class Support(msgspec.Struct, frozen=True):
    """Whether a fault works on a backend here; if not, why, and what would help."""

    works: bool
    how: str

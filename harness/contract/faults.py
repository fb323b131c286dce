"""Faults that a backend can inject: their kinds, their figures, and whether they work where a test runs."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from splitbrain.harness.contract.magnitudes import Bounds, check_magnitudes

InjectedKind: TypeAlias = Literal[
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
    "client-links",
    "kill",
    "stop",
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
    "moment",
]
"""The faults that a backend may inject into links, processes, disks, clocks and the set of members; a delay includes
jitter. "stop" is an end in good order, by SIGTERM, and by SIGKILL after a while. "moment" is not a fault but a time for
one: when a node passes a mark.
"""

RequestedKind: TypeAlias = Literal["transfer", "groups", "learners", "upgrade", "discovery", "migrate"]
"""What a system itself is asked for, as an operator would: no backend takes part."""

FaultKind: TypeAlias = Literal[InjectedKind, RequestedKind]
"""What a nemesis may do. Each of its ways lists the kinds that it needs."""


HOUR_MS: Final = 3_600_000


YEAR_MS: Final = 365 * 24 * HOUR_MS


Share: TypeAlias = Annotated[float, Bounds(0, 1, "of all")]


DelayMs: TypeAlias = Annotated[float, Bounds(0, HOUR_MS, "ms")]


class LinkFault(msgspec.Struct, frozen=True):
    """What a directed link does to the messages that it carries, beyond its nature.

    Attributes:
        delay_ms: the delay added to each message.
        jitter_ms: the largest additional delay, uniform; the order is kept.
        loss: the share of messages that vanish.
        duplicate: the share of messages that arrive twice, the second time a little later.
        reorder: the share of messages that later ones may overtake.
        resets: how often per second, on average, connections over the link break (a flaky link).
        held: nothing arrives until the fault is healed, then everything does (a clogged link).
        corrupt: the share of messages in which a bit is flipped; checksums on the way drop most of them.
        rate_kbit: the limit in kilobits per second, further messages wait; 0 for no limit.
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


class ClientFault(msgspec.Struct, frozen=True):
    """What the links between all clients and one node do, in both directions.

    Attributes:
        cut_requests: what clients send is swallowed, and the connection breaks after two seconds.
        cut_answers: likewise what the node sends.
        delay_ms, jitter_ms, loss, duplicate, resets, held: as of `LinkFault`.
    """

    cut_requests: bool = False
    cut_answers: bool = False
    delay_ms: DelayMs = 0.0
    jitter_ms: DelayMs = 0.0
    loss: Share = 0.0
    duplicate: Share = 0.0
    resets: Annotated[float, Bounds(0.001, 1000, "a second", off=0)] = 0.0
    held: bool = False

    def __post_init__(self) -> None:
        """Refuse figures that no link can have (UsageError)."""
        check_magnitudes(self)

    def of_link(self) -> LinkFault | None:
        """What each of the links does apart from a cut; None for nothing."""
        fault = LinkFault(
            delay_ms=self.delay_ms,
            jitter_ms=self.jitter_ms,
            loss=self.loss,
            duplicate=self.duplicate,
            resets=self.resets,
            held=self.held,
        )
        return None if fault == LinkFault() else fault


class DiskFault(msgspec.Struct, frozen=True):
    """What a node's disk does wrong.

    Attributes:
        full: writes that need more space fail (ENOSPC).
        sync_fails: the next sync fails (EIO), and its data are lost from the cache as well: a later sync succeeds and
            proves nothing (the kernel's behaviour behind PostgreSQL's "fsyncgate" of 2018).
        slow_ms: the delay added to each sync.
        rot: flip a bit in this number of sectors that were durable when the fault began; healing restores them.
        read_only: writes fail (EROFS).
        fails: every read, write and sync fails (EIO) until the fault is healed.
        truncate: cut off the end of this number of files, at a random place within the last sector; not restored.
        wipe: everything that the node ever wrote is lost for good. Only for a member that left ("membership"): a member
            that forgets its vote breaks the assumption of every consensus system.
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
        offset_ms: the wall clock jumps by this much when the fault begins, and back when it ends.
        drift_ppm: the drift of the wall clock and of timers, in millionths; below 0 they are too slow.
        strobe_ms: the period with which the jump comes and goes; 0 for a jump that lasts.
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

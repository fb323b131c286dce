"""What a simulated world is like while nothing is wrong with it: how long links and disks take, how well clocks go.

A time is drawn as `min + (max - min) * u**4` with u even in [0, 1): most are near the minimum, some are not. (A fourth
power is exact on every machine; logarithms and exponentials are not.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from splitbrain.harness.contract.rng import Rng, Streams
from splitbrain.harness.simulation.disk import DiskLatency
from splitbrain.results.errors import UnknownNameError

_US: Final = 1_000
_MS: Final = 1_000_000


class Latency(msgspec.Struct, frozen=True):
    """How long a message takes over a link, in nanoseconds."""

    min_ns: int
    max_ns: int

    def draw(self, rng: Rng) -> int:
        """One message's time."""
        u = rng.random()
        u *= u
        return self.min_ns + int((self.max_ns - self.min_ns) * (u * u))


class Stalls(msgspec.Struct, frozen=True):
    """How often a connection stands still in one direction, and for how long: what is sent meanwhile arrives later.

    Where a network has several paths, each connection has one (it is chosen by addresses and ports: ECMP, RFC 2992),
    and a path stands still while its buffers are full or its switches are being configured. What was sent is in these
    buffers, and arrives although its sender has given up the connection, and has another one over another path.

    Attributes:
        every_ns: the mean time to the first stall of a connection, and from the end of one to the next, in nanoseconds.
        length: of one stall.
    """

    every_ns: int
    length: Latency


class Costs(msgspec.Struct, frozen=True):
    """How long a node computes for something, in nanoseconds; all else that happens to it waits meanwhile.

    Attributes:
        apply_ns: to apply one entry of a log, where the system says that it does (`NodeWorld.applied`).
        message_ns: to encode and send a message.
        sync_ns: to begin a sync, apart from what the disk takes.
    """

    apply_ns: int
    message_ns: int
    sync_ns: int


class World(msgspec.Struct, frozen=True):
    """The nature of a simulated world.

    Attributes:
        link: messages between nodes.
        client: messages between a client and its node.
        disk: syncs.
        clock_offset_ms: the largest offset of wall clocks, ahead or back.
        clock_drift_ppm: the largest drift of clocks, too fast or too slow.
        stalls: of all connections, those of clients too; None if none ever stands still.
        costs: of computing; None if it takes no time.
    """

    link: Latency
    client: Latency
    disk: DiskLatency
    clock_offset_ms: int = 10
    clock_drift_ppm: int = 50
    stalls: Stalls | None = None
    costs: Costs | None = None


_LAN: Final = World(
    link=Latency(100 * _US, 3 * _MS),
    client=Latency(100 * _US, 2 * _MS),
    disk=DiskLatency(200 * _US, 10 * _MS),
)

_WAN: Final = World(
    link=Latency(10 * _MS, 60 * _MS),
    client=Latency(200 * _US, 5 * _MS),
    disk=DiskLatency(200 * _US, 10 * _MS),
    clock_offset_ms=100,
)

_GLOBE: Final = World(
    link=Latency(60 * _MS, 240 * _MS),
    client=Latency(200 * _US, 5 * _MS),
    disk=DiskLatency(200 * _US, 10 * _MS),
    clock_offset_ms=100,
)

_SLOW_DISKS: Final = World(
    link=Latency(100 * _US, 3 * _MS),
    client=Latency(100 * _US, 2 * _MS),
    disk=DiskLatency(200 * _MS, 1000 * _MS),
)

_LATE: Final = msgspec.structs.replace(_LAN, stalls=Stalls(20_000 * _MS, Latency(100 * _MS, 30_000 * _MS)))
_SLOW_CPU: Final = msgspec.structs.replace(
    _LAN, costs=Costs(apply_ns=500 * _US, message_ns=50 * _US, sync_ns=200 * _US)
)

_FIXED: Final[Mapping[str, World]] = {
    "lan": _LAN,
    "wan": _WAN,
    "globe": _GLOBE,
    "slow-disks": _SLOW_DISKS,
    "late": _LATE,
    "slow-cpu": _SLOW_CPU,
}


def _swarm(rng: Rng) -> World:
    """Any world between a rack and a continent, with quick disks or slow ones (TigerBeetle draws its worlds so)."""
    link_ns = rng.choice((50 * _US, 200 * _US, 1 * _MS, 5 * _MS, 20 * _MS))
    disk_ns = rng.choice((50 * _US, 500 * _US, 2 * _MS, 10 * _MS, 30 * _MS))
    return World(
        link=Latency(link_ns, link_ns * rng.between(2, 20)),
        client=Latency(100 * _US, rng.between(1, 10) * _MS),
        disk=DiskLatency(disk_ns, disk_ns * rng.between(2, 20)),
        clock_offset_ms=rng.choice((0, 10, 1_000, 60_000)),
        clock_drift_ppm=rng.choice((0, 50, 500)),
    )


DRAWN: Final = "swarm"
"""The world that is drawn."""

MESSAGES: Final = 4
SYNCS: Final = 2
"""How many of each an op takes that is passed on to a leader and stored by a majority; an election takes as many."""

_SEED_DIGITS: Final = len(str(2**63 - 1))
"""Of the highest seed; Python makes no numbers of some thousand digits."""

WORLDS: Final[Mapping[str, str]] = {
    "lan": "messages take 0.1 to 3 ms, syncs 0.2 to 10 ms",
    "wan": "messages between nodes take 10 to 60 ms",
    "globe": "messages between nodes take 60 to 240 ms",
    "slow-disks": "messages as in lan, syncs take 200 ms to a second",
    "late": "as lan, but connections stand still now and then for up to 30 s: what is sent meanwhile arrives late",
    "slow-cpu": "as lan, but a node computes 0.5 ms to apply an entry, 0.05 ms for a message, 0.2 ms for a sync",
    "swarm": "drawn from the seed: from one rack to a continent, quick disks or slow; swarm:7 is what seed 7 draws",
}
"""Worlds by name, with a line on each."""


def world(name: str, rng: Rng) -> World:
    """The world of that name; `rng` draws the random properties, if the name does not say from which seed.

    Raises:
        UnknownNameError: there is none.
    """
    check(name)
    kind, _, own = name.partition(":")
    return _FIXED.get(kind) or _swarm(Streams(int(own))["world"] if own else rng)


def pinned(name: str, seed: int) -> str:
    """The name of the world that `name` is in a run with this seed, whatever the seed of a later run is."""
    return f"{DRAWN}:{seed}" if name == DRAWN else name


def late_s(world: World) -> float:
    """How much later than usual something may arrive in a world, in seconds, although nothing is wrong."""
    return 0.0 if world.stalls is None else world.stalls.length.max_ns / 1e9


def pace_s_of(world: World) -> float:
    """How long an op takes in a world on average, in seconds, as long as nothing is wrong with it."""
    link, disk = world.link, world.disk
    message_ns = link.min_ns + (link.max_ns - link.min_ns) / 5  # the mean of a fourth power
    sync_ns = disk.sync_ns_min + (disk.sync_ns_max - disk.sync_ns_min) / 5
    return (MESSAGES * message_ns + SYNCS * sync_ns) / 1e9


def check(name: str) -> None:
    """Refuse a name that means no world.

    Raises:
        UnknownNameError: there is none.
    """
    kind, colon, own = name.partition(":")
    is_seed = own.isdecimal() and own.isascii() and len(own) <= _SEED_DIGITS
    if kind not in WORLDS or (colon and not (kind == DRAWN and is_seed)):
        raise UnknownNameError("world", name, WORLDS)

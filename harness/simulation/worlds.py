"""What a simulated world is like while nothing is wrong with it: how long links and disks take, how well clocks go.

A time is drawn as `min + (max - min) * u**4` with u even in [0, 1): most are near the minimum, some are not. (A fourth
power is exact on every machine; logarithms and exponentials are not.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from splitbrain.harness.contract.rng import Rng
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


class World(msgspec.Struct, frozen=True):
    """The nature of a simulated world.

    Attributes:
        link: messages between nodes.
        client: messages between a client and its node.
        disk: syncs.
        clock_offset_ms: the largest offset of wall clocks, ahead or back.
        clock_drift_ppm: the largest drift of clocks, too fast or too slow.
    """

    link: Latency
    client: Latency
    disk: DiskLatency
    clock_offset_ms: int = 10
    clock_drift_ppm: int = 50


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


WORLDS: Final[Mapping[str, str]] = {
    "lan": "messages take 0.1 to 3 ms, syncs 0.2 to 10 ms",
    "wan": "messages between nodes take 10 to 60 ms",
    "globe": "messages between nodes take 60 to 240 ms",
    "slow-disks": "messages as in lan, syncs take 200 ms to a second",
    "swarm": "drawn from the seed: any of these, and worlds between and beyond them",
}
"""Worlds by name, with a line on each."""


def world(name: str, rng: Rng) -> World:
    """The world of that name; `rng` draws the random properties.

    Raises:
        UnknownNameError: there is none.
    """
    if name not in WORLDS:
        raise UnknownNameError("world", name, WORLDS)
    return {"lan": _LAN, "wan": _WAN, "globe": _GLOBE, "slow-disks": _SLOW_DISKS}.get(name) or _swarm(rng)

"""One directed link that a proxy carries: faults of streams, where there are no packets to be had.

A proxy sees pieces of connections: it can pass them on later, in order, or break a connection. It cannot lose a piece
or send it twice: no network does that to a stream.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from .packet_link import Fault
from .tools import AgentError

PIECE_BYTES: Final = 1448
"""A rate-limited link carries this much at once: the payload of a packet."""

LANE_BYTES_MAX: Final = 1 << 20
"""The limit of data of a connection in the proxy; above it the proxy stops reading, and the sender's own buffer
fills.
"""

_IMPOSSIBLE: Final = ("loss", "duplicate", "reorder", "corrupt", "mtu")


class StreamLink:
    """What is wrong with a link, if anything, and what that did.

    Args:
        break_connections: resets all connections over the link, and says how many there were.

    Attributes:
        fault: None for a link without a fault.
        counts: with the keys of `Deployment.disturbed`; of pieces of streams instead of packets.
    """

    def __init__(self, break_connections: Callable[[], int]) -> None:
        self.fault: Fault | None = None
        self.counts: dict[str, int] = {}
        self._break_connections = break_connections
        self._waiting: dict[Lane, None] = {}
        self._draw = random.Random(0).random
        self._draw_break = random.Random(0).random
        self._free_at_s = 0.0
        self._next_break: asyncio.TimerHandle | None = None

    @property
    def held(self) -> bool:
        """Whether nothing passes until the fault is healed."""
        return self.fault is not None and self.fault.held

    def set(self, fault: Fault | None) -> None:
        """Give the link a fault, or none. The same fault continues; else waiting data passes at once, in order.

        Raises:
            AgentError: a fault of packets.
        """
        if fault is not None:
            for name in _IMPOSSIBLE:
                if getattr(fault, name):
                    raise AgentError(f"a proxy carries streams, to which {name!r} cannot happen")
        if fault == self.fault:
            return
        self.fault, self.counts, self._free_at_s = fault, {}, 0.0
        if self._next_break is not None:
            self._next_break.cancel()
        for lane in list(self._waiting):
            lane.pass_all()
        if fault is not None:
            self._draw = random.Random(fault.seed).random
            self._draw_break = random.Random(f"{fault.seed} resets").random
            if fault.resets > 0:
                self._schedule_break(fault.resets)

    def due_s(self, size: int) -> float:
        """When a piece that came now is to be passed on, later ones not before it."""
        now_s = asyncio.get_running_loop().time()
        fault = self.fault
        if fault is None:
            return now_s
        if fault.held:
            self._count("held")
            return float("inf")
        due_s = now_s
        if fault.rate_kbit and size:
            if self._free_at_s > now_s:
                self._count("queued")
            due_s = self._free_at_s = max(now_s, self._free_at_s) + 8 * size / (fault.rate_kbit * 1e3)
        if fault.delay_ms or fault.jitter_ms:
            late_s = (fault.delay_ms + fault.jitter_ms * self._draw()) / 1e3
            if due_s + late_s > due_s:
                self._count("delayed")
            due_s += late_s
        return due_s

    def waits(self, lane: Lane, waits: bool) -> None:
        """Something waits in a lane, or nothing does any more."""
        if waits:
            self._waiting[lane] = None
        else:
            self._waiting.pop(lane, None)

    def _schedule_break(self, per_second: float) -> None:
        delay_s = 2 * self._draw_break() / per_second
        self._next_break = asyncio.get_running_loop().call_later(delay_s, self._break, per_second)

    def _break(self, per_second: float) -> None:
        for _ in range(self._break_connections()):
            self._count("reset")
        self._schedule_break(per_second)

    def _count(self, word: str) -> None:
        self.counts[word] = self.counts.get(word, 0) + 1


class _Waiting(NamedTuple):
    due_s: float
    size: int
    pass_on: Callable[[], None]


class Lane:
    """What one connection has brought over a link and is not passed on yet, in order.

    Args:
        link: the link.
        full: called with True when no more should be brought, with False when more may be.
    """

    def __init__(self, link: StreamLink, full: Callable[[bool], None]) -> None:
        self._link = link
        self._full = full
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0
        self._last_due_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def put_data(self, data: bytes, pass_on: Callable[[bytes], None]) -> None:
        """Pass data on when it is due: in pieces, if the link is limited."""
        fault = self._link.fault
        size = PIECE_BYTES if fault is not None and fault.rate_kbit else len(data)
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            self.put(len(piece), lambda piece=piece: pass_on(piece))

    def put(self, size: int, pass_on: Callable[[], None]) -> None:
        """Call `pass_on` when something of this size, in bytes, is due: at once on a link that is well."""
        if self._link.fault is None and not self._waiting:
            pass_on()
            return
        self._last_due_s = max(self._last_due_s, self._link.due_s(size))
        self._waiting.append(_Waiting(self._last_due_s, size, pass_on))
        self._bytes += size
        if self._bytes > LANE_BYTES_MAX:
            self._full(True)
        self._link.waits(self, True)
        self._schedule()

    def pass_all(self) -> None:
        """Pass on what waits, whenever it is due."""
        self._last_due_s = 0.0
        self._pass_until(float("inf"))

    def clear(self) -> None:
        """Forget what waits."""
        self._waiting.clear()
        self._after_passing()

    def _pass_due(self) -> None:
        self._timer = None
        self._pass_until(asyncio.get_running_loop().time())

    def _pass_until(self, now_s: float) -> None:
        while self._waiting and self._waiting[0].due_s <= now_s:
            found = self._waiting.popleft()
            self._bytes -= found.size
            found.pass_on()  # which may clear the lane
        self._after_passing()

    def _after_passing(self) -> None:
        if not self._waiting:
            self._bytes = 0
            self._link.waits(self, False)
        if self._bytes <= LANE_BYTES_MAX // 2:
            self._full(False)
        self._schedule()

    def _schedule(self) -> None:
        due_s = self._waiting[0].due_s if self._waiting else None
        if self._timer is not None:
            if self._timer.when() == due_s:
                return
            self._timer.cancel()
            self._timer = None
        if due_s is not None and due_s != float("inf"):
            self._timer = asyncio.get_running_loop().call_at(due_s, self._pass_due)

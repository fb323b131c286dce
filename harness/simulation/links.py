"""The directed links of a simulated network: their latency, whether they are cut, and what else is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from splitbrain.harness.contract.faults import LinkFault
from splitbrain.harness.contract.nodes import Link
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.simulation.worlds import Latency, Stalls

if TYPE_CHECKING:
    from splitbrain.harness.simulation.loop import SimLoop

_MS: Final = 1_000_000

LATE_MAX_NS: Final = 100 * _MS
"""How much later a duplicate, or a message that others overtake, arrives at most."""

RETRANSMISSION_MAX_NS: Final = 800 * _MS
"""After a heal TCP's next retransmission is so far away at most, if the connection did not break meanwhile."""


QUEUE_MAX_NS: Final = 2_000 * _MS
"""So long a message waits at most for a link of limited rate; a connection that would wait longer breaks."""

HEADER_BYTES: Final = 52
"""What a packet carries beside its message: the headers of IP and of TCP with timestamps."""


class Carried(Protocol):
    """An end of a connection, as the link sees it that carries what this end sends."""

    def link_opened(self, delay_ns: int) -> None:
        """Waiting messages may cross the link after this delay."""
        ...

    def break_both(self, reason: str) -> None:
        """The connection is reset."""
        ...


class UnderWay(Protocol):
    """What carries things that were sent over a link while it had a fault."""

    def fault_ended(self) -> None:
        """The fault is healed: messages in flight arrive with the link's own latency."""
        ...


class Standstills:
    """When the path of one connection stands still: a function of time, whatever is sent over it."""

    def __init__(self, stalls: Stalls, rng: Rng, now_ns: int) -> None:
        self._stalls = stalls
        self._rng = rng
        self._begin_ns = self._end_ns = now_ns

    def rest_ns(self, now_ns: int) -> int:
        """How much longer it stands still; 0 if it does not. Time must not go back from one call to the next."""
        while now_ns >= self._end_ns:
            self._begin_ns = self._end_ns + int(2 * self._rng.random() * self._stalls.every_ns)
            self._end_ns = self._begin_ns + self._stalls.length.draw(self._rng)
        return self._end_ns - now_ns if now_ns >= self._begin_ns else 0


class SimLink:
    """A directed link: its own latency, whether it is cut, and its fault.

    Attributes:
        least_ns, spread_ns, random: what `latency_ns` is drawn from.
        cut: whether it swallows everything now.
        fault: what else is wrong with it.
        swallowed: messages that met the cut since it is there.
        counts: what the fault did since it is there.
        carried: the ends of connections that send over it.
        under_way: the senders of messages in flight that were sent over it while it had a fault.
    """

    def __init__(self, loop: SimLoop, link: Link, latency: Latency, rng: Rng, stalls: Stalls | None = None) -> None:
        self._loop = loop
        self.least_ns, self.spread_ns = latency.min_ns, latency.max_ns - latency.min_ns
        self.random = rng.random
        self._stalls = stalls
        self._next_reset: Callable[[], None] = _nothing
        self._free_ns = 0
        self.link = link
        self.rng = rng
        self.cut = False
        self.fault: LinkFault | None = None
        self.swallowed = 0
        self.counts: dict[str, int] = {}
        self.carried: dict[Carried, None] = {}
        self.under_way: dict[UnderWay, None] = {}

    def latency_ns(self) -> int:
        """The link's own latency, without faults."""
        # `Latency.draw`, in place.
        u = self.random()
        u *= u
        return self.least_ns + int(self.spread_ns * (u * u))

    def standstills(self) -> Standstills | None:
        """Those of a new connection over it; None where no path ever stands still."""
        return None if self._stalls is None else Standstills(self._stalls, self.rng, self._loop.now_ns)

    def delay_ns(self) -> int:
        """How long the next message takes, in order."""
        delay_ns = self.latency_ns()
        fault = self.fault
        if fault is not None and (fault.delay_ms or fault.jitter_ms):
            late_ns = int((fault.delay_ms + fault.jitter_ms * self.rng.random()) * _MS)
            if late_ns:
                self.count("delayed")
            delay_ns += late_ns
        return delay_ns

    def queued_ns(self, size: int) -> int | None:
        """How long `size` bytes take until a link of limited rate has sent them, behind everything before them.

        None if its queue is full.
        """
        rate_kbit = 0 if self.fault is None else self.fault.rate_kbit
        if not rate_kbit:
            return 0
        now_ns = self._loop.now_ns
        begin_ns = max(now_ns, self._free_ns)
        if begin_ns - now_ns > QUEUE_MAX_NS:
            self.count("overflowed")
            return None
        if begin_ns > now_ns:
            self.count("queued")
        # Bits over kilobits a second, in nanoseconds; whole numbers are the same on all machines.
        self._free_ns = begin_ns + (size + HEADER_BYTES) * 8 * _MS // rate_kbit
        return self._free_ns - now_ns

    def too_large(self, size: int) -> bool:
        """Whether a message of `size` bytes does not fit through: TCP would send the same packet again and again."""
        mtu = 0 if self.fault is None else self.fault.mtu
        return mtu > 0 and size + HEADER_BYTES > mtu

    def passes(self) -> bool:
        """Whether anything gets through now."""
        return not self.cut and (self.fault is None or not self.fault.held)

    def hits(self, share: float) -> bool:
        """Draw whether a fault with this probability hits a message."""
        return share > 0 and self.rng.random() < share

    def late_ns(self) -> int:
        """How much later a straggler arrives."""
        return 1 + int(self.rng.random() * LATE_MAX_NS)

    def count(self, what: str) -> None:
        """Count what the fault did."""
        self.counts[what] = self.counts.get(what, 0) + 1

    def set_cut(self, cut: bool) -> None:
        """Cut it, or heal it; waiting messages then continue."""
        if cut == self.cut:
            return
        self.cut = cut
        if cut:
            self.swallowed = 0
        elif self.passes():
            for end in list(self.carried):
                end.link_opened(int(self.rng.random() * RETRANSMISSION_MAX_NS))

    def set_fault(self, fault: LinkFault | None) -> None:
        """Give it a fault, or none. What was held is let go, and what was late is late no longer, in order."""
        if fault == self.fault:
            return
        for lane in list(self.under_way):
            lane.fault_ended()
        self.fault, self.counts, self._free_ns = fault, {}, 0
        self._next_reset()
        self._next_reset = _nothing
        if self.passes():
            for end in list(self.carried):
                end.link_opened(0)
        if fault is not None and fault.resets > 0:
            self._schedule_reset(fault.resets)

    def _schedule_reset(self, per_second: float) -> None:
        # Uniform up to twice the mean, which is one in 1 / per_second.
        delay_ns = int(2 * self.rng.random() / per_second * 1e9)
        self._next_reset = self._loop.after(delay_ns, lambda: self._reset(per_second)).cancel

    def _reset(self, per_second: float) -> None:
        ends = list(self.carried)
        for end in ends:
            self.count("reset")
            end.break_both("connection reset by the network")
        self._schedule_reset(per_second)


def _nothing() -> None:
    """Nothing is scheduled that could be cancelled."""

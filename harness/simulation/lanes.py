"""One sender's messages in flight over a simulated link: in order, and never later than the current state of the link
allows.

A message that is sent over a link with a fault may take much longer than the link by its nature. When the fault is
healed the rest of its way takes the link's own latency, as in an emulation of networks whose delay is removed: a fault
does not outlive its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from splitbrain.harness.simulation.links import SimLink, Standstills
    from splitbrain.harness.simulation.loop import SimLoop, SimTimer


T = TypeVar("T")


class _Flight:
    """Something that was sent over a link with a fault and has not arrived."""

    __slots__ = ("arrive", "item", "timer")

    def __init__(self, arrive: Callable[[Any], None], item: object) -> None:
        self.arrive = arrive
        self.item = item
        self.timer: SimTimer | None = None


class Lane:
    """The way of one connection, or of one handshake, over a link.

    Attributes:
        link: it.
        under_way: what was sent over it while it had a fault, and has not arrived.
    """

    __slots__ = ("_last_ns", "_loop", "_standstills", "_well_ns", "link", "under_way")

    def __init__(self, loop: SimLoop, link: SimLink, standstills: Standstills | None = None) -> None:
        self._loop = loop
        self._last_ns = 0
        self._well_ns = 0  # messages sent before all those in flight arrive at this time at the latest
        self.under_way: dict[_Flight, None] = {}
        self._standstills = standstills
        self.link = link

    def stands_ns(self) -> int:
        """How much longer this way stands still: what is sent now arrives later than that."""
        return 0 if self._standstills is None else self._standstills.rest_ns(self._loop.now_ns)

    def next_ns(self, queued_ns: int = 0) -> int:
        """The arrival time of the next message in order: after all messages before it."""
        arrives_ns, last_ns = self._loop.now_ns + queued_ns + self.link.delay_ns(), self._last_ns
        if self._standstills is not None:
            arrives_ns += self.stands_ns()
        self._last_ns = arrives_ns if arrives_ns > last_ns else last_ns + 1
        return self._last_ns

    def straggler_ns(self, queued_ns: int) -> int:
        """When something arrives that what is sent after it may overtake."""
        return max(self._loop.now_ns + queued_ns + self.link.delay_ns(), self._last_ns) + self.link.late_ns()

    def launch(self, queued_ns: int, arrive: Callable[[T], None], item: T) -> None:
        """`carry` what comes next in order, `next_ns`; most of what is sent is sent over links without a fault."""
        link = self.link
        if link.fault is not None or self.under_way or self._standstills is not None:
            self.carry(self.next_ns(queued_ns), arrive, item)
            return
        self.fly(arrive, item, queued_ns)

    def fly(self, arrive: Callable[[T], None], item: T, queued_ns: int = 0) -> None:
        """`launch`, where the path never stands still, the link has no fault, and nothing is `under_way`."""
        loop, link = self._loop, self.link
        u = link.random()  # as `SimLink.latency_ns`, in place: it is drawn for every message
        u *= u
        arrives_ns = loop.now_ns + queued_ns + link.least_ns + int(link.spread_ns * (u * u))
        if arrives_ns <= self._last_ns:
            arrives_ns = self._last_ns + 1
        self._last_ns = self._well_ns = arrives_ns
        loop.carry(arrives_ns, arrive, item)

    def carry(self, arrives_ns: int, arrive: Callable[[T], None], item: T) -> None:
        """Call `arrive` with the item at that time, or earlier if the link loses its fault before."""
        if self.link.fault is None and not self.under_way:
            self._well_ns = arrives_ns
            self._loop.carry(arrives_ns, arrive, item)
            return
        flight = _Flight(arrive, item)
        self.under_way[flight] = None
        self.link.under_way[self] = None
        flight.timer = self._loop.at(arrives_ns, lambda: self._land(flight))

    def fault_ended(self) -> None:
        """Let all messages in flight arrive with the link's own latency, in the order of sending."""
        now_ns = self._loop.now_ns
        self._last_ns = self._well_ns
        for flight in self.under_way:
            timer = flight.timer
            assert timer is not None, "a message in flight has an arrival time"
            well_ns = now_ns + self.stands_ns() + self.link.latency_ns()
            arrives_ns = max(min(timer.when_ns, well_ns), self._last_ns + 1)
            self._last_ns = arrives_ns
            timer.cancel()
            flight.timer = self._loop.at(arrives_ns, lambda flight=flight: self._land(flight))

    def _land(self, flight: _Flight) -> None:
        del self.under_way[flight]
        if not self.under_way:
            self.link.under_way.pop(self, None)
        flight.arrive(flight.item)

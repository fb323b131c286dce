"""Connections over simulated links: two ends, whole messages, in order unless a fault of the link says otherwise.

A healthy link delivers everything after its latency. A cut swallows what is sent: the connection waits for it like TCP,
delivers it if the link heals soon, and breaks after two seconds otherwise, each end when it has reason to know. The
faults of a link (`harness.protocols.LinkFault`) act on whole messages, and nothing repairs what they do.

What one end sends goes over one link, what the other sends over the reverse one, and a cut of either leaves the other
alone: TCP's acknowledgements are not modelled.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from harness.protocols import LinkFault
from harness.simulation.links import SimLink

if TYPE_CHECKING:
    from harness.simulation.loop import SimLoop
    from harness.simulation.process import SimProcess
    from harness.simulation.trace import Trace

_MS: Final = 1_000_000

GIVEN_UP_NS: Final = 2_000 * _MS
"""After so long without getting through a connection breaks (TCP_USER_TIMEOUT as the metadata cluster sets it)."""

RETRANSMISSION_MAX_NS: Final = 800 * _MS
"""After a heal TCP's next retransmission is so far away at most, if the connection did not break meanwhile."""

STALLED_MAX: Final = 4096
"""Messages that wait on one connection for a cut to heal; more break it."""


class End:
    """One end of a connection (`cluster.runtime.Connection`, `harness.protocols.MessageConnection`)."""

    __slots__ = (
        "_broken",
        "_deadline",
        "_inbox",
        "_last_ns",
        "_loop",
        "_stalled",
        "_trace",
        "_waiter",
        "link",
        "other",
        "owner",
    )

    def __init__(self, loop: SimLoop, owner: SimProcess | None, link: SimLink, trace: Trace | None) -> None:
        """`owner` is None for the end of a client; what this end sends goes over `link`."""
        self._loop = loop
        self._trace = trace
        self._inbox: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._broken: str | None = None
        self._last_ns = 0
        self._stalled: list[bytes] | None = None
        self._deadline: Callable[[], None] = _nothing
        self.owner = owner
        self.link = link
        self.other: End
        link.carried[self] = None

    # --- what its owner calls -------------------------------------------------------------------------------------

    def send(self, message: bytes) -> None:
        """Queue a message; silently lost on a broken connection."""
        if self._broken is not None or (self.owner is not None and self.owner.state == "stopped"):
            return
        if self._stalled is not None:
            self.link.swallowed += 1
            self._stalled.append(message)
            if len(self._stalled) > STALLED_MAX:
                self.give_up("the other side does not take what is sent to it")
            return
        if self.link.fault is None:
            self._loop.at(self._next_ns(), lambda: self._arrive(message))
        else:
            self._send_over_fault(message, self.link.fault)

    async def receive(self) -> bytes:
        """The next message.

        Raises:
            ConnectionError: the other side is gone and all that it sent was received, or this side was closed.
        """
        while not self._inbox:
            if self._broken is not None:
                raise ConnectionError(self._broken)
            self._waiter = asyncio.Future(loop=self._loop)
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._inbox.popleft()

    def close(self) -> None:
        """Close both directions; the other end learns of it if the link passes."""
        if self._broken is None:
            self._tell_other("the other side closed the connection")
            self._break("the connection was closed on this side")

    # --- what happens to it ---------------------------------------------------------------------------------------

    def link_healed(self) -> None:
        """What waited for the link goes over it now, when TCP tries again."""
        if self._stalled is None:
            return
        stalled, self._stalled = self._stalled, None
        self._deadline()
        self._last_ns = self._loop.now_ns + int(self.link.rng.random() * RETRANSMISSION_MAX_NS)
        for message in stalled:
            self.send(message)

    def owner_died(self, *, silent: bool) -> None:
        """The process is gone; its kernel tells the other end, unless the whole machine is gone (`silent`)."""
        if not silent:
            self._tell_other("the other side's process ended")
        self._break("its process ended")

    def break_both(self, reason: str) -> None:
        """Break the connection at both ends at once."""
        self.other._break(reason)
        self._break(reason)

    def give_up(self, reason: str) -> None:
        """Break it here, and tell the other end if that gets through."""
        self._tell_other(reason)
        self._break(reason)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _next_ns(self) -> int:
        """When the next thing that is sent in order arrives: after everything before it."""
        arrives_ns, last_ns = self._loop.now_ns + self.link.delay_ns(), self._last_ns
        self._last_ns = arrives_ns if arrives_ns > last_ns else last_ns + 1
        return self._last_ns

    def _send_over_fault(self, message: bytes, fault: LinkFault) -> None:
        link = self.link
        if link.strikes(fault.loss):
            link.count("lost")
            return
        if link.strikes(fault.reorder):
            link.count("reordered")
            arrives_ns = max(self._loop.now_ns + link.delay_ns(), self._last_ns) + link.late_ns()
        else:
            arrives_ns = self._next_ns()
        self._loop.at(arrives_ns, lambda: self._arrive(message))
        if link.strikes(fault.duplicate):
            link.count("duplicated")
            self._loop.at(arrives_ns + link.late_ns(), lambda: self._arrive(message))

    def _arrive(self, message: bytes) -> None:
        """The message has crossed the link, if the link lets it."""
        link = self.link
        if self._broken is not None:
            return
        if link.cut:
            link.swallowed += 1
            self._stall(message)
        elif link.fault is not None and link.fault.held:
            link.hold(lambda: self._arrive(message))
        elif self._stalled is not None:
            self._stalled.append(message)
        else:
            self.other.deliver(message)

    def deliver(self, message: bytes) -> None:
        """Take a message in: the owner reads it when it can."""
        if self._broken is not None:
            self._answer_for_the_dead()
            return
        if self._trace is not None:
            source, destination = self.other.link.link
            self._trace.event(self._loop.now_ns, "message", f"{source}>{destination} {message.hex()}")
        self._inbox.append(message)
        if self._waiter is not None:
            self._post(self._wake)

    def _answer_for_the_dead(self) -> None:
        """What is sent to an end that is gone is answered with a reset, where an answer gets through."""
        owner = self.owner
        if owner is not None and owner.silent:
            self.other._stall(None)
        else:
            self._tell_other("connection reset by the other side")

    def _tell_other(self, reason: str) -> None:
        """Let the other end break as well, if the link passes when the news has crossed it."""
        other, link = self.other, self.link

        def told() -> None:
            if link.passes():
                other._break(reason)

        self._loop.at(self._next_ns(), told)

    def _stall(self, message: bytes | None) -> None:
        if self._broken is not None:
            return
        if self._stalled is None:
            self._stalled = []
            self._deadline = self._loop.after(
                GIVEN_UP_NS, lambda: self.give_up("no acknowledgement for two seconds")
            ).cancel
        if message is not None:
            self._stalled.append(message)

    def _break(self, reason: str) -> None:
        if self._broken is not None:
            return
        self._broken = reason
        self._stalled = None
        self._deadline()
        self.link.carried.pop(self, None)
        self._post(self._wake)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _post(self, callback: Callable[[], None]) -> None:
        if self.owner is None:
            callback()
        else:
            self.owner.post(callback)


def connection(
    loop: SimLoop,
    owners: tuple[SimProcess | None, SimProcess | None],
    links: tuple[SimLink, SimLink],
    trace: Trace | None,
) -> tuple[End, End]:
    """Both ends of a new connection; what the first one sends goes over the first link."""
    here, there = End(loop, owners[0], links[0], trace), End(loop, owners[1], links[1], trace)
    here.other, there.other = there, here
    return here, there


def _nothing() -> None:
    """Nothing is scheduled that could be cancelled."""

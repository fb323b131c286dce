"""Connections that carry bytes as TCP does: in order, each once, or not at all.

The faults of a link act on whole messages, and nothing repairs what they do (`connections`). That suits a protocol that
can miss a message. A program that reads a stream relies on TCP, where a lost or damaged packet is sent again and
arrives late, a doubled one is dropped, and later data waits for a late packet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from splitbrain.harness.contract.faults import LinkFault
from splitbrain.harness.simulation.connections import GIVEN_UP_NS, End, Fin, Item
from splitbrain.harness.simulation.links import SimLink

if TYPE_CHECKING:
    from splitbrain.harness.simulation.loop import SimLoop
    from splitbrain.harness.simulation.process import SimProcess
    from splitbrain.harness.simulation.trace import Trace

RETRANSMISSION_NS: Final = 200_000_000
"""When a packet that was lost is sent again, after that in twice the time (Linux's least timeout; RFC 6298)."""


class StreamEnd(End):
    """One end of a connection that carries a stream.

    Attributes:
        ended: whether the other end closed the connection in good order, or its process ended: the end of the stream.
        notify: called when there is something to take, or the connection is over.
    """

    __slots__ = ("ended", "notify")

    def __init__(self, loop: SimLoop, owner: SimProcess | None, link: SimLink, trace: Trace | None) -> None:
        super().__init__(loop, owner, link, trace)
        self.ended = False
        self.notify: Callable[[], None] | None = None

    @property
    def broken(self) -> str | None:
        """Why nothing more comes than what is there already; None while more may come."""
        return self._broken

    def take(self) -> bytes | None:
        """What came next, None if nothing is there."""
        return self._inbox.popleft() if self._inbox else None

    def reset(self) -> None:
        """Drop the connection and all data in flight."""
        self._give_up("connection reset by the other side")

    def _launch_over_fault(self, message: bytes, fault: LinkFault) -> None:
        late_ns = self._resending_ns(fault)
        queued_ns = self.link.queued_ns(len(message))
        if queued_ns is None or late_ns > GIVEN_UP_NS:
            self._give_up("the other side does not take what is sent to it")
            return
        if self.link.hits(fault.reorder):
            self.link.count("reordered")
            late_ns += self.link.late_ns()
        if self.link.hits(fault.duplicate):
            self.link.count("duplicated")
        self._lane.launch(self._busy_ns() + queued_ns + late_ns, self._arrive, message)

    def _resending_ns(self, fault: LinkFault) -> int:
        """How much time goes by until a message gets through that may be lost or damaged."""
        late_ns, timeout_ns = 0, RETRANSMISSION_NS
        while late_ns <= GIVEN_UP_NS:
            if self.link.hits(fault.loss):
                self.link.count("lost")
            elif self.link.hits(fault.corrupt):
                self.link.count("corrupted")
            else:
                break
            late_ns += timeout_ns
            timeout_ns *= 2
        return late_ns

    def _take(self, item: Item) -> None:
        open_until_now = self._broken is None
        if open_until_now and isinstance(item, Fin):
            self.ended = True
        super()._take(item)
        if open_until_now and not isinstance(item, Fin) and self.notify is not None:
            self._post(self.notify)

    def _wake(self) -> None:
        super()._wake()
        if self.notify is not None:
            self.notify()

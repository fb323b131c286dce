"""Connections over simulated links: two ends, whole messages, in order unless a fault of the link says otherwise.

A healthy link delivers everything after its latency. A cut swallows what is sent: the connection waits for it like TCP,
delivers it if the link heals soon, and breaks after two seconds otherwise, each end when it has reason to know. The
faults of a link (`LinkFault`) act on whole messages, and nothing repairs what they do: a message with a flipped bit
fails its checksum and is lost. One that is too large for a link is retransmitted in vain, as by TCP: messages behind it
wait, and after two seconds the connection breaks.

The path of a connection may stand still (`worlds.Stalls`) and has everything in its buffers then: the sender breaks the
connection after two seconds, and what it had sent arrives nevertheless, behind it the end of the connection.

What one end sends goes over one link, what the other sends over the reverse one, and a cut of either leaves the other
alone: TCP's acknowledgements are not modelled.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar, final

from splitbrain.harness.contract.faults import LinkFault
from splitbrain.harness.simulation.lanes import Lane
from splitbrain.harness.simulation.links import SimLink

if TYPE_CHECKING:
    from splitbrain.harness.simulation.loop import SimLoop, SimTimer
    from splitbrain.harness.simulation.process import SimProcess
    from splitbrain.harness.simulation.trace import Trace

_MS: Final = 1_000_000

GIVEN_UP_NS: Final = 2_000 * _MS
"""After so long without getting through a connection breaks (TCP_USER_TIMEOUT as the metadata cluster sets it)."""

WAITING_MAX: Final = 4096
"""Messages that wait on one connection for its link to open; more break it."""


_NOT_ACKNOWLEDGED: Final = "no acknowledgement for two seconds"
_NOT_TAKEN: Final = "the other side does not take what is sent to it"


@final
class Fin(NamedTuple):
    """The last message of an end: that it is closed, and why."""

    reason: str


Item: TypeAlias = bytes | Fin


class End:
    """One end of a connection (`splitbrain.cluster.runtime.Connection`, `MessageConnection`).

    What it sends crosses its link in order, its end (`Fin`) last. Messages wait while the link is cut or clogged, and
    so do those behind them. The sender's kernel does this: it continues after the process has closed the connection or
    ended, and stops with the machine, or when the kernel gives up the connection.
    """

    __slots__ = (
        "_arrives",
        "_broken",
        "_deadline",
        "_gives",
        "_inbox",
        "_lane",
        "_loop",
        "_may_stand",
        "_release",
        "_reset",
        "_stands",
        "_taker",
        "_trace",
        "_waiter",
        "_waiting",
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
        self._taker: Callable[[bytes], object] | None = None
        self._gives = False
        self._broken: str | None = None  # for its owner: why nothing can be sent or received any more
        self._reset = False  # for its kernel: whether nothing more crosses the link
        standstills = link.standstills()
        self._lane = Lane(loop, link, standstills)
        self._arrives = self._arrive
        self._may_stand = standstills is not None
        self._waiting: deque[Item] = deque()
        self._deadline: SimTimer | None = None
        self._stands = False  # whether what was sent does not arrive in time to be acknowledged
        self._release: SimTimer | None = None
        self.owner = owner
        self.link = link
        self.other: End
        link.carried[self] = None

    # --- what its owner calls -------------------------------------------------------------------------------------

    def send(self, message: bytes) -> None:
        """Queue a message; silently lost on a broken connection.

        What a process sends in the rest of a step in which it was paused leaves when it is resumed.
        """
        owner, link, lane = self.owner, self.link, self._lane
        if owner is not None and not owner.unhindered and owner.state != "running":
            owner.post(lambda: self.send(message))
        elif self._broken is None:
            if owner is not None and owner.message_ns:
                owner.compute(owner.message_ns)
            if (
                link.fault is None
                and not (self._may_stand or lane.under_way or self._reset)
                and (owner is None or not owner.busy_until_ns)
            ):
                lane.fly(self._arrives, message)  # as `_launch`, in most cases
            else:
                self._launch(message)

    async def receive(self) -> bytes:
        """The next message.

        Raises:
            ConnectionError: the other side was closed and all that it sent was received, or this side was closed.
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

    async def hand_over(self, take: Callable[[bytes], None]) -> None:
        """Call `take` with each message when it arrives. No task is woken for it.

        Raises:
            ConnectionError: as of `receive`.
            Exception: what `take` raised; nothing more is taken then.
        """
        over = self._waiter = asyncio.Future(loop=self._loop)
        # In the caller's context, as if the caller itself took each message.
        self._taker = partial(copy_context().run, take)
        try:
            self._wake()
            await over
        finally:
            self._waiter = self._taker = None

    def close(self) -> None:
        """Close both directions; the other end learns of it behind all that was sent.

        A process that is paused closes it when it is resumed.
        """
        if self.owner is not None and self.owner.state == "paused":
            self.owner.post(self.close)
            return
        self._finish("the other side closed the connection", "the connection was closed on this side")

    # --- what happens to it ---------------------------------------------------------------------------------------

    def owner_died(self, *, silent: bool) -> None:
        """The process has ended; its kernel does the rest, unless the whole machine lost power (`silent`)."""
        if silent:
            self._break("its machine lost power")
            self._stop_sending()
        else:
            self._finish("the other side's process ended", "its process ended")

    def break_both(self, reason: str) -> None:
        """Reset the connection: both ends at once, with all messages in flight."""
        for end in (self, self.other):
            end._stop_sending()
            end._break(reason)

    def link_opened(self, delay_ns: int) -> None:
        """Messages that waited for the link cross it after this delay, if it is still open then."""
        if self._waiting and self._release is None:
            self._give_up_no_more()
            self._release = self._loop.after(delay_ns, self._let_go)

    # --- sending --------------------------------------------------------------------------------------------------

    def _finish(self, to_other: str, here: str) -> None:
        if self._broken is None:
            self._break(here)
            self._launch(Fin(to_other))

    def _launch(self, item: Item) -> None:
        """Send something behind everything that was sent before."""
        if self._reset:
            return
        if self._may_stand and self._lane.stands_ns() > GIVEN_UP_NS and not self._stands:
            self._stands = True
            self._loop.after(GIVEN_UP_NS, self._abandon)
        fault = self.link.fault
        if fault is None or isinstance(item, Fin):
            owner = self.owner
            busy_ns = owner.busy_ns() if owner is not None and owner.busy_until_ns else 0
            self._lane.launch(busy_ns, self._arrive, item)
        else:
            self._launch_over_fault(item, fault)

    def _launch_over_fault(self, message: bytes, fault: LinkFault) -> None:
        link = self.link
        if link.hits(fault.loss):
            link.count("lost")
            return
        if link.hits(fault.corrupt):
            link.count("corrupted")
            return
        queued_ns = link.queued_ns(len(message))
        if queued_ns is None:
            self._give_up(_NOT_TAKEN)
            return
        queued_ns += self._busy_ns()
        if link.hits(fault.reorder):
            link.count("reordered")
            arrives_ns = self._lane.straggler_ns(queued_ns)
        else:
            arrives_ns = self._lane.next_ns(queued_ns)
        self._lane.carry(arrives_ns, self._arrive, message)
        if link.hits(fault.duplicate):
            link.count("duplicated")
            self._lane.carry(arrives_ns + link.late_ns(), self._arrive, message)

    def _busy_ns(self) -> int:
        """How long a message waits until its sender has computed it."""
        return 0 if self.owner is None else self.owner.busy_ns()

    def _arrive(self, item: Item) -> None:
        """The item has crossed the link, if the link lets it."""
        if self._reset:
            return
        link = self.link
        if self._waiting or link.cut or (link.fault is not None and (link.fault.held or self._too_large(item))):
            self._wait(item)
        else:
            self.other._take(item)

    def _wait(self, item: Item) -> None:
        """Keep something until the link opens; give the connection up if a cut swallows it for too long."""
        link = self.link
        link.carried[self] = None
        self._waiting.append(item)
        if link.cut:
            link.swallowed += 1
            self._give_up_in_time()
        elif not link.passes():
            link.count("held")
        elif self._too_large(item):
            link.count("oversized")
            self._give_up_in_time()
        if len(self._waiting) > WAITING_MAX:
            self._give_up(_NOT_TAKEN)

    def _too_large(self, item: Item) -> bool:
        return isinstance(item, bytes) and self.link.too_large(len(item))

    def _let_go(self) -> None:
        self._release = None
        if not self.link.passes():
            return  # until it opens again
        waiting, self._waiting = self._waiting, deque()
        while waiting and not self._too_large(waiting[0]):
            self.other._take(waiting.popleft())
        if waiting:
            self._waiting.extend(waiting)
            self._give_up_in_time()
        if self._broken is not None and not self._waiting:
            self.link.carried.pop(self, None)

    def _abandon(self) -> None:
        """Give the connection up while what was sent stands on its way: it arrives, and the end behind it."""
        if self._broken is None:
            self._send_reset(_NOT_ACKNOWLEDGED)
            self._break(_NOT_ACKNOWLEDGED)

    def _give_up_in_time(self) -> None:
        if self._deadline is None:
            self._deadline = self._loop.after(GIVEN_UP_NS, lambda: self._give_up(_NOT_ACKNOWLEDGED))

    def _give_up_no_more(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self, reason: str) -> None:
        """Break it here for good, and reset the other end if that gets through."""
        self._send_reset(reason)
        self._stop_sending()
        self._break(reason)

    def _send_reset(self, reason: str) -> None:
        """A reset is sent once: an end that it does not reach stays half open."""
        other, link = self.other, self.link

        def reset(reason: str) -> None:
            if link.passes():
                other._stop_sending()
                other._break(reason)

        self._lane.launch(0, reset, reason)

    def _stop_sending(self) -> None:
        self._reset = True
        self._waiting.clear()
        self._give_up_no_more()
        self.link.carried.pop(self, None)

    # --- receiving ------------------------------------------------------------------------------------------------

    def _take(self, item: Item) -> None:
        """Take in what has crossed the link: the owner reads it when it can."""
        if type(item) is Fin:
            self._break(item.reason)
        elif self._broken is not None:
            self._answer_for_the_dead(item)
        else:
            if self._trace is not None:
                self._note(item, self._trace)
            self._inbox.append(item)
            waiter, taker, owner = self._waiter, self._taker, self.owner
            if waiter is None:
                return
            if owner is None or (owner.unhindered and taker is None):
                self._wake()
            elif not owner.unhindered:
                owner.post(self._wake)
            elif taker is not None and not self._gives and not waiter.done():
                self._give(taker, waiter)  # as `_wake`

    def _answer_for_the_dead(self, message: bytes) -> None:
        """A machine with power answers a message to a closed end with a reset."""
        if self.owner is not None and self.owner.silent:
            self.other._waiting.append(message)
            self.other._give_up_in_time()
        else:
            self._send_reset("connection reset by the other side")

    def _note(self, message: bytes, trace: Trace) -> None:
        source, destination = self.other.link.link
        trace.event(self._loop.now_ns, "message", f"{source}>{destination} {message.hex()}")

    def _break(self, reason: str) -> None:
        if self._broken is not None:
            return
        self._broken = reason
        if not self._waiting:
            self.link.carried.pop(self, None)
        self._post(self._wake)

    def _wake(self) -> None:
        """Let the owner go on, which waits for a message or for the end of the connection."""
        waiter, taker = self._waiter, self._taker
        if waiter is None or waiter.done():
            return
        if taker is None:
            waiter.set_result(None)
        elif not self._gives:
            self._give(taker, waiter)

    def _give(self, taker: Callable[[bytes], object], over: asyncio.Future[None]) -> None:
        """Give the owner all messages that are here; stop as soon as one ends, pauses, occupies or disconnects it."""
        inbox, owner = self._inbox, self.owner
        self._gives = True  # what is done about a message may close the connection, and so come here again
        try:
            while inbox:
                if owner is not None and (owner.state != "running" or (owner.busy_until_ns and owner.busy_ns())):
                    owner.post(self._wake)
                    return
                taker(inbox.popleft())
                if over.done():
                    return
        except Exception as error:
            if not over.done():
                over.set_exception(error)
        finally:
            self._gives = False
        if self._broken is not None and not over.done():
            over.set_exception(ConnectionError(self._broken))

    def _post(self, callback: Callable[[], None]) -> None:
        if self.owner is None:
            callback()
        else:
            self.owner.post(callback)


EndT = TypeVar("EndT", bound=End)


def connection(
    kind: type[EndT],
    loop: SimLoop,
    owners: tuple[SimProcess | None, SimProcess | None],
    links: tuple[SimLink, SimLink],
    trace: Trace | None,
) -> tuple[EndT, EndT]:
    """Both ends of a new connection; what the first one sends goes over the first link."""
    here, there = kind(loop, owners[0], links[0], trace), kind(loop, owners[1], links[1], trace)
    here.other, there.other = there, here
    return here, there

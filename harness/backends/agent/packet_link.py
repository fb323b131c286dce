"""One directed link with a fault: a queue of packets, and what becomes of each of them.

What a packet's fate is, is drawn from the link's own seeded stream, in the order of packets and with as many draws for
one as for the other: the same sequence of packets has the same fates. Their times are real time.

A packet that must wait does not wait in the queue: the kernel drops it, and it is sent again when it is due.
Else it would count as not yet sent for the socket from which it comes, and a connection's throughput would fall with
the delay far below what its window allows (TCP small queues; netem orphans packets for the same reason).
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

from . import segments
from .nfqueue import Packet, Queue
from .tools import AgentError

LATE_S: Final = 0.1
"""How much later a duplicate, or a packet that others overtake, is sent at most."""

BACKLOG_S: Final = 2.0
"""The limit of waiting data of a rate-limited link; further packets are lost, as in front of a slow line."""

WAITING_BYTES_MAX: Final = 8 << 20
"""The limit of waiting data of one link; further packets are lost."""

CONNECTIONS_MAX: Final = 65_536
"""Connections that a link with resets keeps in mind."""


@dataclass(frozen=True)
class Fault:
    """The fields of `LinkFault`, and the seed of the link's stream."""

    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    resets: float = 0.0
    held: bool = False
    corrupt: float = 0.0
    rate_kbit: int = 0
    mtu: int = 0
    seed: int = 0

    @classmethod
    def of(cls, wanted: Mapping[str, Any]) -> Fault:
        """A fault as it came over the channel.

        Raises:
            AgentError: it has an unknown field.
        """
        unknown = sorted(set(wanted) - {field.name for field in fields(cls)})
        if unknown:
            raise AgentError(f"a fault of a link has no {', '.join(unknown)} here")
        return cls(**wanted)


class _Waiting(NamedTuple):
    due_s: float
    order: int
    copy: bool
    content: bytes
    late: bool


class PacketLink:
    """A link with a fault.

    Args:
        fault: what is wrong with it.
        queue: where its packets come in; the link closes it.
        send: sends a whole packet past all queues, out of the namespace of the queue; whether it went.

    Attributes:
        counts: what the fault did, by the words of `Deployment.disturbed`.
    """

    def __init__(self, fault: Fault, queue: Queue, send: Callable[[bytes], bool]) -> None:
        self.fault = fault
        self.queue = queue
        self.counts: dict[str, int] = {}
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._draw = random.Random(fault.seed).random
        self._draw_break = random.Random(f"{fault.seed} resets").random  # apart: it is drawn from in real time
        self._waiting: list[_Waiting] = []
        self._waiting_bytes = 0
        self._late = 0  # how many of those that wait may be overtaken, or are copies
        self._order = 0
        self._newest = 0
        self._last_due_s = 0.0
        self._free_at_s = 0.0
        self._open = False
        self._timer: asyncio.TimerHandle | None = None
        self._age = 0
        self._connections: dict[bytes, int] = {}  # the age of the link at which each was first seen
        self._next_break: asyncio.TimerHandle | None = None
        self._loop.add_reader(queue, self._arrived)
        if fault.resets > 0:
            self._schedule_break()

    def open(self) -> None:
        """From now on everything passes, first what waits, in the order in which it was sent."""
        self._open = True
        for timer in (self._timer, self._next_break):
            if timer is not None:
                timer.cancel()
        waiting, self._waiting = self._waiting, []
        for found in sorted(waiting, key=lambda found: found.order):
            if not found.copy:
                self._leave(found)

    def close(self) -> None:
        """Let what is still in the queue pass, and give it up; to be called when no rule leads to it any more."""
        if not self._open:
            self.open()
        while self._take_in():
            pass
        self._loop.remove_reader(self.queue)
        self.queue.close()

    # --- packets come -------------------------------------------------------------------------------------------------

    def _arrived(self) -> None:
        self._take_in()
        self._release()

    def _take_in(self) -> int:
        packets = self.queue.read()
        now_s = self._loop.time()
        judge = self._let_pass if self._open else self._hold if self.fault.held else self._judge
        for packet in packets:
            self._order += 1
            judge(packet, now_s)
        self.queue.flush()
        return len(packets)

    def _let_pass(self, packet: Packet, _now_s: float) -> None:
        self.queue.accept(packet.number)

    def _hold(self, packet: Packet, _now_s: float) -> None:
        if self._has_room(packet):
            self._count("held")
            self.queue.drop(packet.number)
            self._wait(_Waiting(float("inf"), self._order, False, packet.content, late=False))
        else:
            self._lose(packet, "overflowed")

    def _judge(self, packet: Packet, now_s: float) -> None:
        fault, content = self.fault, None
        length = segments.total_length(packet.content)
        lost, late, twice, corrupt = map(self._hits, (fault.loss, fault.reorder, fault.duplicate, fault.corrupt))
        jitter_s = fault.jitter_ms / 1e3 * self._draw() if fault.jitter_ms else 0.0
        late_s = LATE_S * self._draw() if fault.reorder else 0.0
        copy_late_s = LATE_S * self._draw() if fault.duplicate else 0.0
        where = self._draw() if fault.corrupt else 0.0
        if fault.mtu and length > fault.mtu:
            self._lose(packet, "oversized")
            return
        sent_s = self._through_the_line(now_s, 8 * length)
        if lost:
            self._lose(packet, "lost")
            return
        if sent_s is None or not self._has_room(packet):
            self._lose(packet, "overflowed")
            return
        if corrupt:
            content = segments.flip_a_bit(packet.content, where)
            self._count("corrupted")
        if fault.resets:
            content = self._broken(packet.content) or content
        delayed_s = sent_s + fault.delay_ms / 1e3 + jitter_s
        if delayed_s > sent_s:
            self._count("delayed")
        due_s = max(delayed_s, self._last_due_s)
        if late:
            due_s += late_s
        else:
            self._last_due_s = due_s
        if twice:
            self._wait(_Waiting(due_s + copy_late_s, self._order, True, content or packet.content, late=True))
        if content is None and due_s <= now_s and len(self._waiting) == self._late:
            self._newest = self._order
            self.queue.accept(packet.number)
        else:
            self.queue.drop(packet.number)
            self._wait(_Waiting(due_s, self._order, False, content or packet.content, late))

    def _hits(self, share: float) -> bool:
        return share > 0 and self._draw() < share

    def _lose(self, packet: Packet, word: str) -> None:
        self._count(word)
        self.queue.drop(packet.number)

    def _through_the_line(self, now_s: float, bits: int) -> float | None:
        """When a limited line has carried the packet; None if too many wait for it."""
        rate_kbit = self.fault.rate_kbit
        if not rate_kbit:
            return now_s
        behind_s = self._free_at_s - now_s
        if behind_s > BACKLOG_S:
            return None
        if behind_s > 0:
            self._count("queued")
        self._free_at_s = max(now_s, self._free_at_s) + bits / (rate_kbit * 1e3)
        return self._free_at_s

    # --- packets go ---------------------------------------------------------------------------------------------------

    def _has_room(self, packet: Packet) -> bool:
        return self._waiting_bytes + len(packet.content) <= WAITING_BYTES_MAX

    def _wait(self, found: _Waiting) -> None:
        heapq.heappush(self._waiting, found)
        self._waiting_bytes += len(found.content)
        self._late += found.late

    def _release(self) -> None:
        """Send what is due, and come again when the next packet is."""
        if self._open or self.fault.held:
            return
        now_s = self._loop.time()
        while self._waiting and self._waiting[0].due_s <= now_s:
            self._leave(heapq.heappop(self._waiting))
        self._come_again(self._waiting[0].due_s if self._waiting else None)

    def _leave(self, found: _Waiting) -> None:
        self._waiting_bytes -= len(found.content)
        self._late -= found.late
        if not self._send(found.content):
            self._count("overflowed")
        elif found.copy:
            self._count("duplicated")
        elif found.order < self._newest:
            self._count("reordered")
        else:
            self._newest = found.order

    def _come_again(self, due_s: float | None) -> None:
        if self._timer is not None:
            if self._timer.when() == due_s:
                return
            self._timer.cancel()
        self._timer = None if due_s is None else self._loop.call_at(due_s, self._due)

    def _due(self) -> None:
        self._timer = None
        self._release()

    # --- connections break --------------------------------------------------------------------------------------------

    def _schedule_break(self) -> None:
        self._next_break = self._loop.call_later(2 * self._draw_break() / self.fault.resets, self._break)

    def _break(self) -> None:
        """Break every connection seen so far, with its next packet, which has its sequence numbers."""
        self._age += 1
        self._schedule_break()

    def _broken(self, packet: bytes) -> bytes | None:
        """The reset for the receiver of a connection that must break, instead of the packet; the sender gets one
        too.
        """
        segment = segments.segment_in(packet)
        if segment is None:
            return None
        if len(self._connections) >= CONNECTIONS_MAX:
            self._connections.clear()
        if segment.opens:
            self._connections[segment.connection] = self._age
        if segment.ends or self._connections.setdefault(segment.connection, self._age) == self._age:
            return None
        del self._connections[segment.connection]
        self._count("reset")
        self._send(segments.reset_to_sender(segment))
        return segments.reset_to_receiver(segment)

    def _count(self, word: str) -> None:
        self.counts[word] = self.counts.get(word, 0) + 1

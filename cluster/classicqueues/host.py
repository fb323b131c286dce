"""What a node does about classic queues: it holds those that the metadata give to it, and passes on what is for others.

A queue is opened once its record is applied; its files outlive the process. They are removed once this process has seen
the record, and applied that it is gone: a node that starts applies its log again, and may not know a record yet.

Files of classic queues are read with numpy, which is loaded with the first queue: other nodes start without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import msgspec

from splitbrain.cluster.bugs import Bugs
from splitbrain.cluster.classicqueues.frames import (
    Answered,
    Ask,
    Look,
    OfQueue,
    Reply,
    decode_frame,
    decode_wanted,
    encode,
)
from splitbrain.cluster.classicqueues.part import Part
from splitbrain.cluster.classicqueues.records import ClassicRecord, Seen, records_in, seen_in
from splitbrain.cluster.marks import reached
from splitbrain.cluster.pending import Answering
from splitbrain.cluster.raft.messages import NodeId
from splitbrain.cluster.runtime import Runtime
from splitbrain.cluster.store import Store
from splitbrain.cluster.streams.frames import NotDone
from splitbrain.cluster.streams.requests import StreamRequests
from splitbrain.cluster.wire import ABOUT_CLASSIC, Failure

if TYPE_CHECKING:
    from splitbrain.cluster.classicqueues.held import HeldQueue

_NOT_HERE: Final = NotDone("unavailable", True, "the node does not hold the classic queue (yet): try again")
_NO_NUMPY: Final = (
    "this node has no numpy, which files of classic queues need: install it (Debian: python3-numpy), and start again"
)
_PAUSE_NS: Final = 5_000_000

Token: TypeAlias = Callable[[Reply], None]


class Links(Protocol):
    """The links to other nodes."""

    def send_if_up(self, to: NodeId, frame: bytes) -> bool:
        """Send a frame now, or not at all; whether it was sent."""
        ...


@dataclass(eq=False)
class _Place:
    """A queue that this node holds.

    Attributes:
        record: as it was applied last.
        queue: None until it is open, and from its end on.
        closed: what a request is answered meanwhile.
        under_way: requests that are being carried out.
        turn: held while the queue is opened, converted or removed.
        gives_back: whether messages are just going back.
    """

    record: ClassicRecord
    queue: HeldQueue | None = None
    closed: NotDone = _NOT_HERE
    under_way: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    gives_back: bool = False


class ClassicHost:
    """The classic queues of one node.

    Args:
        member: this node's id.
        node: its name.
        life: distinguishes this process from the node's earlier ones.
        runtime: of the node.
        links: to the other nodes.
        bugs: those that are switched on.
    """

    def __init__(self, member: NodeId, node: str, life: int, runtime: Runtime, links: Links, bugs: Bugs) -> None:
        self._member = member
        self._life = life
        self._runtime = runtime
        self._links = links
        self._bugs = bugs
        self._requests = StreamRequests(node, runtime.clock, "the node that holds the queue")
        self._records: dict[str, ClassicRecord] = {}
        self._places: dict[str, _Place] = {}
        self._seen: Seen | None = None

    # --- what is applied ------------------------------------------------------------------------------------------

    def applied(self, store: Store) -> None:
        """The metadata store of this node is at a later entry, or is another one."""
        seen = seen_in(store.tree)
        if seen == self._seen:
            return
        self._seen = seen
        self._records = dict(records_in(store.tree))
        ours = {record.id: record for record in self._records.values() if record.member == self._member}
        for each, record in ours.items():
            place = self._places.get(each)
            if place is None:
                place = self._places[each] = _Place(record)
                self._runtime.spawn(self._open(place), f"classic queue {each}")
            elif record != place.record:
                place.record = record
                self._runtime.spawn(self._convert(place), f"conversion of classic queue {each}")
        for each in [each for each in self._places if each not in ours]:
            self._runtime.spawn(self._remove(self._places.pop(each)), f"end of classic queue {each}")

    async def _open(self, place: _Place) -> None:
        try:
            from splitbrain.cluster.classicqueues.held import hold
        except ModuleNotFoundError:
            place.closed = NotDone("unavailable", True, _NO_NUMPY)
            return
        async with place.turn:
            disk, clock = self._part(place), self._runtime.clock
            place.queue = await hold(place.record, disk, self._bugs, self._life, clock)
        await self._convert(place)

    async def _convert(self, place: _Place) -> None:
        async with place.turn:
            if place.queue is not None and place.record.version == 2:
                await place.queue.convert()

    async def _remove(self, place: _Place) -> None:
        async with place.turn:
            queue, place.queue = place.queue, None
            while place.under_way or place.gives_back:
                await self._runtime.clock.sleep(_PAUSE_NS)
            if queue is not None:
                queue.close()
            disk = self._part(place)
            for name in disk.names():
                disk.remove(name)
            await disk.sync_names()

    def _part(self, place: _Place) -> Part:
        return Part(self._runtime.disk, f"classic-{place.record.id}-")

    def tick(self) -> None:
        """A moment has passed: what was taken long ago goes back."""
        for place in self._places.values():
            if place.queue is not None and not place.gives_back and place.queue.has_late:
                place.gives_back = True
                self._runtime.spawn(self._give_back(place, place.queue), "messages of a classic queue that go back")

    async def _give_back(self, place: _Place, queue: HeldQueue) -> None:
        try:
            await queue.give_back_late()
        finally:
            place.gives_back = False

    # --- requests -------------------------------------------------------------------------------------------------

    def serve(self, data: bytes, timeout_ms: int, answer: Answering) -> None:
        """A client of this node wants something of a classic queue; `answer` is called once, now or later."""
        try:
            wanted = decode_wanted(data)
        except msgspec.MsgspecError as error:
            detail = f"the request to a classic queue makes no sense: {error}"
            answer(0, Failure("invalid_request", True, detail), 0)
            return
        if timeout_ms < 1:
            answer(0, Failure("invalid_request", True, "the timeout must be 1 ms or more"), 0)
            return
        record = self._records.get(wanted.queue)
        if record is None:
            answer(0, Failure("unavailable", True, f"this node knows no classic queue {wanted.queue!r} (yet)"), 0)
            return
        number = self._requests.begin(timeout_ms, not isinstance(wanted, Look), answer)
        if number is None:
            return
        if record.member == self._member:
            self._ask_queue(record.id, wanted, self._requests.replier(number))
            return
        reached("request passed on to the node that holds a classic queue")
        if not self._links.send_if_up(
            record.member, ABOUT_CLASSIC + encode(Ask(record.id, self._life, number, wanted))
        ):
            detail = f"{record.member}, which holds classic queue {wanted.queue}, cannot be reached: try again"
            self._requests.replied(number, NotDone("unavailable", True, detail))

    def received(self, peer: NodeId, data: bytes) -> None:
        """Another node says something about a classic queue.

        Raises:
            msgspec.DecodeError: it makes no sense.
        """
        frame = decode_frame(data)
        if isinstance(frame, Ask):
            self._ask_queue(frame.id, frame.wanted, partial(self._reply_to, peer, frame.life, frame.ref))
        elif frame.life == self._life:
            self._requests.replied(frame.ref, frame.reply)

    def _reply_to(self, peer: NodeId, life: int, ref: int, reply: Reply) -> None:
        self._links.send_if_up(peer, ABOUT_CLASSIC + encode(Answered(life, ref, reply)))

    def _ask_queue(self, each: str, wanted: OfQueue, token: Token) -> None:
        place = self._places.get(each)
        if place is None or place.queue is None:
            token(_NOT_HERE if place is None else place.closed)
            return
        place.under_way += 1
        self._runtime.spawn(self._carry_out(place, place.queue, wanted, token), "request to a classic queue")

    async def _carry_out(self, place: _Place, queue: HeldQueue, wanted: OfQueue, token: Token) -> None:
        try:
            token(await queue.carry_out(wanted))
        finally:
            place.under_way -= 1

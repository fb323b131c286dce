"""What a node does about classic queues: it holds those that the metadata give to it, and passes on what is for others.

A queue is opened once its record is applied; its files outlive the process. They are removed once this process has seen
the record, and applied that it is gone: a node that starts applies its log again, and may not know a record yet.

Files of classic queues are read with numpy, which is loaded with the first queue: other nodes start without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import msgspec

from splitbrain.cluster.bugs import Bugs
from splitbrain.cluster.classicqueues.conversions import FILES, NO_NUMPY, Conversions
from splitbrain.cluster.classicqueues.frames import (
    Answered,
    Ask,
    AskNode,
    AtNode,
    Look,
    LookAtNode,
    MayConvert,
    OfNode,
    OfQueue,
    Put,
    Reply,
    Stored,
    decode_frame,
    decode_reply,
    decode_wanted,
    encode,
)
from splitbrain.cluster.classicqueues.part import Part
from splitbrain.cluster.classicqueues.records import ClassicRecord, Seen, records_in, seen_in
from splitbrain.cluster.errors import ConversionRefusedError
from splitbrain.cluster.marks import reached
from splitbrain.cluster.pending import Answering
from splitbrain.cluster.permits import Thresholds
from splitbrain.cluster.queues import encode_command
from splitbrain.cluster.queues.commands import Annotations, Enqueue
from splitbrain.cluster.raft.messages import NodeId
from splitbrain.cluster.runtime import Runtime
from splitbrain.cluster.store import Store
from splitbrain.cluster.streams.frames import NotDone
from splitbrain.cluster.streams.requests import StreamRequests
from splitbrain.cluster.tree import Tree, Value
from splitbrain.cluster.wire import ABOUT_CLASSIC, Failure, Outcome

if TYPE_CHECKING:
    from splitbrain.cluster.classicqueues.held import HeldQueue

_NOT_HERE: Final = NotDone("unavailable", True, "the node does not hold the classic queue (yet): try again")
_STOPS: Final = NotDone("unavailable", True, "the node that holds the classic queue stops: try again later")
_PAUSE_NS: Final = 5_000_000

HAND_OVER_MS: Final = 1000
"""After so long it is not known whether another queue has a dead letter."""

Token: TypeAlias = Callable[[Reply], None]

Publish: TypeAlias = Callable[[str, bytes, Callable[[bool], None]], None]
"""Has a quorum queue carry out a command, and says once, now or later, whether it confirmed that."""


class Links(Protocol):
    """The links to other nodes."""

    def send_if_up(self, to: NodeId, frame: bytes) -> bool:
        """Send a frame now, or not at all; whether it was sent."""
        ...


class Policies(Protocol):
    """What policies say of queues."""

    def look(self, tree: Tree) -> bool:
        """See what they say now; whether that changed."""
        ...

    def of_queue(self, name: str) -> Mapping[str, Any]:
        """The settings that count for a queue."""
        ...


@dataclass(eq=False)
class _Place:
    """A queue that this node holds.

    Attributes:
        record: as it was applied last.
        policy: the settings that policies have for it.
        queue: None until it is open, and from its end on.
        closed: what a request is answered meanwhile.
        under_way: requests that are being carried out.
        turn: held while the queue is opened, converted or removed.
        gives_back: whether messages are just going back.
        refused: why its files were not converted yet, None while there is nothing to convert.
    """

    record: ClassicRecord
    policy: Mapping[str, Any] = field(default_factory=dict[str, Any])
    queue: HeldQueue | None = None
    closed: NotDone = _NOT_HERE
    under_way: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    gives_back: bool = False
    refused: str | None = None


class ClassicHost:
    """The classic queues of one node.

    Args:
        member: this node's id.
        node: its name.
        life: distinguishes this process from the node's earlier ones.
        runtime: of the node.
        links: to the other nodes.
        policies: of queues.
        publish: to a quorum queue.
        thresholds: how much may be converted at once.
        bugs: those that are switched on.
    """

    def __init__(
        self,
        member: NodeId,
        node: str,
        life: int,
        runtime: Runtime,
        links: Links,
        *,
        policies: Policies,
        publish: Publish,
        thresholds: Thresholds,
        bugs: Bugs,
    ) -> None:
        self._member = member
        self._life = life
        self._runtime = runtime
        self._links = links
        self._policies = policies
        self._publish = publish
        self._bugs = bugs
        self._conversions = Conversions(runtime.disk, thresholds)
        self._requests = StreamRequests(node, runtime.clock, "the node that holds the queue")
        self._records: dict[str, ClassicRecord] = {}
        self._places: dict[str, _Place] = {}
        self._seen: Seen | None = None

    # --- what is applied ------------------------------------------------------------------------------------------

    def applied(self, store: Store) -> None:
        """The metadata store of this node is at a later entry, or is another one."""
        seen = seen_in(store.tree)
        has_news = seen != self._seen
        if seen is not None:
            has_news |= self._policies.look(store.tree)
        if not has_news:
            return
        self._seen = seen
        self._records = dict(records_in(store.tree))
        ours = {record.id: name for name, record in self._records.items() if record.member == self._member}
        for each, name in ours.items():
            self._applied_of_queue(each, self._records[name], self._policies.of_queue(name))
        for each in [each for each in self._places if each not in ours]:
            self._runtime.spawn(self._remove(self._places.pop(each)), f"end of classic queue {each}")

    def _applied_of_queue(self, each: str, record: ClassicRecord, policy: Mapping[str, Any]) -> None:
        place = self._places.get(each)
        if place is None:
            place = self._places[each] = _Place(record, policy)
            self._runtime.spawn(self._open(place), f"classic queue {each}")
        elif (record, policy) != (place.record, place.policy):
            place.record, place.policy = record, policy
            self._runtime.spawn(self._adjust(place), f"settings of classic queue {each}")

    async def _open(self, place: _Place) -> None:
        try:
            from splitbrain.cluster.classicqueues.held import hold
        except ModuleNotFoundError:
            place.closed = NO_NUMPY
            return
        async with place.turn:
            disk, hand_over, table = self._part(place), self._hand_over, await self._conversions.table()
            place.queue = await hold(
                place.record, place.policy, disk, table, self._bugs, self._life, self._runtime, hand_over
            )
        await self._adjust(place)

    async def _adjust(self, place: _Place) -> None:
        """Have a queue as record and policies say."""
        async with place.turn:
            queue = place.queue
            if queue is None:
                return
            await queue.set(place.record, place.policy)
            if place.record.version == 2:
                await self._convert(place, queue)

    async def _convert(self, place: _Place, queue: HeldQueue) -> None:
        try:
            await queue.convert()
        except ConversionRefusedError as error:
            reached("conversion of a classic queue refused")
            if place.refused is None:
                self._runtime.log(f"classic queue {place.record.id}: {error}")
            place.refused = str(error)
            if error.reason == "not_enabled":  # its record is of a node that had no table
                await self._conversions.ask(queue.unconverted)
        else:
            place.refused = None

    async def _ended(self, place: _Place) -> HeldQueue | None:
        """A queue that nothing uses any more; None if it was not open."""
        queue, place.queue = place.queue, None
        if queue is not None:
            queue.end()
        while place.under_way or place.gives_back or (queue is not None and queue.is_dropping):
            await self._runtime.clock.sleep(_PAUSE_NS)
        return queue

    async def stop(self) -> None:
        """Stop in good order: all queues write down what is in memory only, and are held no more.

        Raises:
            OSError: it is not known what is durable.
        """
        for place in list(self._places.values()):
            place.closed = _STOPS
            async with place.turn:
                queue = await self._ended(place)
                if queue is not None:
                    await queue.stop()

    async def _remove(self, place: _Place) -> None:
        async with place.turn:
            queue = await self._ended(place)
            if queue is not None:
                queue.close()
            disk = self._part(place)
            for name in disk.names():
                disk.remove(name)
            await disk.sync_names()

    def _part(self, place: _Place) -> Part:
        return Part(self._runtime.disk, f"{FILES}{place.record.id}-")

    def tick(self) -> None:
        """A moment has passed: what was taken long ago goes back, and what was refused is tried again."""
        for place in self._places.values():
            if place.refused is not None and not place.turn.locked():
                self._runtime.spawn(self._adjust(place), f"conversion of classic queue {place.record.id}")
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
        if isinstance(wanted, AtNode):
            self._serve_at(wanted, timeout_ms, answer)
        else:
            self._serve(wanted, timeout_ms, answer)

    def _serve_at(self, wanted: AtNode, timeout_ms: int, answer: Answering) -> None:
        number = self._requests.begin(timeout_ms, not isinstance(wanted.wanted, LookAtNode), answer)
        if number is None:
            return
        if wanted.member == self._member:
            self._ask_node(wanted.wanted, self._requests.replier(number))
        else:
            frame = AskNode(self._life, number, wanted.wanted)
            self._pass_on(wanted.member, frame, f"{wanted.member} cannot be reached: try again")

    def _pass_on(self, member: NodeId, frame: Ask | AskNode, problem: str) -> None:
        if not self._links.send_if_up(member, ABOUT_CLASSIC + encode(frame)):
            self._requests.replied(frame.ref, NotDone("unavailable", True, problem))

    def _serve(self, wanted: OfQueue, timeout_ms: int, answer: Answering) -> None:
        record = self._records.get(wanted.queue)
        if record is None:
            answer(0, Failure("unavailable", True, f"this node knows no classic queue {wanted.queue!r} (yet)"), 0)
            return
        number = self._requests.begin(timeout_ms, not isinstance(wanted, Look | MayConvert), answer)
        if number is None:
            return
        if record.member == self._member:
            self._ask_queue(record.id, wanted, self._requests.replier(number))
            return
        reached("request passed on to the node that holds a classic queue")
        problem = f"{record.member}, which holds classic queue {wanted.queue}, cannot be reached: try again"
        self._pass_on(record.member, Ask(record.id, self._life, number, wanted), problem)

    def received(self, peer: NodeId, data: bytes) -> None:
        """Another node says something about a classic queue.

        Raises:
            msgspec.DecodeError: it makes no sense.
        """
        frame = decode_frame(data)
        if isinstance(frame, Ask):
            self._ask_queue(frame.id, frame.wanted, partial(self._reply_to, peer, frame.life, frame.ref))
        elif isinstance(frame, AskNode):
            self._ask_node(frame.wanted, partial(self._reply_to, peer, frame.life, frame.ref))
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
            if isinstance(wanted, MayConvert):
                token(await self._conversions.ask(queue.unconverted))
            else:
                token(await queue.carry_out(wanted))
        finally:
            place.under_way -= 1

    def _ask_node(self, wanted: OfNode, token: Token) -> None:
        self._runtime.spawn(self._carry_out_here(wanted, token), "request about classic queues")

    async def _carry_out_here(self, wanted: OfNode, token: Token) -> None:
        held = [place.queue for place in self._places.values() if place.queue is not None]
        token(await self._conversions.carry_out(wanted, [queue.unconverted for queue in held]))

    # --- dead letters ---------------------------------------------------------------------------------------------

    async def _hand_over(self, to: str, body: bytes, annotations: Annotations) -> bool:
        """Have another queue take a dead letter: a classic one, or else a quorum queue of the name; whether it has."""
        has_it: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def answered(is_there: bool) -> None:
            if not has_it.done():
                has_it.set_result(is_there)

        def heard(_term: int, outcome: Outcome, _index: int) -> None:
            answered(isinstance(outcome, Value) and isinstance(decode_reply(outcome.data), Stored))

        if to in self._records:
            self._serve(Put(to, body, annotations), HAND_OVER_MS, heard)
        else:
            self._publish(to, encode_command(Enqueue(None, None, body, annotations=annotations)), answered)
        return await has_it

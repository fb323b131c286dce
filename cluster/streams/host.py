"""What a node does about streams: it carries out what the coordinator's log asks of its copies, and serves clients.

The coordinator's group begins with the first stream: a tree node of the metadata names its founders. A node that joins
the cluster later begins its member, too, and the leader of the group takes that in (`cluster.streamreplicas`). What a
copy is to do stands in the state that this node has applied (`splitbrain.cluster.streams.coordinator`), and no frame
asks for it. A node that starts may apply again what it applied before: each action has an index, and a copy that of its
first one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from splitbrain.cluster.bugs import Bugs
from splitbrain.cluster.commands import decode_value
from splitbrain.cluster.groupnames import COORDINATOR_PATH
from splitbrain.cluster.marks import reached
from splitbrain.cluster.pending import Answering
from splitbrain.cluster.raft.messages import NodeId
from splitbrain.cluster.runtime import Runtime
from splitbrain.cluster.store import Store
from splitbrain.cluster.streams.chunks import StreamMessage
from splitbrain.cluster.streams.commands import (
    CaughtUp,
    Established,
    Failed,
    Gone,
    MemberDown,
    OfMembers,
    Started,
    Stopped,
    encode,
)
from splitbrain.cluster.streams.copies import CopyFiles, found_copies
from splitbrain.cluster.streams.frames import (
    Answered,
    Ask,
    Attach,
    Attached,
    Chunks,
    Confirmed,
    Frame,
    NotDone,
    OfReplica,
    OfStream,
    OfWriter,
    Publish,
    Pull,
    ReadFrom,
    Reply,
    decode_frame,
    decode_wanted,
)
from splitbrain.cluster.streams.frames import encode as encode_frame
from splitbrain.cluster.streams.member import (
    BATCH_BYTES,
    AnswerTo,
    AppendChunks,
    Effect,
    Meta,
    Persist,
    Replace,
    SayEstablished,
    SendTo,
    StreamMember,
    Truncate,
)
from splitbrain.cluster.streams.promises import Promises
from splitbrain.cluster.streams.requests import StreamRequests
from splitbrain.cluster.streams.retention import Retention
from splitbrain.cluster.streams.state import Action, State, Stream
from splitbrain.cluster.streams.store import StreamStore
from splitbrain.cluster.wire import ABOUT_STREAMS, Failure

COMMAND_MS: Final = 1000
"""How long a command to the coordinator may take; nothing waits for it, and a later tick sends it again."""

MAX_AT_ONCE: Final = 256
"""Messages in one chunk at most."""

_MS: Final = 1_000_000

_NO_COPY: Final = NotDone("unavailable", True, "this node has no copy of the stream: try again")

Token: TypeAlias = Callable[[Reply], None]


class Links(Protocol):
    """The links to other nodes."""

    def send_if_up(self, to: NodeId, frame: bytes) -> bool:
        """Send a frame now, or not at all; whether it was sent."""
        ...


@dataclass(frozen=True)
class _Do:
    action: Action
    name: str
    writer: str | None
    voters: tuple[str, ...]


@dataclass(frozen=True)
class _Heard:
    sender: str
    frame: OfWriter | OfReplica


@dataclass(frozen=True)
class _Wanted:
    wanted: OfStream
    token: Token


@dataclass(frozen=True)
class _Moment:
    """A moment has passed."""


_Event: TypeAlias = _Do | _Heard | _Wanted | _Moment


@dataclass(eq=False)
class _Copy:
    """A copy, and what happened to it and is not handled yet.

    Attributes:
        number: of the stream.
        files: of the copy.
        promises: what its telemetry says of those that it makes as a writer.
        member: None while there is none, or none any more.
        events: in order.
        works: whether they are being handled.
        asked: index of the last action that was begun.
        result: the answer to it, once there is one.
    """

    number: int
    files: CopyFiles
    promises: Promises
    member: StreamMember | None = None
    events: deque[_Event] = field(default_factory=deque[_Event])
    works: bool = False
    asked: int = 0
    result: OfMembers | None = None


class StreamHost:
    """The copies of one node.

    Args:
        member: this node's id.
        node: its name.
        life: distinguishes this process from the node's earlier ones.
        runtime: of the node.
        links: to the other nodes.
        command: has the coordinator carry out a command; its answer is dropped.
        has_group: whether this node has a member of the coordinator's group, one that stopped included.
        begin: has it take part in that group, with these founders.
        bugs: those that are switched on.
        policy_of: the settings that policies have for a stream, by a state of the metadata.
    """

    def __init__(
        self,
        member: NodeId,
        node: str,
        life: int,
        runtime: Runtime,
        links: Links,
        command: Callable[[bytes], None],
        has_group: Callable[[], bool],
        begin: Callable[[Sequence[NodeId]], Awaitable[None]],
        bugs: Bugs,
        policy_of: Callable[[Store, str], Mapping[str, Any]],
    ) -> None:
        self._policy_of = policy_of
        self._member = member
        self._node = node
        self._life = life
        self._runtime = runtime
        self._links = links
        self._command = command
        self._has_group = has_group
        self._begin = begin
        self._bugs = bugs
        self._requests = StreamRequests(node, runtime.clock)
        self._copies: dict[int, _Copy] = {}
        self._state = State()
        self._index = 0
        self._seen = 0
        self._metadata: Store | None = None

    @property
    def state(self) -> State:
        """All streams, as this node has applied them; only to be looked at."""
        return self._state

    async def start(self) -> None:
        """Read the copies on disk; they take part in nothing until they are asked to.

        Raises:
            CorruptStorageError: a file is damaged.
            OSError: the disk failed.
        """
        for meta, chunks, files in await found_copies(self._runtime.disk, self._member):
            self._copies[meta.stream] = self._copy(meta.stream, files, StreamMember(meta, chunks, self._bugs))

    def _copy(self, number: int, files: CopyFiles, member: StreamMember | None = None) -> _Copy:
        runtime = self._runtime
        promises = Promises(number, self._member, self._node, runtime.clock, runtime.telemetry)
        return _Copy(number, files, promises, member)

    # --- what is applied ------------------------------------------------------------------------------------------

    def metadata_applied(self, store: Store) -> None:
        """The metadata store of this node is at a later entry, or is another one."""
        self._metadata = store
        found = store.tree.properties(COORDINATOR_PATH)
        seen = 0 if found is None else found.payload_version
        if seen == self._seen:
            return
        self._seen = seen
        if found is not None and isinstance(found.payload, bytes) and not self._has_group():
            founders = decode_value(found.payload)
            reached("coordinator of streams begun")
            if self._member not in founders:
                reached("coordinator of streams begun on a node that came later")
            self._runtime.spawn(self._begin(founders), "group of the coordinator of streams")

    def applied(self, store: Store) -> None:
        """The coordinator's state is at a later entry, or is another one."""
        assert isinstance(store, StreamStore), "the group is the coordinator's"
        self._state, self._index = store.state, store.applied_index
        for stream in self._state.streams.values():
            member = stream.members.get(self._member)
            if member is not None and member.action is not None:
                self._act(stream, member.action)
        for number, copy in list(self._copies.items()):
            stream = self._state.streams.get(number)
            is_over = stream is None or self._member not in stream.members
            if is_over and copy.member is None and not copy.works:
                del self._copies[number]
            elif is_over and copy.member is not None and copy.member.meta.born <= self._index:
                self._hand(copy, _Do(Action("delete", 0, 0, 0), "", None, ()))

    def _act(self, stream: Stream, action: Action) -> None:
        copy = self._copies.get(stream.id)
        if copy is None:
            copy = self._copies[stream.id] = self._copy(stream.id, CopyFiles(self._runtime.disk, stream.id))
        if copy.asked < action.index:
            copy.asked, copy.result = action.index, None
            self._hand(copy, _Do(action, stream.name, stream.writer, stream.voters))

    def tick(self) -> None:
        """A moment has passed: repeat what may have been lost."""
        for number, copy in list(self._copies.items()):
            stream = self._state.streams.get(number)
            member = None if stream is None else stream.members.get(self._member)
            own = copy.member
            if stream is not None and member is not None:
                if member.action is not None:
                    if copy.result is not None and copy.asked == member.action.index:
                        self._say(copy.result)
                elif member.phase in ("running", "disconnected") and not self._takes_part(own, member.epoch):
                    self._say(MemberDown(number, self._member, member.epoch))
                if own is not None and own.is_established and own.epoch == stream.epoch and not stream.established:
                    self._say(Established(number, own.epoch))
                if member.learns and own is not None and own.has_caught_up and own.epoch == stream.epoch:
                    self._say(CaughtUp(number, self._member, own.epoch))
            if own is not None:
                self._hand(copy, _Moment())

    def _takes_part(self, own: StreamMember | None, epoch: int) -> bool:
        """Whether this copy takes part in an epoch, or in a later one."""
        return own is not None and own.role != "stopped" and own.epoch >= epoch

    def _say(self, command: OfMembers) -> None:
        self._command(encode(command))

    # --- the events of a copy, one after another ------------------------------------------------------------------

    def _hand(self, copy: _Copy, event: _Event) -> None:
        copy.events.append(event)
        if not copy.works:
            copy.works = True
            self._runtime.spawn(self._work(copy), "copy of a stream")

    async def _work(self, copy: _Copy) -> None:
        try:
            while copy.events:
                event = copy.events.popleft()
                if isinstance(event, _Do):
                    await self._do(copy, event)
                elif copy.member is not None:
                    await self._carry_out(copy, copy.member, self._effects(copy, copy.member, event))
                elif isinstance(event, _Wanted):
                    event.token(_NO_COPY)
        finally:
            copy.works = False

    async def _do(self, copy: _Copy, wanted: _Do) -> None:
        action = wanted.action
        if action.kind == "delete":
            await self._remove(copy, action)
            return
        if copy.member is None and action.kind != "write":
            meta = Meta(self._member, copy.number, wanted.name, action.index)
            await copy.files.create(meta)
            copy.member = StreamMember(meta, (), self._bugs)
        effects = None if copy.member is None else self._begun(copy, copy.member, wanted)
        if copy.member is None or effects is None:
            copy.result = Failed(copy.number, self._member, action.index)
        else:
            await self._carry_out(copy, copy.member, effects)
            if action.kind == "stop":
                copy.result = Stopped(copy.number, self._member, action.index, copy.member.log.end)
            else:
                copy.result = Started(copy.number, self._member, action.index)
        self._say(copy.result)

    def _begun(self, copy: _Copy, member: StreamMember, wanted: _Do) -> list[Effect] | None:
        epoch, committed = wanted.action.epoch, member.committed
        match wanted.action.kind:
            case "stop":
                return member.stop(epoch)
            case "write":
                effects = member.write(epoch, wanted.voters, self._wall_ms)
                if effects is not None:
                    copy.promises.begins(epoch, committed)
                return effects
            case _ if wanted.writer is not None:
                return member.follow(epoch, wanted.writer, self._now_ms)
            case _:
                return None

    async def _remove(self, copy: _Copy, action: Action) -> None:
        if copy.member is not None and action.index and copy.member.meta.born > action.index:
            return  # this node applies the log again from before it was given the copy that it has now
        own, copy.member = copy.member, None
        if own is not None:
            for effect in own.stop(own.epoch) or ():
                if isinstance(effect, AnswerTo):
                    effect.token(effect.reply)
            await copy.files.remove()
        if action.index:
            copy.result = Gone(copy.number, self._member, action.index)
            self._say(copy.result)

    def _effects(self, copy: _Copy, member: StreamMember, event: _Event) -> list[Effect]:
        match event:
            case _Moment():
                return [*member.retain(self._retention(copy), self._wall_ms), *member.tick(self._now_ms)]
            case _Wanted(Publish(_, message), token):
                return member.publish([(message, token), *self._more(copy, message.size)], self._wall_ms)
            case _Wanted(ReadFrom() as wanted, token):
                return [AnswerTo(token, member.read(wanted))]
            case _Heard(sender, Attach() as frame):
                return member.asked_to_attach(sender, frame)
            case _Heard(sender, Pull() as frame):
                copy.promises.has(frame.epoch, sender, frame.end)
                return member.pulled(sender, frame)
            case _Heard(sender, Attached() as frame):
                return member.attached(sender, frame, self._now_ms)
            case _Heard(sender, Chunks() as frame):
                return member.chunks(sender, frame, self._now_ms)
            case _:
                raise AssertionError("a copy hears of nothing else")

    def _retention(self, copy: _Copy) -> Retention:
        """What is to be kept of a stream; all of one that this node does not know (any more)."""
        stream = self._state.streams.get(copy.number)
        store = self._metadata
        if stream is None or store is None:
            return Retention() if stream is None else stream.retention
        return stream.retention.within(self._policy_of(store, stream.name))

    def _more(self, copy: _Copy, size: int) -> list[tuple[StreamMessage, Token]]:
        """The messages behind the first one, of this size, that can be written with it."""
        more: list[tuple[StreamMessage, Token]] = []
        while copy.events and len(more) < MAX_AT_ONCE and size < BATCH_BYTES:
            event = copy.events[0]
            if not isinstance(event, _Wanted) or not isinstance(event.wanted, Publish):
                break
            copy.events.popleft()
            size += event.wanted.message.size
            more.append((event.wanted.message, event.token))
        return more

    async def _carry_out(self, copy: _Copy, member: StreamMember, effects: Sequence[Effect]) -> None:
        confirmed = 0
        for effect in effects:
            match effect:
                case Persist(meta):
                    await copy.files.persist(meta)
                case AppendChunks(records):
                    await copy.files.append(records)
                    if member.role == "writer":
                        copy.promises.written(member.epoch, member.log.end)
                case Truncate(size):
                    await copy.files.truncate(size)
                case Replace(content):
                    await copy.files.replace(content)
                case SendTo(to, frame):
                    self._send(to, frame)
                case AnswerTo(token, reply):
                    token(reply)
                    if type(reply) is Confirmed and reply.offset is not None:
                        confirmed = max(confirmed, reply.offset + 1)
                case SayEstablished(epoch):
                    self._say(Established(member.meta.stream, epoch))
        if member.role == "writer":
            copy.promises.made(member.epoch, member.voters, max(confirmed, member.committed))

    def _send(self, to: str, frame: Frame) -> None:
        self._links.send_if_up(to, ABOUT_STREAMS + encode_frame(frame))

    @property
    def _now_ms(self) -> int:
        return self._runtime.clock.monotonic_ns() // _MS

    @property
    def _wall_ms(self) -> int:
        return self._runtime.clock.wall_ns() // _MS

    # --- messages and requests ------------------------------------------------------------------------------------

    def received(self, peer: NodeId, data: bytes) -> None:
        """Another node says something about a stream.

        Raises:
            msgspec.DecodeError: it makes no sense.
        """
        frame = decode_frame(data)
        match frame:
            case Answered(life, ref, reply):
                if life == self._life:
                    self._requests.replied(ref, reply)
            case Ask(stream, life, ref, wanted):
                self._ask_copy(stream, wanted, partial(self._reply_to, peer, life, ref))
            case _:
                copy = self._copies.get(frame.stream)
                if copy is not None:
                    self._hand(copy, _Heard(peer, frame))

    def _reply_to(self, peer: NodeId, life: int, ref: int, reply: Reply) -> None:
        self._send(peer, Answered(life, ref, reply))

    def _ask_copy(self, stream: int, wanted: OfStream, token: Token) -> None:
        copy = self._copies.get(stream)
        if copy is None:
            token(_NO_COPY)
        else:
            self._hand(copy, _Wanted(wanted, token))

    def serve(self, data: bytes, timeout_ms: int, answer: Answering) -> None:
        """A client of this node wants something of a stream; `answer` is called once, now or later."""
        try:
            wanted = decode_wanted(data)
        except msgspec.MsgspecError as error:
            answer(0, Failure("invalid_request", True, f"the request to a stream makes no sense: {error}"), 0)
            return
        problem = wanted.problem if timeout_ms > 0 else "the timeout must be 1 ms or more"
        if problem is not None:
            answer(0, Failure("invalid_request", True, problem), 0)
            return
        stream = self._state.named(wanted.stream)
        if stream is None:
            detail = f"this node knows no stream {wanted.stream!r} (yet)"
            answer(0, Failure("unavailable", True, detail), 0)
            return
        number = self._requests.begin(timeout_ms, isinstance(wanted, Publish), answer)
        if number is None:
            return
        copy = self._copies.get(stream.id)
        own = None if copy is None else copy.member
        if own is not None and (isinstance(wanted, ReadFrom) or own.role == "writer"):
            self._ask_copy(stream.id, wanted, self._requests.replier(number))
        elif stream.writer is None or not self._pass_on(stream.id, stream.writer, number, wanted):
            detail = f"the writer of stream {stream.name} is not known, or cannot be reached: try again"
            self._requests.replied(number, NotDone("unavailable", True, detail))

    def _pass_on(self, stream: int, writer: str, number: int, wanted: OfStream) -> bool:
        if writer == self._member:
            return False
        reached("request passed on to the writer of a stream")
        return self._links.send_if_up(writer, ABOUT_STREAMS + encode_frame(Ask(stream, self._life, number, wanted)))

"""A coordinator and copies of one stream without nodes: every step is drawn, and so is what becomes of each frame."""

from __future__ import annotations

import random
from typing import Any

from splitbrain.cluster.bugs import NO_BUGS, Bugs
from splitbrain.cluster.machine import NodeDown, NodeUp, Timeout
from splitbrain.cluster.streams.chunks import Chunk, StreamMessage, chunks_in
from splitbrain.cluster.streams.commands import (
    AddReplica,
    Answered,
    CaughtUp,
    DeleteReplica,
    Established,
    Failed,
    Gone,
    Logged,
    MemberDown,
    NewStream,
    Started,
    Stopped,
)
from splitbrain.cluster.streams.coordinator import RETRY, Coordinator
from splitbrain.cluster.streams.frames import Attach, Attached, Chunks, Confirmed, Frame, Pull, ReadFrom
from splitbrain.cluster.streams.member import (
    AnswerTo,
    AppendChunks,
    Effect,
    Meta,
    Persist,
    SayEstablished,
    SendTo,
    StreamMember,
    Truncate,
)
from splitbrain.cluster.streams.state import Action, State, Stream, decode_state, encode_state

NODES = ("n1", "n2", "n3", "n4", "n5")


class Disk:
    """What a copy has durably."""

    def __init__(self, meta: Meta) -> None:
        self.meta = meta
        self.log = b""

    def chunks(self) -> list[Chunk]:
        return list(chunks_in("log", self.log)[0])


class Pure:
    """One stream.

    Attributes:
        confirmed: the value of each message that was confirmed, by offset.
    """

    def __init__(self, seed: int, members: int = 3, bugs: Bugs = NO_BUGS) -> None:
        self.draw = random.Random(seed)
        self.bugs = bugs
        self.coordinator = Coordinator(State(), bugs)
        self.index = self.now = 0
        self.disks: dict[str, Disk] = {}
        self.copies: dict[str, StreamMember] = {}
        self.done: dict[str, int] = {}  # by member, the last action that it carried out
        self.frames: list[tuple[str, str, Frame]] = []
        self.confirmed: dict[int, int] = {}
        self.value = 0
        self.say(NewStream("s", NODES[:members], "n1"))

    @property
    def stream(self) -> Stream:
        return next(iter(self.coordinator.state.streams.values()))

    def say(self, command: Logged) -> Answered:
        """Have the coordinator apply a command; it goes on from its bytes each time, and must say the same."""
        self.index += 1
        self.now += self.draw.choice([0, 10, 3000])
        again = Coordinator(decode_state(encode_state(self.coordinator.state)), self.bugs)
        answer = self.coordinator.apply(self.index, self.now, command)
        assert again.apply(self.index, self.now, command) == answer
        assert encode_state(again.state) == encode_state(self.coordinator.state)
        assert again.begin_leading() == self.coordinator.begin_leading()
        return answer[0]

    def step(self) -> None:
        """Something that may happen."""
        kind = self.draw.randrange(20)
        if kind < 6:
            self.act(self.draw.choice(NODES))
        elif kind < 12:
            self.deliver()
        elif kind < 15:
            self.publish()
        else:
            self.disturb(kind)

    def disturb(self, kind: int) -> None:
        name = self.draw.choice(NODES)
        if kind == 15:
            self.crash(name)
        elif kind == 16:
            self.say(NodeDown(name))
        elif kind == 17:
            self.say(NodeUp(name))
        elif kind == 18:
            self.say(Timeout(f"{RETRY} {self.stream.id}"))
        else:
            epoch = self.draw.choice([None, self.stream.epoch])
            self.say(self.draw.choice([AddReplica("s", name, epoch, NODES), DeleteReplica("s", name, epoch)]))

    # --- copies ---------------------------------------------------------------------------------------------------

    def act(self, name: str) -> None:
        """The node of a member does what the coordinator's state asks, or says that the member is down."""
        member = self.stream.members.get(name)
        if member is None:
            self.copies.pop(name, None)
            self.disks.pop(name, None)
            return
        copy = self.copies.get(name)
        if member.action is not None and self.done.get(name, 0) < member.action.index:
            self.done[name] = member.action.index
            self.carry_out_action(name, member.action)
            return
        takes_part = copy is not None and copy.role != "stopped" and copy.epoch >= member.epoch
        if member.action is None and member.phase in ("running", "disconnected") and not takes_part:
            self.say(MemberDown(self.stream.id, name, member.epoch))
        if copy is not None:
            if member.learns and copy.has_caught_up:
                self.say(CaughtUp(self.stream.id, name, copy.epoch))
            self.carry_out(name, copy.tick(10**9))

    def carry_out_action(self, name: str, action: Action) -> None:
        number = self.stream.id
        if action.kind == "delete":
            self.copies.pop(name, None)
            self.disks.pop(name, None)
            self.say(Gone(number, name, action.index))
            return
        copy = self.copies.get(name)
        if copy is None and action.kind != "write":
            self.disks[name] = Disk(Meta(name, number, "s", action.index))
            copy = self.copies[name] = StreamMember(self.disks[name].meta, (), self.bugs)
        effects = None if copy is None else self.begin(copy, action)
        if copy is None or effects is None:
            self.say(Failed(number, name, action.index))
            return
        self.carry_out(name, effects)
        if self.draw.random() < 0.9:  # else the result is lost until the retry
            is_stop = action.kind == "stop"
            self.say(
                Stopped(number, name, action.index, copy.log.end) if is_stop else Started(number, name, action.index)
            )

    def begin(self, copy: StreamMember, action: Action) -> list[Effect] | None:
        if action.kind == "stop":
            return copy.stop(action.epoch)
        if action.kind == "write":
            return copy.write(action.epoch, self.stream.voters)
        return copy.follow(action.epoch, self.stream.writer or "", 0)

    def crash(self, name: str) -> None:
        if name in self.copies:
            self.copies[name] = StreamMember(self.disks[name].meta, self.disks[name].chunks(), self.bugs)

    def deliver(self) -> None:
        """A frame arrives, is lost, or arrives and will again."""
        if not self.frames:
            return
        sender, to, frame = self.frames.pop(self.draw.randrange(len(self.frames)))
        fate = self.draw.random()
        if fate < 0.1:
            return
        if fate > 0.9:
            self.frames.append((sender, to, frame))
        copy = self.copies.get(to)
        if copy is not None:
            self.carry_out(to, self.heard(copy, sender, frame))

    def heard(self, copy: StreamMember, sender: str, frame: Frame) -> list[Effect]:
        match frame:
            case Attach():
                return copy.asked_to_attach(sender, frame)
            case Attached():
                return copy.attached(sender, frame, 0)
            case Pull():
                return copy.pulled(sender, frame)
            case Chunks():
                return copy.chunks(sender, frame, 0)
            case _:
                raise AssertionError("there are no others here")

    def publish(self) -> None:
        writers = [name for name, copy in self.copies.items() if copy.role == "writer"]
        if writers:
            name = self.draw.choice(writers)
            self.value += 1
            message = StreamMessage("p", self.value, str(self.value).encode())
            self.carry_out(name, self.copies[name].publish([(message, self.value)]))

    def carry_out(self, name: str, effects: list[Effect]) -> None:
        disk = self.disks[name]
        for effect in effects:
            match effect:
                case Persist(meta):
                    disk.meta = meta
                case AppendChunks(records):
                    disk.log += b"".join(records)
                case Truncate(size):
                    disk.log = disk.log[:size]
                case SendTo(to, frame):
                    self.frames.append((name, to, frame))
                case SayEstablished(epoch):
                    self.say(Established(self.stream.id, epoch))
                case AnswerTo(token, Confirmed(offset)):
                    self.confirm(token, offset)
                case AnswerTo():
                    pass
        assert [*self.copies[name].log.chunks] == disk.chunks()

    def confirm(self, value: Any, offset: int | None) -> None:
        assert offset is not None, "each message is published once"
        assert self.confirmed.setdefault(offset, value) == value, f"offset {offset} was confirmed for two messages"

    # --- what must hold -------------------------------------------------------------------------------------------

    def check(self) -> None:
        """What copies give to readers is one log, which has all that was confirmed as far as it reaches."""
        longest: tuple[bytes, ...] = ()
        for copy in self.copies.values():
            bodies = copy.read(ReadFrom("s", 0, 10**6)).bodies
            both = min(len(bodies), len(longest))
            assert bodies[:both] == longest[:both], "two copies give different messages at one offset"
            longest = max(longest, bodies, key=len)
        for offset, value in self.confirmed.items():
            assert offset >= len(longest) or int(longest[offset]) == value, "a confirmed message was replaced"
        assert len(set(longest)) == len(longest), "a message is there twice"
        for copy in self.copies.values():
            if copy.role == "writer" and copy.is_established and copy.epoch == self.stream.epoch:
                there = {offset: int(message.body) for offset, message in copy.log.messages(0, 10**6, 10**6)}
                lost = [offset for offset, value in self.confirmed.items() if there.get(offset) != value]
                assert not lost, f"the writer lacks {lost}, which are confirmed"

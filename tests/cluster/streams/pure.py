"""A coordinator and copies of one stream without nodes: every step is drawn, and so is what becomes of each frame.

Nodes act on what they have applied of the coordinator's log: they may lag, skip what they did not look at in time, and
begin again from an earlier entry after a crash.
"""

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
    Replace,
    SayEstablished,
    SendTo,
    StreamMember,
    Truncate,
)
from splitbrain.cluster.streams.state import Action, State, Stream, decode_state, encode_state

NODES = ("n1", "n2", "n3", "n4", "n5")

FOLLOWS = 0.8
"""How often a node that acts has applied all entries."""


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
        read: the value of each message that a copy gave to a reader, by offset.
    """

    def __init__(self, seed: int, members: int = 3, bugs: Bugs = NO_BUGS) -> None:
        self.draw = random.Random(seed)
        self.bugs = bugs
        self.coordinator = Coordinator(State(), bugs)
        self.index = self.now = 0
        self.disks: dict[str, Disk] = {}
        self.copies: dict[str, StreamMember] = {}
        self.done: dict[str, int] = {}  # by member, the last action that it carried out
        self.states: list[tuple[int, bytes]] = []  # after each entry, with its index
        self.applied: dict[str, int] = dict.fromkeys(
            NODES, 0
        )  # by node, how many of these it has applied, but for the first
        self.frames: list[tuple[str, str, Frame]] = []
        self.confirmed: dict[int, int] = {}
        self.read: dict[int, int] = {}
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
        self.states.append((self.index, encode_state(self.coordinator.state)))
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
        """The node of a member does what the state asks that it has applied, or says that the member is down."""
        newest = len(self.states) - 1
        follows = self.draw.random() < FOLLOWS
        self.applied[name] = newest if follows else self.draw.randint(self.applied[name], newest)
        index, data = self.states[self.applied[name]]
        stream = next(iter(decode_state(data).streams.values()))
        member = stream.members.get(name)
        if member is None:
            self.remove(name, index)
            return
        copy = self.copies.get(name)
        if member.action is not None and self.done.get(name, 0) < member.action.index:
            self.done[name] = member.action.index
            self.carry_out_action(name, stream, member.action)
            return
        takes_part = copy is not None and copy.role != "stopped" and copy.epoch >= member.epoch
        if member.action is None and member.phase in ("running", "disconnected") and not takes_part:
            self.say(MemberDown(self.stream.id, name, member.epoch))
        if copy is not None:
            if member.learns and copy.has_caught_up and copy.epoch == stream.epoch:
                self.say(CaughtUp(self.stream.id, name, copy.epoch))
            self.carry_out(name, copy.tick(10**9))

    def remove(self, name: str, index: int) -> bool:
        """Give a copy up as an entry asks; not one that was begun after it."""
        if name in self.disks and self.disks[name].meta.born > index:
            return False
        self.copies.pop(name, None)
        self.disks.pop(name, None)
        return True

    def carry_out_action(self, name: str, stream: Stream, action: Action) -> None:
        number = stream.id
        if action.kind == "delete":
            if self.remove(name, action.index):
                self.say(Gone(number, name, action.index))
            return
        copy = self.copies.get(name)
        if copy is None and action.kind != "write":
            self.disks[name] = Disk(Meta(name, number, "s", action.index))
            copy = self.copies[name] = StreamMember(self.disks[name].meta, (), self.bugs)
        effects = None if copy is None else self.begin(copy, stream, action)
        if copy is None or effects is None:
            self.say(Failed(number, name, action.index))
            return
        self.carry_out(name, effects)
        if self.draw.random() < 0.9:  # else the result is lost until the retry
            is_stop = action.kind == "stop"
            self.say(
                Stopped(number, name, action.index, copy.log.end) if is_stop else Started(number, name, action.index)
            )

    def begin(self, copy: StreamMember, stream: Stream, action: Action) -> list[Effect] | None:
        if action.kind == "stop":
            return copy.stop(action.epoch)
        if action.kind == "write":
            return copy.write(action.epoch, stream.voters)
        return copy.follow(action.epoch, stream.writer or "", 0)

    def crash(self, name: str) -> None:
        """A process ends; the next one applies the log again from an earlier entry, and has not done anything yet."""
        self.applied[name], self.done[name] = self.draw.randint(0, self.applied[name]), 0
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
                case Replace(content):
                    disk.log = content
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
        for copy in self.copies.values():
            given = copy.read(ReadFrom("s", 0, 10**6))
            assert given.first == copy.log.start <= given.committed, "only what is committed is dropped"
            for offset, body in enumerate(given.bodies, given.first):
                assert self.read.setdefault(offset, int(body)) == int(body), "different messages at one offset"
        for offset, value in self.confirmed.items():
            assert self.read.get(offset, value) == value, "a confirmed message was replaced"
        assert len(set(self.read.values())) == len(self.read), "a message is there twice"
        for copy in self.copies.values():
            if copy.role == "writer" and copy.is_established and copy.epoch == self.stream.epoch:
                there = {offset: int(message.body) for offset, message in copy.log.messages(0, 10**6, 10**6)}
                kept = {offset: value for offset, value in self.confirmed.items() if offset >= copy.log.start}
                lost = [offset for offset, value in kept.items() if there.get(offset) != value]
                assert not lost, f"the writer lacks {lost}, which are confirmed"

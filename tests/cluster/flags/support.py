"""Members whose feature flags run in a world of the test's own: it delivers, loses and repeats messages, kills, starts.

A message on its way stays until it is delivered or lost, and may be delivered again: in any order.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from splitbrain.cluster.flags.effects import Answer, RunCallback, Say, Send, StopNode, UndoCallback
from splitbrain.cluster.flags.machine import TICK_MS, Flags
from splitbrain.cluster.flags.messages import Message
from splitbrain.cluster.flags.record import Record
from splitbrain.cluster.flags.registry import Registry, registry_of
from splitbrain.cluster.marks import unnoticed

PROBES = 8


class OnItsWay(NamedTuple):
    """A message between two members."""

    sender: str
    to: str
    message: Message


@dataclass
class Member:
    """A member: what it has on disk, and its machine while it runs.

    Attributes:
        done: the flags for which its callback has run.
        belongs: whether the entry that made it a member is committed, as it knows.
    """

    name: str
    registry: Registry
    founder: bool
    record: Record | None = None
    flags: Flags | None = None
    done: list[str] = field(default_factory=list[str])
    belongs: bool = True
    stopped_with: str | None = None


class World:
    """Some members, and what is between them."""

    def __init__(self, founders: int = 3, seed: int = 0, probes: int = PROBES) -> None:
        self.now_ms = 0
        self.rng = random.Random(seed)
        self.probes = probes
        self.members: dict[str, Member] = {}
        self.configuration: tuple[str, ...] = ()
        self.network: list[OnItsWay] = []
        self.cut: set[str] = set()
        self.callbacks: list[tuple[str, RunCallback]] = []
        self.answers: dict[int, Answer] = {}
        self.controller = ""
        self.failing: set[tuple[str, str]] = set()
        self._last_request = 0
        for number in range(1, founders + 1):
            self.add(f"n{number}", founder=True)

    def add(self, name: str, *, founder: bool = False, probes: int | None = None, belongs: bool = True) -> None:
        """A member that all know at once."""
        registry = registry_of(self.probes if probes is None else probes)
        self.members[name] = Member(name, registry, founder, belongs=belongs)
        self.configuration = tuple(sorted([*self.configuration, name]))
        self.start(name)
        self.configure()

    def configure(self) -> None:
        """Have all running members know who the members are."""
        for member in self.members.values():
            if member.flags is not None:
                member.flags.members = member.flags.voters = self.configuration
                member.flags.belongs = member.belongs

    def belong(self, name: str) -> None:
        """A member learns that the entry that made it one is committed."""
        self.members[name].belongs = True
        self.configure()

    def shrink(self, name: str) -> None:
        """Make this the only member, by force."""
        self.configuration = (name,)
        self.configure()

    def start(self, name: str) -> None:
        """Start a member with what it has on disk."""
        member = self.members[name]
        if member.flags is None and member.stopped_with is None:
            between = self.rng.randint
            member.flags = Flags(name, member.registry, member.record, member.founder, between)
            self.configure()
            self.tick(name)

    def kill(self, name: str) -> None:
        """End a member; what its disk has stays."""
        self.members[name].flags = None
        self.callbacks = [each for each in self.callbacks if each[0] != name]

    def enable(self, name: str, flag: str, timeout_ms: int = 10_000) -> int:
        """Ask a running member to enable a flag; the request."""
        self._last_request += 1
        flags = self.members[name].flags
        assert flags is not None, f"{name} does not run"
        flags.enable(self._last_request, flag, timeout_ms)
        self._carry_out(name)
        return self._last_request

    def tick(self, name: str) -> None:
        """A member looks at the clock, if it runs."""
        flags = self.members[name].flags
        if flags is not None:
            flags.tick(self.now_ms)
            self._carry_out(name)

    def deliver(self, index: int, *, keep: bool = False) -> None:
        """Deliver a message that is on its way, if there is a way; with `keep` it may come again."""
        on_its_way = self.network[index] if keep else self.network.pop(index)
        flags = self.members[on_its_way.to].flags
        if flags is not None and not {on_its_way.sender, on_its_way.to} & self.cut:
            flags.received(on_its_way.sender, on_its_way.message)
            self._carry_out(on_its_way.to)

    def call_back(self, index: int) -> None:
        """End a callback that is under way."""
        name, effect = self.callbacks.pop(index)
        flags = self.members[name].flags
        assert flags is not None, "callbacks of a member end with it"
        if (name, effect.flag) in self.failing:
            flags.callback_done(effect, "it fails here")
        else:
            self.members[name].done.append(effect.flag)
            flags.callback_done(effect)
        self._carry_out(name)

    def _carry_out(self, name: str) -> None:
        member = self.members[name]
        assert member.flags is not None, "a member that does not run does nothing"
        effects = member.flags.taken()
        member.record = member.flags.record
        for effect in effects:
            match effect:
                case Send(to, message):
                    if to in self.members:
                        self.network.append(OnItsWay(name, to, message))
                case RunCallback():
                    self.callbacks.append((name, effect))
                case UndoCallback(flag):
                    member.done = [each for each in member.done if each != flag]
                case Answer(request):
                    assert request not in self.answers, f"request {request} is answered twice"
                    self.answers[request] = effect
                case StopNode(why):
                    member.stopped_with = why
                case Say():
                    pass
        if member.stopped_with is not None:
            self.kill(name)

    def until(self, condition: Callable[[], bool], slow: str = "") -> None:
        """One thing after the other happens until something is so; callbacks of the slow member do not end."""
        for _ in range(1_000):
            if condition():
                return
            ready = [place for place, (name, _) in enumerate(self.callbacks) if name != slow]
            if ready:
                self.call_back(ready[0])
            elif self.network:
                self.deliver(0)
            else:
                self.now_ms += TICK_MS
                for name in self.members:
                    self.tick(name)
        raise AssertionError("it does not become so")

    def run(self, ms: int) -> None:
        """All goes well for a while: everything arrives, callbacks end, running members look at the clock."""
        with unnoticed():
            for _ in range(ms // TICK_MS):
                self.now_ms += TICK_MS
                for name in self.members:
                    self.tick(name)
                self.settle()

    def settle(self) -> None:
        """Everything that is on its way arrives, and all callbacks end."""
        while self.network or self.callbacks:
            while self.network:
                self.deliver(0)
            while self.callbacks:
                self.call_back(0)

    def state(self, name: str, flag: str) -> str:
        """What a flag is on a member, running or not; "unknown" before it has joined completely."""
        record = self.members[name].record
        if record is None or not record.synchronised:
            return "unknown"
        if flag in record.enabled:
            return "enabled"
        changing = any(pending.marked and pending.flag == flag for pending in record.pending)
        return "state_changing" if changing else "disabled"

    def states(self, flag: str) -> dict[str, str]:
        """That of every member."""
        return {name: self.state(name, flag) for name in self.members}

"""A cluster of table nodes in memory: virtual time, links that delay, lose and are cut, processes that are killed.

Everything comes from one seed. Each decided transaction is repeated, at the moment of its decision, on a serial model:
under two-phase locking that moment is its place in a serial order, so without partitions results must be the same.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from splitbrain.cluster.bugs import NO_BUGS, Bugs
from splitbrain.cluster.tables.alone import carried_out
from splitbrain.cluster.tables.coordinator import Done, End
from splitbrain.cluster.tables.effects import (
    Effect,
    Listen,
    LogActive,
    LogChanges,
    ReplaceAll,
    Reply,
    Say,
    SendFrame,
)
from splitbrain.cluster.tables.known import KNOWN
from splitbrain.cluster.tables.machine import POLL_MS, TableNode
from splitbrain.cluster.tables.messages import decode_frame, encode_frame
from splitbrain.cluster.tables.observed import Observed
from splitbrain.cluster.tables.records import Tables
from splitbrain.cluster.tables.strategies import Ignore, Strategy

TICK_MS = 1000


class Model:
    """The serial model: one transaction after the other, on one copy."""

    def __init__(self) -> None:
        self.tables = Tables()

    def run(self, procedure: str, arguments: Sequence[Any]) -> Any:
        result, changes = carried_out(self.tables, KNOWN[procedure](*arguments))
        self.tables.apply(changes)
        return result


@dataclass
class Member:
    """A node: its process, if it runs, and what is on its disk."""

    machine: TableNode | None = None
    life: int = 0
    disk: Tables = field(default_factory=Tables)
    active: tuple[str, ...] = ()
    listens: bool = False
    lines: list[str] = field(default_factory=list[str])


@dataclass
class Request:
    node: str
    procedure: str
    arguments: Sequence[Any]
    begun_ms: int
    end: End | None = None
    ended_ms: int = 0


class Cluster:
    """See the module.

    Attributes:
        cut: directed links that swallow everything.
        loss: share of frames that get lost on the others.
        slow: by how many ms each of some directed links is slower.
        differences: what a decided transaction returned that the model did not.
        observed: what nodes reported, with the time in ms, the node, and its life.
        cuts: when links were cut, and which were cut then.
    """

    def __init__(
        self,
        names: Sequence[str],
        seed: int = 0,
        strategy: Callable[[], Strategy] = Ignore,
        *,
        tick_ms: int = TICK_MS,
        clients: Mapping[str, int] | None = None,
        start: bool = True,
        bugs: Bugs = NO_BUGS,
    ) -> None:
        self.bugs = bugs
        self.observed: list[tuple[int, str, int, Observed]] = []
        self.cuts: list[tuple[int, list[tuple[str, str]]]] = []
        self.names = list(names)
        self.rng = random.Random(seed)
        self.strategy = strategy
        self.tick_ms = tick_ms
        self.clients = dict(clients or {})
        self.now_ms = 0
        self.members = {name: Member() for name in names}
        self.cut: set[tuple[str, str]] = set()
        self.loss = 0.0
        self.slow: dict[tuple[str, str], int] = {}
        self.model = Model()
        self.differences: list[str] = []
        self.requests: list[Request] = []
        self._lives = 0
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._last_arrival: dict[tuple[str, str], int] = {}
        if start:
            for name in names:
                self.start(name)
            self.run(1500)

    # --- time -------------------------------------------------------------------------------------------------------

    def after(self, delay_ms: int, callback: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms, self._order, callback))

    def run(self, for_ms: int) -> None:
        until = self.now_ms + for_ms
        while self._queue and self._queue[0][0] <= until:
            self.now_ms, _, callback = heapq.heappop(self._queue)
            callback()
        self.now_ms = until

    def run_until(self, condition: Callable[[], bool], at_most_ms: int) -> int:
        """How long it took."""
        begun = self.now_ms
        while not condition():
            assert self.now_ms - begun < at_most_ms, f"not within {at_most_ms} ms"
            self.run(10)
        return self.now_ms - begun

    # --- processes --------------------------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        member = self.members[name]
        assert member.machine is None
        self._lives += 1
        member.life = self._lives
        machine = member.machine = TableNode(
            name,
            self.names,
            self.strategy(),
            self._lives,
            self.tick_ms,
            self.rng.randint,
            self.now_ms,
            member.disk.contents(),
            member.active,
            self.bugs,
        )
        machine.clients = self.clients.get(name, 0)
        self.after(self.rng.randint(0, POLL_MS), lambda: self._poll(name, machine))

    def _poll(self, name: str, machine: TableNode) -> None:
        if self.members[name].machine is machine:
            self._carry_out(name, machine.poll(self.now_ms))
            self.after(POLL_MS, lambda: self._poll(name, machine))

    def kill(self, name: str) -> None:
        """End a process. What it has sent still arrives; its machine refuses connections from then on."""
        self.members[name].machine = None
        self.members[name].listens = False
        for other in self.names:
            if other != name:
                self.after(self.rng.randint(15, 40), lambda other=other: self._refused(name, other))

    def _refused(self, dead: str, other: str) -> None:
        machine = self.members[other].machine
        if self.members[dead].machine is None and machine is not None:
            if (dead, other) in self.cut or (other, dead) in self.cut:
                self.after(100, lambda: self._refused(dead, other))
            else:
                self._carry_out(other, machine.refused(dead, self.now_ms))

    def node(self, name: str) -> TableNode:
        machine = self.members[name].machine
        assert machine is not None, f"{name} is down"
        return machine

    def phases(self) -> dict[str, str]:
        return {
            name: "down" if member.machine is None else member.machine.database.phase
            for name, member in self.members.items()
        }

    def serving(self) -> list[str]:
        return [name for name, phase in self.phases().items() if phase == "running"]

    def all_run(self) -> bool:
        return self.serving() == self.names

    # --- links ------------------------------------------------------------------------------------------------------

    def partition(self, *sides: Sequence[str]) -> None:
        self.cut = {(a, b) for side in sides for a in side for other in sides if other is not side for b in other}
        self.cuts.append((self.now_ms, sorted(self.cut)))

    def heal(self) -> None:
        self.cut = set()
        self.cuts.append((self.now_ms, []))
        self.loss = 0.0

    def _send(self, sender: str, to: str, data: bytes) -> None:
        if (sender, to) in self.cut or self.rng.random() < self.loss:
            return
        takes_ms = self.rng.randint(1, 8) + self.slow.get((sender, to), 0)
        arrival = max(self.now_ms + takes_ms, self._last_arrival.get((sender, to), 0))
        self._last_arrival[sender, to] = arrival
        self.after(arrival - self.now_ms, lambda: self._arrive(sender, to, data))

    def _arrive(self, sender: str, to: str, data: bytes) -> None:
        machine = self.members[to].machine
        if machine is not None:
            self._carry_out(to, machine.received(sender, decode_frame(data), self.now_ms))

    # --- effects ----------------------------------------------------------------------------------------------------

    def _carry_out(self, name: str, effects: Sequence[Effect]) -> None:
        member = self.members[name]
        for effect in effects:
            match effect:
                case SendFrame(to, frame):
                    self._send(name, to, encode_frame(frame))
                case LogChanges(changes):
                    member.disk.apply(changes)
                case LogActive(active):
                    member.active = active
                case ReplaceAll(contents, active):
                    member.disk, member.active = Tables(contents), active
                case Reply(number, end):
                    self._ended(number, end)
                case Listen(on):
                    member.listens = on
                case Say(line):
                    member.lines.append(f"{self.now_ms} {line}")
                case Observed():
                    self.observed.append((self.now_ms, name, member.life, effect))

    # --- clients ----------------------------------------------------------------------------------------------------

    def request(self, node: str, procedure: str, *arguments: Any, timeout_ms: int = 100_000) -> Request:
        request = Request(node, procedure, arguments, self.now_ms)
        self.requests.append(request)
        machine = self.node(node)
        self._carry_out(node, machine.request(len(self.requests) - 1, procedure, arguments, timeout_ms, self.now_ms))
        return request

    def _ended(self, number: int, end: End) -> None:
        request = self.requests[number]
        assert request.end is None, "a request is answered once"
        request.end, request.ended_ms = end, self.now_ms
        if isinstance(end, Done):
            expected = self.model.run(request.procedure, request.arguments)
            found = end.result
            if request.procedure == "read_all":
                expected, found = sorted(expected), sorted(found)
            if found != expected:
                self.differences.append(
                    f"{self.now_ms}: {request.procedure}{tuple(request.arguments)} on {request.node}: {found}, the "
                    f"model says {expected}"
                )

    def ask(self, node: str, procedure: str, *arguments: Any, within_ms: int = 1000) -> Any:
        """The result of a request that must be carried out in time."""
        request = self.request(node, procedure, *arguments)
        self.run_until(lambda: request.end is not None, within_ms)
        assert isinstance(request.end, Done), request.end
        return request.end.result

"""The schedule of faults: a pure generator of nemesis ops, a function of the nemesis's stream of randomness.

One nemesis op at a time, an interval apart. Faults overlap now and then (a kill during a partition), or most of the
time where a test wants that, two at most: with more of them too little of a cluster works. The next fault is drawn
without replacement until every fault had its turn: with independent draws some faults would not occur in a short run.
One that finds nothing to hit while another is in force (no node can be spared) has its turn again as soon as that is
healed: else a fault that lasts might keep another one from ever taking place. One that finds nothing when it is alone,
either, has used its turn, and waits for the next one like any other until it hits something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.contract.test import Nemesis
from splitbrain.harness.generators import PENDING, Context, Generator, Pending, Result
from splitbrain.nemesis.kinds import Injection, Kind, Rounds
from splitbrain.results.errors import UsageError
from splitbrain.results.history import NEMESIS, Op
from splitbrain.results.nemesisop import action_in, hits_something, request

IN_FORCE_MAX: Final = 2
"""Faults that are in force at once."""

OVERLAP: Final = 0.3
"""The probability that a second fault begins before the first is healed, where a test does not say."""

SHORTEST, LONGEST = 0.5, 1.5
"""Bounds of the distance between two nemesis ops, in intervals; the mean is one. The lower one gives clients time to
act in every fault window."""

LASTING: Final = 0.75
"""The latest begin of a fault, before the end of the faults phase, in intervals."""

T = TypeVar("T")


class Fault(msgspec.Struct, frozen=True):
    """A kind of fault in one test.

    Attributes:
        kind: what kind.
        nemesis: what injects it.
        rounds: the ways that are drawn from.
        weight: its turns for each turn of a fault of weight 1.
    """

    kind: Kind[Any]
    nemesis: Nemesis
    rounds: Rounds
    weight: int = 1

    @property
    def name(self) -> str:
        """Its kind, as the history has it ("partition")."""
        return self.kind.name

    def stop(self) -> Op:
        """The op that heals it."""
        return _op(self.kind.stop_f, request(self.name, "stop"))

    def needs(self) -> frozenset[FaultKind]:
        """Everything that its ways need from a backend."""
        return frozenset(kind for group in self.rounds for injection in group for kind in injection.needs)

    def possible(self, nodes: Sequence[str]) -> list[list[Injection]]:
        """The groups of ways that are possible with this number of nodes; never empty.

        Raises:
            UsageError: there are too few nodes.
        """
        groups = [[injection for injection in group if injection.nodes <= len(nodes)] for group in self.rounds]
        if not any(groups):
            raise UsageError(
                f"fault {self.name!r} needs more nodes than {len(nodes)}: raise --nodes, or remove it of --nemesis."
            )
        return [group for group in groups if group]

    def draw(self, nodes: Sequence[str], rng: Rng) -> tuple[Mapping[str, Any], ...]:
        """The requests of one round, in random order."""
        drawn = [rng.choice(group).draw(nodes, rng) for group in self.possible(nodes)]
        rng.shuffle(drawn)
        return tuple(drawn)


def _op(f: str, value: dict[str, Any]) -> Op:
    return Op(process=NEMESIS, type="invoke", f=f, value=value)


class Schedule(msgspec.Struct, frozen=True):
    """The generator: starts and stops `faults`, `interval_ns` apart on average, the first half an interval in.

    If the end of the faults phase is known (`end_ns` of the run's time), no fault begins so late that it could not
    last: clients that still wait for an earlier answer need time for an op in its window.

    While one fault is in force, a second one begins with the probability `overlap` before that is healed.

    The rest is its state: the faults in force, in the order of their begins; for each fault the rest of its round; the
    faults that have not had their turn yet; what was drawn for the last begin; the fault that hit nothing beside
    another one, until that is healed; those that hit nothing when they were alone; when the next op is due (None while
    an op is in progress, whose end decides).
    """

    faults: tuple[Fault, ...]
    interval_ns: int
    end_ns: int | None = None
    overlap: float = OVERLAP
    in_force: tuple[int, ...] = ()
    remaining: tuple[tuple[Mapping[str, Any], ...], ...] = ()
    turns: tuple[int, ...] = ()
    drawn: Mapping[str, Any] = {}
    missed: int | None = None
    barren: tuple[int, ...] = ()
    gap_ns: int = 0
    due_ns: int | None = None

    def op(self, ctx: Context) -> Result:
        """The next start or stop, when it is due."""
        if not ctx.free & ctx.nemesis_bit:
            return PENDING, self
        if self.due_ns is None:
            due_ns = ctx.time_ns + (self.gap_ns or self.interval_ns // 2)
            return Pending(due_ns), msgspec.structs.replace(self, due_ns=due_ns)
        if ctx.time_ns < self.due_ns:
            return Pending(self.due_ns), self
        if not self.in_force and self._ends_soon(ctx.time_ns):
            return None
        rng = ctx.nemesis_rng
        gap_ns = int((SHORTEST + (LONGEST - SHORTEST) * rng.random()) * self.interval_ns)
        chosen = msgspec.structs.replace(self, gap_ns=gap_ns, due_ns=None)
        if self.missed is not None and self.missed in self.in_force:
            return chosen._stop(self.missed)
        if self._stops(ctx.time_ns, rng) or self._waits_for_its_turn():
            return chosen._stop(rng.choice(self.in_force))
        able = [fault for fault in range(len(self.faults)) if fault not in self.in_force and self._lasts(fault, ctx)]
        if able:
            return chosen._start(able, ctx.nodes, rng)
        return chosen._stop(rng.choice(self.in_force)) if self.in_force else None

    def update(self, ctx: Context, event: Op) -> Generator:
        """The distance to the next op counts from the end of the last one."""
        if event.process != NEMESIS or event.type == "invoke":
            return self
        due = msgspec.structs.replace(self, due_ns=ctx.time_ns + self.gap_ns)
        begun = self._begun(event)
        if begun is None:
            return due
        if not _missed(event):
            return msgspec.structs.replace(due, barren=_without(self.barren, begun))
        if len(self.in_force) == 1:
            return msgspec.structs.replace(due, barren=(*_without(self.barren, begun), begun))
        return due if begun in self.barren else due._give_back(begun, ctx.time_ns)

    def _begun(self, event: Op) -> int | None:
        """The fault whose begin has ended with this event, if it is one."""
        last = self.in_force[-1] if self.in_force else None
        return last if last is not None and event.f == self.faults[last].kind.start_f else None

    def idle_until(self) -> int:
        """The next op's time, once that is known."""
        return self.due_ns or 0

    def _ends_soon(self, time_ns: int) -> bool:
        return self.end_ns is not None and time_ns > self.end_ns - LASTING * self.interval_ns

    def _lasts(self, fault: int, ctx: Context) -> bool:
        """Whether a fault that begins now lasts for a while before the run's faults end."""
        return not self._ends_soon(ctx.time_ns + round(self.faults[fault].kind.takes_s * 1e9))

    def _stops(self, time_ns: int, rng: Rng) -> bool:
        if not self.in_force:
            return False
        overlaps = rng.random() < self.overlap and self.missed is None
        full = len(self.in_force) == min(IN_FORCE_MAX, len(self.faults))
        return full or not overlaps or self._ends_soon(time_ns)

    def _waits_for_its_turn(self) -> bool:
        """Whether all faults with a turn left are in force. If weights differ, others would get too many turns."""
        weighted = any(fault.weight > 1 for fault in self.faults)
        return weighted and bool(self.turns) and all(fault in self.in_force for fault in self.turns)

    def _stop(self, healed: int) -> Result:
        missed = self.missed if healed == self.missed else None
        left = msgspec.structs.replace(self, in_force=_without(self.in_force, healed), missed=missed)
        return self.faults[healed].stop(), left

    def _give_back(self, last: int, time_ns: int) -> Schedule:
        """The last fault that began hit nothing: it is stopped at once, and has its turn again, the same way, once the
        other one is healed, which is next.
        """
        rest = (self.drawn, *self.remaining[last])
        return msgspec.structs.replace(
            self,
            turns=(last, *self.turns),
            remaining=(*self.remaining[:last], rest, *self.remaining[last + 1 :]),
            missed=last,
            due_ns=time_ns,
        )

    def _start(self, able: Sequence[int], nodes: Sequence[str], rng: Rng) -> Result:
        turns = self.turns
        if not any(fault in able for fault in turns):
            weighted = [i for i, fault in enumerate(self.faults) for _ in range(fault.weight) if i not in turns]
            turns = (*turns, *_shuffled(weighted, rng))
        chosen = next(fault for fault in turns if fault in able)
        fault = self.faults[chosen]
        remaining = self.remaining or ((),) * len(self.faults)
        drawn, *rest = remaining[chosen] or fault.draw(nodes, rng)
        order = list(_shuffled(nodes, rng))
        return _op(fault.kind.start_f, request(fault.name, "start", **drawn, order=order)), msgspec.structs.replace(
            self,
            in_force=(*self.in_force, chosen),
            turns=_without_one(turns, chosen),
            remaining=(*remaining[:chosen], tuple(rest), *remaining[chosen + 1 :]),
            drawn=drawn,
        )


def _missed(event: Op) -> bool:
    """Whether an op that should begin a fault found nothing to hit."""
    if event.type != "ok" or action_in(event.value) != "start":
        return False
    target = event.value.get("target")
    return isinstance(target, str) and bool(target.strip()) and not hits_something(target)


def _shuffled(items: Sequence[T], rng: Rng) -> tuple[T, ...]:
    shuffled = list(items)
    rng.shuffle(shuffled)
    return tuple(shuffled)


def _without_one(items: tuple[T, ...], item: T) -> tuple[T, ...]:
    """The tuple without the first equal item."""
    place = items.index(item)
    return (*items[:place], *items[place + 1 :])


def _without(items: tuple[T, ...], item: T) -> tuple[T, ...]:
    return tuple(other for other in items if other != item)

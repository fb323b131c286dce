"""When which fault strikes: a pure generator of nemesis ops, a function of the nemesis's stream of randomness.

One nemesis op at a time, an interval apart. Faults overlap now and then (a kill during a partition), two at most: more
leave too little of a cluster to learn from. What strikes next comes from a shuffled hand, not from a die: in a short
run a die leaves out what matters once in a few runs, a hand never does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.contract.test import Nemesis
from splitbrain.harness.generators import PENDING, Context, Generator, Pending, Result
from splitbrain.nemesis.kinds import Kind, Rounds, Strike
from splitbrain.results.errors import UsageError
from splitbrain.results.history import NEMESIS, Op
from splitbrain.results.nemesisop import request

IN_FORCE_MAX: Final = 2
"""Faults that are in force at once."""

OVERLAP: Final = 0.3
"""How often a second fault strikes before the first is healed."""

SHORTEST, LONGEST = 0.5, 1.5
"""Bounds of the distance between two nemesis ops, in intervals; the mean is one. The lower one gives clients time to
act in every fault window."""

LASTING: Final = 0.75
"""How long before the end of a run's faults the last one begins at the latest, in intervals."""

T = TypeVar("T")


class Fault(msgspec.Struct, frozen=True):
    """A kind of fault in one test.

    Attributes:
        kind: what kind.
        nemesis: what injects it.
        rounds: the ways that are drawn from.
        weight: how many turns it has for one of a fault of weight 1.
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
        """Everything that one of its ways needs of a backend."""
        return frozenset(kind for group in self.rounds for strike in group for kind in strike.needs)

    def possible(self, nodes: Sequence[str]) -> list[list[Strike]]:
        """The groups of ways in which it can strike so many nodes; never none.

        Raises:
            UsageError: it cannot strike so few nodes.
        """
        groups = [[strike for strike in group if strike.nodes <= len(nodes)] for group in self.rounds]
        if not any(groups):
            raise UsageError(
                f"fault {self.name!r} needs more nodes than {len(nodes)}: raise --nodes, or leave it out of --nemesis."
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

    If it is known when the run's faults end (`end_ns` of the run's time), none begins so late that it could not last:
    clients that wait for an answer from before it need time to ask anything in it.

    The rest is its state: which faults are in force, in the order in which they began; for each fault what is left of
    its round; which faults are left before every one has had its turn; when the next op is due (None while one is under
    way, whose end decides).
    """

    faults: tuple[Fault, ...]
    interval_ns: int
    end_ns: int | None = None
    in_force: tuple[int, ...] = ()
    hands: tuple[tuple[Mapping[str, Any], ...], ...] = ()
    turns: tuple[int, ...] = ()
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
        if self._stops(ctx.time_ns, rng) or self._waits_for_its_turn():
            return chosen._stop(rng)
        able = [fault for fault in range(len(self.faults)) if fault not in self.in_force and self._lasts(fault, ctx)]
        if able:
            return chosen._start(able, ctx.nodes, rng)
        return chosen._stop(rng) if self.in_force else None

    def update(self, ctx: Context, event: Op) -> Generator:
        """The distance to the next op counts from the end of the last one."""
        if event.process != NEMESIS or event.type == "invoke":
            return self
        return msgspec.structs.replace(self, due_ns=ctx.time_ns + self.gap_ns)

    def _ends_soon(self, time_ns: int) -> bool:
        return self.end_ns is not None and time_ns > self.end_ns - LASTING * self.interval_ns

    def _lasts(self, fault: int, ctx: Context) -> bool:
        """Whether a fault that begins now lasts for a while before the run's faults end."""
        return not self._ends_soon(ctx.time_ns + round(self.faults[fault].kind.takes_s * 1e9))

    def _stops(self, time_ns: int, rng: Rng) -> bool:
        if not self.in_force:
            return False
        overlaps = rng.random() < OVERLAP
        full = len(self.in_force) == min(IN_FORCE_MAX, len(self.faults))
        return full or not overlaps or self._ends_soon(time_ns)

    def _waits_for_its_turn(self) -> bool:
        """Whether all that have a turn left are in force. Where weights differ, others would get more than theirs."""
        weighted = any(fault.weight > 1 for fault in self.faults)
        return weighted and bool(self.turns) and all(fault in self.in_force for fault in self.turns)

    def _stop(self, rng: Rng) -> Result:
        healed = rng.choice(self.in_force)
        return self.faults[healed].stop(), msgspec.structs.replace(self, in_force=_without(self.in_force, healed))

    def _start(self, able: Sequence[int], nodes: Sequence[str], rng: Rng) -> Result:
        turns = self.turns
        if not any(fault in able for fault in turns):
            weighted = [i for i, fault in enumerate(self.faults) for _ in range(fault.weight) if i not in turns]
            turns = (*turns, *_shuffled(weighted, rng))
        struck = next(fault for fault in turns if fault in able)
        fault = self.faults[struck]
        hands = self.hands or ((),) * len(self.faults)
        drawn, *rest = hands[struck] or fault.draw(nodes, rng)
        order = list(_shuffled(nodes, rng))
        return _op(fault.kind.start_f, request(fault.name, "start", **drawn, order=order)), msgspec.structs.replace(
            self,
            in_force=(*self.in_force, struck),
            turns=_without_one(turns, struck),
            hands=(*hands[:struck], tuple(rest), *hands[struck + 1 :]),
        )


def _shuffled(items: Sequence[T], rng: Rng) -> tuple[T, ...]:
    shuffled = list(items)
    rng.shuffle(shuffled)
    return tuple(shuffled)


def _without_one(items: tuple[T, ...], item: T) -> tuple[T, ...]:
    """Without the first of those that are the same."""
    place = items.index(item)
    return (*items[:place], *items[place + 1 :])


def _without(items: tuple[T, ...], item: T) -> tuple[T, ...]:
    return tuple(other for other in items if other != item)

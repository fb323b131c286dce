"""From which write each read has its value, and what order of the ops follows.

Where a value is written once, its readers have it from there (Gibbons and Korach 1997 call that the read-mapping). Else
each read has several candidates, of which some are ruled out by the order that is known, and the last one that remains
is certain. Every step of this is forced: a read without a candidate, or a cycle, refutes the model for the history,
also where values repeat.

The order is causal (program order, and each write before those that read it), or sequential: then, for a read r from w
and any other write x of the same key, x before r is x before w, and w before x is r before x. The latter is the
saturation of Zennou, Bouajjani, Enea and Erradi ("Gradual consistency checking", CAV 2019).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final

from splitbrain.checkers.weaker.calls import NOTHING, Calls, Registers
from splitbrain.checkers.weaker.order import CycleError, Order
from splitbrain.checkers.weaker.work import Work

CANDIDATES_MAX: Final = 64
"""A read with more candidates proves nothing."""

INITIAL: Final = -1
"""In the place of a write: the value at the beginning."""


class Rule(Enum):
    """Why there is no explanation: bad patterns by the names of Bouajjani, Enea, Guerraoui and Hamza (POPL 2017)."""

    THIN_AIR = "ThinAirRead"
    CYCLE = "CyclicCO"
    OVERWRITTEN = "WriteCORead"
    NOT_INITIAL = "WriteCOInitRead"
    SATURATION = "cycle of forced orders"


class ContradictionError(Exception):
    """The history has no explanation.

    Attributes:
        rule: what is wrong.
        ops: which ops show it: the reader last; or a cycle.
    """

    def __init__(self, rule: Rule, ops: Sequence[int]) -> None:
        super().__init__(rule.value)
        self.rule = rule
        self.ops = tuple(ops)


def candidates_of(calls: Calls, registers: Registers, op: int) -> list[int]:
    """Where a read can have its value from."""
    value = registers.sees[op]
    found = [write for write in registers.writers[value] if write != op]
    return [INITIAL, *found] if value == registers.initial[calls.key[op]] else found


class Writes:
    """The writes of each key by chain, in order; of crashed ones only those that happened for certain if asked for."""

    def __init__(self, calls: Calls, registers: Registers, chosen: Iterable[int]) -> None:
        self._calls = calls
        self.places: list[dict[int, list[int]]] = [{} for _ in range(calls.keys)]
        for op in chosen:
            if registers.leaves[op] != NOTHING:
                self.places[calls.key[op]].setdefault(calls.chain[op], []).append(calls.place[op])

    def last_before(self, key: int, order: Order, op: int, *, but: int) -> Iterator[int]:
        """By chain, the last write of the key before an op, without `but`."""
        clock, chains = order.before[op].tolist(), self._calls.chains
        for chain, places in self.places[key].items():
            at = bisect_left(places, clock[chain]) - 1
            if at >= 0 and chains[chain][places[at]] == but:
                at -= 1
            if at >= 0:
                yield chains[chain][places[at]]

    def first_after(self, key: int, order: Order, op: int, *, but: int) -> Iterator[int]:
        """By chain, the first write of the key after an op, without `but`; after INITIAL all are."""
        chains = self._calls.chains
        for chain, places in self.places[key].items():
            ops = chains[chain]
            at = 0 if op == INITIAL else bisect_left(places, True, key=lambda place: order.precedes(op, ops[place]))
            if at < len(places) and ops[places[at]] in (op, but):
                at += 1
            if at < len(places):
                yield ops[places[at]]


class Deduction:
    """What can be deduced of a history.

    Attributes:
        order: of the ops.
        source: of the reads of which it is known: the write, or INITIAL.
        open: the candidates of the others.
    """

    def __init__(self, calls: Calls, registers: Registers, work: Work) -> None:
        """Begin with program order, and with all candidates.

        Raises:
            OutOfWorkError: there is too much to be looked at.
        """
        self._calls, self._registers, self._work = calls, registers, work
        self._writes = Writes(calls, registers, range(len(calls.chain)))
        self.order = Order(calls, work)
        self.source: dict[int, int] = {}
        self.open: dict[int, list[int]] = {}

    def causal(self) -> None:
        """Deduce what holds causally.

        Raises:
            ContradictionError: the history is not causally consistent.
            OutOfWorkError: there is no work left.
        """
        for op, certain in enumerate(self._calls.certain):
            if certain and self._registers.sees[op] != NOTHING:
                self._consider(op)
        while self._narrow():
            pass

    def assume(self, source: Mapping[int, int]) -> None:
        """Take sources for granted, and look whether they are causally consistent.

        Raises:
            ContradictionError: they are not.
            OutOfWorkError: there is no work left.
        """
        for op, write in source.items():
            self._settle(op, write)
        self._narrow()

    def sequential(self) -> None:
        """Go on, and deduce what holds sequentially.

        Raises:
            ContradictionError: the history is not sequentially consistent.
            OutOfWorkError: there is no work left.
        """
        more = True
        while more:
            more = False
            for op, write in list(self.source.items()):
                try:
                    more |= self._saturate(op, write)
                except CycleError as cycle:
                    raise ContradictionError(Rule.SATURATION, cycle.ops) from cycle
            more |= self._narrow()

    # --- reads-from ---------------------------------------------------------------------------------------------------

    def _consider(self, op: int) -> None:
        """Take a read into account, of an op that happened."""
        self._work.spend(2)
        if len(self._registers.writers[self._registers.sees[op]]) > CANDIDATES_MAX:
            return
        found = candidates_of(self._calls, self._registers, op)
        if not found:
            raise ContradictionError(Rule.THIN_AIR, (op,))
        if len(found) == 1:
            self._settle(op, found[0])
        else:
            self.open[op] = found

    def _settle(self, op: int, write: int) -> None:
        self.open.pop(op, None)
        self.source[op] = write
        if write == INITIAL:
            return
        try:
            self.order.add(write, op)
        except CycleError as cycle:
            raise ContradictionError(Rule.CYCLE, cycle.ops) from cycle
        if not self._calls.certain[write] and self._registers.sees[write] != NOTHING and write not in self.source:
            self._consider(write)  # a crashed compare-and-set whose value was read happened, and so read

    def _narrow(self) -> bool:
        """Rule out candidates; whether a read was settled by that."""
        settled = False
        for op, write in list(self.source.items()):
            nearest = self._nearest(op)
            if not self._is_possible(op, write, nearest):
                raise self._impossible(op, write, nearest)
        for op in list(self.open):
            if op not in self.open:
                continue
            candidates, nearest = self.open[op], self._nearest(op)
            possible = [write for write in candidates if self._is_possible(op, write, nearest)]
            if not possible:
                raise self._impossible(op, candidates[-1], nearest)
            self.open[op] = possible
            if len(possible) == 1:
                self._settle(op, possible[0])
                settled = True
        return settled

    def _nearest(self, op: int) -> list[int]:
        """By chain, the last write of a read's key before the read."""
        key = self._calls.key[op]
        self._work.spend(1 + len(self._writes.places[key]))
        return list(self._writes.last_before(key, self.order, op, but=op))

    def _is_possible(self, op: int, write: int, nearest: list[int]) -> bool:
        return (write == INITIAL or not self.order.precedes(op, write)) and self._between(write, nearest) is None

    def _between(self, write: int, nearest: list[int]) -> int | None:
        """One of the writes nearest to a read that is after the one that it would see."""
        self._work.spend(1 + len(nearest) // 4)
        for other in nearest:
            if other != write and (write == INITIAL or self.order.precedes(write, other)):
                return other
        return None

    def _impossible(self, op: int, write: int, nearest: list[int]) -> ContradictionError:
        other = self._between(write, nearest)
        if other is None:
            return ContradictionError(Rule.CYCLE, (write, op))
        return (
            ContradictionError(Rule.NOT_INITIAL, (other, op))
            if write == INITIAL
            else ContradictionError(Rule.OVERWRITTEN, (write, other, op))
        )

    # --- sequential order ---------------------------------------------------------------------------------------------

    def _saturate(self, op: int, write: int) -> bool:
        key, order = self._calls.key[op], self.order
        self._work.spend(2 * len(self._writes.places[key]))
        new = False
        if write != INITIAL:
            for other in list(self._writes.last_before(key, order, op, but=op)):
                if other != write:
                    new |= order.add(other, write)
        for other in list(self._writes.first_after(key, order, write, but=op)):
            new |= order.add(op, other)
        return new

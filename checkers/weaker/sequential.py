"""Sequential consistency (Lamport 1979): one order of all ops of all keys that keeps each process's own order.

To decide that is NP-complete, with a known read-mapping too (Gibbons and Korach, "Testing shared memories", 1997); for
a fixed number of processes it is polynomial. So this is a search, depth first, that remembers how far each process had
come and what the keys held. Ops that only observe are taken as soon as they are possible: that forbids nothing later.
For registers a write is not tried while others still wait for the value that is there, and nothing brings it back.

A first search hardly looks beyond what a linearization would try: ops whose calls and returns overlap, where a read of
a value that was certainly gone counts as if it had been made when the value was last there. What such a search finds is
an order; only the second search, without that, may say that there is none.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from splitbrain.checkers.models import IMPOSSIBLE, Model
from splitbrain.checkers.weaker import calls
from splitbrain.checkers.weaker.calls import NOTHING, Calls
from splitbrain.checkers.weaker.work import Work

_NEVER = 1 << 60
_STATE = 10
"""Steps that a state costs, apart from the chains that are looked at."""


class Registers:
    """Steps of registers: a state is the number of the value that is held."""

    def __init__(self, registers: calls.Registers) -> None:
        self._sees, self._leaves, self._refuses = registers.sees, registers.leaves, registers.refuses
        self.initial = registers.initial

    def step(self, op: int, held: int) -> int:
        """What a key holds after an op, NOTHING if the op is impossible."""
        if self._sees[op] not in (NOTHING, held) or self._refuses[op] == held:
            return NOTHING
        return held if self._leaves[op] == NOTHING else self._leaves[op]

    def observes(self, op: int) -> bool:
        """Whether it leaves every state as it is in which it is possible."""
        return self._leaves[op] in (NOTHING, self._sees[op])


class Objects:
    """Steps of any model: its states as numbers, and a table that fills."""

    def __init__(self, found: Calls, model: Model) -> None:
        self._transition: list[int] = found.ops.transition.tolist()
        self._transitions = found.ops.transitions
        self._model = model
        self._numbers: dict[Hashable, int] = {}
        self._known: list[Hashable] = []
        self._steps: dict[tuple[int, int], int] = {}
        self._observes = [model.observes(each.f, each.value, each.result) for each in self._transitions]
        self.initial = [self._number(model.init())] * found.keys

    def step(self, op: int, held: int) -> int:
        """The state after an op, NOTHING if it is impossible.

        Raises:
            Exception: what the model raises.
        """
        transition = self._transition[op]
        after = self._steps.get((held, transition))
        if after is None:
            what = self._transitions[transition]
            state = self._model.step(self._known[held], what.f, what.value, what.result)
            after = NOTHING if state is IMPOSSIBLE else self._number(state)
            self._steps[held, transition] = after
        return after

    def observes(self, op: int) -> bool:
        """Whether it leaves every state as it is."""
        return self._observes[self._transition[op]]

    def _number(self, state: Hashable) -> int:
        found = self._numbers.setdefault(state, len(self._known))
        if found == len(self._known):
            self._known.append(state)
        return found


@dataclass
class _Frame:
    """A state of the search: which ops led here, what they replaced, and what may come next."""

    done: list[tuple[int, int]]
    choices: list[int]
    tried: int = 0


class Search:
    """One search through the orders of a history's ops.

    Attributes:
        states: how many it looked at.
    """

    def __init__(
        self,
        found: Calls,
        steps: Registers | Objects,
        work: Work,
        *,
        edges: Sequence[Sequence[int]] = (),
        within: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        """Prepare.

        Args:
            found: the ops.
            steps: what they do.
            work: what may be done.
            edges: by op, others that certainly come after it.
            within: by op, from when on and until when it is looked for; None to look everywhere.
        """
        self.states = 0
        self._calls, self._steps, self._work, self._within = found, steps, work, within
        self._observes = [steps.observes(op) for op in range(len(found.chain))]
        self._waits: list[list[int]] = [[] for _ in found.chain]
        for op, others in enumerate(edges):
            for other in others:
                if not self._observes[other]:
                    self._waits[other].append(op)
        for op, before in enumerate(found.after):
            if before != NOTHING and found.chain[before] != found.chain[op]:
                self._waits[op].append(before)
        self._at = [0] * len(found.chains)
        self._held = list(steps.initial)
        self._left = sum(found.certain)
        self._values = found.registers
        self._readers: list[int] = []
        self._suppliers: list[int] = []
        if found.registers is not None:
            self._readers = [0] * len(found.registers.writers)
            for op, value in enumerate(found.registers.sees):
                if value != NOTHING and found.certain[op]:
                    self._readers[value] += 1
            self._suppliers = [len(each) for each in found.registers.writers]

    def run(self) -> list[int] | None:
        """An order of the ops; None if there is none (within the bounds).

        Raises:
            OutOfWorkError: there is no work left.
            Exception: what the model's step raises.
        """
        seen: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()
        stack = [self._settled([])]
        while stack:
            frame = stack[-1]
            if not self._left:
                return [op for each in stack for op, _ in each.done]
            if frame.tried == len(frame.choices):
                for op, held in reversed(frame.done):
                    self._undo(op, held)
                stack.pop()
                continue
            op = frame.choices[frame.tried]
            frame.tried += 1
            done: list[tuple[int, int]] = []
            self._do(op, done)
            deeper = self._settled(done)
            where = (tuple(self._at), tuple(self._held))
            if where in seen:
                deeper.choices = []
            seen.add(where)
            stack.append(deeper)
        return None

    # --- moves --------------------------------------------------------------------------------------------------------

    def _do(self, op: int, done: list[tuple[int, int]]) -> None:
        key = self._calls.key[op]
        held = self._held[key]
        done.append((op, held))
        self._held[key] = self._steps.step(op, held)
        self._at[self._calls.chain[op]] += 1
        self._count(op, -1)

    def _undo(self, op: int, held: int) -> None:
        self._held[self._calls.key[op]] = held
        self._at[self._calls.chain[op]] -= 1
        self._count(op, 1)

    def _count(self, op: int, by: int) -> None:
        if self._calls.certain[op]:
            self._left += by
        if self._values is not None:
            sees, leaves = self._values.sees[op], self._values.leaves[op]
            if sees != NOTHING and self._calls.certain[op]:
                self._readers[sees] += by
            if leaves != NOTHING:
                self._suppliers[leaves] += by

    def _is_next(self, op: int) -> bool:
        chain, place, at = self._calls.chain, self._calls.place, self._at
        return all(at[chain[before]] > place[before] for before in self._waits[op])

    # --- what comes next ----------------------------------------------------------------------------------------------

    def _settled(self, done: list[tuple[int, int]]) -> _Frame:
        """Take all observers that are possible now; what may come next is what is left at the heads of the chains."""
        self.states += 1
        self._work.spend(_STATE + len(self._at))
        heads: list[int] = []
        for number, chain in enumerate(self._calls.chains):
            while (at := self._at[number]) < len(chain):
                op = chain[at]
                if not self._observes[op] or not self._is_next(op) or not self._is_possible(op):
                    heads.append(op)
                    break
                self._work.spend(1)
                self._do(op, done)
        return _Frame(done, self._choices(heads))

    def _is_possible(self, op: int) -> bool:
        return self._steps.step(op, self._held[self._calls.key[op]]) != NOTHING

    def _choices(self, heads: list[int]) -> list[int]:
        able = [op for op in heads if not self._observes[op] and self._is_next(op) and self._is_possible(op)]
        if self._values is not None:
            able = [op for op in able if not self._strands(op, self._values)]
            able = self._asked_for(able, heads, self._values)
        end, within = self._calls.end, self._within
        if within is None:
            return sorted(able, key=lambda op: (end[op], op))
        until = min((within[op][1] for op in heads if self._calls.certain[op]), default=_NEVER)
        return sorted((op for op in able if within[op][0] <= until), key=lambda op: (within[op][1], end[op], op))

    def _asked_for(self, able: list[int], heads: list[int], values: calls.Registers) -> list[int]:
        """Without crashed ops that do not help, and of those that leave the same only one.

        What takes effect next on the key after a crashed op, in an order with as few of them as can be, requires what
        it leaves or refuses what was there; and that can be what comes next at all, as a crashed op is before nothing.
        """
        certain, key = self._calls.certain, self._calls.key
        required = {values.sees[op] for op in heads}
        refused = {key[op] for op in heads if values.refuses[op] == self._held[key[op]]}
        found: list[int] = []
        alike: set[tuple[int, int]] = set()
        for op in able:
            if certain[op]:
                found.append(op)
            elif values.leaves[op] in required or key[op] in refused:
                what = (values.sees[op], values.leaves[op])
                if what not in alike:
                    alike.add(what)
                    found.append(op)
        return found

    def _strands(self, op: int, values: calls.Registers) -> bool:
        """Whether a write takes away a value for good that others still have to see."""
        present, certain = self._held[self._calls.key[op]], self._calls.certain[op]
        if values.leaves[op] in (NOTHING, present) or self._suppliers[present]:
            return False
        return self._readers[present] > (certain and values.sees[op] == present)


def least_steps(found: Calls) -> int:
    """What it takes to find an order if the first try is always right, about."""
    values = found.registers
    moves = len(found.chain) if values is None else sum(value != NOTHING for value in values.leaves)
    return moves * (_STATE + len(found.chains))


def bounds(found: Calls, registers: calls.Registers) -> list[tuple[int, int]]:
    """For each op, from when on and until when it can have taken effect, in rows; earlier for stale reads.

    A read of a value that was certainly gone when it was called counts as made until then; so does what its process did
    before it.
    """
    begin, end = list(found.begin), [_NEVER if not sure else found.end[op] for op, sure in enumerate(found.certain)]
    gone = _gone(found, registers)
    for op, value in enumerate(registers.sees):
        if value != NOTHING and found.certain[op]:
            begins, until = gone[value]
            last = until[bisect_left(begins, found.end[op])]
            if last < begin[op]:
                begin[op] = end[op] = max(last, 0)
    for chain in found.chains:
        later = _NEVER
        for op in reversed(chain):
            end[op] = later = min(later, end[op])
            begin[op] = min(begin[op], end[op])
    return list(zip(begin, end, strict=True))


def _gone(of_calls: Calls, registers: calls.Registers) -> list[tuple[list[int], list[int]]]:
    """By value: when its writers were called; by how many of them were, the row by which it was surely replaced."""
    by_key: list[list[int]] = [[] for _ in range(of_calls.keys)]
    for op, value in enumerate(registers.leaves):
        if value != NOTHING and of_calls.certain[op]:
            by_key[of_calls.key[op]].append(op)
    starts: list[list[int]] = []
    ends: list[list[int]] = []
    for writes in by_key:  # in the order of their calls
        starts.append([of_calls.begin[op] for op in writes])
        least, suffix = _NEVER, list[int]()
        for op in reversed(writes):
            least = min(least, of_calls.end[op])
            suffix.append(least)
        ends.append([*reversed(suffix), _NEVER])
    initial = {value: key for key, value in enumerate(registers.initial)}
    found: list[tuple[list[int], list[int]]] = []
    for value, writers in enumerate(registers.writers):
        key = initial.get(value)
        until = [-1 if key is None else ends[key][0]]
        for op in writers:
            of = of_calls.key[op]
            replaced = ends[of][bisect_right(starts[of], of_calls.end[op])] if of_calls.certain[op] else _NEVER
            until.append(max(until[-1], replaced))
        found.append(([of_calls.begin[op] for op in writers], until))
    return found

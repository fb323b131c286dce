"""Sets that only grow, with reads of all elements.

Under inclusion the answers of the reads must form a chain; reads with equal answers are a *group*, G1 to Gm. So every
element has a place: it was added between the last group without it and the first group with it, or after Gm. That
puts ops into stages: adds before G1, the reads of G1, adds before G2, and so on. Ops of different stages take effect in
the order of the stages, and that they can is all there is to it: no op ends before one of an earlier stage begins. (Let
each take effect as early as all invocations of its own and of earlier stages allow.)

Of several adds of an element the one that was invoked first stands in the stage of the element: it can take effect
there if any can. The others must end late enough not to have come earlier, and are free otherwise. An add that crashed
has no end; if its element was never read it is left out. Time is linear in the ops and in the sizes of all distinct
answers.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np

from splitbrain.checkers.linearizable.deciders import Decision
from splitbrain.checkers.linearizable.deciders.intervals import FOREVER, by_invocation, ends
from splitbrain.checkers.linearizable.ops import I64, Ops, show
from splitbrain.checkers.models import UNKNOWN, Model

NONE: Final = -1


def decide_grow_set(ops: Ops, _: Model) -> Decision | None:
    """Whether the ops are those of a set that only grows; None if the answer of a read is no list."""
    answers: dict[int, tuple[Hashable, ...]] = {}
    for t, transition in enumerate(ops.transitions):
        if transition.f == "read" and transition.result is not UNKNOWN:
            answer = () if transition.result is None else transition.result
            if not isinstance(answer, tuple):
                return None
            answers[t] = answer
    return _Staged(ops, answers).decide()


def decide_set_without_removes(ops: Ops, model: Model) -> Decision | None:
    """Whether the ops are those of a set to which elements were only added, where its reads of all elements show it.

    None if there is a remove or a `contains`, even one that crashed, if an add answered whether it changed the set, or
    if the answer of a read is no list.
    """
    if any(t.f not in ("add", "read") or (t.f == "add" and isinstance(t.result, bool)) for t in ops.transitions):
        return None
    return decide_grow_set(ops, model)


class _Staged:
    """Ops with their stages: adds of what group k is the first to have are 2k - 1, the reads of group k are 2k."""

    def __init__(self, ops: Ops, answers: dict[int, tuple[Hashable, ...]]) -> None:
        self._ops = ops
        self._answers = answers
        self._group_of: dict[Hashable, int] = {}
        """The first group that has an element."""
        self._group = np.full(len(ops.transitions), NONE, np.int64)
        """The group of a read, by transition."""
        self._groups = 0

    def decide(self) -> Decision:
        return self._chain() or self._added() or self._in_order() or Decision(True)

    def _chain(self) -> Decision | None:
        """Put the answers into groups; the violation that they do not form a chain."""
        previous = NONE
        for t in sorted(self._answers, key=lambda t: len(self._answers[t])):
            listed = self._answers[t]
            elements = set(listed)
            if len(elements) != len(listed):
                return Decision(False, (self._first(t),), "a read listed an element twice")
            fresh = elements.difference(self._group_of)
            if len(elements) - len(fresh) != len(self._group_of):
                return self._incomparable(previous, t)
            if fresh:
                self._groups += 1
                self._group_of.update(dict.fromkeys(fresh, self._groups))
            self._group[t] = self._groups
            previous = t
        return None

    def _incomparable(self, smaller: int, larger: int) -> Decision:
        one, other = self._missing(smaller, larger), self._missing(larger, smaller)
        return Decision(
            False,
            by_invocation(self._first(smaller), self._first(larger)),
            f"one read saw {show(one)} without {show(other)}, another {show(other)} without {show(one)}",
        )

    def _added(self) -> Decision | None:
        """The violation that an element was read that no op added."""
        added = {transition.value for transition in self._ops.transitions if transition.f == "add"}
        for element in self._group_of:
            if element not in added:
                reader = self._reader(self._group_of[element])
                return Decision(False, (reader,), f"{show(element)} was read and never added")
        return None

    def _in_order(self) -> Decision | None:
        """The violation that an op ended before one of an earlier stage began."""
        ops = self._ops
        end = ends(ops)
        stage, fixed = self._stages()
        latest = np.full(2 * self._groups + 2, NONE, np.int64)
        # Ops are numbered by invocation: the largest number is the one invoked last, and of several the last one stays.
        latest[stage[fixed]] = fixed
        latest = np.maximum.accumulate(latest)
        checked = np.flatnonzero((stage > 0) & (end != FOREVER))
        before = latest[stage[checked] - 1]
        wrong = np.flatnonzero((before != NONE) & (end[checked] < ops.invoked[before]))
        return self._out_of_order(int(checked[wrong[0]]), int(before[wrong[0]])) if wrong.size else None

    def _stages(self) -> tuple[I64, I64]:
        """The stage of each op, NONE without one; and the ops that must not come later than in their stage."""
        ops = self._ops
        numbers: dict[Hashable, int] = {}
        element = np.full(len(ops.transitions), NONE, np.int64)
        stage = 2 * self._group
        for t, transition in enumerate(ops.transitions):
            if transition.f == "add":
                element[t] = numbers.setdefault(transition.value, len(numbers))
                stage[t] = 2 * self._group_of.get(transition.value, self._groups + 1) - 1
            elif transition.result is UNKNOWN:
                stage[t] = NONE
        stage_of_op, element_of_op = stage[ops.transition], element[ops.transition]
        adds = np.flatnonzero(element_of_op != NONE)
        first = np.empty(len(numbers), np.int64)
        first[element_of_op[adds[::-1]]] = adds[::-1]
        needed = first[stage_of_op[first] <= 2 * self._groups]
        reads = np.flatnonzero((element_of_op == NONE) & (stage_of_op >= 0))
        return stage_of_op, np.sort(np.concatenate([needed, reads]))

    def _out_of_order(self, early: int, late: int) -> Decision:
        """Say why `late`, which began after `early` had ended, must have come before it."""
        ops = self._ops
        ended, began = int(ops.transition[early]), int(ops.transition[late])
        if ended in self._answers and began in self._answers:
            reason = f"{show(self._missing(ended, began))} was read, and is missing from a read that began later"
        elif ended in self._answers:
            reason = f"{show(ops.transitions[began].value)} was read before any op added it"
        elif began in self._answers:
            reason = f"{show(ops.transitions[ended].value)} had been added, and is missing from a read that began later"
        else:
            first, second = ops.transitions[ended].value, ops.transitions[began].value
            reader = self._reader(self._group_of[second])
            reason = (
                f"{show(second)} was read without {show(first)}, which had been added before any op added the other"
            )
            return Decision(False, by_invocation(early, late, reader), reason)
        return Decision(False, by_invocation(early, late), reason)

    def _missing(self, has: int, lacks: int) -> Hashable:
        """The first element that one answer lists and another lacks."""
        without = set(self._answers[lacks])
        return next(element for element in self._answers[has] if element not in without)

    def _reader(self, group: int) -> int:
        """A read of a group."""
        return self._first(int(np.flatnonzero(self._group == group)[0]))

    def _first(self, transition: int) -> int:
        """The first op with a transition."""
        return int(np.argmax(self._ops.transition == transition))

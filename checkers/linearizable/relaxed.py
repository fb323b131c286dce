"""Whether some ops of a short history can all have happened as recorded, if nothing else there need have.

The witness asks this again and again of the same few hundred events, each time with fewer ops obliged. A search on
arrays (`search`) spends most of its time on being set up, for that. This one runs in plain Python on sets of
configurations, and sets nothing up anew: as nothing is obliged before the first op that is asked about, what is
possible there is worked out once, for all questions.

Just-in-time linearization, as in `frontier`: configurations are expanded only when an op ends, by ops under way, until
that op has taken effect. A configuration is the state, which of the obliged ops under way took effect, and which of the
optional ones did. Of two that differ in the last only, the one that used fewer can do everything that the other can.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from splitbrain.checkers.linearizable.frontier import ASSIGNMENTS
from splitbrain.checkers.linearizable.limits import Clock
from splitbrain.checkers.linearizable.ops import Ops
from splitbrain.checkers.linearizable.transitions import Stepper

STEPS: Final = 10_000
"""The largest number of model steps for one question: about a hundredth of a second."""

_NEVER: Final = 1 << 62

Frontier: TypeAlias = "dict[tuple[int, int], list[int]]"
"""By state and obliged ops that took effect: sets of optional ops that did, none within another. Sets are bits."""


class TooManyStepsError(Exception):
    """The answer takes more steps than are worth it here."""


class _Op(NamedTuple):
    """An op under way. In the order of its fields: of those that are alike the one that ends first comes first."""

    ends: int
    bit: int
    transition: int
    obliged: bool
    kind: int


@dataclass
class _UnderWay:
    """Ops that were called and have not ended; `due` are the obliged ones, as bits."""

    changing: list[_Op] = field(default_factory=list[_Op])
    observing: list[_Op] = field(default_factory=list[_Op])
    due: int = 0


class Relaxed:
    """A history up to a row, of which ops may be obliged at will."""

    def __init__(
        self, ops: Ops, stepper: Stepper, starts: Iterable[int], until: int, *, clock: Clock, deadline: float
    ) -> None:
        """Prepare for questions.

        Args:
            ops: the history, short.
            stepper: steps of the model.
            starts: numbers of the states in which the history may begin.
            until: row of the last event.
            clock: counts CPU seconds.
            deadline: when by the clock to leave a question unanswered.
        """
        self._stepper = stepper
        self._clock = clock
        self._deadline = deadline
        self._width = len(stepper.transitions)
        self._invoked: list[int] = ops.invoked.tolist()
        self._transition: list[int] = stepper.alike[ops.transition].tolist()
        self._observes: list[bool] = stepper.observer[ops.transition].tolist()
        self._overwrites: list[bool] = stepper.overwrite[ops.transition].tolist()
        ended = ~ops.crashed & (ops.completed <= until)
        self._ends: list[int] = [
            row if ends else _NEVER for row, ends in zip(ops.completed.tolist(), ended.tolist(), strict=True)
        ]
        self._pointless = self._asked_by_none()
        calls = [(row, False, op) for op, row in enumerate(self._invoked) if row <= until]
        returns = [(row, True, op) for op, row in enumerate(self._ends) if row != _NEVER]
        self._events = sorted(calls + returns)
        self._next: dict[int, int] = {}
        self._steps = 0
        self._free = _UnderWay()
        self._known: list[Frontier] = [{(state, 0): [0] for state in starts}]

    def impossible(self, obliged: Sequence[int]) -> bool:
        """Whether the history cannot be explained if these ops must have happened: they end in it, none crashed.

        Raises:
            TooManyStepsError: that takes too long to say.
            TooManyCellsError, OutOfMemoryError, UsageError: as `Stepper.fill`.
        """
        self._steps = 0
        must = set(obliged)
        at = bisect_left(self._events, (min(self._invoked[op] for op in must), False, -1))
        frontier = self._possible_before(at)
        under_way = self._under_way_before(at)
        for _, ending, op in self._events[at:]:
            frontier = self._follow(frontier, under_way, op, ending=ending, obliged=op in must)
            if not frontier:
                return True
        return False

    # --- events -------------------------------------------------------------------------------------------------------

    def _possible_before(self, event: int) -> Frontier:
        """What is possible before an event if nothing is obliged."""
        while len(self._known) <= event:
            _, ending, op = self._events[len(self._known) - 1]
            self._known.append(self._follow(self._known[-1], self._free, op, ending=ending, obliged=False))
        return self._known[event]

    def _under_way_before(self, event: int) -> _UnderWay:
        row = self._events[event][0]
        called = range(bisect_left(self._invoked, row))
        return _UnderWay(sorted(self._op(op, obliged=False) for op in called if self._stays(op, row)))

    def _stays(self, op: int, row: int) -> bool:
        return self._ends[op] >= row and not self._observes[op] and not self._pointless[op]

    def _op(self, op: int, *, obliged: bool) -> _Op:
        transition = self._transition[op]
        return _Op(self._ends[op], 1 << op, transition, obliged, 2 * transition + obliged)

    def _follow(self, frontier: Frontier, under_way: _UnderWay, op: int, *, ending: bool, obliged: bool) -> Frontier:
        """What is possible after an event; `under_way` is brought up to date."""
        # An optional op that changes nothing, or leaves what is not looked for, explains nothing.
        if not obliged and (self._observes[op] or self._pointless[op]):
            return frontier
        known, observes = self._op(op, obliged=obliged), self._observes[op]
        of_kind = under_way.observing if observes else under_way.changing
        if ending:
            frontier = self._ended(frontier, under_way, known, direct=self._overwrites[op])
            of_kind.remove(known)
            under_way.due &= ~known.bit
        elif observes:
            of_kind.append(known)
            under_way.due |= known.bit
            frontier = self._observed(frontier, known)
        else:
            insort(of_kind, known)
            under_way.due |= known.bit if obliged else 0
        return frontier

    def _observed(self, frontier: Frontier, op: _Op) -> Frontier:
        found: Frontier = {}
        for (state, done), sets in frontier.items():
            seen = op.bit if self._after(state, op.transition) >= 0 else 0
            found[state, done | seen] = sets
        return found

    def _ended(self, frontier: Frontier, under_way: _UnderWay, op: _Op, *, direct: bool) -> Frontier:
        """The configurations in which `op` took effect before it ended, and if it is optional those in which not."""
        found: Frontier = {}
        met: Frontier = {}
        queue: list[tuple[int, int, int]] = []
        bit = op.bit
        for (state, done), sets in frontier.items():
            for used in sets:
                if done & bit or used & bit:
                    _is_new(found, state, done & ~bit, used & ~bit)
                elif _is_new(met, state, done, used):
                    queue.append((state, done, used))
                    if not op.obliged:
                        _is_new(found, state, done, used)
        alone = [op]
        for state, done, used in queue:
            # What an overwrite leaves does not depend on what came before it. Only an obliged op may need that.
            hides = direct and under_way.due & ~done & ~bit == 0
            for after in self._steps_from(state, done, used, alone if hides else under_way.changing, under_way):
                if (after[1] | after[2]) & bit:
                    _is_new(found, after[0], after[1] & ~bit, after[2] & ~bit)
                elif _is_new(met, *after):
                    queue.append(after)
        return found

    def _steps_from(
        self, state: int, done: int, used: int, ops: Iterable[_Op], under_way: _UnderWay
    ) -> list[tuple[int, int, int]]:
        """Where one op more leads; of ops that are alike the one that ends first takes effect first."""
        found: list[tuple[int, int, int]] = []
        tried: set[int] = set()
        taken = done | used
        for _, bit, transition, obliged, kind in ops:
            if taken & bit or kind in tried:
                continue
            tried.add(kind)
            self._steps += 1
            following = self._after(state, transition)
            if following < 0:
                continue
            if obliged:
                found.append((following, self._settled(following, done | bit, under_way), used))
            elif following != state:
                found.append((following, self._settled(following, done, under_way), used | bit))
        if self._steps > STEPS:
            raise TooManyStepsError
        return found

    def _settled(self, state: int, done: int, under_way: _UnderWay) -> int:
        """Obliged ops that took effect, with those that only observe: they do the moment they can."""
        for op in under_way.observing:
            if not done & op.bit and self._after(state, op.transition) >= 0:
                done |= op.bit
        return done

    def _after(self, state: int, transition: int) -> int:
        key = state * self._width + transition
        found = self._next.get(key)
        if found is None:
            if self._clock() > self._deadline:
                raise TooManyStepsError
            found = self._next[key] = self._stepper.following(state, transition)
        return found

    def _asked_by_none(self) -> list[bool]:
        """By op, whether it leaves a value that no op looks for: to think that it happened explains nothing."""
        steps = self._stepper.steps
        if steps.mode != ASSIGNMENTS:
            return [False] * len(self._invoked)
        requires: list[int] = steps.requires[self._transition].tolist()
        if min(requires, default=0) < -1:  # something must not be held: any other value explains it
            return [False] * len(requires)
        becomes: list[int] = steps.becomes[self._transition].tolist()
        asked = set(requires)
        return [value not in asked for value in becomes]


def _is_new(met: Frontier, state: int, done: int, used: int) -> bool:
    """Whether no configuration met so far can do everything that this one can; records this one."""
    sets = met.get((state, done))
    if sets is None:
        met[state, done] = [used]
        return True
    for fewer in sets:
        if fewer & used == fewer:
            return False
    met[state, done] = [used, *(more for more in sets if more & used != used)]
    return True

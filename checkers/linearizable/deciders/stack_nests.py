"""Stacks with values that repeat, and with pops that crashed: which ops happened, and what is on top.

A search over the contents of a stack meets too many of them. But what is below the top matters only once the top is
gone. So a situation is which ops happened, and the *nest* of the top: the push that put it there, known by its value
and by which ops had happened just after it. A nest remembers where it lay (the nests below, of all the ways that led to
that push) and how it was emptied (which ops had happened after its pop, in all ways that were found). Whatever is found
within a nest is found once for all stacks on which it can lie. This is reachability in a pushdown system by saturation
(Bouajjani, Esparza and Maler, Reachability analysis of pushdown automata, CONCUR 1997); the nests are the nodes of
Tomita's graph-structured stack.

Of two ops that do the same the one that returned first comes first: exchanged, they are in real time as before. A pop
that found nothing comes as soon as it can. A push that crashed and whose value no pop is known to have returned is left
out: what took it is left out with it. A pop that crashed takes no value that the others need.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from splitbrain.checkers.linearizable.deciders import Decision
from splitbrain.checkers.linearizable.deciders.ended_ops import NOTHING, EndedOps, Line
from splitbrain.checkers.linearizable.deciders.intervals import FOREVER
from splitbrain.checkers.linearizable.deciders.repeated_values import ANY, Part, Parts, decide_repeated
from splitbrain.checkers.linearizable.limits import WITHOUT_END, Budget
from splitbrain.checkers.linearizable.ops import Ops
from splitbrain.checkers.models import Model

EMPTY: Final = -2
"""The value of a pop that found nothing."""

BOTTOM: Final = 0
"""The nest that lies under all others and is not one."""

NEST_BITS: Final = 32
"""Of a situation: a number of what has happened, then that of a nest."""

BETWEEN: Final = 64
"""Situations between two looks at the clock: one takes little longer than a look."""

Happened: TypeAlias = tuple[Line, int, int, int]
"""The ops with an end that happened; crashed pushes (a mask) and pops (how many); and when the latest of all began."""


def stack(ops: Ops, model: Model, budget: Budget = WITHOUT_END) -> Decision | None:
    """Decide a stack; None if that takes too long."""
    del model
    return decide_repeated(ops, "push", "pop", Nests, "the last value in the stack", budget)


class _Next(NamedTuple):
    """What can come next once some ops have happened. What has happened then is numbered.

    Attributes:
        done: whether nothing is left that must happen.
        pushes: value, and what has happened then.
        pops: by value; those of a pop that crashed are under ANY.
        empties: of pops that found nothing.
    """

    done: bool
    pushes: list[tuple[int, int]]
    pops: dict[int, list[int]]
    empties: list[int]


class Nests:
    """One search for a linearization."""

    most = 600_000

    def __init__(self, parts: Parts) -> None:
        """Prepare the search."""
        self._spare = [0] * (1 + max((part.value for part in (*parts.puts, *parts.takes)), default=ANY))
        for part in parts.puts:
            self._spare[part.value] += 1
        for part in parts.takes:
            if part.value != ANY:
                self._spare[part.value] -= part.obliged
        wanted = {part.value for part in parts.takes}
        ended = [part._replace(value=2 * part.value) for part in parts.puts if part.until != FOREVER]
        ended += [part._replace(value=2 * part.value + 1) for part in parts.takes if part.value != ANY]
        ended += [part._replace(value=EMPTY) for part in parts.empties if part.obliged]
        self._ended = EndedOps(sorted(ended))
        self._crashed_pushes: dict[int, list[tuple[int, Part]]] = {}
        for i, part in enumerate(part for part in parts.puts if part.until == FOREVER and part.value in wanted):
            self._crashed_pushes.setdefault(part.value, []).append((i, part))
        self._crashed_pops = [part.invoked for part in parts.takes if part.value == ANY]
        self._optional = any(not part.obliged and part.until != FOREVER for part in ended)
        self._paired = 0
        self._numbers: dict[Happened, int] = {}
        self._happened: list[Happened] = []
        self._following: list[_Next | None] = []
        self._nests: dict[tuple[int, int], int] = {}
        self._value = [ANY]
        self._below = [set[int]()]
        self._emptied = [set[int]()]
        self._seen: set[int] = set()
        self._waiting: list[int] = []

    @property
    def looked(self) -> int:
        """How often it has looked at an op."""
        return self._ended.looked + self._paired

    def exists(self, most: int, budget: Budget) -> bool | None:
        """Whether there is a linearization; None if that takes more than `most` looks at ops, or more time."""
        if min(self._spare, default=0) < 0:
            return False
        self._reach(self._number((NOTHING, 0, 0, -1)), BOTTOM)
        while self._waiting:
            at = self._waiting.pop()
            happened, nest = at >> NEST_BITS, at & (1 << NEST_BITS) - 1
            following = self._following[happened]
            if following is None:
                following = self._following[happened] = self._look(self._happened[happened])
            if following.done:
                return True
            self._paired += 1
            if self.looked > most or (not self._paired % BETWEEN and budget.is_over()):
                return None
            if nest == BOTTOM and following.empties:
                for after in following.empties:
                    self._reach(after, BOTTOM)
                if not self._optional:
                    continue
            self._go_on(nest, following)
        return False

    def _go_on(self, nest: int, following: _Next) -> None:
        """All that can come next but pops that find nothing; what is tried first is reached last."""
        value = self._value[nest]
        pops = following.pops.get(value, []) if nest != BOTTOM else []
        if nest != BOTTOM and self._spare[value] > 0 and (self._optional or not pops):
            self._pop(nest, following.pops.get(ANY, []))
        for pushed, after in following.pushes:
            self._push(nest, pushed, after)
        self._pop(nest, pops)

    def _reach(self, happened: int, nest: int) -> None:
        at = happened << NEST_BITS | nest
        if at not in self._seen:
            self._seen.add(at)
            self._waiting.append(at)

    def _push(self, lower: int, value: int, after: int) -> None:
        """Lay a nest upon another."""
        upper = self._nests.get((after, value))
        if upper is None:
            upper = self._nests[after, value] = len(self._value)
            self._value.append(value)
            self._below.append(set())
            self._emptied.append(set())
        if lower not in self._below[upper]:
            self._below[upper].add(lower)
            for left in self._emptied[upper]:
                self._reach(left, lower)
            self._reach(after, upper)

    def _pop(self, nest: int, pops: list[int]) -> None:
        """Empty a nest, wherever it lies."""
        for after in pops:
            if after not in self._emptied[nest]:
                self._emptied[nest].add(after)
                for lower in self._below[nest]:
                    self._reach(after, lower)

    def _number(self, happened: Happened) -> int:
        number = self._numbers.get(happened)
        if number is None:
            number = self._numbers[happened] = len(self._happened)
            self._happened.append(happened)
            self._following.append(None)
        return number

    def _look(self, happened: Happened) -> _Next:
        line, crashed_pushes, crashed_pops, latest = happened
        least, ahead = self._ended.ahead(line)
        if least == FOREVER:
            return _Next(True, [], {}, [])
        soon = -1 if self._optional else FOREVER
        following = _Next(False, [], {}, [])
        able = self._ended.by_value(ahead)
        parts = self._ended.parts
        for code in sorted(able, key=lambda code: -parts[able[code][0]].until):
            alike = able[code]
            able[code] = self._ended.best(alike, latest, soon)
            for i in reversed(able[code]):
                began = max(latest, self._ended.parts[i].invoked)
                after = self._number((self._ended.use(line, i, began), crashed_pushes, crashed_pops, began))
                if code == EMPTY:
                    following.empties.append(after)
                elif code % 2:
                    following.pops.setdefault(code // 2, []).append(after)
                else:
                    following.pushes.append((code // 2, after))
        for value, pushes in self._crashed_pushes.items():
            i, part = next(((i, part) for i, part in pushes if not crashed_pushes >> i & 1), (0, None))
            if part and part.invoked < least and not self._ended.dominated(part, able.get(2 * value, []), soon):
                began = max(latest, part.invoked)
                after = (line, crashed_pushes | 1 << i, crashed_pops, began)
                following.pushes.insert(0, (value, self._number(after)))
        if crashed_pops < len(self._crashed_pops) and self._crashed_pops[crashed_pops] < least:
            began = max(latest, self._crashed_pops[crashed_pops])
            following.pops[ANY] = [self._number((line, crashed_pushes, crashed_pops + 1, began))]
        return following

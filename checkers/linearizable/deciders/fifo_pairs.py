"""FIFO queues with values that repeat, and with dequeues that crashed: enqueues and dequeues matched pair by pair.

The i-th value that comes out is the i-th that went in. So an order of the enqueues and an order of the dequeues are
chosen at the same time: step i takes one enqueue and one dequeue of one value. What was enqueued and not yet dequeued
is never looked at, and enqueues that overlap are only put in order where a dequeue asks for it.

**Exact.** Two orders e1, e2, ... and d1, d2, ... of equal values, each in real time, are those of a linearization if no
enqueue ei begins after a dequeue dj has returned with i <= j. (Together with "ei before di" and real time they form no
cycle: as each order is total, a cycle can be cut short to one way from the dequeues to the enqueues and one back. The
first is real time: dj returned before ei began. The way back is em before dm, with i <= m <= j, which is what is
excluded; or em returned before dm began, and then em returned before ei began as well, which contradicts the order.)
A dequeue that found nothing stands between two steps: all that was used comes before it, and all the rest after it.
Enqueues that are left over come last. An op that crashed is used or left out; a dequeue that crashed takes any value.

**Small.** Of two enqueues of one value that can come next, the one that returned first does: exchanged, they are in
real time as before. Of two dequeues likewise, unless there is an empty one still to come. Then an enqueue that returned
before the chosen dequeue began must be used as well before the queue can be empty, so that another dequeue that began
earlier is tried too. One that is known to have returned comes before one that crashed. An empty dequeue is placed as
soon as it can be, as that obliges no other op to anything. So a step only chooses a value, and what has been used is
nearly given by how often each value was. With c clients and v values, few histories need more than n times c^(v-1)
situations, where the contents of the queue are beyond counting.

Where ops with an end may be left out, to find culprits, choosing one op can make another one too late. Fewer choices
are spared there.

The idea to advance enqueues and dequeues together is that of the frontier graphs of Lee and Mathur's fptlin, which is
for complete histories of few processes.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from splitbrain.checkers.linearizable.deciders import Decision
from splitbrain.checkers.linearizable.deciders.ended_ops import NOTHING, EndedOps, Line
from splitbrain.checkers.linearizable.deciders.intervals import FOREVER
from splitbrain.checkers.linearizable.deciders.repeated_values import ANY, Part, Parts, decide_repeated
from splitbrain.checkers.linearizable.limits import WITHOUT_END, Budget
from splitbrain.checkers.linearizable.ops import Ops
from splitbrain.checkers.models import Model

Situation: TypeAlias = tuple[Line, Line, Line, int, int, int]
"""Puts, takes and empty takes with an end that were used; crashed puts (a mask) and crashed takes (how many) that were;
and the time before which an optional op that comes later cannot have returned."""

Past: TypeAlias = tuple[int, int, tuple[int, ...]]
"""The latest beginning of a put and of a take that was used, and how many crashed takes took each value."""


def fifo(ops: Ops, model: Model, budget: Budget = WITHOUT_END) -> Decision | None:
    """Decide a FIFO queue; None if that takes too many situations."""
    del model
    return decide_repeated(ops, "enqueue", "dequeue", Matching, "the first value in the queue", budget)


def fifo_in_short(ops: Ops, model: Model, budget: Budget = WITHOUT_END) -> Decision | None:
    """Decide a FIFO queue, if that takes few situations."""
    del model
    return decide_repeated(ops, "enqueue", "dequeue", _Short, "the first value in the queue", budget)


class _Ahead(NamedTuple):
    """What can come next.

    Attributes:
        puts: numbers of puts by value, the first to return first.
        takes: of takes.
        bound: something that must still happen and is no put returns then: what begins later comes after it.
        least_put: a put that must still happen returns then.
        soon_puts: a put that began before is no hindrance to others.
        soon_takes: a take that began before is none.
    """

    puts: dict[int, list[int]]
    takes: dict[int, list[int]]
    bound: int
    least_put: int
    soon_puts: int
    soon_takes: int


class Matching:
    """One search for two orders that match."""

    most = 2_000_000

    def __init__(self, parts: Parts) -> None:
        """Prepare the search."""
        self._puts = EndedOps([part for part in parts.puts if part.until != FOREVER])
        self._takes = EndedOps([part for part in parts.takes if part.value != ANY])
        self._empties = EndedOps([part for part in parts.empties if part.obliged])
        self._crashed_puts: dict[int, list[tuple[int, int]]] = {}
        self._crashed_since = [part.invoked for part in parts.puts if part.until == FOREVER]
        for i, put in enumerate(part for part in parts.puts if part.until == FOREVER):
            self._crashed_puts.setdefault(put.value, []).append((put.invoked, i))
        self._crashed_takes = [part.invoked for part in parts.takes if part.value == ANY]
        self._optional = any(
            not part.obliged and part.until != FOREVER for part in (*self._puts.parts, *self._takes.parts)
        )
        self._spare = [0] * (1 + max((part.value for part in (*parts.puts, *parts.takes)), default=ANY))
        for part in parts.puts:
            self._spare[part.value] += 1
        for part in self._takes.parts:
            self._spare[part.value] -= part.obliged

    @property
    def looked(self) -> int:
        """How often it has looked at an op."""
        return self._puts.looked + self._takes.looked + self._empties.looked

    def exists(self, most: int, budget: Budget) -> bool | None:
        """Whether there is a linearization; None if that takes more than `most` looks at ops, or more time."""
        if min(self._spare, default=0) < 0:
            return False
        waiting: list[tuple[Situation, Past]] = [
            ((NOTHING, NOTHING, NOTHING, 0, 0, -1), (-1, -1, (0,) * len(self._spare)))
        ]
        seen: set[Situation] = set()
        while waiting:
            situation, past = waiting.pop()
            if situation in seen:
                continue
            seen.add(situation)
            if self.looked > most or budget.is_over():
                return None
            following = self._following(situation, past)
            if following is None:
                return True
            waiting.extend(following)
        return False

    def _following(self, situation: Situation, past: Past) -> list[tuple[Situation, Past]] | None:
        """The situations one step on, the most urgent one last; None if nothing is left that must happen."""
        puts, takes, empties, *_ = situation
        least_put, put = self._puts.ahead(puts)
        least_take, take = self._takes.ahead(takes)
        least_empty, empty = self._empties.ahead(empties)
        if least_take == FOREVER and least_empty == FOREVER:
            return None
        began, ended = max(past[0], past[1]), min(least_put, least_take)
        placed = [(self._placed(situation, i, began), past) for i in empty if self._fits(i, began, ended)]
        if placed and not self._optional:
            return placed[:1]
        bound = min(least_take, least_empty)
        hindered = empties[0] < len(self._empties.parts)
        ahead = _Ahead(
            self._puts.by_value([i for i in put if self._puts.parts[i].invoked < min(bound, least_put)]),
            self._takes.by_value([i for i in take if self._takes.parts[i].invoked < bound]),
            bound,
            least_put,
            -1 if self._optional else FOREVER,
            -1 if self._optional else least_put if hindered else FOREVER,
        )
        return self._steps(situation, past, ahead) + placed

    def _fits(self, i: int, began: int, ended: int) -> bool:
        """Whether empty take `i` can stand between what was used, the last of which began then, and the rest."""
        return began < ended and self._empties.parts[i].invoked < ended

    def _placed(self, here: Situation, i: int, began: int) -> Situation:
        puts, takes, empties, crashed_puts, crashed_takes, floor = here
        if self._optional:
            floor = max(floor, began, self._empties.parts[i].invoked)
        return puts, takes, self._empties.use(empties, i, -1), crashed_puts, crashed_takes, floor

    def _steps(self, here: Situation, past: Past, ahead: _Ahead) -> list[tuple[Situation, Past]]:
        """The situations after one pair more, the take that returned first last."""
        crashed = None
        if len(self._crashed_takes) > here[4] and self._crashed_takes[here[4]] < ahead.bound:
            crashed = Part(self._crashed_takes[here[4]], FOREVER, ANY, obliged=False)
        steps: list[tuple[int, Situation, Past]] = []
        for value, i, latest in self._next_puts(here, past, ahead):
            takers = self._takes.best(ahead.takes.get(value, []), max(past[1], latest, here[5]), ahead.soon_takes)
            steps += [self._pair(here, past, i, k) for k in takers]
            if crashed is None or past[2][value] >= self._spare[value]:
                continue
            if not self._takes.dominated(crashed, takers, ahead.soon_takes):
                steps.append(self._crashed_pair(here, past, i, value))
        steps.sort(key=lambda step: -step[0])
        return [step[1:] for step in steps]

    def _next_puts(self, here: Situation, past: Past, ahead: _Ahead) -> list[tuple[int, int, int]]:
        """The puts that can come next: value, number (-1, -2, ... if crashed), and when the latest put began then."""
        found: list[tuple[int, int, int]] = []
        for value in {**ahead.puts, **self._crashed_puts}:
            able = self._puts.best(ahead.puts.get(value, []), max(past[0], here[5]), ahead.soon_puts)
            found += [(value, i, max(past[0], self._puts.parts[i].invoked)) for i in able]
            for invoked, i in self._crashed_puts.get(value, []):
                if invoked >= ahead.bound or invoked >= ahead.least_put:
                    break
                if not here[3] >> i & 1:
                    part = Part(invoked, FOREVER, value, obliged=False)
                    if not self._puts.dominated(part, able, ahead.soon_puts):
                        found.append((value, -1 - i, max(past[0], invoked)))
                    break
        return found

    def _pair(self, here: Situation, past: Past, i: int, k: int) -> tuple[int, Situation, Past]:
        """The return of take `k`, and the situation after put `i` and that take."""
        puts, takes, empties, crashed_puts, crashed_takes, floor = here
        puts, crashed_puts, latest_put = self._put(i, puts, crashed_puts, past[0], floor)
        take = self._takes.parts[k]
        latest_take = max(past[1], take.invoked)
        takes = self._takes.use(takes, k, max(latest_take, floor))
        after = (puts, takes, empties, crashed_puts, crashed_takes, floor)
        return take.until, after, (latest_put, latest_take, past[2])

    def _crashed_pair(self, here: Situation, past: Past, i: int, value: int) -> tuple[int, Situation, Past]:
        """The situation after put `i` and a take that crashed, the first that is left."""
        puts, takes, empties, crashed_puts, crashed_takes, floor = here
        puts, crashed_puts, latest_put = self._put(i, puts, crashed_puts, past[0], floor)
        latest_take = max(past[1], self._crashed_takes[crashed_takes])
        spent = tuple(count + (number == value) for number, count in enumerate(past[2]))
        return FOREVER, (puts, takes, empties, crashed_puts, crashed_takes + 1, floor), (latest_put, latest_take, spent)

    def _put(self, i: int, puts: Line, crashed: int, latest: int, floor: int) -> tuple[Line, int, int]:
        """Puts and crashed puts that were used once `i` is, and the latest beginning of them."""
        if i < 0:
            return puts, crashed | 1 << (-1 - i), max(latest, self._crashed_since[-1 - i])
        latest = max(latest, self._puts.parts[i].invoked)
        return self._puts.use(puts, i, max(latest, floor)), crashed, latest


class _Short(Matching):
    most = 100_000

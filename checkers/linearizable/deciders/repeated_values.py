"""Containers in which a value may be more than once, and takes that crashed: decided by a search that is made for them.

What a take that crashed took is not known, and which of several equal values came out is not either. So these searches
choose, and have a limit. Beyond it the history is left to others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np

from splitbrain.checkers.linearizable.deciders import Decision
from splitbrain.checkers.linearizable.deciders.containers import CRASHED_TAKE, EMPTY, PUT, TAKE, Known, by_transition
from splitbrain.checkers.linearizable.deciders.intervals import FOREVER
from splitbrain.checkers.linearizable.deciders.prefixes import contradiction, smallest_prefix
from splitbrain.checkers.linearizable.limits import EXPLAIN_LEAST_S, Budget
from splitbrain.checkers.linearizable.ops import B, Ops, show

TO_BLAME: Final = 60_000
"""The largest number of looks at an op in all searches for few culprits."""

ATTEMPTS: Final = 8
"""No single search takes more than one part in ATTEMPTS of that."""

VERDICT_SHARE: Final = 0.75
"""Of a decider's time, the most that goes into the verdict; the rest is for the smallest prefix and the culprits."""

PREFIX_SHARE: Final = 0.6
"""Of the time for those two, the most that goes into the smallest prefix."""

ANY: Final = -1
"""The value of a take that crashed."""


class Part(NamedTuple):
    """An op on a container, with its times in rows.

    Attributes:
        invoked: when it was invoked.
        until: when it returned; FOREVER if it may take effect at any time later.
        value: number of the value that went in or came out; ANY for a take that crashed.
        obliged: whether it must have happened. If not it may be left out.
    """

    invoked: int
    until: int
    value: int
    obliged: bool


@dataclass(frozen=True)
class Parts:
    """A history of a container: puts, takes, and takes that found nothing, each by invocation."""

    puts: list[Part]
    takes: list[Part]
    empties: list[Part]


class Search(Protocol):
    """A search for a linearization of the parts of a history."""

    @property
    def looked(self) -> int:
        """How often it has looked at an op."""
        ...

    most: int
    """How often it may do so for a verdict, some seconds of it."""

    def exists(self, most: int, budget: Budget, /) -> bool | None:
        """Whether there is one; None if that takes more than `most` looks at ops, or more time than there is."""
        ...


MakeSearch: TypeAlias = Callable[[Parts], Search]


def decide_repeated(ops: Ops, put: str, take: str, search: MakeSearch, first: str, budget: Budget) -> Decision | None:
    """Decide a container by a search.

    Args:
        ops: the history.
        put: the function that puts a value in.
        take: the function that takes one out, or finds nothing.
        search: begins a search.
        first: which value comes out, as in "the first value in the queue".
        budget: for the verdict and for what explains it. Of that no more than the verdict took, or a little.
    """
    known = by_transition(ops, put, take)
    if known is None:
        return None
    history = _History(ops, known)
    whole = search(history.parts(FOREVER, ~ops.crashed))
    with budget.part(VERDICT_SHARE) as time:
        exists = whole.exists(whole.most, time)
    if exists is None or exists:
        return None if exists is None else Decision(True)
    explaining = budget.part(1.0, max(EXPLAIN_LEAST_S, time.spent()))
    with explaining, explaining.part(PREFIX_SHARE) as time:
        failing, exact = smallest_prefix(ops, _Refutation(history, search, whole.most, whole.most, time))
    with explaining:
        refutes = _Refutation(history, search, TO_BLAME, TO_BLAME // ATTEMPTS, explaining)
        culprits = contradiction(ops, failing, refutes)
    return Decision(False, culprits, _reason(ops, known, failing, put, take, first), exact)


class _History:
    """The ops as parts, of which those that a question is about are chosen."""

    def __init__(self, ops: Ops, known: Known) -> None:
        self._invoked: list[int] = ops.invoked.tolist()
        self._until: list[int] = np.where(ops.crashed, FOREVER, ops.completed).tolist()
        self._kind: list[int] = known.kind[ops.transition].tolist()
        self._value: list[int] = np.where(known.kind == CRASHED_TAKE, ANY, known.value)[ops.transition].tolist()

    def parts(self, row: int, obliged: B) -> Parts:
        """What is known up to a row: ops that are under way then are not obliged, and have no end."""
        parts = Parts([], [], [])
        for invoked, until, kind, value, must in zip(
            self._invoked, self._until, self._kind, self._value, obliged.tolist(), strict=True
        ):
            if invoked > row:
                break
            ended = until <= row
            part = Part(invoked, until if ended else FOREVER, value, must and ended)
            (parts.puts if kind == PUT else parts.empties if kind == EMPTY else parts.takes).append(part)
        return parts


class _Refutation:
    """Answers whether prefixes are impossible, for as long as its share of looks lasts, and its time."""

    def __init__(self, history: _History, search: MakeSearch, looks: int, each: int, budget: Budget) -> None:
        self._history, self._search = history, search
        self._left, self._each, self._budget = looks, each, budget

    @property
    def exhausted(self) -> bool:
        return self._left <= 0 or self._budget.is_over()

    def __call__(self, row: int, obliged: B, /) -> bool | None:
        if self.exhausted:
            return None
        parts = self._history.parts(row, obliged)
        search = self._search(parts)
        exists = search.exists(min(self._left, self._each), self._budget)
        self._left -= search.looked + len(parts.puts) + len(parts.takes)
        return None if exists is None else not exists


def _reason(ops: Ops, known: Known, failing: int, put: str, take: str, first: str) -> str:
    """Why a take cannot have been answered as it was: by counting where that suffices."""
    what = int(ops.transition[failing])
    if known.kind[what] == PUT:  # only the end of the smallest prefix is a take for certain
        return f"no order of the ops explains what each {take} until then returned"
    if known.kind[what] == EMPTY:
        return f"no order of the ops leaves nothing inside at any moment of that {take}"
    counted = reason_by_count(ops, known, failing, put)
    text = show(ops.transitions[what].result)
    return counted or f"no order of the ops makes {text} {first} at any moment of that {take}"


def reason_by_count(ops: Ops, known: Known, failing: int, put: str) -> str | None:
    """That a value had come out by the end of a take more often than ops had begun to put it in; None if not."""
    what, row = int(ops.transition[failing]), int(ops.completed[failing])
    value = known.value[what]
    alike = known.value[ops.transition] == value
    kind = known.kind[ops.transition]
    taken = int(np.count_nonzero(alike & (kind == TAKE) & (ops.completed <= row)))
    puts = int(np.count_nonzero(alike & (kind == PUT) & (ops.invoked < row)))
    text = show(ops.transitions[what].result)
    if not puts:
        return f"no op had begun to {put} {text}"
    if taken > puts:
        return f"{text} had come out {_times(taken)} by then, and ops had begun to {put} it only {_times(puts)}"
    return None


def _times(count: int) -> str:
    return "once" if count == 1 else "twice" if count == 2 else f"{count} times"

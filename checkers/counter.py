"""Counters: every sum that was answered lies between what had certainly been added and what may have been. O(n log n).

    lost            a sum is less than what had certainly been added before it was asked for
    counted-twice   a sum is more than all that may have been added by then: something counted twice, or was never asked
    went-back       a sum is less than one that had been answered before it was asked for
    same-sum        the sums of two increments leave no room for both, or a read answered a sum between those that an
                    increment began and ended with

An increment of unknown outcome may count or not, so each of them widens the bounds of all sums after it; the last two
rules do not depend on them. All amounts are whole and more than 0 for those two; the first two hold for any whole ones.
(The bounds are those of Jepsen's counter checker; there, increments are named `add` and answer nothing.)

Every finding refutes linearizability; the reverse does not hold. `linearizable` with the model "counter" is exact, and
cannot always be decided where many outcomes are unknown. This checker always answers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.checkers import by_key
from splitbrain.checkers.by_key import Finding
from splitbrain.checkers.verdict import Partition, Verdict
from splitbrain.results.calls import OPEN, Bools, Calls, cell, client_calls
from splitbrain.results.columns import array
from splitbrain.results.errors import UsageError
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason

_NEVER: Final = 1 << 62
"""The row at which an op ended whose end is not in the history."""


_ADD: Final = "add"
"""The function of an increment that answers nothing."""


class Change(msgspec.Struct, frozen=True):
    """An increment that happened, or may have: rows of its invocation and end, its amount, and whether it happened."""

    invoke: int
    complete: int
    by: int
    certain: bool


class Sum(msgspec.Struct, frozen=True):
    """A sum that was answered: rows of invocation and answer, and how much of it the op itself added."""

    invoke: int
    complete: int
    value: int
    by: int


_JUDGE: Final = by_key.Judge("counter", "bounds of sums")


class CounterChecker:
    """Judges one key: increments (value: the amount; answer: the sum afterwards), and reads (answer: the sum).

    An `add` (value: the amount), as Jepsen's counters have it, is an increment that answers no sum.

    Options: `increment` and `read`, the functions' names (default "increment" and "read"), and `initial`, the number at
    first (default 0). A read that answers null found that. An increment whose answer is null says no sum.
    """

    name = "counter"
    partition: Partition = "key"

    def functions(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The functions of the ops that are judged."""
        named = (by_key.function_option(self.name, options, name) for name in ("increment", "read"))
        return (*named, _ADD)

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge the ops of one key.

        Raises:
            UsageError: an option is wrong, or an amount or a sum is no whole number.
        """
        increment, read = (by_key.function_option(self.name, options, name) for name in ("increment", "read"))
        key = cell(history, "key", 0) if history.num_rows else None
        judge = _Judge(client_calls(history), increment, read, _initial(options), key)
        findings = list(judge.findings())
        figures = {
            "keys": 1,
            "sums": len(judge.sums),
            "increments": sum(change.certain for change in judge.changes),
            "unknown": sum(not change.certain for change in judge.changes),
            "exact": judge.exact,
        }
        verdict = _JUDGE.key(key, judge.table, findings, _praise(figures), figures, exercised=bool(judge.sums))
        return _with_what_was_not_tested(verdict)

    def merge(self, verdicts: Iterable[Verdict], options: Mapping[str, Any]) -> Verdict:
        """The run: broken keys first. If no sum of any key was answered, the run is unknown."""
        return _with_what_was_not_tested(_JUDGE.run(verdicts, lambda _, totals: _praise(totals)))


def _with_what_was_not_tested(verdict: Verdict) -> Verdict:
    """A verdict, which proves too little where no increment may have counted."""
    if verdict.valid != "true" or verdict.figures["increments"] or verdict.figures["unknown"]:
        return verdict
    reason = Reason(Code.NO_OCCASION, "No increment may have counted: no sum was tested but the one at first.")
    return msgspec.structs.replace(verdict, inconclusive=(reason,))


def _praise(figures: Mapping[str, Any]) -> str:
    """What there is to say where nothing is wrong, and how much of it that proves."""
    sums, unknown, exact = figures.get("sums", 0), figures.get("unknown", 0), figures.get("exact", 0)
    if not sums:
        return "No sum was ever answered."
    said = f"All {counted(sums, 'sum')} are possible; for {exact} of them one value only was."
    if not unknown:
        return f"{said} No increment had an unknown outcome: what became of such was not tested."
    return f"{said} {counted(unknown, 'increment')} of unknown outcome may have counted, and none is seen twice."


def _initial(options: Mapping[str, Any]) -> int:
    value = options.get("initial", 0)
    if type(value) is not int:
        raise UsageError(f"checker counter: option 'initial' must be a whole number, not {value!r}.")
    return value


class _Judge:
    """One key, in rows of its table: row order is real-time order."""

    def __init__(self, calls: Calls, increment: str, read: str, initial: int, key: str | None) -> None:
        self.table = calls.table
        self.initial = initial
        self.key = "the counter" if key is None else f"counter {key!r}"
        is_increment = calls.are(increment)
        is_change = is_increment | (calls.are(_ADD) & (read != _ADD))
        happened = is_increment & calls.ended("ok")
        answered, silent = self._changes(calls, happened, certain=True), is_change & ~happened
        self.changes = [
            *answered,
            *self._changes(calls, silent & calls.ended("ok"), certain=True),
            *self._changes(calls, silent & calls.ended("info"), certain=False),
        ]
        own = [change.by for change in answered]
        self.sums = [*self._sums(calls, happened, own), *self._sums(calls, calls.are(read) & calls.ended("ok"), None)]
        self.sums.sort(key=lambda each: each.complete)
        self.exact = 0
        self._bounds = _Bounds(self.changes, initial)

    def _changes(self, calls: Calls, chosen: Bools, *, certain: bool) -> list[Change]:
        invoke, complete = calls.invoke[chosen].tolist(), calls.complete[chosen].tolist()
        amounts = self._numbers(invoke)
        return [
            Change(i, c if certain and c != OPEN else _NEVER, _whole(by, "the amount of an increment"), certain)
            for i, c, by in zip(invoke, complete, amounts, strict=True)
        ]

    def _sums(self, calls: Calls, chosen: Bools, own: Sequence[int] | None) -> Iterator[Sum]:
        invoke, complete = calls.invoke[chosen].tolist(), calls.complete[chosen].tolist()
        for at, (i, c, value) in enumerate(zip(invoke, complete, self._numbers(complete), strict=True)):
            if value is not None:
                yield Sum(i, c, _whole(value, "a sum"), 0 if own is None else own[at])
            elif own is None:
                yield Sum(i, c, self.initial, 0)

    def _numbers(self, rows: Sequence[int]) -> list[Any]:
        texts = self.table["value"].take(array(np.array(rows, np.int64), pa.int64())).to_pylist()
        return [None if text is None else msgspec.json.decode(text) for text in texts]

    # --- rules ------------------------------------------------------------------------------------------------

    def findings(self) -> Iterator[Finding]:
        """All anomalies, the plainest first."""
        yield from self._beyond_bounds()
        if all(change.by > 0 for change in self.changes):
            yield from self._backwards()
            yield from self._without_room()

    def _beyond_bounds(self) -> Iterator[Finding]:
        for each in self.sums:
            least, most = self._bounds.of(each)
            self.exact += least == most
            if each.value < least:
                yield Finding(
                    "lost",
                    f"Lost: {self._answer(each)} answered {each.value} for {self.key}, but {least} had certainly been "
                    "added by then.",
                    (each.complete,),
                )
            elif each.value > most:
                yield Finding(
                    "counted-twice",
                    f"Counted twice: {self._answer(each)} answered {each.value} for {self.key}, but no more than "
                    f"{most} can have been added by then.",
                    (each.complete,),
                )

    def _backwards(self) -> Iterator[Finding]:
        highest = list(accumulate(self.sums, _higher))
        ended = [each.complete for each in self.sums]
        for each in self.sums:
            before = bisect_left(ended, each.invoke)
            if before and highest[before - 1].value > each.value - each.by:
                earlier = highest[before - 1]
                added = f" by adding {each.by}" if each.by else ""
                yield Finding(
                    "went-back",
                    f"Went back: {self._answer(earlier)} answered {earlier.value} for {self.key}, but later "
                    f"{self._answer(each)} answered {each.value}{added}.",
                    (earlier.complete, each.complete),
                )

    def _without_room(self) -> Iterator[Finding]:
        """Each increment takes the numbers from the sum that it found to the one that it made for itself."""
        made = sorted((each for each in self.sums if each.by), key=lambda each: (each.value, each.complete))
        for one, other in pairwise(made):
            if other.value - other.by < one.value:
                yield self._same_sum(one, other)
        values = [each.value for each in made]
        for each in self.sums:
            above = bisect_left(values, each.value + 1)
            if not each.by and above < len(made) and made[above].value - made[above].by < each.value:
                yield self._same_sum(made[above], each)

    def _same_sum(self, one: Sum, other: Sum) -> Finding:
        answers = [
            f"{self._answer(each)} answered {each.value}" + (f" after adding {each.by}" if each.by else "")
            for each in (one, other)
        ]
        sentence = f"Same sum: for {self.key} {answers[0]}, and {answers[1]}; there is no order of both."
        return Finding("same-sum", sentence, (one.complete, other.complete))

    def _answer(self, each: Sum) -> str:
        return by_key.answer(self.table, each.complete)


class _Bounds:
    """What a sum may be, by the rows between which it was asked for and answered."""

    def __init__(self, changes: Sequence[Change], initial: int) -> None:
        self._initial = initial
        certain = sorted((change for change in changes if change.certain), key=lambda change: change.complete)
        self._ended = [change.complete for change in certain]
        self._by_end = [_sums_of(certain, sign) for sign in (1, -1)]
        begun = sorted(changes, key=lambda change: change.invoke)
        self._begun = [change.invoke for change in begun]
        self._by_begin = [_sums_of(begun, sign) for sign in (1, -1)]

    def of(self, each: Sum) -> tuple[int, int]:
        """The least and the most."""
        ended, begun = bisect_left(self._ended, each.invoke), bisect_left(self._begun, each.complete)
        (more_ended, less_ended), (more_begun, less_begun) = (
            [sums[ended] for sums in self._by_end],
            [sums[begun] for sums in self._by_begin],
        )
        least = self._initial + more_ended + max(each.by, 0) + less_begun
        most = self._initial + more_begun + less_ended + min(each.by, 0)
        return least, most


def _higher(one: Sum, other: Sum) -> Sum:
    return other if other.value > one.value else one


def _sums_of(changes: Iterable[Change], sign: int) -> list[int]:
    """The sum of the first n amounts of this sign, by n."""
    return list(accumulate((change.by if change.by * sign > 0 else 0 for change in changes), initial=0))


def _whole(value: Any, what: str) -> int:
    if type(value) is not int:
        raise UsageError(f"checker counter: {what} must be a whole number, not {value!r:.80}.")
    return value

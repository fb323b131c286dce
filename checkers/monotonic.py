"""Monotonic: increments of the maximum of some registers are in one order, and no answer goes back in it. O(n log n).

    duplicate       two increments found the same maximum, so that both wrote the number that follows it
    not-at-once     two answers have no order: each has a higher number than the other in some register
    went-back       an op answered less than another one that had ended before it began; with `sessions`, of its process
    impossible      a number is higher than the number of increments that had begun

An increment answers what it read, so that it wrote one more than the maximum of that. Every increment reads all that it
depends on: if these rules hold, sorting by the numbers gives an order of all acknowledged ops that explains them, but
for increments of unknown outcome.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, cast

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.checkers import by_key
from splitbrain.checkers.by_key import Finding
from splitbrain.checkers.verdict import Partition, Verdict
from splitbrain.results.calls import Bools, Calls, cell, client_calls
from splitbrain.results.errors import UsageError
from splitbrain.results.quantities import counted

_JUDGE: Final = by_key.Judge("monotonic", "order of numbers")


class Found(msgspec.Struct, frozen=True):
    """What an op found in the registers: rows of its invocation and answer, its process, and whether it incremented."""

    invoke: int
    complete: int
    process: int
    registers: tuple[int, ...]
    increments: bool

    @property
    def most(self) -> int:
        """The highest number."""
        return max(self.registers, default=0)


class Monotonic:
    """Judges one group of registers: increments and reads, both answered with what they found in each register.

    Options: `sessions`, true where only the ops of one process must not go back (default false: real time).
    """

    name = "monotonic"
    partition: Partition = "key"

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge the ops of one group.

        Raises:
            UsageError: an option is wrong, or an answer is no list of whole numbers.
        """
        sessions = options.get("sessions", False)
        if not isinstance(sessions, bool):
            raise UsageError(f"checker monotonic: option 'sessions' is true or false, not {sessions!r}.")
        calls = client_calls(history)
        key = cell(history, "key", 0) if history.num_rows else None
        increments = calls.are("increment")
        found = [
            *_found(calls, increments & calls.ended("ok"), increments=True),
            *_found(calls, calls.are("read") & calls.ended("ok"), increments=False),
        ]
        found.sort(key=lambda each: each.complete)
        judge = _Judge(history, key, found)
        begun = np.sort(calls.invoke[increments & ~calls.ended("fail")]).tolist()
        findings = [*judge.duplicates(), *judge.apart(), *judge.backwards(sessions), *judge.impossible(begun)]
        done = sum(each.increments for each in found)
        raced = _raced([each for each in found if each.increments])
        figures = {"keys": 1, "increments": done, "reads": len(found) - done, "raced": raced}
        praise = f"All {counted(done, 'increment')} of {key} are in one order."
        return _JUDGE.key(key, history, findings, praise, figures, exercised=raced > 0)

    def merge(self, verdicts: Iterable[Verdict], options: Mapping[str, Any]) -> Verdict:
        """The run: broken groups first. If no two increments were under way at once, the run is unknown."""
        return _JUDGE.run(verdicts, lambda _, totals: _praise(totals))


def _praise(totals: Mapping[str, int]) -> str:
    if not totals.get("raced"):
        return "No two increments of the same registers were under way at once: none could have been lost."
    return (
        f"All {counted(totals['increments'], 'increment')} are in one order, and {counted(totals['reads'], 'read')} "
        f"follow it; {totals['raced']} increments began while another one was under way."
    )


def _found(calls: Calls, chosen: Bools, *, increments: bool) -> Iterator[Found]:
    for invoke, complete in zip(calls.invoke[chosen].tolist(), calls.complete[chosen].tolist(), strict=True):
        value = cell(calls.table, "value", complete)
        numbers: list[Any] = cast("list[Any]", value) if isinstance(value, list) else [None]
        if not all(type(number) is int for number in numbers):
            raise UsageError(f"checker monotonic: an answer must be a list of whole numbers, not {value!r:.80}.")
        yield Found(invoke, complete, cell(calls.table, "process", invoke), tuple(numbers), increments)


def _raced(increments: Sequence[Found]) -> int:
    """How many of them began while another one was under way."""
    ended = sorted(each.complete for each in increments)
    begun = sorted(each.invoke for each in increments)
    return sum(place > bisect_left(ended, invoke) for place, invoke in enumerate(begun))


class _Judge:
    """One group, in the order of answers."""

    def __init__(self, table: pa.Table, key: str | None, found: Sequence[Found]) -> None:
        self._table = table
        self._key = key
        self._found = found

    def duplicates(self) -> Iterator[Finding]:
        """Two increments that wrote the same number."""
        wrote: dict[int, Found] = {}
        for each in self._found:
            other = wrote.setdefault(each.most, each) if each.increments else each
            if other is not each:
                yield Finding(
                    "duplicate",
                    f"Duplicate: of {self._key} {self._says(other)}, and {self._says(each)}; both wrote "
                    f"{each.most + 1}, and at least one did not see the other.",
                    (other.complete, each.complete),
                )

    def apart(self) -> Iterator[Finding]:
        """Two answers that have no order: registers only grow, so one of two states holds the other."""
        distinct: dict[tuple[int, ...], Found] = {}
        for each in self._found:
            distinct.setdefault(each.registers, each)
        for one, other in pairwise(sorted(distinct.values(), key=lambda each: (sum(each.registers), each.registers))):
            if any(mine > yours for mine, yours in zip(one.registers, other.registers, strict=False)):
                yield Finding(
                    "not-at-once",
                    f"Not at once: of {self._key} {self._says(one)}, and {self._says(other)}; numbers only grow, so "
                    "there is no order of both.",
                    (one.complete, other.complete),
                )
                return

    def backwards(self, sessions: bool) -> Iterator[Finding]:
        """Ops that found less than others which had ended before."""
        highest: dict[int, list[Found]] = {}
        ended: dict[int, list[int]] = {}
        for each in self._found:
            of = each.process if sessions else 0
            best, ends = highest.setdefault(of, []), ended.setdefault(of, [])
            before = bisect_left(ends, each.invoke)
            if before and _left(best[before - 1]) > each.most:
                earlier = best[before - 1]
                sentence = f"Went back: of {self._key} {self._says(earlier)}, but later {self._says(each)}."
                yield Finding("went-back", sentence, (earlier.complete, each.complete))
            best.append(each if not best or _left(each) > _left(best[-1]) else best[-1])
            ends.append(each.complete)

    def impossible(self, begun: Sequence[int]) -> Iterator[Finding]:
        """Numbers that need more increments than had begun."""
        for each in self._found:
            possible = bisect_left(begun, each.complete) - each.increments
            if each.most > possible:
                sentence = f"Impossible: of {self._key} {self._says(each)}, but {possible} others had begun by then."
                yield Finding("impossible", sentence, (each.complete,))

    def _says(self, each: Found) -> str:
        what = "an increment found" if each.increments else "a read found"
        return f"{by_key.answer(self._table, each.complete)}, {what} {list(each.registers)}"


def _left(each: Found) -> int:
    """The maximum after the op."""
    return each.most + each.increments

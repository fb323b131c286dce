"""Monotonic: increments of the maximum of some registers are in one order, and no answer goes back in it. O(n log n).

    duplicate       two increments found the same maximum, so that both wrote the number that follows it
    not-at-once     two states of the registers have no order: from one to the other a register got a number that was
                    taken by then, or lost one. A state is an answer, or what an increment left: its answer with its
                    number in its register
    went-back       an op answered less than another one that had ended before it began; with `sessions`, of its process
    impossible      a number is higher than the number of increments that had begun, or no increment can have written
                    it, to that register or at all

An increment answers what it read, so that it wrote one more than the maximum of that. Every increment reads all that it
depends on: if these rules hold, sorting by the numbers gives an order of all acknowledged ops that explains them.
Increments of unknown outcome wrote the numbers that are missing in it.
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
    target: int | None = None
    """The register that the increment wrote."""

    @property
    def most(self) -> int:
        """The highest number."""
        return max(self.registers, default=0)

    @property
    def left(self) -> tuple[int, ...] | None:
        """The registers as the increment left them; None for a read."""
        if self.target is None:
            return None
        return *self.registers[: self.target], self.most + 1, *self.registers[self.target + 1 :]


class Written(msgspec.Struct, frozen=True):
    """An increment of unknown outcome: the row of its invocation, and the register that it may have written."""

    invoke: int
    target: int | None


class Monotonic:
    """Judges one group of registers: increments and reads, both answered with what they found in each register.

    Options: `sessions`, true where only the ops of one process must not go back (default false: real time).
    """

    name = "monotonic"
    partition: Partition = "key"

    def functions(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The functions of the ops that are judged."""
        return ("increment", "read")

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
        unknown = [
            Written(row, _target(history, row)) for row in calls.invoke[increments & calls.ended("info")].tolist()
        ]
        findings = [
            *judge.duplicates(),
            *judge.apart(),
            *judge.backwards(sessions),
            *(list(judge.impossible(begun)) or judge.unwritten(unknown)),
        ]
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
        target = _target(calls.table, invoke, len(numbers)) if increments else None
        yield Found(invoke, complete, cell(calls.table, "process", invoke), tuple(numbers), increments, target)


def _target(table: pa.Table, invoke: int, registers: int | None = None) -> int | None:
    """The register that an increment was asked to write; None where its value is not the number of one."""
    value = cell(table, "value", invoke)
    if type(value) is not int or value < 0 or (registers is not None and value >= registers):
        return None
    return value


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
        """Two states that have no order: each increment writes one register, a number above all that were there."""
        distinct: dict[tuple[int, ...], tuple[Found, str]] = {}
        for each in self._found:
            distinct.setdefault(each.registers, (each, self._says(each)))
            if each.left is not None:
                distinct.setdefault(each.left, (each, f"{self._says(each)} and left {list(each.left)}"))
        for registers, (each, said) in distinct.items():
            if min(registers, default=0) < 0 or len(set(filter(None, registers))) < len([*filter(None, registers)]):
                sentence = (
                    f"Not at once: of {self._key} {said}; no increment writes a number a second time, or below 1."
                )
                yield Finding("not-at-once", sentence, (each.complete,))
                return
        for one, other in pairwise(sorted(distinct, key=lambda registers: (max(registers, default=0), registers))):
            if not _leads_to(one, other):
                ((first, says), (second, too)) = distinct[one], distinct[other]
                yield Finding(
                    "not-at-once",
                    f"Not at once: of {self._key} {says}, and {too}; each increment writes a number above all others "
                    "to one register, so there is no order of both.",
                    (first.complete, second.complete),
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

    def unwritten(self, unknown: Sequence[Written]) -> Iterator[Finding]:
        """Numbers that neither acknowledged increments wrote nor, each by another one, those of unknown outcome."""
        known = {each.most + 1 for each in self._found if each.increments}
        shown: dict[tuple[int, int], Found] = {}  # by number and register the first answer that has it
        for each in self._found:
            for register, number in enumerate(each.registers):
                shown.setdefault((number, register), each)
        for register in sorted({register for _, register in shown}):
            needs = [
                each for (number, at), each in shown.items() if at == register and number > 0 and number not in known
            ]
            begun = [each.invoke for each in unknown if each.target in (None, register)]
            yield from self._too_many(needs, begun, f" to register {register}")
        reached, needs = 0, list[Found]()
        for each in self._found:
            needs.extend(each for number in range(reached + 1, each.most + 1) if number not in known)
            reached = max(reached, each.most)
        yield from self._too_many(needs, [each.invoke for each in unknown], "")

    def _too_many(self, needs: Sequence[Found], begun: Sequence[int], where: str) -> Iterator[Finding]:
        """The first answer, if any, by which more numbers were shown than increments `begun` can have written."""
        begun = sorted(begun)
        for place, each in enumerate(sorted(needs, key=lambda each: each.complete)):
            possible = bisect_left(begun, each.complete)
            if place >= possible:
                sentence = (
                    f"Impossible: of {self._key} {self._says(each)}; by then {place + 1} numbers were written{where}"
                    f" that no acknowledged increment wrote, and {possible} of unknown outcome had begun that can have."
                )
                yield Finding("impossible", sentence, (each.complete,))
                return

    def _says(self, each: Found) -> str:
        what = "an increment found" if each.increments else "a read found"
        return f"{by_key.answer(self._table, each.complete)}, {what} {list(each.registers)}"


def _leads_to(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether increments can have made the second state from the first, whose highest number is not above its own."""
    taken = max(one, default=0)
    return all(mine == yours or yours > taken for mine, yours in zip(one, other, strict=False))


def _left(each: Found) -> int:
    """The maximum after the op."""
    return each.most + each.increments

"""Long fork: all reads of some registers, each written once, see the writes in one order. Exact, O(n log n).

    long-fork      two reads of which each saw a write that the other one missed
    wrong-value    a read answered what was not written

Reads that are at one moment each see a set of the writes. Some order of all writes explains them if and only if of any
two of these sets one holds the other. Real time is not looked at: snapshot isolation does not promise it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, cast

import msgspec
import pyarrow as pa

from splitbrain.checkers import by_key
from splitbrain.checkers.by_key import Finding
from splitbrain.checkers.verdict import Partition, Verdict
from splitbrain.results.calls import cell, client_calls
from splitbrain.results.errors import UsageError
from splitbrain.results.quantities import counted

_JUDGE: Final = by_key.Judge("long-fork", "sets of writes")


class Seen(msgspec.Struct, frozen=True):
    """The row of a read's answer, and the registers whose writes it saw."""

    row: int
    writes: frozenset[int]


class LongFork:
    """Judges one group of registers: writes (value: which register), reads (answer: a 1 or null for each register)."""

    name = "long-fork"
    partition: Partition = "key"

    def functions(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The functions of the ops that are judged."""
        return ("read", "write")

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge the ops of one group.

        Raises:
            UsageError: a write does not name its register by number; or a read answered a transaction, and nothing else
                is wrong.
        """
        calls = client_calls(history)
        key = cell(history, "key", 0) if history.num_rows else None
        rows = calls.complete[calls.are("read") & calls.ended("ok")].tolist()
        every = [(row, cell(history, "value", row)) for row in rows]
        answers = [(row, answer) for row, answer in every if not _is_transaction(answer)]
        writes = calls.invoke[calls.are("write") & ~calls.ended("fail")].tolist()
        begun: dict[int, int] = {}
        for row in writes:
            begun.setdefault(_register(cell(history, "value", row)), row)
        wrong = [found for row, answer in answers for found in _wrong(history, key, row, answer, begun)]
        reads = [] if wrong else [_seen(row, answer) for row, answer in answers]
        partial = sum(0 < len(read.writes) < len(begun) for read in reads)
        figures = {"keys": 1, "reads": len(answers), "partial": partial, "split": int(partial > 0)}
        findings = [*wrong, *_forks(history, key, reads)]
        odd = next((answer for _, answer in every if _is_transaction(answer)), None)
        if odd is not None and not findings:
            raise UsageError(
                f"checker long-fork: a read answers a list, a 1 or null for each register of its key, not {odd!r:.80}."
            )
        praise = f"Of {counted(len(reads), 'read')} of {key} {partial} saw one write and not the other."
        return _JUDGE.key(key, history, findings, praise, figures, exercised=partial > 0)

    def merge(self, verdicts: Iterable[Verdict], options: Mapping[str, Any]) -> Verdict:
        """The run: broken groups first. If no read saw one write without the other, the run is unknown."""
        return _JUDGE.run(verdicts, lambda _, totals: _praise(totals))


def _register(value: Any) -> int:
    """The register that a write is of.

    Raises:
        UsageError: it is no number of one.
    """
    if type(value) is not int:
        raise UsageError(f"checker long-fork: a write's value is the number of its register, not {value!r:.80}.")
    return value


def _praise(totals: Mapping[str, int]) -> str:
    if not totals.get("split"):
        return "No read saw one of two writes without the other: no fork could have shown."
    return (
        f"In each of {counted(totals['split'], 'pair')} all reads see the writes in one order; {totals['partial']} of "
        f"{counted(totals['reads'], 'read')} saw one write and not the other."
    )


def _seen(row: int, answer: Any) -> Seen:
    return Seen(row, frozenset(number for number, value in enumerate(_values(answer)) if value is not None))


def _values(answer: Any) -> list[Any]:
    """What a read found in each register; an answer that is no list is of one."""
    return cast("list[Any]", answer) if isinstance(answer, list) else [answer]


def _is_transaction(answer: Any) -> bool:
    """Whether a read answered micro-operations, as in Jepsen's long forks."""
    return any(isinstance(value, list | dict) for value in _values(answer))


def _wrong(table: pa.Table, key: str | None, row: int, answer: Any, begun: Mapping[Any, int]) -> Iterable[Finding]:
    """Values that no write can have left. `begun` has where each register's first write began that did not fail."""
    if all(
        value is None or (type(value) is int and value == 1 and begun.get(number, row) < row)
        for number, value in enumerate(_values(answer))
    ):
        return
    said = f"{by_key.answer(table, row)} answered {answer!r:.80} for {key}"
    known = frozenset(register for register, invoked in begun.items() if invoked < row)
    yield Finding(
        "wrong-value",
        f"Wrong value: {said}, but what was written by then is 1, of the registers {_listed(known)}.",
        (row,),
    )


def _forks(table: pa.Table, key: str | None, reads: Sequence[Seen]) -> Iterable[Finding]:
    """One pair of reads that have no order, if there is one."""
    first: dict[frozenset[int], Seen] = {}
    for read in reads:
        first.setdefault(read.writes, read)
    by_size = sorted(first.values(), key=lambda read: (len(read.writes), read.row))
    for one, other in pairwise(by_size):
        if not one.writes <= other.writes:
            early, late = sorted((one, other), key=lambda read: read.row)
            yield Finding(
                "long-fork",
                f"Long fork: of {key} {by_key.answer(table, early.row)} saw the write of register "
                f"{_listed(early.writes - late.writes)} and not of {_listed(late.writes - early.writes)}, and "
                f"{by_key.answer(table, late.row)} the reverse; there is no order of both writes.",
                (early.row, late.row),
            )
            return


def _listed(registers: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(registers)))

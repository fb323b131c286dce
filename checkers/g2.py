"""G2: of each pair of rows at most one is inserted, since each insertion has seen that there is none. Exact, O(n).

two-inserted    two rows of one pair were inserted, as acknowledgements and reads show: write skew (G2-item)
vanished        a row that was acknowledged, or read, is not found by a read that began later
wrong-row       a read answered what no client can have inserted
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.checkers import by_key
from splitbrain.checkers.by_key import Finding
from splitbrain.checkers.verdict import Partition, Verdict
from splitbrain.results.calls import OPEN, Bools, Calls, cell, client_calls
from splitbrain.results.quantities import counted
from splitbrain.results.values import canonical_json

_JUDGE: Final = by_key.Judge("g2", "at most one row")


class Shown(msgspec.Struct, frozen=True):
    """An insertion or a read: rows of its invocation and end, and the rows of the pair, null for none."""

    invoke: int
    complete: int
    rows: tuple[Any, ...]

    @property
    def present(self) -> int:
        """How many rows there are."""
        return sum(row is not None for row in self.rows)


class G2:
    """Judges one pair: insertions (value: both rows, one of them null), and reads (answer: both rows)."""

    name = "g2"
    partition: Partition = "key"

    def functions(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The functions of the ops that are judged."""
        return ("insert", "read")

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge the ops of one pair."""
        calls = client_calls(history)
        key = cell(history, "key", 0) if history.num_rows else None
        asked, inserts = _shown(calls, calls.are("insert"), asked=True), calls.are("insert") & calls.ended("ok")
        done, reads = (_shown(calls, inserts, asked=True), _shown(calls, calls.are("read") & calls.ended("ok")))
        raced = int(bool(done or reads) and _raced(asked))
        figures = {"keys": 1, "inserted": len(done), "attempts": len(asked), "reads": len(reads), "raced": raced}
        possible = _shown(calls, calls.are("insert") & ~calls.ended("fail"), asked=True)
        findings = [*_two(history, key, done, reads), *_others(history, key, possible, done, reads)]
        praise = f"Of the pair {key} {counted(len(done), 'row')} was inserted, in {counted(len(asked), 'attempt')}."
        return _JUDGE.key(key, history, findings, praise, figures, exercised=bool(raced))

    def merge(self, verdicts: Iterable[Verdict], options: Mapping[str, Any]) -> Verdict:
        """The run: broken pairs first. If no two insertions of different rows were under way at once, it is unknown."""
        return _JUDGE.run(verdicts, lambda _, totals: _praise(totals))


def _praise(totals: Mapping[str, int]) -> str:
    if not totals.get("raced"):
        return (
            "No two insertions of both rows of a pair were under way at once, or nothing of that pair was answered: no "
            "write skew could have shown."
        )
    return (
        f"Of none of {counted(totals['keys'], 'pair')} both rows were inserted; for {totals['raced']} of them clients "
        "tried so at once."
    )


def _shown(calls: Calls, chosen: Bools, *, asked: bool = False) -> list[Shown]:
    found: list[Shown] = []
    for invoke, complete in zip(calls.invoke[chosen].tolist(), calls.complete[chosen].tolist(), strict=True):
        value = cell(calls.table, "value", invoke if asked else complete)
        rows = tuple(cast("list[Any]", value)) if isinstance(value, list) else (value,)
        found.append(Shown(invoke, np.iinfo(np.int64).max if complete == OPEN else complete, rows))
    return found


def _raced(asked: Sequence[Shown]) -> bool:
    """Whether two insertions of different rows were under way at once."""

    def places(each: Shown) -> list[int]:
        return [place for place, row in enumerate(each.rows) if row is not None]

    latest: dict[int, int] = {}
    for each in asked:  # in the order in which they began
        for place in places(each):
            if any(end > each.invoke for other, end in latest.items() if other != place):
                return True
            latest[place] = max(latest.get(place, 0), each.complete)
    return False


def _two(table: pa.Table, key: str | None, done: Sequence[Shown], reads: Sequence[Shown]) -> Iterable[Finding]:
    if len(done) > 1:
        first, second = sorted(done, key=lambda each: each.complete)[:2]
        yield Finding(
            "two-inserted",
            f"Write skew: of the pair {key} {by_key.answer(table, first.complete)} inserted {list(first.rows)}, and "
            f"{by_key.answer(table, second.complete)} inserted {list(second.rows)}; each had found that there was "
            "neither.",
            (first.complete, second.complete),
        )
        return
    both = next((read for read in reads if read.present > 1), None)
    if both is not None:
        said = f"{by_key.answer(table, both.complete)} read {list(both.rows)}"
        yield Finding("two-inserted", f"Write skew: of the pair {key} both rows exist: {said}.", (both.complete,))
        return
    states: dict[str, Shown] = {}
    for each in sorted((each for each in (*done, *reads) if each.present), key=lambda each: each.complete):
        states.setdefault(canonical_json(each.rows), each)
    if len(states) > 1:
        first, second = list(states.values())[:2]
        yield Finding(
            "two-inserted",
            f"Write skew: of the pair {key} {by_key.answer(table, first.complete)} answered {list(first.rows)}, and "
            f"{by_key.answer(table, second.complete)} answered {list(second.rows)}: two rows were inserted, and one of "
            "them is gone.",
            (first.complete, second.complete),
        )
        return
    [shown] = states.values() or [None]
    late = next((each for each in done if shown is not None and each.invoke > shown.complete), None)
    if shown is not None and late is not None:
        yield Finding(
            "two-inserted",
            f"Inserted again: of the pair {key} {by_key.answer(table, shown.complete)} answered {list(shown.rows)}, "
            f"and {by_key.answer(table, late.complete)} inserted {list(late.rows)}, although it was asked for later.",
            (shown.complete, late.complete),
        )


def _others(
    table: pa.Table, key: str | None, asked: Sequence[Shown], done: Sequence[Shown], reads: Sequence[Shown]
) -> Iterable[Finding]:
    begun: dict[tuple[int, str], int] = {}
    for each in asked:  # in the order in which they began
        for place, row in enumerate(each.rows):
            begun.setdefault((place, canonical_json(row)), each.invoke)
    for read in reads:
        shown = [(place, canonical_json(row)) for place, row in enumerate(read.rows) if row is not None]
        if any(begun.get(each, read.complete) >= read.complete for each in shown):
            said = f"{by_key.answer(table, read.complete)} read {list(read.rows)}"
            yield Finding(
                "wrong-row", f"Wrong row: of the pair {key} {said}, which no client inserted.", (read.complete,)
            )
    known = min((each for each in (*done, *reads) if each.present), key=lambda each: each.complete, default=None)
    for read in reads:
        if known is not None and not read.present and read.invoke > known.complete:
            yield Finding(
                "vanished",
                f"Vanished: of the pair {key} {by_key.answer(table, known.complete)} answered {list(known.rows)}, but "
                f"{by_key.answer(table, read.complete)}, asked later, found no row.",
                (known.complete, read.complete),
            )

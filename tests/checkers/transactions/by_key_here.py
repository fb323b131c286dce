"""A history taken apart by key in this process: what Spark does with tables, with loops.

    python -m tests.checkers.transactions.by_key_here [--count 2000] [--seed 1]

compares random histories, judged so and as a whole, and exits with 1 at the first difference.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.checkers import engine
from splitbrain.checkers.transactions.assumptions import Assumptions
from splitbrain.checkers.transactions.by_key import barriers, concluding, edges, parts, reasons, rest, rows, trimming
from splitbrain.checkers.transactions.columns import COMMITTED, MAYBE, Ints, paired
from splitbrain.checkers.transactions.graph import PROCESS
from splitbrain.checkers.transactions.judging import Expected, Workload, tag_of, uses_derived
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.arrow import to_table, write_parquet
from splitbrain.results.columns import array, numbers
from splitbrain.results.formats.rows import knows_realtime
from splitbrain.results.history import Mop, Op, OpType
from tests.checkers.transactions.brute_force import ops_of, random_history

BUCKETS = 3
COMPARED = ("anomaly_types", "not", "also_not", "tolerated", "open_keys", "unverified")


def by_key(history: pa.Table, workload: Workload, expected: Expected, piece: int, **assumed: Any) -> Verdict:
    """The verdict on a history, in pieces of that many rows."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.parquet"
        write_parquet(history, path)
        return _Here(path, history, workload, expected, Assumptions(**assumed), piece).verdict()


def differences(ours: Verdict, whole: Verdict) -> list[str]:
    """In what two verdicts differ that should not."""
    found = [name for name in ("valid", "anomalies", "inconclusive") if getattr(ours, name) != getattr(whole, name)]
    found += [name for name in COMPARED if ours.evidence.get(name) != whole.evidence.get(name)]
    found += [name for name, count in whole.figures.items() if ours.figures.get(name) != count and name != "edges"]
    ours_named, whole_named = ours.evidence.get("anomalies", {}), whole.evidence.get("anomalies", {})
    if {name: len(each) for name, each in ours_named.items()} != {
        name: len(each) for name, each in whole_named.items()
    }:
        found.append("witnesses")
    return found


class _Here:
    def __init__(
        self, path: Path, history: pa.Table, workload: Workload, expected: Expected, assumed: Assumptions, piece: int
    ) -> None:
        self._path, self._history, self._piece, self._expected = path, history, piece, expected
        self._tag, self._lacks_realtime = tag_of(expected.proscribed, realtime=knows_realtime(history))
        derives = workload == "rw-register" and uses_derived(expected.proscribed)
        self._how = parts.How("history", workload, assumed, derives)
        pairs = paired(history, "history")
        self._invoked, self._completed, self._status = pairs.invoke, pairs.complete, pairs.status
        self._process, self._row = pairs.process[pairs.invoke], pairs.rows

    def verdict(self) -> Verdict:
        mops = self._mops()
        groups = {n: mops.filter(array(numbers(mops.column("bucket")) == n)) for n in range(BUCKETS)}
        groups = {number: table for number, table in groups.items() if table.num_rows}
        proven = np.concatenate(
            [np.zeros(0, np.int64), *(parts.proven_in(self._how, each) for each in groups.values())]
        )
        found = [parts.part_rows(self._how, number, table, proven) for number, table in groups.items()]
        by_data = pa.concat_tables([edges.EDGES.empty_table(), *found])
        kind = numbers(by_data.column("kind"))
        notes = [by_data.column("note")[row].as_py() for row in np.flatnonzero(kind == edges.NOTE).tolist()]
        note = parts.together([msgspec.msgpack.decode(each, type=parts.Note) for each in notes])
        order = self._order(proven)
        graph = pa.concat_tables([by_data.filter(array(kind >= 0)), order])
        saturates = self._how.derives and note.open_count > 0
        left = (
            pa.concat_tables([by_data.filter(array(kind == edges.KEYS)), graph]) if saturates else self._trimmed(graph)
        )
        result = rest.search_rest(left.to_batches(), self._tag) if left.num_rows else rest.Rest({}, (), 0)
        judged = concluding.Found(
            self._how, self._expected, note, result, graph.num_rows, len(self._invoked), self._lacks_realtime
        )
        why = [reasons.why(self._how, each, proven, result.asked, ()) for each in groups.values()]
        judged = replace(judged, why=why)
        cited, _ = self._cited(judged.cited)
        unknown = concluding.of_unknown_outcome(cited, "history")
        why = [*why, *(reasons.why(self._how, each, proven, (), unknown) for each in groups.values())]
        judged = replace(judged, why=why)
        return concluding.concluded(self._how.workload, judged, *self._cited(judged.cited), 0.0)

    def _mops(self) -> pa.Table:
        found = [rows.MOPS.empty_table()]
        for begin in range(0, self._history.num_rows, self._piece):
            mine = (self._row >= begin) & (self._row < begin + self._piece)
            columns = (self._row, self._invoked, self._completed, self._process.astype(np.int64))
            called = rows.Called(*(each[mine] for each in columns), status=self._status[mine])
            end = min(begin + self._piece, self._history.num_rows)
            found.append(rows.mop_rows(self._path, begin, end, called, BUCKETS))
        return pa.concat_tables(found)

    def _order(self, proven: Ints) -> pa.Table:
        committed = (self._status == 0) | (np.isin(self._invoked, proven) & (self._status == MAYBE))
        time = edges.times_of(self._invoked, self._completed, self._status)
        if self._tag == 1:
            return self._processes(committed, time)
        done = self._completed[self._status == 0]
        if not self._tag or not len(done) or done.min() > self._invoked[committed].max():
            return edges.EDGES.empty_table()
        index = np.concatenate([self._invoked[committed], self._completed[self._status == 0]])
        role = np.concatenate([np.full(int(committed.sum()), barriers.INVOKES), np.full(len(done), barriers.COMPLETES)])
        txn = np.concatenate([self._invoked[committed], self._invoked[self._status == 0]])
        times = np.concatenate([time[committed], time[self._status == 0]])
        pieces = int(self._invoked[committed].max()) // self._piece + 1
        found: list[pa.Table] = []
        for number in range(pieces):
            first, end = number * self._piece, (number + 1) * self._piece
            mine = (index >= first) & (index < end)
            columns = (index[mine], role[mine], txn[mine], times[mine])
            found.append(barriers.barrier_rows(first, end, *columns, last=number == pieces - 1))
        return pa.concat_tables(found)

    def _processes(self, committed: Any, time: Ints) -> pa.Table:
        found: list[tuple[int, int, int, int, int]] = []
        last: dict[int, int] = {}
        for each in np.flatnonzero(committed).tolist():
            before = last.get(int(self._process[each]))
            if before is not None:
                found.append((self._invoked[before], self._invoked[each], PROCESS, time[before], time[each]))
            if self._status[each] == COMMITTED:
                last[int(self._process[each])] = each
        return edges.edge_rows(*np.array(found, np.int64).reshape(-1, 5).T)

    def _trimmed(self, graph: pa.Table) -> pa.Table:
        """Cut at the first moment of each span, and keep what is on cycles in each piece."""
        begins, ends = numbers(graph.column("begins")), numbers(graph.column("ends"))
        width, end = 2 * self._piece, 2 * self._history.num_rows + 2
        cuts: list[int] = []
        carry = -1
        for begin in range(0, end, width):
            mine = (ends >= begin) & (ends < begin + width) & (begins > ends)
            cut = trimming.first_cut(begin, begin + width, ends[mine], begins[mine], carry)
            cuts += [] if cut is None else [cut]
            carry = max([carry, *begins[mine].tolist()])
        one, other = np.searchsorted(cuts, begins, side="right"), np.searchsorted(cuts, ends, side="right")
        pieces = [graph.filter(array((one == each) & (other == each))) for each in range(len(cuts) + 1)]
        return pa.concat_tables([edges.EDGES.empty_table(), *map(trimming.cyclic_edges, pieces)])

    def _cited(self, transactions: Sequence[int]) -> tuple[pa.Table, pa.Table]:
        mine = np.isin(self._invoked, np.array(transactions, np.int64))
        index = np.concatenate([self._invoked[mine], self._completed[mine]])
        chosen = np.isin(np.arange(self._history.num_rows), index)
        return self._history.filter(array(chosen)), self._history.filter(array(~chosen))


# --- random histories -------------------------------------------------------------------------------------------------


def random_cases(seed: int, count: int) -> Iterator[tuple[str, pa.Table, Workload, str]]:
    """Histories, made of several small ones, each with a name, its workload and a model."""
    rng = random.Random(seed)
    models = ("strict-serializable", "serializable", "strong-session-serializable", "snapshot-isolation")
    for number in range(count):
        workload: Workload = rng.choice(("list-append", "rw-register"))
        transactions = random_history(rng, workload)
        yield f"{seed}/{number}", to_table(ops_of(transactions)), workload, rng.choice(models)


PLANTED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "G1a": ("fail: a x 1", "ok: r x 1"),
        "dirty-update": ("fail: a x 1", "ok: a x 2", "ok: r x 1,2"),
        "G1b": ("ok: a x 1; a x 2", "ok: r x 1"),
        "lost-update": ("ok: r x ; a x 1", "ok: r x ; a x 2", "ok: r x 1,2"),
        "incompatible-order": ("ok: a x 1", "ok: a x 2", "ok: r x 1,2", "ok: r x 2,1"),
        "duplicate-elements": ("ok: a x 1", "ok: r x 1,1"),
        "garbage-read": ("ok: a x 1", "ok: r x 9"),
        "internal": ("ok: a x 1; r x ",),
        "future-read": ("ok: r x 1; a x 1",),
        "G0": ("ok: a x 1; a y 1", "ok: a x 2; a y 2", "ok: r x 1,2; r y 2,1"),
        "G1c": ("ok: a x 1; r y 1", "ok: a y 1; r x 1"),
        "G-single-item": ("ok: r x ; r y 1", "ok: a x 1; a y 1", "ok: r x 1"),
        "G2-item": ("ok: r x ; a y 1", "ok: r y ; a x 1", "ok: r x 1; r y 1"),
        "proven by another key": ("info: a x 1; a y 1", "ok: r x 1; r y ", "ok: r y "),
        "unseen": ("ok: r x ; a x 1", "ok: a x 2", "ok: a x 3; r y ", "ok: a y 1; r x "),
    }
)
"""An anomaly of each kind: transactions of which each sees what it says; a register shows the last of a list."""


def planted(workload: Workload) -> Iterator[list[Op]]:
    """Small histories with an anomaly each, once one transaction after the other, once all at the same time."""
    for transactions in PLANTED.values():
        for at_once in (False, True):
            asked, found = list[Op](), list[Op]()
            for process, words in enumerate(transactions):
                ended, mops = words.split(": ")
                done = tuple(_planted(each, workload) for each in mops.split("; "))
                wanted = tuple(Mop(each.f, each.key, None if each.f == "r" else each.value) for each in done)
                asked.append(Op(process=process, type="invoke", f="txn", mops=wanted))
                kept = done if ended == "ok" else wanted
                found.append(Op(process=process, type=cast(OpType, ended), f="txn", mops=kept))
            pairs = zip(asked, found, strict=True)
            yield [*asked, *found] if at_once else [op for pair in pairs for op in pair]


def _planted(words: str, workload: Workload) -> Mop:
    f, key, values = words.split(" ")
    numbers = tuple(int(each) for each in values.split(",") if each)
    if f == "a":
        return Mop("append" if workload == "list-append" else "w", key, numbers[0])
    if workload == "list-append":
        return Mop("r", key, values=numbers)
    return Mop("r", key, numbers[-1] if numbers else None)


def combined(seed: int, workload: Workload, count: int) -> pa.Table:
    """One history of many small ones, one after the other, each with keys and processes of its own.

    They are all that are `planted`, and that many random ones.
    """
    rng = random.Random(seed)
    ops: list[Op] = []
    small = [*planted(workload), *(ops_of(random_history(rng, workload)) for _ in range(count))]
    rng.shuffle(small)
    for number, history in enumerate(small):
        for op in history:
            mops = tuple(msgspec.structs.replace(mop, key=f"{number}-{mop.key}") for mop in op.mops or ())
            ops.append(
                msgspec.structs.replace(op, process=op.process + 10 * number, mops=mops, index=len(ops), time=len(ops))
            )
    return to_table(ops)


def differs(history: pa.Table, workload: Workload, model: str, piece: int, **assumed: Any) -> list[str]:
    """In what the verdict by key differs from that on the whole history."""
    whole = engine.judge(history, [CheckerSpec(workload, {"consistency_models": [model], **assumed})])[0]
    return differences(by_key(history, workload, Expected((model,)), piece, **assumed), whole)


def main() -> int:
    """Compare, and print the first difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    bad = 0
    for name, history, workload, model in random_cases(chosen.seed, chosen.count):
        found = differs(history, workload, model, 4)
        if found:
            print(f"{name}: {workload}, {model}: {', '.join(found)} differ")
            bad += 1
            if bad > 5:
                return 1
    print(f"{chosen.count} histories, {bad} differences")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

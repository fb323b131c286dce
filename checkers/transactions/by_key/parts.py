"""Dependencies and anomalies of some keys, as rows: by the same inference as of a whole history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.checkers.kernels import kernel
from splitbrain.checkers.transactions.assumptions import Assumptions
from splitbrain.checkers.transactions.by_key.edges import KEYS, NOTE, edge_rows, joint, note_row, times_of
from splitbrain.checkers.transactions.by_key.rows import Part, Ref, part_of
from splitbrain.checkers.transactions.columns import MAYBE, Ints
from splitbrain.checkers.transactions.graph import I32, I64, Bools, joined
from splitbrain.checkers.transactions.inference import CASES, Case, Inference
from splitbrain.checkers.transactions.judging import Workload, infer
from splitbrain.checkers.transactions.lists import committed_by_lists
from splitbrain.checkers.transactions.open_keys import each_of
from splitbrain.checkers.transactions.registers import committed_by_registers
from splitbrain.results.errors import HistoryFormatError

LISTED: Final = 20
"""The largest number of open keys that have a name in a note."""


class Cited(msgspec.Struct, frozen=True):
    """A `Case`, by places in the whole history.

    Attributes:
        anomaly: its type.
        place: where it comes among cases of its type.
        transactions: as in `Case`, by the indexes of the ops that invoked them.
        key: its name.
        mops, values, rules: as in `Case`.
    """

    anomaly: str
    place: Ref
    transactions: tuple[int, ...]
    key: str
    mops: tuple[Ref, ...]
    values: tuple[int, ...]
    rules: tuple[str, ...] = ()


class Note(msgspec.Struct, frozen=True):
    """What was found in a group of keys beside edges.

    Attributes:
        error: why it could not be judged; then nothing else is said.
        counts: how many anomalies of each type that are no cycles.
        cases: the first of each type.
        figures: counts, for the verdict.
        by_kind: how many edges there are of each kind.
        open_keys: keys of whose versions the order is not known: the first ones, each with where it appears first.
        open_count: how many there are.
        undecided: what was not looked at.
    """

    error: str = ""
    counts: dict[str, int] = {}
    cases: tuple[Cited, ...] = ()
    figures: dict[str, int] = {}
    by_kind: dict[int, int] = {}
    open_keys: tuple[tuple[Ref, str], ...] = ()
    open_count: int = 0
    undecided: tuple[str, ...] = ()


class Versions(msgspec.Struct, frozen=True):
    """The versions of a register: of each the write, and the reads that found it (`open_keys.Key`)."""

    first: Ref
    name: str
    writes: tuple[Ref, ...]
    reads: tuple[tuple[Ref, ...], ...]


class How(msgspec.Struct, frozen=True):
    """How a history is judged.

    Attributes:
        source: names it in errors.
        workload: its workload.
        assumptions: of registers.
        derives: whether edges that only saturation finds matter.
    """

    source: str
    workload: Workload
    assumptions: Assumptions
    derives: bool


def proven_in(how: How, table: pa.Table) -> Ints:
    """The transactions of unknown outcome of which a read of these keys shows that they committed; as nodes.

    Raises:
        HistoryFormatError: the rows are not of this workload.
    """
    transactions = part_of(table).transactions
    if how.workload == "list-append":
        committed = committed_by_lists(transactions, how.source)
    else:
        committed = committed_by_registers(transactions, how.source)
    return transactions.invoked[committed & (transactions.status == MAYBE)]


def inferred(how: How, part: Part, proven: Ints) -> Inference:
    """What follows of what transactions did to some keys.

    Args:
        how: it is judged.
        part: of the history.
        proven: transactions of unknown outcome that committed, as nodes; more than these may be among them.

    Raises:
        HistoryFormatError: the rows are not of this workload.
    """
    known: Bools = np.isin(part.transactions.invoked, proven)
    return infer(part.transactions, how.workload, how.assumptions, how.source, known)


def part_rows(how: How, bucket: int, table: pa.Table, proven: Ints) -> pa.Table:
    """Rows of `edges.EDGES`: dependencies by some keys, a note on what else was found, and versions of open keys."""
    part = part_of(table)
    try:
        found = inferred(how, part, proven)
    except HistoryFormatError as error:
        return note_row(NOTE, bucket, msgspec.msgpack.encode(Note(error=str(error))))
    tables = [_edges(bucket, part, found), note_row(NOTE, bucket, msgspec.msgpack.encode(_note(part, found)))]
    if how.derives and found.open_keys:
        tables.append(note_row(KEYS, bucket, msgspec.msgpack.encode(_versions(part, found))))
    return pa.concat_tables(tables)


def _edges(bucket: int, part: Part, found: Inference) -> pa.Table:
    transactions, edges = part.transactions, joined(found.edges)
    count = len(transactions)
    node = np.empty(found.nodes, np.int64)
    node[:count] = transactions.invoked
    node[count:] = joint(bucket, 0) + np.arange(found.nodes - count)
    time = np.full(found.nodes, np.iinfo(np.int64).max)
    time[:count] = times_of(transactions.invoked, transactions.completed, transactions.status)
    time_joints(edges.source, edges.target, count, time)
    time[time == np.iinfo(np.int64).max] = 0  # joints of no group
    source, target = edges.source, edges.target
    return edge_rows(node[source], node[target], edges.kind, time[source], time[target])


@kernel
def time_joints(source: I32, target: I32, count: int, time: I64) -> None:
    """Place each joint where the first is that it leads to: then only an edge to it can lead back in time.

    Joints lead to the one before them or to the one behind (`groups.link_joints`), and their edges are in order.
    """
    for edge in range(len(source)):
        if source[edge] >= count and target[edge] < source[edge]:
            time[source[edge]] = min(time[source[edge]], time[target[edge]])
    for back in range(len(source)):
        edge = len(source) - 1 - back
        if source[edge] >= count and target[edge] > source[edge]:
            time[source[edge]] = min(time[source[edge]], time[target[edge]])


def _note(part: Part, found: Inference) -> Note:
    firsts = _Firsts(part)
    listed = [(firsts.of(key), part.transactions.key_names[key]) for key in found.open_keys[:LISTED]]
    return Note(
        counts=dict(found.counts),
        cases=tuple(_cited(part, firsts, case) for case in found.cases),
        figures=dict(found.figures),
        by_kind=found.kinds,
        open_keys=tuple(listed),
        open_count=len(found.open_keys),
        undecided=found.undecided,
    )


class _Firsts:
    """Where keys appear first. They are numbered in this order."""

    def __init__(self, part: Part) -> None:
        self._part = part
        _, self._mop = np.unique(part.transactions.mop_key, return_index=True)

    def of(self, key: int) -> Ref:
        return self._part.ref(int(self._mop[key]))


def _cited(part: Part, firsts: _Firsts, case: Case) -> Cited:
    if case.anomaly in ("dirty-update", "cyclic-versions"):
        place = firsts.of(case.key)
    else:
        place = part.ref(case.mops[1 if case.anomaly == "lost-update" else 0])
    return Cited(
        anomaly=case.anomaly,
        place=place,
        transactions=tuple(int(part.transactions.invoked[each]) for each in case.transactions),
        key=part.transactions.key_names[case.key],
        mops=tuple(part.ref(mop) for mop in case.mops),
        values=case.values,
        rules=case.rules,
    )


def _versions(part: Part, found: Inference) -> list[Versions]:
    firsts = _Firsts(part)
    return [
        Versions(
            firsts.of(key.number),
            part.transactions.key_names[key.number],
            tuple(part.ref(mop) for mop, _ in key.writes),
            tuple(tuple(part.ref(mop) for mop, _ in reads) for reads in key.reads),
        )
        for key in each_of(found.keys())
    ]


# --- all groups together ----------------------------------------------------------------------------------------------


def together(notes: Sequence[Note]) -> Note:
    """What was found in all groups."""
    counts: dict[str, int] = {}
    figures: dict[str, int] = {}
    by_kind: dict[int, int] = {}
    totals: list[tuple[dict[Any, int], str]] = [(counts, "counts"), (figures, "figures"), (by_kind, "by_kind")]
    for note in notes:
        for total, name in totals:
            for each, count in getattr(note, name).items():
                total[each] = total.get(each, 0) + count
    cases: list[Cited] = []
    for anomaly in counts:
        mine = sorted((case for note in notes for case in note.cases if case.anomaly == anomaly), key=_place)
        cases += mine[:CASES]
    return Note(
        error=next((note.error for note in notes if note.error), ""),
        counts=counts,
        cases=tuple(cases),
        figures=figures,
        by_kind=by_kind,
        open_keys=tuple(sorted(each for note in notes for each in note.open_keys)[:LISTED]),
        open_count=sum(note.open_count for note in notes),
        undecided=tuple(dict.fromkeys(each for note in notes for each in note.undecided)),
    )


def _place(case: Cited) -> Ref:
    return case.place

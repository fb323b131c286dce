"""Inference for list-append: appends of unique values to lists, and reads of whole lists.

The rules are Elle's (Kingsbury and Alvaro, VLDB 2020), with one more: a committed append that no read shows comes after
the longest read. Elle drops those where a key has two or more appends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from splitbrain.checkers.kernels import plainly
from splitbrain.checkers.transactions import list_findings as findings
from splitbrain.checkers.transactions import list_kernels as kernels
from splitbrain.checkers.transactions.columns import COMMITTED, NIL, READ, UNKNOWN, WRITE, Transactions
from splitbrain.checkers.transactions.graph import NO_G_SINGLE, RW, U8, WR, WW, Bools, Edges, derived
from splitbrain.checkers.transactions.groups import edges_in, link_joints, room_for
from splitbrain.checkers.transactions.inference import CASES, Because, Case, Found, Inference
from splitbrain.checkers.transactions.list_kernels import Order
from splitbrain.checkers.transactions.writes import ABSENT, Writes, find_own, write_of, writes_of
from splitbrain.results.errors import HistoryFormatError

_BEFORE: Final = derived(WW, NO_G_SINGLE, 0)


def infer_lists(transactions: Transactions, source: str = "history", proven: Bools | None = None) -> Inference:
    """The dependencies of a history of list-append.

    Args:
        transactions: of the history, or what they did to some of its keys.
        source: names the history in errors.
        proven: those of unknown outcome that committed, as reads of other keys show.

    Raises:
        HistoryFormatError: there is a write that is no append, or a read of something that is no list.
    """
    _refuse_registers(transactions, source)
    writes = writes_of(transactions)
    order, odd = _order(transactions, writes)
    committed = _committed(transactions, writes, order)
    if proven is not None:
        committed |= proven
    lists = _Lists(transactions, writes, order, committed)
    edges, nodes = lists.edges()
    cases, counts = lists.cases()
    read = writes.mops.kind == READ
    figures = {
        "transactions": len(transactions),
        "keys": len(transactions.key_names),
        "reads": int(np.count_nonzero(read)),
        "appends": int(np.count_nonzero(~read)),
        "odd_reads": odd,
        "repeated_writes": writes.repeated,
    }
    return Inference(
        transactions=transactions,
        committed=committed,
        edges=(edges,),
        nodes=nodes,
        cases=tuple(cases),
        counts=counts,
        reasons=lists,
        open_keys=tuple(np.flatnonzero(order.crooked).tolist()),
        figures=figures,
    )


def committed_by_lists(transactions: Transactions, source: str = "history") -> Bools:
    """Which transactions committed: also those of unknown outcome whose appends a committed one has read.

    Raises:
        HistoryFormatError: as `infer_lists`.
    """
    _refuse_registers(transactions, source)
    writes = writes_of(transactions)
    return _committed(transactions, writes, _order(transactions, writes)[0])


def _committed(transactions: Transactions, writes: Writes, order: Order) -> Bools:
    committed = transactions.status == COMMITTED
    kernels.mark_committed(writes.mops, writes.table, order, committed)
    return committed


def _refuse_registers(transactions: Transactions, source: str) -> None:
    kind, value = transactions.mop_kind, transactions.mop_value
    scalar = (kind == READ) & (transactions.list_length < 0) & (value != NIL) & (value != UNKNOWN)
    wrong = scalar | (kind == WRITE)
    if wrong.any():
        mop = int(np.argmax(wrong))
        txn = int(np.searchsorted(transactions.mop_start, mop, side="right")) - 1
        found = "a write" if kind[mop] == WRITE else f"a read of {transactions.read(mop)!r:.40}"
        raise HistoryFormatError(
            source,
            f"op {transactions.invoked[txn]}: list-append has appends and reads of lists, found {found}. Is the "
            f"workload rw-register?",
        )


def _order(transactions: Transactions, writes: Writes) -> tuple[Order, int]:
    """The order of each key, and how many reads do not fit it."""
    keys, count = len(transactions.key_names), transactions.mop_count
    longest, length = np.full(keys, ABSENT, np.int32), np.zeros(keys, np.int64)
    kernels.find_longest(writes.mops, longest, length)
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(length)])
    order = Order(
        start=start,
        write=np.full(int(start[-1]), ABSENT, np.int32),
        position=np.full(count, -1, np.int32),
        longest=longest,
        odd=np.zeros(count, np.bool_),
        crooked=np.zeros(keys, np.bool_),
    )
    kernels.fill_order(writes.mops, writes.table, order)
    return order, kernels.mark_odd(writes.mops, order)


@dataclass(frozen=True)
class _Lists:
    """The orders of a history's lists, and what follows from them."""

    transactions: Transactions
    writes: Writes
    order: Order
    committed: Bools

    def edges(self) -> tuple[Edges, int]:
        """All edges, and the number of nodes with joints."""
        mops, table, order = self.writes.mops, self.writes.table, self.order
        keys, count, nodes = len(order.longest), self.transactions.mop_count, len(self.transactions)
        following = np.full(len(order.write) + keys, ABSENT, np.int32)
        last = np.full(keys, ABSENT, np.int32)
        unseen, size = np.empty(count, np.int32), np.zeros(keys + 1, np.int64)
        found = kernels.count_unseen(mops, table, order, self.writes.final, self.committed, unseen, size)
        unseen = unseen[:found]
        unseen = unseen[np.argsort(mops.key[unseen], kind="stable")]
        reads = int(np.count_nonzero(mops.kind == READ))
        out = room_for(len(order.write) + 5 * reads + 4 * found + 2 * keys)
        kernels.link_order(mops, order, self.committed, following, last, out)
        kernels.link_reads(mops, table, order, self.committed, following, out)
        if found:
            place, start, targets = np.full(count, -1, np.int32), np.cumsum(size), mops.owner[unseen]
            first = nodes
            nodes = link_joints(targets, start, first, out)
            kernels.link_last(order, last, targets, start, first, out)
            place[unseen] = np.arange(found, dtype=np.int32)
            own = np.empty(count, np.int32)
            find_own(mops, place, np.empty(keys, np.int32), own)
            kernels.link_unseen(mops, order, following, targets, start, place, own, first, _BEFORE, out)
        return edges_in(out), nodes

    # --- why there is an edge -----------------------------------------------------------------------------------------

    def because(self, one: int, other: int, kind: int) -> Because:
        """Why transaction `other` depends on `one` in that way."""
        rule = {WW: self._overwritten, WR: self._read, RW: self._lacking, _BEFORE: self._unseen}[kind]
        for before in self._mops(one):
            for after in self._mops(other):
                if self.writes.mops.key[before] == self.writes.mops.key[after]:
                    found = rule(before, after)
                    if found is not None:
                        return found
        raise AssertionError(f"nothing explains the edge of kind {kind} from transaction {one} to {other}")

    def _mops(self, transaction: int) -> range:
        return range(int(self.writes.mops.start[transaction]), int(self.writes.mops.start[transaction + 1]))

    def _overwritten(self, before: int, after: int) -> Because | None:
        mops, position = self.writes.mops, self.order.position
        if mops.kind[before] == READ or mops.kind[after] == READ or position[before] < 0:
            return None
        key = int(mops.key[before])
        if position[after] < 0 and not self.writes.final[after]:
            return None
        if 0 <= position[after] < position[before]:
            return None
        return Because(WW, key, before, after, int(self.order.longest[key]))

    def _read(self, before: int, after: int) -> Because | None:
        mops = self.writes.mops
        length = plainly(kernels.length_of, mops, after)
        if mops.kind[before] == READ or length < 1:
            return None
        if mops.elements[mops.list_start[after] + length - 1] != mops.value[before]:
            return None
        return Because(WR, int(mops.key[before]), before, after)

    def _unseen(self, before: int, after: int) -> Because | None:
        """Both appends are shown by no read, and the first transaction read what lacks the second one."""
        mops, position = self.writes.mops, self.order.position
        if mops.kind[before] == READ or mops.kind[after] == READ or position[before] >= 0 or position[after] >= 0:
            return None
        for read in self._mops(int(mops.owner[before])):
            if mops.key[read] == mops.key[before] and read < before and self._lacking(read, after) is not None:
                return Because(WW, int(mops.key[before]), before, after, read, "read-modify-write")
        return None

    def _lacking(self, before: int, after: int) -> Because | None:
        mops, order = self.writes.mops, self.order
        length = plainly(kernels.length_of, mops, before)
        if length < 0 or order.odd[before] or mops.kind[after] == READ:
            return None
        key, position = int(mops.key[before]), int(order.position[after])
        if 0 <= position < length or (position < 0 and not self.writes.final[after]):
            return None
        return Because(RW, key, before, after)

    # --- what is wrong without a cycle --------------------------------------------------------------------------------

    def cases(self) -> tuple[list[Case], dict[str, int]]:
        """Anomalies of single reads and updates, and how many there are of each type."""
        mops, table, order, keys = self.writes.mops, self.writes.table, self.order, len(self.order.longest)
        previous = self.writes.previous
        aborted, unwritten, twice, torn = (np.zeros(keys, np.int64) for _ in range(4))
        stamp = np.full(len(mops.kind), -1, np.int32)
        findings.first_flaws(mops, table, order, previous, aborted, unwritten, twice, torn, stamp)
        stamp[:] = -1
        flags = np.zeros(len(mops.kind), np.uint8)
        final = self.writes.final
        findings.flag_reads(mops, table, order, final, previous, aborted, unwritten, twice, torn, stamp, flags)
        self._flag_unwritten_twice(flags)
        findings.flag_internal(mops, previous, flags)
        findings.flag_future(mops, table, order, np.full((2, keys), -1, np.int32), flags)
        found = Found()
        self._flagged(flags, found)
        self._incompatible(flags, found)
        self._lost(found)
        self._dirty(found)
        return found.cases, found.counts

    def _flag_unwritten_twice(self, flags: U8) -> None:
        """Flag reads that have an element twice which was never appended: such elements have no number to mark."""
        garbage = (flags & findings.GARBAGE).astype(bool) & ~(flags & findings.DUPLICATE).astype(bool)
        for read in np.flatnonzero(garbage).tolist():
            values, counts = np.unique(self._elements(read), return_counts=True)
            key = int(self.writes.mops.key[read])
            if any(self._write(key, value) == ABSENT for value in values[counts > 1].tolist()):
                flags[read] |= findings.DUPLICATE

    def _flagged(self, flags: U8, found: Found) -> None:
        named = {
            findings.G1A: "G1a",
            findings.G1B: "G1b",
            findings.INTERNAL: "internal",
            findings.FUTURE: "future-read",
            findings.GARBAGE: "garbage-read",
            findings.DUPLICATE: "duplicate-elements",
        }
        for bit, anomaly in named.items():
            places = np.flatnonzero(flags & bit)
            found.add(anomaly, len(places), [self._case(anomaly, int(mop)) for mop in places[:CASES]])

    def _case(self, anomaly: str, read: int) -> Case:
        """A case of one flagged read."""
        mops, reader = self.writes.mops, int(self.writes.mops.owner[read])
        key, elements = int(mops.key[read]), self._elements(read)
        if anomaly == "duplicate-elements":
            met = set[int]()
            twice = next(element for element in elements if element in met or met.add(element))
            return Case(anomaly, (reader,), key, (read,), (twice,))
        if anomaly == "internal":
            return Case(anomaly, (reader,), key, (read, int(self.writes.previous[read])))
        if anomaly == "future-read":
            found = set(elements)
            later = next(
                mop
                for mop in self._mops(reader)
                if mop > read and mops.kind[mop] != READ and mops.key[mop] == key and int(mops.value[mop]) in found
            )
            return Case(anomaly, (reader,), key, (read, later), (int(mops.value[later]),))
        for element in [elements[-1]] if anomaly == "G1b" else elements:
            write = self._write(key, element)
            if write == ABSENT and anomaly == "garbage-read":
                return Case(anomaly, (reader,), key, (read,), (element,))
            if write >= 0 and anomaly in ("G1a", "G1b"):
                writer = int(mops.owner[write])
                if anomaly == "G1b" or mops.status[writer] == 2:
                    return Case(anomaly, (reader, writer), key, (read, write), (element,))
        raise AssertionError(f"nothing explains {anomaly} of micro-operation {read}")

    def _elements(self, read: int) -> list[int]:
        mops = self.writes.mops
        begin, length = int(mops.list_start[read]), max(int(mops.list_length[read]), 0)
        return mops.elements[begin : begin + length].tolist()

    def _write(self, key: int, value: int) -> int:
        return int(plainly(write_of, self.writes.mops, self.writes.table, key, np.int64(value)))

    def _incompatible(self, flags: U8, found: Found) -> None:
        """Reads that are no prefix of the longest, and others that show appends of one transaction torn apart."""
        odd = np.flatnonzero(self.order.odd)
        torn = np.flatnonzero(((flags & findings.TORN) != 0) & ~self.order.odd)
        cases: list[Case] = []
        for read in odd[:CASES].tolist():
            key = int(self.writes.mops.key[read])
            longest = int(self.order.longest[key])
            owner = self.writes.mops.owner
            cases.append(Case("incompatible-order", (int(owner[read]), int(owner[longest])), key, (read, longest)))
        cases += [self._torn(read) for read in torn[: CASES - len(cases)].tolist()]
        found.add("incompatible-order", len(odd) + len(torn), cases)

    def _torn(self, read: int) -> Case:
        """A case of a read that shows an append, and not before it the one that its transaction made before it."""
        mops, elements = self.writes.mops, self._elements(read)
        for place, element in enumerate(elements):
            write = self._write(int(mops.key[read]), element)
            before = ABSENT if write < 0 else self._append_before(write)
            if before != ABSENT and int(mops.value[before]) not in elements[:place]:
                owners = (int(mops.owner[read]), int(mops.owner[write]))
                return Case("incompatible-order", owners, int(mops.key[read]), (read, before, write))
        raise AssertionError(f"nothing is torn in micro-operation {read}")

    def _append_before(self, write: int) -> int:
        mops, table = self.writes.mops, self.writes.table
        return int(plainly(findings.append_before, mops, table, self.writes.previous, write))

    def _lost(self, found: Found) -> None:
        mops, order = self.writes.mops, self.order
        first = np.full(len(order.write) + len(order.longest), ABSENT, np.int32)
        lost = np.full(len(mops.kind), ABSENT, np.int32)
        count = findings.find_lost(mops, order, self.writes.final, self.writes.previous, first, lost)
        cases: list[Case] = []
        for mop in np.flatnonzero(lost >= 0)[:CASES].tolist():
            other, reads = int(lost[mop]), [self._first(mop), self._first(int(lost[mop]))]
            owners = (int(mops.owner[mop]), int(mops.owner[other]))
            cases.append(Case("lost-update", owners, int(mops.key[mop]), (reads[0], mop, reads[1], other)))
        found.add("lost-update", count, cases)

    def _first(self, mop: int) -> int:
        while self.writes.previous[mop] >= 0:
            mop = int(self.writes.previous[mop])
        return mop

    def _dirty(self, found: Found) -> None:
        mops, order = self.writes.mops, self.order
        dirty = np.full(len(order.longest), -1, np.int64)
        findings.find_dirty(mops, order, self.committed, dirty)
        keys = np.flatnonzero(dirty >= 0)
        cases: list[Case] = []
        for key in keys[:CASES].tolist():
            begin, end = int(order.start[key] + dirty[key]), int(order.start[key + 1])
            aborted, *later = order.write[begin:end].tolist()
            after = next(mop for mop in later if mop >= 0 and self.committed[mops.owner[mop]])
            owners = (int(mops.owner[after]), int(mops.owner[aborted]))
            cases.append(Case("dirty-update", owners, key, (after, aborted, int(order.longest[key]))))
        found.add("dirty-update", len(keys), cases)

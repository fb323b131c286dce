"""Inference for rw-register: writes of unique values to registers, and reads of one value.

Which transaction read from which is known. The order of versions is not; what is known of it:

*   The initial version comes before all others.
*   A transaction that reads a version and then writes the key overwrites that version or a later one. Was it an earlier
    one, there would be a G1c: it reads from the writer that overwrites it (MTC, ICDE 2025). So this rests on the
    absence of G1c, and gives antidependencies of other readers only.
*   A transaction that reads the initial version and then writes the key comes before all others that write it. If one
    came before it, there would be a G-single: it lacks that one.
*   What `saturation` finds.
*   What the user says may be assumed (`Assumptions`), see `version_orders`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from splitbrain.checkers.kernels import plainly
from splitbrain.checkers.transactions import list_findings as findings
from splitbrain.checkers.transactions import register_kernels as kernels
from splitbrain.checkers.transactions.assumptions import Assumptions
from splitbrain.checkers.transactions.columns import APPEND, COMMITTED, READ, Transactions
from splitbrain.checkers.transactions.graph import I32, NO_G1C, NO_G_SINGLE, RW, WR, WW, Bools, Edges, derived, parts
from splitbrain.checkers.transactions.groups import edges_in, link_joints, room_for
from splitbrain.checkers.transactions.inference import CASES, Because, Case, Found, Inference
from splitbrain.checkers.transactions.open_keys import Keys
from splitbrain.checkers.transactions.version_orders import PAIRS, Versions, assumed_versions
from splitbrain.checkers.transactions.writes import ABSENT, Writes, find_own, write_of, writes_of
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.quantities import counted

_BEFORE: Final = derived(WW, NO_G_SINGLE, 0)


def infer_registers(
    transactions: Transactions, assumptions: Assumptions, source: str = "history", proven: Bools | None = None
) -> Inference:
    """The dependencies of a history of rw-register.

    Args:
        transactions: of the history, or what they did to some of its keys.
        assumptions: what may be assumed.
        source: names the history in errors.
        proven: those of unknown outcome that committed, as reads of other keys show.

    Raises:
        HistoryFormatError: there is an append, or a read of a list.
    """
    _refuse_lists(transactions, source)
    writes = writes_of(transactions)
    committed = _committed(transactions, writes)
    if proven is not None:
        committed |= proven
    registers, edges, nodes = _inferred(transactions, writes, committed)
    found = registers.cases()
    extra: list[Edges] = []
    undecided: tuple[str, ...] = ()
    if assumptions.any:
        versions = assumed_versions(transactions, writes, committed, assumptions)
        registers = replace(registers, versions=versions)
        extra.append(versions.edges)
        found.add("cyclic-versions", len(versions.cyclic), list(versions.cyclic)[:CASES])
        if versions.spent:
            keys = counted(versions.spent, "key")
            left_out = f"what is assumed of {keys}: more than {PAIRS:,} pairs of versions. Use shorter histories."
            undecided = (left_out,)
    read = writes.mops.kind == READ
    figures = {
        "transactions": len(transactions),
        "keys": len(transactions.key_names),
        "reads": int(np.count_nonzero(read)),
        "writes": int(np.count_nonzero(~read)),
        "repeated_writes": writes.repeated,
    }
    return Inference(
        transactions=transactions,
        committed=committed,
        edges=(edges, *extra),
        nodes=nodes,
        cases=tuple(found.cases),
        counts=found.counts,
        reasons=registers,
        open_keys=registers.open_keys,
        keys=registers.keys,
        undecided=undecided,
        figures=figures,
    )


def committed_by_registers(transactions: Transactions, source: str = "history") -> Bools:
    """Which transactions committed: also those of unknown outcome whose writes a committed one has read.

    Raises:
        HistoryFormatError: as `infer_registers`.
    """
    _refuse_lists(transactions, source)
    return _committed(transactions, writes_of(transactions))


def _committed(transactions: Transactions, writes: Writes) -> Bools:
    committed = transactions.status == COMMITTED
    kernels.mark_read_from(writes.mops, writes.table, committed)
    return committed


def _refuse_lists(transactions: Transactions, source: str) -> None:
    wrong = (transactions.mop_kind == APPEND) | (transactions.list_length >= 0)
    if wrong.any():
        mop = int(np.argmax(wrong))
        txn = int(np.searchsorted(transactions.mop_start, mop, side="right")) - 1
        found = "an append" if transactions.mop_kind[mop] == APPEND else "a read of a list"
        raise HistoryFormatError(
            source,
            f"op {transactions.invoked[txn]}: rw-register has writes and reads of single values, found {found}. Is the "
            f"workload list-append?",
        )


def _inferred(transactions: Transactions, writes: Writes, committed: Bools) -> tuple[_Registers, Edges, int]:
    """What was read and overwritten; the edges, and the number of nodes with joints."""
    mops, keys, count = writes.mops, len(transactions.key_names), transactions.mop_count
    version, size = np.full(count, ABSENT, np.int32), np.zeros(keys + count, np.int32)
    reads = int(np.count_nonzero(mops.kind == READ))
    out = room_for(5 * reads + 4 * (count - reads) + 1)
    kernels.find_versions(mops, writes.table, writes.final, writes.previous, committed, keys, version, size, out)
    unwritten = _number_unwritten(writes, version, keys + count)
    overwriting, group = np.empty(count - reads, np.int32), np.empty(count - reads, np.int32)
    roots, overwriters = np.zeros(keys, np.int32), np.zeros(count, np.int32)
    found = kernels.find_overwritten(
        mops, writes.final, writes.previous, committed, version, size, overwriting, group, roots, overwriters
    )
    by_version = np.argsort(group[:found], kind="stable")
    overwriting, group = overwriting[:found][by_version], group[:found][by_version]
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(group, minlength=keys + count))])
    targets, place = mops.owner[overwriting], np.full(count, -1, np.int32)
    first = len(transactions)
    nodes = link_joints(targets, start, first, out)
    rmw = derived(RW, NO_G1C, 0)
    place[overwriting] = np.arange(found, dtype=np.int32)
    own = np.empty(count, np.int32)
    find_own(mops, place, np.empty(keys, np.int32), own)
    kernels.link_versions(mops, version, targets, start, place, own, keys, first, rmw, _BEFORE, out)
    forks = np.flatnonzero(overwriters > 1)
    is_open = roots > 1
    is_open[mops.key[forks]] = True
    open_keys = tuple(np.flatnonzero(is_open).tolist())
    return _Registers(transactions, writes, committed, version, unwritten, open_keys), edges_in(out), nodes


def _number_unwritten(writes: Writes, version: I32, first: int) -> int:
    """Number the versions that were read and that no transaction wrote, from `first` on; how many there are."""
    reads = np.flatnonzero(version == -2)
    if not len(reads):
        return 0
    pairs = np.stack([writes.mops.key[reads].astype(np.int64), writes.mops.value[reads]], axis=1)
    distinct, number = np.unique(pairs, axis=0, return_inverse=True)
    version[reads] = first + number.reshape(-1)
    return len(distinct)


@dataclass(frozen=True)
class _Registers:
    """The registers of a history, and what is known of their versions."""

    transactions: Transactions
    writes: Writes
    committed: Bools
    version: I32
    unwritten: int
    open_keys: tuple[int, ...]
    versions: Versions | None = None

    def keys(self) -> Keys:
        """The versions of the open keys."""
        mops, count = self.writes.mops, len(self.transactions.key_names)
        is_open = np.zeros(count, np.bool_)
        is_open[list(self.open_keys)] = True
        writes = np.flatnonzero(self.writes.final & is_open[mops.key] & self.committed[mops.owner])
        writes = writes[np.argsort(mops.key[writes], kind="stable")]
        number, first = np.unique(mops.key[writes], return_index=True)
        of_write = np.full(len(mops.kind), ABSENT, np.int64)
        of_write[writes] = np.arange(len(writes))
        reads = np.flatnonzero((self.version >= count) & is_open[mops.key])
        # Versions that no transaction wrote have numbers behind those of all writes.
        reads = reads[self.version[reads] < count + len(mops.kind)]
        version = of_write[self.version[reads] - count]
        reads, version = reads[version >= 0], version[version >= 0]
        by_version = np.argsort(version, kind="stable")
        reads = reads[by_version]
        start = np.searchsorted(version[by_version], np.arange(len(writes) + 1))
        return Keys(
            number=number.astype(np.int64),
            first=np.append(first, len(writes)).astype(np.int64),
            write=writes.astype(np.int32),
            writer=mops.owner[writes].astype(np.int32),
            start=start.astype(np.int64),
            read=reads.astype(np.int32),
            reader=mops.owner[reads].astype(np.int32),
        )

    # --- why there is an edge -----------------------------------------------------------------------------------------

    def because(self, one: int, other: int, kind: int) -> Because:
        """Why transaction `other` depends on `one` in that way."""
        for before in self._mops(one):
            for after in self._mops(other):
                if self.writes.mops.key[before] == self.writes.mops.key[after]:
                    found = self._rule(before, after, kind)
                    if found is not None:
                        return found
        raise AssertionError(f"nothing explains the edge of kind {kind} from transaction {one} to {other}")

    def _mops(self, transaction: int) -> range:
        return range(int(self.writes.mops.start[transaction]), int(self.writes.mops.start[transaction + 1]))

    def _rule(self, before: int, after: int, kind: int) -> Because | None:
        mops, key = self.writes.mops, int(self.writes.mops.key[before])
        base, level, _ = parts(kind)
        if base == WR:
            reads = mops.kind[before] != READ and mops.kind[after] == READ and mops.value[before] == mops.value[after]
            return Because(WR, key, before, after) if reads and self.writes.previous[after] < 0 else None
        if not self.writes.final[after]:
            return None
        if base == RW and self.version[before] >= 0:
            if self.version[before] < len(self.transactions.key_names):  # nil: another key may explain it at this level
                return Because(RW, key, before, after, rule="initial") if level == 0 else None
            first = self._first(after)
            if level == NO_G1C and first != after and self.version[first] == self.version[before]:
                written = int(self.version[before]) - len(self.transactions.key_names)
                return Because(RW, key, before, after, shown=written, rule="read-modify-write")
        if kind == _BEFORE and mops.kind[before] != READ and self.writes.final[before]:
            first = self._first(before)
            if mops.kind[first] == READ and self.version[first] == key:
                return Because(WW, key, before, after, shown=first, rule="read-modify-write")
        if self.versions is not None and level == 0 and base in (WW, RW):
            return self.versions.because(before, after, base)
        return None

    def _first(self, mop: int) -> int:
        while self.writes.previous[mop] >= 0:
            mop = int(self.writes.previous[mop])
        return mop

    # --- what is wrong without a cycle --------------------------------------------------------------------------------

    def cases(self) -> Found:
        """Anomalies of single reads and updates, and how many there are of each type."""
        mops, found = self.writes.mops, Found()
        flags = np.zeros(len(mops.kind), np.uint8)
        kernels.flag_reads(mops, self.writes.table, self.writes.final, self.writes.previous, flags)
        named = {
            findings.G1A: "G1a",
            findings.G1B: "G1b",
            findings.INTERNAL: "internal",
            findings.FUTURE: "future-read",
            findings.GARBAGE: "garbage-read",
        }
        for bit, anomaly in named.items():
            places = np.flatnonzero(flags & bit)
            found.add(anomaly, len(places), [self._case(anomaly, int(mop)) for mop in places[:CASES]])
        self._lost(found)
        return found

    def _case(self, anomaly: str, read: int) -> Case:
        mops, reader = self.writes.mops, int(self.writes.mops.owner[read])
        key, value = int(mops.key[read]), int(mops.value[read])
        if anomaly == "internal":
            return Case(anomaly, (reader,), key, (read, int(self.writes.previous[read])))
        if anomaly == "garbage-read":
            return Case(anomaly, (reader,), key, (read,), (value,))
        write = int(plainly(write_of, mops, self.writes.table, key, np.int64(value)))
        owners = (reader,) if anomaly == "future-read" else (reader, int(mops.owner[write]))
        return Case(anomaly, owners, key, (read, write), (value,))

    def _lost(self, found: Found) -> None:
        mops = self.writes.mops
        first = np.full(len(self.transactions.key_names) + len(mops.kind) + self.unwritten, ABSENT, np.int32)
        lost = np.full(len(mops.kind), ABSENT, np.int32)
        count = kernels.find_lost(mops, self.writes.final, self.writes.previous, self.version, first, lost)
        cases: list[Case] = []
        for mop in np.flatnonzero(lost >= 0)[:CASES].tolist():
            other = int(lost[mop])
            owners = (int(mops.owner[mop]), int(mops.owner[other]))
            cases.append(
                Case("lost-update", owners, int(mops.key[mop]), (self._first(mop), mop, self._first(other), other))
            )
        found.add("lost-update", count, cases)

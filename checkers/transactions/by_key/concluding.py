"""The verdict on a history that was taken apart: of what its parts found, and the few transactions that are cited.

Witnesses are made by the same code as of a whole history, from a history of only these transactions; reasons for edges
come from the parts. They are verified against rows of the file: those of the cited transactions, all that their
processes did meanwhile, and every write of a value that is said to be written by none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec
import pyarrow as pa

from splitbrain.checkers.transactions.by_key.parts import Cited, How, Note
from splitbrain.checkers.transactions.by_key.reasons import Reason, Why
from splitbrain.checkers.transactions.by_key.rest import Rest, Step, Way
from splitbrain.checkers.transactions.by_key.rows import Ref
from splitbrain.checkers.transactions.checker import verdict_of
from splitbrain.checkers.transactions.columns import COMMITTED, Ints, Transactions, transactions_of
from splitbrain.checkers.transactions.cycles import Cycles
from splitbrain.checkers.transactions.derived_edges import Premise
from splitbrain.checkers.transactions.inference import Because, Case, Inference
from splitbrain.checkers.transactions.judging import Expected, findings_of
from splitbrain.checkers.transactions.report import Judged, index_of, not_judged, shown_by, verified
from splitbrain.checkers.transactions.saturation import Edge, Saturated
from splitbrain.checkers.transactions.search import Cycle
from splitbrain.checkers.transactions.verify import problems_of
from splitbrain.checkers.transactions.witness import Witnesses
from splitbrain.checkers.verdict import Verdict

ALGORITHM: Final = "dependency graph by key"


@dataclass(frozen=True)
class Found:
    """What the parts of a history found.

    Attributes:
        how: it was judged.
        expected: what it should satisfy.
        note: of all keys.
        rest: of the rest of the graph.
        edges: how many the graph has, without derived ones.
        transactions: how many the history has.
        lacks_realtime: whether real time matters, and the history has none.
        why: reasons, and proofs.
    """

    how: How
    expected: Expected
    note: Note
    rest: Rest
    edges: int
    transactions: int
    lacks_realtime: bool
    why: Sequence[Why] = field(default_factory=list[Why])

    @property
    def cited(self) -> list[int]:
        """The transactions that witnesses need, as far as they are known by now."""
        found = {txn for cycle, _ in self.rest.named.values() for txn in cycle}
        for way in self.rest.ways:
            found |= {each.txn for each in (way.earlier, way.later, way.before, way.after)}
            found |= {txn for step in way.steps for txn in step[:2]}
        for case in self.note.cases:
            found |= {*case.transactions, *(mop.txn for mop in case.mops)}
        for each in self.why:
            found |= {reason.shown.txn for reason in each.reasons if reason.shown is not None}
            found |= {proof.read.txn for proof in each.proofs}
        return sorted(found)

    @property
    def unwritten(self) -> list[tuple[str, int]]:
        """Keys and values of which witnesses say that no transaction wrote them."""
        return [(case.key, case.values[0]) for case in self.note.cases if case.anomaly == "garbage-read"]


def concluded(name: str, found: Found, rows: pa.Table, further: pa.Table, seconds: float) -> Verdict:
    """The verdict.

    Args:
        name: of the checker.
        found: by the parts.
        rows: of the history, by index: all that invoke and complete the transactions in `found.cited`.
        further: more rows against which witnesses are verified.
        seconds: that it took.
    """
    inference = _inference(found, transactions_of(rows, found.how.source), index_of(rows))
    saved = _Saved(found.rest.ways, Saturated(spent=found.rest.spent), _Places(inference.transactions, index_of(rows)))
    findings = findings_of(inference, _cycles(found, saved.places), found.expected.proscribed, saved)
    findings = replace(findings, lacks_realtime=found.lacks_realtime)
    against = pa.concat_tables([rows, further]).sort_by("index") if further.num_rows else rows
    witnesses, unverified = verified(
        shown_by(findings, Witnesses(inference, saved, index_of(rows))), against, problems_of
    )
    undecided = not_judged(findings, found.how.workload, found.expected)
    judged = Judged(findings, witnesses, tuple(unverified), undecided)
    return msgspec.structs.replace(verdict_of(name, judged, found.expected, seconds), algorithm=ALGORITHM)


class _Places:
    """Where transactions and micro-operations of the whole history are in that of the cited ones."""

    def __init__(self, transactions: Transactions, index: Ints) -> None:
        self._number = {int(index[row]): each for each, row in enumerate(transactions.invoked.tolist())}
        self._start = transactions.mop_start

    def transaction(self, txn: int) -> int:
        """The number of a transaction."""
        return self._number[txn]

    def mop(self, ref: Ref | None) -> int:
        """The number of a micro-operation, -1 of none."""
        return -1 if ref is None else int(self._start[self._number[ref.txn]]) + ref.at

    def step(self, step: Step) -> Edge:
        """An edge."""
        return self._number[step[0]], self._number[step[1]], step[2]


@dataclass(frozen=True)
class _Saved:
    """What derived edges follow from, as it was found by the search."""

    ways: Sequence[Way]
    saturated: Saturated
    places: _Places

    def premise(self, edge: Edge) -> Premise | None:
        way = self._ways.get(edge)
        if way is None:
            return None
        mop = self.places.mop
        return Premise(mop(way.earlier), mop(way.later), mop(way.before), mop(way.after), edge[2])

    def way(self, transactions: int, premise: Premise, ends: tuple[int, int], rests: tuple[int, int]) -> list[Edge]:
        mop = self.places.mop
        for way in self.ways:
            if premise == (mop(way.earlier), mop(way.later), mop(way.before), mop(way.after), way.step[2]):
                return [self.places.step(step) for step in way.steps]
        raise AssertionError("a premise that the search did not say")

    @property
    def _ways(self) -> dict[Edge, Way]:
        return {self.places.step(way.step): way for way in self.ways}


@dataclass(frozen=True)
class _Reasons:
    """Reasons that were found by keys."""

    of_step: Mapping[Edge, Because]

    def because(self, one: int, other: int, kind: int) -> Because:
        return self.of_step[one, other, kind]


def _inference(found: Found, transactions: Transactions, index: Ints) -> Inference:
    """What was inferred of the whole history, as far as it concerns the cited transactions."""
    open_keys = _open_keys(found)
    numbers = {name: number for number, name in enumerate(transactions.key_names)}
    for _, name in open_keys:
        numbers.setdefault(name, len(numbers))
    for reason in _reasons_of(found.why):
        numbers.setdefault(reason.key, len(numbers))
    transactions = replace(transactions, key_names=tuple(numbers))
    places = _Places(transactions, index)
    committed = transactions.status == COMMITTED
    for each in found.why:
        for proof in each.proofs:
            committed[places.transaction(proof.write.txn)] = True
    note = found.note
    return Inference(
        transactions=transactions,
        committed=committed,
        edges=(),
        nodes=len(transactions),
        cases=tuple(_case(case, places, numbers) for case in note.cases),
        counts=note.counts,
        reasons=_Reasons(dict(_because(found.why, places, numbers))),
        open_keys=tuple(numbers[name] for _, name in open_keys),
        figures={**note.figures, "transactions": found.transactions},
        undecided=note.undecided,
        more_open_keys=note.open_count - found.rest.closed - len(open_keys),
        by_kind=note.by_kind,
    )


def _open_keys(found: Found) -> list[tuple[Ref, str]]:
    """The first keys of whose versions the order is not known."""
    return sorted(found.rest.still_open if found.rest.closed else found.note.open_keys)


def _case(case: Cited, places: _Places, numbers: Mapping[str, int]) -> Case:
    return Case(
        case.anomaly,
        tuple(places.transaction(txn) for txn in case.transactions),
        numbers[case.key],
        tuple(places.mop(ref) for ref in case.mops),
        case.values,
        case.rules,
    )


def _reasons_of(why: Sequence[Why]) -> list[Reason]:
    """One for each edge: that of the first micro-operations."""
    found = [reason for each in why for reason in each.reasons]
    first: dict[Step, Reason] = {}
    for reason in sorted(found, key=lambda reason: (reason.step, reason.before.at, reason.after.at)):
        first.setdefault(reason.step, reason)
    return list(first.values())


def _because(why: Sequence[Why], places: _Places, numbers: Mapping[str, int]) -> Iterable[tuple[Edge, Because]]:
    for reason in _reasons_of(why):
        before, after, shown = (places.mop(each) for each in (reason.before, reason.after, reason.shown))
        given = tuple(places.mop(each) for each in reason.given)
        because = Because(reason.kind, numbers[reason.key], before, after, shown, reason.rule, given)
        yield places.step(reason.step), because


def _cycles(found: Found, places: _Places) -> Cycles:
    named = {
        name: Cycle(tuple(places.transaction(txn) for txn in transactions), kinds)
        for name, (transactions, kinds) in found.rest.named.items()
    }
    return Cycles(named, found.rest.ruled_out, found.rest.core, found.edges)


def of_unknown_outcome(rows: pa.Table, source: str) -> list[int]:
    """Of the transactions in some rows of a history those of unknown outcome, as nodes."""
    transactions, index = transactions_of(rows, source), index_of(rows)
    return [int(index[row]) for row in transactions.invoked[transactions.status == 1].tolist()]


def of_evidence(verdict: Verdict, how: Mapping[str, Any]) -> Verdict:
    """The verdict, which says how the history was taken apart."""
    return msgspec.structs.replace(verdict, evidence={**verdict.evidence, "by_key": dict(how)})


__all__: Sequence[str] = ("ALGORITHM", "Found", "concluded", "of_evidence", "of_unknown_outcome")

"""Dependencies of items and of predicates between transactions, and reads that are wrong by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np

from splitbrain.checkers.transactions.columns import ABORTED, COMMITTED, MAYBE
from splitbrain.checkers.transactions.graph import RW, RWP, WR, WRP, WW, Edges
from splitbrain.checkers.transactions.inference import CASES, Because, Case, Found, Inference
from splitbrain.checkers.transactions.predicates.universe import (
    ABSENT,
    INIT,
    UNBORN,
    WRITES,
    Step,
    Universe,
    Version,
    matches,
)
from splitbrain.results.values import canonical_json

SELECTED: Final = "selected"
"""The rule of a step whose predicate read does not show the object: it follows from what else could have matched."""

INITIAL: Final = "initial"
"""The rule of a step that rests on which version of an object is the first one."""


_ENOUGH: Final = 3
"""Versions of an object that fit a read: two are too many to know which it saw, and one may be the reader's own."""


class Read(NamedTuple):
    """What a committed transaction found of one object.

    Attributes:
        transaction: the reader.
        at: the place of the read in it.
        key: of the object.
        text: the version that it saw; None if it is a predicate read that does not show the object.
        predicate: of the read; None for a read of the object itself.
    """

    transaction: int
    at: int
    key: str
    text: str | None
    predicate: str | None


def infer_predicates(universe: Universe) -> Inference:
    """The dependencies of a history with predicate reads."""
    return _Inferring(universe).inference()


@dataclass(frozen=True)
class Why:
    """Why there are edges, as `inference.Reasons`."""

    edges: dict[tuple[int, int, int], Because]

    def because(self, one: int, other: int, kind: int) -> Because:
        """Why transaction `other` depends on `one` in that way."""
        return self.edges[one, other, kind]


class _Inferring:
    def __init__(self, universe: Universe) -> None:
        self._universe = universe
        self._columns = universe.transactions
        self._number = {key: number for number, key in enumerate(self._columns.key_names)}
        self._matching: dict[tuple[str, str], bool] = {}
        self._hidden: dict[tuple[str, str], list[Version]] = {}
        self._by_text: dict[tuple[str, str], list[Version]] = {}
        for key, versions in universe.versions.items():
            for version in versions:
                same = self._by_text.setdefault((key, version.text), [])
                if len(same) < _ENOUGH:
                    same.append(version)
        self._why: dict[tuple[int, int, int], Because] = {}
        self._flaws: dict[str, list[Case]] = {}

    def inference(self) -> Inference:
        reads = [
            read for place in np.flatnonzero(self._columns.status == COMMITTED) for read in self._reads(int(place))
        ]
        selected = [(read, self._selected(read)) for read in reads]
        committed = self._columns.status == COMMITTED
        for _, version in selected:
            if version is not None and version.writer >= 0 and self._columns.status[version.writer] == MAYBE:
                committed[version.writer] = True
        for read, version in selected:
            if version is not None:
                self._link(read, version, committed)
        self._overwrites(committed)
        found = Found()
        for anomaly, cases in self._flaws.items():
            found.add(anomaly, len(cases), cases[:CASES])
        rows = np.array(list(self._why), np.int64).reshape(-1, 3)
        edges = Edges(rows[:, 0].astype(np.int32), rows[:, 1].astype(np.int32), rows[:, 2].astype(np.uint8))
        return Inference(
            transactions=self._columns,
            committed=committed,
            edges=(edges,),
            nodes=len(self._columns),
            cases=tuple(found.cases),
            counts=found.counts,
            reasons=Why(self._why),
            open_keys=tuple(self._number[key] for key in self._universe.open_keys()),
            figures={"transactions": int(committed.sum()), "keys": len(self._universe.versions), "reads": len(reads)},
        )

    # --- reads --------------------------------------------------------------------------------------------------------

    def _reads(self, transaction: int) -> Iterator[Read]:
        """What a transaction found of objects that it had not changed itself; what else it found is compared."""
        known: dict[str, int] = {}
        for at, step in enumerate(self._universe.steps[transaction]):
            if step.f == "r":
                read = Read(transaction, at, step.key, canonical_json(step.value), None)
                before = known.setdefault(step.key, at)
                if before != at and not self._is_repeated(transaction, before, read):
                    self._flaw("internal", read, self._mop(transaction, before))
                elif before == at:
                    yield read
                known[step.key] = at
            elif step.f == "rp":
                yield from self._found(transaction, at, step)
            elif step.f in WRITES and step.f != INIT:
                known[step.key] = at

    def _is_repeated(self, transaction: int, before: int, read: Read) -> bool:
        step = self._universe.steps[transaction][before]
        return read.text == (ABSENT if step.f == "delete" else canonical_json(step.value))

    def _found(self, transaction: int, at: int, step: Step) -> Iterator[Read]:
        """What a predicate read found, and did not find, of each object."""
        found: dict[str, Any] = step.value or {}
        shown = {key: canonical_json(value) for key, value in found.items()}
        own = {each.key: place for place, each in enumerate(self._universe.steps[transaction][:at]) if each.f in WRITES}
        for key in dict.fromkeys([*self._universe.versions, *shown]):
            read = Read(transaction, at, key, shown.get(key), step.key)
            if read.text is not None and not self._matches(step.key, read.text):
                self._flaw("predicate-read-miss", read)
            if key not in own:
                yield read
                continue
            made = self._universe.before(transaction, at, key) or ABSENT
            write = self._mop(transaction, own[key])
            if read.text is None and self._matches(step.key, made):
                self._flaw("predicate-read-miss", read, write)
            elif read.text is not None and read.text != made:
                self._flaw("internal", read, write)

    def _matches(self, predicate: str, text: str) -> bool:
        found = self._matching.get((predicate, text))
        if found is None:
            found = self._matching[predicate, text] = matches(predicate, text)
        return found

    def _selected(self, read: Read) -> Version | None:
        """The version that a read must have selected; None if it is not known. Reads that are wrong are kept."""
        fitting = [each for each in self._fitting(read) if each.writer != read.transaction]
        if read.text is None:
            if not fitting:
                candidates = self._universe.candidates(read.transaction, read.key)
                self._flaw("predicate-read-miss", read, *self._writes(candidates))
        else:
            if not fitting and not self._unexplained(read, read.text) and read.text == ABSENT:
                return UNBORN
        return fitting[0] if len(fitting) == 1 else None

    def _fitting(self, read: Read) -> list[Version]:
        """The first versions of an object that fit a read, the reader's own among them; more than two tell no more.

        They are looked for once for each answer, so that an object with many versions costs little.
        """
        if read.text is not None:
            is_new = read.text == ABSENT and read.key not in self._universe.versions
            return [UNBORN] if is_new else self._by_text.get((read.key, read.text), [])
        predicate = read.predicate or ""
        found = self._hidden.get((read.key, predicate))
        if found is None:
            every = self._universe.versions.get(read.key, [UNBORN])
            hidden = (each for each in every if not self._matches(predicate, each.text))
            found = self._hidden[read.key, predicate] = list(islice(hidden, _ENOUGH))
        return found

    def _unexplained(self, read: Read, text: str) -> bool:
        """Keep what is wrong with a read of what no transaction left behind; whether anything is."""
        for write in self._universe.writes.get((read.key, text), []):
            mop = self._mop(write.writer, write.at)
            if write.writer == read.transaction:
                self._flaw("future-read", read, mop)
            else:
                self._flaw("G1a" if self._columns.status[write.writer] == ABORTED else "G1b", read, mop)
            return True
        if text != ABSENT and (read.key, text) not in self._universe.early:
            self._flaw("garbage-read", read)
            return True
        return False

    def _flaw(self, anomaly: str, read: Read, *mops: int) -> None:
        own = self._mop(read.transaction, read.at)
        case = Case(anomaly, (read.transaction,), self._number[read.key], (own, *mops))
        self._flaws.setdefault(anomaly, []).append(case)

    # --- edges --------------------------------------------------------------------------------------------------------

    def _link(self, read: Read, version: Version, committed: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        """The edges of a read that selected a version: from its writer, and to those of later versions."""
        reader, mop = read.transaction, self._mop(read.transaction, read.at)
        predicate = read.predicate is not None
        rule = SELECTED if read.text is None else ""
        others = self._universe.versions.get(read.key, [])
        if version not in others and others and others[0].writer == self._universe.init >= 0:
            self._edge(reader, others[0].writer, RW, read.key, mop, self._mop(others[0].writer, others[0].at), INITIAL)
            return
        if version.writer >= 0 and committed[version.writer]:
            write = self._mop(version.writer, version.at)
            self._edge(version.writer, reader, WRP if predicate else WR, read.key, write, mop, rule)
        if not self._universe.is_initial(version):
            return
        for later in others:
            if later == version or later.writer == reader or later.writer < 0 or not committed[later.writer]:
                continue
            changes = (
                self._matches(read.predicate, version.text) != self._matches(read.predicate, later.text)
                if read.predicate is not None
                else False
            )
            if read.text is None and not changes:
                continue
            write = self._mop(later.writer, later.at)
            self._edge(reader, later.writer, RWP if changes else RW, read.key, mop, write, rule or INITIAL)

    def _overwrites(self, committed: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        for key, versions in self._universe.versions.items():
            first = versions[0]
            for later in versions[1:] if first.writer >= 0 else ():
                if committed[later.writer]:
                    mops = self._mop(first.writer, first.at), self._mop(later.writer, later.at)
                    self._edge(first.writer, later.writer, WW, key, *mops, INITIAL)

    def _edge(self, one: int, other: int, kind: int, key: str, before: int, after: int, rule: str) -> None:
        because = Because(kind, self._number[key], before, after, rule=rule)
        self._why.setdefault((one, other, kind), because)

    def _writes(self, versions: list[Version]) -> list[int]:
        return [self._mop(each.writer, each.at) for each in versions if each.writer >= 0]

    def _mop(self, transaction: int, at: int) -> int:
        return int(self._columns.mop_start[transaction]) + at

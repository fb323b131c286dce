"""What was inferred from a history: dependencies between transactions, and what is wrong without a cycle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from splitbrain.checkers.transactions.columns import Transactions
from splitbrain.checkers.transactions.graph import Bools, Edges
from splitbrain.checkers.transactions.open_keys import Keys, no_keys

CASES: int = 8
"""How many cases of one anomaly are kept; all are counted."""


@dataclass(frozen=True)
class Case:
    """An anomaly that is no cycle.

    Attributes:
        anomaly: its type, e.g. "G1a".
        transactions: those that show it; the first one is where it is seen.
        key: number of the key.
        mops: the micro-operations that show it, in the order in which its sentence has them.
        values: values that its sentence names.
        rules: of cyclic versions, why each of `values` comes before the next one; two of `mops` show it.
    """

    anomaly: str
    transactions: tuple[int, ...]
    key: int
    mops: tuple[int, ...] = ()
    values: tuple[int, ...] = ()
    rules: tuple[str, ...] = ()


@dataclass(frozen=True)
class Because:
    """Why one transaction depends on another.

    Attributes:
        kind: WW, WR, RW, PROCESS or REALTIME.
        key: number of the key; -1 for PROCESS and REALTIME.
        before: micro-operation of the first transaction; -1 where there is none.
        after: micro-operation of the second one.
        shown: micro-operation that read a list in which both are; -1 where none is needed.
        rule: what it rests on, if not on what was observed.
        given: of an order of versions that is assumed: the micro-operations that it follows from.
    """

    kind: int
    key: int = -1
    before: int = -1
    after: int = -1
    shown: int = -1
    rule: str = ""
    given: tuple[int, ...] = ()


class Found:
    """Cases and counts of anomalies as they are found."""

    def __init__(self) -> None:
        self.cases: list[Case] = []
        self.counts: dict[str, int] = {}

    def add(self, anomaly: str, count: int, cases: list[Case]) -> None:
        """Add cases of one type; `count` is how many there are in all."""
        if count:
            self.counts[anomaly] = count
            self.cases.extend(cases)


class Reasons(Protocol):
    """Says why there is an edge."""

    def because(self, one: int, other: int, kind: int) -> Because:
        """Why transaction `other` depends on `one` in that way (a kind of `graph`)."""
        ...


@dataclass(frozen=True)
class Inference:
    """Dependencies of a history.

    Attributes:
        transactions: the history.
        committed: which transactions committed: those of unknown outcome too whose writes were read.
        edges: by data; from and to committed transactions.
        nodes: transactions, and joints behind them.
        cases: anomalies that are no cycles, up to CASES of each type.
        counts: how many of each type there are.
        reasons: why there is which edge.
        open_keys: numbers of keys of whose versions the order is not known.
        figures: counts, for the verdict.
        keys: gives the versions of the open keys, of registers.
        undecided: what was not looked at, in a sentence each.
        more_open_keys: how many further keys there are like `open_keys`.
        by_kind: how many edges there are of each kind by data, if `edges` has not all of them.
    """

    transactions: Transactions
    committed: Bools
    edges: tuple[Edges, ...]
    nodes: int
    cases: tuple[Case, ...]
    counts: Mapping[str, int]
    reasons: Reasons
    open_keys: tuple[int, ...] = ()
    figures: Mapping[str, int] = field(default_factory=dict[str, int])
    keys: Callable[[], Keys] = no_keys
    undecided: tuple[str, ...] = ()
    more_open_keys: int = 0
    by_kind: Mapping[int, int] | None = None

    @property
    def kinds(self) -> dict[int, int]:
        """How many edges by data there are of each kind."""
        if self.by_kind is not None:
            return dict(self.by_kind)
        found: dict[int, int] = {}
        for edges in self.edges:
            for kind, count in enumerate(np.bincount(edges.kind).tolist()):
                if count:
                    found[kind] = found.get(kind, 0) + count
        return found

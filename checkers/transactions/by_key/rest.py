"""Cycles in what is left of a graph: the search of a whole history (`cycles`, `saturation`), on nodes of 64 bits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.checkers.transactions.by_key.edges import KEYS
from splitbrain.checkers.transactions.by_key.parts import LISTED, Versions
from splitbrain.checkers.transactions.by_key.rows import Ref
from splitbrain.checkers.transactions.by_key.trimming import dense
from splitbrain.checkers.transactions.columns import Ints
from splitbrain.checkers.transactions.cycles import cycles_of
from splitbrain.checkers.transactions.graph import DERIVED, LINK, PROCESS, REALTIME, Edges, parts
from splitbrain.checkers.transactions.open_keys import Key, Keys, keys_of
from splitbrain.checkers.transactions.saturation import Derivation, Saturated, saturate
from splitbrain.results.columns import numbers

Step: TypeAlias = tuple[int, int, int]
"""From a transaction to another one (the indexes of the ops that invoked them), and the kind of the edge."""


class Way(msgspec.Struct, frozen=True):
    """What a derived edge follows from.

    Attributes:
        step: the edge.
        earlier, later, before, after: as in `saturation.Premise`.
        steps: from the transaction of `earlier` to that of `later`.
    """

    step: Step
    earlier: Ref
    later: Ref
    before: Ref
    after: Ref
    steps: tuple[Step, ...]


class Rest(msgspec.Struct, frozen=True):
    """What was found in what is left of a graph.

    Attributes:
        named: by type a cycle: its transactions, and the kinds of its edges.
        ruled_out, core: as in `Cycles`.
        ways: what the derived edges of these cycles follow from.
        asked: their other edges by data, which inference has to give a reason for.
        closed: how many keys have an order now.
        still_open: the first of those that have none.
        spent: whether the allowance for derived edges was spent.
    """

    named: dict[str, tuple[tuple[int, ...], tuple[int, ...]]]
    ruled_out: tuple[str, ...]
    core: int
    ways: tuple[Way, ...] = ()
    asked: tuple[Step, ...] = ()
    closed: int = 0
    still_open: tuple[tuple[Ref, str], ...] = ()
    spent: bool = False


def search_rest(batches: Iterable[pa.RecordBatch], tag: int) -> Rest:
    """Look for cycles.

    Args:
        batches: rows of `edges.EDGES`, in any order: edges, and versions of open keys.
        tag: what order is among them: 0 none, 1 that of processes, 2 real time.
    """
    source, target, kind, keys = _read(batches)
    order = np.lexsort((target, kind, source))
    source, target, kind = source[order], target[order], kind[order]
    refs = _Refs(keys)
    one, other, nodes, count = dense(source, target, refs.transactions)
    observed = Edges(one.astype(np.int32), other.astype(np.int32), kind)
    del source, target, one, other, order
    versions = refs.keys(nodes[:count])
    saturated = saturate(len(nodes), (observed,), versions, tag)
    edges = (observed, saturated.edges) if saturated.derived.count else (observed,)
    found = cycles_of(count, len(nodes), edges, tag)
    derivation = Derivation((observed,), len(nodes), saturated)
    explained = _Explained(derivation, refs, nodes, count)
    for cycle in found.named.values():
        ring = [*cycle.transactions[1:], cycle.transactions[0]]
        explained.add(list(zip(cycle.transactions, ring, cycle.kinds, strict=True)))
    return Rest(
        named={
            name: (tuple(int(nodes[each]) for each in cycle.transactions), cycle.kinds)
            for name, cycle in found.named.items()
        },
        ruled_out=found.ruled_out,
        core=found.core,
        ways=tuple(explained.ways),
        asked=tuple(explained.asked),
        closed=len(saturated.closed),
        still_open=_still_open(keys, saturated),
        spent=saturated.spent,
    )


def _read(batches: Iterable[pa.RecordBatch]) -> tuple[Ints, Ints, np.ndarray[tuple[int], np.dtype[np.uint8]],
                                                      list[Versions]]:  # fmt: skip
    sources, targets, kinds = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.uint8)]
    keys: list[Versions] = []
    batch: Any
    for batch in batches:
        kind = numbers(batch.column("kind"))
        for row in np.flatnonzero(kind == KEYS).tolist():
            keys += msgspec.msgpack.decode(batch.column("note")[row].as_py(), type=list[Versions])
        edge = kind >= 0
        sources.append(numbers(batch.column("source"))[edge])
        targets.append(numbers(batch.column("target"))[edge])
        kinds.append(kind[edge].astype(np.uint8))
    keys.sort(key=lambda key: key.first)
    return np.concatenate(sources), np.concatenate(targets), np.concatenate(kinds), keys


class _Refs:
    """Micro-operations of the open keys by number."""

    def __init__(self, keys: Sequence[Versions]) -> None:
        self._keys = keys
        self.refs: list[Ref] = []
        self.transactions = np.array(
            [ref.txn for key in keys for some in (key.writes, *key.reads) for ref in some], np.int64
        )

    def keys(self, transactions: Ints) -> Keys:
        """The versions of all keys, by numbers of transactions."""

        def numbered(some: Sequence[Ref]) -> list[tuple[int, int]]:
            first = len(self.refs)
            self.refs.extend(some)
            owners = np.searchsorted(transactions, np.array([ref.txn for ref in some], np.int64)).tolist()
            return [(first + place, owner) for place, owner in enumerate(owners)]

        return keys_of(
            Key(number, numbered(key.writes), [numbered(some) for some in key.reads])
            for number, key in enumerate(self._keys)
        )


def _still_open(keys: Sequence[Versions], saturated: Saturated) -> tuple[tuple[Ref, str], ...]:
    closed = frozenset(saturated.closed)
    return tuple((key.first, key.name) for number, key in enumerate(keys) if number not in closed)[:LISTED]


class _Explained:
    """The edges of cycles, and of the ways that derived ones follow from."""

    def __init__(self, derivation: Derivation, refs: _Refs, nodes: Ints, count: int) -> None:
        self._derivation = derivation
        self._refs = refs
        self._nodes = nodes
        self._count = count
        self._met = set[Step]()
        self.ways: list[Way] = []
        self.asked: list[Step] = []

    def add(self, steps: list[Step]) -> None:
        waiting = list(steps)
        while waiting:
            step = waiting.pop()
            if step in self._met or step[2] in (PROCESS, REALTIME, LINK):
                continue
            self._met.add(step)
            premise = self._derivation.premise(step)
            if premise is None:
                self.asked.append(self._said(step))
                continue
            earlier, later = self._refs.refs[premise.earlier], self._refs.refs[premise.later]
            ends = (self._number(earlier), self._number(later))
            assert step[2] >= DERIVED
            way = self._derivation.way(self._count, premise, ends, parts(step[2])[1:])
            waiting += way
            before, after = self._refs.refs[premise.before], self._refs.refs[premise.after]
            self.ways.append(Way(self._said(step), earlier, later, before, after, tuple(map(self._said, way))))

    def _number(self, ref: Ref) -> int:
        return int(np.searchsorted(self._nodes[: self._count], ref.txn))

    def _said(self, step: Step) -> Step:
        return int(self._nodes[step[0]]), int(self._nodes[step[1]]), step[2]

"""What shows that a history violates a weak level, in transactions and sentences."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from splitbrain.checkers.transactions.columns import OPEN, Transactions
from splitbrain.checkers.transactions.graph import PROCESS, WR, graph_of
from splitbrain.checkers.transactions.long_chains import cycle_sentence
from splitbrain.checkers.transactions.weak.judging import Weak, base_edges
from splitbrain.checkers.transactions.weak.paths import shortest_path
from splitbrain.checkers.transactions.witness import shown
from splitbrain.results.witness import Edge, Transaction, Witness, transaction_of

_PROBLEMS: Final = {
    "G1a": "{reader} read {key} as {value}, which a transaction wrote that was aborted",
    "G1b": "{reader} read {key} as {value}, which its transaction overwrote before it ended",
    "garbage-read": "{reader} read {key} as {value}, which no transaction wrote",
    "internal": "{reader} read {key} as {value}, and not as it had written it before",
    "future-read": "{reader} read {key} as {value} before it wrote that itself",
}


def weak_witness(history: pa.Table, transactions: Transactions, found: Weak) -> Witness:
    """The witness of a violation.

    Args:
        history: of the transactions.
        transactions: what was judged.
        found: the verdict, "false".
    """
    return _Telling(history, transactions, found).witness()


class _Telling:
    """Names transactions in the order in which they are needed."""

    def __init__(self, history: pa.Table, transactions: Transactions, found: Weak) -> None:
        self._history, self._transactions, self._found = history, transactions, found
        self._names: dict[int, str] = {}
        self._premises: list[Edge] = []

    def witness(self) -> Witness:
        found = self._found
        assert found.anomaly is not None
        edges: list[Edge] = []
        if not found.cycle:
            name = self._named(self._owner(found.read))
            sentence = _PROBLEMS[found.anomaly].format(reader=name, key=self._key(found.read), value=self._value(found))
        elif not found.kinds:
            sentence = self._before_everything(found.cycle[0], found.read)
        else:
            ring = [*found.cycle[1:], found.cycle[0]]
            for node in found.cycle:
                self._named(self._transaction(node))
            edges = [
                self._edge(one, other, kind) for one, other, kind in zip(found.cycle, ring, found.kinds, strict=True)
            ]
            first = self._named(self._transaction(found.cycle[0]))
            reasons = [f"{edge.source} < {edge.target}, because {edge.reason}." for edge in edges]
            sentence = cycle_sentence(reasons, first).removesuffix(".")
        rows = [self._row(transaction) for transaction in self._names]
        return Witness(found.anomaly, f"{sentence}.", tuple(rows), tuple(edges), tuple(self._premises))

    # --- edges --------------------------------------------------------------------------------------------------------

    def _edge(self, one: int, other: int, kind: int) -> Edge:
        first, second = (self._named(self._transaction(node)) for node in (one, other))
        if kind == PROCESS:
            process = self._transactions.process[self._transaction(one)]
            return Edge(first, second, "process", reason=f"process {process} made {first} before {second}")
        if kind == WR:
            key = self._key(self._read_of(one, other))
            return Edge(first, second, "wr", key, f"{second} read {key} from {first}")
        pairs = self._found.pairs
        at = int(np.flatnonzero((pairs.before == one) & (pairs.after == other))[0])
        read = int(pairs.read[at])
        reader, key = self._named(self._owner(read)), self._key(read)
        self._premise(Edge(second, reader, "wr", key, f"{reader} read {key} from {second}"))
        reason = f"{reader} read {key} from {second}, although {first} wrote {key}, too, and {self._before(one, read)}"
        return Edge(first, second, "ww", key, reason)

    def _before_everything(self, one: int, read: int) -> str:
        first, reader = self._named(self._transaction(one)), self._named(self._owner(read))
        return (
            f"{reader} read {self._key(read)} as nothing, although {first} wrote it, and {self._before(one, read)}: "
            f"{first} would come before the initial state"
        )

    def _before(self, one: int, read: int) -> str:
        """Why a node comes before the transaction of a read."""
        node = self._node(self._owner(read))
        first, reader = (self._named(self._transaction(each)) for each in (one, node))
        nodes = self._found.nodes
        level = self._found.level
        if level != "causal" and (level == "read-committed" or self._reads(one, node)):
            key = self._key(self._read_of(one, node))
            self._premise(Edge(first, reader, "wr", key, f"{reader} read {key} from {first}"))
            return f"{reader} {'had read' if level == 'read-committed' else 'read'} {key} from {first}" + (
                " before that" if level == "read-committed" else ""
            )
        if level != "causal":
            steps = [(one, node, PROCESS)]
        else:
            graph = graph_of(len(nodes.transaction), len(nodes.transaction), base_edges(nodes))
            way, kinds = shortest_path(graph, one, node)
            steps = list(zip(way, way[1:], kinds, strict=False))
        edges = [self._edge(*step) for step in steps]
        for edge in edges:
            self._premise(edge)
        return " and ".join(edge.reason for edge in edges)

    def _premise(self, edge: Edge) -> None:
        if edge not in self._premises:
            self._premises.append(edge)

    def _reads(self, one: int, other: int) -> bool:
        """Whether one transaction is read from by another."""
        nodes = self._found.nodes
        begin, end = nodes.mop_start[nodes.transaction[other]], nodes.mop_start[nodes.transaction[other] + 1]
        return bool((nodes.source[begin:end] == one).any())

    # --- transactions -------------------------------------------------------------------------------------------------

    def _read_of(self, one: int, other: int) -> int:
        """The first read by which one transaction reads from another."""
        nodes = self._found.nodes
        begin, end = nodes.mop_start[nodes.transaction[other]], nodes.mop_start[nodes.transaction[other] + 1]
        return int(begin + np.flatnonzero(nodes.source[begin:end] == one)[0])

    def _transaction(self, node: int) -> int:
        return int(self._found.nodes.transaction[node])

    def _node(self, transaction: int) -> int:
        return int(np.flatnonzero(self._found.nodes.transaction == transaction)[0])

    def _owner(self, mop: int) -> int:
        return int(np.searchsorted(self._transactions.mop_start, mop, side="right")) - 1

    def _key(self, mop: int) -> str:
        return self._transactions.key_names[int(self._transactions.mop_key[mop])]

    def _value(self, found: Weak) -> str:
        value = self._transactions.read(found.read)
        return shown(value)

    def _named(self, transaction: int) -> str:
        return self._names.setdefault(transaction, f"T{len(self._names) + 1}")

    def _row(self, transaction: int) -> Transaction:
        found = self._transactions
        completed = int(found.completed[transaction])
        return transaction_of(
            self._history,
            self._names[transaction],
            int(found.invoked[transaction]),
            None if completed == OPEN else completed,
        )

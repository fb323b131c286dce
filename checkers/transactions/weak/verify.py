"""Whether the witness of a weak level proves what it says: each edge checked against the history, and nothing else.

Plain Python, on purpose: it shares no code with what finds the witness. It reads the ops of the transactions that the
witness cites, and follows the definition of the level.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa

from splitbrain.checkers.transactions.exact import exact, json_text
from splitbrain.checkers.transactions.weak.judging import Level
from splitbrain.results.arrow import from_table
from splitbrain.results.columns import array
from splitbrain.results.history import Op
from splitbrain.results.witness import Edge, Transaction, Witness


def weak_problems(witness: Witness, level: Level, history: pa.Table) -> list[str]:
    """What is wrong with a witness; nothing if it proves that the history violates the level.

    Args:
        witness: a cycle, or a read of the initial state, as `weak_witness` makes it.
        level: that it is to violate.
        history: rows of `splitbrain.results.arrow.HISTORY_SCHEMA`, sorted by index.
    """
    return [f"{witness.anomaly}: {problem}" for problem in _Check(witness, level, history).problems()]


@dataclass(frozen=True)
class _Cited:
    """A transaction as the history has it: `ops` are those of its completion if it committed, else of its invocation.

    `ops` are functions, keys as JSON, and values.
    """

    op: Op
    ended: str
    ops: tuple[tuple[str, Any, Any], ...]

    def writes(self, key: Any) -> list[Any]:
        """The values that it wrote to a key, in its order."""
        return [value for f, name, value in self.ops if f == "w" and name == key]

    def reads(self, key: Any = None) -> Iterator[tuple[int, Any, Any]]:
        """The reads of a key, or of all, that came before its own writes of it: place, key and value."""
        if self.ended != "ok":
            return
        own: list[Any] = []
        for place, (f, name, value) in enumerate(self.ops):
            if f == "w":
                own.append(name)
            elif name not in own and key in (None, name):
                yield place, name, value

    def places_from(self, writer: _Cited, key: Any = None) -> list[int]:
        """Where it read the last write of another transaction."""
        return [
            place
            for place, name, value in self.reads(key)
            if value is not None and writer.op is not self.op and writer.writes(name)[-1:] == [value]
        ]


class _Check:
    def __init__(self, witness: Witness, level: Level, history: pa.Table) -> None:
        self._witness, self._level, self._history = witness, level, history
        self._index = np.asarray(history.column("index").to_numpy())
        self._known = {each.name: self._cited(each) for each in witness.transactions}

    def problems(self) -> Iterator[str]:
        every = (*self._witness.edges, *self._witness.premises)
        read_from = [edge.source for edge in every if edge.kind == "wr"]
        for each in self._witness.transactions:
            cited = self._known[each.name]
            if cited.op.process != each.process or cited.op.type != "invoke" or cited.ended != each.ended:
                yield f"{each.name} is not in the history as the witness has it"
            if cited.ended != "ok" and (cited.ended == "fail" or each.name not in read_from):
                yield f"nothing shows that {each.name} committed"
        for edge in every:
            if not self._holds(edge) or (edge.kind == "ww" and edge in self._witness.premises):
                yield f"{edge.source} < {edge.target} ({edge.kind}) does not follow"
        if not self._witness.edges:
            if not self._before_the_initial_state():
                yield "no transaction would come before the initial state"
        elif len(self._witness.edges) < 2 or any(
            one.target != other.source
            for one, other in zip(self._witness.edges, (*self._witness.edges[1:], self._witness.edges[0]), strict=True)
        ):
            yield "the edges are no cycle"

    def _cited(self, said: Transaction) -> _Cited:
        invoke, complete = self._op(said.index), None
        if said.completed_index is not None:
            complete = self._op(said.completed_index)
        committed = complete is not None and complete.type == "ok" and complete.process == invoke.process
        source = complete if complete is not None and committed else invoke
        if source.mops is not None:
            ops = tuple((mop.f, json_text(mop.key), exact(mop.value)) for mop in source.mops)
        else:
            asked = [[*mop, None] for mop in cast("list[list[Any]]", source.value)]  # a read may lack its result
            ops = tuple((cast(str, f), json_text(key), exact(value)) for f, key, value, *_ in asked)
        return _Cited(invoke, "open" if complete is None else complete.type, ops)

    def _op(self, index: int) -> Op:
        row = int(np.searchsorted(self._index, index))
        return next(iter(from_table(self._history.take(array(np.array([row]))))))

    # --- edges --------------------------------------------------------------------------------------------------------

    def _holds(self, edge: Edge) -> bool:
        one, other = self._known[edge.source], self._known[edge.target]
        key = self._key(edge.key)
        if edge.kind == "process":
            return one.ended == "ok" and one.op.process == other.op.process and one.op.index < other.op.index
        if edge.kind == "wr":
            return bool(other.places_from(one, key))
        return edge.kind == "ww" and any(
            self._must_precede(edge.source, key, reader, cited.places_from(other, key))
            for reader, cited in self._known.items()
            if edge.source != edge.target
        )

    def _key(self, name: str | None) -> str | None:
        """The JSON of the key that has a name: a string may be named without quotation marks."""
        keys = {key for cited in self._known.values() for _, key, _ in cited.ops}
        return name if name is None or name in keys else json_text(name)

    def _must_precede(self, name: str, key: Any, reader: str, places: list[int]) -> bool:
        """Whether a transaction wrote a key, and comes before its reads at some places of another, by the level."""
        one, cited = self._known[name], self._known[reader]
        if name == reader or not places or not one.writes(key):
            return False
        if self._level == "read-committed":
            return any(first < place for first in cited.places_from(one) for place in places)
        if self._level == "read-atomic":
            same = one.ended == "ok" and one.op.process == cited.op.process and one.op.index < cited.op.index
            return same or bool(cited.places_from(one))
        return self._leads(name, reader)

    def _leads(self, begin: str, end: str) -> bool:
        """Whether a way of sessions and reads leads from one to another."""
        met = [begin]
        for name in met:
            for edge in (*self._witness.edges, *self._witness.premises):
                if edge.source == name and edge.kind in ("wr", "process") and edge.target not in met:
                    met.append(edge.target)
        return end in met

    def _before_the_initial_state(self) -> bool:
        return any(
            self._must_precede(name, key, reader, [place])
            for reader, cited in self._known.items()
            for place, key, value in cited.reads()
            if value is None
            for name in self._known
        )

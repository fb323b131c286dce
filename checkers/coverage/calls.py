"""A run's client ops as coverage needs them: when, at which node, and whether the system answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from splitbrain.results.answering import declined_by_standbys, spoke_of_a_state
from splitbrain.results.calls import OPEN, Bools, Calls, Ints, ints, is_equal
from splitbrain.results.columns import array, valid
from splitbrain.results.faults import RunEvents

_LATE: Final = np.iinfo(np.int64).max


def carried_out_alone(calls: Calls, local: Sequence[str]) -> Bools:
    """Which ops clients did without a node: those of the functions `local`."""
    found: Bools = np.zeros(len(calls.invoke), dtype=np.bool_)
    for f in local:
        found |= calls.are(f)
    return found


class ClientOps:
    """Client ops as columns, in the order of their invocations.

    Attributes:
        begun: when each was invoked, in nanoseconds.
        ended: when each ended; the largest integer if it did not.
        ok: which were ok.
        answered: which the system answered: ok, or refused by its state (`splitbrain.results.answering`). An op
            that a client does without a node is no answer of the system.
        declined: which a node refused that does not lead (`splitbrain.results.standbys`).
        local: which ops clients did without a node.
        faults: which were invoked in the faults phase; all of them in a history without phases.
        final: which were invoked in the final phase.
        begin_ns, end_ns: the faults phase.
    """

    def __init__(self, calls: Calls, events: RunEvents, local: Sequence[str] = ()) -> None:
        self._calls = calls
        times = ints(calls.table, "time")
        closed = calls.complete != OPEN
        self.begun: Ints = times[calls.invoke]
        self.ended: Ints = np.where(closed, times[calls.complete], _LATE) if len(times) else self.begun
        self.ok: Bools = calls.ended("ok")
        said = spoke_of_a_state(calls.table)
        refused = calls.ended("fail") & closed & (said[calls.complete] if len(said) else closed)
        declined = declined_by_standbys(calls.table)
        self.declined: Bools = calls.ended("fail") & closed & (declined[calls.complete] if len(said) else closed)
        self.local = carried_out_alone(calls, local)
        self.answered: Bools = (self.ok | refused) & ~self.local
        phases = {phase.name: phase for phase in events.phases}
        loaded, last = phases.get("faults"), phases.get("final")
        self.begin_ns, self.end_ns = (loaded.begin_ns, loaded.end_ns) if loaded else (0, events.end_ns)
        within = (self.begun >= self.begin_ns) & (self.begun < self.end_ns)
        self.faults: Bools = within if events.phases else np.ones(len(self.begun), dtype=np.bool_)
        self.final: Bools = (
            np.zeros(len(self.begun), dtype=np.bool_)
            if last is None
            else (self.begun >= last.begin_ns) & (self.begun <= last.end_ns)
        )
        self.has_final = last is not None

    @property
    def lasted_s(self) -> float:
        """Length of the faults phase."""
        return (self.end_ns - self.begin_ns) / 1e9

    def functions(self) -> list[str]:
        """All functions that clients invoked, in the order in which they first were."""
        return [str(f) for f in _unique(self._calls.table["f"], self._calls.invoke)]

    def are(self, f: str) -> Bools:
        """Which ops are of this function."""
        return self._calls.are(f)

    def at(self, node: str) -> Bools:
        """Which ops were sent to this node."""
        return is_equal(self._calls.table, "node", node)[self._calls.invoke]

    def nodes(self) -> list[str]:
        """The nodes to which clients sent ops, sorted."""
        found = _unique(self._calls.table["node"], self._calls.invoke)
        return sorted(str(node) for node in found if node is not None)

    def returned(self) -> Bools:
        """Which ok ops returned something: a value that is not that of the invocation, or micro-ops."""
        found: Bools = np.zeros(len(self.ok), dtype=np.bool_)
        chosen = np.flatnonzero(self.ok)
        ended = array(self._calls.complete[chosen], pa.int64())
        begun = array(self._calls.invoke[chosen], pa.int64())
        table = self._calls.table
        given: list[str | None] = table["value"].take(begun).to_pylist()
        answers: list[str | None] = table["value"].take(ended).to_pylist()
        has_mops = valid(table["mops"])[self._calls.complete[chosen]]
        found[chosen] = has_mops | np.array(
            [answer is not None and answer != value for value, answer in zip(given, answers, strict=True)], np.bool_
        )
        return found

    def errors(self, chosen: Bools) -> list[tuple[str, int]]:
        """The errors with which these ops ended, each with how often, the most frequent first."""
        rows = self._calls.complete[chosen]
        found: list[str | None] = self._calls.table["error"].take(array(rows[rows != OPEN], pa.int64())).to_pylist()
        return Counter(error for error in found if error is not None).most_common()

    def answered_values(self, chosen: Bools) -> list[str | None]:
        """The values with which these ops completed, as JSON text."""
        rows = self._calls.complete[chosen]
        return self._calls.table["value"].take(array(rows[rows != OPEN], pa.int64())).to_pylist()

    def given(self, chosen: Bools) -> list[str | None]:
        """The values with which these ops were invoked, as JSON text, each once."""
        return _unique(self._calls.table["value"], self._calls.invoke[chosen])


def _unique(column: Any, rows: Ints) -> list[Any]:
    """The values in these rows of a column, each once, in the order in which they are met."""
    return pc.unique(column.take(array(rows, pa.int64()))).to_pylist()

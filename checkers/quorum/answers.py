"""The ops that need a quorum, as arrays: when they began and ended, at which node, and whether they were answered.

A quorum answer is `ok`, or a `fail` that the state decided (a compare that did not match): only a node with a quorum
can give it. In some other `fail` a node speaks of a state that may be its own alone (there is no such entity): that it
serves clients is shown by it, that it has a quorum is not. Any other `fail` is a refusal, which every node may give.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from splitbrain.checkers.quorum.topology import NodeId
from splitbrain.results.answering import declined_by_standbys, spoke_of_a_state
from splitbrain.results.arrivals import NEVER, arrivals
from splitbrain.results.calls import OPEN, Bools, Ints, client_calls, ints, place, seconds
from splitbrain.results.columns import array, flags, numbers

NO_TERM: Final = -1

NOWHERE: Final = -1
"""The node of an op that was sent to no node of the test."""


class Answers(msgspec.Struct, frozen=True):
    """One element per op that needs a quorum, by the time of its invocation.

    Attributes:
        history: the history of these ops.
        nodes: all nodes of the test; `node` is a place among them.
        row: rows of the invocations.
        completion: rows of the completions, OPEN where there is none.
        due: when it was due by its schedule, in ns since the test began; when it was invoked if there is none.
        begun: when it was invoked, likewise.
        ended: likewise; NEVER for an op without a completion.
        node: the number of the node that received the op, or NOWHERE.
        given: whether it was a quorum answer.
        served: whether it was one, or spoke of a state.
        refused: whether it failed, and was neither.
        declined: whether it failed because the node does not lead, and says so (`splitbrain.results.standbys`).
        term: in which the answer was given, or NO_TERM.
    """

    history: pa.Table
    nodes: tuple[NodeId, ...]
    row: Ints
    completion: Ints
    due: Ints
    begun: Ints
    ended: Ints
    node: Ints
    given: Bools
    served: Bools
    refused: Bools
    declined: Bools
    term: Ints

    def begun_in(self, begin_ns: int, end_ns: int) -> slice:
        """The ops that began in the stretch, both ends included."""
        return slice(
            int(np.searchsorted(self.begun, begin_ns, side="left")),
            int(np.searchsorted(self.begun, end_ns, side="right")),
        )

    def at(self, node: NodeId) -> Bools:
        """Which ops were sent to the node."""
        return self.node == self.nodes.index(node)

    def given_in(self, begin_ns: int, end_ns: int) -> Ints:
        """The numbers of the ops that began and got a quorum answer in the stretch, both ends included.

        A change may take place at the same instant as an end of the stretch: an op that began then began after the
        change that begins the stretch, an answer given then came before the change that ends it.
        """
        return self._ended_in(self.given, begin_ns, end_ns)

    def served_in(self, begin_ns: int, end_ns: int) -> Ints:
        """Likewise of those that were served."""
        return self._ended_in(self.served, begin_ns, end_ns)

    def _ended_in(self, how: Bools, begin_ns: int, end_ns: int) -> Ints:
        of = self.begun_in(begin_ns, end_ns)
        return of.start + np.flatnonzero(how[of] & (self.ended[of] <= end_ns))

    def indexes(self, numbers: Ints) -> list[int]:
        """The history's indexes of the ops' completions; of an invocation where there is none."""
        done = self.completion[numbers]
        return ints(self.history, "index")[np.where(done == OPEN, self.row[numbers], done)].tolist()

    def shown(self, number: int) -> dict[str, Any]:
        """An op as evidence: how it ended, and when it began."""
        row, completion = int(self.row[number]), int(self.completion[number])
        op = place(self.history, row if completion == OPEN else completion)
        return {**op, "invoked_s": seconds(int(self.begun[number]))}


def answers(history: pa.Table, nodes: Sequence[NodeId], fs: Sequence[str] | None, decided: Sequence[str]) -> Answers:
    """The ops that need a quorum.

    Args:
        history: sorted by index.
        nodes: all nodes of the test.
        fs: functions that need one; None for all.
        decided: errors of `fail` ops with which the state answered.

    Raises:
        HistoryFormatError: the ops of a process do not alternate.
    """
    calls = client_calls(history)
    wanted = np.ones(len(calls.invoke), dtype=np.bool_)
    if fs is not None:
        named = pc.is_in(history["f"], value_set=array(list(fs), pa.string()))
        wanted = flags(named)[calls.invoke]
    times = ints(history, "time")
    closed = calls.complete != OPEN
    spoken = pc.is_in(history["error"], value_set=array(list(decided), pa.string()))
    # OPEN is -1 and picks the last row; `failed` and `closed` mask it below.
    state_said = flags(spoken)[calls.complete]
    served = state_said | spoke_of_a_state(history)[calls.complete]
    number: Any = pc.index_in(history["node"], value_set=array(list(nodes), pa.string()))
    term: Any = history["term"]
    failed = calls.ended("fail")
    chosen = np.flatnonzero(wanted)
    chosen = chosen[np.argsort(times[calls.invoke[chosen]], kind="stable")]  # an imported history's times may go back
    asked, done = calls.invoke[chosen], calls.complete[chosen]
    return Answers(
        history=history,
        nodes=tuple(nodes),
        row=asked,
        completion=done,
        due=arrivals(calls).due[chosen],
        begun=times[asked],
        ended=np.where(closed[chosen], times[done], NEVER),
        node=numbers(number, null=NOWHERE).astype(np.int64)[asked],
        given=(calls.ended("ok") | (failed & state_said))[chosen],
        served=(calls.ended("ok") | (failed & served))[chosen],
        refused=(failed & ~served)[chosen],
        declined=(failed & declined_by_standbys(history)[calls.complete])[chosen],
        term=np.where(closed[chosen], numbers(term, null=NO_TERM).astype(np.int64, copy=False)[done], NO_TERM),
    )

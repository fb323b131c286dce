"""The ops that need a quorum, as arrays: when they began and ended, at which node, and whether they were answered.

A quorum answer is `ok`, or a `fail` that the state decided (a compare that did not match): somebody who could speak for
the system said so. Any other `fail` is a refusal, which a node without a quorum may well give.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.quorum.topology import NodeId
from results.calls import OPEN, Bools, Ints, client_calls, ints, place, seconds

NEVER: Final = 2**62
"""When an op ended that did not."""

NO_TERM: Final = -1

NOWHERE: Final = -1
"""The node of an op that was sent to none of the test's."""


class Answers(msgspec.Struct, frozen=True):
    """One element per op that needs a quorum, in the order of their invocations.

    Attributes:
        history: the history from which they are.
        nodes: all nodes of the test; `node` counts them.
        row: rows of the invocations.
        completion: rows of the completions, OPEN where there is none.
        begun: nanoseconds since the test began.
        ended: likewise; NEVER for an op without a completion.
        node: the number of the node that was asked, or NOWHERE.
        given: whether it was a quorum answer.
        term: in which the answer was given, or NO_TERM.
    """

    history: pa.Table
    nodes: tuple[NodeId, ...]
    row: Ints
    completion: Ints
    begun: Ints
    ended: Ints
    node: Ints
    given: Bools
    term: Ints

    def at(self, node: NodeId) -> Bools:
        """Which ops the node was asked."""
        return self.node == self.nodes.index(node)

    def inside(self, begin_ns: int, end_ns: int) -> Bools:
        """Which ops began and ended in the stretch."""
        return (self.begun >= begin_ns) & (self.ended <= end_ns)

    def shown(self, number: int) -> dict[str, Any]:
        """An op as evidence: how it ended, and when it began."""
        row, completion = int(self.row[number]), int(self.completion[number])
        told = place(self.history, row if completion == OPEN else completion)
        return {**told, "invoked_s": seconds(int(self.begun[number]))}


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
        chosen = pc.is_in(history["f"], value_set=pa.array(list(fs), pa.string()))
        wanted = np.asarray(chosen.to_numpy(zero_copy_only=False), dtype=np.bool_)[calls.invoke]
    times = ints(history, "time")
    closed = calls.complete != OPEN
    spoken = pc.is_in(history["error"], value_set=pa.array(list(decided), pa.string()))
    state_said = np.asarray(spoken.to_numpy(zero_copy_only=False), dtype=np.bool_)[calls.complete]
    number: Any = pc.index_in(history["node"], value_set=pa.array(list(nodes), pa.string()))
    term: Any = history["term"]
    return Answers(
        history=history,
        nodes=tuple(nodes),
        row=calls.invoke[wanted],
        completion=calls.complete[wanted],
        begun=times[calls.invoke][wanted],
        ended=np.where(closed, times[calls.complete], NEVER)[wanted],
        node=np.asarray(number.fill_null(NOWHERE).to_numpy(), dtype=np.int64)[calls.invoke][wanted],
        given=(calls.ended("ok") | (calls.ended("fail") & state_said))[wanted],
        term=np.where(closed, np.asarray(term.fill_null(NO_TERM).to_numpy(), dtype=np.int64)[calls.complete], NO_TERM)[
            wanted
        ],
    )

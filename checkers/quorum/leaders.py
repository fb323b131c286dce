"""Leaders and replicas: Q5, Q6, Q7 and Q10.

    Q5   no two nodes lead in one term
    Q6   hash chains agree at equal index, commit never goes back within a life, a new leader has all that was committed
    Q7   once the load is over and everything healed, members meet in applied index and state
    Q10  no answer in term t for an op that was invoked after a leader of a later term had committed

Q5 and Q6 are those of `checkers.consensus`, which tell more when asked by themselves. A leader has committed in its
term once its commit index is beyond where its log ended when it was elected (Ongaro's thesis, section 6.4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.consensus import CommitMonotonic, ElectionSafety, LeaderCompleteness, ReplicaAgreement
from checkers.consensus.rows import Row, rows
from checkers.quorum.answers import NO_TERM, Answers
from checkers.quorum.findings import Fared, Finding
from checkers.quorum.topology import NodeId
from results.calls import seconds

_Q6 = (ReplicaAgreement, CommitMonotonic, LeaderCompleteness)


def consensus(telemetry: pa.Table) -> Iterator[Finding]:
    """Q5 and Q6, by the checkers of consensus: a finding for each that found anything."""
    for rule, checker in (("Q5", ElectionSafety()), *(("Q6", kind()) for kind in _Q6)):
        verdict = checker.check(telemetry, {})
        if verdict.valid == "false":
            yield Finding(rule=rule, sentence=verdict.sentence, rows=tuple(verdict.evidence.get("findings", ())[:1]))


def superseded(telemetry: pa.Table, given: Answers, offset_ns: int) -> Iterator[Finding]:
    """Q10: a finding for each node and term that answered after a later term's leader had committed.

    Args:
        telemetry: what the nodes told.
        given: the answers.
        offset_ns: how far clocks may be apart: so much later an op must have been invoked.
    """
    times, rows_of = _committed(telemetry)
    if not times:
        return
    highest = np.maximum.accumulate(np.array([row.term for row in rows_of], dtype=np.int64))
    place = np.searchsorted(np.array(times, dtype=np.int64) + offset_ns, given.begun, side="left") - 1
    late = given.given & (given.term != NO_TERM) & (place >= 0)
    late &= highest[np.maximum(place, 0)] > given.term
    told: set[tuple[int, int]] = set()
    for number in np.flatnonzero(late).tolist():
        which = int(given.node[number]), int(given.term[number])
        if which in told:
            continue
        told.add(which)
        by = max(rows_of[: int(place[number]) + 1], key=lambda row: row.term or 0)
        op = given.shown(number)
        yield Finding(
            rule="Q10",
            sentence=(
                f"Superseded: {op.get('node')} answered op {op['index']} ({op['f']}) in term {which[1]}, which was "
                f"invoked at {op['invoked_s']:.3f} s, after {by.node} had committed as leader of term {by.term} at "
                f"{seconds(by.time):.3f} s."
            ),
            ops=(op,),
            rows=(by.shown(),),
        )


def _committed(telemetry: pa.Table) -> tuple[list[int], list[Row]]:
    """For each leader that committed something of its own term: when it was first seen to have, and the row."""
    elected: dict[tuple[str | None, str, int, int], int] = {}
    first: dict[tuple[str | None, str, int, int], Row] = {}
    for row in rows(telemetry):
        if row.role != "leader" or row.term is None or row.commit_index is None:
            continue
        led = (row.group, row.node, row.life, row.term)
        before = elected.setdefault(led, row.commit_index if row.last_index is None else row.last_index)
        if row.commit_index > before:
            first.setdefault(led, row)
    found = sorted(first.values(), key=lambda row: row.time)
    return [row.time for row in found], found


def convergence(
    telemetry: pa.Table, members: Sequence[NodeId], begin_ns: int, end_ns: int, bound_ns: int
) -> tuple[list[Finding], Fared]:
    """Q7: findings, and how it fared.

    Args:
        telemetry: what the nodes told.
        members: of the last committed configuration.
        begin_ns: when the load stopped and everything was healed.
        end_ns: the end of the run; members at different indexes then violate it only if the bound was over.
        bound_ns: for so long members may differ.
    """
    last = _last(telemetry)
    told = {node: last[node] for node in members if node in last and last[node].applied_index is not None}
    if len(told) < len(members) or not told:
        return [], "not judged"
    indexes = {row.applied_index for row in told.values()}
    states = {row.state_hash for row in told.values() if row.state_hash is not None}
    if len(indexes) == 1 and len(states) <= 1:
        return [], "held"
    if len(indexes) > 1 and end_ns - begin_ns < bound_ns:
        return [], "not judged"  # but states that differ at one index will not meet however long one waits
    story = ", ".join(f"{node} {_of(row, len(indexes) > 1)}" for node, row in told.items())
    if len(indexes) > 1:
        sentence = f"The members did not meet in their applied index within {seconds(bound_ns):g} s: {story}."
    else:
        sentence = f"The members hold different states at applied index {indexes.pop()}: {story}."
    return [Finding(rule="Q7", sentence=sentence, rows=tuple(row.shown() for row in told.values()))], "violated"


def _of(row: Row, index: bool) -> str:
    return f"at {row.applied_index}" if index else f"{(row.state_hash or '')[:8]}"


def _last(telemetry: pa.Table) -> dict[NodeId, Row]:
    found: dict[NodeId, Row] = {}
    for row in rows(telemetry):
        if row.applied_index is not None:
            found[row.node] = row
    return found


def members_at_the_end(telemetry: pa.Table, nodes: Sequence[NodeId]) -> list[NodeId]:
    """The voters that whoever committed most holds in the end; all nodes where nobody tells."""
    columns: list[Any] = [telemetry.column(name).to_pylist() for name in ("node", "commit_index", "voters")]
    best: tuple[int, list[str]] | None = None
    for _, commit, voters in zip(*columns, strict=True):
        if voters is not None and (best is None or (commit or 0) >= best[0]):
            best = (commit or 0, voters)
    return list(nodes) if best is None else [node for node in nodes if node in best[1]]

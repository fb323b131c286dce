"""Leaders and replicas: Q5, Q6, Q7 and Q10.

    Q5   no two nodes lead in one term
    Q6   hash chains agree at equal index, commit never goes back within a life, a new leader has all committed entries
    Q7   once the load is over and everything is healed, members converge: equal applied index and equal state
    Q10  no answer in term t for an op that was invoked after a leader of a later term had committed

Q5 and Q6 run the checkers of `splitbrain.checkers.consensus`, whose own verdicts have more detail. A leader has
committed in its term once its commit index is beyond the end that its log had when it was elected (Ongaro's thesis,
section 6.4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from splitbrain.checkers.consensus import CommitMonotonic, ElectionSafety, LeaderCompleteness, ReplicaAgreement
from splitbrain.checkers.consensus.rows import Row, of_group, rows
from splitbrain.checkers.quorum.answers import NO_TERM, Answers
from splitbrain.checkers.quorum.findings import Finding, RuleResult, in_all
from splitbrain.checkers.quorum.topology import NodeId
from splitbrain.results.arrow import Column, array, compute
from splitbrain.results.calls import Ints, is_equal, seconds
from splitbrain.results.columns import numbers, valid

_Q6 = (ReplicaAgreement, CommitMonotonic, LeaderCompleteness)

_OCCASIONS = ("compared", "elections")
"""Figures of these checkers that are 0 where there was nothing to judge."""


def consensus(telemetry: pa.Table) -> tuple[list[Finding], dict[str, RuleResult]]:
    """Q5 and Q6, by the checkers of consensus: a finding for each violation, and the results of the two rules.

    A rule was judged if one of its checkers could judge anything: not if no node reported the columns that it compares.
    """
    found: list[Finding] = []
    results: dict[str, RuleResult] = dict.fromkeys(("Q5", "Q6"), "not judged")
    if not telemetry.num_rows:
        return found, results
    for rule, checker in (("Q5", ElectionSafety()), *(("Q6", kind()) for kind in _Q6)):
        verdict = checker.check(telemetry, {})
        if verdict.valid == "false":
            shown = tuple(verdict.evidence.get("findings", ())[:1])
            found.append(Finding(rule=rule, sentence=verdict.sentence, rows=shown))
        if verdict.valid != "unknown" and all(verdict.figures.get(what, 1) for what in _OCCASIONS):
            results[rule] = "held"
    return found, results


def superseded(telemetry: pa.Table, given: Answers, offset_ns: int) -> tuple[list[Finding], RuleResult]:
    """Q10: a finding for each node and term that answered after a later term's leader had committed, and the result.

    An answer does not say which group gave it: if there are several, it must have been superseded in each of them. An
    answer without a term is not judged. Nothing is judged if no leader is known to have committed.

    Args:
        telemetry: of the nodes.
        given: the answers.
        offset_ns: how far clocks may be apart: an op must have been invoked later than the commit by more than this.
    """
    committed = _committed(telemetry)
    judged = given.given & (given.term != NO_TERM)
    if not committed or not judged.any():
        return [], "not judged"
    late = judged
    for first in committed:
        place = _known_before(first, given, offset_ns)
        # Rows are sorted by time, and clocks differ: an earlier row may have the higher term.
        highest = np.maximum.accumulate(np.array([row.term for row in first], dtype=np.int64))
        late = late & (place >= 0) & (highest[np.maximum(place, 0)] > given.term)
    found = list(
        _late_answers(given, np.flatnonzero(late), committed[0], _known_before(committed[0], given, offset_ns))
    )
    return found, "violated" if found else "held"


def _known_before(first: Sequence[Row], given: Answers, offset_ns: int) -> Ints:
    """For each op the last of the rows that was certainly written before it was invoked, or -1."""
    times = np.array([row.time for row in first], dtype=np.int64)
    return np.searchsorted(times + offset_ns, given.begun, side="left") - 1


def _late_answers(given: Answers, late: Ints, first: Sequence[Row], place: Ints) -> Iterator[Finding]:
    alike: dict[tuple[int, int], list[int]] = {}
    for number in late.tolist():
        alike.setdefault((int(given.node[number]), int(given.term[number])), []).append(number)
    for (_, term), same in alike.items():
        by = max(first[: int(place[same[0]]) + 1], key=lambda row: row.term or 0)
        op = given.shown(same[0])
        why = f"after {by.node} had committed as leader of term {by.term} at {seconds(by.time):.3f} s"
        more = f" ({len(same) - 1} more like it.)" if len(same) > 1 else ""
        yield Finding(
            rule="Q10",
            sentence=(
                f"Superseded: {op.get('node')} answered op {op['index']} ({op['f']}) in term {term}, which was "
                f"invoked at {op['invoked_s']:.3f} s, {why}.{more}"
            ),
            ops=(op,),
            rows=(by.shown(),),
            numbers=tuple(same),
            why=f"in term {term}, {why}",
        )


def _committed(telemetry: pa.Table) -> list[list[Row]]:
    """By group the leaders that committed an entry of their own term: the first row of each that shows it.

    If a leader did not report where its log ended when it was elected, it has committed once its commit index advances:
    a leader commits no entry of earlier terms before one of its own.
    """
    ended: dict[tuple[str | None, str, int, int], int] = {}
    announced: set[tuple[str | None, str, int, int]] = set()
    first: dict[tuple[str | None, str, int, int], Row] = {}
    for row in rows(telemetry.filter(array(is_equal(telemetry, "role", "leader")))):
        if row.term is None:
            continue
        led = (row.group, row.node, row.life, row.term)
        # Rows of other events say in `last_index` what is durable, and the first ones may come before the row "role".
        # A leader that says twice that it was elected in a term was elected when it said so first.
        elected = row.event == "role" and row.last_index is not None and led not in announced
        before = row.last_index if elected else row.commit_index
        if before is not None and (elected or led not in ended):
            ended[led] = before
        if elected:
            announced.add(led)
        if row.commit_index is not None and row.commit_index > ended[led]:
            first.setdefault(led, row)
    groups: list[str | None] = compute.unique(
        telemetry.filter(compute.is_valid(telemetry["role"]))["group"]
    ).to_pylist()
    found = [
        sorted((row for led, row in first.items() if led[0] == group), key=lambda row: row.time) for group in groups
    ]
    return found if all(found) else []


def convergence(
    telemetry: pa.Table, nodes: Sequence[NodeId], waited_ns: int, bound_ns: int
) -> tuple[list[Finding], RuleResult]:
    """Q7: findings, one per group, and the result.

    Args:
        telemetry: of the nodes.
        nodes: all nodes of the test: the members if no row has voters.
        waited_ns: how long the run went on after the load had stopped and everything was healed, without stalls of the
            controller; members at different indexes violate the rule only if the bound was over.
        bound_ns: how long members may differ.
    """
    column: Column = telemetry["group"].combine_chunks()
    group = column.dictionary_encode(null_encoding="encode")
    number: Ints = numbers(group.indices).astype(np.int64)
    results: list[RuleResult] = []
    found: list[Finding] = []
    for each, name in enumerate(group.dictionary.to_pylist()):
        group_rows = telemetry.filter(array(number == each))
        last, members = _last(group_rows), members_at_the_end(group_rows, nodes)
        finding, how = _met(name, [last.get(node) for node in members], waited_ns >= bound_ns, bound_ns)
        results.append(how)
        found += [finding] if finding is not None else []
    return found, in_all(results)


def _met(
    group: str | None, last_rows: Sequence[Row | None], over: bool, bound_ns: int
) -> tuple[Finding | None, RuleResult]:
    """Whether the members of a group have converged, by the last row of each."""
    known = [row for row in last_rows if row is not None]
    if len(known) < len(last_rows) or not known:
        return None, "not judged"
    apart = len({row.applied_index for row in known}) > 1
    differ = len({row.state_hash for row in known if row.state_hash is not None}) > 1
    if not apart and not differ:
        return None, "held"
    if apart and not over:
        return None, "not judged"  # but states that differ at one index never converge
    story = ", ".join(f"{row.node} {_of(row, apart)}" for row in known)
    sentence = (
        f"The members{of_group(group)} did not reach one applied index within {seconds(bound_ns):g} s: {story}."
        if apart
        else f"The members{of_group(group)} hold different states at applied index {known[0].applied_index}: {story}."
    )
    return Finding(rule="Q7", sentence=sentence, rows=tuple(row.shown() for row in known)), "violated"


def _of(row: Row, index: bool) -> str:
    return f"at {row.applied_index}" if index else f"{(row.state_hash or '')[:8]}"


def _last(telemetry: pa.Table) -> dict[NodeId, Row]:
    """Each node's last row with an applied index."""
    at = np.flatnonzero(valid(telemetry["applied_index"]))
    node: Column = telemetry["node"].take(array(at)).combine_chunks()
    _, from_the_end = np.unique(numbers(node.dictionary_encode().indices)[::-1], return_index=True)
    return {row.node: row for row in rows(telemetry.take(array(np.sort(at[len(at) - 1 - from_the_end]))))}


def members_at_the_end(telemetry: pa.Table, nodes: Sequence[NodeId]) -> list[NodeId]:
    """The voters in the last row with the highest commit index; all nodes if no row has voters."""
    size: Column = compute.list_value_length(telemetry["voters"])
    at = np.flatnonzero(numbers(size, null=0) > 0)
    if not len(at):
        return list(nodes)
    commit: Column = telemetry["commit_index"]
    behind = numbers(commit, null=0).astype(np.int64, copy=False)[at][::-1]
    voters: Column = telemetry["voters"][int(at[len(at) - 1 - int(behind.argmax())])]
    return [node for node in nodes if node in voters.as_py()]

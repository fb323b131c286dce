"""Leader completeness: a new leader has every entry that was committed in an earlier term (Raft, figure 3).

    incomplete-leader   a node leads, and its log ends before an index that was known to be committed

Then entries that a majority acknowledged are lost, or will be overwritten, even if no client ever reads them. A log
that was acknowledged before it was durable and a vote for a shorter log show here first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any

import pyarrow as pa

from splitbrain.checkers.consensus.rows import LISTED, Row, of_group, refuse_options, rows, with_reason
from splitbrain.checkers.verdict import Partition, Valid, Verdict
from splitbrain.results.quantities import counted


class LeaderCompleteness:
    """Judges every row of event "role" in which a node leads and has a `last_index`. No options.

    An index counts as committed in an earlier term if a node in an earlier term reported it as its commit index; times
    are not compared. The figures: `elections` judged, `highest_commit`, and `broken` elections. Unknown if no leader is
    known to be incomplete and some do not report where their logs ended.
    """

    name = "leader-completeness"
    partition: Partition = "telemetry"

    def check(self, telemetry: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge the telemetry of one run."""
        refuse_options(self.name, options)
        elected: list[Row] = []
        committed: dict[str | None, dict[int, Row]] = {}
        for row in rows(telemetry):
            if row.term is None:
                continue
            if row.event == "role" and row.role == "leader":
                elected.append(row)
            if row.commit_index is not None:
                _keep_highest(committed.setdefault(row.group, {}), row)
        earlier = {group: _Committed(of_terms) for group, of_terms in committed.items()}
        judged = [row for row in elected if row.last_index is not None]
        found = [finding for row in judged if (finding := _finding(row, earlier.get(row.group)))]
        valid: Valid = "false" if found else "unknown" if len(judged) < len(elected) else "true"
        verdict = Verdict(
            checker=self.name,
            valid=valid,
            algorithm="commits by term",
            sentence=_sentence(found, len(elected), len(judged)),
            anomalies=("incomplete-leader",) if found else (),
            evidence={"findings": found[:LISTED]} if found else {},
            figures={
                "elections": len(judged),
                "highest_commit": max((each.highest for each in earlier.values()), default=0),
                "broken": len(found),
            },
        )
        return with_reason(verdict)

    def merge(self, verdicts: Iterable[Verdict], options: Mapping[str, Any]) -> Verdict:
        """A run is one partition: there is one verdict."""
        (verdict,) = verdicts
        return verdict


class _Committed:
    """What was known to be committed before a term began."""

    def __init__(self, of_terms: Mapping[int, Row]) -> None:
        self._terms = sorted(of_terms)
        self._highest = list(accumulate((of_terms[term] for term in self._terms), _higher))

    @property
    def highest(self) -> int:
        """The highest index of all."""
        return _commit(self._highest[-1])

    def before(self, term: int) -> Row | None:
        """The row with the highest commit index of all nodes that were in an earlier term."""
        place = bisect_left(self._terms, term)
        return self._highest[place - 1] if place else None


def _keep_highest(of_terms: dict[int, Row], row: Row) -> None:
    assert row.term is not None
    known = of_terms.get(row.term)
    of_terms[row.term] = row if known is None else _higher(known, row)


def _higher(a: Row, b: Row) -> Row:
    return b if _commit(b) > _commit(a) else a


def _commit(row: Row) -> int:
    return row.commit_index or 0


def _finding(leader: Row, committed: _Committed | None) -> dict[str, Any] | None:
    assert leader.term is not None
    assert leader.last_index is not None
    report = committed.before(leader.term) if committed is not None else None
    if report is None or _commit(report) <= leader.last_index:
        return None
    return {
        "anomaly": "incomplete-leader",
        "sentence": (
            f"Incomplete leader: {leader.node} was elected in term {leader.term}{of_group(leader.group)} ({leader.at}) "
            f"with a log that ends at {leader.last_index}, but {report.node} had reported commit index "
            f"{report.commit_index} in term {report.term} ({report.at})."
        ),
        "missing": [leader.last_index + 1, report.commit_index],
        "leader": leader.shown(),
        "committed": report.shown(),
    }


def _sentence(found: list[dict[str, Any]], elected: int, judged: int) -> str:
    unjudged = elected - judged
    why = "it did not report where its log ended" if unjudged == 1 else "they did not report where their logs ended"
    left_out = f"{unjudged} of the {counted(elected, 'elected leader')} could not be judged, since {why}"
    if found:
        more = f" ({len(found)} leaders were incomplete.)" if len(found) > 1 else ""
        return f"{found[0]['sentence']}{more}" + (f" ({left_out}.)" if unjudged else "")
    if not elected:
        return "No election was seen, so there was no leader to judge."
    if not judged:
        return "Unknown: no elected leader reported where its log ended."
    if unjudged:
        return f"Unknown: {left_out}; the other {judged} had every entry that was known to be committed before."
    return f"Each of the {counted(judged, 'elected leader')} had every entry that was known to be committed before."

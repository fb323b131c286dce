"""Leader completeness: a new leader has every entry that was committed in an earlier term (Raft, figure 3).

    incomplete-leader    a node leads, and its log ends before an index that was known to be committed
    conflicting-leader   a node leads, and its log has other entries where some were known to be committed

Then entries that a majority acknowledged are lost, or will be overwritten, even if no client ever reads them. A log
that was acknowledged before it was durable and a vote for a shorter log show here first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

import pyarrow as pa

from splitbrain.checkers.consensus.matching import OwnLog
from splitbrain.checkers.consensus.rows import LISTED, Row, of_group, refuse_options, rows, with_reason
from splitbrain.checkers.verdict import Partition, Valid, Verdict
from splitbrain.results.quantities import counted

_HASH_SHOWN = 12


class LeaderCompleteness:
    """Judges every row of event "role" in which a node leads and has a `last_index`. No options.

    An index counts as committed in an earlier term if a node in an earlier term reported it as its commit index; times
    are not compared. What a leader reported of its log behind what it had applied (`splitbrain.checkers.consensus.
    matching`) is compared with the hash chains of nodes that had applied up to there in an earlier term. The figures:
    `elections` judged, `highest_commit`, `compared` hashes, and `broken` elections. Unknown if no leader is known to be
    incomplete and some do not report where their logs ended.
    """

    name = "leader-completeness"
    partition: Partition = "telemetry"

    def check(self, telemetry: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge the telemetry of one run."""
        refuse_options(self.name, options)
        elected: list[Row] = []
        logs: list[tuple[Row, list[Row]]] = []
        committed: dict[str | None, dict[int, Row]] = {}
        chains: dict[tuple[str | None, int], dict[str, Row]] = {}
        own: dict[tuple[str | None, str], OwnLog] = {}
        for row in rows(telemetry):
            log = own.setdefault((row.group, row.node), OwnLog())
            log.step(row)
            if row.term is None:
                continue
            if row.applied_index and row.chain_hash is not None:
                _keep_earliest(chains.setdefault((row.group, row.applied_index), {}), row)
            if row.event == "role" and row.role == "leader":
                elected.append(row)
                logs.append((row, list(log.said.values())))
            if row.commit_index is not None:
                _keep_highest(committed.setdefault(row.group, {}), row)
        earlier = {group: _Committed(of_terms) for group, of_terms in committed.items()}
        judged = [row for row in elected if row.last_index is not None]
        found = [finding for row in judged if (finding := _finding(row, earlier.get(row.group)))]
        pairs = [pair for leader, said in logs for pair in _pairs(leader, said, chains)]
        found += [_conflicting(*pair) for pair in pairs if pair[1].log_hash != pair[2].chain_hash]
        valid: Valid = "false" if found else "unknown" if len(judged) < len(elected) else "true"
        verdict = Verdict(
            checker=self.name,
            valid=valid,
            algorithm="commits by term",
            sentence=_sentence(found, len(elected), len(judged)),
            anomalies=tuple(dict.fromkeys(finding["anomaly"] for finding in found)),
            evidence={"findings": found[:LISTED]} if found else {},
            figures={
                "elections": len(judged),
                "highest_commit": max((each.highest for each in earlier.values()), default=0),
                "compared": len(pairs),
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


def _keep_earliest(of_chains: dict[str, Row], row: Row) -> None:
    known = of_chains.setdefault(row.chain_hash or "", row)
    if (row.term or 0) < (known.term or 0):
        of_chains[row.chain_hash or ""] = row


def _pairs(
    leader: Row, said: Iterable[Row], chains: Mapping[tuple[str | None, int], Mapping[str, Row]]
) -> Iterator[tuple[Row, Row, Row]]:
    """The leader, what it had said of its log up to some index, and who had applied up to there in an earlier term."""
    for of_log in said:
        for applied in chains.get((leader.group, of_log.log_index or 0), {}).values():
            if (applied.term or 0) < (leader.term or 0):
                yield leader, of_log, applied


def _conflicting(leader: Row, of_log: Row, applied: Row) -> dict[str, Any]:
    return {
        "anomaly": "conflicting-leader",
        "sentence": (
            f"Conflicting leader: {leader.node} was elected in term {leader.term}{of_group(leader.group)} "
            f"({leader.at}) with a log whose hash up to entry {of_log.log_index} is "
            f"{(of_log.log_hash or '')[:_HASH_SHOWN]}, but {applied.node} had applied "
            f"{(applied.chain_hash or '')[:_HASH_SHOWN]} up to there in term {applied.term} ({applied.at})."
        ),
        "leader": leader.shown(),
        "log": of_log.shown(),
        "committed": applied.shown(),
    }


def _sentence(found: list[dict[str, Any]], elected: int, judged: int) -> str:
    unjudged = elected - judged
    why = "it did not report where its log ended" if unjudged == 1 else "they did not report where their logs ended"
    left_out = f"{unjudged} of the {counted(elected, 'elected leader')} could not be judged, since {why}"
    if found:
        more = f" ({len(found)} findings in all.)" if len(found) > 1 else ""
        return f"{found[0]['sentence']}{more}" + (f" ({left_out}.)" if unjudged else "")
    if not elected:
        return "No election was seen, so there was no leader to judge."
    if not judged:
        return "Unknown: no elected leader reported where its log ended."
    if unjudged:
        return f"Unknown: {left_out}; the other {judged} had every entry that was known to be committed before."
    return f"Each of the {counted(judged, 'elected leader')} had every entry that was known to be committed before."

"""Leader completeness: a new leader has every entry that was committed in an earlier term (Raft, figure 3).

    incomplete-leader    a node leads, and its log ends before an index that was known to be committed
    outdated-leader      a node leads, and its log ends in an earlier term than an entry that was known to be committed
    conflicting-leader   a node leads, and its log has other entries where some were known to be committed

Then entries that a majority acknowledged are lost, or will be overwritten, even if no client ever reads them. A log
that was acknowledged before it was durable and a vote for a shorter log show here first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa

from splitbrain.checkers.consensus.findings import verdict_of
from splitbrain.checkers.consensus.matching import NEW_LOG, OwnLog
from splitbrain.checkers.consensus.rows import Row, of_group, refuse_options, rows
from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.once import once
from splitbrain.results.quantities import counted

_HASH_SHOWN = 12
_T = TypeVar("_T")


class LeaderCompleteness(OfOneRun):
    """Judges every row of event "role" in which a node leads and has a `last_index`. No options.

    An index counts as committed in an earlier term if a node in an earlier term reported it as its commit index; times
    are not compared. If that node reported the term of such an entry, the leader's log must not end in an earlier one:
    terms never fall along a log. What a leader reported of its log behind what it had applied
    (`splitbrain.checkers.consensus.matching`) is compared with the hash chains of nodes that had applied up to there in
    an earlier term. The figures: `elections` judged, `after_commits`: how many of them after something was known to be
    committed, `highest_commit`, `compared` hashes, and `broken` elections. Unknown if no leader is known to be
    incomplete and some do not report where their logs ended.
    """

    name = "leader-completeness"
    partition: Partition = "telemetry"

    def check(self, telemetry: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge the telemetry of one run."""
        refuse_options(self.name, options)
        return once(telemetry, type(self)._judge)

    @classmethod
    def _judge(cls, telemetry: pa.Table) -> Verdict:
        """The verdict, which the checker of quorum progress needs as well."""
        elected: list[Row] = []
        logs: list[tuple[Row, list[Row]]] = []
        committed: dict[str | None, dict[int, Row]] = {}
        chains: dict[tuple[str | None, int], dict[str, Row]] = {}
        entries: dict[str | None, dict[int, _Entry]] = {}
        own: dict[tuple[str | None, str], OwnLog] = {}
        for row in rows(telemetry):
            log = own.setdefault((row.group, row.node), OwnLog())
            known = list(_known_to_be_committed(row, log.said.values()))
            log.step(row)
            if row.term is None:
                continue
            for entry in known:
                _keep(entries.setdefault(row.group, {}), row.term, entry, _term_of)
            if row.applied_index and row.chain_hash is not None:
                _keep_earliest(chains.setdefault((row.group, row.applied_index), {}), row)
            if row.event == "role" and row.role == "leader":
                elected.append(row)
                logs.append((row, list(log.said.values())))
            if row.commit_index is not None:
                _keep(committed.setdefault(row.group, {}), row.term, row, _commit)
        highest = {group: _Earlier(of_terms, _commit) for group, of_terms in committed.items()}
        newest = {group: _Earlier(of_terms, _term_of) for group, of_terms in entries.items()}
        judged = [(row, _before(highest, row), _before(newest, row)) for row in elected if row.last_index is not None]
        found = [finding for each in judged if (finding := _finding(*each))]
        after_commits = sum(report is not None and _commit(report) > 0 for _, report, _ in judged)
        pairs = [pair for leader, said in logs for pair in _pairs(leader, said, chains)]
        found += [_conflicting(*pair) for pair in pairs if pair[1].log_hash != pair[2].chain_hash]
        left_out = _left_out(len(elected), len(judged))
        return verdict_of(
            cls.name,
            unknown=len(judged) < len(elected),
            algorithm="commits by term",
            found=found,
            otherwise=_praise(len(elected), len(judged), after_commits),
            left_out=f" ({left_out}.)" if left_out else "",
            figures={
                "elections": len(judged),
                "after_commits": after_commits,
                "highest_commit": max((_commit(each.best) for each in highest.values()), default=0),
                "compared": len(pairs),
                "broken": len(found),
            },
        )


class _Entry(NamedTuple):
    """An entry that is known to be committed: the row that names its term, and the one by which it is committed."""

    said: Row
    known: Row


class _Earlier(Generic[_T]):
    """The best of what was known before a term began."""

    def __init__(self, of_terms: Mapping[int, _T], value: Callable[[_T], int]) -> None:
        self._terms = sorted(of_terms)
        self._best = list(accumulate((of_terms[term] for term in self._terms), lambda a, b: _better(a, b, value)))

    @property
    def best(self) -> _T:
        """The best of all."""
        return self._best[-1]

    def before(self, term: int) -> _T | None:
        """The best of what all nodes reported in an earlier term."""
        place = bisect_left(self._terms, term)
        return self._best[place - 1] if place else None


def _before(known: Mapping[str | None, _Earlier[_T]], leader: Row) -> _T | None:
    of_group = known.get(leader.group)
    return None if of_group is None or leader.term is None else of_group.before(leader.term)


def _keep(of_terms: dict[int, _T], term: int, new: _T, value: Callable[[_T], int]) -> None:
    of_terms[term] = _better(of_terms.get(term, new), new, value)


def _better(a: _T, b: _T, value: Callable[[_T], int]) -> _T:
    return b if value(b) > value(a) else a


def _known_to_be_committed(row: Row, held: Iterable[Row]) -> Iterator[_Entry]:
    """Entries of a node's log, with their terms, up to its commit index; `held`: what it had said of its log before."""
    said = held if row.event not in NEW_LOG else ()
    own = () if row.event == "cut" else (row,)  # what is cut off is none of its log any more
    for entry in (*said, *own):
        if entry.log_term is not None and (entry.log_index or 0) <= (row.commit_index or 0):
            yield _Entry(entry, row)


def _term_of(entry: _Entry) -> int:
    return entry.said.log_term or 0


def _commit(row: Row) -> int:
    return row.commit_index or 0


def _finding(leader: Row, report: Row | None, entry: _Entry | None) -> dict[str, Any] | None:
    assert leader.last_index is not None
    if report is not None and _commit(report) > leader.last_index:
        return _incomplete(leader, leader.last_index, report)
    ends_there = leader.log_term is not None and leader.log_index == leader.last_index
    if entry is not None and ends_there and (leader.log_term or 0) < _term_of(entry):
        return _outdated(leader, entry)
    return None


def _incomplete(leader: Row, last_index: int, report: Row) -> dict[str, Any]:
    return {
        "anomaly": "incomplete-leader",
        "sentence": (
            f"Incomplete leader: {leader.node} was elected in term {leader.term}{of_group(leader.group)} ({leader.at}) "
            f"with a log that ends at {last_index}, but {report.node} had reported commit index "
            f"{report.commit_index} in term {report.term} ({report.at})."
        ),
        "missing": [last_index + 1, report.commit_index],
        "leader": leader.shown(),
        "committed": report.shown(),
    }


def _outdated(leader: Row, entry: _Entry) -> dict[str, Any]:
    said, known = entry
    return {
        "anomaly": "outdated-leader",
        "sentence": (
            f"Outdated leader: {leader.node} was elected in term {leader.term}{of_group(leader.group)} ({leader.at}) "
            f"with a log that ends with entry {leader.log_index} of term {leader.log_term}, but {known.node} had "
            f"reported in term {known.term} that entry {said.log_index} of term {said.log_term} is committed "
            f"({known.at})."
        ),
        "leader": leader.shown(),
        "log": said.shown(),
        "committed": known.shown(),
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


def _left_out(elected: int, judged: int) -> str:
    """Which leaders were not judged, and why; "" if all were."""
    unjudged = elected - judged
    if not unjudged:
        return ""
    why = "it did not report where its log ended" if unjudged == 1 else "they did not report where their logs ended"
    return f"{unjudged} of {counted(elected, 'elected leader')} could not be judged, since {why}"


def _praise(elected: int, judged: int, after_commits: int) -> str:
    if not elected:
        return "No election was seen, so there was no leader to judge."
    if not judged:
        return "Unknown: no elected leader reported where its log ended."
    if left_out := _left_out(elected, judged):
        return f"Unknown: {left_out}; the other {judged} had every entry that was known to be committed before."
    if not after_commits:
        came = f"{counted(judged, 'leader')} {'was' if judged == 1 else 'were'} elected"
        return f"{came}, and nothing was known to be committed before: nothing could be lacking."
    who = "The elected leader" if judged == 1 else f"Each of {judged} elected leaders"
    return f"{who} had every entry that was known to be committed before."

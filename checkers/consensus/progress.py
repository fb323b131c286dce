"""Commit index, applied index and term of a node never decrease.

    commit-went-back        the commit index decreased within a life of a node
    applied-went-back       the applied index decreased within a life, although the state was not rebuilt
    applied-beyond-commit   the applied index was above the commit index
    applied-skipped         the applied index rose by more than the number of entries that the node applied
    applied-twice           it rose by less
    term-went-back          the term decreased within a life
    term-forgotten          a life began in a lower term than the node had announced in an earlier life

A life is one process of a node. Commit and applied index start again with each life. The term does not: it must be
durable before it is announced (Raft, figure 2: currentTerm is persistent and increases monotonically). A node that
counts what it applies goes through its log entry by entry, from what it recovered or took over with a snapshot (rows
with event "start", "snapshot" or "rebuild"). Only rows with
event "role" announce a term: a node may write any other row while it still waits for its disk. A row with event
"new-member" resets everything: the node left, lost its data, and came back as another member.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from splitbrain.checkers.consensus.rows import Row, of_group, refuse_options, rows, with_reason
from splitbrain.checkers.verdict import OfOneRun, Partition, Valid, Verdict
from splitbrain.results.once import once
from splitbrain.results.quantities import counted

_LISTED = 4
"""The largest number of findings of each kind in the evidence."""

_REBUILD = "rebuild"
_NEW_STATE = ("start", "snapshot", _REBUILD)
"""Events of rows in which the applied index does not come from applying."""
_NEW_MEMBER = "new-member"
_WORDS = {
    "commit-went-back": "Commit went back",
    "applied-went-back": "Applied went back",
    "applied-beyond-commit": "Applied beyond commit",
    "applied-skipped": "Applied skipped entries",
    "applied-twice": "Applied twice",
    "term-went-back": "Term went back",
    "term-forgotten": "Term forgotten",
}


class CommitMonotonic(OfOneRun):
    """Judges the rows of each node in the order in which it wrote them. No options.

    The figures: `rows`, `counted` (rows by which it is known that no entry was skipped since the row before), `lives`
    (of all nodes together), `max_commit`, `max_applied`, `max_term`, `rebuilds` (a node
    discarded its state and applied everything again), and `broken`: how often each anomaly was seen.
    """

    name = "commit-monotonic"
    partition: Partition = "telemetry"

    def check(self, telemetry: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge the telemetry of one run."""
        refuse_options(self.name, options)
        return once(telemetry, type(self)._judge)

    @classmethod
    def _judge(cls, telemetry: pa.Table) -> Verdict:
        """The verdict, which the checker of quorum progress needs as well."""
        table = list(rows(telemetry))
        findings: list[tuple[str, Row, Row]] = []
        nodes: dict[tuple[str | None, str], _Node] = {}
        for row in table:
            findings += nodes.setdefault((row.group, row.node), _Node()).step(row)
        figures = {**_figures(table), "counted": sum(node.counted for node in nodes.values())}
        nothing = all(figures[name] is None for name in ("max_commit", "max_applied", "max_term"))
        valid: Valid = "false" if findings else "unknown" if nothing else "true"
        broken = dict(Counter(anomaly for anomaly, _, _ in findings))
        verdict = Verdict(
            checker=cls.name,
            valid=valid,
            algorithm="row by row",
            sentence=_sentence(findings, broken, figures, nothing),
            anomalies=tuple(broken),
            evidence={"findings": [_shown(*finding) for finding in _first_of_each(findings)]} if findings else {},
            figures={**figures, "broken": broken},
        )
        return with_reason(verdict)


class _Node:
    """The last rows of one node, and the highest term that it announced."""

    def __init__(self) -> None:
        self.counted = 0
        self._life: int | None = None
        self._last: dict[str, Row] = {}
        self._known: Row | None = None
        self._known_before: Row | None = None
        """The row with the highest announced term: `_known` of all lives, `_known_before` of earlier lives."""

    def step(self, row: Row) -> Iterator[tuple[str, Row, Row]]:
        """Take the node's next row; each anomaly comes with the row before and the row that shows it."""
        if row.event == _NEW_MEMBER:
            self._life, self._last, self._known, self._known_before = None, {}, None, None
            return
        if row.life != self._life:
            self._life, self._last, self._known_before = row.life, {}, self._known
        if row.event == _REBUILD:
            self._last.pop("applied_index", None)
        yield from self._decreased("commit-went-back", "commit_index", row)
        yield from self._decreased("applied-went-back", "applied_index", row)
        if row.applied_index is not None and row.commit_index is not None and row.applied_index > row.commit_index:
            yield "applied-beyond-commit", row, row
        yield from self._counted(row)
        yield from self._decreased("term-went-back", "term", row)
        yield from self._forgot(row)

    def _decreased(self, anomaly: str, field: str, row: Row) -> Iterator[tuple[str, Row, Row]]:
        value = getattr(row, field)
        if value is None:
            return
        before = self._last.get(field)
        if before is not None and value < getattr(before, field):
            yield anomaly, before, row
        self._last[field] = row

    def _counted(self, row: Row) -> Iterator[tuple[str, Row, Row]]:
        if row.applied_index is None or row.applied_count is None:
            return
        before = None if row.event in _NEW_STATE else self._last.get("applied_count")
        self._last["applied_count"] = row
        if before is None:
            return
        self.counted += 1
        more = row.applied_index - (before.applied_index or 0) - (row.applied_count - (before.applied_count or 0))
        if more:
            yield ("applied-skipped" if more > 0 else "applied-twice"), before, row

    def _forgot(self, row: Row) -> Iterator[tuple[str, Row, Row]]:
        if row.term is None:
            return
        before = self._known_before
        if before is not None:
            self._known_before = None  # only the life's first row with a term is compared; the rest follows from it
            if row.term < (before.term or 0):
                yield "term-forgotten", before, row
        if row.event == "role" and (self._known is None or row.term > (self._known.term or 0)):
            self._known = row


def _figures(table: list[Row]) -> dict[str, Any]:
    def highest(field: str) -> int | None:
        return max((value for row in table if (value := getattr(row, field)) is not None), default=None)

    return {
        "rows": len(table),
        "lives": len({(row.node, row.life) for row in table}),
        "max_commit": highest("commit_index"),
        "max_applied": highest("applied_index"),
        "max_term": highest("term"),
        "rebuilds": sum(row.event == _REBUILD for row in table),
    }


def _first_of_each(findings: list[tuple[str, Row, Row]]) -> Iterator[tuple[str, Row, Row]]:
    seen = Counter[str]()
    for finding in findings:
        seen[finding[0]] += 1
        if seen[finding[0]] <= _LISTED:
            yield finding


def _shown(anomaly: str, before: Row, after: Row) -> dict[str, Any]:
    rows_shown = [before.shown(), after.shown()] if before is not after else [after.shown()]
    return {"anomaly": anomaly, "sentence": _finding(anomaly, before, after), "rows": rows_shown}


def _finding(anomaly: str, before: Row, after: Row) -> str:
    who = f"{_WORDS[anomaly]}: {after.node}{of_group(after.group)}"
    if anomaly == "applied-beyond-commit":
        return f"{who} had applied index {after.applied_index} with commit index {after.commit_index} {after.at}."
    if anomaly in ("applied-skipped", "applied-twice"):
        entries = counted((after.applied_count or 0) - (before.applied_count or 0), "entry", "entries")
        way = f"from index {before.applied_index} {before.at} to {after.applied_index} {after.at}"
        return f"{who} applied {entries} {way}."
    field, words = {
        "commit-went-back": ("commit_index", "commit index"),
        "applied-went-back": ("applied_index", "applied index"),
    }.get(anomaly, ("term", "term"))
    return f"{who} reported {words} {getattr(before, field)} {before.at}, then {getattr(after, field)} {after.at}."


def _sentence(
    findings: list[tuple[str, Row, Row]], broken: Mapping[str, int], figures: Mapping[str, Any], nothing: bool
) -> str:
    if findings:
        more = f" ({len(findings)} times in all: {', '.join(broken)}.)" if len(findings) > 1 else ""
        return f"{_finding(*findings[0])}{more}"
    if nothing:
        return "Unknown: no row of the telemetry has a commit index, an applied index or a term."
    return (
        f"Commit index, applied index and term never went back in {counted(figures['lives'], 'life', 'lives')} of "
        "the nodes; the highest "
        f"commit index was {figures['max_commit'] or 0}, the highest term {figures['max_term'] or 0}."
    )

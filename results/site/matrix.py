"""The nightly page: workload and nemesis against system and backend, the worst outcome in each cell, and its trend.

A cell covers a span of days, of which there are as many again before it: how the same cell came out in each of those is
its trend. What was found in the span stands above the cells, violations first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from splitbrain.results.errors import UsageError
from splitbrain.results.site.rows import STATES, Row
from splitbrain.results.site.selection import Selection, day_of, none_if_empty, parse_day

DAYS: Final = (1, 7, 30)
"""How many days a cell can cover."""

SPANS: Final = 12
"""Spans in a trend, the shown one included."""

LINES_MAX: Final = 300
COLUMNS_MAX: Final = 20
"""The largest numbers of lines and columns that are shown. The page says if there are more."""

FINDINGS_MAX: Final = 12
"""Sentences above the matrix."""

JUDGED: Final = STATES[:4]
"""Outcomes, the most severe first."""


class Column(msgspec.Struct, frozen=True, order=True):
    """What was tested, and where. `planted`: with bugs switched on, which are there to be found."""

    system: str
    backend: str
    planted: bool


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """A workload under a nemesis, on a system and a backend.

    Attributes:
        state: the worst outcome in the span; empty if no run of it was judged.
        so: how many runs came out so.
        runs: how many there are in the span.
        unjudged: how many of them have no outcome: under way, crashed, damaged, not judged yet.
        spans: the worst outcome of each span, the oldest first and this one last; empty where there was none.
        trend: "worse", "better" or "same" than in the latest span before that has an outcome; "new" if there is none;
            empty without a state.
        query: the table's query for the runs of this span.
    """

    state: str
    so: int
    runs: int
    unjudged: int
    spans: list[str]
    trend: str
    query: str


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the matrix.

    Attributes:
        workload, nemesis: what it is about.
        state: the worst outcome where no bug is planted.
        cells: one for each column, None where nothing was run in any span.
    """

    workload: str
    nemesis: str
    state: str
    cells: list[Cell | None]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence about runs of the span: its latest run, and how many there are with the same state and sentence."""

    row: Row
    runs: int


class Matrix(msgspec.Struct, frozen=True, kw_only=True):
    """The page.

    Attributes:
        days: how many days a span has.
        since, until: the first and the last day of the span, ISO 8601; empty for a store without runs.
        earlier, later: the last day of the spans before and after; empty where no run began there.
        counts: how many runs of the span came out so, the most severe first; those without an outcome by their state.
        columns, lines: lines with violations first, then harness errors, inconclusive ones, passes; planted bugs, which
            are there to be found, do not count.
        findings: violations first, then harness errors, then inconclusive runs; those of planted bugs at the end.
        more_findings: sentences that are not among these.
        more_lines, more_columns: how many were left out.
        unplaced: runs of the store that do not say what was tested, or when.
    """

    days: int
    since: str
    until: str
    earlier: str
    later: str
    counts: list[tuple[str, int]]
    columns: list[Column]
    lines: list[Line]
    findings: list[Finding]
    more_findings: int
    more_lines: int
    more_columns: int
    unplaced: int


class _Placed(NamedTuple):
    row: Row
    line: tuple[str, str]
    column: Column
    back: int
    """How many spans ago: 0 is the shown one; below 0 is later."""


def matrix(rows: Sequence[Row], query: Mapping[str, str]) -> Matrix:
    """The matrix of a store.

    Args:
        rows: all its runs, the latest first.
        query: `days`, one of `DAYS`; `until`, the last day of the span, without which it is the latest with a run.

    Raises:
        UsageError: these do not exist.
    """
    days = query.get("days") or "1"
    if days not in map(str, DAYS):
        raise UsageError(f"a cell cannot cover {days[:40]!r} days: there are {', '.join(map(str, DAYS))}.")
    dated = [(row, day) for row in rows if row.workload and (day := day_of(row)) is not None]
    latest = max((day for _, day in dated), default=None)
    until = parse_day("until", query.get("until", "")) or latest
    placed = [] if until is None else [_place(row, day, until, int(days)) for row, day in dated]
    return _matrix(placed, int(days), until, len(rows) - len(dated))


def _place(row: Row, day: date, until: date, days: int) -> _Placed:
    planted = bool(row.bug)
    column = Column(row.system, row.backend, planted)
    return _Placed(row, (row.workload, none_if_empty(row.nemesis)), column, (until - day).days // days)


def _matrix(placed: Sequence[_Placed], days: int, until: date | None, unplaced: int) -> Matrix:
    shown = [each for each in placed if 0 <= each.back < SPANS]
    now = [each.row for each in shown if each.back == 0]
    all_columns = sorted({each.column for each in shown})
    columns = all_columns[:COLUMNS_MAX]
    span = _Span(days, until)
    lines = _lines(shown, columns, span)
    findings = _findings(now)
    backs = {each.back for each in placed}
    return Matrix(
        days=days,
        since=span.since,
        until=span.until,
        earlier=span.day(1) if any(back > 0 for back in backs) else "",
        later=span.day(-1) if any(back < 0 for back in backs) else "",
        counts=[(state, count) for state in STATES if (count := sum(row.state == state for row in now))],
        columns=columns,
        lines=lines[:LINES_MAX],
        findings=findings[:FINDINGS_MAX],
        more_findings=max(len(findings) - FINDINGS_MAX, 0),
        more_lines=max(len(lines) - LINES_MAX, 0),
        more_columns=len(all_columns) - len(columns),
        unplaced=unplaced,
    )


class _Span(NamedTuple):
    days: int
    last: date | None

    @property
    def until(self) -> str:
        return self.day(0)

    @property
    def since(self) -> str:
        return "" if self.last is None else _moved(self.last, 1 - self.days)

    def day(self, back: int) -> str:
        """The last day of the span that many spans ago."""
        return "" if self.last is None else _moved(self.last, -back * self.days)


def _moved(day: date, days: int) -> str:
    try:
        return (day + timedelta(days=days)).isoformat()
    except OverflowError:  # the calendar's ends
        return day.isoformat()


def _lines(shown: Sequence[_Placed], columns: Sequence[Column], span: _Span) -> list[Line]:
    cells: dict[tuple[tuple[str, str], Column], list[_Placed]] = {}
    for each in shown:
        cells.setdefault((each.line, each.column), []).append(each)
    lines: list[Line] = []
    for workload, nemesis in {each.line: None for each in shown}:
        row = [
            _cell(found, workload, nemesis, column, span)
            if (found := cells.get(((workload, nemesis), column))) is not None
            else None
            for column in columns
        ]
        both = list(zip(row, columns, strict=True))
        state = worst(cell.state for cell, column in both if cell is not None and not column.planted)
        lines.append(Line(workload=workload, nemesis=nemesis, state=state, cells=row))
    return sorted(lines, key=lambda line: (severity(line.state), line.workload, line.nemesis))


def _cell(found: Sequence[_Placed], workload: str, nemesis: str, column: Column, span: _Span) -> Cell:
    spans = [worst(each.row.state for each in found if each.back == back) for back in reversed(range(SPANS))]
    now = [each.row.state for each in found if each.back == 0]
    state = spans[-1]
    wanted = Selection(
        workload=workload,
        nemeses=nemesis,
        system=column.system,
        backend=column.backend,
        bug="any" if column.planted else "none",
        since=span.since,
        until=span.until,
        sort="outcome",
        down=False,
    )
    return Cell(
        state=state,
        so=now.count(state),
        runs=len(now),
        unjudged=sum(each not in JUDGED for each in now),
        spans=spans,
        trend=_trend(state, spans[:-1]),
        query=wanted.query(),
    )


def _trend(state: str, earlier: Sequence[str]) -> str:
    before = next((each for each in reversed(earlier) if each), "")
    if not state:
        return ""
    if not before:
        return "new"
    change = severity(state) - severity(before)
    return "same" if change == 0 else "worse" if change < 0 else "better"


def worst(states: Iterable[str]) -> str:
    """The most severe outcome; empty if there is none."""
    return min((state for state in states if state in JUDGED), key=severity, default="")


def severity(state: str) -> int:
    """0 for the most severe outcome; what is none comes after all that are."""
    return JUDGED.index(state) if state in JUDGED else len(JUDGED)


def _findings(now: Sequence[Row]) -> list[Finding]:
    """What was found, each sentence once."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in now:
        if row.state in JUDGED[:3]:
            groups.setdefault((bool(row.bug), severity(row.state), row.says, row.test), []).append(row)
    ordered = sorted(groups.items(), key=lambda group: group[0][:2])
    return [Finding(row=rows[0], runs=len(rows)) for _, rows in ordered]

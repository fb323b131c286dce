"""The nightly page: the worst outcome of each cell, its trend, what comes first, and where cells lead."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from splitbrain.results.errors import UsageError
from splitbrain.results.site.matrix import COLUMNS_MAX, FINDINGS_MAX, LINES_MAX, SPANS, Cell, Column, Matrix, matrix
from splitbrain.results.site.rows import Row
from splitbrain.results.site.selection import choose, parse
from tests.site.support import HOSTILE, bare_run, document, get, small_run, text


def run(day: int, state: str, workload: str = "set", nemesis: str = "kill", **more: Any) -> Row:
    """A run that began on a day of November."""
    start = f"2026-11-{day:02d}T12:00:00.000+00:00"
    told: dict[str, Any] = {"system": "etcd", "backend": "local", "test": f"{workload}-{nemesis}", **more}
    return Row(run=f"202611{day:02d}-{state}", state=state, workload=workload, nemesis=nemesis, start=start, **told)


def cell(found: Matrix, workload: str = "set", nemesis: str = "kill", column: int = 0) -> Cell:
    [line] = [line for line in found.lines if (line.workload, line.nemesis) == (workload, nemesis)]
    wanted = line.cells[column]
    assert wanted is not None
    return wanted


def test_a_cell_has_the_worst_outcome_of_the_latest_day_and_how_often_it_was() -> None:
    rows = [run(21, "pass"), run(21, "inconclusive"), run(21, "violation"), run(21, "violation"), run(21, "running")]
    found = cell(matrix(rows, {}))
    assert (found.state, found.so, found.runs, found.unjudged) == ("violation", 2, 5, 1)
    assert cell(matrix(rows[:2], {})).state == "inconclusive"
    assert cell(matrix([run(21, "harness error"), run(21, "inconclusive")], {})).state == "harness error"
    nothing_judged = cell(matrix(rows[4:], {}))
    assert (nothing_judged.state, nothing_judged.trend, nothing_judged.unjudged) == ("", "", 1)


@pytest.mark.parametrize(
    ("earlier", "trend"),
    [
        ([], "new"),
        ([run(20, "pass")], "worse"),
        ([run(20, "violation")], "better"),
        ([run(20, "inconclusive")], "same"),
        ([run(14, "pass"), run(20, "running")], "worse"),  # a day without an outcome is passed over
        ([run(14, "pass"), run(20, "inconclusive")], "same"),
    ],
)
def test_the_trend_is_against_the_latest_day_before_that_has_an_outcome(earlier: list[Row], trend: str) -> None:
    found = cell(matrix([run(21, "inconclusive"), *earlier], {}))
    assert found.trend == trend
    assert (len(found.spans), found.spans[-1]) == (SPANS, "inconclusive")


def test_a_cell_that_was_not_run_that_day_shows_only_how_it_came_out_before() -> None:
    found = cell(matrix([run(21, "pass", "register"), run(19, "violation")], {}))
    assert (found.state, found.runs, found.spans[-3:]) == ("", 0, ["violation", "", ""])


def test_days_are_put_together_and_gone_through() -> None:
    rows = [run(21, "pass"), run(20, "violation"), run(14, "inconclusive"), run(3, "pass")]
    week = matrix(rows, {"days": "7"})
    assert (week.since, week.until, week.earlier, week.later) == ("2026-11-15", "2026-11-21", "2026-11-14", "")
    assert cell(week).spans[-3:] == ["pass", "inconclusive", "violation"]
    day = matrix(rows, {"until": "2026-11-20"})
    assert (day.since, day.until, day.earlier, day.later) == ("2026-11-20", "2026-11-20", "2026-11-19", "2026-11-21")
    assert cell(day).state == "violation"


def test_lines_and_sentences_come_in_order_of_severity_and_planted_bugs_are_apart() -> None:
    rows = [
        run(21, "pass", "a"),
        run(21, "inconclusive", "b", says="too few ops"),
        run(21, "harness error", "c", says="no node came up"),
        run(21, "violation", "d", says="Lost: 7"),
        run(21, "violation", "d", says="Lost: 7"),
        run(21, "violation", "e", says="planted and found", bug="M17"),
        run(20, "violation", "f", says="not of this day"),
    ]
    found = matrix(rows, {})
    assert [line.workload for line in found.lines] == ["d", "c", "b", "a", "e", "f"]
    said = [(each.row.says, each.runs) for each in found.findings]
    assert said == [("Lost: 7", 2), ("no node came up", 1), ("too few ops", 1), ("planted and found", 1)]
    assert found.columns == [Column("etcd", "local", False), Column("etcd", "local", True)]
    assert found.counts == [("violation", 3), ("harness error", 1), ("inconclusive", 1), ("pass", 1)]


def query_of(found: Cell) -> Mapping[str, str]:
    return dict(parse_qsl(found.query))


def test_a_cell_leads_to_just_its_runs() -> None:
    mine = run(21, "violation", nemesis="kill")
    others = [
        run(21, "pass", nemesis="kill,partition"),
        run(21, "pass", workload="register"),
        run(21, "pass", system="metadata"),
        run(21, "pass", backend="sim"),
        run(21, "pass", bug="M17"),
        run(20, "pass"),
    ]
    bare = run(21, "pass", nemesis="")
    rows = [mine, *others, bare]
    found = matrix(rows, {})
    column = found.columns.index(Column("etcd", "local", False))
    assert choose(rows, parse(query_of(cell(found, column=column)))).rows == [mine]
    assert choose(rows, parse(query_of(cell(found, nemesis="none", column=column)))).rows == [bare]
    column = found.columns.index(Column("etcd", "local", True))
    assert choose(rows, parse(query_of(cell(found, column=column)))).rows == [others[4]]


def test_what_does_not_fit_is_counted() -> None:
    rows = [run(21, "violation", f"w{i}", system=f"s{i % 30:02d}", says=f"Lost: {i}") for i in range(LINES_MAX + 7)]
    found = matrix([*rows, Row(test="x", run="1", state="damaged"), run(21, "pass", workload="")], {})
    assert (len(found.lines), found.more_lines) == (LINES_MAX, 7)
    assert (len(found.columns), found.more_columns) == (COLUMNS_MAX, 10)
    assert (len(found.findings), found.more_findings) == (FINDINGS_MAX, LINES_MAX + 7 - FINDINGS_MAX)
    assert found.unplaced == 2


@pytest.mark.parametrize("query", [{"days": "2"}, {"days": "x" * 100}, {"until": "2026-13-01"}, {"until": "<b>"}])
def test_days_that_cannot_be_are_refused(tmp_path: Path, query: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        matrix([], query)
    assert get(tmp_path, "/matrix", **query).status == 400


@pytest.mark.parametrize("until", ["0001-01-01", "9999-12-31"])
def test_the_ends_of_the_calendar_are_days_without_runs(tmp_path: Path, until: str) -> None:
    bare_run(tmp_path, "t", 1, {"workload": "set"})
    for days in ("1", "30"):
        page = get(tmp_path, "/matrix", until=until, days=days)
        assert (page.status, "no runs" in text(page)) == (200, True)


@pytest.mark.slow
def test_the_page_and_the_api_show_the_store(tmp_path: Path) -> None:
    assert "This store has no run yet" in text(get(tmp_path, "/matrix"))
    small_run(tmp_path, "violation")
    small_run(tmp_path, "pass", seed=8)
    page = text(get(tmp_path, "/matrix"))
    for words in ("partition,kill,pause", "bugs planted", "Lost: element", ">violation</a>", "planted: M17"):
        assert words in page, words
    found = document(get(tmp_path, "/api/matrix"))
    assert found["columns"] == [
        {"system": "metadata", "backend": "local", "planted": False},
        {"system": "metadata", "backend": "local", "planted": True},
    ]
    assert found["lines"][0]["cells"][1]["state"] == "violation"
    assert get(tmp_path, "/matrix/x").status == 404


def test_hostile_names_are_text(tmp_path: Path) -> None:
    hostile = small_run(tmp_path, "violation", hostile=HOSTILE)
    options = dict.fromkeys(("workload", "nemesis", "system", "backend", "bug"), HOSTILE)
    hostile.write_test(hostile.read_test() | {"options": options})
    page = text(get(tmp_path, "/matrix"))
    assert "&lt;script&gt;" in page
    assert "<script>document" not in page
    assert "<img" not in page
    assert "\u202e" not in page
    assert document(get(tmp_path, "/api/matrix"))["lines"][0]["workload"] == HOSTILE

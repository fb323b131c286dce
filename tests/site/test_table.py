"""The table of runs: what each state shows as, filters, order, pages, and a thousand runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from splitbrain.checkers.verdict import Verdict
from splitbrain.results.errors import UsageError
from splitbrain.results.site import rows as rows_module
from splitbrain.results.site.rows import Index, Row
from splitbrain.results.site.selection import Selection, choices, choose, parse
from splitbrain.results.site.trends import trends
from tests.site.support import bare_run, body, document, get, small_run, text


@pytest.mark.slow
def test_every_state_of_a_run_is_a_row_that_says_so(tmp_path: Path) -> None:
    expected = {
        small_run(tmp_path, "pass", seed=1).name: "pass",
        small_run(tmp_path, "violation", seed=2).name: "violation",
        small_run(tmp_path, "inconclusive", seed=3).name: "inconclusive",
        small_run(tmp_path, "harness error", seed=4).name: "harness error",
        small_run(tmp_path, "unjudged", seed=5).name: "recorded",
        small_run(tmp_path, "no history", seed=6).name: "empty",
    }
    running = bare_run(tmp_path, "slow", 7, {}, held=True)
    crashed = bare_run(tmp_path, "dead", 8, {})
    crashed.history_writer().close()
    torn = small_run(tmp_path, seed=9)
    (torn.path / "verdict.json").write_text('{"outcome": "pa')
    newer = small_run(tmp_path, seed=10)
    (newer.path / "test.json").write_text('{"format": 99}')
    empty = tmp_path / "test=x" / "run=half"
    empty.mkdir(parents=True)
    (tmp_path / "test=x" / ".creating-1").mkdir()
    expected |= {running.name: "running", crashed.name: "crashed", torn.name: "damaged", newer.name: "damaged"}
    found = {row.run: row for row in Index(tmp_path).rows()}
    running.release()
    assert {name: row.state for name, row in found.items()} == {**expected, "half": "damaged"}
    assert "format 99" in found[newer.name].says
    assert "Lost: element" in next(row.says for row in found.values() if row.state == "violation")
    assert "node n3 did not come up" in next(row.says for row in found.values() if row.state == "harness error")


def test_a_row_follows_its_files(tmp_path: Path) -> None:
    index = Index(tmp_path / "store")
    assert index.rows() == []  # a store need not exist yet
    run = bare_run(tmp_path / "store", "a", 1, {}, held=True)
    assert [row.state for row in index.rows()] == ["running"]
    writer = run.history_writer()
    writer.close()
    run.release()
    assert [row.state for row in index.rows()] == ["crashed"]
    run.write_verdicts([], "pass")
    assert [row.state for row in index.rows()] == ["pass"]
    run.write_verdicts([], "violation")
    assert [row.state for row in index.rows()] == ["violation"]
    shutil.rmtree(run.path)
    assert index.rows() == []


def test_a_judged_run_that_somebody_holds_again_is_under_way(tmp_path: Path) -> None:
    run, index = small_run(tmp_path), Index(tmp_path)
    assert [row.state for row in index.rows()] == ["pass"]
    run.hold()  # no file changes
    assert [row.state for row in index.rows()] == ["running"]
    run.release()
    assert [row.state for row in index.rows()] == ["pass"]


def test_a_run_that_ends_without_a_trace_is_under_way_no_more(tmp_path: Path) -> None:
    run, index = bare_run(tmp_path, "a", 1, {}, held=True), Index(tmp_path)
    assert [row.state for row in index.rows()] == ["running"]
    run.release()
    assert [row.state for row in index.rows()] == ["empty"]


def test_a_file_that_did_not_change_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = small_run(tmp_path, seed=1), small_run(tmp_path, seed=2)
    index, reads = Index(tmp_path), list[tuple[str, ...]]()
    before = index.rows()

    def counted(root: Path, parts: tuple[str, ...]) -> bytes:
        reads.append(parts)
        return (root.joinpath(*parts)).read_bytes()

    monkeypatch.setattr(rows_module, "read", counted)
    assert index.rows() == before
    assert reads == []
    second.write_verdicts([], "pass")
    assert [row.run for row in index.rows()] == [second.name, first.name]
    assert {parts[1] for parts in reads} == {second.path.name}


ROWS = [
    Row(
        test="a",
        run="4",
        state="pass",
        workload="register",
        nemesis="kill,partition:2",
        system="etcd",
        ok_per_s=3.0,
        start="2026-11-21T23:59:59.999+00:00",
    ),
    Row(
        test="a",
        run="3",
        state="violation",
        workload="set",
        nemesis="kill",
        system="metadata",
        backend="sim",
        bug="M17,M18",
        says="Lost: 7",
        start="2026-11-20T00:00:00.000+00:00",
    ),
    Row(test="b", run="2", state="damaged", backend="local"),
    Row(test="b", run="1", state="pass", workload="register", nemesis="partition-ring", system="etcd", ok_per_s=9.0),
]


@pytest.mark.parametrize(
    ("query", "runs"),
    [
        ({}, "4321"),
        ({"outcome": "pass"}, "41"),
        ({"workload": "set"}, "3"),
        ({"nemesis": "partition"}, "4"),
        ({"nemesis": "kill"}, "43"),
        ({"nemeses": "kill"}, "3"),
        ({"nemeses": "kill,partition:2"}, "4"),
        ({"nemeses": "none"}, "2"),
        ({"backend": "sim"}, "3"),
        ({"bug": "any"}, "3"),
        ({"bug": "none"}, "421"),
        ({"bug": "M17,M18"}, "3"),
        ({"bug": "M17"}, ""),
        ({"since": "2026-11-21"}, "4"),
        ({"until": "2026-11-20"}, "3"),
        ({"since": "2026-11-20", "until": "2026-11-21"}, "43"),
        ({"system": "etcd", "test": "b"}, "1"),
        ({"text": "LOST 7"}, "3"),
        ({"text": "nothing like this"}, ""),
        ({"sort": "rate"}, "1432"),
        ({"sort": "rate", "down": "0"}, "4132"),
        ({"sort": "outcome", "down": "0"}, "3412"),
        ({"sort": "start", "down": "0"}, "1234"),
    ],
)
def test_rows_are_chosen_and_ordered_as_asked(query: dict[str, str], runs: str) -> None:
    found = choose(ROWS, parse(query))
    assert "".join(row.run for row in found.rows) == runs
    assert (found.matching, found.total) == (len(runs), 4)


def test_a_page_beyond_the_last_is_the_last(tmp_path: Path) -> None:
    found = choose(ROWS, parse({"page": "9"}), per_page=3)
    assert ([row.run for row in found.rows], found.page, found.pages) == (["1"], 2, 2)


@pytest.mark.parametrize(
    "query",
    [
        {"sort": "password"},
        {"page": "-1"},
        {"page": "1e9"},
        {"page": "\u0663"},
        {"since": "yesterday"},
        {"until": "2026-02-30"},
        {"until": "2026-W01-1"},
    ],
)
def test_an_order_a_page_or_a_day_that_cannot_be_is_refused(tmp_path: Path, query: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        parse(query)
    assert get(tmp_path, "/", **query).status == 400


def test_filters_offer_what_the_store_has() -> None:
    assert choices(ROWS) == {
        "outcome": ["violation", "pass", "damaged"],
        "workload": ["register", "set"],
        "nemesis": ["kill", "partition", "partition-ring"],
        "system": ["etcd", "metadata"],
        "backend": ["local", "sim"],
        "test": ["a", "b"],
    }


def test_figures_of_a_test_are_drawn_oldest_first_and_what_has_none_is_left_out() -> None:
    runs = [
        Row(test="a", run="3", state="pass", ok_per_s=30.0, leader_changes=1),
        Row(test="a", run="1", state="pass", ok_per_s=10.0),
        Row(test="a", run="2", state="violation", ok_per_s=20.0),
        Row(test="a", run="4", state="running"),
    ]
    [trend] = trends(runs)  # only one run has leader changes: no picture
    assert (trend.name, trend.low, trend.high) == ("ok/s", 10.0, 30.0)
    assert [dot.row.run for dot in trend.dots] == ["1", "2", "3"]
    assert [dot.y for dot in trend.dots] == sorted((dot.y for dot in trend.dots), reverse=True)
    assert trends(runs[:1]) == []


@pytest.mark.slow
def test_trends_are_shown_for_one_test_only(tmp_path: Path) -> None:
    small_run(tmp_path, seed=1)
    small_run(tmp_path, seed=2)
    assert "latency p99, ms" in text(get(tmp_path, "/", test="metadata-set"))
    assert "latency p99, ms" not in text(get(tmp_path, "/"))


def test_a_sentence_of_a_megabyte_does_not_fill_the_table(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    run.write_verdicts([Verdict(checker="set", valid="false", sentence="x" * 1_000_000)], "violation")
    assert len(text(get(tmp_path, "/"))) < 20_000
    assert len(body(get(tmp_path, "/api/runs"))) < 20_000
    assert len(text(get(tmp_path, f"/run/{run.test_name}/{run.name}"))) < 30_000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["test.json", "verdict.json"])
def test_a_file_that_nests_without_end_costs_one_row(tmp_path: Path, name: str) -> None:
    whole, damaged = small_run(tmp_path, seed=1), small_run(tmp_path, seed=2)
    (damaged.path / name).write_text('{"outcome": "pass", "options": {"a": ' + "[" * 100_000)
    found = {row.run: row.state for row in Index(tmp_path).rows()}
    assert found == {whole.name: "pass", damaged.name: "damaged"}


def test_links_keep_the_filters() -> None:
    query = parse({"text": "a&b=c", "outcome": "pass"}).query(page=2)
    assert "text=a%26b%3Dc" in query
    assert "page=2" in query
    assert Selection().query(down=False) == "down=0"


@pytest.mark.slow
def test_a_thousand_runs_are_listed_and_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = small_run(tmp_path / "one")
    for number in range(1000):
        folder = tmp_path / "store" / f"test=t{number % 7}" / f"run=20261121T000000.{number:03d}Z-{number}"
        folder.mkdir(parents=True)
        for name in ("test.json", "verdict.json", "figures.json"):
            (folder / name).hardlink_to(run.path / name)
    index = Index(tmp_path / "store")
    assert len(index.rows()) == 1000

    def refuse(*_: object) -> bytes:
        raise AssertionError("a file was read again")

    monkeypatch.setattr(rows_module, "read", refuse)
    found = choose(index.rows(), parse({"page": "10", "sort": "test", "down": "0"}))
    assert (len(found.rows), found.pages, found.rows[-1].test) == (100, 10, "t6")


def test_the_api_gives_all_rows_with_their_figures(tmp_path: Path) -> None:
    run = small_run(tmp_path, "violation")
    found = document(get(tmp_path, "/api/runs", outcome="violation"))
    assert (found["total"], found["matching"]) == (1, 1)
    [row] = found["runs"]
    assert (row["run"], row["state"], row["workload"]) == (run.name, "violation", "set")
    assert row["ok_per_s"] > 0
    assert row["p99_ms"] > 0
    assert document(get(tmp_path, "/api/runs", outcome="pass"))["runs"] == []


def test_a_page_that_did_not_change_is_not_sent_again(tmp_path: Path) -> None:
    from splitbrain.results.site.messages import Request
    from splitbrain.results.site.routes import Site

    run, site = small_run(tmp_path), Site(tmp_path, None)
    first = site.respond(Request())
    again = site.respond(Request(if_none_match=first.headers["ETag"]))
    assert (again.status, body(again)) == (304, b"")
    run.write_verdicts([], "violation")
    assert site.respond(Request(if_none_match=first.headers["ETag"])).status == 200


def test_a_store_without_runs_says_so(tmp_path: Path) -> None:
    assert "This store has no run yet" in text(get(tmp_path / "none", "/"))


def test_a_row_says_what_its_leading_signature_stands_for(tmp_path: Path) -> None:
    folder = tmp_path / "test=a" / "run=1"
    folder.mkdir(parents=True)
    (folder / "test.json").write_text('{"name": "a", "seed": 1}')
    verdicts = [
        {"checker": "linearizable", "valid": False, "sentence": "Not linearizable."},
        {"checker": "read-majority", "valid": False, "sentence": "A read had no majority."},
    ]
    signatures = ["read-majority/read-without-majority/leader/none", "linearizable/nonlinearizable/read/none"]
    document = {"outcome": "violation", "verdicts": verdicts, "signatures": signatures}
    (folder / "verdict.json").write_text(json.dumps(document))
    [row] = Index(tmp_path).rows()
    assert (row.state, row.says) == ("violation", "A read had no majority.")

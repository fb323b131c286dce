from __future__ import annotations

import base64
import hashlib
import re
import shutil
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from splitbrain.results.arrow import from_table
from splitbrain.results.errors import HistoryFormatError, RunNotFoundError, StoreVersionError
from splitbrain.results.findings import findings_of, op_indexes
from splitbrain.results.history import NEMESIS, Op, OpType
from splitbrain.results.report import write_report
from splitbrain.results.report.lanes import Leadership, leaderships, node_states
from splitbrain.results.report.run_view import load
from splitbrain.results.store import Store
from tests.report.sample import START_WALL_NS, State, sample_run

VOID = {"meta", "br", "link", "img", "hr", "input"}


class Page(HTMLParser):
    """A page, read back: its text, its tags, and whether every tag that was opened is closed in order."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.by_tag: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(self.source)
        assert self.open == []
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID and not self.get_starttag_text().endswith("/>"):  # type: ignore[union-attr]
            self.open.append(tag)
            self.by_tag.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["style"], ["script"]):
            self.text += f" {data}"
        if self.open:
            self.by_tag[self.open[-1]][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def report(root: Path, state: State = "pass", **options: Any) -> Page:
    return Page(write_report(sample_run(root, state, **options).path))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "kind", "title", "sentence"),
    [
        ("pass", "pass", "Pass", "Linearizable: 5 reads hold every one of"),
        ("violation", "violation", "Violation", "Lost: element"),
        ("inconclusive", "inconclusive", "Inconclusive", "ok ops of 'add'; at least 1000000 are needed"),
        ("harness error", "harness-error", "Harness error", "node n3 did not come up: address already in use"),
        ("unjudged", "unfinished", "Not judged", "splitbrain analyze"),
    ],
)
def test_the_banner_tells_the_outcome_in_a_colour_of_its_own(
    tmp_path: Path, state: State, kind: str, title: str, sentence: str
) -> None:
    page = report(tmp_path, state)
    (banner,) = page.all("header")
    assert banner["class"] == f"banner {kind}"
    assert page.by_tag["h1"] == [title]
    head = page.text[: page.text.index("Seed 7")]
    assert sentence in head
    colours = dict(re.findall(r"--(pass|violation|inconclusive|harness-error|unfinished): (#\w+)", page.source))
    assert len({*colours.values()}) == 5


@pytest.mark.slow
def test_the_witness_table_holds_the_ops_that_the_evidence_names(tmp_path: Path) -> None:
    run = sample_run(tmp_path, "violation")
    page = Page(write_report(run.path))
    view = load(run.path)
    (verdict,) = [v for v in view.judgement.verdicts if v["valid"] is False] if view.judgement else []
    element, (acknowledged, read) = verdict["evidence"]["element"], verdict["evidence"]["ops"]
    times = {row["index"]: row["time"] for row in view.history.select(["index", "time"]).to_pylist()}
    rows = {row["id"] for row in page.all("tr") if str(row.get("id")).startswith("op-")}
    marks = {mark["href"] for mark in page.all("a") if str(mark["href"]).startswith("#op-")}
    assert len(rows) == 2
    shown = {f"#op-{op}" for finding in findings_of(verdict["evidence"]) for op in finding.ops}
    assert {f"#{row}" for row in rows} <= marks
    assert shown
    assert shown <= marks <= shown | {f"#{row}" for row in rows}
    for wanted in (f"{times[acknowledged] / 1e9:.3f} s", f"{times[read] / 1e9:.3f} s", str(acknowledged)):
        assert wanted in page.text
    assert f"add {element} {element} ok" in page.text


@pytest.mark.slow
def test_faults_are_listed_with_target_evidence_and_what_was_in_force(tmp_path: Path) -> None:
    page = report(tmp_path)
    for words in (
        "start-partition",
        "isolate-leader",
        "n4 | n1 n2 n3 n5",
        "8 links cut",
        '{"links_blocked": 8}',
        "down: n2",
        "paused: n5",
        "stop-partition",
        '{"dropped": 412, "links_open": 20}',
    ):
        assert words in page.text, words


def test_the_page_needs_nothing_from_outside_and_runs_its_own_script_only(tmp_path: Path) -> None:
    page = report(tmp_path, "violation")
    assert not page.all("link")
    assert "@import" not in page.source
    assert "url(" not in page.source
    assert not [attributes for _, attributes in page.tags if "src" in attributes]
    links = [str(a["href"]) for a in page.all("a")]
    assert links
    assert not [link for link in links if ":" in link or link.startswith("/")]
    assert page.all("script") == [{"type": "application/json", "id": "data"}, {}]
    (policy,) = [str(meta["content"]) for meta in page.all("meta") if meta.get("http-equiv")]
    digest = base64.b64encode(hashlib.sha256(page.by_tag["script"][1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


@pytest.mark.slow
def test_every_table_has_a_caption_and_every_picture_a_description(tmp_path: Path) -> None:
    page = report(tmp_path, "violation")
    assert len(page.all("table")) == len(page.all("caption"))
    pictures = [svg for svg in page.all("svg") if svg.get("class") == "plot"]
    first = ["timeline", "availability", "recovery", "rate", "latency", "quantiles"]
    assert [svg["id"] for svg in pictures][: len(first)] == first
    assert [svg["role"] for svg in pictures] == ["group"] + ["img"] * (len(pictures) - 1)
    assert all(svg["aria-labelledby"] for svg in pictures)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert all(section["aria-labelledby"] in ids for section in page.all("section"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "hostile",
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "]]></style></svg><script>x</script>",
        "{{ 7 * 7 }}{% raw %}",
        "a\x00b\x1b[31m\u202egnp",
        "x" * 300_000,
        "\ud7ff\uffff\U0001f4a3 &amp; '",
    ],
    ids=["script", "attribute", "svg", "template", "control", "huge", "unicode"],
)
def test_hostile_values_show_as_text_and_break_nothing(tmp_path: Path, hostile: str) -> None:
    run = sample_run(tmp_path, "violation", seconds=8, rate=50, hostile=hostile)
    page = Page(write_report(run.path))
    assert len(page.all("script")) == 2
    assert not page.all("img")
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", page.source)
    assert len(page.source) < 1_000_000
    assert len(page.all("table")) == len(page.all("caption"))
    if len(hostile) < 100 and hostile.isprintable():
        assert " ".join(hostile.split()) in page.text
    if len(hostile) > 1000:
        assert "(300,000 characters)" in page.text
    for plot in (run.path / "plots").glob("*.svg"):
        ET.parse(plot)


def test_a_nemesis_that_tells_its_state_in_another_shape_breaks_nothing(tmp_path: Path) -> None:
    run = Store(tmp_path).create("t", 1, {"nodes": ["n1"]}, 10**18)
    writer = run.history_writer()
    told = {"fault": "kill", "action": "start", "target": "n1", "down": 1, "cut": None, "paused": "n1"}
    ends: tuple[OpType, ...] = ("invoke", "info")
    for index, how in enumerate(ends):
        writer.record(Op(index=index, time=index, process=NEMESIS, type=how, f="kill", value=told))
    run.finish_history()
    run.release()
    assert "nothing in force" in write_report(run.path).read_text()


@pytest.mark.slow
def test_plots_are_also_files_that_stand_by_themselves(tmp_path: Path) -> None:
    run = sample_run(tmp_path)
    write_report(run.path)
    for name in ("timeline", "rate", "latency", "availability", "recovery"):
        root = ET.parse(run.path / "plots" / f"{name}.svg").getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "--ok" in str(root.findtext("{http://www.w3.org/2000/svg}style"))


def test_a_run_without_a_history_gets_a_page_that_says_so(tmp_path: Path) -> None:
    page = report(tmp_path, "no history")
    assert "This run has no history: nothing was recorded." in page.text
    assert "No client op was recorded." in page.text
    assert not [svg for svg in page.all("svg") if svg.get("class") == "plot"]


def test_a_run_under_way_is_shown_as_such_with_the_ops_so_far(tmp_path: Path) -> None:
    source = sample_run(tmp_path / "a", "unjudged", seconds=3, rate=50)
    run = Store(tmp_path / "b").create("half", 1, {"nodes": ["n1"]}, START_WALL_NS)
    writer = run.history_writer()
    recorded = from_table(source.history())[:101]
    for op in recorded:
        writer.record(op)
    writer.flush()
    page = Page(write_report(run.path))
    assert page.by_tag["h1"] == ["Under way"]
    ops = sum(op.process >= 0 and op.type == "invoke" for op in recorded)
    assert f"recovered {ops} ops (101 rows) from the write-ahead file" in page.text
    killed = shutil.copytree(run.path, tmp_path / "c" / run.path.parent.name / run.path.name)
    writer.close()
    run.release()
    page = Page(write_report(killed))
    assert page.by_tag["h1"] == ["Half written"]
    assert "The controller of this run ended before the run did" in page.text


def test_a_damaged_history_is_told_not_guessed(tmp_path: Path) -> None:
    run = sample_run(tmp_path)
    run.history_path.write_bytes(run.history_path.read_bytes()[:1000])
    page = Page(write_report(run.path))
    assert "The history cannot be read" in page.text
    assert page.by_tag["h1"] == ["Pass"]


def test_what_is_no_run_or_too_new_is_refused_and_left_alone(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError):
        write_report(tmp_path)
    run = sample_run(tmp_path)
    verdict = run.path / "verdict.json"
    verdict.write_text('{"format": 99}')
    with pytest.raises(StoreVersionError):
        write_report(run.path)
    verdict.write_text("{")
    with pytest.raises(HistoryFormatError, match=r"verdict\.json"):
        write_report(run.path)
    assert not (run.path / "report.html").exists()


@pytest.mark.slow
def test_a_hundred_thousand_ops_stay_below_five_megabytes_and_the_page_says_what_it_left_out(tmp_path: Path) -> None:
    run = sample_run(tmp_path, "unjudged", seconds=220, rate=600)
    page = Page(write_report(run.path))
    total = int(re.search(r"draws ([\d,]+) of ([\d,]+) ops", page.text).group(2).replace(",", ""))  # type: ignore[union-attr]
    assert total > 100_000
    assert len(page.source) < 5_000_000


@pytest.mark.slow
def test_the_command_that_repeats_the_run_is_given(tmp_path: Path) -> None:
    page = report(tmp_path, "violation")
    (command,) = [text for text in page.by_tag["pre"] if text.startswith("splitbrain run")]
    assert "--workload set" in command
    assert "--bug M17" in command
    assert "--seed 7" in command


@pytest.mark.slow
def test_what_ran_is_told_down_to_sources_and_image(tmp_path: Path) -> None:
    run = sample_run(tmp_path)
    image = {"tag": "system:1", "id": "sha256:0123abcd"}
    run.write_test({**run.read_test(), "git": {"revision": "f00d", "dirty": True}, "image": image})
    page = Page(write_report(run.path))
    assert "sources of splitbrain f00d with local changes" in page.text
    assert "image of the system system:1 = sha256:0123abcd" in page.text
    assert "splitbrain replay" not in page.text
    run.plan_path.write_text("{}")
    assert "splitbrain replay plan.json --times 5" in Page(write_report(run.path)).text


@pytest.mark.slow
def test_leadership_ends_where_the_leader_was_killed_or_told_otherwise(tmp_path: Path) -> None:
    run = sample_run(tmp_path)
    rows: list[dict[str, Any]] = [
        {"time": 1_000_000_000, "node": "n2", "life": 1, "event": "role", "term": 3, "role": "leader"},
        {"time": 2_000_000_000, "node": "n2", "life": 1, "event": "commit", "term": 3, "role": "leader"},
        {"time": 30_000_000_000, "node": "n2", "life": 2, "event": "start", "term": 3, "role": "follower"},
        {"time": 3_000_000_000, "node": "n3", "life": 1, "event": "role", "term": 4, "role": "leader"},
        {"time": 4_000_000_000, "node": "n3", "life": 1, "event": "role", "term": 6, "role": "leader"},
        {"time": 5_000_000_000, "node": "n3", "life": 1, "event": "role", "term": 6, "role": "follower"},
    ]
    run.write_telemetry(pa.Table.from_pylist(rows, schema=run.telemetry().schema))
    assert leaderships(load(run.path)) == [
        Leadership("n2", 1.0, 16.06, 3),
        Leadership("n3", 3.0, 4.0, 4),
        Leadership("n3", 4.0, 5.0, 6),
    ]


@pytest.mark.slow
def test_leaders_of_several_groups_are_told_apart(tmp_path: Path) -> None:
    run = sample_run(tmp_path)
    rows: list[dict[str, Any]] = [
        {"time": 1_000_000_000, "node": "n2", "life": 1, "event": "role", "term": 1, "role": "leader", "group": group}
        for group in ("queue.1", "metadata")
    ]
    run.write_telemetry(pa.Table.from_pylist(rows, schema=run.telemetry().schema))
    leading = leaderships(load(run.path))
    assert [(each.group, each.row) for each in leading] == [("metadata", 0), ("queue.1", 1)]
    page = write_report(run.path).read_text()
    assert "n2 leads queue.1 in term 1 (" in page
    assert "led metadata in term 1, until" in page
    assert "of each of 2 groups, one above the other: metadata, queue.1;" in page


def test_states_of_nodes_follow_from_what_the_nemesis_did(tmp_path: Path) -> None:
    states = node_states(load(sample_run(tmp_path).path))
    assert [tuple(state) for state in states] == [
        ("n4", 6.06, 10.06, "cut off"),
        ("n2", 16.06, 20.06, "down"),
        ("n5", 23.06, 26.06, "paused"),
    ]


@pytest.mark.parametrize(
    ("evidence", "indexes"),
    [
        ({"ops": [3, 5, 3]}, [3, 5]),
        ({"witness": [{"index": 9}, {"index": 7}], "ops": [1]}, [9, 7]),
        ({"prefix": 100, "op": {"index": 8, "value": {"index": "no"}}, "pending": [{"index": 2}]}, [8, 2]),
        ({"ops": [], "states": [1, 4]}, []),
        (None, []),
        (
            {"failing_op": {"invoked_index": 9}, "witness": {"ops": [{"invoked_index": 4}, {"invoked_index": 9}]}},
            [4, 9],
        ),
        ({"failing_op": {"invoked_index": 9}, "witness": None, "window": [{"invoked_index": 2}]}, [2, 9]),
    ],
)
def test_the_ops_that_evidence_names_are_found_in_every_shape(evidence: Any, indexes: list[int]) -> None:
    assert op_indexes(evidence) == indexes


@pytest.mark.slow
def test_coverage_marks_are_listed_with_their_zeros_where_they_were_counted(tmp_path: Path) -> None:
    run = sample_run(tmp_path)
    assert "Coverage marks" not in Page(write_report(run.path)).text
    run.write_marks({"leader isolated": 1234, "<b>snapshot</b> installed": 0, "nobody to strike": 7})
    page = Page(write_report(run.path))
    assert "Coverage marks: 2 of 3 reached" in page.text
    assert "<b>snapshot</b> installed 0 leader isolated 1,234 nobody to strike 7" in page.text, "an old name, too"
    run.marks_path.write_text("[]")
    assert "The coverage marks cannot be read" in Page(write_report(run.path)).text

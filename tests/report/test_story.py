"""Members that come and go are marked, and all that the timeline shows is told in a table as well."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from splitbrain.results.arrow import TELEMETRY_SCHEMA
from splitbrain.results.findings import Finding
from splitbrain.results.history import HARNESS, NEMESIS, Op
from splitbrain.results.report import write_report
from splitbrain.results.report.fault_rows import evidence_words, fault_rows
from splitbrain.results.report.memberships import member_changes
from splitbrain.results.report.run_view import load
from splitbrain.results.report.story import EVENTS_MAX, story
from splitbrain.results.report.timeline import Shown
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store
from tests.report.sample import sample_run

START_NS = 1_760_000_000_000_000_000
WHOLE = ["n1", "n2", "n3"]


def change(time_s: float, f: str, target: str, **more: Any) -> list[Op]:
    action = "start" if f == "leave" else "stop"
    asked = {"fault": "membership", "action": action}
    done: dict[str, Any] = {**asked, "target": target, "cut": [], "down": [], "paused": [], **more}
    return [
        Op(process=NEMESIS, type="invoke", f=f, value=asked, time=round(time_s * 1e9)),
        Op(process=NEMESIS, type="ok", f=f, value=done, time=round((time_s + 0.5) * 1e9)),
    ]


def phase(time_s: float, name: str) -> Op:
    return Op(process=HARNESS, type="info", f="phase", value={"phase": name}, time=round(time_s * 1e9))


def recorded(root: Path, ops: list[Op], told: Sequence[tuple[float, str, list[str] | None]] = ()) -> RunDir:
    run = Store(root).create("members", 1, {"nodes": WHOLE}, START_NS)
    writer = run.history_writer()
    for number, op in enumerate(ops):
        writer.record(Op(index=number, time=op.time, process=op.process, type=op.type, f=op.f, value=op.value))
    run.finish_history()
    rows = [
        {"time": round(at * 1e9), "node": node, "group": "g", "life": 1, "event": "role", "voters": voters}
        for at, node, voters in told
    ]
    run.write_telemetry(pa.Table.from_pylist(rows, schema=TELEMETRY_SCHEMA))
    run.release()
    return run


def test_who_left_joined_and_took_on_other_voters_is_marked_on_the_timeline_at_that_time(tmp_path: Path) -> None:
    ops = [
        phase(0, "faults"),
        *change(1, "leave", "n2", down=["n2"]),
        *change(3, "leave", "none: n2 is still out"),
        *change(4, "join", "n2"),
        phase(6, "final"),
    ]
    told = [(0.0, "n1", WHOLE), (0.1, "n1", WHOLE), (1.2, "n1", ["n3", "n1"]), (1.3, "n1", None), (4.4, "n1", WHOLE)]
    run = recorded(tmp_path, ops, told)
    assert [tuple(found) for found in member_changes(load(run.path))] == [
        ("n1", 1.2, "voters", "n1 changed to the voters n1, n3"),
        ("n2", 1.5, "left", "n2 left the cluster"),
        ("n1", 4.4, "voters", "n1 changed to the voters n1, n2, n3"),
        ("n2", 4.5, "joined", "n2 joined the cluster as a new member"),
    ]
    page = write_report(run.path).read_text()
    assert page.count('class="member member-voters"') == 2
    assert "n2 left the cluster at 1.500 s" in page
    assert "joined, or changed its voters" in page


@pytest.mark.slow
def test_a_run_whose_members_never_change_has_no_mark_and_no_key_of_it(tmp_path: Path) -> None:
    page = write_report(sample_run(tmp_path).path).read_text()
    assert 'class="member' not in page


def test_a_quiet_phase_after_the_final_reads_is_shown_like_the_others(tmp_path: Path) -> None:
    run = recorded(
        tmp_path,
        [
            phase(0, "faults"),
            phase(3, "heal"),
            phase(4, "final"),
            phase(5, "quiet"),
            Op(process=HARNESS, type="info", f="interrupted", time=8 * 10**9),
        ],
    )
    page = write_report(run.path).read_text()
    assert "quiet" in re.findall(r"<text[^>]*>([^<]*)</text>", page)
    assert "phase quiet begins" in page


def test_the_table_tells_what_the_picture_shows_by_time(tmp_path: Path) -> None:
    view = load(sample_run(tmp_path, "wrong side").path)
    index = int(view.history["index"][100].as_py())
    at_s = view.history["time"][100].as_py() / 1e9
    events, more = story(view, Shown(findings=[Finding("Q2", "n4 answered.", [index], [])]))
    assert more == 0
    assert [event.time_s for event in events] == sorted(event.time_s for event in events)
    told = {(round(event.time_s, 3), event.who, event.words) for event in events}
    assert {
        (0.0, "", "phase faults begins"),
        (0.0, "n4", "led in term 4, until 8.000 s"),
        (6.06, "", "partition begins: n4 | n1 n2 n3 n5"),
        (6.06, "n4", "could not reach a majority, until 10.060 s"),
        (10.0, "", "partition ends: n4 | n1 n2 n3 n5"),
        (23.06, "n5", "was paused, until 26.060 s"),
        (round(at_s, 3), "", "Q2: n4 answered."),
    } <= told


def test_a_table_that_would_be_too_long_ends_early_and_the_page_says_so(tmp_path: Path) -> None:
    ops = [op for number in range(EVENTS_MAX // 2 + 1) for op in change(number, "leave", "n2", over=True)]
    run = recorded(tmp_path, ops)
    events, more = story(load(run.path), Shown())
    assert len(events) == EVENTS_MAX
    assert more > 0
    assert f"The table of the timeline ends before the last {more:,} events." in write_report(run.path).read_text()


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        ({"links_blocked": 8, "leader": "n5", "by_link": [["n1", "n2", 3]]}, "links blocked 8; leader n5"),
        (
            {"bit": True, "n2": {"bit": False, "after": {"state": "T"}}},
            "effect seen; n2 no effect seen; n2 after state T",
        ),
        ({"synced": True, "pid": None}, "synced yes"),
        ({str(i): i for i in range(11)}, "; ".join(f"{i} {i}" for i in range(8)) + "; 3 more"),
        ({"a": {"b": {"c": {"d": 1}}}}, ""),
        ([1, 2], ""),
        (None, ""),
    ],
)
def test_evidence_is_told_in_words_as_far_as_it_is_plain(evidence: Any, words: str) -> None:
    assert evidence_words(evidence) == words


def test_a_fault_without_a_completion_is_not_verified_and_has_no_duration(tmp_path: Path) -> None:
    (row,) = fault_rows(load(recorded(tmp_path, change(1, "leave", "n2")[:1]).path))
    assert (row["verified"], row["took_s"], row["error"]) == (False, None, "it was never completed")

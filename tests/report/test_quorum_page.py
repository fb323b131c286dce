"""What quorum progress found is on the page: unserved spans, violations with their ops, availability and recovery."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from splitbrain.checkers.quorum.checker import QuorumProgress
from splitbrain.results.findings import Finding
from splitbrain.results.report import write_report
from splitbrain.results.report.lanes import Stretch, leaderships
from splitbrain.results.report.quorum import Asked, Figures, QuorumWindow, quorum_of, unserved
from splitbrain.results.report.quorum_plots import RECOVERIES_MAX, drawn_recoveries, recovery_plot
from splitbrain.results.report.quorum_windows import WINDOWS_MAX, window_rows
from splitbrain.results.report.run_view import load
from splitbrain.results.store import Store
from tests.cli.support import splitbrain
from tests.report.sample import sample_run


def test_spans_in_which_a_node_must_not_answer_are_drawn_and_a_node_without_a_quorum_anywhere_apart() -> None:
    asked: Any = {"n1": {}, "n2": {}}
    figures = Figures(
        windows=[
            QuorumWindow(0.0, 1.0, ["n1", "n2"], ["n1"], nodes=asked),
            QuorumWindow(1.0, 2.0, ["n1"], ["n1"], nodes=asked),
            QuorumWindow(2.0, 3.0, ["n1"], ["n1"], nodes=asked),
            QuorumWindow(3.5, 4.0, [], [], nodes=asked),
        ]
    )
    assert unserved(figures, ["n1", "n2", "stranger"]) == [
        Stretch("n1", 3.5, 4.0, "halted"),
        Stretch("n2", 1.0, 3.0, "unserved"),
        Stretch("n2", 3.5, 4.0, "halted"),
    ]


@pytest.mark.slow
def test_an_answer_on_the_wrong_side_is_marked_and_leads_to_its_finding_and_its_ops(tmp_path: Path) -> None:
    run = sample_run(tmp_path, "wrong side")
    page = write_report(run.path).read_text()
    judgement = run.read_verdicts()
    assert judgement is not None
    (verdict,) = [v for v in judgement.verdicts if v["valid"] is False]
    (finding,) = verdict["evidence"]["findings"]
    assert '<a href="#finding-1">' in page
    assert '<li id="finding-1">' in page
    for op in finding["ops"]:
        assert f'<a href="#op-{op["index"]}">' in page
    assert len(finding["ops"]) == len(re.findall(r'<tr id="op-\d+">', page))
    assert "n4 could not reach a quorum: it must not answer (6.060 s to 10.000 s)" in page
    assert "no progress on the wrong side" in page


@pytest.mark.slow
def test_availability_and_recovery_are_drawn_from_the_figures_and_rules_are_listed(tmp_path: Path) -> None:
    page = write_report(sample_run(tmp_path).path).read_text()
    assert re.search(
        r"of \d+ ops that n4 received from 6\.060 s to 10\.000 s it answered 0, in the window or later; "
        r"it could not reach a quorum",
        page,
    )
    assert "6.0 s  partition start  n4 | n1 n2 n3 n5" in page
    assert "no answer before the next change: n4" in page
    assert re.search(r"Rules of quorum progress, not judged: [^.]*Q7 \(convergence\)", page)
    assert "If a quorum could be reached, 1.5 s were allowed." in page


@pytest.mark.slow
def test_windows_are_a_table_that_is_linked_with_the_findings_in_them(tmp_path: Path) -> None:
    page = write_report(sample_run(tmp_path, "wrong side").path).read_text()
    assert 'In <a href="#window-1">window 1</a>.' in page
    (row,) = re.findall(r'<tr id="window-1">.*?</tr>', page, re.DOTALL)
    words = " ".join(re.sub(r"<[^>]*>", " ", row).split())
    assert re.match(r"1 6\.060 s 10\.000 s 8 links cut n1 n2 n3 n5 n4 n1 \d+/\d+ ", words)
    assert '<a class="tag false" href="#finding-1">Q2</a>' in row
    assert '<span class="tag true">Q3 held</span>' in row


def test_rows_of_windows_tell_who_refused_the_results_of_rules_and_which_voters_were_in_force() -> None:
    asked = {"n1": Asked(ops=9, answered=5, refused=3, unknown=1, first_answer_s=0.25), "n2": Asked()}
    window = QuorumWindow(1.0, 2.0, ["n1"], ["n1"], [["n1", "n2"]], asked, number=7, Q1="held", Q2="not judged")
    window = msgspec.structs.replace(window, configurations=[["n1", "n2"], ["n1"]], down=["n2"], Q3="stalled")
    (row,) = window_rows(Figures(windows=[window]), ["n1", "n2"], [Finding("Q3", "late", [], [], 7)])
    assert (row["number"], row["how"], row["cores"], row["silent"]) == (7, "down: n2", ["all"], "n2")
    assert row["voters"] == ["all", "n1"]
    assert row["nodes"] == [("n1", asked["n1"])]
    assert row["rules"] == [("Q1", "held"), ("Q3", "stalled")]
    assert row["findings"] == [(1, "Q3")]


def test_of_very_many_windows_those_with_findings_stay() -> None:
    windows = [QuorumWindow(float(i), i + 1.0, ["n1"], nodes={"n1": Asked()}) for i in range(WINDOWS_MAX + 50)]
    last = WINDOWS_MAX + 49
    rows = window_rows(Figures(windows=windows), ["n1"], [Finding("Q2", "n1 answered", [], [], last)])
    assert [row["number"] for row in rows] == [*range(WINDOWS_MAX - 1), last]


@pytest.mark.slow
def test_findings_and_windows_that_the_checker_left_out_are_counted(tmp_path: Path) -> None:
    run = sample_run(tmp_path, "wrong side")
    verdict = run.path / "verdict.json"
    document = json.loads(verdict.read_text())
    (judged,) = [one for one in document["verdicts"] if one["checker"] == "quorum-progress"]
    judged["figures"]["left_out"] = {"windows": 30, "findings": 12, "violations": 0}
    verdict.write_text(json.dumps(document))
    page = write_report(run.path).read_text()
    assert "12 more were found." in page
    assert "The table of windows leaves out 30 of 38." in page


@pytest.mark.slow
def test_without_the_checker_the_page_says_what_it_does_not_know(tmp_path: Path) -> None:
    run = sample_run(tmp_path)
    judgement = run.read_verdicts()
    assert judgement is not None
    judgement.verdicts[:] = [v for v in judgement.verdicts if v["checker"] != "quorum-progress"]
    assert quorum_of(judgement.verdicts).figures is None
    verdict = run.path / "verdict.json"
    verdict.write_text(verdict.read_text().replace('"quorum-progress"', '"another"'))
    page = write_report(run.path).read_text()
    assert "quorum-progress did not judge this run" in page
    assert "n4 could not reach a majority" in page
    assert 'id="availability"' not in page


def test_figures_in_another_shape_are_told_not_guessed(tmp_path: Path) -> None:
    run = sample_run(tmp_path)
    verdict = run.path / "verdict.json"
    verdict.write_text(verdict.read_text().replace('"start_s"', '"begun"'))
    page = write_report(run.path).read_text()
    assert "The figures of quorum-progress cannot be read" in page


def test_of_very_many_recoveries_the_slowest_are_drawn() -> None:
    rows: list[dict[str, Any]] = [
        {"fault": "kill", "action": "start", "target": "n1", "time_s": float(i), "op": i, "nodes": {"n1": i / 10}}
        for i in range(100)
    ]
    figures = quorum_of([{"checker": "quorum-progress", "figures": {"recovery": rows}}]).figures
    assert figures is not None
    drawn = drawn_recoveries(figures)
    assert [row.op for row in drawn] == list(range(100 - RECOVERIES_MAX, 100))
    assert recovery_plot(figures).count("<circle") == RECOVERIES_MAX


@pytest.mark.slow
def test_a_simulated_run_with_a_leader_that_does_not_ask_shows_who_answered_what_and_who_led(tmp_path: Path) -> None:
    how = ("--backend", "sim", "--nemesis", "partition", "--bug", "M23", "--time-limit", "12", "--seed", "10")
    splitbrain("run", *how, "--store", str(tmp_path))
    (run,) = Store(tmp_path).runs()
    options = {"nodes": run.read_test()["nodes"], "recovery_bound_s": 3.0}
    verdict = QuorumProgress().check(run.history(), run.telemetry(), options)
    assert verdict.valid == "false"
    run.write_verdicts([verdict], "violation")
    page = write_report(run.path).read_text()
    for number, finding in enumerate(verdict.evidence["findings"], 1):
        assert f'<a href="#finding-{number}">' in page
        assert f'<a href="#op-{finding["ops"][0]["index"]}">' in page
    leading = leaderships(load(run.path))
    assert len({each.term for each in leading}) > 1
    for each in leading:
        assert f"{each.node} leads in term {each.term} (" in page
    lines = (run.path / "nodes" / "n1" / "log").read_text().splitlines()
    assert "leader in term" in page
    assert all(line.strip()[0].isdigit() for line in lines)

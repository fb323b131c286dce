"""What stands in the verdict: a row per window and rule, a row per violation, and how many rows were left out."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.checkers.quorum import output
from splitbrain.checkers.verdict import Verdict
from tests.checkers.quorum.story import OPTIONS, Story, between, named


def wrong_side() -> Story:
    """n4 and n5 are cut off from 2 s to 12 s; n4 answers three ops meanwhile, and refuses two."""
    story = Story()
    story.ask("12345", 0.0, 2.0)
    story.fault(2.0, 2.1, cut=between("123", "45"))
    story.ask("123", 3.0, 11.9)
    story.ask("4", 5.0, 5.3)
    story.ask("4", 6.0, 6.2, "fail", error="no_leader")
    story.ask("5", 6.0, 10.0, "info", takes_s=1.0, every_s=1.0)
    story.fault(12.0, 12.1, action="stop")
    story.ask("12345", 12.2, 16.0)
    return story


def of_rule(verdict: Verdict, rule: str) -> list[dict[str, Any]]:
    return [row for row in verdict.figures["violations"] if row["rule"] == rule]


def test_a_window_has_the_result_of_each_rule_and_what_each_node_answered_refused_and_left_unknown() -> None:
    verdict = wrong_side().judged()
    before, cut, after = verdict.figures["windows"]
    assert [(row["number"], row["start_s"], row["end_s"]) for row in (before, cut, after)] == [
        (0, 0.0, 2.0),
        (1, 2.1, 12.0),
        (2, 12.1, 15.91),
    ]
    rules = ("Q1", "Q2", "Q3", "Q8")
    assert [before[rule] for rule in rules] == ["not judged"] * 4
    assert [cut[rule] for rule in rules] == ["not judged", "violated", "held", "not judged"]
    assert cut["nodes"]["n1"] == {"ops": 89, "answered": 89, "refused": 0, "unknown": 0, "first_answer_s": 0.91}
    assert cut["nodes"]["n4"] == {"ops": 5, "answered": 3, "refused": 2, "unknown": 0, "first_answer_s": 2.91}
    assert cut["nodes"]["n5"] == {"ops": 4, "answered": 0, "refused": 0, "unknown": 4, "first_answer_s": None}


def test_q1_is_judged_in_a_halted_window_and_q8_in_one_without_enough_running_nodes() -> None:
    story = Story()
    story.fault(2.0, 2.1, cut=between("12", "34", "5"))
    story.fault(6.0, 6.1, fault="kill", down="123")
    story.fault(10.0, 10.1, action="stop")
    story.ask("12345", 11.0, 12.0)
    verdict = story.judged()
    assert [[row[rule] for rule in ("Q1", "Q2", "Q8")] for row in verdict.figures["windows"]] == [
        ["not judged", "not judged", "not judged"],
        ["held", "not judged", "not judged"],
        ["held", "not judged", "held"],
        ["not judged", "not judged", "not judged"],
    ]
    assert [verdict.figures["rules"][rule] for rule in ("Q1", "Q2", "Q8")] == ["held", "not judged", "held"]


def test_every_violation_has_a_row_with_its_rule_window_op_and_sentence() -> None:
    story = wrong_side()
    verdict = story.judged()
    rows = of_rule(verdict, "Q2")
    answered = [
        op["index"]
        for op in story.history().to_pylist()
        if op["node"] == "n4" and op["type"] == "ok" and 5 * 10**9 <= op["time"] < 6 * 10**9
    ]
    assert [(row["window"], row["op"]) for row in rows] == [(1, index) for index in answered]
    assert rows[1]["sentence"] == (f"n4 answered op {answered[1]} at 5.110 s, while n4 could not reach a majority.")
    assert len(verdict.evidence["findings"]) == 1
    assert "and 2 more" in verdict.evidence["findings"][0]["sentence"]


def test_a_violation_seen_in_telemetry_has_the_row_that_shows_it() -> None:
    story = Story()
    for node in named("12"):
        story.tell(1.0, node, event="role", role="leader", term=3)
    (row,) = of_rule(story.judged(), "Q5")
    assert row["window"] is None
    assert "op" not in row
    assert row["row"]


def test_an_answer_between_windows_violates_q8_in_no_window() -> None:
    story = Story()
    story.fault(2.0, 2.1, fault="kill", down="12345")
    story.fault(6.0, 6.5, fault="kill", action="stop", down="2345")
    story.fault(10.0, 10.5, fault="kill", action="stop")
    story.ask("1", 6.1, 6.2)
    story.ask("1", 7.0, 7.1)
    story.note(12.0, "phase", {"phase": "heal"})
    verdict = story.judged()
    assert [row["window"] for row in of_rule(verdict, "Q8")] == [None, 2]
    assert [row["Q8"] for row in verdict.figures["windows"]] == ["not judged", "held", "violated", "not judged"]


def test_rows_and_findings_beyond_the_limit_are_counted_and_violated_windows_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(output, "WINDOWS_MAX", 2)
    monkeypatch.setattr(output, "VIOLATIONS_MAX", 2)
    verdict = wrong_side().judged()
    assert [row["number"] for row in verdict.figures["windows"]] == [0, 1]
    assert len(of_rule(verdict, "Q2")) == 2
    assert verdict.figures["left_out"] == {"windows": 1, "violations": 1, "findings": 0}
    monkeypatch.setattr(output, "WINDOWS_MAX", 1)
    assert [row["number"] for row in wrong_side().judged().figures["windows"]] == [1]


def test_among_many_findings_each_rule_is_shown() -> None:
    story = Story()
    for number in range(25):
        story.fault(4.0 * number + 1.0, 4.0 * number + 1.1, cut=between("123", "45"))
        story.ask("4", 4.0 * number + 2.0, 4.0 * number + 2.1)
        story.fault(4.0 * number + 3.0, 4.0 * number + 3.1, action="stop")
    story.fault(101.0, 101.1, fault="kill", down="12345")
    story.ask("1", 102.0, 102.1)
    story.note(103.0, "phase", {"phase": "heal"})
    verdict = story.judged(**OPTIONS)
    shown = [finding["rule"] for finding in verdict.evidence["findings"]]
    assert shown == ["Q1", *["Q2"] * (output.FINDINGS_MAX - 2), "Q8"]
    assert verdict.figures["left_out"]["findings"] == 27 - output.FINDINGS_MAX


def test_a_rule_that_demands_nothing_is_not_said_to_have_held() -> None:
    rules = wrong_side().judged().figures["rules"]
    assert (rules["Q4"], rules["Q9"]) == ("figures only", "figures only")
    assert wrong_side().judged(availability=0.1).figures["rules"]["Q9"] == "held"


def test_the_sentence_of_a_good_run_says_whether_progress_could_be_judged() -> None:
    story = Story()
    story.ask("12345", 0.0, 9.0)
    assert story.judged(recovery_bound_s=20.0).sentence.endswith(
        "no window could show whether a core answers within 20 s."
    )
    assert "in 1 of them a core had to answer within 2 s, and did." in story.judged(recovery_bound_s=2.0).sentence

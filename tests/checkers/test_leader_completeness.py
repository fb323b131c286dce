"""Whoever is elected must have what any node of an earlier term knew to be committed; by hand and by brute force."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.checkers.consensus import LeaderCompleteness
from splitbrain.checkers.verdict import Verdict
from tests.checkers.telemetry import row, told


def judge(*rows: dict[str, Any]) -> Verdict:
    return LeaderCompleteness().check(told(*rows), {})


def elected(time_s: float, node: str, term: int, last: int | None, **fields: Any) -> dict[str, Any]:
    return row(time_s, node, "role", role="leader", term=term, last_index=last, commit_index=0, **fields)


def commits(time_s: float, node: str, term: int, index: int, **fields: Any) -> dict[str, Any]:
    return row(time_s, node, term=term, role="follower", commit_index=index, **fields)


def test_a_leader_without_an_entry_that_was_committed_before_its_term_is_named_with_who_knew() -> None:
    verdict = judge(
        elected(0, "n1", 1, 0), commits(1, "n2", 1, 46), commits(1.5, "n3", 1, 47), elected(3, "n5", 2, 45, life=2)
    )
    assert (verdict.valid, verdict.anomalies) == ("false", ("incomplete-leader",))
    assert verdict.sentence == (
        "Incomplete leader: n5 was elected in term 2 of group 'g' (at 3.000 s in life 2) with a log that ends at 45, "
        "but n3 had reported commit index 47 in term 1 (at 1.500 s in life 1)."
    )
    assert verdict.evidence["findings"][0]["missing"] == [46, 47]
    assert verdict.figures == {"elections": 2, "highest_commit": 47, "compared": 0, "broken": 1}


def test_what_is_committed_in_its_own_or_a_later_term_or_in_another_group_is_none_of_its_concern() -> None:
    verdict = judge(
        commits(1, "n2", 1, 10),
        elected(2, "n1", 2, 10),
        commits(3, "n2", 2, 99),
        commits(3, "n3", 1, 50, group="other"),
    )
    assert (verdict.valid, verdict.figures["elections"]) == ("true", 1)


def test_without_an_election_it_is_true_and_with_elections_that_tell_nothing_unknown() -> None:
    assert judge(commits(1, "n1", 1, 5)).valid == "true"
    verdict = judge(commits(1, "n1", 1, 5), elected(2, "n1", 2, None))
    assert (verdict.valid, verdict.sentence) == (
        "unknown",
        "Unknown: no elected leader reported where its log ended.",
    )


def test_elections_that_could_not_be_judged_are_counted_and_leave_it_unknown_unless_another_is_incomplete() -> None:
    rows = [elected(1, "n1", 1, 0), commits(2, "n1", 1, 5), elected(3, "n2", 2, None), elected(4, "n3", 3, 5)]
    verdict = judge(*rows)
    assert (verdict.valid, verdict.anomalies, verdict.figures["elections"]) == ("unknown", (), 2)
    assert verdict.sentence == (
        "Unknown: 1 of the 3 elected leaders could not be judged, since it did not report where its log "
        "ended; the other 2 had every entry that was known to be committed before."
    )
    broken = judge(*rows, elected(5, "n4", 4, 4), elected(6, "n4", 5, None))
    assert (broken.valid, broken.anomalies) == ("false", ("incomplete-leader",))
    assert broken.sentence.startswith("Incomplete leader: n4 was elected in term 4")
    assert broken.sentence.endswith(
        " (2 of the 5 elected leaders could not be judged, since they did not report where their logs ended.)"
    )


@st.composite
def small_rows(draw: st.DrawFn) -> dict[str, Any]:
    node, term, index = draw(st.sampled_from(["a", "b"])), draw(st.integers(0, 4)), draw(st.integers(0, 4))
    if draw(st.booleans()):
        return commits(1, node, term, index)
    return elected(1, node, term, index if draw(st.integers(0, 4)) else None)


@pytest.mark.slow
@given(st.lists(small_rows(), min_size=1, max_size=8))
@settings(max_examples=300)
def test_it_finds_what_comparing_every_election_with_every_row_finds(rows: list[dict[str, Any]]) -> None:
    elections = [each for each in rows if each["event"] == "role"]
    judged = [each for each in elections if each["last_index"] is not None]
    broken = [
        leader
        for leader in judged
        if any(each["term"] < leader["term"] and each["commit_index"] > leader["last_index"] for each in rows)
    ]
    verdict = judge(*rows)
    assert verdict.figures["broken"] == len(broken)
    assert verdict.valid == ("false" if broken else "true" if judged == elections else "unknown")
    if 0 < len(judged) < len(elections):
        assert f"{len(elections) - len(judged)} of the {len(elections)} elected leaders" in verdict.sentence


def applied(time_s: float, node: str, term: int, index: int, chain: str) -> dict[str, Any]:
    return row(time_s, node, "hash", term=term, role="follower", applied_index=index, chain_hash=chain)


def holds(time_s: float, node: str, index: int, chain: str, **fields: Any) -> dict[str, Any]:
    return row(time_s, node, "log", log_index=index, log_term=1, log_hash=chain, applied_index=3, **fields)


def test_a_leader_whose_log_has_other_entries_than_were_committed_is_named_with_who_applied_them() -> None:
    rows = [elected(0, "n1", 1, 0), holds(1, "n2", 64, "b"), applied(2, "n1", 1, 64, "a"), elected(3, "n2", 2, 70)]
    verdict = judge(*rows)
    assert (verdict.valid, verdict.anomalies, verdict.figures["compared"]) == ("false", ("conflicting-leader",), 1)
    assert verdict.sentence == (
        "Conflicting leader: n2 was elected in term 2 of group 'g' (at 3.000 s in life 1) with a log whose hash up to "
        "entry 64 is b, but n1 had applied a up to there in term 1 (at 2.000 s in life 1)."
    )


def test_what_a_leader_has_lost_or_applied_of_its_log_or_others_apply_in_its_term_is_not_held_against_it() -> None:
    committed = applied(2, "n1", 1, 64, "a")
    was_cut = row(2, "n2", "cut", log_index=66, log_term=1)
    for rows in (
        [holds(1, "n2", 64, "a"), committed, elected(3, "n2", 2, 70)],
        [holds(1, "n2", 64, "b"), was_cut, committed, elected(3, "n2", 2, 63)],
        [holds(1, "n2", 64, "b"), applied(2, "n1", 2, 64, "a"), elected(3, "n2", 2, 70)],
        [holds(1, "n2", 64, "b", group="h"), committed, elected(3, "n2", 2, 70)],
    ):
        assert judge(*rows).valid == "true"

"""Whoever is elected must have what any node of an earlier term knew to be committed; by hand and by brute force."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.consensus import LeaderCompleteness
from checkers.verdict import Verdict
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
        "but n3 had told in term 1 (at 1.500 s in life 1) that everything up to 47 was committed."
    )
    assert verdict.evidence["findings"][0]["missing"] == [46, 47]
    assert verdict.figures == {"elections": 2, "highest_commit": 47, "broken": 1}


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
        "Unknown: no node that was elected tells where its log ended.",
    )


@st.composite
def small_rows(draw: st.DrawFn) -> dict[str, Any]:
    make = draw(st.sampled_from([elected, commits]))
    return make(1, draw(st.sampled_from(["a", "b"])), draw(st.integers(0, 4)), draw(st.integers(0, 4)))


@given(st.lists(small_rows(), min_size=1, max_size=8))
@settings(deadline=None, max_examples=300)
def test_it_finds_what_comparing_every_election_with_every_row_finds(rows: list[dict[str, Any]]) -> None:
    broken = [
        leader
        for leader in rows
        if leader["event"] == "role"
        and any(each["term"] < leader["term"] and each["commit_index"] > leader["last_index"] for each in rows)
    ]
    verdict = judge(*rows)
    assert verdict.figures["broken"] == len(broken)
    assert (verdict.valid == "false") is bool(broken)

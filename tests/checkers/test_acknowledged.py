"""A leader counts for a follower only what that follower acknowledged to it in its term."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.checkers.consensus import Acknowledged, CommitMajority
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.errors import HistoryFormatError, UsageError
from tests.checkers.telemetry import row, told


def judge(*rows: dict[str, Any]) -> Verdict:
    return Acknowledged().check(told(*rows), {})


def said(event: str, counted: str, index: int = 7, **fields: Any) -> dict[str, Any]:
    about: dict[str, Any] = {"role": "leader", "term": 3, "counted_index": index, "counted": counted, **fields}
    return row(1, "n1", event, **about)


def test_a_follower_that_is_counted_for_more_than_it_acknowledged_is_found() -> None:
    verdict = judge(said("acked", "n2#1=5 n3=7"), said("commit", "n1=7 n2#1=7 n3=7"))
    assert (verdict.valid, verdict.anomalies) == ("false", ("counted-unacknowledged",))
    assert verdict.sentence == (
        "Counted, and not acknowledged: n1 of group 'g' committed entry 7 in term 3 (at 1.000 s in life 1) and counted "
        "n2#1 for entry 7, when it had acknowledged entry 5 in that term."
    )
    assert verdict.figures == {"counts": 2, "broken": 1}


def test_a_follower_that_acknowledged_nothing_counts_for_nothing() -> None:
    assert judge(said("acked", ""), said("commit", "n1=7 n2=0")).valid == "true"
    assert (
        "n2 for entry 1, when it had acknowledged none"
        in judge(said("acked", ""), said("commit", "n1=7 n2=1")).sentence
    )


def test_the_log_of_the_leader_itself_is_not_judged() -> None:
    assert judge(said("acked", "n2=7"), said("commit", "n1#2=9 n2=7")).figures == {"counts": 1, "broken": 0}


@pytest.mark.parametrize(
    "rows",
    [
        [said("commit", "n1=7 n2=7")],
        [said("acked", "n2=5", 6), said("commit", "n1=7 n2=7")],
        [said("acked", "n2=5", term=2), said("commit", "n1=7 n2=7")],
        [said("acked", "n2=5", life=2), said("commit", "n1=7 n2=7")],
        [said("acked", "n2=5", group="h"), said("commit", "n1=7 n2=7")],
        [said("acked", "n2=7"), said("commit", "n1=7 n2=7"), said("commit", "n1=9 n2=9", 9)],
    ],
)
def test_without_the_answers_before_that_commit_nobody_is_accused(rows: list[dict[str, Any]]) -> None:
    verdict = judge(*rows)
    assert verdict.valid == "true"
    if len(rows) < 3:
        assert verdict.sentence == "Nothing was judged: no leader reported what its followers acknowledged."


@given(
    st.dictionaries(st.sampled_from(["n2", "n3#1", "n4"]), st.integers(0, 9)),
    st.dictionaries(st.sampled_from(["n1", "n2", "n3#1", "n4"]), st.integers(0, 9)),
)
def test_the_rule_is_that_no_count_is_above_the_answer(acked: dict[str, int], counted: dict[str, int]) -> None:
    def listed(of: dict[str, int]) -> str:
        return " ".join(f"{member}={index}" for member, index in of.items())

    right = all(index <= acked.get(member, 0) for member, index in counted.items() if member != "n1")
    assert (judge(said("acked", listed(acked)), said("commit", listed(counted))).valid == "true") == right


def test_answers_are_no_commits_for_the_rule_of_the_majority() -> None:
    verdict = CommitMajority().check(told(said("acked", "n2=1 n3=2")), {})
    assert verdict.figures["commits"] == 0


def test_a_damaged_answer_is_named() -> None:
    with pytest.raises(HistoryFormatError, match="column 'counted' holds"):
        judge(said("acked", "n2"), said("commit", "n1=7 n2=7"))


def test_acknowledged_has_no_options() -> None:
    with pytest.raises(UsageError, match="acknowledged takes no options"):
        Acknowledged().check(told(), {"x": 1})

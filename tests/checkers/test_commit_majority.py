"""A leader commits only what a majority of the voters acknowledged as durable."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.checkers.consensus import CommitMajority
from splitbrain.checkers.consensus.rows import rows
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.errors import HistoryFormatError, UsageError
from tests.checkers.telemetry import row, told


def judge(*rows: dict[str, Any]) -> Verdict:
    return CommitMajority().check(told(*rows), {})


def commit(time_s: float, index: int | None, counted: str | None, **fields: Any) -> dict[str, Any]:
    about: dict[str, Any] = {"role": "leader", "term": 3, "commit_index": index, **fields}
    return row(time_s, "n1", counted_index=index, counted=counted, **about)


def test_a_majority_is_one_of_the_voters_in_force_and_not_of_those_that_are_listed() -> None:
    five = ["n1", "n2", "n3", "n4", "n5"]
    verdict = judge(commit(1, 7, "n1=7 n2#1=7", voters=five))
    assert verdict.anomalies == ("committed-without-majority",)
    assert "only n1, n2#1 of the voters n1, n2#1, n3, n4, n5 had acknowledged it." in verdict.sentence
    assert judge(commit(1, 7, "n1=7 n4=7 n5=7 n2=0 n3=0", voters=["n1", "n2", "n3"])).valid == "false", "learners"
    assert judge(commit(1, 7, "n1=7 n2=7 n3=7", voters=five)).valid == "true", "others had acknowledged nothing yet"
    assert judge(commit(1, 7, "n1=7 n2=7", voters=[])).valid == "true", "it does not say who votes"


def test_a_commit_may_have_been_counted_among_the_voters_before() -> None:
    held = row(1, "n1", "role", role="leader", term=3, voters=["n1", "n2", "n3"])
    grown = commit(2, 7, "n1=7 n2=7 n3=0", voters=["n1", "n2", "n3", "n4", "n5"])
    assert judge(held, grown).valid == "true"
    for other in ({"life": 2}, {"group": "h"}, {"node": "n2"}, {"event": "recoverable"}):
        assert judge({**held, **other}, grown).valid == "false"


def test_a_commit_that_too_few_voters_acknowledged_is_found() -> None:
    verdict = judge(commit(1, 7, "n1=7 n2=7 n3=0"), commit(2, 9, "n1=8 n2=9 n3=8"))
    assert (verdict.valid, verdict.anomalies) == ("false", ("committed-without-majority",))
    assert verdict.sentence == (
        "Committed without a majority: n1 of group 'g' committed entry 9 in term 3 (at 2.000 s in life 1), and only n2 "
        "of the voters n1, n2, n3 had acknowledged it."
    )
    assert verdict.figures == {"commits": 2, "closest": -1, "broken": 1}


def test_a_writer_of_a_stream_is_held_to_it_as_a_leader_is() -> None:
    def promised(counted: str, **fields: Any) -> Verdict:
        return judge(commit(1, 7, counted, group=":stream 3", log_index=7, **fields))

    assert promised("n1=9 n2=0 n3=7", log_term=3).valid == "true"
    few, earlier = promised("n1=9 n2=6 n3=6", log_term=3), promised("n1=9 n2=7 n3=7", log_term=2)
    assert few.anomalies == ("committed-without-majority",)
    assert few.sentence.startswith("Committed without a majority: n1 of stream 3 committed entry 7 in term 3 ")
    assert earlier.anomalies == ("committed-earlier-term",)
    assert not list(rows(told(commit(1, 7, "n1=7", group=":stream 3")))), "it is no row of consensus"
    # Groups of consensus say who votes in them: nothing of that is about a stream.
    voters = row(0.5, "n1", "role", role="leader", term=3, voters=["n4", "n5", "n6"])
    assert judge(voters, commit(1, 7, "n1=7 n2=7 n3=0", group=":stream 3")).valid == "true"


@pytest.mark.parametrize(("counted", "valid"), [("n1=5 n2=5 n3=4 n4=4", "false"), ("n1=5 n2=5 n3=5 n4=4", "true")])
def test_half_of_an_even_number_is_no_majority(counted: str, valid: str) -> None:
    assert judge(commit(1, 5, counted)).valid == valid


def test_a_leader_that_is_no_voter_any_more_needs_a_majority_of_the_others() -> None:
    assert judge(commit(1, 5, "n2=5 n3=5 n4=0")).valid == "true"
    assert judge(commit(1, 5, "n2=5 n3=0 n4=0")).valid == "false"


def test_a_commit_that_no_voter_acknowledged_is_said_as_such() -> None:
    assert "and no voter of the voters n1#1, n2 had" in judge(commit(1, 5, "n1#1=4 n2=0")).sentence


def test_rows_without_a_count_are_not_judged() -> None:
    verdict = judge(row(1, "n2", role="follower", term=3, commit_index=9), commit(2, None, None), commit(3, 9, None))
    assert (verdict.valid, verdict.figures) == ("true", {"commits": 0, "closest": None, "broken": 0})
    assert verdict.sentence == "Nothing was judged: no leader reported what it counted for a commit."


@given(st.integers(1, 9), st.dictionaries(st.sampled_from(["n1", "n2", "n3#1", "n4", "n5"]), st.integers(0, 9)))
def test_the_rule_is_that_of_raft(index: int, acknowledged: dict[str, int]) -> None:
    counted = " ".join(f"{voter}={value}" for voter, value in acknowledged.items())
    majority = 2 * sum(value >= index for value in acknowledged.values()) > len(acknowledged)
    assert (judge(commit(1, index, counted)).valid == "true") == majority


@pytest.mark.parametrize("counted", ["n1", "n1=", "=7", "n1=x", "n1=-3 n2=1"])
def test_a_damaged_count_is_named(counted: str) -> None:
    with pytest.raises(HistoryFormatError, match="column 'counted' holds"):
        judge(commit(1, 7, counted))


def test_it_has_no_options() -> None:
    with pytest.raises(UsageError, match="commit-majority takes no options"):
        CommitMajority().check(told(), {"x": 1})


@pytest.mark.parametrize(("log_term", "valid"), [(2, "false"), (3, "true"), (None, "true")])
def test_an_entry_of_an_earlier_term_is_not_committed_by_counting_replicas(log_term: int | None, valid: str) -> None:
    verdict = judge({**commit(1, 5, "n1=5 n2=5 n3=0"), "log_index": 5, "log_term": log_term})
    assert verdict.valid == valid
    if valid == "false":
        assert verdict.anomalies == ("committed-earlier-term",)
        assert "n1 of group 'g' led term 3 and committed up to entry 5 of term 2" in verdict.sentence

"""A candidate asks voters only, and leads by votes of its term that a majority of them gave."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.checkers.consensus import Votes
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import UsageError
from splitbrain.results.telemetry import table_of
from tests.checkers.telemetry import row, told


def judge(*rows: dict[str, Any]) -> Verdict:
    return Votes().check(to_table([]), told(*rows), {})


def role(role: str, counted: str | None, voters: str = "n1 n2 n3", **fields: Any) -> dict[str, Any]:
    about: dict[str, Any] = {"term": 3, "role": role, "counted": counted, "voters": voters.split(), **fields}
    return row(1, "n1", "role", **about)


def test_an_election_by_voters_of_its_term_is_right() -> None:
    verdict = judge(role("candidate", "n2=3 n3#1=3"), role("leader", "n1=3 n3#1=3"))
    assert (verdict.valid, verdict.figures) == ("true", {"elections": 1, "candidacies": 1, "broken": 0})
    assert verdict.sentence == "1 candidacy asked voters only, and 1 election had votes of a majority."


@pytest.mark.parametrize("standing", ["pre_candidate", "candidate"])
def test_a_learner_that_is_asked_for_a_vote_is_found(standing: str) -> None:
    verdict = judge(role(standing, "n2=3 n4=3"))
    assert verdict.anomalies == ("learner-asked",)
    assert verdict.sentence == (
        "Asked without a vote: n1 of group 'g' asked n4 for a vote in term 3 (at 1.000 s in life 1), and by its own "
        "log only n1, n2, n3 vote."
    )


def test_a_learner_that_is_counted_is_found_even_if_there_is_a_majority_without_it() -> None:
    assert judge(role("leader", "n1=3 n2=3 n4=3")).anomalies == ("stranger-counted",)
    assert judge(role("leader", "n1=3 n4=3")).anomalies == ("stranger-counted", "too-few-votes")


def test_a_vote_of_an_earlier_term_is_found() -> None:
    verdict = judge(role("leader", "n1=3 n2=2"))
    assert verdict.anomalies == ("old-vote-counted", "too-few-votes")
    assert "n2 granted it in term 2" in verdict.sentence
    assert verdict.figures == {"elections": 1, "candidacies": 0, "broken": 1}
    assert judge(role("leader", "n1=3 n2=2 n3=3")).anomalies == ("old-vote-counted",)


def test_a_voter_that_is_counted_twice_makes_no_majority() -> None:
    assert judge(role("leader", "n1=3 n2=3 n2,2=3", "n1 n2 n3 n4 n5")).anomalies == (
        "stranger-counted",
        "too-few-votes",
    )


def test_the_vote_of_a_leader_that_is_no_voter_any_more_is_not_needed() -> None:
    assert judge(role("leader", "n2=3 n3=3", "n2 n3 n4")).valid == "true"
    assert judge(role("leader", "n2=3", "n2 n3 n4")).anomalies == ("too-few-votes",)


@given(st.sets(st.sampled_from(["n1", "n2", "n3", "n4", "n5"])), st.integers(1, 5))
def test_the_rule_of_the_majority(granted: set[str], voters: int) -> None:
    electorate = [f"n{number}" for number in range(1, voters + 1)]
    verdict = judge(role("leader", " ".join(f"{node}=3" for node in granted), " ".join(electorate)))
    assert ("too-few-votes" in verdict.anomalies) == (2 * len(granted & set(electorate)) <= voters)
    assert ("stranger-counted" in verdict.anomalies) == bool(granted - set(electorate))


@pytest.mark.parametrize(
    "silent",
    [role("leader", None), role("leader", "", ""), role("leader", "n9=1", term=None), role("follower", "n9=1")],
)
def test_who_does_not_say_what_it_counted_is_not_accused(silent: dict[str, Any]) -> None:
    verdict = judge(silent)
    assert verdict.valid == "true"
    said = "Nothing was judged: no node reported the members that it asked, or the votes that it counted."
    assert verdict.sentence == said


def test_a_leader_that_counted_no_vote_at_all_says_so_in_its_line() -> None:
    line = b'{"wall":1,"event":"role","group":"g","term":3,"role":"leader","voters":["n1","n2"],"counted":{}}'
    assert Votes().check(to_table([]), table_of({"n1": [(1, line)]}), {}).anomalies == ("too-few-votes",)


def test_votes_has_no_options() -> None:
    with pytest.raises(UsageError, match="votes takes no options"):
        Votes().check(to_table([]), told(), {"x": 1})

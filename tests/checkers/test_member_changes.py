"""A leader changes members one at a time, in a term of which an entry is committed, and majorities always meet."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.checkers.consensus import MemberChanges
from splitbrain.checkers.consensus.memberchanges import majorities_meet
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.errors import HistoryFormatError, UsageError
from tests.checkers.telemetry import row, told

LEADS = row(1, "n1", "role", role="leader", term=3, last_index=9)


def judge(*rows: dict[str, Any]) -> Verdict:
    return MemberChanges().check(told(*rows), {})


def change(counted: str | None, index: int | None = 14, **fields: Any) -> dict[str, Any]:
    about: dict[str, Any] = {"role": "leader", "term": 3, "counted_index": index, "counted": counted, **fields}
    return row(2, "n1", "members", **about)


def test_a_change_in_a_term_with_a_committed_entry_is_right() -> None:
    verdict = judge(LEADS, change("commit_index=10 before_index=10 n1=3 n2=3 n3=1"))
    assert (verdict.valid, verdict.figures) == ("true", {"changes": 1, "broken": 0})
    assert verdict.sentence == "1 change of members came one at a time, each in a term of which an entry was committed."


def test_a_second_change_before_the_first_is_committed_is_found() -> None:
    verdict = judge(LEADS, change("commit_index=11 before_index=12 n1=3 n2=1"))
    assert verdict.anomalies == ("change-before-commit",)
    assert verdict.sentence == (
        "Two changes at once: n1 of group 'g' led term 3 and put n1 into force as voters by entry 14 (at 2.000 s in "
        "life 1) while the change before, entry 12, was not committed (up to 11)."
    )


def test_a_change_before_the_first_entry_of_the_term_is_committed_is_found() -> None:
    verdict = judge(LEADS, change("commit_index=9 before_index=0 n1=3 n2=3 n3=2"))
    assert verdict.anomalies == ("change-before-noop",)
    assert "before the first entry of its term, 10, was committed (up to 9)" in verdict.sentence


def test_a_change_of_two_voters_is_found() -> None:
    verdict = judge(LEADS, change("commit_index=10 before_index=0 n1=3 n2=1 n3=1"))
    assert verdict.anomalies == ("quorums-apart",)
    assert "put n1 into force as voters by entry 14 (at 2.000 s in life 1) in place of n1, n2, n3" in verdict.sentence


@pytest.mark.parametrize(
    "rows",
    [
        [change("commit_index=1 before_index=12 n1=3")],
        [LEADS, change("commit_index=1 before_index=12 n1=3", role="follower")],
        [LEADS, change("commit_index=1 before_index=12 n1=3", term=4)],
        [LEADS, change("commit_index=1 before_index=12 n1=3", life=2)],
        [LEADS, change(None, None)],
    ],
)
def test_what_no_leader_did_in_its_term_is_not_judged(rows: list[dict[str, Any]]) -> None:
    verdict = judge(*rows)
    assert (verdict.valid, verdict.figures["changes"]) == ("true", 0)
    assert verdict.sentence == "Nothing was judged: no leader reported a change of members."


@given(*[st.frozensets(st.sampled_from(["n1", "n2", "n3", "n4", "n5", "n6"]), min_size=1)] * 2)
def test_majorities_meet_if_no_two_of_them_are_apart(old: frozenset[str], new: frozenset[str]) -> None:
    def majorities(voters: frozenset[str]) -> list[set[str]]:
        return [set(some) for some in combinations(sorted(voters), len(voters) // 2 + 1)]

    assert majorities_meet(old, new) == all(one & other for one in majorities(old) for other in majorities(new))


def test_what_cannot_be_read_is_an_error() -> None:
    with pytest.raises(HistoryFormatError, match="counted"):
        judge(LEADS, change("n1:3"))


def test_it_has_no_options() -> None:
    with pytest.raises(UsageError, match="member-changes takes no options"):
        MemberChanges().check(told(), {"a": 1})

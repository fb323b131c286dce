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
from splitbrain.results.findings import findings_of
from tests.checkers.telemetry import row, told

LEADS = row(1, "n1", "role", role="leader", term=3, last_index=9)


def judge(*rows: dict[str, Any]) -> Verdict:
    return MemberChanges().check(told(*rows), {})


def change(counted: str | None, index: int | None = 14, **fields: Any) -> dict[str, Any]:
    about: dict[str, Any] = {"role": "leader", "term": 3, "counted_index": index, "counted": counted, **fields}
    return row(2, "n1", "members", **about)


def test_a_change_in_a_term_with_a_committed_entry_is_right() -> None:
    verdict = judge(LEADS, change("commit_index=10 before_index=10 n1=3 n2=3 n3=1"))
    assert (verdict.valid, verdict.figures) == ("true", {"changes": 1, "compared": 0, "broken": 0})
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


def log(node: str, hashed: str, counted: str, at: int = 0, index: int = 64, **fields: Any) -> dict[str, Any]:
    about: dict[str, Any] = {"log_index": index, "log_term": 3, "log_hash": hashed, **fields}
    return row(3, node, about.pop("event", "log"), counted_index=at, counted=counted, **about)


def test_nodes_with_the_same_log_and_the_same_members_are_right() -> None:
    four = "n1=1 n2=1 n3=1 n4=0"
    same = [log("n1", "a", four, 9), log("n2", "a", four, 9), log("n3", "a", four, 9, event="first")]
    verdict = judge(LEADS, change("commit_index=10 before_index=10 n1=3 n2=3 n3=1"), *same)
    assert (verdict.valid, verdict.figures) == ("true", {"changes": 1, "compared": 1, "broken": 0})
    assert verdict.sentence.endswith("; nodes with the same log had the same members in force (1 log compared).")
    alone = judge(*same)
    assert alone.sentence == (
        "No leader reported a change of members; nodes with the same log had the same members in force "
        "(1 log compared)."
    )


def test_a_node_with_other_members_in_force_than_its_log_says_is_found() -> None:
    verdict = judge(log("n1", "a", "n1=1 n2=1", 9), log("n3", "a", "n1=1 n2=1 n3=0", 4), log("n2", "a", "n1=1 n2=1", 9))
    assert (verdict.anomalies, verdict.figures["compared"]) == (("members-apart",), 1)
    (shown,) = findings_of(verdict.evidence)
    assert (shown.ops, [moment.node for moment in shown.moments]) == ([], ["n1", "n3"]), "an entry of a log is no op"
    assert verdict.sentence == (
        "Members apart: of the same log up to entry 64 of term 3 of group 'g' n1 has n1, n2 in force by entry 9 (at "
        "3.000 s in life 1) and n3 has n1, n2, n3 (learner) in force by entry 4 (at 3.000 s in life 1)."
    )


def test_the_same_members_are_apart_once_however_many_entries_that_lasts() -> None:
    logs = [log(node, f"{at}", f"n1=1 n2={at}", 9, at) for at in (64, 128, 192) for node in ("n1", "n2")]
    assert judge(*logs).valid == "true"
    stale = [log("n3", f"{at}", "n1=1", 4, at) for at in (64, 128, 192)]
    fresh = [log("n1", f"{at}", "n1=1 n2=1", 9, at) for at in (64, 128, 192)]
    verdict = judge(*fresh, *stale, log("n3", "other", "n1=1", 9, 256), log("n1", "other", "n1=1 n2=1", 9, 256))
    assert (verdict.figures["broken"], verdict.figures["compared"]) == (2, 4)
    first, second = (finding.sentence for finding in findings_of(verdict.evidence))
    assert first.startswith("Members apart: of the same log up to entry 64 of")
    assert first.endswith(" The same holds of 2 later entries.")
    assert second.endswith("(at 3.000 s in life 1).")


def test_the_same_members_by_another_entry_are_found_too_and_a_node_that_contradicts_itself() -> None:
    assert judge(log("n1", "a", "n1=1", 9), log("n2", "a", "n1=1", 4)).anomalies == ("members-apart",)
    itself = judge(log("n1", "a", "n1=1", 9), log("n1", "a", "n1=1", 4, life=2))
    assert (itself.anomalies, itself.figures["compared"]) == (("members-apart",), 0)


@pytest.mark.parametrize(
    "other",
    [
        log("n2", "b", "n1=1 n2=1"),
        log("n2", "a", "n1=1 n2=1", index=128),
        log("n2", "a", "n1=1 n2=1", group="h"),
        log("n2", "a", "n1=1 n2=1", event="checkpoint"),
        row(3, "n2", "log", log_index=64, log_term=3, log_hash="a"),
        row(3, "n2", "log", log_index=64, log_term=3, counted_index=0, counted="n1=1 n2=1"),
    ],
)
def test_members_of_different_logs_may_differ(other: dict[str, Any]) -> None:
    verdict = judge(log("n1", "a", "n1=1", 9), other)
    assert (verdict.valid, verdict.figures["compared"]) == ("true", 0)


@pytest.mark.parametrize("event", ["first", "log"])
def test_rows_of_both_events_are_compared(event: str) -> None:
    assert judge(*(log(node, "a", f"{node}=1", 9, event=event) for node in ("n1", "n2"))).valid == "false"


def test_who_the_founders_are_is_not_compared_but_that_they_are_in_force() -> None:
    assert judge(log("n1", "a", "n1=1"), log("n2", "a", "n2=1")).figures["compared"] == 1
    assert judge(log("n1", "a", "n1=1"), log("n2", "a", "n2=1")).valid == "true"
    assert judge(log("n1", "a", "n1=1"), log("n2", "a", "n1=1", 9)).anomalies == ("members-apart",)


def test_what_cannot_be_read_is_an_error() -> None:
    with pytest.raises(HistoryFormatError, match="counted"):
        judge(LEADS, change("n1:3"))


def test_it_has_no_options() -> None:
    with pytest.raises(UsageError, match="member-changes takes no options"):
        MemberChanges().check(told(), {"a": 1})

"""An elected node must have what any node of an earlier term knew to be committed; by hand and by brute force."""

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
    assert verdict.figures == {"elections": 2, "after_commits": 1, "highest_commit": 47, "compared": 0, "broken": 1}


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
        "Unknown: 1 of 3 elected leaders could not be judged, since it did not report where its log "
        "ended; the other 2 had every entry that was known to be committed before."
    )
    broken = judge(*rows, elected(5, "n4", 4, 4), elected(6, "n4", 5, None))
    assert (broken.valid, broken.anomalies) == ("false", ("incomplete-leader",))
    assert broken.sentence.startswith("Incomplete leader: n4 was elected in term 4")
    assert broken.sentence.endswith(
        " (2 of 5 elected leaders could not be judged, since they did not report where their logs ended.)"
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
        assert f"{len(elections) - len(judged)} of {len(elections)} elected leaders" in verdict.sentence


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


def test_a_pass_says_whether_anything_was_known_to_be_committed_before_a_leader() -> None:
    nothing = judge(elected(1, "n1", 1, 0), commits(2, "n1", 1, 5))
    assert (nothing.valid, nothing.figures["after_commits"]) == ("true", 0)
    assert nothing.sentence == (
        "1 leader was elected, and nothing was known to be committed before: nothing could be lacking."
    )
    assert "2 leaders were elected, and nothing" in judge(elected(1, "n1", 1, 0), elected(2, "n2", 2, 0)).sentence
    one = judge(commits(1, "n1", 1, 5), elected(2, "n2", 2, 5))
    assert one.sentence == "The elected leader had every entry that was known to be committed before."
    two = judge(elected(0, "n1", 1, 0), commits(1, "n1", 1, 5), elected(2, "n2", 2, 5))
    assert (two.figures["after_commits"], two.sentence) == (
        1,
        "Each of 2 elected leaders had every entry that was known to be committed before.",
    )


def test_a_log_of_one_group_is_not_compared_with_what_another_group_applied_or_committed() -> None:
    others = [applied(2, "n1", 1, 64, "a") | {"group": "h"}, commits(2, "n1", 1, 99, group="h")]
    rows = [holds(1, "n2", 64, "b"), *others, elected(3, "n2", 2, 70), elected(3, "n2", 2, 99, group="h")]
    verdict = judge(*rows)
    assert (verdict.valid, verdict.figures["compared"], verdict.figures["highest_commit"]) == ("true", 0, 99)
    here = judge(*rows, applied(2, "n1", 1, 64, "b"), commits(2, "n1", 1, 50))
    assert (here.valid, here.figures["compared"], here.figures["highest_commit"]) == ("true", 1, 99)
    assert judge(commits(1, "n1", 1, 5), commits(1, "n1", 1, 9, group="h")).figures["highest_commit"] == 9


def test_the_log_of_a_node_in_one_group_stays_when_it_is_cut_in_another() -> None:
    cut = row(2, "n2", "cut", log_index=66, log_term=1, group="h")
    rows = [holds(1, "n2", 64, "b"), cut, applied(2, "n1", 1, 64, "a"), elected(3, "n2", 2, 70)]
    assert judge(*rows).anomalies == ("conflicting-leader",)


def test_what_a_node_reports_of_its_log_after_it_was_elected_is_not_the_log_with_which_it_was_elected() -> None:
    rows = [elected(1, "n2", 2, 60), holds(2, "n2", 64, "b"), applied(3, "n1", 1, 64, "a")]
    assert (judge(*rows).valid, judge(*rows).figures["compared"]) == ("true", 0)


def test_of_several_nodes_that_applied_the_same_the_one_in_the_earliest_term_counts() -> None:
    """In whatever order the rows come: what was applied in the leader's own term says nothing of it."""
    early, late = applied(1, "n1", 1, 64, "a"), applied(1, "n3", 2, 64, "a")
    for rows in ([early, late], [late, early]):
        verdict = judge(holds(1, "n2", 64, "b"), *rows, elected(3, "n2", 2, 70))
        assert verdict.anomalies == ("conflicting-leader",)
        assert "but n1 had applied a up to there in term 1" in verdict.sentence
    both = [early, applied(1, "n3", 1, 64, "c"), holds(1, "n2", 64, "b"), elected(3, "n2", 2, 70)]
    assert judge(*both).figures["broken"] == 2, "two nodes applied different entries, and its log has neither"


def test_what_leaders_say_is_committed_counts_in_rows_of_every_event() -> None:
    led = row(1, "n1", "hash", role="leader", term=1, commit_index=8)
    assert judge(led, elected(2, "n2", 2, 7)).anomalies == ("incomplete-leader",)


def ends_with(time_s: float, node: str, term: int, last: int, of_term: int | None) -> dict[str, Any]:
    return elected(time_s, node, term, last, log_index=last, log_term=of_term)


def has_entry(time_s: float, node: str, index: int, of_term: int, commit: int, **fields: Any) -> dict[str, Any]:
    about: dict[str, Any] = {"term": 4, "event": "first", "log_hash": "h", "applied_index": 0, "commit_index": commit}
    about |= {"log_index": index, "log_term": of_term, **fields}
    return row(time_s, node, **about)


def test_m03_a_leader_whose_log_ends_in_an_earlier_term_than_a_committed_entry_lacks_it_however_long_it_is() -> None:
    verdict = judge(has_entry(1, "n1", 20, 4, 12), commits(2, "n1", 4, 21), ends_with(3, "n5", 6, 90, 3))
    assert (verdict.valid, verdict.anomalies, verdict.figures["broken"]) == ("false", ("outdated-leader",), 1)
    assert verdict.sentence == (
        "Outdated leader: n5 was elected in term 6 of group 'g' (at 3.000 s in life 1) with a log that ends with entry "
        "90 of term 3, but n1 had reported in term 4 that entry 20 of term 4 is committed (at 2.000 s in life 1)."
    )
    at_once = judge(has_entry(1, "n1", 20, 4, 20), ends_with(3, "n5", 6, 90, 3))
    assert at_once.anomalies == ("outdated-leader",), "the row itself says that it is committed"
    shorter = judge(has_entry(1, "n1", 20, 4, 20), ends_with(3, "n5", 6, 19, 3))
    assert (shorter.anomalies, shorter.figures["broken"]) == (("incomplete-leader",), 1), "one finding for one leader"


@pytest.mark.parametrize(
    "rows",
    [
        [has_entry(1, "n1", 20, 4, 12), commits(2, "n1", 4, 21), ends_with(3, "n5", 6, 90, 4)],
        [has_entry(1, "n1", 20, 4, 12), commits(2, "n1", 4, 21), ends_with(3, "n5", 6, 90, None)],
        [has_entry(1, "n1", 20, 4, 12), commits(2, "n1", 4, 21), elected(3, "n5", 6, 90, log_index=80, log_term=3)],
        [has_entry(1, "n1", 20, 4, 12), commits(2, "n1", 4, 19), ends_with(3, "n5", 6, 90, 3)],
        [has_entry(1, "n1", 20, 4, 12), commits(2, "n2", 4, 21), ends_with(3, "n5", 6, 90, 3)],
        [has_entry(1, "n1", 20, 4, 12), commits(2, "n1", 6, 21), ends_with(3, "n5", 6, 90, 3)],
        [has_entry(1, "n1", 20, 4, 12, group="h"), commits(2, "n1", 4, 21), ends_with(3, "n5", 6, 90, 3)],
        [has_entry(1, "n1", 20, 4, 20, group="h"), ends_with(3, "n5", 6, 90, 3)],
        [has_entry(1, "n1", 20, 4, 25, event="cut"), ends_with(3, "n5", 6, 90, 3)],
        [
            has_entry(1, "n1", 20, 4, 12),
            has_entry(2, "n1", 30, 3, 30, event="snapshot", applied_index=30),
            ends_with(3, "n5", 6, 90, 3),
        ],
        [
            has_entry(1, "n1", 20, 4, 12),
            has_entry(2, "n1", 22, 4, 12, event="cut"),
            commits(2, "n1", 5, 21),
            ends_with(3, "n5", 6, 90, 3),
        ],
    ],
    ids=[
        "it ends in that term",
        "its last term is not known",
        "its end is not known",
        "not committed yet",
        "another node's commit index says nothing of this log",
        "known only in the leader's own term",
        "another group",
        "committed in another group",
        "it is cut off",
        "a snapshot took its place",
        "it was cut off before",
    ],
)
def test_a_leader_whose_log_may_have_what_was_committed_is_not_outdated(rows: list[dict[str, Any]]) -> None:
    assert judge(*rows).valid == "true"


@st.composite
def runs_of_logs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """What nodes that follow Raft report: each leader has what was committed, and overwrites the rest."""
    logs: dict[str, list[int]] = {node: [] for node in ("a", "b", "c")}
    committed: list[int] = []
    told: list[dict[str, Any]] = []
    for term in range(1, draw(st.integers(2, 6))):
        leader = draw(st.sampled_from([node for node in logs if logs[node][: len(committed)] == committed]))
        log = logs[leader]
        told.append(ends_with(term, leader, term, len(log), log[-1] if log else None))
        log += [term] * draw(st.integers(1, 3))
        for node in draw(st.sets(st.sampled_from(sorted(logs)))):
            if node != leader:
                has = len(logs[node])
                if logs[node] != log[:has]:
                    told.append(row(term, node, "cut", term=term, log_index=has, log_term=logs[node][-1]))
                    has = len(committed)
                logs[node] = log[: draw(st.integers(has, len(log)))]
        of_majority = [sum(logs[node][: k + 1] == log[: k + 1] for node in logs) > 1 for k in range(len(log))]
        reach = sum(of_majority)
        committed = log[: max(len(committed), reach if log[reach - 1 : reach] == [term] else 0)]
        for node in logs:
            known = draw(st.integers(0, len(committed)))
            if known and logs[node][:known] == committed[:known]:
                at = draw(st.integers(1, len(logs[node])))
                about = {"log_hash": str(logs[node][:at]), "event": "log", "term": term}
                told.append(has_entry(term, node, at, logs[node][at - 1], known, **about))
    return told


@given(runs_of_logs())
def test_leaders_that_have_all_that_was_committed_pass_whatever_else_their_logs_held(
    rows: list[dict[str, Any]],
) -> None:
    assert judge(*rows).valid == "true"

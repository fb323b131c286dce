"""A member that was removed changes neither term nor leader of the others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from splitbrain.checkers.consensus import RemovedMembers
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.errors import UsageError
from tests.checkers.telemetry import row, telemetries, told

ALL = "n1 n2 n3"


def judge(*rows: dict[str, Any]) -> Verdict:
    return RemovedMembers().check(told(*rows), {})


def role(time_s: float, node: str, role: str, term: int, members: str = ALL, **fields: Any) -> dict[str, Any]:
    return row(time_s, node, "role", role=role, term=term, members=members, **fields)


def members(
    time_s: float, node: str, members: str, *, at: int, role: str = "follower", **fields: Any
) -> dict[str, Any]:
    return row(time_s, node, "members", members=members, log_index=at, role=role, term=3, **fields)


def knows(time_s: float, node: str, commit: int, term: int = 3, **fields: Any) -> dict[str, Any]:
    return row(time_s, node, term=term, role="follower", commit_index=commit, **fields)


def test_m07_a_leader_does_not_follow_the_term_of_a_node_that_it_knows_to_be_no_member() -> None:
    led = [role(1, "n1", "leader", 3), members(2, "n1", "n1 n2", at=9, role="leader")]
    verdict = judge(*led, role(3, "n1", "follower", 5, "n1 n2", raised_by="n3"))
    assert (verdict.valid, verdict.anomalies) == ("false", ("followed-stranger",))
    assert verdict.sentence == (
        "Followed a stranger: n1 led term 3 of group 'g' (at 2.000 s in life 1), and went to term 5 because n3 said so "
        "(at 3.000 s in life 1), which is none of the members n1, n2."
    )
    assert verdict.evidence["findings"][0]["by"] == "n3"


def test_m07_the_members_are_those_while_it_led_not_those_of_the_later_term() -> None:
    begun = [role(1, "n1", "leader", 3), members(2, "n1", "n1 n2", at=9)]
    verdict = judge(*begun, role(3, "n1", "follower", 5, "n1 n2", raised_by="n3"))
    assert (verdict.valid, verdict.figures["followed"]) == ("true", 1), "it took the later leader's log over meanwhile"


def test_a_leader_follows_members_and_learners_and_who_does_not_lead_follows_all() -> None:
    verdict = judge(
        role(1, "n1", "leader", 3, "n1 n2 n3 n4"),
        role(2, "n1", "follower", 4, "n1 n2 n3 n4", raised_by="n4"),
        role(3, "n1", "follower", 5, raised_by="n9"),
        role(4, "n2", "leader", 6),
        role(5, "n2", "follower", 6),  # it heard no majority
        role(6, "n2", "follower", 7, raised_by="n9"),
        role(7, "n3", "leader", 8),
        row(8, "n3", "start", life=2, role="follower", term=8),
        role(9, "n3", "follower", 9, life=2, raised_by="n9"),
    )
    assert (verdict.valid, verdict.figures) == ("true", {"removals": 0, "followed": 1, "broken": 0})


def test_the_former_life_of_a_member_is_a_stranger_although_its_node_is_in_again() -> None:
    led = role(1, "n1", "leader", 3, "n1 n2 n3#1")
    assert judge(led, role(2, "n1", "follower", 4, raised_by="n3#1")).valid == "true"
    assert judge(led, role(2, "n1", "follower", 4, raised_by="n3")).anomalies == ("followed-stranger",)


REMOVED = [role(1, "n3", "follower", 3), members(2, "n3", "n1 n2", at=9), knows(3, "n3", 9)]


def stands(time_s: float, node: str, term: int, **fields: Any) -> dict[str, Any]:
    return row(time_s, node, "vote", role="candidate", term=term, leader=node, **fields)


def test_a_node_that_knows_that_its_removal_is_committed_does_not_stand_any_more() -> None:
    verdict = judge(*REMOVED, stands(4, "n3", 4))
    assert (verdict.valid, verdict.anomalies, verdict.figures["removals"]) == ("false", ("removed-stands",), 1)
    assert verdict.sentence == (
        "Removed, and stands: n3 of group 'g' knew in term 3 that its removal is committed (at 3.000 s in life 1), and "
        "voted for itself in term 4 (at 4.000 s in life 1)."
    )
    assert judge(*REMOVED, stands(4, "n3", 4) | {"role": "follower"}).valid == "false", "its role may be news to come"
    assert judge(*REMOVED, role(4, "n3", "leader", 4, "n1 n2")).anomalies == ("removed-stands",)


def test_ra30_until_it_is_committed_a_removed_node_leads_on_and_stands() -> None:
    verdict = judge(
        role(1, "n3", "leader", 3),
        members(2, "n3", "n1 n2", at=9, role="leader"),
        row(3, "n3", role="leader", term=3, commit_index=8),
        stands(4, "n3", 4),
    )
    assert (verdict.valid, verdict.figures["removals"]) == ("true", 0)


@pytest.mark.parametrize(
    "between",
    [
        row(4, "n3", "start", life=2, role="follower", term=3, members="n1 n2", log_index=12, commit_index=0),
        row(4, "n3", "new-member"),
        members(4, "n3", "n1 n2 n3#1", at=11),
    ],
    ids=["it started again", "its data were lost", "it was added again"],
)
def test_who_does_not_know_any_more_or_is_a_member_again_may_stand(between: dict[str, Any]) -> None:
    assert judge(*REMOVED, between, stands(5, "n3", 4, life=between["life"])).valid == "true"


def test_a_removal_is_known_to_be_committed_from_its_own_index_on_by_a_row_of_any_event() -> None:
    removal = REMOVED[:2]
    for event in ("commit", "hash", "role", "stop"):
        assert judge(*removal, {**knows(3, "n3", 8), "event": event}, stands(4, "n3", 4)).valid == "true"
        assert judge(*removal, {**knows(3, "n3", 9), "event": event}, stands(4, "n3", 4)).valid == "false"


def test_the_first_configuration_without_a_node_is_its_removal() -> None:
    later = members(2.5, "n3", "n1", at=12)
    assert judge(*REMOVED[:2], later, knows(3, "n3", 9), stands(4, "n3", 4)).anomalies == ("removed-stands",)


def test_a_removed_node_may_still_vote_for_others_lead_on_in_its_term_and_tell_of_a_later_one() -> None:
    for row_after in (
        stands(4, "n3", 4) | {"leader": "n1"},
        stands(4, "n3", 3),
        role(4, "n3", "leader", 3, "n1 n2"),
        knows(4, "n3", 10, term=4),
        knows(4, "n3", 10, term=4) | {"role": "leader"},
    ):
        assert judge(*REMOVED, row_after).valid == "true"


def test_a_node_whose_name_begins_another_ones_is_removed_all_the_same() -> None:
    rows = [role(1, "n1", "follower", 3, "n1 n2 n10"), members(2, "n1", "n2 n10", at=9), knows(3, "n1", 9)]
    assert judge(*rows, stands(4, "n1", 4)).anomalies == ("removed-stands",)


def test_a_restart_does_not_make_a_node_forget_that_it_was_a_member() -> None:
    begun = [role(1, "n3", "follower", 3), row(2, "n3", "start", life=2, term=3, members=ALL, log_index=4)]
    without = [members(3, "n3", "n1 n2", at=9, life=2), knows(4, "n3", 9, life=2)]
    assert judge(*begun, *without, stands(5, "n3", 4, life=2)).valid == "false"
    unsaid = [begun[0], row(2, "n3", "start", life=2, term=3)]
    assert judge(*unsaid, *without, stands(5, "n3", 4, life=2)).valid == "false"
    another = [begun[0], row(2, "n3", "new-member", life=2), *without, stands(5, "n3", 4, life=2)]
    assert judge(*another).valid == "true", "another member, that has not joined yet"


def test_each_group_has_its_own_members() -> None:
    other = [{**each, "group": "h"} for each in (role(1, "n3", "follower", 3), members(2, "n3", ALL, at=9))]
    assert judge(*REMOVED, *other, stands(4, "n3", 4, group="h")).valid == "true"
    assert judge(*REMOVED, *other, stands(4, "n3", 4)).valid == "false"


def test_a_leader_that_stays_in_its_term_or_started_anew_followed_nobody() -> None:
    led = role(1, "n1", "leader", 3)
    same = judge(led, role(2, "n1", "follower", 3, raised_by="n9"))
    assert (same.valid, same.figures["followed"]) == ("true", 0)
    for event in ("start", "new-member"):
        anew = judge(led, row(2, "n1", event, life=2), role(3, "n1", "follower", 4, raised_by="n9", life=2))
        assert (anew.valid, anew.figures["followed"]) == ("true", 0)
    stepped = judge(led, role(2, "n1", "follower", 3), role(3, "n1", "follower", 4, raised_by="n9"))
    assert (stepped.valid, stepped.figures["followed"]) == ("true", 0)


def test_the_removals_of_all_nodes_are_counted_and_said() -> None:
    also = [
        {**each, "node": "n2", "members": each.get("members") and each["members"].replace("n2", "n3")}
        for each in REMOVED
    ]
    verdict = judge(*REMOVED, {**also[0], "members": ALL}, also[1] | {"members": "n1 n3"}, also[2])
    assert (verdict.valid, verdict.figures["removals"]) == ("true", 2)
    assert verdict.sentence == "2 removed nodes stood in no later term; no leader left its term because of a message."
    followed = [role(5, "n1", "leader", 6, "n1 n2"), role(6, "n1", "follower", 7, "n1 n2", raised_by="n2")]
    assert judge(*REMOVED, *followed).sentence == (
        "1 removed node stood in no later term; 1 leader left its term because of a message, always a member's."
    )
    assert judge(*followed).sentence == (
        "No node knew that it was removed; 1 leader left its term because of a message, always a member's."
    )


def test_a_node_that_has_not_joined_yet_was_not_removed() -> None:
    joins = [role(1, "n4", "follower", 3, log_index=4), knows(2, "n4", 5), members(3, "n4", "n1 n2 n3 n4", at=7)]
    verdict = judge(*joins, stands(4, "n4", 4))
    assert (verdict.valid, verdict.figures["removals"]) == ("true", 0)


@given(telemetries())
def test_old_runs_do_not_say_who_the_members_are_and_nothing_is_made_of_that(rows: list[dict[str, Any]]) -> None:
    verdict = judge(*rows)
    assert (verdict.valid, verdict.sentence) == ("true", "Nothing was judged: no node reported who the members are.")


def test_it_takes_no_options() -> None:
    with pytest.raises(UsageError, match="removed-members takes no options"):
        RemovedMembers().check(told(row(1, "n1")), {"strict": True})

"""A node that knows no leader stands for election in time, if it may."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import pytest

from splitbrain.checkers.consensus import Candidacy
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import UsageError
from splitbrain.results.history import HARNESS, NEMESIS
from tests.checkers.support import Script
from tests.checkers.telemetry import row, told

Noted: TypeAlias = tuple[int, Literal["invoke", "ok", "info"], str, dict[str, Any], float]
"""Process, type, function, value and time in s of an op of the nemesis or the harness."""

START = row(0, "n1", "start", term=1, role="follower", counted="election_max_ms=1000")


def judge(*rows: dict[str, Any], ops: Sequence[Noted] = ()) -> Verdict:
    script = Script()
    for process, kind, f, value, time_s in ops:
        script.event(process, kind, f, value, time_s=time_s)
    return Candidacy().check(script.table(), told(START, *rows), {})


def role(time_s: float, role: str = "follower", leader: str | None = None, **fields: Any) -> dict[str, Any]:
    about: dict[str, Any] = {"term": 1, "role": role, "leader": leader, **fields}
    return row(time_s, "n1", "role", **about)


def timeout(time_s: float, counted: str = "n1=0", index: int = 0, **fields: Any) -> dict[str, Any]:
    about: dict[str, Any] = {"term": 1, "role": "follower", "counted_index": index, "counted": counted, **fields}
    return row(time_s, "n1", "timeout", **about)


# --- waits-on -----------------------------------------------------------------------------------------------------


def busy(time_s: float, counted: str) -> dict[str, Any]:
    return row(time_s, "n1", "busy", term=1, role="leader", leader="n1", counted=counted)


def test_a_leader_that_waits_for_its_successor_for_ever_is_found() -> None:
    verdict = judge(busy(9, "pending=0 most=4096 handing_over_ms=5200"))
    assert verdict.anomalies == ("waits-on",)
    assert verdict.sentence == (
        "Waits on: n1 of group 'g' had asked another member to take over in term 1, and for that refused commands "
        "5.200 s later without a fault of the node (at 9.000 s in life 1); its longest election timeout is 1.000 s."
    )


@pytest.mark.parametrize("why", ["pending=0 most=9 handing_over_ms=5000", "pending=5 most=9 handing_over_ms=9000"])
def test_a_leader_may_wait_for_a_while_and_refuse_what_is_too_much(why: str) -> None:
    assert judge(busy(9.5, why)).valid != "false"


def test_a_leader_that_did_not_run_did_not_wait() -> None:
    refuses = busy(9.5, "pending=0 most=9 handing_over_ms=9000")
    assert judge(refuses, ops=[*nemesis(2, 2.1, "paused", ["n1"]), *nemesis(8, 8.1)]).valid != "false"
    assert judge(refuses, ops=[*nemesis(2, 2.1, "paused", ["n2"]), *nemesis(8, 8.1)]).valid == "false"


# --- no-timeout ---------------------------------------------------------------------------------------------------


def test_a_node_without_a_leader_whose_timer_does_not_run_out_is_found() -> None:
    verdict = judge(role(1), role(6.5, leader="n2", term=2))
    assert (verdict.valid, verdict.anomalies) == ("false", ("no-timeout",))
    assert verdict.sentence == (
        "No election timeout: n1 of group 'g' did not lead and knew no leader in term 1 (at 1.000 s in life 1), and "
        "for 5.500 s without a fault of the node its timer did not run out; its longest timeout is 1.000 s."
    )
    assert verdict.figures == {"stretches": 1, "timeouts": 0, "longest_s": 5.5, "broken": 1}
    assert judge(role(1), role(6, leader="n2", term=2)).valid == "true", "not longer than five timeouts"


def test_a_candidate_that_gives_up_asking_is_found() -> None:
    assert judge(timeout(1), role(1, "pre_candidate"), row(7, "n1", "stop")).anomalies == ("no-timeout",)


@pytest.mark.parametrize("event", ["commit", "stop", "delete"])
def test_only_a_row_that_the_node_wrote_later_shows_that_it_was_alive(event: str) -> None:
    later = row(9, "n1", event, role="follower")
    assert judge(role(1), later, role(9, leader="n2")).valid == "false"
    assert judge(role(1), row(9, "n1", "end"), START | {"life": 2, "time": 10**10}).valid == "true"


@pytest.mark.parametrize(
    "rows",
    [
        [role(1, leader="n2"), role(9)],
        [role(1, "leader", "n1"), role(9)],
        [role(1), timeout(2), role(2, "pre_candidate"), timeout(6, role="pre_candidate"), role(9, leader="n2")],
        [role(1), row(4, "n1", "vote", term=2, role="follower", leader="n2"), role(9, leader="n2")],
    ],
)
def test_who_knows_a_leader_or_votes_or_times_out_is_not_accused(rows: list[dict[str, Any]]) -> None:
    assert judge(*rows).valid == "true"


def test_a_node_that_may_not_stand_starts_no_timer_until_it_knows_a_leader() -> None:
    waits = [timeout(1, ""), role(1.1), role(9, term=2), row(20, "n1", "stop")]
    assert judge(*waits).valid == "true"
    assert judge(*waits[:3], role(10, leader="n2"), role(11), role(19, leader="n2")).anomalies == ("no-timeout",)


def test_without_its_longest_timeout_a_node_is_not_judged() -> None:
    assert Candidacy().check(to_table([]), told(role(1), role(99, leader="n2")), {}).valid == "true"


def nemesis(invoked_s: float, done_s: float, field: str = "", named: Any = (), *, known: bool = True) -> list[Noted]:
    value: dict[str, Any] = {"fault": "pause", "action": "start", "target": "n1", "cut": [], "down": [], "paused": []}
    value |= {field: named} if field else {}
    return [
        (NEMESIS, "invoke", "pause", value, invoked_s),
        (NEMESIS, "ok" if known else "info", "pause", value, done_s),
    ]


def test_a_fault_of_the_node_itself_excuses_it_and_one_of_others_does_not() -> None:
    stretch = [role(1), role(13, leader="n2")]
    for field, nodes in (("paused", ["n1"]), ("disks", ["n1"]), ("clocks", ["n1"]), ("cpus", ["n1"])):
        assert judge(*stretch, ops=nemesis(4, 4.5, field, nodes)).valid == "true"
        assert judge(*stretch, ops=nemesis(4, 4.5, field, ["n2"])).valid == "false"
    assert judge(*stretch, ops=nemesis(4, 4.5, "cut", [["n1", "n2"]])).valid == "false", "a cut is no excuse"
    assert judge(*stretch, ops=nemesis(4, 4.5, known=False)).valid == "true", "nobody knows what it did"
    assert judge(*stretch, ops=[*nemesis(4, 4.5, "paused", ["n1"]), *nemesis(6, 6.5)]).valid == "false"


def test_a_stall_of_the_controller_excuses_all() -> None:
    stall: list[Noted] = [(HARNESS, "info", "stall", {"gap_ms": 5000.0}, 8.0)]
    assert judge(role(1), role(12, leader="n2"), ops=stall).valid == "true"
    stall = [(HARNESS, "info", "stall", {"gap_ms": 1000.0}, 8.0)]
    assert judge(role(1), role(12, leader="n2"), ops=stall).valid == "false"


# --- stood-not ----------------------------------------------------------------------------------------------------


def test_a_voter_whose_timer_ran_out_and_that_does_not_stand_is_found() -> None:
    verdict = judge(timeout(1), role(1))
    assert verdict.anomalies == ("stood-not",)
    assert verdict.sentence == (
        "Stood not: the election timer of n1 of group 'g' ran out in term 1 (at 1.000 s in life 1), by entry 0 of its "
        "log it is a voter, and it did not stand for election."
    )
    assert judge(timeout(1), timeout(2), timeout(3)).figures["broken"] == 2


def test_a_voter_that_does_nothing_at_all_after_its_timer_ran_out_is_found_by_what_it_writes_much_later() -> None:
    assert judge(timeout(1, role="follower"), row(7, "n1", "commit")).anomalies == ("stood-not",)
    assert judge(timeout(1, role="follower"), row(5, "n1", "commit")).valid == "true"


def test_one_that_does_not_know_that_its_removal_is_committed_must_stand() -> None:
    verdict = judge(timeout(1, "n1#1=3", 8, commit_index=7), role(1))
    assert verdict.anomalies == ("stood-not",)
    assert "entry 8, by which it is none any more, was not committed as far as it knew (up to 7)" in verdict.sentence
    assert judge(timeout(1, "n1#1=3", 8, commit_index=8), role(1)).valid == "true"


@pytest.mark.parametrize("stands", ["pre_candidate", "candidate", "leader"])
def test_who_stands_is_not_accused(stands: str) -> None:
    verdict = judge(timeout(1), row(1, "n1", "commit"), role(1, stands))
    assert (verdict.valid, verdict.figures["timeouts"]) == ("true", 1)


def test_a_node_that_is_alone_votes_for_itself_at_once() -> None:
    vote = row(1, "n1", "vote", term=2, role="leader", leader="n1")
    assert judge(timeout(1), vote, role(1, "leader", "n1", term=2)).valid == "true"


def test_a_candidate_whose_timer_ran_out_goes_on_without_a_row() -> None:
    assert judge(timeout(1, role="pre_candidate"), timeout(2, role="pre_candidate")).valid == "true"


def test_a_node_that_ended_at_that_moment_is_not_accused() -> None:
    assert judge(timeout(1), row(1, "n1", "end"), row(2, "n1", "start", life=2)).valid == "true"


def test_without_rows_nothing_is_judged() -> None:
    assert judge().sentence == ("Nothing was judged: no node that reports its election timeouts was without a leader.")


def test_candidacy_has_no_options() -> None:
    with pytest.raises(UsageError, match="candidacy takes no options"):
        Candidacy().check(to_table([]), told(), {"x": 1})


# --- not-random ---------------------------------------------------------------------------------------------------


def ran_out(*took_s: float) -> list[dict[str, Any]]:
    """A node whose timer runs out again and again; which times it ran."""
    at_s = 1.0
    rows = [role(at_s)]
    for each in took_s:
        at_s += each
        rows.append(timeout(at_s, role="pre_candidate"))
    return rows


def test_timers_that_all_run_for_the_same_time_are_found() -> None:
    verdict = judge(*ran_out(*[0.5, 0.505] * 5))
    assert (verdict.valid, verdict.anomalies) == ("false", ("not-random",))
    assert verdict.sentence == (
        "Not random: 10 of 10 election timers ran out 0.500 to 0.505 s after they were started, on n1; voters that "
        "lost their leader stand at the same moment."
    )


@pytest.mark.parametrize(
    ("took_s", "found"),
    [
        ([0.5] * 9, False),
        ([0.5] * 10, True),
        ([*[0.5] * 8, 0.7, 0.9], True),
        ([*[0.5] * 7, 0.6, 0.7, 0.9], False),
        ([0.5 + 0.02 * each for each in range(20)], False),
        ([0.6, *[0.9] * 9], True),
    ],
)
def test_three_quarters_of_ten_timers_or_more_are_no_chance(took_s: list[float], found: bool) -> None:
    assert (judge(*ran_out(*took_s)).anomalies == ("not-random",)) is found


def test_timers_of_nodes_with_other_timeouts_are_compared_by_their_share() -> None:
    def of(node: str, longest_ms: int) -> list[dict[str, Any]]:
        begins = START | {"node": node, "counted": f"election_max_ms={longest_ms}"}
        scaled = ran_out(*[longest_ms / 2_000] * 5)
        return [begins, *({**each, "node": node} for each in scaled)]

    both = [*of("n1", 1_000), *of("n2", 3_000)]
    assert Candidacy().check(to_table([]), told(*both), {}).anomalies == ("not-random",)


def test_random_timers_are_seldom_alike() -> None:
    rng = random.Random(5)
    for _ in range(300):
        assert not judge(*ran_out(*[rng.uniform(0.5, 1.0) for _ in range(10)])).anomalies

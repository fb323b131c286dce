"""Checkers of strategies for partitions, on rows written by hand: what each finds, and what excuses a node."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.consensus.rows import every_row, rows
from splitbrain.checkers.registry import checker
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.cluster.twostores.replica import GROUP
from splitbrain.results.errors import UsageError
from splitbrain.results.history import HARNESS, NEMESIS
from splitbrain.results.telemetry import STRATEGY_CHECKERS, TABLES, of_consensus
from tests.checkers.support import Script
from tests.checkers.telemetry import row, told
from tests.cluster.tables.recorded import partition, start

ALONE = [("n1", "n2"), ("n1", "n3"), ("n2", "n1"), ("n3", "n1")]
ALL = "n1 n2 n3"


def starts(strategy: str, *listed: str) -> list[dict[str, Any]]:
    return [start(0, node, strategy, "net_tick_ms=1000 nodes=3", listed) for node in ALL.split()]


def seen(
    time_s: float, node: str, members: str, role: str = "running", event: str = "sees", **more: Any
) -> dict[str, Any]:
    return row(time_s, node, event, role=role, members=members, group=None, **more)


def script(*cuts: tuple[float, list[tuple[str, str]]], end_s: float = 60) -> Script:
    made = Script()
    for time_s, links in cuts:
        partition(made, time_s, links)
    made.event(HARNESS, "info", "over", {}, time_s=end_s)
    return made


def judge(name: str, rows: list[dict[str, Any]], made: Script | None = None) -> Verdict:
    found = checker(name)
    assert found.partition == "whole run"
    ordered = sorted(rows, key=lambda each: each["time"])
    return found.check((made or script((10, ALONE), (20, []))).table(), told(*ordered), {})


def minority(*rows: dict[str, Any], made: Script | None = None) -> Verdict:
    return judge("strategy-pause-minority", [*starts("pause-minority"), *rows], made)


PAUSED = [seen(11, "n1", "n1", "stopped", "pauses"), seen(11, "n1", "n1", "stopped")]


def test_a_node_that_is_alone_and_stops_keeps_the_promise() -> None:
    verdict = minority(*PAUSED, seen(21, "n1", ALL, "waiting"))
    assert (verdict.valid, verdict.figures["pauses"]) == ("true", 1)


def test_one_that_serves_on_breaks_it_and_the_sentence_has_strategy_and_window() -> None:
    verdict = minority(seen(11, "n1", "n1"))
    assert verdict.sentence == (
        "Did not pause: n1 saw n1 of 3 nodes (at 11.000 s in life 1), half of all nodes or fewer, and went on serving; "
        "strategy pause-minority; partition of n1 | n2,n3 from 10.0 s to 20.0 s."
    )
    assert verdict.anomalies == ("did-not-pause",)


def test_one_that_stops_without_need_or_does_not_start_again_breaks_it() -> None:
    assert minority(seen(11, "n1", "n1 n2", "stopped", "pauses")).anomalies == ("paused-in-vain",)
    stays = [*PAUSED, seen(21, "n1", "n1 n2", "stopped"), seen(26.5, "n1", "n1 n2", "stopped", "look")]
    assert minority(*stays).anomalies == ("stayed-paused",)
    assert minority(*PAUSED, seen(21, "n1", "n1 n2", "stopped"), seen(25.5, "n1", ALL, "waiting")).valid == "true"


def test_a_pause_of_the_node_itself_excuses_a_late_start() -> None:
    made = script((10, ALONE), (20, []))
    value = {"fault": "pause", "action": "start", "target": "n1", "cut": [], "down": [], "paused": ["n1"]}
    made.event(NEMESIS, "invoke", "pause", value, time_s=60)
    made.event(NEMESIS, "ok", "pause", value, time_s=60)
    late = [*PAUSED, seen(61, "n1", "n1 n2", "stopped"), seen(69, "n1", "n1 n2", "stopped", "look")]
    assert minority(*late, made=made).valid == "true"
    assert minority(*late).anomalies == ("stayed-paused",)


def test_an_answer_of_a_node_that_has_stopped_is_found() -> None:
    made = script((10, ALONE))
    made.event(0, "invoke", "read", node="n1", key="k", time_s=60)
    made.event(0, "ok", "read", 3, node="n1", key="k", time_s=61)
    stopped = [*PAUSED, seen(70, "n1", "n1", "stopped", "look")]
    assert minority(*stopped, made=made).anomalies == ("answered",)
    assert minority(*PAUSED, seen(60.5, "n1", ALL, "waiting"), made=made).valid == "true", "it started meanwhile"


@pytest.mark.parametrize(("term", "anomalies"), [(0, ("answered",)), (3, ()), (None, ())])
def test_only_answers_of_tables_count_on_a_node_that_has_consensus_too(
    term: int | None, anomalies: tuple[str, ...]
) -> None:
    made = script((10, ALONE))
    made.event(0, "invoke", "declare-entity", node="n1", time_s=60)
    made.event(0, "ok", "declare-entity", node="n1", term=term, time_s=61)
    rows = [*starts("pause-minority"), *PAUSED, seen(70, "n1", "n1", "stopped", "look")]
    beside = [{**each, "group": TABLES} for each in rows]
    consensus = [row(time_s, node, "role", term=1, role="leader") for time_s in (1, 65) for node in ALL.split()]
    assert judge("strategy-pause-minority", [*beside, *consensus], made).anomalies == anomalies


def test_checkers_of_consensus_leave_out_what_tables_report() -> None:
    tables = [{**each, "group": TABLES} for each in [*starts("ignore"), seen(11, "n1", "n1")]]
    consensus = [row(time_s, "n1", "commit", term=1, role="leader") for time_s in (1, 2)]
    telemetry = told(*tables, *consensus)
    assert [each.event for each in rows(telemetry)] == ["commit", "commit"]
    assert [each.event for each in every_row(telemetry)] == ["commit", "commit"]
    assert of_consensus(telemetry)["event"].to_pylist() == ["commit", "commit"]
    assert of_consensus(told(*consensus)).num_rows == 2
    assert TABLES == GROUP, "a node writes what checkers look for"


def test_a_partial_partition_stops_a_node_until_it_sees_all() -> None:
    partial = seen(12, "n1", "n1 n3", event="partial", leader="n3", raised_by="n2")
    stops = [partial, seen(12, "n1", "n1 n3", "stopped", "pauses"), seen(12, "n1", "n1 n3", "stopped")]
    assert minority(*PAUSED, partial, seen(13, "n1", "n1 n3")).anomalies == ("served-in-partial",)
    assert minority(*stops, seen(30, "n1", "n1 n3", "stopped", "look")).valid == "unknown", "no minority was seen"
    assert minority(*stops, seen(30, "n1", "n1 n3", "waiting", "resumes")).anomalies == ("resumed-too-soon",)
    assert "resumed-too-soon" not in minority(*stops, seen(30, "n1", ALL, "waiting", "resumes")).anomalies


def all_down(*rows: dict[str, Any]) -> Verdict:
    return judge("strategy-pause-if-all-down", [*starts("pause-if-all-down-ignore", "n1"), *rows])


def test_pause_if_all_down_asks_for_a_listed_node_and_for_no_majority() -> None:
    assert all_down(seen(11, "n1", "n1"), seen(11, "n2", "n2 n3")).anomalies == ("did-not-pause",)
    assert all_down(seen(11, "n2", "n2 n3", "stopped", "pauses"), seen(11, "n2", "n2 n3", "stopped")).valid == "true"
    assert all_down(seen(11, "n1", "n1", "stopped", "pauses")).anomalies == ("paused-in-vain",)


# --- autoheal -----------------------------------------------------------------------------------------------------


def answers(time_s: float, clients: dict[str, int], by: str = "n1", alive: str = ALL) -> list[dict[str, Any]]:
    apart = {"n1": "n2=1 n3=1", "n2": "n1=1", "n3": "n1=1"}
    return [
        row(time_s, by, "answers", members=alive, counted=apart[node], applied_count=number, leader=node, group=None)
        for node, number in clients.items()
    ]


def decides(time_s: float, winner: str, losers: str, by: str = "n1") -> dict[str, Any]:
    return row(time_s, by, "decides", role="running", members=losers, leader=winner, group=None)


def autoheal(*rows: dict[str, Any], made: Script | None = None) -> Verdict:
    return judge("strategy-autoheal", [*starts("autoheal"), *(seen(1, node, ALL) for node in ALL.split()), *rows], made)


EQUAL = {"n1": 1, "n2": 1, "n3": 1}


def loses(time_s: float, node: str, winner: str) -> dict[str, Any]:
    return seen(time_s, node, ALL, "stopped", "loses", leader=winner)


def serves(time_s: float, node: str, of: str) -> list[dict[str, Any]]:
    return [seen(time_s, node, ALL), seen(time_s, node, ALL, event="serves", leader=of)]


HEALED = [*answers(22, EQUAL), decides(22, "n2", "n1"), loses(22.1, "n1", "n2"), *serves(24, "n1", "n2")]


def test_a_heal_by_the_rules_passes() -> None:
    verdict = autoheal(*HEALED)
    assert (verdict.valid, verdict.figures["decisions"], verdict.figures["restarts"]) == ("true", 1, 1)


@pytest.mark.parametrize(
    ("clients", "winner", "losers"),
    [
        ({"n1": 3, "n2": 1, "n3": 1}, "n1", "n2 n3"),
        ({"n1": 2, "n2": 1, "n3": 1}, "n2", "n1"),
        ({"n1": 0, "n2": 0, "n3": 0}, "n2", "n1"),
    ],
)
def test_most_clients_win_then_most_nodes(clients: dict[str, int], winner: str, losers: str) -> None:
    decided = [*answers(22, clients), decides(22, winner, losers)]
    assert "wrong-winner" not in autoheal(*decided).anomalies
    other = ("n2", "n1") if winner == "n1" else ("n1", "n2 n3")
    assert "wrong-winner" in autoheal(*answers(22, clients), decides(22, *other)).anomalies


def test_who_decides_and_on_what_is_judged() -> None:
    assert "wrong-leader" in autoheal(*answers(22, EQUAL, by="n2"), decides(22, "n2", "n1", by="n2")).anomalies
    assert "decided-blind" in autoheal(*answers(22, EQUAL, alive="n1 n2"), decides(22, "n2", "n1")).anomalies
    assert "decided-blind" in autoheal(*answers(22, EQUAL)[1:], decides(22, "n2", "n1")).anomalies


def test_a_restart_needs_a_decision_that_this_node_loses() -> None:
    assert autoheal(loses(22, "n1", "n2")).anomalies == ("restarted-undecided",)
    assert autoheal(*HEALED, loses(23, "n3", "n2")).anomalies == ("winner-restarted",)
    assert autoheal(*HEALED, seen(23, "n2", ALL, "stopped", "pauses")).anomalies == ("winner-restarted",)


def test_a_loser_must_restart_with_tables_of_another_node() -> None:
    decided = [*answers(22, EQUAL), decides(22, "n2", "n1")]
    later = [seen(50, node, ALL, event="look") for node in ALL.split()]
    assert autoheal(*decided, *later).anomalies == ("loser-ran-on",)
    assert autoheal(*decided).valid == "true", "the run was over before"
    assert autoheal(*decided, *later, made=script((10, ALONE), (20, []), (25, ALONE))).valid == "true", "a new cut"
    stopped = [*decided, loses(22.1, "n1", "n2")]
    assert autoheal(*stopped, seen(50, "n2", ALL, event="look")).anomalies == ("loser-stayed-down",)
    assert autoheal(*stopped, *serves(24, "n1", "n1")).anomalies == ("kept-own-tables",)
    assert autoheal(*stopped, seen(23, "n2", ALL, "stopped"), *serves(24, "n1", "n1")).valid == "true", "no winner ran"


@pytest.mark.parametrize("blind", [("n1", "n2"), ("n2", "n1")])
def test_a_loser_that_loses_the_winner_before_it_has_its_tables_may_serve_its_own(blind: tuple[str, str]) -> None:
    """RabbitMQ's loser starts what it has when the winner goes down. That one of the two saw the other down is enough:
    the other one may see the end of a session and its successor at once."""
    node, other = blind
    stopped = [*answers(22, EQUAL), decides(22, "n2", "n1"), loses(22.1, "n1", "n2")]
    role = "stopped" if node == "n1" else "running"
    lost = seen(23, node, " ".join(set(ALL.split()) - {other}), role)
    again = seen(23.5, node, ALL, role)
    assert autoheal(*stopped, lost, again, *serves(24, "n1", "n1")).valid == "true"
    assert autoheal(*stopped, again, *serves(24, "n1", "n1")).anomalies == ("kept-own-tables",)


def test_nodes_that_run_apart_and_see_each_other_must_be_healed_in_time() -> None:
    apart = [seen(time_s, "n1", ALL, counted="n2=1", event="look") for time_s in (30, 40, 50, 56)]
    verdict = autoheal(*apart, made=script((10, ALONE), (20, []), end_s=20))
    assert verdict.anomalies == ("no-heal",)
    assert "n1 ran apart from n2, and nothing was decided in 26.0 s" in verdict.sentence
    assert autoheal(*apart[:3], made=script((10, ALONE), (20, []), end_s=20)).valid == "unknown"


# --- ignore -------------------------------------------------------------------------------------------------------


def ignore(*rows: dict[str, Any], made: Script | None = None) -> Verdict:
    return judge("strategy-ignore", [*starts("ignore"), *rows], made)


def test_ignore_stops_nothing_and_makes_partial_partitions_whole() -> None:
    apart = seen(21, "n1", ALL, counted="n2=1 n3=1")
    partial = seen(12, "n1", "n1 n3", event="partial", leader="n3", raised_by="n2")
    assert ignore(apart).valid == "true"
    assert ignore(apart, seen(22, "n1", ALL, "stopped", "pauses")).anomalies == ("stopped-by-itself",)
    assert ignore(apart, partial, seen(13, "n1", "n1 n3", event="look")).anomalies == ("left-partial",)
    assert ignore(apart, partial, seen(13, "n1", "n1")).valid == "true"


# --- apart --------------------------------------------------------------------------------------------------------


def apart(*rows: dict[str, Any], made: Script | None = None) -> Verdict:
    return judge("strategy-apart", [*starts("ignore"), *rows], made)


LOST = [
    *(seen(1, node, ALL) for node in ALL.split()),
    seen(12, "n1", "n1"),
    seen(12, "n2", "n2 n3"),
    seen(12, "n3", "n2 n3"),
    *(seen(21, node, ALL) for node in ALL.split()),
]


def test_nodes_that_lost_each_other_and_ran_on_must_say_that_they_run_apart() -> None:
    end = [seen(40, node, ALL, event="look") for node in ALL.split()]
    said = [
        seen(22, "n1", ALL, counted="n2=1 n3=1"),
        *(seen(22, node, ALL, counted="n1=1") for node in ("n2", "n3")),
    ]
    kept = [seen(40, each["node"], ALL, event="look", counted=each["counted"]) for each in said]
    assert apart(*LOST, *said, *kept).valid == "true"
    verdict = apart(*LOST, *end)
    assert verdict.anomalies == ("unnoticed",)
    assert "n1 and n2 had lost each other" in verdict.sentence
    assert apart(*LOST, *end, made=script((10, ALONE), (20, []), (25, ALONE))).valid == "unknown", "a new cut"
    again = [seen(23, node, ALL, "waiting") for node in ("n2", "n3")]
    assert apart(*LOST, *again, *end).valid == "unknown", "they restarted"


def test_a_node_that_runs_apart_must_not_forget_it() -> None:
    said = seen(22, "n1", ALL, counted="n2=1 n3=1")
    others = [seen(22, node, ALL, counted="n1=1") for node in ("n2", "n3")]
    verdict = apart(*LOST, said, *others, seen(30, "n1", ALL, counted="n3=1"))
    assert verdict.anomalies == ("forgotten",)
    again = [seen(30, "n1", ALL, counted="n3=1"), seen(31, "n1", ALL, counted="n2=1 n3=1")]
    assert apart(*LOST, said, *others, *again).valid == "true", "it was found again, and had not said yet that it runs"
    restarted = [seen(25, "n2", ALL, "waiting"), seen(26, "n2", ALL)]
    assert apart(*LOST, said, *others, *restarted, seen(30, "n1", ALL, counted="n3=1")).valid == "true"
    lost_again = [seen(24, "n1", "n1 n3", counted="n3=1"), seen(30, "n1", ALL, counted="n3=1")]
    assert "forgotten" not in apart(*LOST, said, *others, *lost_again).anomalies


# --- down ---------------------------------------------------------------------------------------------------------

ONE_WAY = [("n2", "n1")]
BEGUN = [seen(1, node, ALL) for node in ALL.split()]


def ended(time_s: float, node: str, other: str, silent_ms: int, **more: Any) -> dict[str, Any]:
    left = " ".join(each for each in ALL.split() if each != other)
    return seen(time_s, node, left, event="lost", leader=other, applied_count=silent_ms, **more)


def down(*rows: dict[str, Any], made: Script | None = None) -> Verdict:
    """The tick time is 1 s, and n1 is cut off from 10 s to 20 s."""
    later = [seen(50, node, ALL, event="look") for node in ALL.split()]
    return judge("strategy-down", [*starts("ignore"), *BEGUN, *rows, *later], made)


NOTICED = [
    ended(11.2, "n1", "n2", 1200),
    ended(11.2, "n1", "n3", 1200),
    *(seen(11.2, node, left) for node, left in (("n1", "n1"), ("n2", "n2 n3"), ("n3", "n2 n3"))),
    *(seen(21, node, ALL) for node in ALL.split()),
]


def test_a_node_is_taken_for_down_once_it_was_silent_for_longer_than_the_tick_time() -> None:
    verdict = down(*NOTICED)
    assert (verdict.valid, verdict.figures["lost"], verdict.figures["silent"]) == ("true", 2, 2)
    verdict = down(*NOTICED, ended(30, "n2", "n3", 1000))
    assert verdict.anomalies == ("too-early",)
    assert verdict.sentence.startswith(
        "Too early: n2 took n3 for down 1 s after it had last heard of it (at 30.000 s in life 1), and its tick time "
        "is 1 s; n3 ran on, and had not lost n2 before"
    )
    assert down(*NOTICED, ended(30, "n2", "n3", 1001)).valid == "true"


def test_of_two_that_lost_each_other_too_early_the_first_is_named() -> None:
    verdict = down(*NOTICED, ended(30, "n3", "n2", 500), ended(30.01, "n2", "n3", 20))
    assert (verdict.anomalies, verdict.figures["broken"]) == (("too-early",), 1)
    assert "n3 took n2 for down" in verdict.sentence


def test_a_session_that_the_other_side_ended_for_a_reason_ends_at_any_time() -> None:
    assert down(*NOTICED, ended(30, "n3", "n2", 1100), ended(30.01, "n2", "n3", 20)).valid == "true"
    assert down(*NOTICED, ended(33, "n2", "n3", 20), ended(30, "n3", "n2", 1100)).valid == "true", "it was on its way"
    before = [ended(25, "n2", "n3", 1100), seen(25, "n2", "n1 n2"), seen(26, "n2", ALL)]
    assert down(*NOTICED, ended(25, "n3", "n2", 1100), *before, ended(30, "n2", "n3", 20)).anomalies == ("too-early",)


def test_a_session_with_a_process_that_ends_ends_at_any_time() -> None:
    made = ended(30, "n2", "n3", 20)
    assert down(*NOTICED, made, seen(29.9, "n3", ALL, event="end")).anomalies == ("too-early",), "it wrote more later"
    again = [seen(40, "n3", ALL, life=2), seen(50, "n3", ALL, event="look", life=2)]
    rows = [*starts("ignore"), *BEGUN, *NOTICED, made, seen(29.9, "n3", ALL, event="end"), *again]
    assert judge("strategy-down", rows).valid == "true"


def test_a_process_that_restarts_as_soon_as_a_session_with_it_begins_ends_that_session_soon_and_no_later_one() -> None:
    before = [ended(29, "n2", "n3", 1100), seen(29, "n2", "n1 n2"), ended(29, "n3", "n2", 1100), seen(30, "n2", ALL)]
    again = [seen(30.01, "n3", ALL, life=2), seen(50, "n3", ALL, event="look", life=2)]
    rows = [*starts("ignore"), *BEGUN, *NOTICED, *before, *again]
    assert judge("strategy-down", [*rows, ended(30.1, "n2", "n3", 60), seen(50, "n2", ALL)]).valid == "true"
    assert judge("strategy-down", [*rows, ended(40, "n2", "n3", 60)]).anomalies == ("too-early",)


def test_a_session_that_is_ended_on_purpose_ends_at_any_time() -> None:
    told = seen(30, "n2", "n2 n3", event="partial", leader="n3", raised_by="n1")
    assert down(*NOTICED, told, ended(30, "n2", "n3", 20), ended(30.01, "n3", "n2", 30)).valid == "true"
    assert down(*NOTICED, told, ended(31, "n2", "n3", 20)).anomalies == ("too-early",), "not for that partial partition"


@pytest.mark.parametrize(("links", "by"), [(ALONE, {"n1", "n2", "n3"}), (ONE_WAY, {"n1"})])
def test_a_node_that_still_sees_one_of_which_nothing_came_did_not_notice(
    links: list[tuple[str, str]], by: set[str]
) -> None:
    verdict = down(made=script((10, links), (20, [])))
    assert verdict.anomalies == ("did-not-notice",)
    assert {each["by"] for each in verdict.evidence["findings"]} == by
    assert down(*NOTICED, made=script((10, links), (20, []))).valid == "true"
    assert down(made=script((10, links), (13, []))).valid == "unknown", "too short"


def test_a_node_that_did_not_live_through_the_cut_is_not_accused_of_not_noticing() -> None:
    begun = [*starts("ignore"), *BEGUN]
    ended = [seen(12, node, ALL, event="end") for node in ALL.split()]
    assert judge("strategy-down", [*begun, *ended]).valid == "unknown"
    crashed = script((10, ALONE), (20, []), end_s=60)
    for node in ALL.split():
        crashed.event(HARNESS, "info", "crash", {"node": node}, time_s=60)
    assert judge("strategy-down", begun, crashed).valid == "unknown", "when it ended nobody knows"


# --- partial partitions that nobody acts upon -----------------------------------------------------------------------

PARTLY = [("n1", "n2"), ("n2", "n1")]
LOSES = [*BEGUN, seen(12, "n1", "n1 n3"), seen(12, "n2", "n2 n3")]


def partly(*rows: dict[str, Any], made: Script | None = None) -> bool:
    """Whether nobody acted, where n1 and n2 lose each other at 12 s, and n3 sees both: they have 8 s with 1 s ticks."""
    made = script((10, PARTLY), (40, [])) if made is None else made
    return "partial-unseen" in judge("strategy-ignore", [*starts("ignore"), *LOSES, *rows], made).anomalies


def test_of_three_nodes_one_must_act_where_two_lost_each_other_and_the_third_sees_both() -> None:
    assert partly()
    assert partly(seen(25, "n1", "n1"), seen(25, "n2", "n2")), "too late"


@pytest.mark.parametrize(
    "rows",
    [
        [seen(14, "n1", "n1"), seen(14, "n2", "n2")],
        [seen(14, "n1", "n1 n3", "stopped"), seen(14, "n2", "n2 n3", "stopped")],
        [seen(14, "n3", "n2 n3"), seen(15, "n3", ALL)],
        [seen(19, "n1", ALL), seen(19, "n2", ALL)],
        [seen(13, "n3", ALL, event="end")],
        [seen(21, "n1", "n1"), seen(21, "n2", "n2")],
    ],
    ids=["disconnects", "stops", "third lost one", "sees it again", "third ended", "third may have ended in time"],
)
def test_nobody_need_act_or_somebody_has_acted(rows: list[dict[str, Any]]) -> None:
    assert not partly(*rows)


def test_another_process_of_what_was_lost_is_not_asked_for() -> None:
    """n2 started again before n1 lost its former process: n3 sees the new one alone."""
    again = [seen(11, "n2", "n2", life=2), seen(11.5, "n2", "n2 n3", life=2), seen(50, "n2", ALL, event="look", life=2)]
    rows = [*starts("ignore"), *BEGUN, seen(12, "n1", "n1 n3"), *again]
    assert "partial-unseen" not in judge("strategy-ignore", rows, script((10, PARTLY), (40, []))).anomalies


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ({"links": [["n1", "n2"]]}, True),
        ({"links": [["n3", "n1"], ["n3", "n2"]]}, False),
        ({"paused": ["n3"]}, False),
        ({"down": None}, False),
    ],
)
def test_whoever_may_not_have_heard_the_question_is_excused(fault: dict[str, Any], found: bool) -> None:
    made = script((10, PARTLY))
    value = {"fault": "packet", "action": "start", "target": "n3", "cut": PARTLY, "down": [], "paused": [], **fault}
    made.event(NEMESIS, "invoke", "packet", value, time_s=60)
    made.event(NEMESIS, "ok", "packet", value, time_s=60)
    late = [seen(62, "n1", "n1 n3"), seen(62, "n2", "n2 n3")]
    begun = [*starts("ignore"), *BEGUN]
    made.event(HARNESS, "info", "over", {}, time_s=100)
    assert ("partial-unseen" in judge("strategy-ignore", [*begun, *late], made).anomalies) == found


# --- what is inconclusive, and the context of other verdicts ----------------------------------------------------------


@pytest.mark.parametrize("name", STRATEGY_CHECKERS)
def test_without_a_cut_without_its_effect_and_without_telemetry_nothing_is_proven(name: str) -> None:
    names = {"strategy-pause-if-all-down": "pause-if-all-down-ignore", "strategy-down": "ignore"}
    strategy = names.get(name, name.removeprefix("strategy-"))
    rows = starts(strategy, *(["n1"] if "all-down" in strategy else []))
    codes = [
        judge(name, rows, script()).inconclusive,
        judge(name, rows).inconclusive,
        judge(name, rows[1:]).inconclusive,
    ]
    assert [[reason.code for reason in each] for each in codes] == [
        ["fault-did-not-bite"],
        ["no-occasion"],
        ["no-telemetry"],
    ]


@pytest.mark.parametrize("name", STRATEGY_CHECKERS)
def test_there_are_no_options(name: str) -> None:
    with pytest.raises(UsageError, match="takes no options"):
        engine.judge(script().table(), [CheckerSpec(name, {"x": 1})], told(*starts("ignore")))


def lost(telemetry: pa.Table) -> Verdict:
    made = script((10, ALONE), (20, []))
    made.event(0, "invoke", "create", 1, key="k", node="n1", time_s=62)
    made.event(0, "ok", "create", 1, key="k", node="n1", time_s=63)
    made.event(1, "invoke", "read", key="k", node="n2", time_s=64)
    made.event(1, "ok", "read", None, key="k", node="n2", time_s=65)
    [verdict] = engine.judge(made.table(), [CheckerSpec("declare")], telemetry)
    return verdict


def test_a_lost_declaration_names_the_strategy_and_the_partition() -> None:
    verdict = lost(told(*starts("autoheal")))
    assert verdict.sentence == (
        "Vanished: key 'k' was created as 1 by n1 at 63.000 s, but the read that began at 64.000 s found nothing: n2 "
        "at 65.000 s. Strategy autoheal; partition of n1 | n2,n3 from 10.0 s to 20.0 s."
    )
    assert verdict.evidence["strategy"] == "autoheal"


def test_a_run_of_another_system_has_no_such_words() -> None:
    assert lost(told(row(0, "n1", "start", term=1, counted="election_max_ms=1000"))).sentence.endswith("65.000 s.")


def lost_by_tables() -> Script:
    """A client declares a queue, and looks for it in vain, the last time at 25 s; no link is ever cut."""
    made = Script()
    said: list[tuple[int, str, Any, dict[str, Any]]] = [
        (1, "declare-entity", ["queue", "v0", "q0"], {"store": "tables"}),
        (24, "look-at-entities", None, {"store": "tables", "entities": []}),
    ]
    for at_s, f, value, answer in said:
        made.event(0, "invoke", f, value, time_s=at_s)
        made.event(0, "ok", f, answer, time_s=at_s + 1)
    made.event(HARNESS, "info", "over", {}, time_s=60)
    return made


@pytest.mark.parametrize(
    ("noticed_s", "said"),
    [
        (13, "Strategy ignore; no partition before it, but n1 had taken n2 for down at 13.0 s."),
        (26, "Strategy ignore; no partition before it, and no node had taken another one for down."),
    ],
)
def test_a_loss_without_a_cut_says_whether_nodes_had_taken_others_for_down(noticed_s: float, said: str) -> None:
    """A node that is paused for longer than the tick time is lost to the others, though no link is cut."""
    rows = [*starts("ignore"), seen(2, "n1", ALL), seen(noticed_s, "n1", "n1 n3"), seen(noticed_s + 1, "n1", "n1 n3")]
    [verdict] = engine.judge(lost_by_tables().table(), [CheckerSpec("migration")], told(*rows))
    assert verdict.anomalies == ("lost",)
    assert verdict.sentence.endswith(said)

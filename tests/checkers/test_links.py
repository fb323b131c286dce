"""Nodes that run, and that no fault keeps apart, connect to each other in time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from splitbrain.checkers.links import Links
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.errors import HistoryFormatError, UsageError
from splitbrain.results.history import HARNESS, NEMESIS
from tests.checkers.support import Script
from tests.checkers.telemetry import row, told

END_S = 40.0
MEMBERS = "n1 n2 n3"


def start(node: str, time_s: float = 0.0, *, life: int = 1, members: str = MEMBERS) -> dict[str, Any]:
    return row(time_s, node, "start", life=life, members=members)


def link(time_s: float, counted: str, node: str = "n1", *, life: int = 1) -> dict[str, Any]:
    return row(time_s, node, "link", life=life, counted=counted)


def alive(time_s: float, node: str, *, life: int = 1, group: str = "g") -> dict[str, Any]:
    return row(time_s, node, "commit", life=life, group=group)


def fault(script: Script, begin_s: float, end_s: float) -> None:
    cut: dict[str, Any] = {
        "fault": "partition",
        "action": "start",
        "target": "n1",
        "cut": [["n1", "n2"]],
        "down": [],
        "paused": [],
    }
    heal: dict[str, Any] = {"fault": "partition", "action": "stop", "target": "n1", "cut": [], "down": [], "paused": []}
    for value, at_s in ((cut, begin_s), (heal, end_s)):
        script.event(NEMESIS, "invoke", "partition", value, time_s=at_s)
        script.event(NEMESIS, "ok", "partition", value, time_s=at_s)


def judge(
    *rows: dict[str, Any],
    faults: Sequence[tuple[float, float]] = (),
    stalls: Sequence[tuple[float, float]] = (),
    clocks: dict[str, Any] | None = None,
    **options: Any,
) -> Verdict:
    script = Script()
    if clocks is not None:
        script.event(HARNESS, "info", "clocks", clocks, time_s=0.0)
    script.event(0, "invoke", "read", time_s=0.0)
    for begin_s, end_s in faults:
        fault(script, begin_s, end_s)
    for gap_s, at_s in stalls:
        script.event(HARNESS, "info", "stall", {"gap_ms": 1000 * gap_s}, time_s=at_s)
    script.event(0, "ok", "read", time_s=END_S)
    return Links().check(script.table(), told(*sorted(rows, key=lambda each: each["time"])), options)


BOTH = (start("n1"), start("n2"), alive(END_S, "n1"), alive(END_S, "n2"))
DOWN = (*BOTH, link(10.0, "n2=0 n3=1"), link(16.0, "n2=1 n3=1"))


def test_two_nodes_that_run_without_a_connection_are_found() -> None:
    verdict = judge(*DOWN)
    assert (verdict.valid, verdict.anomalies) == ("false", ("not-connected",))
    assert verdict.sentence == (
        "Not connected: n1 had no connection to n2 from 10.000 s to 16.000 s, although both ran and no fault was in "
        "force for these 6.000 s."
    )
    assert verdict.figures == {"stretches": 1, "longest_s": 6.0, "broken": 1}


def test_the_limit_is_an_option() -> None:
    assert judge(*DOWN, limit_s=6).valid == "true"
    assert judge(*DOWN, limit_s=5.9).valid == "false"


@pytest.mark.parametrize("options", [{"limit_s": 0}, {"limit_s": "5"}, {"bound_s": 5}])
def test_a_wrong_option_is_named(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"checker links: .*limit_s"):
        judge(*DOWN, **options)


def test_a_node_that_never_connects_is_found() -> None:
    assert judge(*BOTH, link(10.0, "n3=1")).anomalies == ("not-connected",), "it does not even want a link"
    assert judge(*BOTH, link(10.0, "n2=0 n3=1")).anomalies == ("not-connected",)


def test_time_counts_from_the_end_of_a_fault() -> None:
    assert judge(*DOWN, faults=[(9.0, 11.5)]).valid == "true"
    assert judge(*DOWN, faults=[(9.0, 10.5)]).valid == "false"


def test_a_fault_that_is_never_healed_excuses_to_the_end() -> None:
    script = Script()
    value = {"fault": "partition", "action": "start", "target": "n1", "cut": [["n1", "n2"]], "down": []}
    for how in ("invoke", "ok"):
        script.event(NEMESIS, how, "partition", value, time_s=9.0)
    script.event(0, "invoke", "read", time_s=END_S)
    rows = sorted(DOWN, key=lambda each: each["time"])
    assert Links().check(script.table(), told(*rows), {}).valid == "true"


def test_a_stall_of_the_controller_excuses() -> None:
    assert judge(*DOWN, stalls=[(3.0, 14.0)]).valid == "true"
    assert judge(*DOWN, stalls=[(0.5, 10.6)]).valid == "false"
    assert judge(*BOTH, link(10.0, "n2=0 n3=1"), stalls=[(24.0, 39.5)]).figures["longest_s"] == 5.5


@pytest.mark.parametrize(
    "rows",
    [
        (start("n1"), start("n2"), alive(END_S, "n1"), alive(12.0, "n2")),
        (start("n1"), start("n2"), start("n2", 12.0, life=2), alive(END_S, "n1"), alive(END_S, "n2", life=2)),
        (start("n1"), start("n2", 12.0), alive(END_S, "n1"), alive(END_S, "n2")),
        (start("n1"), start("n2"), alive(END_S, "n1"), row(END_S, "n2", "end")),
        (start("n1"), alive(END_S, "n1")),
    ],
    ids=["silent since", "restarted", "not started yet", "last words", "never there"],
)
def test_the_other_node_must_have_run_all_the_while(rows: tuple[dict[str, Any], ...]) -> None:
    assert judge(*rows, link(10.0, "n2=0 n3=1"), link(16.0, "n2=1 n3=1")).valid == "true"


def test_a_node_that_says_nothing_more_is_not_accused() -> None:
    assert judge(start("n1"), start("n2"), alive(END_S, "n2"), link(10.0, "n2=0 n3=1")).valid == "true"


def test_rows_of_another_group_do_not_show_that_a_process_ran() -> None:
    others = [alive(at_s, node, group="q") for node in ("n1", "n2") for at_s in (0.0, END_S)]
    assert judge(start("n1"), start("n2"), *others, link(10.0, "n2=0 n3=1")).valid == "true"


def test_a_group_that_counts_fewer_lives_of_a_node_does_not_lengthen_a_life_that_ended() -> None:
    """A queue that was made in life 2 of n1: its own life 1 is the node's life 2."""
    queue = (alive(13.5, "n1", group="q"), alive(END_S, "n1", group="q"))
    again = (start("n1", 13.0, life=2), link(13.0, "n2=1 n3=1", life=2), alive(14.0, "n1", life=2))
    rows = (start("n1"), start("n2"), alive(END_S, "n2"), link(10.0, "n2=0 n3=1"), alive(12.0, "n1"))
    assert judge(*rows, *again, *queue).valid == "true"


def test_a_row_of_another_group_behind_the_last_one_of_a_life_may_be_of_the_next_process() -> None:
    rows = (start("n1"), start("n2"), alive(END_S, "n2"), link(10.0, "n2=0 n3=1"), alive(12.0, "n1"))
    again = (alive(20.0, "n1", group="q"), start("n1", 20.1, life=2), alive(END_S, "n1", group="q"))
    assert judge(*rows, *again).valid == "true"


def test_members_of_another_group_are_of_no_interest() -> None:
    assert judge(*DOWN, row(12.0, "n1", "start", group="q", members="n1 n3")).valid == "false"


def test_a_node_that_is_another_member_now_is_judged_as_that() -> None:
    back = [row(12.0, node, "members", members="n1#1 n2 n3") for node in ("n1", "n2")]
    later = (*BOTH, link(10.0, "n2=0 n3=1"), link(18.0, "n2=1 n3=1"))
    assert judge(*later, *back).figures["longest_s"] == 6.0


def test_a_life_that_ended_says_nothing_of_the_next_one() -> None:
    again = (start("n1", 13.0, life=2), link(13.0, "n2=1 n3=1", life=2), alive(END_S, "n1", life=2))
    rows = (start("n1"), start("n2"), alive(END_S, "n2"), link(10.0, "n2=0 n3=1"), alive(12.0, "n1"))
    assert judge(*rows, *again).valid == "true"


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_both_must_be_members_in_the_eyes_of_both(node: str) -> None:
    without = row(12.0, node, "members", members="n1 n3" if node == "n1" else "n2 n3")
    assert judge(*DOWN, without).valid == "true"
    assert judge(*DOWN, row(12.0, node, "members", members="n1 n2 n3 n4")).valid == "false"


def test_another_member_of_the_same_node_is_another_one() -> None:
    other = "n1 n2#1 n3"
    assert judge(*DOWN, row(12.0, "n1", "members", members=other)).valid == "true"
    as_well = [row(12.0, node, "members", members=other) for node in ("n1", "n2")]
    assert judge(*DOWN, *as_well, link(18.0, "n2=0 n3=1")).valid == "false"


@pytest.mark.parametrize("event", ["stop", "delete", "new-member"])
def test_a_node_that_leaves_wants_no_links(event: str) -> None:
    assert judge(*BOTH, link(10.0, "n2=0 n3=1"), row(12.0, "n1", event)).valid == "true"


def test_a_system_that_says_nothing_of_links_is_not_judged() -> None:
    verdict = judge(*BOTH)
    assert (verdict.valid, verdict.figures["stretches"]) == ("true", 0)
    assert verdict.sentence.startswith("Nothing was judged")


def test_a_damaged_row_is_refused() -> None:
    with pytest.raises(HistoryFormatError, match="counted"):
        judge(*BOTH, link(10.0, "n2"))


def test_times_of_nodes_are_compared_as_far_as_the_run_knows_their_clocks() -> None:
    def known(error_s: float, *nodes: str) -> dict[str, Any]:
        return {"offsets_s": dict.fromkeys(nodes, 7.0), "errors_s": dict.fromkeys(nodes, error_s)}

    assert judge(*DOWN, clocks=known(0.4, "n1", "n2")).anomalies == ("not-connected",)
    assert judge(*DOWN, clocks=known(0.6, "n1", "n2")).valid == "true", "the stretch may have been shorter"
    for alone in ("n1", "n2"):
        assert judge(*DOWN, clocks=known(0.0, alone)).figures["stretches"] == 0

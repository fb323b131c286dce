"""A node that hears its leader grants no pre-vote."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.checkers.consensus import Votes
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.history import HARNESS
from tests.checkers.support import Script
from tests.checkers.telemetry import row, told

VOTERS = ["n1", "n2", "n3"]


def judge(*rows: dict[str, Any], clocks: dict[str, Any] | None = None, alive: str = "n1 n2 n3") -> Verdict:
    """The verdict, where these nodes wrote another row in the end, in the same life."""
    script = Script()
    if clocks is not None:
        script.event(HARNESS, "info", "clocks", clocks, time_s=0)
    return Votes().check(script.table(), told(*rows, *(row(20, node) for node in alive.split())), {})


def says(
    time_s: float, node: str, role: str, leader: str | None = None, term: int = 3, **fields: Any
) -> dict[str, Any]:
    return row(time_s, node, "role", term=term, role=role, leader=leader, voters=VOTERS, **fields)


def times_out(time_s: float, node: str, role: str = "follower", leader: str | None = None) -> dict[str, Any]:
    return row(time_s, node, "timeout", term=3, role=role, leader=leader, voters=VOTERS)


LED = (says(1, "n1", "leader", "n1"), says(1, "n2", "follower", "n1"), says(1, "n3", "follower", "n1"))
ASKS = (times_out(9.0, "n3", leader="n1"), says(9.0, "n3", "pre_candidate"))


def test_a_node_that_stands_although_a_majority_hears_the_leader_is_found() -> None:
    verdict = judge(*LED, *ASKS, says(9.2, "n3", "candidate", term=4))
    assert verdict.anomalies == ("heard-leader",)
    assert verdict.sentence == (
        "Stood beside a leader that is heard: n3 of group 'g' asked at 9.000 s whether it would win, and stood for "
        "election in term 4 (at 9.200 s in life 1). Of the voters n1, n2, n3 n1, n2 had a leader all the while, and "
        "may grant nothing."
    )


@pytest.mark.parametrize(
    "other",
    [
        times_out(8.0, "n2", leader="n1"),
        times_out(9.1, "n2", leader="n1"),
        says(9.1, "n2", "follower", None, term=4),
        says(9.1, "n1", "follower", None, term=4),
        says(8.0, "n2", "pre_candidate"),
    ],
)
def test_one_that_has_no_leader_may_have_granted_it(other: dict[str, Any]) -> None:
    rows = sorted((*LED, *ASKS, other, says(9.2, "n3", "candidate", term=4)), key=lambda each: each["time"])
    assert judge(*rows).valid != "false"


def test_one_that_had_no_leader_until_then_may_have_granted_it_and_one_that_heard_it_before_may_not() -> None:
    stands = says(9.2, "n3", "candidate", term=4)
    free = times_out(8.0, "n2", leader="n1")
    assert judge(*LED, free, *ASKS, says(9.1, "n2", "follower", "n1"), stands).valid != "false"
    assert judge(*LED, free, says(8.5, "n2", "follower", "n1"), *ASKS, stands).anomalies == ("heard-leader",)


def test_only_answers_to_the_last_question_count() -> None:
    again = times_out(9.6, "n3", role="pre_candidate")
    stands = says(9.8, "n3", "candidate", term=4)
    free = (times_out(9.1, "n2", leader="n1"), says(9.2, "n2", "follower", "n1"))
    assert judge(*LED, *ASKS, *free, stands).valid != "false"
    assert judge(*LED, *ASKS, *free, again, stands).anomalies == ("heard-leader",)


def test_a_follower_that_the_leader_asks_to_take_over_needs_no_pre_vote() -> None:
    assert judge(*LED, says(9.2, "n3", "candidate", term=4)).valid != "false"
    silent = times_out(9.0, "n3", leader="n1")  # it may not stand by itself
    assert judge(*LED, silent, says(9.2, "n3", "candidate", term=4)).valid != "false"


def test_a_node_of_which_nothing_is_known_may_have_granted_it() -> None:
    assert judge(*LED[:1], *ASKS, says(9.2, "n3", "candidate", term=4)).valid != "false"
    assert (
        judge(*LED[:2], says(8, "n3", "follower", None), says(9.2, "n3", "candidate", term=4, life=2)).valid != "false"
    )


STANDS = says(9.2, "n3", "candidate", term=4)


def test_one_that_was_killed_meanwhile_may_have_granted_it_without_a_word() -> None:
    assert judge(*LED, *ASKS, STANDS, alive="n1 n3").valid != "false"
    later = row(12, "n2", "start", life=2)
    assert judge(*LED, *ASKS, STANDS, later, alive="n1 n3").valid != "false"
    image = row(12, "n2", "recoverable", term=3)
    assert judge(*LED, *ASKS, STANDS, image, alive="n1 n3").valid != "false", "its process did not write that"
    assert judge(*LED, *ASKS, STANDS, row(9.3, "n2"), alive="n1 n3").anomalies == ("heard-leader",)


def test_times_of_nodes_are_compared_as_far_as_the_run_knows_their_clocks() -> None:
    free = (times_out(8.7, "n2", leader="n1"), says(8.75, "n2", "follower", "n1"))
    rows = (*LED, *free, *ASKS, STANDS)

    def known(error_s: float, nodes: str = "n1 n2 n3") -> dict[str, Any]:
        return {"offsets_s": dict.fromkeys(nodes.split(), 0.0), "errors_s": dict.fromkeys(nodes.split(), error_s)}

    assert judge(*rows, clocks=known(0.05)).anomalies == ("heard-leader",)
    assert judge(*rows, clocks=known(0.1)).valid != "false"
    for nodes in ("n1 n3", "n1 n2"):
        assert judge(*rows, clocks=known(0.0, nodes)).valid != "false", "a node's own clock may show anything"

"""What clients of lost nodes hold must come out again: histories that show that it did not, and those that do not."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.checkers.queues import TotalQueue
from splitbrain.checkers.queues.apart import apart
from splitbrain.checkers.queues.withheld import suspected_s
from splitbrain.checkers.verdict import Verdict
from splitbrain.cluster.detector import THRESHOLD, FailureDetector
from splitbrain.results.errors import UsageError
from splitbrain.results.faults import run_events
from splitbrain.results.history import NEMESIS, OpType
from tests.checkers.support import Script

NODES = ["n1", "n2", "n3"]
ALONE = [["n1", "n2"], ["n2", "n1"], ["n1", "n3"], ["n3", "n1"]]
"""n1 is cut off from both others."""


def judge(script: Script, **options: Any) -> Verdict:
    return TotalQueue().check(script.table(), {"nodes": NODES, **options})


def fault(
    script: Script,
    at_s: float,
    *,
    cut: list[list[str]] | None = None,
    down: list[str] | None = None,
    stop: bool = False,
) -> None:
    said = {"cut": cut or [], "down": down or [], "paused": [], "links": [], "target": "n1"}
    value = {"fault": "partition", "action": "stop" if stop else "start"}
    script.event(NEMESIS, "invoke", "partition", value, time_s=at_s)
    script.event(NEMESIS, "info", "partition", {**value, **said}, time_s=at_s + 0.1)


def call(
    script: Script,
    at_s: float,
    process: int,
    f: str,
    value: Any,
    result: Any,
    *,
    how: OpType = "ok",
    term: int | None = 1,
) -> None:
    script.event(process, "invoke", f, value, key="q", time_s=at_s)
    script.event(process, how, f, result, key="q", term=term, time_s=at_s + 0.1)


def put(script: Script, at_s: float, process: int, value: int, *, term: int = 1) -> None:
    call(script, at_s, process, "enqueue", value, value, term=term)


def held(script: Script, at_s: float, process: int, value: int, *, holds: int = 0) -> None:
    call(script, at_s, process, "dequeue", None, {"value": value, "redelivered": False, "held": holds})


def course(
    *,
    cut: list[list[str]] | None = None,
    down: list[str] | None = None,
    acknowledged_s: float | None = None,
    ends_s: float = 9,
    back_s: float | None = None,
    unsure: tuple[int, float] | None = None,
    led: tuple[int, int] = (1, 1),
    new: bool = True,
    new_s: float = 7.5,
    holds: int = 0,
) -> Script:
    """n1 is lost from 2.1 s on; the client on it holds 0; others are answered at 3 s, and given a new message."""
    script = Script(nodes=3)
    for value in range(3):
        put(script, 0.1 + value / 5, 1, value)
    held(script, 1, 0, 0, holds=holds)
    if acknowledged_s is not None and acknowledged_s < 2:
        put(script, acknowledged_s, 0, 7)
    fault(script, 2, cut=cut, down=down)
    put(script, 3, 1, 8, term=led[0])
    if unsure is not None:
        process, at_s = unsure
        call(script, at_s, process, "dequeue", None, None, how="info", term=None)
    if back_s is not None:
        call(script, back_s, 2, "dequeue", None, {"value": 0, "redelivered": True})
    answer: Any = 1 if new else {"value": 1, "redelivered": True}
    call(script, new_s, 1, "dequeue", None, answer, term=led[1])
    fault(script, ends_s, stop=True)
    put(script, 10, 3, 9)
    call(script, 11, 2, "dequeue", None, {"value": 0, "redelivered": True})
    return script


@pytest.mark.parametrize("lost", [{"cut": ALONE}, {"down": ["n1"]}])
def test_a_message_that_a_lost_node_keeps_is_found_by_the_next_new_one(lost: dict[str, Any]) -> None:
    verdict = judge(course(**lost))
    assert "withheld" in verdict.anomalies
    assert verdict.sentence == (
        "Withheld: value 0 of queue 'q' came out at n1 at 1.100 s, to a client that had not acknowledged it when its "
        "node n1 was cut off or stopped, from 2.100 to 9.000 s. A leader that led others from 3.100 s on must have "
        "given it back, and gave them a new message before it: n2 at 7.600 s."
    )
    assert verdict.figures["withheld"] == 1


@pytest.mark.parametrize(
    "why",
    [
        {"cut": []},  # the node was not lost
        {"cut": ALONE[:2]},  # it reached n2 over n3
        {"cut": [["n1", "n2"], ["n1", "n3"]]},  # it heard the others, and may have been heard in part
        {"cut": ALONE, "back_s": 7},  # it came out again in time
        {"cut": ALONE, "acknowledged_s": 1.5},  # that may have got through
        {"cut": ALONE, "ends_s": 7.55},  # the node was back when the new message was given
        {"cut": ALONE, "new_s": 6.9},  # so soon nodes are not yet lost
        {"cut": ALONE, "led": (1, 2)},  # another leader, who may not know yet
        {"cut": ALONE, "new": False},  # what was given back is given in any order here
        {"cut": ALONE, "unsure": (4, 6.5)},  # this take may have had it
    ],
)
def test_a_message_that_may_have_come_out_in_time_is_not_withheld(why: dict[str, Any]) -> None:
    assert "withheld" not in judge(course(**why)).anomalies


def test_a_take_of_a_node_that_is_lost_too_has_nothing_of_the_others() -> None:
    assert "withheld" in judge(course(cut=ALONE, unsure=(3, 6.5))).anomalies


def test_a_message_is_acknowledged_once_the_client_holds_so_many_more() -> None:
    script = course(cut=ALONE, acknowledged_s=1.5, holds=1)  # the op at 1.5 s acknowledged none
    assert "withheld" in judge(script).anomalies


def test_without_the_nodes_of_the_test_nothing_is_withheld_and_others_than_names_are_refused() -> None:
    assert "withheld" not in judge(course(cut=ALONE), nodes=[]).anomalies
    with pytest.raises(UsageError, match="option 'nodes' must be a list of names"):
        judge(course(), nodes=3)


def test_nodes_are_apart_while_every_way_between_them_is_cut() -> None:
    script = Script(nodes=3)
    fault(script, 2, cut=ALONE)
    fault(script, 5, cut=ALONE[:2])
    script.event(0, "invoke", "dequeue", key="q", time_s=9)
    found = apart(run_events(script.table()), NODES)
    spans = {node: [(s.begin_ns / 1e9, s.end_ns / 1e9, sorted(s.within)) for s in its] for node, its in found.items()}
    assert spans == {
        "n1": [(2.1, 5.0, ["n1"])],
        "n2": [(2.1, 5.0, ["n2", "n3"])],
        "n3": [(2.1, 5.0, ["n2", "n3"])],
    }


@pytest.mark.parametrize("wrong", ["paused", "cpus"])
def test_while_another_node_may_stand_still_nobody_is_said_to_withhold_anything(wrong: str) -> None:
    """A leader that was paused for a moment counts the silence of others from then on."""
    script = Script(nodes=3)
    for value in range(3):
        put(script, 0.1 + value / 5, 1, value)
    held(script, 1, 0, 0)
    fault(script, 2, cut=ALONE)
    put(script, 3, 1, 8)
    said = {"cut": ALONE, "down": [], "paused": [], "links": [], "target": "n2", wrong: ["n2"]}
    for at_s, action, state in ((4.0, "start", said), (5.6, "stop", {**said, wrong: []})):
        script.event(NEMESIS, "invoke", "pause", {"fault": "pause", "action": action}, time_s=at_s)
        script.event(NEMESIS, "info", "pause", {"fault": "pause", "action": action, **state}, time_s=at_s + 0.1)
    call(script, 7.5, 1, "dequeue", None, 1)
    fault(script, 9, stop=True)
    call(script, 11, 2, "dequeue", None, {"value": 0, "redelivered": True})
    assert "withheld" not in judge(script).anomalies


@pytest.mark.parametrize(("before", "is_judged"), [([1.3], True), ([1.3, 2.9], False), ([7.0, 7.0], True)])
def test_short_silences_teach_nodes_to_wait_longer_and_long_ones_do_not(before: list[float], is_judged: bool) -> None:
    script, now_s = Script(nodes=3), 1.0
    for value in range(3):
        put(script, 0.1 + value / 5, 1, value)
    for lasts_s in before:
        fault(script, now_s, cut=ALONE)
        fault(script, now_s + lasts_s, stop=True)
        now_s += lasts_s + 3
    held(script, now_s, 0, 0)
    fault(script, now_s + 1, cut=ALONE)
    put(script, now_s + 2, 1, 8)
    call(script, now_s + 6.5, 1, "dequeue", None, 1)
    fault(script, now_s + 8, stop=True)
    call(script, now_s + 10, 2, "dequeue", None, {"value": 0, "redelivered": True})
    assert ("withheld" in judge(script).anomalies) == is_judged


def test_after_two_silences_that_nobody_noticed_a_node_waits_for_more_than_four_seconds() -> None:
    """What the rule excuses, by the detector itself, which looks each second: both silences end before it notices."""
    detector = FailureDetector(["n2"])
    signs = detector.connected("n2", 0)
    heard_ms = [*range(130, 4631, 250), 5999, *range(6200, 8951, 250), 11_999]
    looks_ms = range(1000, 12_000, 1000)
    for at_ms in sorted({*heard_ms, *looks_ms}):
        if at_ms in looks_ms:
            assert detector.poll(at_ms * 1_000_000) == []
        else:
            signs.heard(at_ms * 1_000_000)
    assert signs.suspicion((11_999 + 4000) * 1_000_000) < THRESHOLD
    assert signs.suspicion((11_999 + round(suspected_s(2) * 1000) - 1000) * 1_000_000) >= THRESHOLD


@pytest.mark.slow
def test_many_faults_and_messages_are_judged_in_their_own_seconds() -> None:
    script = Script(nodes=3)
    faults, ops = 40, 250
    for number in range(faults):
        begin_s = number * 20.0
        for at in range(ops):
            put(script, begin_s + at / 50, 1, number * ops + at)
            held(script, begin_s + at / 50 + 0.01, 3 * (number * ops + at + 1), number * ops + at, holds=3)
        fault(script, begin_s + 6, cut=ALONE)
        for at in range(ops):
            put(script, begin_s + 8 + at / 50, 1, 10**6 + number * ops + at)
            call(script, begin_s + 8 + at / 50 + 0.01, 2, "dequeue", None, 10**6 + number * ops + at)
        fault(script, begin_s + 15, stop=True)
    verdict = judge(script)
    assert verdict.figures["withheld"] == faults * ops
    assert verdict.seconds < 8

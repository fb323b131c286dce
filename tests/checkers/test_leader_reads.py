"""Reads that a leader answers alone are judged only where one leader led all the time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from splitbrain.checkers.leader_reads import LeaderReads
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.errors import UsageError
from splitbrain.results.history import HARNESS, NEMESIS
from tests.checkers.support import Script


def judge(terms: Sequence[int | None], *, faults: bool = False, stale: bool = True, key: str = "x") -> Verdict:
    script = Script()
    if faults:
        value = {"fault": "partition", "action": "start", "target": "n1"}
        script.event(NEMESIS, "invoke", "start-partition", value)
        script.event(NEMESIS, "ok", "start-partition", value)
    script.call(0, "write", 1, key=key, term=terms[0])
    script.call(1, "write", 2, key=key, term=terms[1])
    script.call(2, "read-leader", result=1 if stale else 2, key=key, term=terms[2])
    script.call(3, "read-local", key=key, term=terms[2])
    return LeaderReads().check(script.table(), {})


def test_a_stale_read_of_the_only_leader_is_a_violation() -> None:
    found = judge([3, 3, 3])
    assert (found.checker, found.valid) == ("leader-reads", "false")
    assert "n3 answered read-leader -> 1" in found.sentence


def test_a_fresh_one_is_judged_and_other_modes_say_nothing() -> None:
    found = judge([3, 3, 3], stale=False)
    assert (found.valid, found.figures["judged"]) == ("true", 1)


def two_keys(stale_key: str) -> Script:
    """Each key is written twice and read; only one of them is read as it was before its last write."""
    script = Script()
    for key in ("x", "y"):
        for value in (1, 2):
            script.call(value, "write", value, key=key, term=0)
        script.call(4, "read-leader", result=1 if key == stale_key else 2, key=key, term=0)
    return script


@pytest.mark.parametrize("stale_key", ["x", "y"])
def test_every_key_is_judged_also_in_term_0(stale_key: str) -> None:
    found = LeaderReads().check(two_keys(stale_key).table(), {})
    assert (found.valid, found.figures["reads"], found.figures["judged"]) == ("false", 2, 2)
    assert LeaderReads().check(two_keys("").table(), {}).valid == "true"


def test_reads_that_failed_are_no_answers_and_the_option_names_the_function() -> None:
    script = two_keys("x")
    script.call(2, "read-leader", how="fail", key="x")
    assert LeaderReads().check(script.table(), {}).figures["reads"] == 2
    assert LeaderReads().check(script.table(), {"read": "read-other"}).figures["reads"] == 0


def test_a_run_in_which_no_such_read_was_answered_proves_nothing() -> None:
    script = Script()
    script.call(0, "write", 1, key="x", term=3)
    script.call(1, "read-leader", how="fail", key="x")
    found = LeaderReads().check(script.table(), {})
    assert (found.valid, found.inconclusive[0].code.value) == ("unknown", "no-occasion")
    assert found.sentence == "Unknown: no read-leader was answered, so there was no read of the leader to judge."


def test_terms_of_nemesis_and_harness_say_nothing_of_the_leader() -> None:
    script = two_keys("x")
    script.event(HARNESS, "info", "phase", {"phase": "final"}, term=9)
    assert LeaderReads().check(script.table(), {}).valid == "false"


def test_what_is_no_register_is_refused_and_not_passed_over() -> None:
    script = two_keys("")
    script.call(0, "enqueue", 1, key="x", term=0)
    with pytest.raises(UsageError):
        LeaderReads().check(script.table(), {})


def test_without_any_op_of_a_client_it_says_so() -> None:
    found = LeaderReads().check(Script().table(), {})
    assert found.sentence == "0 reads of the leader promised no linearizability: no client called anything."


@pytest.mark.parametrize(
    ("terms", "faults", "why"),
    [
        ([3, None, 3], False, "1 answer of reads of the leader and of writes had no term"),
        ([3, 3, None], False, "1 answer of reads of the leader and of writes had no term"),
        ([3, 3, 3], True, "there were faults"),
        ([3, 4, 3], False, "there were leaders of the terms 3 to 4"),
        ([None, None, None], False, "its answers have no terms"),
    ],
)
def test_where_another_leader_may_have_been_elected_nothing_is_promised(
    terms: list[Any], faults: bool, why: str
) -> None:
    found = judge(terms, faults=faults)
    assert (found.valid, found.figures) == ("true", {"reads": 1, "judged": 0})
    assert why in found.sentence


def test_a_wrong_option_is_refused() -> None:
    with pytest.raises(UsageError, match=r"checker leader-reads: .*; it takes read"):
        LeaderReads().check(Script().table(), {"reads": "read"})

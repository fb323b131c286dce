"""Reads that a leader answers alone are judged only where one leader led all the time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from splitbrain.checkers.leader_reads import LeaderReads
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.errors import UsageError
from splitbrain.results.history import NEMESIS
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


@pytest.mark.parametrize(
    ("terms", "faults", "why"),
    [
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

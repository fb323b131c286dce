"""A later version of the state machine comes into force once each member has said that it understands it."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.checkers.consensus import Versions
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.errors import HistoryFormatError, UsageError
from tests.checkers.telemetry import row, told


def judge(*rows: dict[str, Any]) -> Verdict:
    return Versions().check(told(*rows), {})


def raised(version: int | None, counted: str, time_s: float = 2, node: str = "n1") -> dict[str, Any]:
    about: dict[str, Any] = {"role": "leader", "term": 3, "log_index": 14, "log_term": 3, "last_index": 9}
    return row(time_s, node, "version", counted_index=version, counted=counted, **about)


def test_a_version_that_all_others_understand_is_right_and_so_is_one_of_a_single_member() -> None:
    verdict = judge(raised(2, "n2=2 n3#1=3"), raised(3, "", 4))
    assert (verdict.valid, verdict.figures) == ("true", {"raised": 2, "broken": 0})
    assert verdict.sentence == (
        "Leaders put a later version of the state machine into force 2 times, each time after all members had said "
        "that they understand it."
    )


def test_a_version_that_a_member_does_not_understand_or_that_one_said_nothing_about_is_found() -> None:
    verdict = judge(raised(2, "n2=2 n3#1=1 n4=0"), raised(2, "n2=2", 3))
    assert (verdict.anomalies, verdict.figures) == (("not-understood",), {"raised": 2, "broken": 1})
    assert verdict.sentence == (
        "Not understood: n1 of group 'g' led term 3 and put version 2 of the state machine into force by entry 14 (at "
        "2.000 s in life 1), when in that term n3#1 had said version 1 and n4 had said nothing."
    )


def test_other_rows_are_none_of_its_concern() -> None:
    verdict = judge(row(1, "n1", "read", role="leader", term=3, counted_index=7, counted="n2=1"), raised(None, "n2=0"))
    assert (verdict.valid, verdict.figures["raised"]) == ("true", 0)
    assert verdict.sentence == "No leader put a later version of the state machine into force."


def test_a_row_of_another_form_and_options_are_refused() -> None:
    with pytest.raises(HistoryFormatError, match="expected n1=17"):
        judge(raised(2, "n2"))
    with pytest.raises(UsageError, match="takes no options"):
        Versions().check(told(), {"limit_s": 1})

"""The checker `triggers`: what it finds in histories made by hand, what it leaves alone, and when it cannot say."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.checkers.triggers import STILL_S, Triggers
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.errors import UsageError
from tests.checkers.support import Script

Run = list[Any]

ONE: list[Run] = [[1, "first", 1], [2, "second", 1]]
TWO: list[Run] = [*ONE, [5, "first", 2], [6, "second", 2]]


def judged(*answers: tuple[bool, int, list[Run]], key: str = "7", apart_s: float = STILL_S + 0.2) -> Verdict:
    """What it says of these answers: whether at rest, changes, and runs."""
    script = Script()
    for number, (at_rest, changes, runs) in enumerate(answers):
        found = {"changes": changes, "runs": runs}
        script.event(0, "invoke", "read-runs", at_rest, key=key, time_s=number * apart_s)
        script.event(0, "ok", "read-runs", found, key=key, time_s=number * apart_s + 0.1)
    return Triggers().check(script.table(), {})


def of_run(*verdicts: Verdict) -> Verdict:
    return Triggers().merge(verdicts, {})


def test_a_key_of_which_all_ran_in_order_is_true_also_where_some_still_waits_in_between() -> None:
    found = judged((False, 1, []), (False, 2, ONE), (True, 2, TWO))
    assert (found.valid, found.figures["changes"], found.figures["events"]) == ("true", 2, 4)


def test_an_event_that_a_next_leader_carried_out_again_counts_once() -> None:
    again = [*ONE, *ONE, [5, "first", 2], [6, "second", 2]]
    found = judged((True, 2, again))
    assert (found.valid, found.figures["again"]) == ("true", 2)


WRONG: list[tuple[str, list[tuple[bool, int, list[Run]]]]] = [
    ("lost", [(True, 2, ONE), (True, 2, ONE)]),
    ("lost", [(True, 2, ONE), (True, 3, ONE)]),
    ("lost", [(True, 2, TWO[:3]), (True, 2, TWO[:3])]),
    ("lost", [(True, 1, []), (True, 1, [])]),
    ("lost", [(True, 1, []), (True, 1, ONE[:1]), (True, 1, ONE[:1])]),
    ("unasked", [(False, 1, TWO[:3])]),
    ("early", [(True, 2, [*ONE, [5, "first", 1], [6, "second", 2]])]),
    ("out-of-order", [(True, 2, [[5, "first", 2], [6, "second", 2], *ONE])]),
    ("priority", [(True, 1, [[1, "second", 1], [2, "first", 1]])]),
    ("taken-back", [(False, 2, TWO), (False, 2, ONE), (True, 2, TWO)]),
]


@pytest.mark.parametrize(("anomaly", "answers"), WRONG)
def test_each_wrong_answer_is_found_by_its_name(anomaly: str, answers: list[tuple[bool, int, list[Run]]]) -> None:
    found = judged(*answers)
    assert found.valid == "false"
    assert anomaly in found.anomalies
    assert found.sentence.startswith(anomaly.capitalize().replace("-", " "))
    assert found.evidence["ops"]


def test_answers_that_were_under_way_together_may_come_in_any_order() -> None:
    script = Script()
    for process in (0, 1):
        script.event(process, "invoke", "read-runs", False, key="7")
    script.event(0, "ok", "read-runs", {"changes": 2, "runs": TWO}, key="7")
    script.event(1, "ok", "read-runs", {"changes": 1, "runs": ONE}, key="7")
    assert Triggers().check(script.table(), {}).valid == "unknown", "nothing was read at rest, and nothing is wrong"


WAITING: list[list[tuple[bool, int, list[Run]]]] = [
    [(True, 2, ONE)],
    [(True, 2, ONE), (True, 2, TWO[:3])],
    [(True, 2, ONE), (True, 2, TWO)],
    [(True, 1, ONE), (True, 2, ONE)],
    [(False, 2, ONE), (True, 2, ONE)],
]
"""One answer alone; progress; all of it; a change since; and a first answer that was not given at rest."""


@pytest.mark.parametrize("answers", WAITING)
def test_an_event_that_may_still_be_carried_out_is_not_lost(answers: list[tuple[bool, int, list[Run]]]) -> None:
    assert judged(*answers).valid != "false"


def test_nothing_is_lost_between_two_answers_that_are_close_together() -> None:
    assert judged((True, 2, ONE), (True, 2, ONE), apart_s=STILL_S).valid != "false"


def test_a_run_in_which_no_procedure_ran_for_changes_that_are_there_at_rest_is_a_violation() -> None:
    found = of_run(judged((True, 3, []), (True, 3, []), key="1"), judged((False, 1, []), key="2"))
    assert (found.valid, found.anomalies) == ("false", ("lost",))


def test_a_run_in_which_nothing_was_ever_triggered_is_unknown_and_not_a_pass() -> None:
    found = of_run(judged((True, 0, []), key="1"), judged((False, 1, []), key="2"))
    assert (found.valid, found.anomalies) == ("unknown", ())
    assert "No procedure ever ran" in found.sentence
    assert found.inconclusive


def test_a_run_in_which_all_keys_but_one_were_triggered_is_a_violation() -> None:
    found = of_run(judged((True, 2, TWO), key="1"), judged((True, 1, []), (True, 1, []), key="2"))
    assert (found.valid, found.anomalies) == ("false", ("lost",))
    assert "'2'" in found.sentence


def test_a_run_whose_answers_were_all_given_while_it_changed_is_unknown() -> None:
    assert of_run(judged((False, 2, TWO))).valid == "unknown"


def test_an_answer_of_another_shape_is_refused() -> None:
    script = Script()
    script.call(0, "read-runs", True, {"changes": "many", "runs": []}, key="7")
    with pytest.raises(UsageError, match="does not say what ran"):
        Triggers().check(script.table(), {})
    with pytest.raises(UsageError, match="takes the option read_runs"):
        Triggers().check(Script().table(), {"other": 1})


def test_what_is_taken_back_shows_also_beside_an_answer_that_overlaps_with_both() -> None:
    """The one in between shows little, which is no wonder: it was asked for before the first one was answered."""
    script = Script()
    for process, how, runs in (
        (0, "invoke", None),
        (1, "invoke", None),
        (0, "ok", TWO),
        (2, "invoke", None),
        (1, "ok", ONE),
        (2, "ok", ONE),
    ):
        value: Any = False if runs is None else {"changes": 2, "runs": runs}
        script.event(process, how, "read-runs", value, key="7")  # pyright: ignore[reportArgumentType]
    found = Triggers().check(script.table(), {})
    assert (found.valid, found.anomalies, found.evidence["ops"]) == ("false", ("taken-back",), [2, 5])

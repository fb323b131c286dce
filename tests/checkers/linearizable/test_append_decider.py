"""Strings that are appended to, where what gets answered tells the order: against the definition and the frontier."""

from __future__ import annotations

import random
import sys
from types import FrameType

import pytest

from splitbrain.checkers import models
from splitbrain.checkers.linearizable.checker import check_ops
from splitbrain.checkers.linearizable.deciders.appends import decide_appends
from splitbrain.checkers.linearizable.ops import read_ops
from splitbrain.results.arrow import to_table
from tests.checkers.linearizable.clients import (
    APPENDED_NUMBERS,
    DISTINCT_PIECES,
    ONLY_APPENDS,
    PIECES_ALIKE,
    Clients,
    random_history,
)
from tests.checkers.linearizable.decided import (
    HISTORIES,
    MANY,
    Row,
    acknowledged,
    assert_as_by_definition,
    assert_as_by_frontier,
    assert_exact,
    culprits,
    decided,
    history_of,
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "clients", [DISTINCT_PIECES, ONLY_APPENDS, APPENDED_NUMBERS], ids=["distinct", "only appends", "numbers"]
)
def test_appends_of_what_is_told_apart_are_decided_as_by_definition(clients: Clients) -> None:
    assert_exact(decide_appends, clients, HISTORIES)


def test_appends_of_what_is_alike_are_decided_as_by_definition_or_left_to_others() -> None:
    assert_exact(decide_appends, PIECES_ALIKE, HISTORIES, declines=True)


@pytest.mark.slow
@pytest.mark.parametrize("clients", [DISTINCT_PIECES, PIECES_ALIKE], ids=["distinct", "alike"])
def test_appends_are_decided_as_by_definition_in_many_histories(clients: Clients) -> None:
    assert_exact(decide_appends, clients, MANY // 2, ops=8, declines=clients is PIECES_ALIKE)


def test_appends_are_decided_as_by_the_frontier_in_longer_histories() -> None:
    assert_as_by_frontier(decide_appends, DISTINCT_PIECES, 40, lies=0.02, ops=40)


@pytest.mark.parametrize(
    "clients", [DISTINCT_PIECES, ONLY_APPENDS, APPENDED_NUMBERS], ids=["distinct", "only appends", "numbers"]
)
def test_twice_as_long_a_history_takes_about_twice_the_steps(clients: Clients) -> None:
    model = models.model("kv")

    def steps(size: int) -> int:
        history = random_history(random.Random(1), clients, ops=size, processes=10, lies=0.0, crashes=0.03)
        ops = read_ops(to_table(history), model)
        calls = 0

        def count(frame: FrameType, event: str, argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            decision = decide_appends(ops, model)
        finally:
            sys.setprofile(None)
        assert decision is not None
        assert decision.valid
        return calls

    assert steps(3000) < 2.5 * steps(1500)


def judged(*rows: Row, model: str = "kv") -> tuple[bool, str, list[str]]:
    """The verdict, which the definition confirms, its reason, and what the culprits were."""
    history = history_of(*rows)
    chosen = models.model(model)
    assert assert_as_by_definition(decide_appends, chosen, history) is not None
    decision = decided(decide_appends, model, history)
    assert decision is not None
    return decision.valid, decision.reason, culprits(decision, model, history)


def test_a_text_that_nobody_composed_is_a_violation_whatever_else_is_ambiguous() -> None:
    alike: list[Row] = [row for process in range(5) for row in acknowledged(process, "append", "a")]
    assert judged(*alike, *acknowledged(0, "get", None, "aaz")) == (
        False,
        "nothing that was put and appended makes that text",
        ['get -> "aaz"'],
    )


def test_a_text_cannot_show_what_was_appended_after_it_was_answered() -> None:
    rows = [*acknowledged(0, "append", "a"), *acknowledged(0, "get", None, "ab"), *acknowledged(0, "append", "b")]
    assert judged(*rows) == (False, "a part of that text was put or appended only later", ['get -> "ab"'])


def test_a_piece_is_shown_as_often_as_it_was_appended() -> None:
    twice: list[Row] = [*acknowledged(0, "append", "a"), *acknowledged(1, "append", "a")]
    assert judged(*twice, *acknowledged(0, "get", None, "aa"))[0]
    assert judged(*twice, *acknowledged(0, "get", None, "aaa")) == (
        False,
        '"a" was appended 2 times, and made each of "a", "aa", "aaa"',
        ['get -> "aaa"'],
    )


def test_an_append_is_told_by_the_get_that_shows_it() -> None:
    rows = [
        *acknowledged(0, "append", "a"),
        *acknowledged(0, "append", "b"),
        *acknowledged(0, "append", "c"),
        *acknowledged(0, "get", None, "acb"),
    ]
    valid, reason, accused = judged(*rows)
    assert not valid
    assert reason == 'append "b" had ended before append "c" began, which must come before it'
    assert accused == ['append "b"', 'append "c"', 'get -> "acb"']


def test_what_no_get_shows_was_hidden_by_a_put() -> None:
    hidden = acknowledged(0, "append", "a")
    assert judged(*hidden, *acknowledged(0, "put", "x"), *acknowledged(0, "get", None, "x"))[0]
    valid, _, accused = judged(*acknowledged(0, "put", "x"), *hidden, *acknowledged(0, "get", None, "x"))
    assert not valid
    assert accused == ['put "x"', 'append "a"', 'get -> "x"']


def test_puts_before_all_else_leave_one_string() -> None:
    """The empty string was put, and was there in the beginning; but nobody can have looked at the latter."""
    put: list[Row] = [*acknowledged(0, "put", "x"), *acknowledged(0, "put", None)]
    appended: list[Row] = acknowledged(0, "append", "a")
    assert judged(*put, *appended, *acknowledged(0, "get", None, "a"))[0]
    assert judged(*put, *appended, *acknowledged(0, "get", None, "xa"))[2] == ["put", 'get -> "xa"']


def test_an_append_that_crashed_counts_where_a_get_shows_it() -> None:
    crashed: list[Row] = [(0, "invoke", "append", "a"), (0, "info", "append", "a")]
    later = acknowledged(1, "append", "b")
    assert judged(*crashed, *later, *acknowledged(1, "get", None, "ba"))[0]
    assert judged(*crashed, *later, *acknowledged(1, "get", None, "b"))[0]
    seen = [*acknowledged(1, "get", None, "a"), *acknowledged(1, "get", None, "")]
    assert not judged(*crashed, *seen)[0]


def test_what_is_no_text_is_left_to_the_model() -> None:
    assert decided(decide_appends, "kv", history_of(*acknowledged(0, "append", 0))) is None
    assert decided(decide_appends, "kv", history_of(*acknowledged(0, "get", None, []))) is None


def test_the_verdict_names_the_algorithm() -> None:
    history = history_of(*acknowledged(0, "append", "a"), *acknowledged(0, "get", None, "a"))
    assert check_ops(history, "kv").algorithm == "append-chains"

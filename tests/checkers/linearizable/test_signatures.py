"""Strings that no get shows any more are one state: what no answer tells apart is searched once."""

from __future__ import annotations

import random
from typing import Any

import pytest

from splitbrain.checkers import models
from splitbrain.checkers.linearizable.checker import check_ops
from splitbrain.checkers.linearizable.depth_first import DepthFirst
from splitbrain.checkers.linearizable.limits import Limits
from splitbrain.checkers.linearizable.ops import read_ops
from splitbrain.checkers.linearizable.transitions import Stepper
from splitbrain.checkers.models import IMPOSSIBLE
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import UsageError
from splitbrain.results.history import Op
from tests.checkers.linearizable.decided import acknowledged, history_of
from tests.checkers.linearizable.small_histories import VOCABULARIES, small_history
from tests.checkers.linearizable.support import Texts


def shuffled(clients: int, *, bad: bool) -> list[Op]:
    """Pieces that are appended at once, two of them alike, and a get of all but one of them."""
    appends = [Op(process=i, type="invoke", f="append", value=f"[{max(1, i)}]") for i in range(clients)]
    read = Op(process=clients, type="invoke", f="get")
    text = "".join(str(op.value) for op in (appends[:-1] if bad else appends))
    return [*appends, *(op.complete("ok", op.value) for op in appends), read, read.complete("ok", text)]


def searched(history: list[Op]) -> tuple[str, int]:
    ops = read_ops(to_table(history), models.model("kv"))
    stepper = Stepper(models.model("kv"), ops.transitions, cells=1_000_000)
    answer = DepthFirst(ops, stepper, Limits()).run().answer
    return answer, len(stepper.states.known)


def test_states_are_the_beginnings_of_what_gets_show_and_one_more() -> None:
    """Of twelve pieces there are 12! orders: each is a string of its own."""
    for bad in (False, True):
        answer, states = searched(shuffled(12, bad=bad))
        assert answer == ("violation" if bad else "linearizable")
        assert states <= 14


class Unsigned(models.KeyValue):
    """Its signature fails, which is the fault of the model and not of the checker."""

    name = "unsigned"

    def signature(self, calls: Any) -> Any:
        raise ZeroDivisionError("calls")


def test_a_signature_that_fails_is_told_by_its_model() -> None:
    history = history_of(*acknowledged(0, "append", "a"), *acknowledged(0, "get", None, "a"))
    with pytest.raises(UsageError, match=r"failed on its signature: ZeroDivisionError: calls"):
        check_ops(history, Unsigned())


def test_equal_signatures_allow_the_same_calls() -> None:
    model = models.model("kv")
    calls: list[tuple[str, Any, Any]] = [
        *(("get", None, text) for text in ("ab", "abc", "ba", "")),
        *(("append", piece, None) for piece in "abc"),
        *(("put", text, None) for text in ("a", "zz")),
    ]
    signature = getattr(model, "signature")(calls)  # noqa: B009 - an optional member
    states = ["", "a", "ab", "abc", "abca", "b", "ba", "zz", "cab", "bb"]
    assert len({signature(state) for state in states}) < len(states)
    for one in states:
        for other in states:
            if signature(one) != signature(other):
                continue
            for call in calls:
                after = [model.step(state, *call) for state in (one, other)]
                assert (after[0] is IMPOSSIBLE) == (after[1] is IMPOSSIBLE)
                assert after[0] is IMPOSSIBLE or signature(after[0]) == signature(after[1])


def test_the_verdict_is_that_on_all_strings() -> None:
    for name in ("kv", "kv, distinct pieces"):
        for seed in range(60):
            history = small_history(random.Random(f"{name} signatures {seed}"), VOCABULARIES[name])
            assert check_ops(history, "kv").valid == check_ops(history, Texts()).valid


def test_the_sentence_does_not_pass_one_of_many_strings_for_the_only_one() -> None:
    """After the put two orders are left of what no get shows."""
    rows = [Op(process=i, type="invoke", f="append", value=each) for i, each in enumerate("xy")]
    get = Op(process=9, type="invoke", f="get")
    verdict = check_ops([*rows, *(op.complete("ok", None) for op in rows), get, get.complete("ok", "")], "kv")
    assert verdict.valid == "false"
    assert "another that no op distinguishes from it" in str(verdict.evidence["possible_states"])

"""What the checker says: sentences, evidence, honest unknowns, merged verdicts, errors."""

from __future__ import annotations

import random
from collections.abc import Hashable
from typing import Any

import pytest

from splitbrain.checkers.linearizable import Linearizable, check_ops
from splitbrain.checkers.models import IMPOSSIBLE, UNKNOWN, Counter, Register
from splitbrain.checkers.registry import check_spec
from splitbrain.checkers.weaker.models import with_models
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import HistoryFormatError, UnknownNameError, UsageError
from splitbrain.results.history import Op
from tests.checkers.linearizable.support import Texts, random_history

SECOND = 1_000_000_000


def call(process: int, at_s: float, f: str, value: Any = None, *, key: str | None = "3") -> Op:
    return Op(
        process=process, type="invoke", f=f, value=value, key=key, node=f"n{process + 1}", time=int(at_s * SECOND)
    )


def done(invocation: Op, at_s: float, value: Any) -> Op:
    return Op(
        process=invocation.process,
        type="ok",
        f=invocation.f,
        value=value,
        key=invocation.key,
        node=invocation.node,
        time=int(at_s * SECOND),
    )


def history(*ops: Op) -> list[Op]:
    return [
        Op(
            process=op.process,
            type=op.type,
            f=op.f,
            value=op.value,
            key=op.key,
            node=op.node,
            time=op.time,
            index=index,
            error=op.error,
        )
        for index, op in enumerate(ops)
    ]


W3, W4, R = call(2, 11.5, "write", 3), call(0, 12.0, "write", 4), call(3, 12.3, "read")
STALE = history(W3, done(W3, 11.9, 3), W4, done(W4, 12.02, 4), R, done(R, 12.41, 3))


def test_a_stale_read_is_told_with_key_node_times_and_the_write_that_it_missed() -> None:
    verdict = check_ops(STALE, "register")
    assert verdict.valid == "false"
    assert verdict.anomalies == ("nonlinearizable",)
    assert verdict.sentence == (
        'Not linearizable: key "3". n4 answered read -> 3 at 12.4100 s (begun at 12.3000 s, process 3, op 5), but '
        "write 4 had been acknowledged by n1 at 12.0200 s (op 3) before that read began, and nothing set it to 3 "
        "afterwards."
    )


def test_the_evidence_has_the_prefix_the_failing_op_the_states_and_the_witness() -> None:
    evidence = check_ops(STALE, "register").evidence
    assert evidence["prefix"] == {"ops": 3, "last_index": 5, "time_ns": 12_410_000_000}
    assert evidence["failing_op"]["op"] == "read -> 3"
    assert evidence["failing_op"]["node"] == "n4"
    assert evidence["failing_op"]["completed_index"] == 5
    assert evidence["possible_states"] == ["4"]
    assert evidence["pending"] == []
    assert [op["op"] for op in evidence["window"]] == ["write 3", "write 4", "read -> 3"]
    assert [op["op"] for op in evidence["witness"]["ops"]] == ["write 4", "read -> 3"]
    assert evidence["witness"]["minimal"] is True


def test_a_value_that_nobody_wrote_is_told_as_such() -> None:
    read = call(0, 1.0, "read")
    verdict = check_ops(history(W3, read, done(read, 2.0, 7)), "register")
    assert verdict.sentence.endswith("but nothing had set it to 7 by then.")
    assert [op["op"] for op in verdict.evidence["pending"]] == ["write 3"]


@pytest.mark.parametrize("write", [("write", 7, "write 7"), ("cas", [3, 7], "cas [3,7]")], ids=["write", "cas"])
def test_a_value_that_only_an_op_that_failed_had_written_is_told_with_that_op(write: tuple[str, Any, str]) -> None:
    """Often the client is wrong, which takes for certain that it did not happen."""
    refused, read = call(1, 0.2, write[0], write[1]), call(0, 1.0, "read")
    failed = Op(process=1, type="fail", f=write[0], value=write[1], key="3", node="n2", time=SECOND // 2, error="lost")
    verdict = check_ops(history(W3, refused, failed, read, done(read, 2.0, 7)), "cas-register")
    said = f"nothing had set it to 7 by then, unless {write[2]} took effect, which n2 ended as fail (lost; op 2)."
    assert verdict.sentence.endswith(said), verdict.sentence


def test_a_long_key_does_not_drown_the_sentence() -> None:
    read = call(0, 1, "read", key="k" * 10_000)
    verdict = check_ops(history(read, done(read, 1.5, 7)), "register")
    assert len(verdict.sentence) < 300
    assert verdict.evidence["key"] == "k" * 10_000


def test_a_crashed_write_of_the_value_explains_the_read() -> None:
    lost = Op(process=5, type="invoke", f="write", value=3, key="3", node="n1", time=0)
    assert check_ops(history(lost, *STALE), "register").valid == "true"


def test_a_reversal_of_two_reads_is_told_with_the_first_of_them() -> None:
    first, second = call(1, 1.2, "read"), call(1, 1.4, "read")
    write = call(0, 1.0, "write", 3)
    verdict = check_ops(history(write, first, done(first, 1.3, 3), second, done(second, 1.5, None)), "register")
    assert verdict.valid == "false"
    assert "read -> 3 had been answered by n2 at 1.3000 s (op 2) before that read began" in verdict.sentence
    assert "nothing set it to null afterwards" in verdict.sentence


def test_where_one_op_is_no_reason_the_sentence_names_the_possible_values_and_the_witness() -> None:
    one, two = call(0, 1.0, "write", 1), call(1, 1.0, "write", 2)
    reads = [(call(2, 2 + i, "read"), value) for i, value in enumerate([1, 2, 1])]
    ops = [one, two, *(op for read, value in reads for op in (read, done(read, read.time / SECOND + 0.5, value)))]
    verdict = check_ops(history(*ops, done(one, 9.0, 1), done(two, 9.0, 2)), "register")
    assert verdict.valid == "false"
    assert "when it returned, the value could only be 2." in verdict.sentence
    assert "These 3 ops contradict each other, also without the other ops: " in verdict.sentence
    assert [op["op"] for op in verdict.evidence["witness"]["ops"]] == ["read -> 1", "read -> 2", "read -> 1"]


def test_two_successful_creates_are_a_violation() -> None:
    first, second = call(0, 1.0, "create", 11), call(1, 2.0, "create", 12)
    verdict = check_ops(history(first, done(first, 1.5, 11), second, done(second, 2.5, 12)), "create-once")
    assert verdict.valid == "false"
    assert "create 11 had been acknowledged by n1 at 1.5000 s" in verdict.sentence


def test_models_with_other_states_are_told_in_general_words() -> None:
    add, read = call(0, 1.0, "add", 1), call(1, 2.0, "read")
    verdict = check_ops(history(add, done(add, 1.5, 1), read, done(read, 2.5, [])), "set")
    assert verdict.valid == "false"
    assert "when it returned, the state could only be {1}" in verdict.sentence


def hard(key: str) -> list[Op]:
    """Sixteen appends at once, two of them alike, then a read that lacks two: no order is right, of more than 15!."""
    letters = "aabcdefghijklmno"
    appends = [Op(process=10 + i, type="invoke", f="append", value=each, key=key) for i, each in enumerate(letters)]
    read = Op(process=30, type="invoke", f="get", key=key)
    return [*appends, *(each.complete("ok", each.value) for each in appends), read, read.complete("ok", letters[:-2])]


def test_a_search_that_runs_out_is_unknown_and_says_of_what_and_how_far_it_got() -> None:
    verdict = check_ops(history(*hard("k")), Texts(), time_limit_s=0.3)
    assert verdict.valid == "unknown"
    assert verdict.sentence.startswith('Undecided: key "k": 0.3 s of CPU time ran out')
    assert "op 16 of the 17 that did not fail is linearizable" in verdict.sentence
    assert verdict.evidence["ran_out"] == "time"
    assert verdict.evidence["explained_ops"] == 16


def test_one_bad_key_makes_the_run_a_violation_however_many_are_undecided() -> None:
    put = Op(process=1, type="invoke", f="put", value="x", key="3")
    get = Op(process=2, type="invoke", f="get", key="3")
    empty = Op(process=3, type="invoke", f="get", key="good")
    stale = [put, put.complete("ok", "x"), get, get.complete("ok", "")]
    verdict = check_ops(history(*hard("slow"), *stale, empty, empty.complete("ok", "")), Texts(), time_limit_s=0.3)
    assert verdict.valid == "false"
    assert 'key "3"' in verdict.sentence
    assert verdict.evidence["failing_keys"] == ["3"]
    assert verdict.evidence["undecided_keys_count"] == 1
    assert verdict.figures["keys"] == 3


def test_a_merged_verdict_names_the_key_that_failed_first() -> None:
    checker, options = Linearizable(), {"model": "register"}
    later = [
        Op(
            process=op.process,
            type=op.type,
            f=op.f,
            value=op.value,
            key="7",
            node=op.node,
            time=op.time,
            index=op.index + 100,
        )
        for op in STALE
    ]
    parts = [checker.check(to_table(later), options), checker.check(to_table(STALE), options)]
    merged = checker.merge(parts, options)
    assert merged.sentence.startswith('Not linearizable: key "3"')
    assert merged.sentence.endswith("2 of 2 keys are not linearizable.")
    assert merged.evidence["failing_keys"] == ["3", "7"]


def test_all_good_keys_make_a_pass_and_none_at_all_do_too() -> None:
    checker, options = Linearizable(), {"model": "register"}
    assert checker.merge([], options).valid == "true"
    good = check_ops(random_history(random.Random(3), "register", ops=50, processes=4, lies=0, crashes=0), "register")
    assert good.valid == "true"
    assert good.algorithm == "depth-first"
    assert good.figures["ops"] > 0


def test_ops_are_what_clients_invoked_and_those_that_failed_are_not_judged() -> None:
    write, again = (Op(process=1, type="invoke", f="write", value=value, key="a") for value in (1, 2))
    left = Op(process=2, type="invoke", f="write", value=3, key="b")
    verdict = check_ops(history(write, write.complete("ok", 1), again, again.complete("fail", 2), left), "register")
    assert {name: verdict.figures[name] for name in ("ops", "judged", "crashed")} == {
        "ops": 3,
        "judged": 2,
        "crashed": 1,
    }
    assert verdict.sentence == "Linearizable as a register: 2 keys, 3 ops."


def test_ops_of_other_functions_than_those_that_are_named_are_left_out_and_not_counted() -> None:
    """A workload asks for things that its model need not know, also while the same process goes on."""
    other, read = call(0, 11.55, "runs"), call(0, 12.7, "read")
    rows = [STALE[0], call(1, 11.6, "runs", True), STALE[1], other, done(other, 11.95, [1]), *STALE[2:], read]
    with pytest.raises(UsageError, match="'register' does not know 'runs'"):
        check_ops(history(*rows), "register")
    options = {"model": "register", "functions": ["write", "read"]}
    found = Linearizable().check(to_table(history(*rows)), options)
    alone = Linearizable().check(to_table(history(*STALE, read)), options)
    assert (found.valid, found.anomalies) == ("false", alone.anomalies)
    assert "n4 answered read -> 3 at 12.4100 s" in found.sentence
    assert found.figures["ops"] == alone.figures["ops"] == 4
    assert with_models(found, to_table(history(*rows)), options).evidence["models"]


def test_a_workload_is_refused_only_if_its_model_lacks_a_function_that_is_judged() -> None:
    with pytest.raises(UsageError, match="'counter' does not know 'runs' of this workload"):
        check_spec("linearizable", {"model": "counter"}, ("increment", "read", "runs"))
    check_spec("linearizable", {"model": "counter", "functions": ["increment", "read"]}, ("increment", "read", "runs"))
    with pytest.raises(UsageError, match="'counter' does not know 'rid' of this workload"):
        check_spec("linearizable", {"model": "counter", "functions": ["rid"]}, ("increment", "read", "runs"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "model"),
        ({"model": "register", "tme_limit_s": 3}, "tme_limit_s"),
        ({"model": "register", "time_limit_s": 0}, "must be a number of seconds above 0"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Linearizable().check(to_table(STALE), options)


def test_an_unknown_model_gets_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'cas-register'"):
        check_ops(STALE, "cas-registr")


def test_an_op_that_the_model_does_not_know_is_named() -> None:
    with pytest.raises(UsageError, match=r"'mutex' does not know 'write' \(op 0\); it knows acquire, release"):
        check_ops(STALE, "mutex")


def test_a_completion_without_invocation_is_named() -> None:
    with pytest.raises(HistoryFormatError, match="op 0: process 2 completes what it never invoked"):
        check_ops(history(done(W3, 1, 3)), "register")


def test_an_invocation_while_another_is_open_is_named() -> None:
    with pytest.raises(HistoryFormatError, match="op 1: process 2 invokes while an op of its own is open"):
        check_ops(history(W3, W3), "register")


class Toggle:
    """A user's model: flip turns a switch, look reads it."""

    name = "toggle"
    fs = frozenset({"flip", "look"})

    def init(self) -> Hashable:
        return False

    def step(self, state: Hashable, f: str, value: Any, result: Any) -> Any:
        if f == "flip":
            return not state
        return state if result is UNKNOWN or result == state else IMPOSSIBLE

    def observes(self, f: str, value: Any, result: Any) -> bool:
        return f == "look"


class Unhashable(Toggle):
    def step(self, state: Hashable, f: str, value: Any, result: Any) -> Any:
        return []


class Broken(Toggle):
    def step(self, state: Hashable, f: str, value: Any, result: Any) -> Any:
        raise KeyError("gone")


class Talkative(Toggle):
    def init(self) -> Hashable:
        return "long" * 100

    def step(self, state: Hashable, f: str, value: Any, result: Any) -> Any:
        raise ValueError("one line\nand another")


class Liar(Toggle):
    """Unbounded states, so that it is asked lazily, and a flip that is said to observe."""

    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        return state + 1

    def observes(self, f: str, value: Any, result: Any) -> bool:
        return True


FLIP, LOOK = call(0, 1, "flip"), call(0, 2, "look")


def test_a_model_of_ones_own_is_given_by_object_or_by_name() -> None:
    ops = history(FLIP, done(FLIP, 1.5, None), LOOK, done(LOOK, 2.5, False))
    assert check_ops(ops, Toggle()).valid == "false"
    assert check_ops(ops[:2] + history(LOOK, done(LOOK, 2.5, True)), Toggle()).valid == "true"
    name = "tests.checkers.linearizable.test_linearizable_verdicts:Toggle"
    assert Linearizable().check(to_table(ops), {"model": name}).valid == "false"


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Unhashable(), "not hashable"),
        (Broken(), "failed on flip"),
        (Talkative(), "failed on flip in the state .{100,200}: ValueError: one line and another$"),
        (Liar(), "says that flip observes, yet it changes the state"),
    ],
)
def test_what_is_wrong_with_a_model_of_ones_own_is_said(model: Toggle, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_ops(history(FLIP, done(FLIP, 1.5, None)), model)


class LyingCounter(Counter):
    """An add that is said to observe."""

    def observes(self, f: str, value: Any, result: Any) -> bool:
        return True


def test_a_crashed_op_that_is_wrongly_said_to_observe_does_not_convict_the_system() -> None:
    add, read = call(0, 1, "add", 1), call(1, 2, "read")
    with pytest.raises(UsageError, match="says that add 1 observes, yet it changes the state"):
        check_ops(history(add, read, done(read, 2.5, 1)), LyingCounter())


class FirstWins(Register):
    """A register that keeps its first value: a step of its own, beside the assignments that it inherits."""

    def step(self, state: Hashable, f: str, value: Any, result: Any) -> Any:
        return state if f == "write" and state is not None else super().step(state, f, value, result)


class FromZero(Register):
    """A register with another beginning."""

    def init(self) -> Hashable:
        return 0


def test_a_model_that_is_derived_from_one_of_ours_is_judged_by_its_own_step_and_beginning() -> None:
    w1, w2, r = call(0, 1, "write", 1), call(0, 2, "write", 2), call(1, 3, "read")
    both = (w1, done(w1, 1.5, 1), w2, done(w2, 2.5, 2), r)
    assert check_ops(history(*both, done(r, 3.5, 1)), FirstWins()).valid == "true"
    assert check_ops(history(*both, done(r, 3.5, 2)), FirstWins()).valid == "false"
    assert check_ops(history(r, done(r, 3.5, 0)), FromZero()).valid == "true"
    stale = check_ops(history(*both, done(r, 3.5, 0)), FromZero())
    assert stale.valid == "false"
    assert "write 2 had been acknowledged" in stale.sentence


@pytest.mark.parametrize(
    "name", ["no.such.module:Model", "splitbrain.checkers.models:Nothing", "splitbrain.checkers.models:frozen"]
)
def test_a_model_that_cannot_be_imported_or_is_none_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        Linearizable().check(to_table(STALE), {"model": name})


REGISTER = {"model": "register"}


def test_ops_of_which_none_was_acknowledged_are_no_pass() -> None:
    lost = call(0, 1.0, "write", 1, key="a")
    judged = [Linearizable().check(to_table(history(each)), REGISTER) for each in (lost, call(1, 1.0, "read", key="b"))]
    [reason] = Linearizable().merge(judged, REGISTER).inconclusive
    assert reason.code == "nothing-ok"
    seen = Linearizable().check(to_table(history(W3, done(W3, 11.9, 3), R, done(R, 12.4, 3))), REGISTER)
    assert Linearizable().merge([*judged, seen], REGISTER).inconclusive == ()

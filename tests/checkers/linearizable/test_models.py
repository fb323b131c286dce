"""The laws of every model, and that the checker holds sequential histories to them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from splitbrain.checkers import models
from splitbrain.checkers.linearizable import check_ops
from splitbrain.checkers.linearizable.ops import Transition, read_ops
from splitbrain.checkers.models import IMPOSSIBLE, UNKNOWN, JsonObject, Model, frozen
from splitbrain.checkers.models.trees import Node as TreeNode
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import UnknownNameError, UsageError
from splitbrain.results.history import Op
from tests.checkers.linearizable.small_histories import VOCABULARIES
from tests.checkers.linearizable.support import INVOCATIONS, possible_results, results_of

Law = tuple[Any, str, Any, Any, Any]


def bag(**counts: int) -> frozenset[tuple[str, int]]:
    return frozenset(counts.items())


X0 = JsonObject((("x", 0),))
X0Y1 = JsonObject((("x", 0), ("y", 1)))

LAWS: dict[str, list[Law]] = {
    "register": [
        (None, "read", None, None, None),
        (None, "read", None, 1, IMPOSSIBLE),
        (1, "read", None, UNKNOWN, 1),
        (1, "write", 2, None, 2),
        (1, "write", 2, UNKNOWN, 2),
    ],
    "cas-register": [
        (1, "read", None, 1, 1),
        (1, "read", None, 2, IMPOSSIBLE),
        (1, "write", 2, 2, 2),
        (1, "cas", [1, 2], [1, 2], 2),
        (1, "cas", [1, 2], UNKNOWN, 2),
        (3, "cas", [1, 2], [1, 2], IMPOSSIBLE),
        (3, "cas", [1, 2], False, 3),
        (1, "cas", [1, 2], False, IMPOSSIBLE),
        (None, "cas", [None, 1], True, 1),
    ],
    "read-modes": [
        (1, "read", None, 1, 1),
        (1, "read", None, 2, IMPOSSIBLE),
        (1, "write", 2, 2, 2),
        (1, "cas", [1, 2], [1, 2], 2),
        (3, "cas", [1, 2], [1, 2], IMPOSSIBLE),
        (3, "cas", [1, 2], False, 3),
        (1, "read-leader", None, 2, 1),
        (1, "read-local", None, None, 1),
        (1, "read-after", None, 2, 1),
        (1, "read-local", None, UNKNOWN, 1),
    ],
    'read-modes(["read-leader", "read-after"])': [
        (1, "read", None, 2, IMPOSSIBLE),
        (1, "read-leader", None, 1, 1),
        (1, "read-leader", None, 2, IMPOSSIBLE),
        (1, "read-leader", None, UNKNOWN, 1),
        (1, "read-after", None, None, IMPOSSIBLE),
        (1, "read-local", None, 2, 1),
    ],
    "create-once": [
        (None, "create", 1, 1, 1),
        (1, "create", 2, 2, IMPOSSIBLE),
        (1, "create", 1, 1, IMPOSSIBLE),
        (1, "read", None, 1, 1),
        (None, "read", None, 1, IMPOSSIBLE),
    ],
    "multi-register": [
        (JsonObject(()), "read", {"x": None}, {"x": None}, JsonObject(())),
        (X0, "read", {"x": None}, {"x": 0}, X0),
        (X0, "read", {"x": None}, {"x": 0, "y": None}, X0),
        (X0Y1, "read", {"x": None}, {"x": 0, "y": 0}, IMPOSSIBLE),
        (X0, "write", {"y": 1}, None, X0Y1),
        (X0Y1, "write", {"y": None}, UNKNOWN, X0),
        (X0, "cas", [{"x": 0, "y": None}, {"y": 1}], None, X0Y1),
        (X0, "cas", [{"x": 0, "y": 1}, {"y": 0}], None, IMPOSSIBLE),
        (X0, "cas", [{"x": 1}, {"x": 0}], UNKNOWN, IMPOSSIBLE),
        (X0, "txn", [["r", "x", None], ["w", "y", 1]], [["r", "x", 0], ["w", "y", 1]], X0Y1),
        (X0, "txn", [["read", "x", None], ["write", "y", 1]], [["read", "x", 1], ["write", "y", 1]], IMPOSSIBLE),
        (X0, "txn", [["w", "x", 1], ["r", "x", None]], [["w", "x", 1], ["r", "x", 0]], IMPOSSIBLE),
        (
            X0,
            "txn",
            [["w", "x", 1], ["r", "x", None], ["w", "x", 0]],
            [["w", "x", 1], ["r", "x", 1], ["w", "x", 0]],
            X0,
        ),
        (X0, "txn", [["r", "x", None], ["w", "y", 1]], UNKNOWN, X0Y1),
        (X0, "txn", [["r", "x", None], ["w", "y", 1]], None, X0Y1),
        (JsonObject(()), "txn", [["w", 3, 1]], [["w", 3, 1]], JsonObject((("3", 1),))),
    ],
    "kv": [
        ("", "get", None, None, ""),
        ("ab", "get", None, "ab", "ab"),
        ("ab", "get", None, "a", IMPOSSIBLE),
        ("ab", "put", "c", None, "c"),
        ("ab", "append", "c", UNKNOWN, "abc"),
    ],
    "mutex": [
        ("free", "acquire", None, None, "held"),
        ("held", "acquire", None, None, IMPOSSIBLE),
        ("held", "release", None, UNKNOWN, "free"),
        ("free", "release", None, None, IMPOSSIBLE),
    ],
    "owner-mutex": [
        ("free", "acquire", "a", None, ("held", "a")),
        (("held", "a"), "acquire", "a", None, IMPOSSIBLE),
        (("held", "a"), "release", "b", None, IMPOSSIBLE),
        (("held", "a"), "release", "a", None, "free"),
        ("free", "release", "a", None, IMPOSSIBLE),
        (("held", "a"), "hold", "a", None, ("held", "a")),
        (("held", "a"), "hold", "a", True, ("held", "a")),
        (("held", "a"), "hold", "a", False, "free"),
        (("held", "a"), "hold", "a", UNKNOWN, "free"),
        (("held", "a"), "hold", "b", True, IMPOSSIBLE),
        (("held", "a"), "hold", "b", UNKNOWN, IMPOSSIBLE),
        ("free", "hold", "a", None, IMPOSSIBLE),
    ],
    "reentrant-mutex": [
        ("free", "acquire", "a", None, ("held", "a", 1)),
        (("held", "a", 1), "acquire", "a", None, ("held", "a", 2)),
        (("held", "a", 1), "acquire", "b", None, IMPOSSIBLE),
        (("held", "a", 2), "release", "a", UNKNOWN, ("held", "a", 1)),
        (("held", "a", 1), "release", "b", None, IMPOSSIBLE),
        (("held", "a", 1), "release", "a", None, "free"),
        ("free", "release", "a", None, IMPOSSIBLE),
    ],
    "reentrant-mutex(2)": [
        (("held", "a", 1), "acquire", "a", None, ("held", "a", 2)),
        (("held", "a", 2), "acquire", "a", None, IMPOSSIBLE),
    ],
    "fenced-mutex": [
        (("free", None), "acquire", "a", 7, (("held", "a"), 7)),
        (("free", None), "acquire", "a", UNKNOWN, (("held", "a"), None)),
        (("free", 7), "acquire", "b", 7, IMPOSSIBLE),
        (("free", 7), "acquire", "b", 9, (("held", "b"), 9)),
        (("free", 7), "acquire", "b", UNKNOWN, (("held", "b"), 8)),
        (("free", 7), "acquire", "b", None, (("held", "b"), 8)),
        ((("held", "a"), 7), "acquire", "b", 8, IMPOSSIBLE),
        ((("held", "a"), 7), "release", "b", None, IMPOSSIBLE),
        ((("held", "a"), 7), "release", "a", None, ("free", 7)),
    ],
    "semaphore": [(1, "acquire", None, None, 0), (0, "acquire", None, None, IMPOSSIBLE), (0, "release", None, None, 1)],
    "semaphore(3)": [
        (3, "acquire", 2, None, 1),
        (1, "acquire", 2, None, IMPOSSIBLE),
        (1, "release", 2, UNKNOWN, 3),
        (2, "release", 2, None, IMPOSSIBLE),
    ],
    "set": [
        (frozenset({1}), "add", 2, None, frozenset({1, 2})),
        (frozenset({1}), "add", 2, True, frozenset({1, 2})),
        (frozenset({1}), "add", 2, 2, frozenset({1, 2})),
        (frozenset({1}), "add", 1, True, IMPOSSIBLE),
        (frozenset({1}), "add", 1, False, frozenset({1})),
        (frozenset({1}), "add", 2, False, IMPOSSIBLE),
        (frozenset({1}), "remove", 1, UNKNOWN, frozenset()),
        (frozenset({1}), "remove", 2, True, IMPOSSIBLE),
        (frozenset({1}), "remove", 2, None, frozenset({1})),
        (frozenset({1}), "contains", 1, True, frozenset({1})),
        (frozenset({1}), "contains", 1, False, IMPOSSIBLE),
        (frozenset({1}), "contains", 2, False, frozenset({1})),
        (frozenset({1, 2}), "read", None, [2, 1], frozenset({1, 2})),
        (frozenset({1, 2}), "read", None, [2], IMPOSSIBLE),
    ],
    "grow-set": [
        (frozenset(), "add", 1, None, frozenset({1})),
        (frozenset({1}), "add", 1, None, frozenset({1})),
        (frozenset({1, 2}), "read", None, [2, 1], frozenset({1, 2})),
        (frozenset({1, 2}), "read", None, [2, 1, 1], IMPOSSIBLE),
        (frozenset({1, 2}), "read", None, [1], IMPOSSIBLE),
        (frozenset({1, 2}), "read", None, [1, 1], IMPOSSIBLE),
        (frozenset({1}), "read", None, [1, 2], IMPOSSIBLE),
        (frozenset(), "read", None, None, frozenset()),
    ],
    "fifo-queue": [
        ((), "enqueue", 1, None, (1,)),
        ((1,), "enqueue", 2, UNKNOWN, (1, 2)),
        ((1, 2), "dequeue", None, 1, (2,)),
        ((1, 2), "dequeue", None, 2, IMPOSSIBLE),
        ((1, 2), "dequeue", None, UNKNOWN, (2,)),
        ((1, 2), "dequeue", None, None, IMPOSSIBLE),
        ((), "dequeue", None, None, ()),
        ((), "dequeue", None, UNKNOWN, ()),
        ((), "dequeue", None, 1, IMPOSSIBLE),
    ],
    "unordered-queue": [
        ((bag(),), "enqueue", "a", None, (bag(a=1),)),
        ((bag(a=1),), "enqueue", "a", None, (bag(a=2),)),
        ((bag(a=1, b=1),), "dequeue", None, "b", (bag(a=1),)),
        ((bag(a=1),), "dequeue", None, "b", IMPOSSIBLE),
        ((bag(a=1),), "dequeue", None, None, IMPOSSIBLE),
        ((bag(),), "dequeue", None, None, (bag(),)),
        ((bag(),), "dequeue", None, UNKNOWN, (bag(),)),
        ((bag(a=1),), "dequeue", None, UNKNOWN, (bag(),)),
        ((bag(a=1, b=1),), "dequeue", None, UNKNOWN, (bag(a=1, b=1), bag())),
        ((bag(a=1, b=1), bag(b=1)), "dequeue", None, "b", (bag(a=1, b=1), bag())),
        ((bag(a=1, b=1), bag()), "dequeue", None, "b", (bag(),)),
        ((bag(a=1, b=1), bag(c=1)), "dequeue", None, "b", (bag(c=1),)),
    ],
    "priority-queue": [
        ((), "enqueue", 2, None, (2,)),
        ((2,), "enqueue", 1, None, (1, 2)),
        ((1, 2), "enqueue", 1, None, (1, 1, 2)),
        ((1, 2), "dequeue", None, 1, (2,)),
        ((1, 2), "dequeue", None, 2, IMPOSSIBLE),
        ((1, 2), "dequeue", None, UNKNOWN, (2,)),
        ((), "dequeue", None, None, ()),
        ((1,), "dequeue", None, None, IMPOSSIBLE),
    ],
    "stack": [
        ((1,), "push", 2, None, (1, 2)),
        ((1, 2), "pop", None, 2, (1,)),
        ((1, 2), "pop", None, 1, IMPOSSIBLE),
        ((1, 2), "pop", None, UNKNOWN, (1,)),
        ((), "pop", None, None, ()),
        ((1,), "pop", None, None, IMPOSSIBLE),
    ],
    "counter": [
        (0, "add", 2, None, 2),
        (2, "add", -3, UNKNOWN, -1),
        (2, "read", None, 2, 2),
        (2, "read", None, 0, IMPOSSIBLE),
        (0, "read", None, None, 0),
        (2, "increment", 3, 5, 5),
        (2, "increment", 3, 3, IMPOSSIBLE),
        (2, "increment", 3, UNKNOWN, 5),
    ],
    "unique-ids": [
        (frozenset(), "generate", None, 1, frozenset({1})),
        (frozenset({1}), "generate", None, 1, IMPOSSIBLE),
        (frozenset({1}), "generate", None, UNKNOWN, frozenset({1})),
    ],
}

A = (("a",), TreeNode(1))
LAWS["tree"] = [
    ((), "put", ["a", 1, None, None], ["ok", [["a", None, 1, 1, None]]], (A,)),
    ((), "put", ["a", 1, None, None], ["ok", []], IMPOSSIBLE),
    ((), "put", ["a", 1, ["update"], None], ["node_not_found"], ()),
    ((A,), "put", ["a", 1, ["create"], None], ["mismatching_node", 1], (A,)),
    ((A,), "put", ["a", 1, None, None], ["ok", [["a", 1, 1, 1, None]]], (A,)),
    ((A,), "put", ["a", 2, None, None], UNKNOWN, ((("a",), TreeNode(2, 2)),)),
    ((), "put", ["b", 1, None, ["a", True]], ["keep_while_conditions_not_met"], ()),
    ((A,), "delete", ["a", None], ["ok", [["a", 1, 1, 1, "explicit"]]], ()),
    ((A,), "delete", ["a", ["version", 2]], ["ok", []], (A,)),
    (
        (A, (("b",), TreeNode(1, kept=(("a",), True)))),
        "delete",
        ["a", None],
        ["ok", [["a", 1, 1, 1, "explicit"], ["b", 1, 1, 1, "keep_while"]]],
        (),
    ),
    (
        (),
        "put",
        ["a/b", 1, None, None],
        UNKNOWN,
        ((("a",), TreeNode(None, is_implicit=True)), (("a", "b"), TreeNode(1))),
    ),
    ((A,), "get", "a", [1, 1, 1, 0], (A,)),
    ((A,), "get", "b", None, (A,)),
    ((A,), "list", None, [["a", 1, 1, 1, 0]], (A,)),
    ((A,), "txn", [["get", "a", None], ["delete", "a", None]], ["ok", [1]], ()),
    ((A,), "txn", [["delete", "a", None], ["create", "b", 1], ["update", "a", 1]], ["aborted", 2], (A,)),
]

GUESSES = {"fenced-mutex", "unordered-queue", "unique-ids"}
"""Models in which an op that crashed may have had several outcomes: their state leaves open which."""


def test_every_model_has_its_laws_here() -> None:
    assert {name.partition("(")[0] for name in LAWS} == set(models.names())


@pytest.mark.parametrize(
    ("name", "law"),
    # Not named by their states: sets are shown in another order in each process, and tests must have the same names.
    [pytest.param(name, law, id=f"{name} {n}") for name, laws in LAWS.items() for n, law in enumerate(laws)],
)
def test_a_step_is_as_written_down_here(name: str, law: Law) -> None:
    state, f, value, result, after = law
    answer = result if result is UNKNOWN else frozen(result)
    assert models.model(name).step(state, f, frozen(value), answer) == after


def met(name: str, rng: random.Random) -> Iterator[tuple[Model, Any]]:
    """States that the model comes by in random runs."""
    for _ in range(40):
        model = models.model(name)
        state = model.init()
        for _ in range(8):
            yield model, state
            f, value = rng.choice(INVOCATIONS[name])
            answers = [*map(frozen, possible_results(model, state, f, value)), UNKNOWN]
            following = model.step(state, f, frozen(value), rng.choice(answers))
            state = state if following is IMPOSSIBLE else following


def asked(model: Model, f: str, value: Any) -> Iterator[Any]:
    """All results of an op, as models get them, that make sense to the model."""
    yield UNKNOWN
    for result in results_of(f, value):
        try:
            model.step(model.init(), f, frozen(value), frozen(result))
        except TypeError:
            continue
        yield frozen(result)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", models.names())
def test_what_a_model_says_of_itself_is_true_in_every_state(name: str) -> None:
    observed = 0
    overwritten: dict[Any, Any] = {}
    for model, state in met(name, random.Random(name)):
        overwrites: Callable[[str, Any, Any], bool] | None = getattr(model, "overwrites", None)
        for f, value in INVOCATIONS[name]:
            for result in asked(model, f, value):
                following = model.step(state, f, frozen(value), result)
                assert hash(following) == hash(model.step(state, f, frozen(value), result))
                if model.observes(f, frozen(value), result):
                    assert following in (state, IMPOSSIBLE)
                    observed += 1
                if overwrites is not None and overwrites(f, frozen(value), result):
                    assert following == overwritten.setdefault((f, value), following) != IMPOSSIBLE
    assert observed or name in ("mutex", "owner-mutex", "reentrant-mutex", "fenced-mutex", "semaphore")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", sorted({*models.names()} - GUESSES))
def test_an_op_that_crashed_does_what_it_would_have_done_with_the_result_that_fits(name: str) -> None:
    compared = 0
    for model, state in met(name, random.Random(name)):
        for f, value in INVOCATIONS[name]:
            crashed = model.step(state, f, frozen(value), UNKNOWN)
            changes = {model.step(state, f, frozen(value), result) for result in asked(model, f, value)}
            changes -= {IMPOSSIBLE, state, crashed}
            assert not changes, "a result leads where the crashed op does not"
            compared += 1
    assert compared > 100


def sequential(rng: random.Random, name: str, length: int) -> list[tuple[str, Any, Any]]:
    """A run of the model: what was asked and answered."""
    model = models.model(name)
    state = model.init()
    run: list[tuple[str, Any, Any]] = []
    for _ in range(length):
        f, value = rng.choice(INVOCATIONS[name])
        fits = possible_results(model, state, f, value)
        if fits:
            result = rng.choice(fits)
            state = model.step(state, f, frozen(value), frozen(result))
            run.append((f, value, result))
    return run


def another(rng: random.Random, name: str) -> tuple[str, Any, Any]:
    """Any op of the model with any result."""
    f, value = rng.choice(INVOCATIONS[name])
    sensible = {*asked(models.model(name), f, value)}
    return f, value, rng.choice([result for result in results_of(f, value) if frozen(result) in sensible])


def replayed(name: str, run: list[tuple[str, Any, Any]]) -> bool:
    model = models.model(name)
    state: Any = model.init()
    for f, value, result in run:
        state = model.step(state, f, frozen(value), frozen(result))
        if state is IMPOSSIBLE:
            return False
    return True


def as_history(run: list[tuple[str, Any, Any]]) -> list[Op]:
    ops: list[Op] = []
    for f, value, result in run:
        invocation = Op(process=0, type="invoke", f=f, value=value)
        ops += [invocation, invocation.complete("ok", result)]
    return ops


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", models.names())
def test_runs_of_a_model_are_accepted_and_changed_ones_are_judged_by_replaying_them(name: str) -> None:
    rng, rejected = random.Random(name), list[bool]()
    for number in range(80):
        run, change = sequential(rng, name, rng.randint(1, 12)), bool(number % 2)
        if change and run:
            run[rng.randrange(len(run))] = another(rng, name)
        legal = replayed(name, run)
        assert legal or change
        assert check_ops(as_history(run), models.model(name), witness_time_s=0).valid == ("true" if legal else "false")
        rejected.append(not legal)
    assert sum(rejected) > 5, "too few of one verdict to prove anything"


@pytest.mark.parametrize(
    ("name", "f", "value", "result"),
    [
        ("set", "contains", 1, 1),
        ("set", "read", None, "ab"),
        ("set", "read", None, {}),
        ("grow-set", "read", None, "ab"),
        ("grow-set", "read", None, 0),
        ("counter", "read", None, ""),
        ("counter", "read", None, []),
        ("counter", "read", None, False),
        ("counter", "add", True, None),
        ("counter", "add", None, None),
        ("kv", "put", 0, None),
        ("kv", "put", [], None),
        ("kv", "append", 1, None),
        ("kv", "get", None, 0),
        ("kv", "get", None, False),
        ("fifo-queue", "enqueue", None, None),
        ("stack", "push", None, None),
        ("priority-queue", "enqueue", None, None),
        ("unordered-queue", "enqueue", None, None),
        ("semaphore", "acquire", 0, None),
        ("semaphore", "acquire", True, None),
        ("fenced-mutex", "acquire", 1, "seven"),
        ("multi-register", "read", None, 3),
        ("multi-register", "cas", [{"x": 1}], None),
        ("multi-register", "txn", [["append", "x", 1]], None),
        ("multi-register", "txn", [["r", "x"]], None),
        ("multi-register", "txn", [["r", "x", None]], [["r", "y", 1]]),
    ],
)
def test_values_that_mean_nothing_to_a_model_are_refused_by_name(name: str, f: str, value: Any, result: Any) -> None:
    with pytest.raises(UsageError, match=rf"model '{name}' failed on {f}.*TypeError: .{{20}}"):
        check_ops(as_history([(f, value, result)]), models.model(name))


@pytest.mark.parametrize(
    ("name", "f", "value", "words"),
    [
        ("cas-register", "cas", "ab", "a list of two"),
        ("cas-register", "cas", [1], "a list of two"),
        ("cas-register", "cas", [1, 2, 3], "a list of two"),
        ("create-once", "create", None, "stands for nothing"),
    ],
)
def test_values_that_mean_nothing_to_a_model_of_assignments_are_refused_by_name(
    name: str, f: str, value: Any, words: str
) -> None:
    with pytest.raises(UsageError, match=rf"model '{name}' cannot make sense of {f}.*TypeError: .*{words}"):
        check_ops(as_history([(f, value, None)]), models.model(name))


@pytest.mark.parametrize("read", ["", None])
@pytest.mark.parametrize("nothing", ["", None])
def test_null_under_a_key_is_the_empty_string_whether_put_or_read(nothing: Any, read: Any) -> None:
    put = [("put", "a", None), ("put", nothing, None)]
    assert check_ops(as_history([*put, ("get", None, read)]), "kv").valid == "true"
    assert check_ops(as_history([*put, ("append", nothing, None), ("get", None, read)]), "kv").valid == "true"
    assert check_ops(as_history([*put, ("get", None, "a")]), "kv").valid == "false"


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_a_vocabulary_of_small_histories_has_ops_without_end(vocabulary: str) -> None:
    rng = random.Random(1)
    fs = {VOCABULARIES[vocabulary].call(rng, fresh)[0] for fresh in range(100)}
    assert fs <= models.model(VOCABULARIES[vocabulary].model).fs


# --- parameters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("register", None),
        ("register(0)", 0),
        ('cas-register("a")', "a"),
        ("cas-register([1, 2])", (1, 2)),
        ("register(null)", None),
        ("counter(-3)", -3),
        ('kv("ab")', "ab"),
        ("semaphore(4)", 4),
        ('multi-register({"y": 1, "x": 0, "z": null})', X0Y1),
    ],
)
def test_a_parameter_is_json_in_parentheses(name: str, state: Any) -> None:
    assert models.model(name).init() == state


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("semaphore(0)", "the number of permits, a whole number from 1, as in semaphore"),
        ("semaphore(true)", "a whole number from 1"),
        ('reentrant-mutex("twice")', "how often it can be acquired, a whole number from 1"),
        ("counter([1])", "the number at the beginning"),
        ("kv(1)", "the string at the beginning"),
        ("multi-register(3)", "the values at the beginning, a map"),
        ("mutex(2)", r"model 'mutex' takes no parameter: leave out \(2\)"),
        ("semaphore(two)", "its parameter 'two' is not JSON"),
        ("semaphore()", "its parameter '' is not JSON"),
    ],
)
def test_a_parameter_that_does_not_fit_is_refused_with_what_does(name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        models.model(name)


@pytest.mark.parametrize("name", ["semafore(2)", "semaphore(2", "(2)", "semaphore(2)x"])
def test_a_name_that_is_none_is_answered_with_those_that_are(name: str) -> None:
    with pytest.raises(UnknownNameError, match=r"Known: .*semaphore"):
        models.model(name)


# --- owners -----------------------------------------------------------------------------------------------------------


def test_the_process_owns_what_names_no_owner() -> None:
    acquire, release = Op(process=3, type="invoke", f="acquire"), Op(process=4, type="invoke", f="release", value="b")
    ops = [acquire, acquire.complete("ok"), release, release.complete("ok")]
    table = to_table(
        [Op(index=i, process=op.process, type=op.type, f=op.f, value=op.value) for i, op in enumerate(ops)]
    )
    owned = [str(t) for t in read_ops(table, models.model("owner-mutex")).transitions]
    assert sorted(owned) == ["acquire 3", 'release "b"']
    assert sorted(str(t) for t in read_ops(table, models.model("mutex")).transitions) == ["acquire", 'release "b"']


@pytest.mark.parametrize(("name", "valid"), [("mutex", "true"), ("owner-mutex", "false"), ("fenced-mutex", "false")])
def test_only_a_lock_with_owners_knows_who_releases_it(name: str, valid: str) -> None:
    acquire, release = Op(process=3, type="invoke", f="acquire"), Op(process=4, type="invoke", f="release")
    assert check_ops([acquire, acquire.complete("ok"), release, release.complete("ok")], name).valid == valid


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (Transition("read", None, 3), "read -> 3"),
        (Transition("read", None, None), "read -> null"),
        (Transition("read", None, UNKNOWN), "read"),
        (Transition("dequeue", None, None), "dequeue -> null"),
        (Transition("write", 1, 1), "write 1"),
        (Transition("write", 1, None), "write 1"),
        (Transition("add", 1, False), "add 1 -> false"),
        (Transition("cas", (1, 2), UNKNOWN), "cas [1,2]"),
        (Transition("acquire", None, None), "acquire"),
    ],
)
def test_an_op_is_shown_with_what_it_said(what: Transition, words: str) -> None:
    assert str(what) == words

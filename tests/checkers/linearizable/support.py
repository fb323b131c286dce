"""Linearizability by its definition, slowly; and small random histories of every model to compare with."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from splitbrain.checkers import models
from splitbrain.checkers.linearizable.encoding import Problem, events
from splitbrain.checkers.linearizable.ops import Ops, read_ops
from splitbrain.checkers.linearizable.search import Limits, Result, Search
from splitbrain.checkers.linearizable.transitions import Stepper
from splitbrain.checkers.models import IMPOSSIBLE, UNKNOWN, KeyValue, Model, frozen
from splitbrain.checkers.models.trees import Tree
from splitbrain.results.arrow import to_table
from splitbrain.results.history import Op, OpType, Pair, pairs

FAR = 1 << 60

Invocation = tuple[str, Any]

INVOCATIONS: dict[str, list[Invocation]] = {
    "register": [("read", None), ("write", 0), ("write", 1)],
    "cas-register": [("read", None), ("write", 0), ("write", 1), ("cas", [0, 1]), ("cas", [1, 0]), ("cas", [1, 1])],
    "read-modes": [
        *(("read", None), ("write", 0), ("write", 1), ("cas", [0, 1])),
        *(("read-leader", None), ("read-local", None), ("read-after", None)),
    ],
    "create-once": [("read", None), ("create", 1), ("create", 2)],
    "mutex": [("acquire", None), ("release", None)],
    "owner-mutex": [("acquire", 1), ("acquire", 2), ("hold", 1), ("hold", 2), ("release", 1), ("release", 2)],
    "reentrant-mutex": [("acquire", 1), ("acquire", 2), ("release", 1), ("release", 2)],
    "fenced-mutex": [("acquire", 1), ("acquire", 2), ("release", 1), ("release", 2)],
    "semaphore": [("acquire", None), ("release", None)],
    "multi-register": [
        ("read", {"x": None}),
        ("write", {"x": 0}),
        ("write", {"x": 1, "y": 1}),
        ("txn", [["r", "x", None], ["w", "x", 1]]),
        ("txn", [["w", "x", 0], ["r", "y", None]]),
        ("cas", [{"x": 0, "y": None}, {"y": 1}]),
    ],
    "set": [("add", 1), ("add", 2), ("remove", 1), ("contains", 1), ("contains", 2), ("read", None)],
    "grow-set": [("read", None), ("add", 1), ("add", 2), ("add", 3)],
    "fifo-queue": [("enqueue", 1), ("enqueue", 2), ("dequeue", None)],
    "unordered-queue": [("enqueue", 1), ("enqueue", 2), ("enqueue", 3), ("dequeue", None)],
    "priority-queue": [("enqueue", 1), ("enqueue", 2), ("enqueue", 3), ("dequeue", None)],
    "stack": [("push", 1), ("push", 2), ("pop", None)],
    "unique-ids": [("generate", None)],
    "counter": [("read", None), ("add", 1), ("add", 2), ("increment", 1)],
    "tree": [
        ("put", ["a", 1, None, None]),
        ("put", ["a/b", 2, ["create"], None]),
        ("put", ["b", 1, None, ["a", True]]),
        ("delete", ["a", None]),
        ("get", "a"),
        ("list", None),
        ("txn", [["put", "b", 2], ["get", "a", None]]),
    ],
    "kv": [("get", None), ("put", "a"), ("append", "b"), ("append", "c")],
}

RESULTS: dict[str, list[Any]] = {
    "read": [None, 0, 1, 2, 3, [], [1], [2], [1, 2], [3, 1], [1, 2, 3], {"x": 0}, {"x": 1}, {"x": None, "y": 1}],
    "read-leader": [None, 0, 1, 2],
    "read-local": [None, 0, 1, 2],
    "read-after": [None, 0, 1, 2],
    "get": ["", "a", "b", "c", "ab", "ac", "bc", "cb", "abc"],
    "acquire": [1, 2, 3, 4],
    "hold": [True, False],
    "contains": [True, False],
    "remove": [True, False, None],
    "dequeue": [None, 1, 2, 3],
    "pop": [None, 1, 2],
    "generate": [1, 2, 3, 4, 5],
    "increment": [1, 2, 3, 4, 5, 6],
}


class Table:
    """A model that hides what kind it is, so that the search has to tabulate it."""

    def __init__(self, model: Model) -> None:
        self.name, self.fs = model.name, model.fs
        self.init, self.step, self.observes = model.init, model.step, model.observes


class Texts(KeyValue):
    """A string of which every value is a state of its own, even if no get shows it: appends that are hard."""

    name = "texts"
    signature = None  # pyright: ignore[reportAssignmentType]


OF_TREES: list[Any] = [
    None,
    [1, 1, 1, 0],
    [],
    [["a", 1, 1, 1, 0]],
    ["ok", []],
    ["ok", [1]],
    ["ok", [None]],
    ["ok", [["a", None, 1, 1, None]]],
    ["ok", [["a/b", None, 1, 1, None]]],
    ["ok", [["a", 1, 1, 1, "explicit"]]],
    ["mismatching_node", 1],
    ["keep_while_conditions_not_met"],
]
"""Some results of the model `tree`: which one an op has follows from the state."""


def results_of(f: str, value: Any) -> list[Any]:
    if (f, value) in INVOCATIONS["tree"] and (f, value) not in INVOCATIONS["kv"]:
        return OF_TREES
    if f == "cas":
        return [value, False]
    if f == "txn":
        return [
            [["r", name, seen] if kind == "r" else [kind, name, new] for kind, name, new in value]
            for seen in (None, 0, 1)
        ]
    return RESULTS.get(f, [value])


def possible_results(model: Model, state: Any, f: str, value: Any) -> list[Any]:
    if isinstance(model, Tree):
        return [msgspec.to_builtins(model.result(state, f, frozen(value)))]
    fits: list[Any] = []
    for result in results_of(f, value):
        try:
            if model.step(state, f, frozen(value), frozen(result)) is not IMPOSSIBLE:
                fits.append(result)
        except TypeError:  # a result of another model's read
            continue
    return fits


def random_history(rng: random.Random, name: str, *, ops: int, processes: int, lies: float, crashes: float) -> list[Op]:
    """A history that mostly tells the truth; ops take effect at their completions."""
    model = models.model(name)
    state = model.init()
    history: list[Op] = []
    under_way: dict[int, Op] = {}
    next_process, invoked = processes, 0
    idle = list(range(processes))
    while invoked < ops or under_way:
        if idle and invoked < ops and (not under_way or rng.random() < 0.5):
            process = idle.pop(rng.randrange(len(idle)))
            f, value = rng.choice(INVOCATIONS[name])
            under_way[process] = op = Op(process=process, type="invoke", f=f, value=value)
            history.append(op)
            invoked += 1
            continue
        process = rng.choice(sorted(under_way))
        op = under_way.pop(process)
        fits = possible_results(model, state, op.f, op.value)
        if rng.random() < crashes:
            took_effect = model.step(state, op.f, frozen(op.value), UNKNOWN)
            if rng.random() < 0.5 and took_effect is not IMPOSSIBLE:
                state = took_effect
            if rng.random() < 0.7:
                history.append(op.complete("info"))
            idle.append(next_process)
            next_process += 1
            continue
        idle.append(process)
        kind: OpType = "ok"
        result = None
        if rng.random() < lies:
            result = rng.choice([r for r in results_of(op.f, op.value) if _acceptable(model, state, op, r)])
        elif fits:
            result = rng.choice(fits)
            state = model.step(state, op.f, frozen(op.value), frozen(result))
        else:
            kind = "fail"
        history.append(op.complete(kind, result))
    return [msgspec.structs.replace(op, index=index, time=index * 1_000_000) for index, op in enumerate(history)]


def _acceptable(model: Model, state: Any, op: Op, result: Any) -> bool:
    try:
        model.step(state, op.f, frozen(op.value), frozen(result))
    except TypeError:
        return False
    return True


# --- the definition ---------------------------------------------------------------------------------------------------


def candidates(history: Sequence[Op]) -> list[Pair]:
    """Ops that may have happened, by invocation."""
    happened = [pair for pair in pairs(history) if pair.completion is None or pair.completion.type != "fail"]
    return sorted(happened, key=lambda pair: pair.invoke.index)


def _end(pair: Pair) -> int:
    return FAR if pair.completion is None or pair.completion.type != "ok" else pair.completion.index


def finals(
    model: Model, history: Sequence[Op], until: int, obliged: Callable[[Pair], bool] = lambda _: True
) -> Iterator[Any]:
    """The states in which the sequential executions end that explain the history up to index `until`.

    A sequence contains every op that had completed `ok` by then and is obliged; it may contain any other op that had
    been invoked, with the result that it came to have. An op that returned before another was invoked comes first.
    """
    ops = [pair for pair in candidates(history) if pair.invoke.index <= until]
    end = [_end(pair) for pair in ops]
    must = [end[i] <= until and obliged(pair) for i, pair in enumerate(ops)]
    calls = [
        (
            pair.invoke.f,
            frozen(pair.invoke.value),
            UNKNOWN if pair.completion is None or end[i] == FAR else frozen(pair.completion.value),
        )
        for i, pair in enumerate(ops)
    ]
    all_of = range(len(ops))
    obligation = sum(1 << i for i in all_of if must[i])
    later = [sum(1 << j for j in all_of if end[i] < ops[j].invoke.index) for i in all_of]
    earlier = [sum(1 << j for j in all_of if must[j] and end[j] < ops[i].invoke.index) for i in all_of]
    seen: set[tuple[Any, int]] = set()

    def extend(state: Any, done: int) -> Iterator[Any]:
        if (state, done) in seen:
            return
        seen.add((state, done))
        if obligation & ~done == 0:
            yield state
        for i in all_of:
            if done >> i & 1 or done & later[i] or earlier[i] & ~done:
                continue
            following = model.step(state, *calls[i])
            if following is not IMPOSSIBLE:
                yield from extend(following, done | 1 << i)

    yield from extend(model.init(), 0)


def linearizable(
    model: Model, history: Sequence[Op], until: int = FAR - 1, obliged: Callable[[Pair], bool] = lambda _: True
) -> bool:
    return any(True for _ in finals(model, history, until, obliged))


# --- the search -------------------------------------------------------------------------------------------------------


def search(model: Model, history: Sequence[Op], limits: Limits | None = None) -> tuple[Result, Problem, Ops, Stepper]:
    ops = read_ops(to_table(list(history)), model)
    stepper = Stepper(model, ops.transitions, cells=1_000_000)
    problem = events(ops, stepper.observer)
    return Search(problem, stepper, limits or Limits()).run(), problem, ops, stepper


def failing_index(problem: Problem, ops: Ops, result: Result) -> int:
    """The history index of the completion at which the search found the violation."""
    return ops.cell("index", int(ops.completed[int(problem.op[result.event])]))


class Clock:
    """Stands for `time`: a thread's CPU time that passes by so much with each look."""

    def __init__(self, tick: float) -> None:
        self.now = 0.0
        self._tick = tick

    def cpu_s(self) -> float:
        self.now += self._tick
        return self.now

"""Small random histories of every model: ops take effect at random moments, some answers lie, some ops crash."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any, Final

import msgspec

from splitbrain.checkers import models
from splitbrain.checkers.models import IMPOSSIBLE, UNKNOWN, Model, frozen
from splitbrain.results.history import Op

Call = tuple[str, Any]
Answers = Callable[[str, Any, Sequence[Any]], list[Any]]


@dataclass(frozen=True)
class Vocabulary:
    """What clients of a model ask, and what they may be told.

    Attributes:
        model: name of the model.
        call: the next op, drawn; the number is one that was not used before in this history.
        answers: results to choose from, given function, argument and the arguments used so far.
    """

    model: str
    call: Callable[[random.Random, int], Call]
    answers: Answers


def _own(f: str, value: Any, used: Sequence[Any]) -> list[Any]:
    return [value]


def _any_used(f: str, value: Any, used: Sequence[Any]) -> list[Any]:
    """A read returns a value that somebody used, or none; what changes the object returns its argument."""
    if f in ("read", "get", "dequeue", "pop"):
        return [None, *dict.fromkeys(used)]
    return [value, False] if f == "cas" else [value]


def _any_read(f: str, value: Any, used: Sequence[Any]) -> list[Any]:
    return _any_used("read" if f.startswith("read") else f, value, used)


def _subsets(f: str, value: Any, used: Sequence[Any]) -> list[Any]:
    if f == "contains":
        return [True, False]
    if f != "read":
        return [value, True, False] if f == "remove" else [value]
    elements = sorted(set(used))
    return [list(chosen) for size in range(len(elements) + 1) for chosen in combinations(elements, size)]


def _subsets_and_effects(f: str, value: Any, used: Sequence[Any]) -> list[Any]:
    return [True, False, None] if f in ("add", "remove") else _subsets(f, value, used)


def _numbers(f: str, value: Any, used: Sequence[Any]) -> list[Any]:
    return list(range(sum(used) + 1)) if f in ("read", "increment") else [value]


def _strings(f: str, value: Any, used: Sequence[Any]) -> list[Any]:
    if f != "get":
        return [value]
    letters = sorted(set(used))
    return ["", *letters, *(a + b for a in letters for b in letters)]


def _joined(f: str, value: Any, used: Sequence[Any]) -> list[Any]:
    """Up to three of the strings so far, in any order."""
    if f != "get":
        return [value]
    return ["".join(some) for size in range(4) for some in permutations(used, size)]


def _tokens(f: str, value: Any, used: Sequence[Any]) -> list[Any]:
    return [1, 2, 3, 4] if f == "acquire" else [value]


def _ids(f: str, value: Any, used: Sequence[Any]) -> list[Any]:
    return [1, 2, 3, 4, 5]


def _maps(f: str, value: Any, used: Sequence[Any]) -> list[Any]:
    if f in ("write", "cas"):
        return [value]
    values = (None, 0, 1)
    if f == "read":
        return [{"x": x} for x in values] + [{"x": x, "y": y} for x in values for y in values]
    return [[["r", value[0][1], x], value[1]] for x in values]


def _among(*calls: Call) -> Callable[[random.Random, int], Call]:
    return lambda rng, fresh: rng.choice(calls)


def _fresh(write: str, read: str) -> Callable[[random.Random, int], Call]:
    return lambda rng, fresh: rng.choice([(write, fresh), (read, None)])


def _registers(rng: random.Random, fresh: int) -> Call:
    f = rng.choice(["read", "write", "cas", "txn"])
    if f == "cas":
        return f, [{rng.choice("xy"): rng.choice([0, 1, None])}, {rng.choice("xy"): rng.randrange(2)}]
    if f == "txn":
        return f, [["r", rng.choice("xy"), None], ["w", rng.choice("xy"), rng.randrange(2)]]
    if f == "write":
        return f, {name: rng.randrange(2) for name in rng.choice(["x", "y", "xy"])}
    return f, dict.fromkeys(rng.choice(["x", "xy"]))


def _fresh_cas(rng: random.Random, fresh: int) -> Call:
    return rng.choice([("read", None), ("write", fresh), ("cas", [rng.randrange(max(1, fresh)), fresh])])


def _in_modes(rng: random.Random, fresh: int) -> Call:
    f = rng.choice(["read", "read-leader", "read-local", "read-after", "write", "write", "cas"])
    return f, {"write": fresh, "cas": [rng.randrange(max(1, fresh)), fresh]}.get(f)


def _once(rng: random.Random, fresh: int) -> Call:
    return rng.choice([("add", fresh), ("remove", rng.randrange(fresh + 1)), ("contains", rng.randrange(fresh + 1))])


def _owners(*fs: str) -> Callable[[random.Random, int], Call]:
    return lambda rng, fresh: (rng.choice(fs), rng.choice(["a", "b"]))


_QUEUE: Final = _among(("enqueue", 1), ("enqueue", 2), ("dequeue", None))

VOCABULARIES: Final[Mapping[str, Vocabulary]] = {
    "register": Vocabulary("register", _among(("read", None), ("write", 0), ("write", 1)), _any_used),
    "register, unique writes": Vocabulary("register", _fresh("write", "read"), _any_used),
    "cas-register": Vocabulary(
        "cas-register",
        _among(("read", None), ("write", 0), ("write", 1), ("cas", [0, 1]), ("cas", [1, 0]), ("cas", [1, 1])),
        lambda f, value, used: [None, 0, 1] if f == "read" else _any_used(f, value, used),
    ),
    "cas-register, unique values": Vocabulary(
        "cas-register",
        _fresh_cas,
        lambda f, value, used: (
            [None, *range(len(used))] if f == "read" else [value, value, value, False] if f == "cas" else [value]
        ),
    ),
    "read-modes": Vocabulary("read-modes", _in_modes, _any_read),
    "read-modes, with modes": Vocabulary('read-modes(["read-leader", "read-after"])', _in_modes, _any_read),
    "multi-register": Vocabulary("multi-register", _registers, _maps),
    "kv": Vocabulary("kv", _among(("get", None), ("put", "a"), ("append", "b"), ("append", "c")), _strings),
    "kv, unique puts": Vocabulary(
        "kv", lambda rng, fresh: rng.choice([("put", f"v{fresh}"), ("get", None)]), _any_used
    ),
    "kv, distinct pieces": Vocabulary(
        "kv", lambda rng, fresh: rng.choice([("get", None), ("append", f"{fresh}"), ("put", f"v{fresh}")]), _joined
    ),
    "create-once": Vocabulary("create-once", _among(("read", None), ("create", 1), ("create", 2)), _any_used),
    "mutex": Vocabulary("mutex", _among(("acquire", None), ("release", None)), _own),
    "reentrant-mutex": Vocabulary("reentrant-mutex", _owners("acquire", "release"), _own),
    "owner-mutex": Vocabulary("owner-mutex", _owners("acquire", "release"), _own),
    "owner-mutex, with holds": Vocabulary(
        "owner-mutex",
        _owners("acquire", "hold", "release"),
        lambda f, value, used: [True, False] if f == "hold" else [value],
    ),
    "owner-mutex, by process": Vocabulary("owner-mutex", _among(("acquire", None), ("release", None)), _own),
    "fenced-mutex": Vocabulary("fenced-mutex", _owners("acquire", "release"), _tokens),
    "semaphore": Vocabulary("semaphore(2)", _among(("acquire", None), ("release", None)), _own),
    "set": Vocabulary(
        "set",
        _among(("add", 1), ("add", 2), ("remove", 1), ("contains", 1), ("contains", 2), ("read", None)),
        _subsets_and_effects,
    ),
    "set, by element": Vocabulary(
        "set", _among(("add", 1), ("add", 2), ("remove", 1), ("contains", 1), ("contains", 2)), _subsets
    ),
    "set, unique adds": Vocabulary("set", _once, _subsets_and_effects),
    "grow-set": Vocabulary("grow-set", _among(("add", 1), ("add", 2), ("read", None)), _subsets),
    "grow-set, unique adds": Vocabulary("grow-set", _fresh("add", "read"), _subsets),
    "fifo-queue": Vocabulary("fifo-queue", _QUEUE, _any_used),
    "fifo-queue, unique values": Vocabulary("fifo-queue", _fresh("enqueue", "dequeue"), _any_used),
    "unordered-queue": Vocabulary("unordered-queue", _QUEUE, _any_used),
    "unordered-queue, unique values": Vocabulary("unordered-queue", _fresh("enqueue", "dequeue"), _any_used),
    "priority-queue": Vocabulary("priority-queue", _QUEUE, _any_used),
    "priority-queue, unique values": Vocabulary(
        "priority-queue",
        lambda rng, fresh: rng.choice([("enqueue", fresh * 7 % 10), ("dequeue", None)]),
        _any_used,
    ),
    "stack": Vocabulary("stack", _among(("push", 1), ("push", 2), ("pop", None)), _any_used),
    "stack, unique values": Vocabulary("stack", _fresh("push", "pop"), _any_used),
    "counter": Vocabulary("counter", _among(("add", 1), ("add", 2), ("read", None)), _numbers),
    "counter, by one": Vocabulary("counter", _among(("add", 1), ("read", None)), _numbers),
    "counter, with sums": Vocabulary(
        "counter", _among(("increment", 1), ("increment", 3), ("add", 1), ("read", None)), _numbers
    ),
    "unique-ids": Vocabulary("unique-ids", _among(("generate", None)), _ids),
}
"""By what is special about them; several for a model that has a decider with preconditions of its own."""


@dataclass
class _UnderWay:
    invocation: Op
    took_effect: bool = False
    result: Any = None
    possible: bool = True


def small_history(rng: random.Random, vocabulary: Vocabulary) -> list[Op]:
    """At most eight ops of at most four processes; a quarter of the histories tell nothing but the truth."""
    count, processes = rng.randint(2, 8), rng.randint(1, 4)
    lies = rng.choice([0.0, 0.2, 0.5, 0.8])
    crashes = rng.choice([0.0, 0.0, 0.2, 0.5])
    return _History(rng, vocabulary, lies, crashes).run(count, processes)


class _History:
    def __init__(self, rng: random.Random, vocabulary: Vocabulary, lies: float, crashes: float) -> None:
        self._rng = rng
        self._vocabulary = vocabulary
        self._lies, self._crashes = lies, crashes
        self._model: Model = models.model(vocabulary.model)
        self._state: Any = self._model.init()
        self._used: list[Any] = []
        self._ops: list[Op] = []

    def run(self, count: int, processes: int) -> list[Op]:
        under_way: dict[int, _UnderWay] = {}
        idle, successor, invoked = list(range(processes)), processes, 0
        while invoked < count or under_way:
            if idle and invoked < count and (not under_way or self._rng.random() < 0.45):
                process = idle.pop(self._rng.randrange(len(idle)))
                under_way[process] = _UnderWay(self._invoke(process, invoked))
                invoked += 1
                continue
            process = self._rng.choice(sorted(under_way))
            op = under_way[process]
            if not op.took_effect and self._rng.random() < 0.6:
                self._take_effect(op)
                continue
            del under_way[process]
            if self._rng.random() < self._crashes:
                if self._rng.random() < 0.7:
                    self._ops.append(op.invocation.complete("info"))
                idle.append(successor)
                successor += 1
            else:
                self._complete(op)
                idle.append(process)
        return [msgspec.structs.replace(op, index=index, time=index * 1_000_000) for index, op in enumerate(self._ops)]

    def _invoke(self, process: int, fresh: int) -> Op:
        f, value = self._vocabulary.call(self._rng, fresh)
        if f == "cas":
            self._used.append(value[1])
        elif isinstance(value, int | str):
            self._used.append(value)
        op = Op(process=process, type="invoke", f=f, value=value)
        self._ops.append(op)
        return op

    def _answers(self, op: Op) -> list[Any]:
        return self._vocabulary.answers(op.f, op.value, self._used)

    def _take_effect(self, op: _UnderWay) -> None:
        call = op.invocation
        argument = frozen(call.value)
        if argument is None and getattr(self._model, "owned", False):
            argument = call.process
        op.took_effect = True
        fits = [r for r in self._answers(call) if self._follows(call.f, argument, frozen(r)) is not IMPOSSIBLE]
        op.possible = bool(fits)
        if fits:
            op.result = self._rng.choice(fits)
            self._state = self._follows(call.f, argument, frozen(op.result))
        elif not self._answers(call):
            self._state = self._model.step(self._state, call.f, argument, UNKNOWN)

    def _follows(self, f: str, argument: Any, result: Any) -> Any:
        return self._model.step(self._state, f, argument, result)

    def _complete(self, op: _UnderWay) -> None:
        if not op.took_effect:
            self._take_effect(op)
        if self._rng.random() < self._lies:
            self._ops.append(op.invocation.complete("ok", self._rng.choice(self._answers(op.invocation))))
        elif op.possible:
            self._ops.append(op.invocation.complete("ok", op.result))
        else:
            self._ops.append(op.invocation.complete("fail"))

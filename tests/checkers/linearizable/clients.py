"""Random clients of the models that deciders decide, and histories of what they do."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from splitbrain.checkers import models
from splitbrain.checkers.models import frozen
from splitbrain.results.history import Op, OpType

FAILS: Final = object()
"""The truth of an op that cannot happen in that state."""

Answers = tuple[Any, Any]

Drawn = tuple[str, Any]
"""The function and argument of an op."""


@dataclass(frozen=True)
class Clients:
    """What clients of a model do.

    Attributes:
        model: name of the model.
        call: draws the function and argument of the next op; the number is one that was not used before.
        answers: what an op answers in a state, truly (FAILS if it cannot happen) and as a lie, drawn; given the random
            numbers, state, function, argument, and the arguments used so far.
    """

    model: str
    call: Callable[[random.Random, int], Drawn]
    answers: Callable[[random.Random, Any, str, Any, Sequence[Any]], Answers]


@dataclass
class _UnderWay:
    invocation: Op
    took_effect: bool = False
    answer: Any = None


def random_history(
    rng: random.Random, clients: Clients, *, ops: int, processes: int, lies: float, crashes: float
) -> list[Op]:
    """Ops take effect at random moments between their calls and returns; some answers are lies, some ops crash.

    A crashed op's process has a successor. What lies had or had not an effect at random.
    """
    model = models.model(clients.model)
    state: Any = model.init()
    history: list[Op] = []
    used: list[Any] = []
    under_way: dict[int, _UnderWay] = {}
    idle, successor, invoked = list(range(processes)), processes, 0
    while invoked < ops or under_way:
        if idle and invoked < ops and (not under_way or rng.random() < 0.4):
            f, value = clients.call(rng, invoked + 1)
            invoked += 1
            op = Op(process=idle.pop(rng.randrange(len(idle))), type="invoke", f=f, value=value)
            used.append(value)
            under_way[op.process] = _UnderWay(op)
            history.append(op)
            continue
        process = rng.choice(sorted(under_way))
        current = under_way[process]
        f, value = current.invocation.f, frozen(current.invocation.value)
        if not current.took_effect:
            current.took_effect = True
            truth, lie = clients.answers(rng, state, f, value, used)
            lying = rng.random() < lies
            current.answer = lie if lying else truth
            if truth is not FAILS and not (lying and rng.random() < 0.5):
                state = model.step(state, f, value, frozen(truth))
            if rng.random() < 0.5:
                continue
        del under_way[process]
        if rng.random() < crashes:
            if rng.random() < 0.7:
                history.append(current.invocation.complete("info"))
            idle.append(successor)
            successor += 1
            continue
        idle.append(process)
        failed = current.answer is FAILS
        kind: OpType = "fail" if failed else "ok"
        history.append(current.invocation.complete(kind, None if failed else current.answer))
    return [msgspec.structs.replace(op, index=index, time=index * 1_000_000) for index, op in enumerate(history)]


# --- registers --------------------------------------------------------------------------------------------------------


def _of_register(rng: random.Random, state: Any, f: str, value: Any, used: Sequence[Any]) -> Answers:
    if f == "cas":
        return (value if state == value[0] else FAILS), value
    seen: list[Any] = [new[1] if isinstance(new, list) else new for new in used]
    return (state, rng.choice(seen)) if f in ("read", "get") else (None, None)


def _cas(rng: random.Random, fresh: int) -> Drawn:
    expected = rng.choice([None, *range(max(1, fresh - 4), fresh)])
    return rng.choice([("read", None), ("read", None), ("write", fresh), ("cas", [expected, fresh])])


REGISTER: Final = Clients("register", lambda rng, fresh: rng.choice([("read", None), ("write", fresh)]), _of_register)
CAS_REGISTER: Final = Clients("cas-register", _cas, _of_register)
REPEATED_WRITES: Final = Clients(
    "cas-register(0)",
    lambda rng, fresh: rng.choice([("read", None), ("write", rng.randrange(4)), ("cas", [rng.randrange(4), fresh])]),
    _of_register,
)
PUTS: Final = Clients("kv", lambda rng, fresh: rng.choice([("get", None), ("put", str(fresh))]), _of_register)


# --- strings ----------------------------------------------------------------------------------------------------------


def _of_text(rng: random.Random, state: Any, f: str, value: Any, used: Sequence[Any]) -> Answers:
    """Lies take something away from the string, add something to it, or turn it around."""
    if f != "get":
        return None, None
    seen: list[str] = [text for text in used if text] or ["?"]
    one, other = rng.choice(seen), rng.choice(seen)
    return state, rng.choice(["", None, one, one + other, state + one, state[:-3], state[3:] + state[:3]])


def _distinct(rng: random.Random, fresh: int) -> Drawn:
    f = rng.choice(["get", "get", "append", "append", "put"])
    return f, None if f == "get" else f"<{fresh}>"


def _alike(rng: random.Random, fresh: int) -> Drawn:
    f = rng.choice(["get", "append", "append", "put"])
    return f, None if f == "get" else rng.choice(["a", "b", "ab", "aa", "", None, f"<{fresh}>"])


DISTINCT_PIECES: Final = Clients("kv", _distinct, _of_text)
ONLY_APPENDS: Final = Clients("kv", lambda rng, fresh: rng.choice([("get", None), ("append", f"<{fresh}>")]), _of_text)
APPENDED_NUMBERS: Final = Clients(
    "kv", lambda rng, fresh: rng.choice([("get", None), ("append", str(fresh + 8))]), _of_text
)
PIECES_ALIKE: Final = Clients('kv("a")', _alike, _of_text)


# --- counters ---------------------------------------------------------------------------------------------------------


def _of_counter(rng: random.Random, state: Any, f: str, value: Any, used: Sequence[Any]) -> Answers:
    return (state, state + rng.choice([-2, -1, 1, 2])) if f == "read" else (None, None)


def _adding(model: str, *amounts: int) -> Clients:
    return Clients(model, lambda rng, fresh: rng.choice([("read", None), ("add", rng.choice(amounts))]), _of_counter)


ADDS_OF_ONE: Final = _adding("counter", 1)
ADDS_OF_MINUS_TWO: Final = _adding("counter(7)", -2, 0)
ADDS_OF_MORE: Final = _adding("counter", 1, 2, 3)
ADDS_OF_ANY: Final = _adding("counter", 1, 2, -1)


# --- sets -------------------------------------------------------------------------------------------------------------


def _of_element(rng: random.Random, state: Any, f: str, value: Any, used: Sequence[Any]) -> Answers:
    present = value in state
    if f == "contains":
        return present, not present
    changes = present == (f == "remove")
    return rng.choice([changes, None]), not changes


def _of_all(rng: random.Random, state: Any, f: str, value: Any, used: Sequence[Any]) -> Answers:
    if f == "add":
        return None, None
    elements = rng.sample(sorted(state), len(state))
    known = sorted({element for element in used if element is not None})
    lie = {element for element in known if (element in state) != (rng.random() < 1.5 / len(known))}
    return elements, rng.sample(sorted(lie), len(lie))


def _one_of(*elements: int) -> Clients:
    return Clients(
        "set", lambda rng, fresh: (rng.choice(["add", "remove", "contains"]), rng.choice(elements)), _of_element
    )


def _repeating(rng: random.Random, fresh: int) -> Drawn:
    return rng.choice([("add", rng.randrange(3)), ("read", None)])


ONE_ELEMENT: Final = _one_of(1)
TWO_ELEMENTS: Final = _one_of(1, 2)
UNIQUE_ADDS: Final = Clients("grow-set", lambda rng, fresh: rng.choice([("add", fresh), ("read", None)]), _of_all)
REPEATED_ADDS: Final = Clients("grow-set", _repeating, _of_all)
NO_REMOVES: Final = Clients("set", _repeating, _of_all)


# --- names and ids ----------------------------------------------------------------------------------------------------


def _of_name(rng: random.Random, state: Any, f: str, value: Any, used: Sequence[Any]) -> Answers:
    if f == "read":
        return state, rng.choice([*used, None])
    return (None if state is None else FAILS), None


def _of_ids(rng: random.Random, state: Any, f: str, value: Any, used: Sequence[Any]) -> Answers:
    return len(state) + 1, rng.randint(1, 9)


NAMES: Final = Clients(
    "create-once",
    lambda rng, fresh: rng.choice([("read", None), ("read", None), ("create", rng.randrange(3))]),
    _of_name,
)
IDS: Final = Clients("unique-ids", lambda rng, fresh: ("generate", None), _of_ids)

"""Specialised deciders against the definition on small random histories, and against the frontier on longer ones."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from checkers import models
from checkers.linearizable.deciders import Decider, Decision
from checkers.linearizable.encoding import events
from checkers.linearizable.ops import Ops, read_ops
from checkers.linearizable.search import Limits, Search
from checkers.linearizable.transitions import Stepper
from checkers.models import Model, frozen
from results.arrow import to_table
from results.history import Op, OpType
from tests.checkers.linearizable.support import linearizable

FAILS: Final = object()
"""The truth of an op that cannot happen in that state."""

Answers = tuple[Any, Any]
Row = tuple[int, OpType, str, Any]
"""Process, type, function and value of an event."""


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
    call: Callable[[random.Random, int], tuple[str, Any]]
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


def history_of(*rows: Row) -> list[Op]:
    return [
        Op(index=index, time=index, process=process, type=kind, f=f, value=value)
        for index, (process, kind, f, value) in enumerate(rows)
    ]


def acknowledged(process: int, f: str, value: Any, result: Any = None) -> list[Row]:
    return [(process, "invoke", f, value), (process, "ok", f, result)]


def decided(decider: Decider, model: str, history: Sequence[Op]) -> Decision | None:
    chosen = models.model(model)
    return decider(read_ops(to_table(list(history)), chosen), chosen)


def culprits(decision: Decision | None, ops: Ops) -> list[str]:
    """What the culprits were, in the order of their invocations."""
    assert decision is not None
    return [str(ops.transitions[int(ops.transition[op])]) for op in decision.culprits]


def assert_as_by_definition(decider: Decider, model: Model, history: Sequence[Op]) -> bool | None:
    """The verdict is right, and the culprits contradict each other whatever the other ops did.

    That is: with every other op made optional within its interval, the history is still not linearizable.
    """
    ops = read_ops(to_table(list(history)), model)
    decision = decider(ops, model)
    if decision is None:
        return None
    told = "\n".join([str(decision), *(f"{op.index} {op.process} {op.type} {op.f} {op.value}" for op in history)])
    assert decision.valid == linearizable(model, history), told
    if not decision.valid:
        assert decision.reason
        assert list(decision.culprits) == sorted(set(decision.culprits))
        indexes = {history[int(ops.invoked[op])].index for op in decision.culprits}
        assert not linearizable(model, history, obliged=lambda pair: pair.invoke.index in indexes), told
    return decision.valid


def assert_exact(decider: Decider, clients: Clients, histories: int, *, ops: int = 7, declines: bool = False) -> None:
    """On so many small histories, crashed ops included, a tenth of them and more of either verdict."""
    rng = random.Random(clients.model)
    model = models.model(clients.model)
    verdicts: Counter[bool | None] = Counter()
    for _ in range(histories):
        history = random_history(
            rng,
            clients,
            ops=rng.randint(3, ops),
            processes=rng.randint(2, 4),
            lies=rng.choice([0.0, 0.3, 0.6]),
            crashes=rng.choice([0.0, 0.15, 0.4]),
        )
        verdicts[assert_as_by_definition(decider, model, history)] += 1
    assert min(verdicts[True], verdicts[False]) > histories / 10, verdicts
    assert declines or not verdicts[None], verdicts


def assert_as_by_frontier(
    decider: Decider, clients: Clients, histories: int, *, lies: float, crashes: float = 0.02, ops: int = 120
) -> None:
    """On so many histories that are too long for the definition."""
    rng = random.Random(clients.model)
    model = models.model(clients.model)
    verdicts: Counter[bool] = Counter()
    for _ in range(histories):
        history = random_history(rng, clients, ops=ops, processes=5, lies=lies, crashes=crashes)
        found = read_ops(to_table(history), model)
        decision = decider(found, model)
        assert decision is not None
        stepper = Stepper(model, found.transitions, cells=1_000_000)
        result = Search(events(found, stepper.observer), stepper, Limits(time_s=20.0)).run()
        assert result.answer in ("linearizable", "violation")
        assert decision.valid == (result.answer == "linearizable"), decision
        verdicts[decision.valid] += 1
    assert min(verdicts[True], verdicts[False]) > histories / 10, verdicts

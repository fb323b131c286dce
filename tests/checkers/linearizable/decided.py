"""Specialised deciders against the definition on small random histories, and against the frontier on longer ones."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from splitbrain.checkers import models
from splitbrain.checkers.linearizable.deciders import Decider, Decision
from splitbrain.checkers.linearizable.encoding import events
from splitbrain.checkers.linearizable.ops import read_ops
from splitbrain.checkers.linearizable.search import Limits, Search
from splitbrain.checkers.linearizable.transitions import Stepper
from splitbrain.checkers.models import Model
from splitbrain.results.arrow import to_table
from splitbrain.results.history import Op, OpType
from tests.checkers.linearizable.clients import Clients, random_history
from tests.checkers.linearizable.support import linearizable

HISTORIES = 400
MANY = int(os.environ.get("SPLITBRAIN_HISTORIES", "600"))
"""How many small histories are tried of each kind, at any time and in slow tests."""

Row = tuple[int, OpType, str, Any]
"""Process, type, function and value of an event."""


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


def culprits(decision: Decision | None, model: str, history: Sequence[Op]) -> list[str]:
    """What the culprits were, in the order of their invocations."""
    assert decision is not None
    ops = read_ops(to_table(list(history)), models.model(model))
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

"""Predicates: transactions that read all objects that match, insert, write and delete them, in small closed universes.

What a predicate read selected of the objects that it does not show has to be inferred. That can be done where all
objects are known, and each is changed at most once (Elle's closed predicates; Kingsbury and Alvaro, VLDB 2020). So a
universe is made by one op before all others, has a few objects, and may get a few more; then clients go on to the next.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.capabilities import STRICT_SERIALIZABLE
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import PREDICATES
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.contract.sessions import Predicates
from splitbrain.harness.contract.test import WHOLE, OpShape, Test, Workload
from splitbrain.harness.generators import (
    PENDING,
    Context,
    Generator,
    Result,
    concurrent_keys,
    each,
    invoke,
    limit,
    sequence,
    synchronize,
)
from splitbrain.harness.generators.leaves import assign
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.groups import final_reads, keys_used, threads_per_key
from splitbrain.workloads.sessions import ANY, SessionClient

INIT: Final = "init"
TXN: Final = "txn"

FIRST: Final = 5
"""Objects that a universe begins with."""

OBJECTS: Final = 10
"""Objects of a universe; those that are not there at first are inserted later."""

VALUES: Final = 6
"""Values are below this number, so that predicates match several objects."""

OPS_PER_UNIVERSE: Final = 30
STEPS_MAX: Final = 3


class PredicatesClient(SessionClient[Predicates]):
    """Makes universes, and carries out transactions in them."""

    operations = PREDICATES
    shared_by = ANY

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        universe = str(op.key)
        if op.f == INIT:
            answer = await self.session.in_universe(universe, [["insert", key, op.value[key]] for key in op.value])
            return op.complete("ok", op.value, term=answer.term)
        if op.f == TXN:
            answer = await self.session.in_universe(universe, op.value)
            return op.complete("ok", answer.value, term=answer.term)
        raise ProtocolError(f"the predicates workload knows no op {op.f!r}, only {INIT} and {TXN}.")


class Changes(msgspec.Struct, frozen=True):
    """Transactions of one to `STEPS_MAX` steps in one universe, by any free client; each object is changed once.

    Attributes:
        left: numbers of the objects that were not changed.
    """

    left: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)

    def op(self, ctx: Context) -> Result:
        """The next transaction."""
        if not ctx.free:
            return PENDING, self
        steps: list[Any] = []
        left: tuple[int, ...] = self.left
        for _ in range(ctx.rng.between(1, STEPS_MAX)):
            if left and ctx.rng.random() < 1 / 4:
                number = ctx.rng.choice(left)
                left = tuple(each for each in left if each != number)
                steps.append(_change(ctx.rng, number))
            elif ctx.rng.random() < 3 / 4:
                steps.append(["rp", _predicate(ctx.rng), None])
            else:
                steps.append(["r", _name(ctx.rng.below(OBJECTS)), None])
        op = assign(invoke(TXN, steps), ctx)
        return (PENDING, self) if op is None else (op, Changes(left))

    def update(self, ctx: Context, event: Op) -> Generator:
        """What became of earlier ones does not matter: an object whose change failed is not changed again."""
        return self


def _name(number: int) -> str:
    return f"o{number}"


def _first(number: int) -> int:
    """The value of an object in a new universe."""
    return number % VALUES


def _change(rng: Rng, number: int) -> list[Any]:
    if number >= FIRST:
        return ["insert", _name(number), rng.below(VALUES)]
    if rng.random() < 1 / 3:
        return ["delete", _name(number), None]
    return ["w", _name(number), (_first(number) + rng.between(1, VALUES - 1)) % VALUES]


def _predicate(rng: Rng) -> Any:
    kind = rng.below(3)
    if kind == 0:
        return "true"
    return ["=", rng.below(VALUES)] if kind == 1 else ["mod", 2, rng.below(2)]


def predicates(
    *,
    nodes: Sequence[NodeId],
    concurrency: int,
    rate: float = 100.0,
    time_limit_s: float = 30.0,
    isolation: str = STRICT_SERIALIZABLE,
) -> Workload:
    """The workload for this number of clients of these nodes.

    Args:
        nodes: names of the nodes.
        concurrency: number of clients.
        rate: ops per second, for the number of universes that are read at the end.
        time_limit_s: length of the faults phase, likewise.
        isolation: the consistency models that transactions must satisfy, separated by commas.
    """
    made = {_name(number): _first(number) for number in range(FIRST)}

    def of_universe(_: str) -> Generator:
        return sequence(limit(1, each(lambda _: invoke(INIT, made))), synchronize(limit(OPS_PER_UNIVERSE, Changes())))

    return Workload(
        name="predicates",
        client=PredicatesClient(),
        generator=concurrent_keys(threads_per_key(concurrency, len(nodes)), itertools.count(), of_universe),
        final_generator=final_reads(keys_used(rate, time_limit_s, OPS_PER_UNIVERSE + 1), TXN, [["rp", "true", None]]),
        checkers=(
            CheckerSpec("predicates", {"consistency_models": isolation.split(",")}),
            CheckerSpec("stats"),
            CheckerSpec("coverage", {"fs": [INIT, TXN]}),
        ),
        fs=(INIT, TXN),
        needs=frozenset({PREDICATES.name}),
        shapes={
            INIT: OpShape(keyed=True, value=dict[str, WHOLE]),
            TXN: OpShape(keyed=True, value=list[tuple[str, Any, Any]]),
        },
    )

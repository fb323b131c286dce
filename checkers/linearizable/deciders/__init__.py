"""Specialised deciders: near-linear answers where a model and a history meet exact preconditions.

A decider looks at one partition. It answers with a proof either way, or with None where its preconditions do not hold;
then the next one is asked, and at last the search. Everything it says is exact.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias, cast

from splitbrain.checkers.kernels import use_compiled
from splitbrain.checkers.linearizable.limits import WITHOUT_END, Budget
from splitbrain.checkers.linearizable.ops import Ops
from splitbrain.checkers.models import Model
from splitbrain.checkers.models.model import is_built_in


@dataclass(frozen=True)
class Decision:
    """What a decider proved.

    Attributes:
        valid: whether the partition is linearizable.
        culprits: where it is not, ops (by number) that contradict each other whatever the other ops did, by
            invocation; few enough to be verified by hand.
        reason: why they do, as a clause that follows "but" or stands alone: "7 was read after 8 had replaced it".
        exact: whether the return of the last culprit to return ends the smallest prefix that is not linearizable.
    """

    valid: bool
    culprits: tuple[int, ...] = ()
    reason: str = ""
    exact: bool = False


Decider: TypeAlias = Callable[[Ops, Model], Decision | None]

TimedDecider: TypeAlias = Callable[[Ops, Model, Budget], Decision | None]
"""One that does not take linear time, to decide or to find few culprits. It has no answer if its time is over."""

SHARE: Final = 0.5
"""Of the time that is left for a key, the most that goes into its deciders together; the search has the rest."""

TIMED: Final = frozenset(
    {
        "set-elements",
        "fifo-patterns",
        "fifo-crashes",
        "fifo-ranks",
        "fifo-pairs",
        "bag-patterns",
        "bag-crashes",
        "bag-ranks",
        "stack-stretches",
        "stack-crashes",
        "stack-nests",
        "priority-placement",
        "priority-crashes",
        "priority-ranks",
    }
)
"""Algorithms of deciders that are given a budget."""

SEARCHES: Final = frozenset({"fifo-pairs", "stack-nests"})
"""Of these, those that always search. They do well where the general search does not, and cost more where it does."""

DECIDERS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = MappingProxyType(
    {
        "register": (("register-zones", "splitbrain.checkers.linearizable.deciders.registers:decide_register"),),
        "cas-register": (("register-zones", "splitbrain.checkers.linearizable.deciders.registers:decide_register"),),
        "read-modes": (("register-zones", "splitbrain.checkers.linearizable.deciders.registers:decide_register"),),
        "kv": (
            ("register-zones", "splitbrain.checkers.linearizable.deciders.registers:decide_kv"),
            ("append-chains", "splitbrain.checkers.linearizable.deciders.appends:decide_appends"),
        ),
        "create-once": (("one-moment", "splitbrain.checkers.linearizable.deciders.create_once:decide_create_once"),),
        "set": (
            ("set-elements", "splitbrain.checkers.linearizable.deciders.sets:decide_set"),
            ("grow-set-stages", "splitbrain.checkers.linearizable.deciders.grow_sets:decide_set_without_removes"),
        ),
        "grow-set": (("grow-set-stages", "splitbrain.checkers.linearizable.deciders.grow_sets:decide_grow_set"),),
        "counter": (
            ("counter-levels", "splitbrain.checkers.linearizable.deciders.counters:decide_by_levels"),
            ("counter-bounds", "splitbrain.checkers.linearizable.deciders.counters:decide_by_bounds"),
        ),
        "unique-ids": (("distinct-ids", "splitbrain.checkers.linearizable.deciders.unique_ids:decide_unique_ids"),),
        "fifo-queue": (
            ("fifo-patterns", "splitbrain.checkers.linearizable.deciders.queues:fifo"),
            ("fifo-crashes", "splitbrain.checkers.linearizable.deciders.queues:fifo_crashed"),
            ("fifo-ranks", "splitbrain.checkers.linearizable.deciders.queues:fifo_ranked_exactly"),
            ("fifo-pairs", "splitbrain.checkers.linearizable.deciders.fifo_pairs:fifo"),
        ),
        "unordered-queue": (
            ("bag-patterns", "splitbrain.checkers.linearizable.deciders.queues:unordered"),
            ("bag-crashes", "splitbrain.checkers.linearizable.deciders.queues:unordered_crashed"),
            ("bag-ranks", "splitbrain.checkers.linearizable.deciders.queues:unordered_ranked"),
        ),
        "stack": (
            ("stack-stretches", "splitbrain.checkers.linearizable.deciders.stacks:stack"),
            ("stack-crashes", "splitbrain.checkers.linearizable.deciders.stacks:stack_crashed"),
            ("stack-nests", "splitbrain.checkers.linearizable.deciders.stack_nests:stack"),
        ),
        "priority-queue": (
            ("priority-placement", "splitbrain.checkers.linearizable.deciders.priority_queues:smallest_first"),
            ("priority-crashes", "splitbrain.checkers.linearizable.deciders.priority_queues:smallest_first_crashed"),
            ("priority-ranks", "splitbrain.checkers.linearizable.deciders.priority_queues:smallest_first_ranked"),
        ),
    }
)
"""Name of a model: (algorithm, where it is), in the order in which they are asked."""


def decide(
    ops: Ops, model: Model, budget: Budget = WITHOUT_END, *, searching: bool | None = None
) -> tuple[str, Decision] | None:
    """The first proof that a decider gives, with the algorithm's name; None if none of them applies, or has the time.

    Only for models of our own: one with the same name may mean something else.

    Args:
        ops: the partition.
        model: its model.
        budget: what is left for the key; deciders have SHARE of it.
        searching: whether to ask those of SEARCHES; only the others if False, all in their order if None.
    """
    with budget.part(SHARE) as time:
        for algorithm, decider in _deciders(model):
            if searching is not None and searching != (algorithm in SEARCHES):
                continue
            decision = decider(ops, model, time)
            if decision is not None:
                return algorithm, decision
    return None


def is_searched(model: Model) -> bool:
    """Whether there is one of SEARCHES for a model."""
    return is_built_in(model) and any(algorithm in SEARCHES for algorithm, _ in DECIDERS.get(model.name, ()))


def _deciders(model: Model) -> Iterator[tuple[str, TimedDecider]]:
    if not is_built_in(model):
        return
    for algorithm, location in DECIDERS.get(model.name, ()):
        module, _, function = location.partition(":")
        found = getattr(importlib.import_module(module), function)
        yield algorithm, cast(TimedDecider, found) if algorithm in TIMED else _timed(cast(Decider, found))


def _timed(decider: Decider) -> TimedDecider:
    return lambda ops, model, _: decider(ops, model)


def warm_up() -> None:
    """Compile the kernels of deciders and prechecks, or load them from the cache; this process uses no others then."""
    use_compiled()
    for module in ("counters", "minimum_trees", "moments", "priority_queues", "stacks", "zones"):
        importlib.import_module(f"{__name__}.{module}").warm_up()
    importlib.import_module("splitbrain.checkers.linearizable.prechecks").warm_up()

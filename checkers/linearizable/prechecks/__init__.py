"""Prechecks: proofs of a violation in linear time, where nothing decides a history as a whole.

A precheck looks at what ops say of values one by one. What it finds is a proof, crashed ops and failed compare-and-sets
included; where it finds nothing, nothing is known.
"""

from __future__ import annotations

from splitbrain.checkers.linearizable.deciders import Decision
from splitbrain.checkers.linearizable.ops import Ops
from splitbrain.checkers.linearizable.prechecks import origins
from splitbrain.checkers.models import Model


def refuted(ops: Ops, model: Model) -> tuple[str, Decision] | None:
    """The first violation that a precheck proves, with its name; None if there is no such proof.

    Raises:
        UsageError: the model cannot make sense of a value.
    """
    decision = origins.refuted(ops, model)
    return None if decision is None else (origins.ALGORITHM, decision)


def warm_up() -> None:
    """Compile the kernels of the prechecks, or load them from the cache."""
    origins.warm_up()

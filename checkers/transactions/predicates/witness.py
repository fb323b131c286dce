"""Witnesses of histories with predicate reads: as those of registers, with what a predicate read must have selected."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from splitbrain.checkers.transactions.columns import COMMITTED
from splitbrain.checkers.transactions.graph import WR, WRP
from splitbrain.checkers.transactions.inference import Case, Inference
from splitbrain.checkers.transactions.predicates.inference import SELECTED, Why
from splitbrain.checkers.transactions.predicates.universe import INIT, Universe
from splitbrain.checkers.transactions.saturation import Derived
from splitbrain.checkers.transactions.witness import Names, Witnesses, shown


class PredicateWitnesses(Witnesses):
    """Makes the witnesses of one history with predicate reads.

    Args:
        universe: the history.
        inference: what was inferred from it.
        derivation: empty; nothing is derived here.
        index: of each row of the history the op's index.
    """

    def __init__(
        self,
        universe: Universe,
        inference: Inference,
        derivation: Derived,
        index: np.ndarray[tuple[int], np.dtype[np.int64]],
    ) -> None:
        super().__init__(inference, derivation, index)
        self._universe = universe

    def _mop(self, mop: int) -> list[Any]:
        transaction = int(np.searchsorted(self._transactions.mop_start, mop, side="right")) - 1
        f, key, value = self._universe.steps[transaction][self._at(mop)]
        return [f, msgspec.json.decode(key) if f == "rp" else key, value]

    def _proof(self, transaction: int) -> int:
        why = self._inference.reasons
        assert isinstance(why, Why)
        for (one, other, kind), because in why.edges.items():
            if one == transaction and kind in (WR, WRP) and self._transactions.status[other] == COMMITTED:
                return because.after
        return -1

    def _why(self, step: dict[str, Any], names: Names, one: int, other: int) -> str:
        if step["kind"] in ("process", "realtime"):
            return super()._why(step, names, one, other)
        first, second = names.of(one), names.of(other)
        key, before, after = step["key"], step["before"]["op"], step["after"]["op"]
        if step["kind"] in ("wr", "wrp"):
            return f"{first} {_made(before)}, and {second} {_found(after, key, step.get('rule', ''))}"
        if step["kind"] == "ww":
            return f"{key} was {shown(before[2])} at the beginning, and {second} {_made(after)}"
        found = _found(before, key, "")
        if after[0] == INIT:
            return (
                f"{first} {found}, which it was only before {second} made the universe with {key} as {shown(after[2])}"
            )
        changes = ", which changes whether it matches" if step["kind"] == "rwp" else ""
        first_version = "the first version of it" if before[0] == "r" else f"so it selected the first version of {key}"
        return f"{first} {found}, {first_version}, and {second} {_made(after)}{changes}"

    def _sentence(self, case: Case, names: Names) -> str:
        key = self._transactions.key_names[case.key]
        ops = [self._mop(mop) for mop in case.mops]
        who = [names.of_mop(mop) for mop in case.mops]
        found = _found(ops[0], key, "")
        if case.anomaly == "G1a":
            return f"{who[0]} {found}, but {who[1]}, which {_made(ops[1])}, was aborted."
        if case.anomaly == "G1b":
            return f"{who[0]} {found}, but that is not the last that {who[1]} made of {key}."
        if case.anomaly == "future-read":
            return f"{who[0]} {found}, and made that of it only later."
        if case.anomaly == "garbage-read":
            return f"{who[0]} {found}, but no transaction wrote that."
        if case.anomaly == "internal":
            had = f"found it as {shown(ops[1][2])}" if ops[1][0] == "r" else _made(ops[1])
            return f"{who[0]} {found} after it had {had} itself."
        if ops[0][2] and key in ops[0][2]:
            return f"{who[0]} {found}, which does not match {_text(ops[0][1])}."
        versions = ", ".join(f"{name} {_made(op)}" for name, op in zip(who[1:], ops[1:], strict=True))
        return f"{who[0]} {found}, although every version of it matches: {versions}."


def _made(op: list[Any]) -> str:
    """What a write did, in the past tense."""
    if op[0] == "delete":
        return f"deleted {op[1]}"
    does = {"insert": "inserted", "w": "wrote", INIT: "began with"}[op[0]]
    return f"{does} {op[1]} as {shown(op[2])}"


def _found(op: list[Any], key: str, rule: str) -> str:
    """What a read found of an object."""
    if op[0] == "r":
        return f"read {key} as {shown(op[2])}"
    where = f"a predicate read of {_text(op[1])}"
    if op[2] and key in op[2]:
        return f"saw {key} as {shown(op[2][key])} in {where}"
    how = ", which by then no longer, or not yet, matched" if rule == SELECTED else ""
    return f"did not see {key} in {where}{how}"


def _text(predicate: Any) -> str:
    return "all" if predicate in (True, "true") else " ".join(map(str, predicate))

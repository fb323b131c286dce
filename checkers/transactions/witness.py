"""Witnesses: anomalies as data that a person can verify by hand, and sentences that say why.

A witness has all that its proof needs: the transactions with their micro-operations, and for each step of a cycle what
was written, read or timed so that one transaction comes before the next. `verify` checks it against the history alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Final, cast

import numpy as np

from splitbrain.checkers.transactions.columns import ABORTED, COMMITTED, MAYBE, OPEN, READ, Transactions
from splitbrain.checkers.transactions.derived_edges import Premise
from splitbrain.checkers.transactions.graph import I64, NAMES, PROCESS, REALTIME, RW, parts
from splitbrain.checkers.transactions.inference import Because, Case, Inference
from splitbrain.checkers.transactions.long_chains import cycle_sentence, path_words
from splitbrain.checkers.transactions.saturation import Derived, Edge
from splitbrain.checkers.transactions.search import Cycle
from splitbrain.results.values import canonical_json

_ENDS: Final = {COMMITTED: "ok", MAYBE: "info", ABORTED: "fail"}
_FUNCTIONS: Final = {0: "r", 1: "w", 2: "append"}
RESTS_ON: Final = ("", "no G1c", "no G-single", "no G2")
"""What a derived edge rests on, by its level."""

_OTHER: Final = re.compile(r'[\[{"]|(?:-?[0-9][-+.0-9eE]*|true|false|nil)$')
"""How what is no string begins."""

_SHOWN: Final = 40
"""Characters of a value in a sentence."""


class Witnesses:
    """Makes the witnesses of one history.

    Args:
        inference: what was inferred from it.
        derivation: what derived edges follow from.
        index: of each row of the history the op's index.
    """

    def __init__(
        self, inference: Inference, derivation: Derived, index: np.ndarray[tuple[int], np.dtype[np.int64]]
    ) -> None:
        self._inference = inference
        self._derivation = derivation
        self._transactions = inference.transactions
        self._index = index

    def of_cycle(self, anomaly: str, cycle: Cycle) -> dict[str, Any]:
        """The witness of a cycle."""
        names = Names(self._transactions, cycle.transactions)
        steps: list[dict[str, Any]] = []
        ring = [*cycle.transactions[1:], cycle.transactions[0]]
        for one, other, kind in zip(cycle.transactions, ring, cycle.kinds, strict=True):
            steps.append(self._step(names, one, other, kind))
        first = names.of(cycle.transactions[0])
        sentence = cycle_sentence([str(step["sentence"]) for step in steps], first)
        return self._witness(anomaly, names, steps=steps, sentence=sentence)

    def of_case(self, case: Case) -> dict[str, Any]:
        """The witness of an anomaly that is no cycle."""
        names = Names(self._transactions, case.transactions)
        for mop in case.mops:
            names.of_mop(mop)
        values = [self._transactions.value(each) for each in case.values]
        mops = [{"transaction": names.of_mop(mop), "op": self._mop(mop), "at": self._at(mop)} for mop in case.mops]
        sentence = self._sentence(case, names)
        key = self._transactions.key_names[case.key]
        rules = {"rules": list(case.rules)} if case.rules else {}
        return self._witness(case.anomaly, names, key=key, values=values, mops=mops, **rules, sentence=sentence)

    # --- parts --------------------------------------------------------------------------------------------------------

    def _witness(self, anomaly: str, names: Names, **rest: Any) -> dict[str, Any]:
        for transaction in names.transactions:
            proof = self._proof(transaction) if self._transactions.status[transaction] == MAYBE else -1
            if proof >= 0:
                names.of_mop(proof)
        said = [self._transaction(names, each) for each in names.transactions]
        return {"anomaly": anomaly, "transactions": said, **rest}

    def _transaction(self, names: Names, transaction: int) -> dict[str, Any]:
        found = self._transactions
        completed = int(found.completed[transaction])
        said: dict[str, Any] = {
            "name": names.of(transaction),
            "process": int(found.process[transaction]),
            "type": _ENDS[int(found.status[transaction])],
            "invoked": int(self._index[found.invoked[transaction]]),
            "ops": [self._mop(mop) for mop in self._mops(transaction)],
        }
        if completed != OPEN:
            said["completed"] = int(self._index[completed])
        if found.status[transaction] == MAYBE and self._inference.committed[transaction]:
            said["committed_because_read_by"] = names.of_mop(self._proof(transaction))
        return said

    def _mops(self, transaction: int) -> range:
        start = self._transactions.mop_start
        return range(int(start[transaction]), int(start[transaction + 1]))

    def _mop(self, mop: int) -> list[Any]:
        found = self._transactions
        f, key = _FUNCTIONS[int(found.mop_kind[mop])], found.key_names[int(found.mop_key[mop])]
        if f == "r":
            owner = int(np.searchsorted(found.mop_start, mop, side="right")) - 1
            return [f, key, found.read(mop) if found.status[owner] == COMMITTED else None]
        return [f, key, found.value(int(found.mop_value[mop]))]

    def _at(self, mop: int) -> int:
        """The place of a micro-operation in its transaction."""
        start = self._transactions.mop_start
        return mop - int(start[np.searchsorted(start, mop, side="right") - 1])

    def _proof(self, transaction: int) -> int:
        """A read of a committed transaction that shows a write of one of unknown outcome; -1 if there is none."""
        found = self._transactions
        reads, start = self._reads
        for mop in self._mops(transaction):
            if found.mop_kind[mop] == READ:
                continue
            key = int(found.mop_key[mop])
            for read in reads[start[key] : start[key + 1]].tolist():
                length, begin = int(found.list_length[read]), int(found.list_start[read])
                value = found.mop_value[mop]
                if value in found.elements[begin : begin + length] if length > 0 else found.mop_value[read] == value:
                    return read
        return -1

    @cached_property
    def _reads(self) -> tuple[I64, I64]:
        """The reads of committed transactions, sorted by key, and where those of each key begin."""
        found = self._transactions
        status = np.repeat(found.status, np.diff(found.mop_start))
        reads = np.flatnonzero((found.mop_kind == READ) & (status == COMMITTED))
        reads = reads[np.argsort(found.mop_key[reads], kind="stable")]
        counts = np.bincount(found.mop_key[reads], minlength=len(found.key_names))
        return reads, np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])

    def _step(self, names: Names, one: int, other: int, kind: int) -> dict[str, Any]:
        premise = self._derivation.premise((one, other, kind))
        if premise is not None:
            return self._derived(names, (one, other, kind), premise)
        because = Because(kind) if kind in (PROCESS, REALTIME) else self._inference.reasons.because(one, other, kind)
        base, level, tag = parts(kind)
        step: dict[str, Any] = {"from": names.of(one), "to": names.of(other), "kind": NAMES[base]}
        if because.key >= 0:
            step["key"] = self._transactions.key_names[because.key]
            step["before"] = {"at": self._at(because.before), "op": self._mop(because.before)}
            step["after"] = {"at": self._at(because.after), "op": self._mop(because.after)}
        if because.shown >= 0:
            name = names.of_mop(because.shown)
            step["shown"] = {"transaction": name, "at": self._at(because.shown), "op": self._mop(because.shown)}
        if because.rule:
            step["rule"] = because.rule
        if because.given:
            step["given"] = [self._cited(names, mop) for mop in because.given]
        if level:
            step["rests_on"] = RESTS_ON[level]
        if tag and base not in (PROCESS, REALTIME):
            step["order"] = ("", "process", "realtime")[tag]
        step["sentence"] = f"{names.of(one)} < {names.of(other)}, because {self._why(step, names, one, other)}."
        return step

    def _derived(self, names: Names, edge: Edge, premise: Premise) -> dict[str, Any]:
        """The step of an edge that follows from the order of two versions."""
        one, other, kind = edge
        base, level, tag = parts(kind)
        ends = (self._owner(premise.earlier), self._owner(premise.later))
        steps = self._derivation.way(len(self._transactions), premise, ends, (level, tag))
        step: dict[str, Any] = {
            "from": names.of(one),
            "to": names.of(other),
            "kind": NAMES[base],
            "key": self._transactions.key_names[int(self._transactions.mop_key[premise.after])],
            "before": {"at": self._at(premise.before), "op": self._mop(premise.before)},
            "after": {"at": self._at(premise.after), "op": self._mop(premise.after)},
            "rule": "version-order",
            "earlier": self._cited(names, premise.earlier),
            "later": self._cited(names, premise.later),
            "way": [self._step(names, *each) for each in steps],
            "rests_on": RESTS_ON[level],
        }
        if tag:
            step["order"] = NAMES[PROCESS if tag == 1 else REALTIME]
        earlier, later = step["before"]["op"][2], step["after"]["op"][2]
        path = path_words([names.of(ends[0]), *(each["to"] for each in step["way"])])
        step["sentence"] = (
            f"{names.of(one)} < {names.of(other)}, because {step['key']} was {shown(earlier)}, which {names.of(one)} "
            f"{'read' if base == RW else 'wrote'}, before {names.of(other)} wrote {shown(later)}: "
            f"{names.of(ends[0])} wrote {shown(earlier)}, {path}, and {names.of(ends[1])} "
            f"{'read' if step['later']['op'][0] == 'r' else 'wrote'} {shown(later)} ({RESTS_ON[level]})."
        )
        return step

    def _cited(self, names: Names, mop: int) -> dict[str, Any]:
        return {"transaction": names.of_mop(mop), "at": self._at(mop), "op": self._mop(mop)}

    def _owner(self, mop: int) -> int:
        return int(np.searchsorted(self._transactions.mop_start, mop, side="right")) - 1

    def _why(self, step: dict[str, Any], names: Names, one: int, other: int) -> str:
        first, second = names.of(one), names.of(other)
        found = self._transactions
        if step["kind"] == "process":
            return f"process {found.process[one]} made {first} before {second}"
        if step["kind"] == "realtime":
            ended, began = self._index[found.completed[one]], self._index[found.invoked[other]]
            return f"{first} completed (op {ended}) before {second} was invoked (op {began})"
        key, before, after = step["key"], step["before"]["op"], step["after"]["op"]
        does = "appended" if after[0] == "append" or before[0] == "append" else "wrote"
        to = "to" if does == "appended" else "as"
        if step["kind"] == "wr":
            saw = f"read {key} as {shown(after[2])}"
            return f"{second} {saw}, {'which ends with what' if does == 'appended' else 'what'} {first} {does}"
        if step["kind"] == "ww" and "shown" in step and "rule" not in step:
            how = step["shown"]
            return (
                f"{second} {does} {shown(after[2])} to {key} after {first} {does} {shown(before[2])}: "
                f"{how['transaction']} read {shown(how['op'][2])}"
            )
        if step["kind"] == "ww" and step.get("rule") == "read-modify-write":
            return (
                f"{first} read {key} as {shown(step['shown']['op'][2])} and {does} {shown(before[2])}; had {second} "
                f"{'appended' if does == 'appended' else 'written'} {shown(after[2])} before that, there would be a "
                "G-single"
            )
        if step["kind"] == "rw" and does == "appended":
            return f"{second} appended {shown(after[2])} to {key} after {first} read it as {shown(before[2])}"
        read = f"read {key} as {shown(before[2])}" if before[0] == "r" else f"{does} {key} {to} {shown(before[2])}"
        how = {
            "": "",
            "initial": ", which is there before every write",
            "read-modify-write": f", which {second} read too and overwrote; else there would be a G1c",
        }.get(step.get("rule", ""), "")
        if "given" in step:
            how = f", which comes later by {step['rule']} ({_both(each['transaction'] for each in step['given'])})"
        return f"{first} {read} and {second} wrote {shown(after[2])}{how}"

    def _sentence(self, case: Case, names: Names) -> str:
        """A case in words."""
        key = self._transactions.key_names[case.key]
        ops = [self._mop(mop) for mop in case.mops]
        who = [names.of_mop(mop) for mop in case.mops]
        value = shown(self._transactions.value(case.values[0])) if case.values else ""
        if case.anomaly == "G1a":
            return f"{who[0]} read {key} as {shown(ops[0][2])}, but {who[1]}, which wrote {value}, was aborted."
        if case.anomaly == "G1b":
            return f"{who[0]} read {key} as {shown(ops[0][2])}, but {value} is not the last that {who[1]} wrote to it."
        if case.anomaly == "internal":
            does = {"r": "read", "w": "written", "append": "appended"}[ops[1][0]]
            return f"{who[0]} read {key} as {shown(ops[0][2])} after it had {does} {shown(ops[1][2])} itself."
        if case.anomaly == "future-read":
            return f"{who[0]} read {key} as {shown(ops[0][2])}, and wrote {value} to it only later."
        if case.anomaly == "garbage-read":
            return f"{who[0]} read {key} as {shown(ops[0][2])}, but no transaction wrote {value}."
        if case.anomaly == "duplicate-elements":
            return f"{who[0]} read {key} as {shown(ops[0][2])}, in which {value} is twice."
        if case.anomaly == "incompatible-order" and len(ops) == 3:
            return (
                f"{who[0]} read {key} as {shown(ops[0][2])}, but {who[1]} appended {shown(ops[1][2])} to it before "
                f"{shown(ops[2][2])}."
            )
        if case.anomaly == "incompatible-order":
            return (
                f"{who[0]} read {key} as {shown(ops[0][2])} and {who[1]} as {shown(ops[1][2])}: neither is the "
                f"beginning of the other."
            )
        if case.anomaly == "lost-update":
            return (
                f"{who[1]} and {who[3]} both read {key} as {shown(ops[0][2])}; then {who[1]} wrote "
                f"{shown(ops[1][2])} and {who[3]} wrote {shown(ops[3][2])}: neither saw the other."
            )
        if case.anomaly == "dirty-update":
            return (
                f"{who[0]} appended {shown(ops[0][2])} to {key} behind {shown(ops[1][2])}, which {who[1]} appended; "
                f"but {who[1]} was aborted."
            )
        values = [shown(self._transactions.value(each)) for each in case.values]
        pairs = zip(values, [*values[1:], values[0]], case.rules, who[::2], who[1::2], strict=True)
        each = [f"{one} comes before {other} by {rule} ({_both(by)})" for one, other, rule, *by in pairs]
        return f"The versions of {key} are cyclic: {', and '.join(each)}."


def _both(names: Iterable[str]) -> str:
    """One or two names in words."""
    return " and ".join(dict.fromkeys(names))


class Names:
    """T1, T2, ... for the transactions of a witness, in the order in which they are named."""

    def __init__(self, transactions: Transactions, first: Iterable[int]) -> None:
        self._start = transactions.mop_start
        self._numbers: dict[int, int] = {}
        for each in first:
            self.of(each)

    @property
    def transactions(self) -> list[int]:
        """All that have a name by now."""
        return list(self._numbers)

    def of(self, transaction: int) -> str:
        """The name of a transaction."""
        return f"T{self._numbers.setdefault(transaction, len(self._numbers) + 1)}"

    def of_mop(self, mop: int) -> str:
        """The name of the transaction of a micro-operation."""
        return self.of(int(np.searchsorted(self._start, mop, side="right")) - 1)


def shown(value: Any) -> str:
    """A value as in Jepsen's histories, shortened where it is long."""
    text = f"[{' '.join(map(_word, cast('list[Any]', value)))}]" if isinstance(value, list) else _word(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]}...{text[-_SHOWN // 2 :]}"


def _word(value: Any) -> str:
    """A string without quotation marks, unless another value reads like it."""
    if value is None:
        return "nil"
    if not isinstance(value, str):
        return canonical_json(value)
    return canonical_json(value) if _OTHER.match(value) else value

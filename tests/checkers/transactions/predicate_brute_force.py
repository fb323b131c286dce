"""Predicate reads by definition: small random histories of a closed universe, and all of their serial orders.

Snapshot isolation as all orders of beginnings and ends: a transaction works on what was committed when it began, and
of two that overlap and write one object only one commits (Berenson and others, 1995). Strong: what ended in real time
before another one was invoked ends before that begins.

    python -m tests.checkers.transactions.predicate_brute_force [--count 10000] [--seed 1]

compares the checker with them, and exits with 1 at the first difference.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from splitbrain.checkers import kernels
from splitbrain.checkers.transactions.assumptions import Assumptions
from splitbrain.checkers.transactions.judging import Expected
from splitbrain.checkers.transactions.report import Judged, judged
from splitbrain.results.arrow import to_table
from splitbrain.results.history import Op, OpType

MODELS: Final = ("serializable", "strict-serializable", "snapshot-isolation", "strong-snapshot-isolation")

_PREDICATES: Final[list[Any]] = ["true", ["=", 0], ["=", 1], ["mod", 2, 0], ["mod", 2, 1], ["mod", 3, 2]]

State = dict[str, Any]


@dataclass(frozen=True)
class Txn:
    """A transaction: when, how it ended, and its micro-operations with what they found."""

    invoked: int
    completed: int
    type: OpType
    mops: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class History:
    """A universe and what was done to it; `closed` if each object was changed at most once."""

    first: State
    transactions: tuple[Txn, ...]
    closed: bool


def random_history(rng: random.Random) -> History:
    """A few transactions that take effect in turn, on states that are sometimes old."""
    keys = [f"k{number}" for number in range(rng.randint(1, 3))]
    first = {key: rng.randint(0, 1) for key in keys if rng.random() < 0.6}
    closed, count = rng.random() < 0.7, rng.randint(2, 4)
    flaw = rng.choice([0.0, 0.2, 0.5, 1.0])
    moments = rng.sample(range(100), 2 * count)
    spans = [sorted(moments[2 * each : 2 * each + 2]) for each in range(count)]
    changed: set[str] = set()
    states = [first]
    made: list[Txn] = []
    values = itertools.count(2)
    for begin, end in sorted(spans, key=lambda span: rng.uniform(*span)):
        seen = dict(states[-1] if rng.random() >= flaw else rng.choice(states))
        after, mops = dict(states[-1]), list[tuple[Any, ...]]()
        for _ in range(rng.randint(1, 3)):
            key = rng.choice(keys)
            mop = _random_mop(rng, key, seen, closed and key in changed, values)
            if mop[0] not in ("r", "rp"):
                changed.add(key)
                _apply(mop, seen)
                _apply(mop, after)
            mops.append(mop)
        kind: OpType = rng.choices(("ok", "info", "fail"), (0.84, 0.1, 0.06))[0]
        if kind == "ok" or rng.random() < (0.5 if kind == "info" else flaw / 2):
            states.append(after)
        made.append(Txn(begin, end, kind, tuple(mops)))
    return History(first, tuple(sorted(made, key=lambda txn: txn.invoked)), closed)


def _random_mop(rng: random.Random, key: str, seen: State, fixed: bool, values: Any) -> tuple[Any, ...]:
    f = rng.choice(["r", "rp", "rp", "write"])
    if f == "rp":
        predicate = rng.choice(_PREDICATES)
        found = {each: value for each, value in seen.items() if matches(predicate, value)}
        return ("rp", predicate, found if rng.random() < 0.97 else dict(list(found.items())[1:]))
    if f == "r" or fixed:
        return ("r", key, seen.get(key))
    if key not in seen:
        return ("insert", key, next(values))
    return ("delete", key) if rng.random() < 0.4 else ("w", key, next(values))


def matches(predicate: Any, value: int) -> bool:
    """Whether an object with that value matches."""
    if predicate == "true":
        return True
    return value == predicate[1] if predicate[0] == "=" else value % predicate[1] == predicate[2]


def _apply(mop: tuple[Any, ...], state: State) -> None:
    if mop[0] == "delete":
        state.pop(mop[1], None)
    else:
        state[mop[1]] = mop[2]


def ops_of(history: History) -> list[Op]:
    """The history as ops; each transaction is of a process of its own."""
    rows: list[tuple[int, int, OpType, str, Any]] = [
        (-2, 0, "invoke", "init", history.first),
        (-1, 0, "ok", "init", history.first),
    ]
    for process, txn in enumerate(history.transactions, 1):
        asked = [[*mop[:2], None] if mop[0] in ("r", "rp") else list(mop) for mop in txn.mops]
        rows.append((txn.invoked, process, "invoke", "txn", asked))
        rows.append((txn.completed, process, txn.type, "txn", txn.mops if txn.type == "ok" else asked))
    return [
        Op(index=index, time=index, process=process, type=kind, f=f, value=json.loads(json.dumps(value)))
        for index, (_, process, kind, f, value) in enumerate(sorted(rows, key=lambda row: row[0]))
    ]


def is_serial(history: History, model: str) -> bool:
    """Whether what committed, and some of unknown outcome, could have run one after the other."""
    return any(_runs(committed, history.first, model) for committed in _outcomes(history))


def _outcomes(history: History) -> Iterator[list[Txn]]:
    certain = [txn for txn in history.transactions if txn.type == "ok"]
    unknown = [txn for txn in history.transactions if txn.type == "info"]
    for size in range(len(unknown) + 1):
        for chosen in itertools.combinations(unknown, size):
            yield [*certain, *chosen]


def keeps(history: History, model: str) -> bool:
    """Whether a history satisfies a model of MODELS."""
    if "snapshot" not in model:
        return is_serial(history, model)
    return any(_ends(committed, (), history.first, model) for committed in _outcomes(history))


def _ends(left: list[Txn], running: tuple[tuple[Txn, State, frozenset[str]], ...], state: State, model: str) -> bool:
    """Whether those that have not begun, and those that run, can end: each with its snapshot, and what others wrote."""
    if not left and not running:
        return True
    pending = [*left, *(txn for txn, *_ in running)]
    for txn in left:
        waits = model == "strong-snapshot-isolation" and any(
            other.type == "ok" and other.completed < txn.invoked for other in pending if other is not txn
        )
        if not waits and _executed(txn, state) is not None:
            begun = (*running, (txn, state, frozenset[str]()))
            if _ends([each for each in left if each is not txn], begun, state, model):
                return True
    for txn, snapshot, overwritten in running:
        made = _executed(txn, snapshot)
        written = frozenset(mop[1] for mop in txn.mops if mop[0] not in ("r", "rp"))
        if made is None or written & overwritten:
            continue
        after = {key: value for key, value in state.items() if key not in written}
        after |= {key: made[key] for key in written if key in made}
        others = tuple((other, seen, wrote | written) for other, seen, wrote in running if other is not txn)
        if _ends(left, others, after, model):
            return True
    return False


def _runs(left: list[Txn], state: State, model: str) -> bool:
    if not left:
        return True
    for txn in left:
        if model == "strict-serializable" and any(
            other.type == "ok" and other.completed < txn.invoked for other in left if other is not txn
        ):
            continue
        after = _executed(txn, state)
        if after is not None and _runs([each for each in left if each is not txn], after, model):
            return True
    return False


def _executed(txn: Txn, state: State) -> State | None:
    after = dict(state)
    for mop in txn.mops:
        if mop[0] == "r":
            fits = after.get(mop[1]) == mop[2]
        elif mop[0] == "rp":
            fits = {key: value for key, value in after.items() if matches(mop[1], value)} == mop[2]
        else:
            _apply(mop, after)
            continue
        if txn.type == "ok" and not fits:
            return None
    return after


def check(history: History, model: str) -> Judged:
    """What the checker says."""
    return judged(to_table(ops_of(history)), "closed-predicate", Expected((model,)), Assumptions())


def compare(rng: random.Random, broken: list[int]) -> str | None:
    """Compare on one random history; the difference, if there is one. Where the order is open, what is said must be so.

    `broken` has how many verdicts were against a model, and how many of them were not inferred.
    """
    history = random_history(rng)
    for model in MODELS:
        found, right = check(history, model), keeps(history, model)
        said = found.findings.valid == "false"
        broken[0] += not right
        broken[1] += not right and not said
        if found.unverified:
            return f"{found.unverified} of {history}"
        if said and right:
            return f"{model}: not {found.findings.anomaly_types}: {history}"
        if not said and not right and history.closed:
            return f"{model}: not found: {history}"
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare on many histories."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    kernels.use_compiled()
    broken = [0, 0]
    for number in range(chosen.count):
        problem = compare(random.Random(f"{chosen.seed} {number}"), broken)
        if problem is not None:
            print(f"history {number} of seed {chosen.seed}: {problem}")
            return 1
    print(f"{chosen.count} histories, {broken[0]} verdicts against a model, {broken[1]} of them not inferred")
    return 0


if __name__ == "__main__":
    sys.exit(main())

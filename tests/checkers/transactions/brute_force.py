"""Isolation by definition, on small histories: try every serial order, and every order of versions. Slow, and plain.

    python -m tests.checkers.transactions.brute_force [--count 50000] [--seed 1]

compares the checkers with it on random histories, and exits with 1 at the first difference.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from splitbrain.checkers import kernels
from splitbrain.checkers.transactions.assumptions import Assumptions
from splitbrain.checkers.transactions.judging import Expected, Workload
from splitbrain.checkers.transactions.models import impossible
from splitbrain.checkers.transactions.report import judged
from splitbrain.results.arrow import to_table
from splitbrain.results.history import Mop, Op, OpType

SERIAL: Final = ("serializable", "strong-session-serializable", "strict-serializable")
"""Models that are decided by trying serial orders: of any kind, that respect processes, that respect real time."""

LEVELS: Final = ("read-uncommitted", "read-committed", "consistent-view", "snapshot-isolation", "repeatable-read")
"""Models that are decided by trying orders of versions."""


_ENDS: Final[list[OpType]] = ["ok", "info", "fail"]


@dataclass(frozen=True)
class Txn:
    """A transaction: who made it, when, how it ended, and its (f, key, value); a read of a list has a tuple."""

    process: int
    invoked: int
    completed: int
    type: OpType
    mops: tuple[tuple[str, str, Any], ...]


# --- histories --------------------------------------------------------------------------------------------------------


def random_history(rng: random.Random, workload: Workload) -> list[Txn]:
    """A few transactions on a database that is sometimes right: they take effect in turn, and reads may be stale."""
    count, keys = rng.randint(2, 5), rng.randint(1, 3)
    times = _times(rng, count)
    order = sorted(range(count), key=lambda each: rng.uniform(*times[each][1:]) if rng.random() < 0.9 else rng.random())
    flaws = rng.choice([0.0, 0.0, 0.1, 0.3, 0.6])
    states: list[dict[str, tuple[int, ...]]] = [{}]
    made: dict[int, Txn] = {}
    value = itertools.count(1)
    for txn in order:
        process, invoked, completed = times[txn]
        kind: OpType = rng.choices(_ENDS, [0.84, 0.1, 0.06])[0]
        seen = dict(states[-1] if rng.random() >= flaws else rng.choice(states))
        written: list[tuple[str, int]] = []
        mops: list[tuple[str, str, Any]] = []
        for _ in range(rng.randint(1, 3)):
            key = f"k{rng.randrange(keys)}"
            if rng.random() < 0.5:
                if rng.random() < flaws / 4:
                    seen[key] = rng.choice(states).get(key, ())
                mops.append(("r", key, seen.get(key, ())))
                continue
            mops.append(("append" if workload == "list-append" else "w", key, next(value)))
            written.append((key, mops[-1][2]))
            seen[key] = (*seen.get(key, ()), mops[-1][2])
        made[txn] = Txn(process, invoked, completed, kind, tuple(mops))
        if kind == "ok" or rng.random() < (0.5 if kind == "info" else flaws / 2):
            states.append(_applied(states[-1], written))
    return [_typed(made[txn], workload) for txn in sorted(made)]


def _applied(state: dict[str, tuple[int, ...]], written: list[tuple[str, int]]) -> dict[str, tuple[int, ...]]:
    after = dict(state)
    for key, value in written:
        after[key] = (*after.get(key, ()), value)
    return after


def _typed(txn: Txn, workload: Workload) -> Txn:
    """Reads as the workload has them; nothing where the transaction did not commit for certain."""
    if workload == "list-append":
        known = txn.mops if txn.type == "ok" else tuple((f, k, None if f == "r" else v) for f, k, v in txn.mops)
        return Txn(txn.process, txn.invoked, txn.completed, txn.type, known)
    known = tuple((f, k, (v[-1] if v and txn.type == "ok" else None) if f == "r" else v) for f, k, v in txn.mops)
    return Txn(txn.process, txn.invoked, txn.completed, txn.type, known)


def _times(rng: random.Random, count: int) -> list[tuple[int, int, int]]:
    """Process, invocation and completion of each transaction: moments, all different, by order of invocation."""
    clients = rng.randint(1, 3)
    free = dict.fromkeys(range(clients), 0)
    clock, events = 0, list[tuple[int, int, int]]()
    for _ in range(count):
        process = rng.randrange(clients)
        clock = max(clock, free[process]) + 1
        end = clock + rng.choice([1, 2, 5, 9])
        while end in [each[2] for each in events] or end in [each[1] for each in events]:
            end += 1
        free[process] = end
        while clock in [each[2] for each in events]:
            clock += 1
        if clock >= end:
            end = clock + 1
            free[process] = end
        events.append((process, clock, end))
    moments = sorted(moment for _, *both in events for moment in both)
    if len(set(moments)) < len(moments):
        return _times(rng, count)
    place = {moment: at for at, moment in enumerate(moments)}
    return [(process, place[begin], place[end]) for process, begin, end in events]


def ops_of(history: Sequence[Txn]) -> list[Op]:
    """The history as ops; a transaction of unknown outcome is the last of its process."""
    rows: dict[int, Op] = {}
    for txn in history:
        asked = tuple(_mop(f, k, None if f == "r" else v) for f, k, v in txn.mops)
        found = tuple(_mop(f, k, v) for f, k, v in txn.mops)
        rows[txn.invoked] = Op(process=txn.process, type="invoke", f="txn", mops=asked)
        rows[txn.completed] = Op(
            process=txn.process,
            type=txn.type,
            f="txn",
            mops=found if txn.type == "ok" else asked,  # pyright: ignore[reportArgumentType]
        )
    return [_indexed(rows[at], at) for at in sorted(rows)]


def _indexed(op: Op, index: int) -> Op:
    return Op(index=index, time=index, process=op.process, type=op.type, f=op.f, mops=op.mops)


def _mop(f: str, key: str, value: Any) -> Mop:
    return Mop(f, key, values=cast("tuple[int, ...]", value)) if isinstance(value, tuple) else Mop(f, key, value)


# --- serial orders ----------------------------------------------------------------------------------------------------


def is_serial(history: Sequence[Txn], model: str) -> bool:
    """Whether the committed transactions, and some of unknown outcome, could have run one after the other."""
    certain = [txn for txn in history if txn.type == "ok"]
    unknown = [txn for txn in history if txn.type == "info"]
    return any(
        _runs([*certain, *chosen], {}, model)
        for size in range(len(unknown) + 1)
        for chosen in itertools.combinations(unknown, size)
    )


def _runs(left: list[Txn], state: dict[str, tuple[int, ...]], model: str) -> bool:
    if not left:
        return True
    for txn in left:
        if any(_precedes(other, txn, model) for other in left if other is not txn):
            continue
        after = _executed(txn, state)
        if after is not None and _runs([each for each in left if each is not txn], after, model):
            return True
    return False


def _precedes(one: Txn, other: Txn, model: str) -> bool:
    if model == "strong-session-serializable":
        # What has an unknown outcome may take effect after what its process did next.
        return one.type == "ok" and one.process == other.process and one.invoked < other.invoked
    return model == "strict-serializable" and one.type == "ok" and one.completed < other.invoked


def _executed(txn: Txn, state: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]] | None:
    """The state after a transaction; None if it could not have read what it read. A register has its last value."""
    after = dict(state)
    for f, key, value in txn.mops:
        now = after.get(key, ())
        if f != "r":
            after[key] = (*now, value)
        elif txn.type == "ok" and (value != now if isinstance(value, tuple) else value != (now[-1] if now else None)):
            return None
    return after


# --- orders of versions -----------------------------------------------------------------------------------------------


def is_sound(history: Sequence[Txn]) -> bool:
    """Whether lists are read as transactions alone explain it: no anomaly but cycles, G1b and lost updates."""
    writers = {value: txn for txn in history for f, _, value in txn.mops if f == "append"}
    longest: dict[str, tuple[int, ...]] = {}
    for txn in history:
        known: dict[str, tuple[int, ...] | None] = {}
        own: dict[str, tuple[int, ...]] = {}
        for f, key, value in txn.mops if txn.type == "ok" else ():
            if f == "append":
                own[key] = (*own.get(key, ()), value)
                continue
            expected = known.get(key)
            tail = own.pop(key, ())
            if (expected is not None and value != expected + tail) or value[len(value) - len(tail) :] != tail:
                return False
            if any(writers[each].type == "fail" for each in value):
                return False
            later = [v for g, k, v in txn.mops if g == "append" and k == key and v not in tail]
            if expected is None and any(each in later for each in value):
                return False
            known[key] = value
            shorter, longer = sorted((value, longest.get(key, ())), key=len)
            if longer[: len(shorter)] != shorter:
                return False
            longest[key] = longer
    return True


def satisfied(history: Sequence[Txn]) -> dict[str, bool]:
    """For each of LEVELS, whether some order of versions satisfies it. The history is sound."""
    found: dict[str, bool] = dict.fromkeys(LEVELS, False)
    for committed in _outcomes(history):
        for order in _orders(committed):
            for level in LEVELS:
                if not found[level]:
                    found[level] = _keeps(committed, order, level)
        if all(found.values()):
            break
    return found


def _outcomes(history: Sequence[Txn]) -> Iterator[list[Txn]]:
    unknown = [txn for txn in history if txn.type == "info"]
    read = {each for txn in history if txn.type == "ok" for f, _, v in txn.mops if f == "r" for each in v}
    for size in range(len(unknown) + 1):
        for chosen in itertools.combinations(unknown, size):
            committed = [txn for txn in history if txn.type == "ok" or txn in chosen]
            written = {v for txn in committed for f, _, v in txn.mops if f == "append"}
            if read <= written:
                yield committed


def _orders(committed: list[Txn]) -> Iterator[dict[str, tuple[int, ...]]]:
    keys = sorted({key for txn in committed for _, key, _ in txn.mops})
    options: list[list[tuple[int, ...]]] = []
    for key in keys:
        appends = [v for txn in committed for f, k, v in txn.mops if f == "append" and k == key]
        reads = [v for txn in committed if txn.type == "ok" for f, k, v in txn.mops if f == "r" and k == key]
        longest = max(reads, key=len, default=())
        rest = [each for each in appends if each not in longest]
        whole = (longest + tail for tail in itertools.permutations(rest))
        options.append([order for order in whole if _in_turn(committed, key, order)])
    for chosen in itertools.product(*options):
        yield dict(zip(keys, chosen, strict=True))


def _in_turn(committed: list[Txn], key: str, order: tuple[int, ...]) -> bool:
    """Whether the appends of each transaction are in its order."""
    mine = [[v for f, k, v in txn.mops if f == "append" and k == key] for txn in committed]
    return all([v for v in order if v in each] == each for each in mine)


def _keeps(committed: list[Txn], order: dict[str, tuple[int, ...]], level: str) -> bool:
    writer = {v: at for at, txn in enumerate(committed) for f, _, v in txn.mops if f == "append"}
    last = {(at, k): v for at, txn in enumerate(committed) for f, k, v in txn.mops if f == "append"}
    ww = {(writer[a], writer[b]) for each in order.values() for a, b in itertools.pairwise(each)}
    wr, rw = set[tuple[int, int]](), set[tuple[int, int]]()
    intermediate = False
    for at, txn in enumerate(committed):
        for f, key, value in txn.mops if txn.type == "ok" else ():
            if f != "r":
                continue
            if value:
                by = writer[value[-1]]
                wr.add((by, at))
                intermediate |= by != at and last[by, key] != value[-1]
            if len(value) < len(order[key]):
                rw.add((at, writer[order[key][len(value)]]))
    ww, wr, rw = ({(a, b) for a, b in each if a != b} for each in (ww, wr, rw))
    if level == "read-uncommitted":
        return not _cyclic(ww)
    if intermediate or _cyclic(ww | wr):
        return False
    if level == "read-committed":
        return True
    reach = _closure(ww | wr)
    if level == "consistent-view":
        return not any((b, a) in reach for a, b in rw)
    if level == "snapshot-isolation":
        return not _cyclic((ww | wr) | {(a, c) for a, b in ww | wr for b2, c in rw if b == b2})
    return not _cyclic(ww | wr | rw)


def _closure(edges: set[tuple[int, int]]) -> set[tuple[int, int]]:
    found = set(edges)
    while True:
        more = {(a, d) for a, b in found for c, d in edges if b == c} - found
        if not more:
            return found
        found |= more


def _cyclic(edges: set[tuple[int, int]]) -> bool:
    return any(a == b for a, b in _closure(edges))


# --- comparing --------------------------------------------------------------------------------------------------------


@dataclass
class Figures:
    """What was compared: histories, those that are no serial run, and those of which only the definition knows it."""

    histories: int = 0
    broken: int = 0
    missed: int = 0
    levels: int = 0
    unordered: int = 0


def compare(rng: random.Random, workload: Workload, figures: Figures) -> str | None:
    """Compare on one random history; the difference, if there is one.

    Lists must agree exactly. Of registers all that is said must be so; what cannot be inferred is counted.
    """
    history = random_history(rng, workload)
    table = to_table(ops_of(history))
    figures.histories += 1
    for model in SERIAL:
        found = judged(table, workload, Expected((model,)), Assumptions())
        if found.unverified:
            return f"{found.unverified} of {history}"
        right = is_serial(history, model)
        figures.broken += not right
        said = found.findings.valid == "false"
        if said and right:
            return f"{model}: not {found.findings.anomaly_types}: {history}"
        if not said and not right:
            figures.missed += 1
            if workload == "list-append":
                return f"{model}: not found: {history}"
    if workload == "list-append" and is_sound(history):
        figures.levels += 1
        findings = judged(table, workload, Expected(("serializable",)), Assumptions()).findings
        ruled_out = impossible([*findings.anomaly_types, *findings.tolerated])
        for level, kept in satisfied(history).items():
            if not kept and level not in ruled_out and level in _BETWEEN and _several_unread(history):
                figures.unordered += 1
            elif kept == (level in ruled_out):
                return f"{level} is {kept}, {ruled_out}: {history}"
    return None


_BETWEEN: Final = ("consistent-view", "snapshot-isolation")


def _several_unread(history: Sequence[Txn]) -> bool:
    """Whether a key has two appends that no read shows: what follows from each order of them is not tried."""
    read = {each for txn in history for f, _, value in txn.mops if f == "r" for each in value or ()}
    keys = [key for txn in history for f, key, value in txn.mops if f == "append" and value not in read]
    return len(keys) > len(set(keys))


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare on many histories."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    kernels.use_compiled()
    workloads: tuple[Workload, ...] = ("list-append", "rw-register")
    for workload in workloads:
        figures = Figures()
        for number in range(chosen.count // 2):
            problem = compare(random.Random(f"{chosen.seed} {number} {workload}"), workload, figures)
            if problem is not None:
                print(f"{workload}, history {number} of seed {chosen.seed}: {problem}")
                return 1
        print(
            f"{workload}: {figures.histories} histories, {figures.broken} verdicts against a serial model, "
            f"{figures.missed} of them not inferred; {figures.levels} compared with orders of versions, "
            f"{figures.unordered} levels not ruled out"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Isolation by definition, on small histories: try every serial order, and every order of versions. Slow, and plain.

    python -m tests.checkers.transactions.brute_force [--count 50000] [--first 0] [--seed 1] [--workload rw-register]

compares the checkers with it on random histories, half of them of lists and half of registers, or all of one workload.
It exits with 1 at the first difference. Several processes may share the work: `--first` is the number of the first
history of each workload.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from splitbrain.checkers import kernels
from splitbrain.checkers.transactions.assumptions import Assumptions
from splitbrain.checkers.transactions.judging import Expected, Workload
from splitbrain.checkers.transactions.models import impossible
from splitbrain.checkers.transactions.report import judged
from splitbrain.results.arrow import to_table
from splitbrain.results.history import Mop, Op, OpType
from tests.checkers.transactions.definitions import DEFINITIONS, Txn, satisfied

SERIAL: Final = ("serializable", "strong-session-serializable", "strict-serializable")
"""Models that are decided by trying serial orders: of any kind, that respect processes, that respect real time."""

_ENDS: Final[list[OpType]] = ["ok", "info", "fail"]


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


def loose_history(rng: random.Random, workload: Workload) -> list[Txn]:
    """A few transactions on a database without isolation: each micro-operation takes effect by itself.

    What a read finds is old at times. A transaction reads a key only if it has not used it, so that what it reads is
    explained by others.
    """
    count, keys, old = rng.randint(2, 5), rng.randint(1, 3), rng.choice([0.0, 0.3, 0.7])
    times = _times(rng, count)
    kinds: list[OpType] = [rng.choices(_ENDS, [0.9, 0.08, 0.02])[0] for _ in times]
    turns = [txn for txn in range(count) for _ in range(rng.randint(1, 4))]
    if rng.random() < 0.7:
        rng.shuffle(turns)
    held: dict[str, tuple[int, ...]] = {}
    mops: list[list[tuple[str, str, Any]]] = [[] for _ in times]
    for value, txn in enumerate(turns, 1):
        key = f"k{rng.randrange(keys)}"
        now = held.get(key, ())
        if rng.random() < 0.55 and key not in [used for _, used, _ in mops[txn]]:
            mops[txn].append(("r", key, now[: rng.randint(0, len(now))] if rng.random() < old else now))
        else:
            mops[txn].append(("append" if workload == "list-append" else "w", key, value))
            if kinds[txn] != "fail":
                held[key] = (*now, value)
    made = [Txn(*when, kind, tuple(each)) for when, kind, each in zip(times, kinds, mops, strict=True)]
    return [_typed(each, workload) for each in made]


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


# --- what one transaction shows ---------------------------------------------------------------------------------------


def is_sound(history: Sequence[Txn]) -> bool:
    """Whether reads are as transactions alone explain it: no anomaly but cycles, G1b and lost updates."""
    writers = {value: txn for txn in history for f, _, value in txn.mops if f != "r"}
    longest: dict[str, tuple[int, ...]] = {}
    for txn in history:
        if txn.type == "ok" and not (_lists_sound(txn, writers, longest) and _registers_sound(txn, writers)):
            return False
    return True


def _lists_sound(txn: Txn, writers: Mapping[int, Txn], longest: dict[str, tuple[int, ...]]) -> bool:
    known: dict[str, tuple[int, ...] | None] = {}
    own: dict[str, tuple[int, ...]] = {}
    for f, key, value in txn.mops:
        if f == "append":
            own[key] = (*own.get(key, ()), value)
        if f != "r" or not isinstance(value, tuple):
            continue
        read = cast("tuple[int, ...]", value)
        expected = known.get(key)
        tail = own.pop(key, ())
        if (expected is not None and read != expected + tail) or read[len(read) - len(tail) :] != tail:
            return False
        if len(set(read)) < len(read) or any(writers[each].type == "fail" for each in read):
            return False
        later = [v for g, k, v in txn.mops if g == "append" and k == key and v not in tail]
        if expected is None and any(each in later for each in read):
            return False
        known[key] = read
        shorter, longer = sorted((read, longest.get(key, ())), key=len)
        if longer[: len(shorter)] != shorter:
            return False
        longest[key] = longer
    return True


def _registers_sound(txn: Txn, writers: Mapping[int, Txn]) -> bool:
    known: dict[str, int | None] = {}
    own = {value for f, _, value in txn.mops if f == "w"}
    for f, key, value in txn.mops:
        if f == "append" or isinstance(value, tuple):
            continue
        if f == "r":
            if key in known and known[key] != value:
                return False
            if value is not None and (writers[value].type == "fail" or (value in own and key not in known)):
                return False
        known[key] = value
    return True


# --- comparing --------------------------------------------------------------------------------------------------------


@dataclass
class Figures:
    """What was compared: histories, those that are no serial run, and those of which only the definition knows it.

    Attributes:
        levels: how many histories were compared with the definitions of all levels.
        violated, found: by level, how many do not keep it, and of how many of these the checker says so.
        unordered: how many levels of lists are not ruled out since several appends of a key were not read.
    """

    histories: int = 0
    broken: int = 0
    missed: int = 0
    levels: int = 0
    unordered: int = 0
    violated: Counter[str] = field(default_factory=Counter[str])
    found: Counter[str] = field(default_factory=Counter[str])


def compare(rng: random.Random, workload: Workload, figures: Figures) -> str | None:
    """Compare on one random history; the difference, if there is one.

    All that is said must be so. Of lists the serial models must agree exactly, and the levels of EXACT["list-append"];
    of registers those of EXACT["rw-register"]; what else cannot be inferred is counted.
    """
    history = (random_history if rng.random() < 0.6 else loose_history)(rng, workload)
    table = to_table(ops_of(history))
    figures.histories += 1
    ruled_out: set[str] = set()
    for model in (*SERIAL, *WEAK):
        found = judged(table, workload, Expected((model,)), Assumptions())
        if found.unverified:
            return f"{found.unverified} of {history}"
        ruled_out.update(impossible([*found.findings.anomaly_types, *found.findings.tolerated]))
        if model in WEAK:
            continue
        right = is_serial(history, model)
        figures.broken += not right
        said = found.findings.valid == "false"
        if said and right:
            return f"{model}: not {found.findings.anomaly_types}: {history}"
        if not said and not right:
            figures.missed += 1
            if workload == "list-append":
                return f"{model}: not found: {history}"
    return _levels(history, workload, ruled_out, figures) if is_sound(history) else None


def _levels(history: Sequence[Txn], workload: Workload, ruled_out: set[str], figures: Figures) -> str | None:
    figures.levels += 1
    for level, kept in satisfied(history).items():
        said = level in ruled_out
        figures.violated[level] += not kept
        figures.found[level] += said
        if kept and said:
            return f"{level} is kept, {sorted(ruled_out)} are ruled out: {history}"
        if kept or said or level not in EXACT[workload]:
            continue
        if level not in _BETWEEN or not _several_unread(history):
            return f"{level} is not kept, and not ruled out: {history}"
        figures.unordered += 1
    return None


WEAK: Final = ("causal", "causal-cerone")
"""Models that are asked for besides, since what rules out weak levels of registers is not looked for without."""

_BETWEEN: Final = (
    "consistent-view",
    "forward-consistent-view",
    "snapshot-isolation",
    "strong-session-snapshot-isolation",
    "strong-snapshot-isolation",
)
"""Levels of lists that are exact, but that several appends of a key that no read shows are not tried in every order."""

_OF_LISTS: Final = (
    *("read-uncommitted", "strong-session-read-uncommitted", "strong-read-uncommitted"),
    *("read-committed", "strong-session-read-committed", "strong-read-committed"),
    *("repeatable-read", "serializable", *_BETWEEN),
)
_OF_REGISTERS: Final = (
    *("strong-session-monotonic-atomic-view", "strong-session-read-atomic", "strong-session-causal"),
    *("monotonic-atomic-view", "read-atomic"),
)

EXACT: Final[Mapping[Workload, tuple[str, ...]]] = {"list-append": _OF_LISTS, "rw-register": _OF_REGISTERS}
"""Levels that are ruled out whenever no order of versions keeps them."""


def _several_unread(history: Sequence[Txn]) -> bool:
    """Whether a key has two appends that no read shows: what follows from each order of them is not tried."""
    read = {each for txn in history for f, _, value in txn.mops if f == "r" for each in value or ()}
    keys = [key for txn in history for f, key, value in txn.mops if f == "append" and value not in read]
    return len(keys) > len(set(keys))


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare on many histories."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workload", choices=list(EXACT))
    chosen = parser.parse_args(arguments)
    kernels.use_compiled()
    workloads: list[Workload] = [chosen.workload] if chosen.workload else list(EXACT)
    for workload in workloads:
        figures = Figures()
        for number in range(chosen.first, chosen.first + chosen.count // len(workloads)):
            problem = compare(random.Random(f"{chosen.seed} {number} {workload}"), workload, figures)
            if problem is not None:
                print(f"{workload}, history {number} of seed {chosen.seed}: {problem}")
                return 1
        print(
            f"{workload}: {figures.histories} histories, {figures.broken} verdicts against a serial model, "
            f"{figures.missed} of them not inferred; {figures.levels} compared with orders of versions, "
            f"{figures.unordered} levels not ruled out for appends that no read shows"
        )
        for level in DEFINITIONS:
            exact = "exact" if level in EXACT[workload] else ""
            print(f"    {level:38} {figures.violated[level]:>6} violated {figures.found[level]:>6} ruled out  {exact}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

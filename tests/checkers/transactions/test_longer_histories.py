"""Histories that are too long for every order to be tried: valid by their making, or decided by saturation.

Weak levels of registers have a polynomial decision (Biswas and Enea, OOPSLA 2019): what must come before what follows
from the reads, and there is an order if that has no cycle. It is spelt out here with plain sets.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, count

import pytest

from splitbrain.checkers.transactions.assumptions import Assumptions
from splitbrain.checkers.transactions.judging import Expected, Workload
from splitbrain.checkers.transactions.models import impossible
from splitbrain.checkers.transactions.report import judged
from splitbrain.results.arrow import to_table
from tests.checkers.transactions.brute_force import ops_of
from tests.checkers.transactions.definitions import Txn, closure

Versions = dict[str, list[int]]


def spans(rng: random.Random, size: int) -> Iterator[tuple[int, int, int, str]]:
    """Process, row of the invocation and of the completion, and how it ended; in the order of completions."""
    free, under_way, row, left = list(range(rng.randint(1, 6))), dict[int, int](), 0, size
    goes_on = rng.random() < 0.5  # under the same name after an unknown outcome
    new = count(100)
    while left or under_way:
        if left and free and (not under_way or rng.random() < 0.5):
            left -= 1
            under_way[free.pop(rng.randrange(len(free)))] = row
        else:
            process = rng.choice(list(under_way))
            kind = rng.choices(["ok", "info", "fail"], [0.85, 0.1, 0.05])[0]
            yield process, under_way.pop(process), row, kind
            free.append(next(new) if kind == "info" and not goes_on else process)
        row += 1


# --- valid by their making --------------------------------------------------------------------------------------------


@dataclass
class _Store:
    """Transactions in the order in which they committed: when, and what each wrote."""

    log: list[tuple[int, dict[str, list[int]]]]

    def snapshot(self, size: int) -> Versions:
        """What the first ones left."""
        found: Versions = {}
        for _, written in self.log[:size]:
            for key, values in written.items():
                found.setdefault(key, []).extend(values)
        return found

    def writes_since(self, size: int, keys: set[str]) -> bool:
        """Whether one that is not of the first ones wrote one of some keys."""
        return any(keys & set(written) for _, written in self.log[size:])


def made(rng: random.Random, workload: Workload, model: str, size: int) -> list[Txn]:
    """A history of a store that keeps a model, with multiple versions; its first committer wins."""
    store, values, seen = _Store([]), count(1), dict[int, int]()
    lag = rng.choice([0, 1, 3, 10])
    history: list[Txn] = []
    for process, invoked, completed, ended in spans(rng, size):
        kind = ended
        at_least = sum(when < invoked for when, _ in store.log) if model.startswith("strong-snap") else 0
        if model.startswith("strong-session"):
            at_least = seen.get(process, 0)
        plan = [(rng.random() < 0.5, f"k{rng.randrange(4)}") for _ in range(rng.randint(0, 4))]
        keys = {key for is_read, key in plan if not is_read}
        size_seen = max(len(store.log) - rng.randint(0, lag), at_least)
        if model == "strict-serializable" or ("serializable" in model and keys):
            size_seen = len(store.log)  # others read at any moment
        if store.writes_since(size_seen, keys):
            kind = "fail"
        state, written = store.snapshot(size_seen), dict[str, list[int]]()
        mops: list[tuple[str, str, object]] = []
        for is_read, key in plan:
            held = state.setdefault(key, [])
            if is_read:
                found: object = tuple(held) if workload == "list-append" else held[-1] if held else None
                mops.append(("r", key, found if kind == "ok" else None))
            else:
                mops.append(("append" if workload == "list-append" else "w", key, next(values)))
                held.append(mops[-1][2])  # pyright: ignore[reportArgumentType]
                written.setdefault(key, []).append(held[-1])
        if written and (kind == "ok" or (kind == "info" and rng.random() < 0.5)):
            store.log.append((completed, written))
        if kind == "ok":
            seen[process] = max(seen.get(process, 0), len(store.log) if written else size_seen)
        history.append(Txn(process, invoked, completed, kind, tuple(mops)))
    return history


MADE = (
    *("strict-serializable", "strong-session-serializable", "serializable"),
    *("strong-snapshot-isolation", "strong-session-snapshot-isolation", "snapshot-isolation"),
)


@pytest.mark.parametrize("workload", ["list-append", "rw-register"])
@pytest.mark.parametrize("model", MADE)
def test_no_model_is_ruled_out_that_a_history_keeps_by_its_making(model: str, workload: Workload) -> None:
    said = {"strict-serializable": "strong-serializable"}.get(model, model)
    broken = 0
    for seed in range(25):
        rng = random.Random(f"made {seed} {model} {workload}")
        table = to_table(ops_of(made(rng, workload, model, rng.choice([10, 40, 100]))))
        for asked in (model, "strict-serializable"):
            found = judged(table, workload, Expected((asked,)), Assumptions())
            anomalies = [*found.findings.anomaly_types, *found.findings.tolerated]
            assert not found.unverified
            assert said not in impossible(anomalies), (seed, asked, anomalies)
            broken += found.findings.valid == "false"
    assert (broken > 0) is (model != "strict-serializable")


# --- decided by saturation --------------------------------------------------------------------------------------------


def loose(rng: random.Random, size: int) -> list[Txn]:
    """Registers of a store whose reads are old at times, and seldom older than what their session saw."""
    versions: dict[str, list[int | None]] = {f"k{number}": [None] for number in range(rng.randint(1, 5))}
    seen: dict[tuple[int, str], int] = {}
    lag, slips, values = rng.choice([0, 0, 1, 3]), rng.choice([0.0, 0.02, 0.1, 0.3]), count(1)
    history: list[Txn] = []
    for process, invoked, completed, kind in spans(rng, size):
        held: dict[str, int | None] = {}
        mops: list[tuple[str, str, object]] = []
        own: dict[str, int] = {}
        for _ in range(rng.randint(1, 4)):
            key = rng.choice(list(versions))
            if rng.random() < 0.55:
                last = len(versions[key]) - 1
                at = max(last - rng.randint(0, lag), seen.get((process, key), 0))
                at = rng.randint(0, last) if rng.random() < slips else at
                if key not in held:
                    held[key] = versions[key][at]
                    seen[process, key] = max(at, seen.get((process, key), 0))
                mops.append(("r", key, held[key] if kind == "ok" else None))
            else:
                held[key] = own[key] = next(values)
                mops.append(("w", key, held[key]))
        if kind == "ok" or (kind == "info" and rng.random() < 0.5):
            for key, value in own.items():
                versions[key].append(value)
                seen[process, key] = len(versions[key]) - 1
        history.append(Txn(process, invoked, completed, kind, tuple(mops)))
    return history


@dataclass(frozen=True)
class _Read:
    """Who reads, where, which key, and who wrote that; -1: it was there at first."""

    reader: int
    at: int
    key: str
    writer: int


def levels(history: list[Txn]) -> Mapping[str, bool]:
    """Which weak levels a history keeps of which no read is wrong by itself."""
    writer = {value: at for at, txn in enumerate(history) for f, _, value in txn.mops if f == "w"}
    reads = list(_reads(history, writer))
    committed = {at for at, txn in enumerate(history) if txn.type == "ok"} | {read.writer for read in reads} - {-1}
    writers: dict[str, set[int]] = {}
    for at in committed:
        for f, key, _ in history[at].mops:
            if f == "w":
                writers.setdefault(key, set()).add(at)
    in_order = sorted(committed, key=lambda at: history[at].invoked)
    sessions = {
        (one, other)
        for one, other in combinations(in_order, 2)
        if history[one].process == history[other].process and history[one].type == "ok"
    }
    shown = {(read.writer, read.reader) for read in reads if read.writer >= 0}

    def is_kept(base: set[tuple[int, int]], sees: Callable[[int, _Read], bool]) -> bool:
        forced = set(base)
        for read in reads:
            for other in writers.get(read.key, set()) - {read.writer, read.reader}:
                if sees(other, read):
                    if read.writer < 0:
                        return False
                    forced.add((other, read.writer))
        return all(one != other for one, other in closure(frozenset(forced)))

    found: dict[str, bool] = {}
    for base, names in ((shown, WITHOUT), (shown | sessions, WITH)):
        past = closure(frozenset(base))
        found[names[0]] = is_kept(base, lambda other, read, past=past: (other, read.reader) in past)
        found[names[1]] = is_kept(base, lambda other, read, base=base: (other, read.reader) in base)
        found[names[2]] = is_kept(
            base,
            lambda other, read: any(
                (each.reader, each.writer) == (read.reader, other) and each.at < read.at for each in reads
            ),
        )
    return found


WITHOUT = ("causal-cerone", "read-atomic", "monotonic-atomic-view")
WITH = tuple(f"strong-session-{name}" for name in ("causal", "read-atomic", "monotonic-atomic-view"))


def _reads(history: list[Txn], writer: Mapping[object, int]) -> Iterator[_Read]:
    for reader, txn in enumerate(history):
        own: set[str] = set()
        for at, (f, key, value) in enumerate(txn.mops if txn.type == "ok" else ()):
            if f == "w":
                own.add(key)
            elif key not in own:
                yield _Read(reader, at, key, -1 if value is None else writer[value])


def test_weak_levels_of_longer_histories_are_decided_as_by_saturation() -> None:
    seen: set[tuple[str, bool]] = set()
    for seed in range(90):
        rng = random.Random(f"loose {seed}")
        history = loose(rng, rng.choice([4, 8, 15, 30]))
        table = to_table(ops_of(history))
        for level, kept in levels(history).items():
            found = judged(table, "rw-register", Expected((level,)), Assumptions())
            assert not found.unverified
            assert not found.undecided
            assert (found.findings.valid != "false") is kept, (seed, level, history)
            seen.add((level, kept))
    assert len(seen) == 12

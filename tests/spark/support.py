"""Stores of made-up runs, and checkers that misbehave."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from splitbrain.checkers.spark.hot_keys import Sizes
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.history import HARNESS, Op
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store
from splitbrain.results.wal import HistoryWriter

WALL_NS = 1_790_000_000_000_000_000

IN_GROUPS = pytest.mark.parametrize(
    "sizes", [Sizes(run_rows=1_000_000), Sizes(run_rows=0)], ids=["each run one group", "by run, by key"]
)
"""For tests that hold for small runs and for large ones."""

REGISTER = (
    CheckerSpec("linearizable", {"model": "cas-register"}),
    CheckerSpec("stats"),
    CheckerSpec("coverage", {"fs": ["read", "write"]}),
)
SET = (CheckerSpec("set"), CheckerSpec("stats"))
SESSIONS = (CheckerSpec("session", {"linearizable_writes": True}), CheckerSpec("leader-reads"))


def register_history(
    seed: int, keys: int, ops_per_key: int, *, stale: Sequence[int] = (), clients: int = 4
) -> list[Op]:
    """Registers under reads and writes, keys interleaved, the harness in between; linearizable except for `stale` keys.

    Ops of a key never overlap; in a stale key one read in the middle returns the value before the last one.
    """
    draw = random.Random(seed)
    events: list[Op] = []
    values: dict[int, list[int]] = {key: [0] for key in range(keys)}
    turns = [key for key in range(keys) for _ in range(ops_per_key)]
    draw.shuffle(turns)
    seen = dict.fromkeys(range(keys), 0)
    for turn, key in enumerate(turns):
        if turn % 500 == 0:
            events.append(Op(process=HARNESS, type="info", f="phase", value={"phase": "faults"}))
        seen[key] += 1
        process = key % clients
        node = f"n{process % 3 + 1}"
        if seen[key] <= 2 or draw.random() < 0.4:
            values[key].append(values[key][-1] + 1)
            invoke = Op(process=process, type="invoke", f="write", key=str(key), value=values[key][-1], node=node)
            done = invoke.complete("ok", invoke.value, term=1)
        else:
            invoke = Op(process=process, type="invoke", f="read", key=str(key), node=node)
            wrong = key in stale and seen[key] >= ops_per_key // 2
            done = invoke.complete("ok", values[key][-2 if wrong else -1], term=1)
        events += [invoke, done]
    return numbered(events)


def set_history(elements: int, *, lost: Sequence[int] = ()) -> list[Op]:
    """Every element added and acknowledged, then one read without the `lost` ones."""
    events: list[Op] = []
    for element in range(elements):
        add = Op(process=element % 5, type="invoke", f="add", value=element, node="n1")
        events += [add, add.complete("ok", element)]
    read = Op(process=0, type="invoke", f="read", node="n2")
    return numbered([*events, read, read.complete("ok", [e for e in range(elements) if e not in lost])])


def numbered(events: Iterable[Op]) -> list[Op]:
    """The ops with indexes and times as a history has them."""
    return [msgspec.structs.replace(op, index=i, time=i * 1_000_000) for i, op in enumerate(events)]


def stored(store: Store, name: str, seed: int, ops: Iterable[Op], specs: Sequence[CheckerSpec]) -> RunDir:
    """A finished run of the store."""
    run, writer = _written(store, name, seed, ops, specs)
    writer.close()
    run.release()
    finished = RunDir(run.path)
    finished.finish_history()
    return finished


def crashed(store: Store, name: str, seed: int, ops: Iterable[Op], specs: Sequence[CheckerSpec]) -> RunDir:
    """A run whose controller died after it had flushed everything."""
    run, writer = _written(store, name, seed, ops, specs)
    writer.flush()
    writer.abandon()
    run.release()
    return RunDir(run.path)


def _written(
    store: Store, name: str, seed: int, ops: Iterable[Op], specs: Sequence[CheckerSpec]
) -> tuple[RunDir, HistoryWriter]:
    run = store.create(name, seed, {"checkers": list(specs), "nodes": ["n1", "n2", "n3"]}, WALL_NS + seed)
    writer = run.history_writer()
    for op in ops:
        writer.record(op)
    return run, writer


def timeless(verdicts: Iterable[Verdict]) -> list[dict[str, Any]]:
    """Verdicts without the seconds that they took."""
    return [_timeless(msgspec.to_builtins(verdict)) for verdict in verdicts]


def _timeless(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: _timeless(value) for key, value in found.items() if "seconds" not in str(key)}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return found


MISBEHAVING = '''
from splitbrain.checkers.verdict import Verdict


class Fragile:
    """Breaks on keys that begin with "bad"; finds a violation in keys that begin with "wrong"."""

    name = "fragile"
    partition = "key"

    def check(self, history, options):
        key = history.column("key")[0].as_py()
        if key is not None and key.startswith(options.get("breaks", "bad")):
            raise ZeroDivisionError(f"cannot divide {key} by zero")
        return Verdict(checker="fragile", valid="false" if str(key).startswith("wrong") else "true", key=key,
                       sentence=f"looked at {key}", figures={"ops": history.num_rows})

    def merge(self, verdicts, options):
        parts = list(verdicts)
        worst = sorted(parts, key=lambda part: ("false", "unknown", "true").index(part.valid))
        return Verdict(checker="fragile", valid=worst[0].valid if worst else "true", sentence="merged",
                       evidence={"keys": [part.key for part in parts]})


class Unmergeable(Fragile):
    def merge(self, verdicts, options):
        raise RuntimeError("no idea how")


class Forgetful(Fragile):
    """Has no verdict on a part, or on the whole."""

    def check(self, history, options):
        return Verdict(checker="fragile", valid="true") if options.get("forgets") == "merge" else None

    def merge(self, verdicts, options):
        return list(verdicts)[0] if options.get("forgets") == "check" else None


class Nameless(Fragile):
    name = ""


class Partless(Fragile):
    partition = "keys"


class Mergeless(Fragile):
    merge = None


class Wanting(Fragile):
    def __init__(self, what):
        pass


class Unspeakable(Fragile):
    """Puts into its evidence what JSON cannot carry."""

    def check(self, history, options):
        return Verdict(checker="fragile", valid="true", evidence={"what": object()})


class Numeric(Fragile):
    """Puts NumPy's numbers into its figures."""

    partition = "run"

    def check(self, history, options):
        import numpy as np
        return Verdict(checker="fragile", valid="true", figures={
            "ops": np.int64(history.num_rows), "all": np.arange(2)})

    def merge(self, verdicts, options):
        return list(verdicts)[0]


class Deadly(Numeric):
    """Ends its process."""

    def check(self, history, options):
        import os
        os._exit(1)


class DeadlyMerge(Numeric):
    def check(self, history, options):
        return Verdict(checker="fragile", valid="true")

    def merge(self, verdicts, options):
        import os
        os._exit(1)


class DeadlyOnZ(Fragile):
    """Ends its process on the key z, the largest."""

    def check(self, history, options):
        if history.column("key")[0].as_py() == "z":
            import os
            os._exit(1)
        return super().check(history, options)


class EndsTheWorker(Numeric):
    """Ends the process that forked its own."""

    def check(self, history, options):
        import os, signal
        os.kill(os.getppid(), signal.SIGKILL)
        os._exit(1)


class Hash(Numeric):
    """Tells what it was given."""

    def check(self, history, options):
        from splitbrain.results.arrow import history_hash
        return Verdict(checker="hash", valid="true", figures={"hash": history_hash(history)})


class Rows(Numeric):
    """Tells the rows of telemetry that it was given, and their columns."""

    partition = "telemetry"

    def check(self, telemetry, options):
        from splitbrain.results.arrow import TELEMETRY_SCHEMA
        return Verdict(checker="rows", valid="true", evidence={
            "rows": telemetry.to_pylist(), "conforms": telemetry.schema.equals(TELEMETRY_SCHEMA)})


class KeyHash(Hash):
    partition = "key"

    def merge(self, verdicts, options):
        return Verdict(checker="hash", valid="true", figures={str(part.key): part.figures["hash"] for part in verdicts})
'''
"""A module to be laid on the path under the name `misbehaving`."""


def keyed(*keys: str | None) -> list[Op]:
    """One write of each key."""
    return numbered(
        op
        for key in keys
        for op in (
            Op(process=0, type="invoke", f="write", key=key, value=1),
            Op(process=0, type="ok", f="write", key=key, value=1),
        )
    )


def lay_misbehaving(folder: Path) -> None:
    """Write the module."""
    (folder / "misbehaving.py").write_text(MISBEHAVING)

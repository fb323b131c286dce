"""One hot key, judged whole in this process and in segments over Spark: seconds, how they grow, and their ratios.

    python benchmarks/hot_key.py [--ops 250000,500000,1000000] [--clients 20] [--burst 500] [--repeat 3] [--json]

The history is that of one cas-register in bursts: all clients are busy in one, and between two of them none is. It is
valid, and once more with one read at 90 % that returns what no op wrote. Time is wall time from the stored file to the
verdict, without the start of the session and one warm-up; modes take turns, and every figure is a median.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.checkers import engine, linearizable
from splitbrain.checkers.spark.hot_keys import Sizes
from splitbrain.checkers.spark.pipeline import judge_runs
from splitbrain.checkers.spark.session import session
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.arrow import HISTORY_SCHEMA, to_table, write_parquet
from splitbrain.results.history import Op
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPLIT: Final = Sizes(hot_rows=100_000)
"""Smaller than what is split by default, so that every history here is."""

SPECS: Final = (CheckerSpec("linearizable", {"model": "cas-register"}),)
VALUES: Final = 5
BURSTS: Final = 20
"""Different bursts; a history is made of them in random order."""


def history(ops: int, *, clients: int, burst: int, bad: bool, seed: int = 1) -> pa.Table:
    """At least `ops` ops on the key "hot", two rows each, in bursts of `burst` that begin and end with 0 written."""
    rng = random.Random(seed)
    bursts = [_burst(rng, clients, burst) for _ in range(BURSTS)]
    chosen = [_rows([("write", 0, 0, 0)])] + [rng.choice(bursts) for _ in range(-(-ops // burst))]
    rows: Any = pa.concat_tables(chosen).combine_chunks()
    count: int = rows.num_rows
    places: Any = np.arange(count)
    rows = rows.set_column(0, "index", pa.array(places)).set_column(1, "time", pa.array(places * 10_000))
    if bad:
        types, fs = rows.column("type").to_numpy(), rows.column("f").to_numpy()
        at = int(np.flatnonzero((types == "ok") & (fs == "read") & (places >= count * 9 // 10))[0])
        values: Any = rows.column("value")
        values = pa.concat_arrays([*values.slice(0, at).chunks, pa.array(["-7"]), *values.slice(at + 1).chunks])
        rows = rows.set_column(HISTORY_SCHEMA.get_field_index("value"), "value", values)
    return rows.cast(HISTORY_SCHEMA)


def _burst(rng: random.Random, clients: int, ops: int) -> pa.Table:
    """All clients always busy, half reads, a quarter writes, a quarter cas, until all are idle; then 0 is written.

    An op takes effect at some moment between its rows. A cas that does not match is a `fail`.
    """
    held = 0
    rows: list[Op] = []
    waiting: dict[int, Op] = {}
    answered: dict[int, Op] = {}
    begun = 0
    while begun < ops - 1 or waiting or answered:
        client = rng.randrange(clients)
        if client in answered:
            rows.append(answered.pop(client))
        elif client in waiting:
            op = waiting.pop(client)
            held, answered[client] = _take_effect(op, held)
        elif begun < ops - 1:
            waiting[client] = op = _invocation(rng, client)
            rows.append(op)
            begun += 1
    return pa.concat_tables([to_table(rows), _rows([("write", 0, 0, 0)])])


def _rows(calls: list[tuple[str, int, int, int]]) -> pa.Table:
    """Ops one after the other: function, argument, result, process."""
    ops: list[Op] = []
    for f, value, result, process in calls:
        invoke = Op(process=process, type="invoke", f=f, key="hot", value=value, node=f"n{process % 5 + 1}")
        ops += [invoke, invoke.complete("ok", result)]
    return to_table(ops)


def _invocation(rng: random.Random, client: int) -> Op:
    f = rng.choice(["read", "read", "write", "cas"])
    value: Any = None
    if f == "write":
        value = rng.randrange(VALUES)
    elif f == "cas":
        value = [rng.randrange(VALUES), rng.randrange(VALUES)]
    return Op(process=client, type="invoke", f=f, key="hot", value=value, node=f"n{client % 5 + 1}")


def _take_effect(op: Op, held: int) -> tuple[int, Op]:
    if op.f == "read":
        return held, op.complete("ok", held)
    if op.f == "write":
        return op.value, op.complete("ok", op.value)
    expected, new = op.value
    return (new, op.complete("ok", op.value)) if held == expected else (held, op.complete("fail", op.value))


def stored(root: Path, table: pa.Table, seed: int) -> RunDir:
    """A finished run with that history."""
    run = Store(root).create("hot", seed, {"checkers": list(SPECS)}, 1_790_000_000_000_000_000 + seed * 10**9)
    write_parquet(table, run.history_path)
    run.release()
    return RunDir(run.path)


def inline(run: RunDir) -> Verdict:
    """The verdict of this process."""
    return engine.judge(run.history(), SPECS)[0]


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """The slope of a straight line through (log size, log seconds), by least squares; 1 is linear."""
    return statistics.linear_regression([math.log(n) for n in sizes], [math.log(s) for s in seconds]).slope


class Measured(msgspec.Struct):
    """Seconds of each pass by mode, over one history; and what was said of it."""

    ops: int
    bad: bool
    seconds: dict[str, list[float]] = {}
    sentences: dict[str, str] = {}
    segments: int = 1
    tasks: dict[str, int] = {}

    def median_s(self, mode: str) -> float:
        """The median of a mode."""
        return statistics.median(self.seconds[mode])

    def add(self, mode: str, run: RunDir, judge: Callable[[RunDir], Verdict]) -> None:
        """Time one pass, and refuse a wrong verdict, and one that says something else than the other modes' do."""
        began = time.perf_counter()
        verdict = judge(run)
        self.seconds.setdefault(mode, []).append(time.perf_counter() - began)
        if verdict.valid != ("false" if self.bad else "true"):
            raise SystemExit(
                f"{mode}: {self.ops} ops, bad={self.bad}: wrong verdict: {verdict.valid} {verdict.sentence}"
            )
        if self.bad and {verdict.sentence, *self.sentences.values()} != {verdict.sentence}:
            raise SystemExit(f"{mode} says something else: {verdict.sentence} {self.sentences}")
        self.sentences[mode] = verdict.sentence
        print(f"{mode}, {self.ops} ops, bad={self.bad}: {self.seconds[mode][-1]:.2f} s", file=sys.stderr, flush=True)
        for hot in verdict.figures.get("hot_keys", ()):
            self.segments, self.tasks[mode] = hot["segments"], hot["tasks"]


def _split(spark: SparkSession, run: RunDir) -> Verdict:
    return judge_runs(spark, [run.path], sizes=SPLIT)[run.path][0]


def measure(sizes: list[int], clients: int, burst: int, repeat: int) -> list[Measured]:
    """All modes over all histories."""
    linearizable.warm_up()
    with tempfile.TemporaryDirectory() as folder:
        cases: list[tuple[Measured, RunDir]] = []
        for ops in sizes:
            for bad in (False, True):
                table = history(ops, clients=clients, burst=burst, bad=bad)
                cases.append((Measured(table.num_rows // 2, bad), stored(Path(folder), table, len(cases))))
        for _ in range(repeat):
            for found, run in cases:
                found.add("inline", run, inline)
            for master in ("local[1]", "local[2]"):
                with session(master) as spark:
                    judge_runs(spark.session, [cases[0][1].path], sizes=SPLIT)
                    for found, run in cases:
                        found.add(master, run, lambda each: _split(spark.session, each))
        return [found for found, _ in cases]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ops", default="250000,500000,1000000", help="sizes of the history, comma-separated")
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--burst", type=int, default=500, help="ops between two moments at which all clients are idle")
    parser.add_argument("--repeat", type=int, default=3, help="number of passes; the result is their median")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    found = measure([int(n) for n in chosen.ops.split(",")], chosen.clients, chosen.burst, chosen.repeat)
    if chosen.json:
        json.dump(msgspec.to_builtins(found), sys.stdout, indent=2)
        print()
        return
    print(f"{os.cpu_count()} x {platform.machine()}, Python {platform.python_version()}; {chosen.clients} clients")
    names = ("ops", "history", "segments", "tasks", "inline s", "local[1] s", "local[2] s", "1 to 2", "inline to 2")
    print(" ".join(f"{name:>11}" for name in names))
    for each in found:
        whole, one, two = (each.median_s(mode) for mode in ("inline", "local[1]", "local[2]"))
        kind, tasks = "bad" if each.bad else "ok", each.tasks.get("local[2]", 0)
        ratios = (f"{ratio:.2f}" for ratio in (whole, one, two, one / two, whole / two))
        print(" ".join(f"{cell:>11}" for cell in (each.ops, kind, each.segments, tasks, *ratios)))
    for bad in (False, True):
        of_kind = [each for each in found if each.bad == bad]
        if len(of_kind) > 1:
            slopes = [
                f"{mode} {exponent([each.ops for each in of_kind], [each.median_s(mode) for each in of_kind]):.2f}"
                for mode in ("inline", "local[1]", "local[2]")
            ]
            print(f"{'bad' if bad else 'ok'}: seconds grow with ops to the power of: {', '.join(slopes)}")


if __name__ == "__main__":
    main()

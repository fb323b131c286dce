"""The Spark pipeline over stores of 1, 2, 4, 8 runs: seconds, and how they grow.

    python benchmarks/spark_pipeline.py [--ops 20000] [--keys 100] [--runs 1,2,4,8] [--master 'local[*]'] [--json]

Each run is a made-up history of cas-register ops over independent keys: on every key some clients are busy all the
time, and the answers are those of a register, so it is linearizable. Checked with `linearizable` (by key) and `stats`
(by run). The start of the session, and the first job with its warm-up of workers, are reported apart.
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
from pathlib import Path
from typing import Any

import msgspec

from splitbrain.checkers.spark.pipeline import judge_runs
from splitbrain.checkers.spark.session import session
from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.results.history import Op
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store

SPECS = (CheckerSpec("linearizable", {"model": "cas-register"}), CheckerSpec("stats"))
CLIENTS_PER_KEY = 5
VALUES = 5


def history(seed: int, ops: int, keys: int) -> list[Op]:
    """`ops` ops (two rows each) over `keys` registers, half reads, a quarter writes, a quarter cas; linearizable.

    Every client invokes, and completes once others had the chance to step in between; an op takes effect when it
    completes.
    """
    draw = random.Random(seed)
    state: dict[int, int | None] = dict.fromkeys(range(keys))
    idle = [(key, client) for key in range(keys) for client in range(CLIENTS_PER_KEY)]
    busy: list[tuple[int, int, Op]] = []
    rows: list[Op] = []
    begun = 0
    while begun < ops or busy:
        if begun < ops and idle and (not busy or draw.random() < 0.5):
            key, client = idle.pop(draw.randrange(len(idle)))
            invoke = _invocation(draw, key, client)
            rows.append(invoke)
            busy.append((key, client, invoke))
            begun += 1
        else:
            key, client, invoke = busy.pop(draw.randrange(len(busy)))
            rows.append(_completion(state, key, invoke))
            idle.append((key, client))
    return [msgspec.structs.replace(op, index=i, time=i * 10_000) for i, op in enumerate(rows)]


def _invocation(draw: random.Random, key: int, client: int) -> Op:
    f = draw.choice(["read", "read", "write", "cas"])
    value: Any = None
    if f == "write":
        value = draw.randrange(VALUES)
    elif f == "cas":
        value = [draw.randrange(VALUES), draw.randrange(VALUES)]
    return Op(
        process=key * CLIENTS_PER_KEY + client, type="invoke", f=f, key=str(key), value=value, node=f"n{client + 1}"
    )


def _completion(state: dict[int, int | None], key: int, invoke: Op) -> Op:
    if invoke.f == "read":
        return invoke.complete("ok", state[key])
    if invoke.f == "write":
        state[key] = invoke.value
        return invoke.complete("ok", invoke.value)
    expected, new = invoke.value
    if state[key] != expected:
        return invoke.complete("fail", invoke.value)
    state[key] = new
    return invoke.complete("ok", invoke.value)


def make_store(root: Path, runs: int, ops: int, keys: int) -> list[RunDir]:
    """A store of finished runs."""
    store = Store(root)
    made: list[RunDir] = []
    for seed in range(runs):
        run = store.create("benchmark", seed, {"checkers": list(SPECS)}, 1_790_000_000_000_000_000 + seed * 10**9)
        writer = run.history_writer()
        for op in history(seed, ops, keys):
            writer.record(op)
        run.finish_history()
        run.release()
        made.append(run)
    return made


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """The slope of a straight line through (log size, log seconds), by least squares; 1 is linear."""
    return statistics.linear_regression([math.log(n) for n in sizes], [math.log(s) for s in seconds]).slope


def measure(counts: list[int], ops: int, keys: int, master: str, repeat: int) -> dict[str, Any]:
    """Everything that is reported, as JSON can carry it."""
    with tempfile.TemporaryDirectory() as folder:
        made = make_store(Path(folder), max(counts), ops, keys)
        with session(master) as spark:
            started = time.perf_counter()
            judge_runs(spark.session, [made[0].path])
            first_s = time.perf_counter() - started
            rows = [_measure(spark.session, made[:count], repeat) for count in counts]
        return {
            "machine": f"{os.cpu_count()} x {platform.machine()}, Python {platform.python_version()}, Java "
            f"{spark.java.release}, {master}",
            "ops_per_run": ops,
            "keys_per_run": keys,
            "session_start_s": round(spark.start_s, 2),
            "class_archive": spark.archived,
            "first_job_s": round(first_s, 2),
            "runs": rows,
            "exponent": round(exponent(counts, [row["seconds"] for row in rows]), 2) if len(counts) > 1 else None,
        }


def _measure(spark: Any, runs: list[RunDir], repeat: int) -> dict[str, Any]:
    taken: list[float] = []
    for _ in range(repeat):
        started = time.perf_counter()
        verdicts = judge_runs(spark, [run.path for run in runs])
        taken.append(time.perf_counter() - started)
        wrong = [verdict.sentence for each in verdicts.values() for verdict in each if verdict.valid != "true"]
        if wrong:
            raise SystemExit(f"a linearizable history was not found to be one: {wrong[0]}")
    return {"runs": len(runs), "seconds": round(statistics.median(taken), 3)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ops", type=int, default=20_000, help="client ops per run")
    parser.add_argument("--keys", type=int, default=100, help="independent keys per run")
    parser.add_argument("--runs", default="1,2,4,8", help="sizes of the store, comma-separated")
    parser.add_argument("--repeat", type=int, default=3, help="number of passes; the result is their median")
    parser.add_argument("--master", default="local[*]")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    found = measure([int(n) for n in chosen.runs.split(",")], chosen.ops, chosen.keys, chosen.master, chosen.repeat)
    if chosen.json:
        json.dump(found, sys.stdout, indent=2)
        print()
        return
    print(f"{found['machine']}; {found['ops_per_run']} ops on {found['keys_per_run']} keys per run")
    print(
        f"session start {found['session_start_s']} s ({'with' if found['class_archive'] else 'without'} class "
        f"archive), first job {found['first_job_s']} s"
    )
    print(f"{'runs':>6} {'ops':>9} {'seconds':>9} {'ops/s':>9}")
    for row in found["runs"]:
        ops = row["runs"] * found["ops_per_run"]
        print(f"{row['runs']:>6} {ops:>9} {row['seconds']:>9.2f} {ops / row['seconds']:>9.0f}")
    print(f"seconds grow with runs to the power of {found['exponent']}")


if __name__ == "__main__":
    main()

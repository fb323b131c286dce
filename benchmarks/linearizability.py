"""How fast the frontier judges synthetic histories, beside Porcupine: `python benchmarks/linearizability.py`.

One cas-register; every client is always busy; 50 % reads, 25 % writes, 25 % cas; valid by construction (every op takes
effect at a random moment between its call and its return), or with one read changed. Each history is written to a file
and judged by a process of its own, which says:

    search s    CPU seconds of the search after compilation, median of three
    encoding s  CPU seconds from the columns of the file to the arrays of the search
    frontier    the largest frontier
    MiB         memory at its peak, over what the process held before it began to encode

Porcupine's seconds (GOMAXPROCS=1, Go 1.19, histories of the same kind) were measured once on two shared cores of the
same kind, not here; `>30` is 30 s without an answer. Ratios to them are as good as that.

A second table has histories with crashed ops, of which half took effect; a third how time grows with ops. `--quick`
leaves out most of all three.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from checkers import linearizable, models
from checkers.linearizable.encoding import events
from checkers.linearizable.ops import read_ops
from checkers.linearizable.search import Limits, Search
from checkers.linearizable.transitions import Stepper
from results.arrow import HISTORY_SCHEMA, array, read_parquet, write_parquet

RUNS: Final = 3
VALUES: Final = 5
CLIENTS: Final = 10
NEVER_WRITTEN: Final = 10**6

Case = tuple[int, int, int]
"""Clients, ops, values."""

PORCUPINE: Final[dict[Case, tuple[float | None, float | None]]] = {
    (5, 1_000, 5): (0.0033, 0.0090),
    (5, 10_000, 5): (0.083, 0.294),
    (5, 10_000, 1000): (0.097, 0.346),
    (5, 100_000, 5): (2.09, 12.0),
    (5, 100_000, 1000): (12.5, 27.0),
    (10, 1_000, 5): (0.0099, 0.207),
    (10, 10_000, 5): (0.372, 3.63),
    (10, 100_000, 5): (12.8, math.inf),
    (10, 100_000, 1000): (math.inf, math.inf),
    (20, 1_000, 5): (0.31, math.inf),
    (20, 10_000, 5): (18.2, math.inf),
    (20, 100_000, 5): (math.inf, math.inf),
    (40, 1_000, 5): (math.inf, None),
    (40, 10_000, 5): (math.inf, math.inf),
    (40, 10_000, 1000): (math.inf, None),
    (40, 100_000, 1000): (math.inf, None),
}
"""CPU seconds on valid histories and on bad ones; None was not measured."""

TIMEOUT_S: Final = 30.0
"""After which Porcupine was stopped."""

CRASHED: Final = ((1_000, 0.05), (3_000, 0.02), (10_000, 0.05))
SEEDS: Final = 10
GROWTH: Final = (10_000, 100_000, 1_000_000)


@dataclass
class Columns:
    """A history under construction: what each event is, its op's function and value as JSON, and its process."""

    type: list[str] = field(default_factory=list[str])
    f: list[str] = field(default_factory=list[str])
    value: list[str | None] = field(default_factory=list[str | None])
    process: list[int] = field(default_factory=list[int])

    def add(self, kind: str, process: int, f: str, value: str | None) -> None:
        """Append an event."""
        self.type.append(kind)
        self.process.append(process)
        self.f.append(f)
        self.value.append(value)

    def table(self) -> pa.Table:
        """As a table of a history."""
        rows = len(self.type)
        columns: dict[str, Any] = {
            "index": np.arange(rows),
            "time": np.arange(rows) * 1_000_000,
            "process": self.process,
            "type": self.type,
            "f": self.f,
            "value": self.value,
        }
        missing: list[None] = [None] * rows
        return pa.table(
            {name: array(columns.get(name, missing), HISTORY_SCHEMA.field(name).type) for name in HISTORY_SCHEMA.names},
            schema=HISTORY_SCHEMA,
        )


def history(clients: int, ops: int, values: int, *, seed: int, crashes: float = 0.0) -> Columns:
    """A valid history of `ops` ops by `clients` clients on a register that takes `values` different values."""
    rng = random.Random(seed)
    made = Columns()
    process = list(range(clients))
    register: int | None = None
    called: dict[int, tuple[str, Any]] = {}
    answered: dict[int, tuple[str, str, str | None]] = {}
    invoked = 0
    while invoked < ops or called or answered:
        client = rng.randrange(clients)
        if client in answered:
            made.add(answered[client][0], process[client], *answered[client][1:])
            if answered.pop(client)[0] == "info":
                process[client] += clients
        elif client in called:
            f, value = called.pop(client)
            crashed = crashes > 0 and rng.random() < crashes
            result = register if f == "read" else value
            if not (crashed and rng.random() < 0.5):
                register, result = _take_effect(f, value, register)
            text = None if crashed or result is None else json.dumps(result)
            answered[client] = ("info" if crashed else "ok", f, text)
        elif invoked < ops:
            called[client] = f, value = _drawn(rng, values)
            made.add("invoke", process[client], f, None if value is None else json.dumps(value))
            invoked += 1
    return made


def _drawn(rng: random.Random, values: int) -> tuple[str, Any]:
    kind = rng.random()
    if kind < 0.5:
        return "read", None
    if kind < 0.75:
        return "write", rng.randrange(values)
    return "cas", [rng.randrange(values), rng.randrange(values)]


def _take_effect(f: str, value: Any, register: int | None) -> tuple[int | None, Any]:
    """The register after an op, and the answer. A cas that does not match is answered False."""
    if f == "read":
        return register, register
    if f == "write":
        return value, value
    return (value[1], value) if register == value[0] else (register, False)


def _reads(made: Columns, since: float) -> Iterator[int]:
    """Places of the answers to reads after that part of the history."""
    return (
        at
        for at in range(int(len(made.type) * since), len(made.type))
        if made.f[at] == "read" and made.type[at] == "ok"
    )


def never_written(made: Columns) -> Columns:
    """The history with a read at 90 % that returns a value which nobody wrote."""
    changed = Columns(made.type, made.f, made.value.copy(), made.process)
    changed.value[next(_reads(made, 0.9))] = str(NEVER_WRITTEN)
    return changed


def stale(made: Columns, values: int) -> Columns | None:
    """The history with a read, as late as one is found, whose value was written but cannot have been there then.

    That it cannot is what the search says of the history up to there. Tried are two reads at each of some places.
    """
    changed = Columns(made.type, made.f, made.value.copy(), made.process)
    for part in (0.8, 0.4, 0.2, 0.1, 0.05, 0.02):
        for at, _ in zip(_reads(made, part), range(2), strict=False):
            for value in range(values):
                changed.value[at] = str(value)
                until = Columns(made.type[: at + 1], made.f[: at + 1], changed.value[: at + 1], made.process[: at + 1])
                if _judged(until.table(), 1)["answer"] == "violation":
                    return changed
            changed.value[at] = made.value[at]
    return None


def _judged(table: pa.Table, runs: int) -> dict[str, Any]:
    """Judge a table in this process. Arrow loads what it needs for columns of numbers beforehand."""
    model = models.model("cas-register")
    read_ops(table.slice(0, 0), model)
    held = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    began = time.thread_time()
    ops = read_ops(table, model)
    stepper = Stepper(model, ops.transitions, cells=Limits().cells)
    problem = events(ops, stepper.observer)
    encoded_s = time.thread_time() - began
    results = [Search(problem, stepper, Limits()).run() for _ in range(runs)]
    return {
        "answer": results[0].answer,
        "exact": results[0].exact,
        "search_s": statistics.median(result.seconds for result in results),
        "encoding_s": encoded_s,
        "frontier": results[0].peak,
        "mib": (_memory("VmHWM") - held) / 1024,
        "crashed": int(np.count_nonzero(ops.crashed & ~stepper.observer[ops.transition])),
    }


def _memory(name: str) -> int:
    """A figure of this process's memory, in KiB: VmRSS now, VmHWM at its peak since that was cleared."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def measured(*histories: Columns) -> list[dict[str, Any]]:
    """Judge histories one after the other, in a process of their own."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{number}.parquet" for number in range(len(histories))]
        for made, path in zip(histories, paths, strict=True):
            write_parquet(made.table(), path)
        command = [sys.executable, __file__, "--judge", *map(str, paths)]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def _say(*cells: object) -> None:
    sys.stdout.write("| " + " | ".join(str(cell) for cell in cells) + " |\n")
    sys.stdout.flush()


def _refuse(wrong: bool, what: str) -> None:
    if wrong:
        raise SystemExit(f"wrong: {what}")


def compared(cases: list[Case], seed: int) -> None:
    """Print the table beside Porcupine's figures, and the geometric mean of the ratios."""
    _say("clients", "ops", "values", "history", "search s", "encoding s", "frontier", "MiB", "Porcupine s", "ratio")
    _say(*["---"] * 10)
    ratios: list[float] = []
    for case in cases:
        clients, ops, values = case
        made = history(clients, ops, values, seed=seed)
        for bad, peer_s in zip((False, True), PORCUPINE[case], strict=True):
            (found,) = measured(never_written(made) if bad else made)
            _refuse(found["answer"] != ("violation" if bad else "linearizable"), f"{case}, bad={bad}: {found}")
            ratio = None if peer_s is None else min(peer_s, TIMEOUT_S) / found["search_s"]
            ratios += [] if ratio is None else [ratio]
            _say(
                clients,
                f"{ops:,}",
                f"{values:,}",
                "bad" if bad else "ok",
                f"{found['search_s']:.4f}",
                f"{found['encoding_s']:.3f}",
                found["frontier"],
                f"{found['mib']:.0f}",
                "" if peer_s is None else ">30" if peer_s > TIMEOUT_S else peer_s,
                "" if ratio is None else f"{'>' if peer_s and peer_s > TIMEOUT_S else ''}{ratio:,.0f}",
            )
    mean = statistics.geometric_mean(ratios)
    sys.stdout.write(f"\nGeometric mean of the ratios: {mean:,.0f}, or more where Porcupine had no answer.\n\n")


def crashed(cases: tuple[tuple[int, float], ...], seeds: int) -> None:
    """Print what crashed ops cost: valid, a value never written, and one that was there but cannot have been then."""
    _say("ops", "crashed", "history", "seeds", "search s, median", "worst", "mutators crashed", "exact prefix", "MiB")
    _say(*["---"] * 9)
    for ops, rate in cases:
        valid = [history(CLIENTS, ops, VALUES, seed=seed, crashes=rate) for seed in range(seeds)]
        kinds = {
            "ok": valid,
            "never written": [never_written(each) for each in valid],
            "stale": [each for each in (stale(each, VALUES) for each in valid) if each is not None],
        }
        for kind, histories in kinds.items():
            all_found = measured(*histories)
            expected = "linearizable" if kind == "ok" else "violation"
            _refuse(any(found["answer"] != expected for found in all_found), f"{ops} ops, {rate}, {kind}: {all_found}")
            seconds = [found["search_s"] for found in all_found]
            mutators = [found["crashed"] for found in all_found]
            _say(
                f"{ops:,}",
                f"{rate:.0%}",
                kind,
                len(all_found),
                f"{statistics.median(seconds):.3f}",
                f"{max(seconds):.3f}",
                f"{min(mutators)} to {max(mutators)}",
                "" if kind == "ok" else f"{sum(found['exact'] for found in all_found)} of {len(all_found)}",
                f"{max(found['mib'] for found in all_found):.0f}",
            )
    sys.stdout.write("\n")


def growth(sizes: tuple[int, ...], seed: int) -> None:
    """Print how time and memory grow with ops at fixed concurrency."""
    _say("ops", "search s", "encoding s", "MiB")
    _say(*["---"] * 4)
    seconds: list[float] = []
    for ops in sizes:
        (found,) = measured(history(CLIENTS, ops, VALUES, seed=seed))
        _refuse(found["answer"] != "linearizable", f"{ops} ops: {found}")
        seconds.append(found["search_s"])
        _say(f"{ops:,}", f"{found['search_s']:.4f}", f"{found['encoding_s']:.3f}", f"{found['mib']:.0f}")
    exponent = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    sys.stdout.write(f"\nThe search's time grows with the power {exponent:.2f} of ops ({CLIENTS} clients).\n\n")


def started() -> None:
    """Print how long a process takes from its start to its first verdict, where kernels are compiled already."""
    made = history(CLIENTS, 100, VALUES, seed=0)
    measured(made)
    walls: list[float] = []
    for _ in range(RUNS):
        began = time.monotonic()
        measured(made)
        walls.append(time.monotonic() - began)
    sys.stdout.write(f"From the start of a process to the end of its first checks: {min(walls):.2f} s (wall).\n")


def main() -> None:
    """Print the tables, as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small histories and few seeds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--judge", metavar="FILE", type=Path, nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    linearizable.warm_up()
    if arguments.judge:
        sys.stdout.write(json.dumps([_judged(read_parquet(path), RUNS) for path in arguments.judge]))
        return
    cases = [case for case in PORCUPINE if not arguments.quick or case[1] <= 10_000]
    compared(cases, arguments.seed)
    crashed(CRASHED[:2] if arguments.quick else CRASHED, 2 if arguments.quick else SEEDS)
    growth(GROWTH[:2] if arguments.quick else GROWTH, arguments.seed)
    started()


if __name__ == "__main__":
    main()

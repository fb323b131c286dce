"""What judging quorum progress costs: `python benchmarks/quorum_progress.py [--ops 100000] [--json]`.

One run of five nodes: clients ask every node in turn, 50 partitions split two nodes from three, the two are silent
meanwhile; there are as many rows of telemetry as ops. CPU seconds, medians of `--repeat` passes, for the whole
checker and for its parts:

    answers     the ops as arrays
    windows     windows and voter sets
    consensus   rules Q5 and Q6, which four checkers of telemetry judge
    the rest    rules Q1 to Q4 and Q7 to Q10, and the rows of the verdict

A second table has runs of several sizes with as many windows, and the power of ops with which the seconds grow.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from splitbrain.checkers.quorum.answers import answers
from splitbrain.checkers.quorum.checker import DECIDED, QuorumProgress
from splitbrain.checkers.quorum.leaders import consensus
from splitbrain.checkers.quorum.windows import windows
from splitbrain.results.arrow import HISTORY_SCHEMA, TELEMETRY_SCHEMA, array
from splitbrain.results.calls import ints
from splitbrain.results.faults import run_events
from splitbrain.results.history import HARNESS, NEMESIS

NODES: Final = ("n1", "n2", "n3", "n4", "n5")
FAULTS: Final = 50
CLIENTS: Final = 10
SECOND_NS: Final = 1_000_000_000
CYCLE_NS: Final = 20 * SECOND_NS
"""A partition and its heal; it lasts for the first half."""

CHANGE_NS: Final = SECOND_NS // 10
OPTIONS: Final[dict[str, Any]] = {"nodes": list(NODES), "recovery_bound_s": 4.0, "op_timeout_s": 1.0}
SHARES: Final = (1 / 8, 1 / 4, 1 / 2, 1)
NANOSECONDS: Final = 1e9


def history(ops: int) -> pa.Table:
    """A run of which every rule holds."""
    number = np.arange(ops)
    begun = number * (FAULTS * CYCLE_NS // ops)
    asked = number % len(NODES)
    within = begun % CYCLE_NS
    silent = (asked >= 3) & (within < CYCLE_NS // 2 + 2 * CHANGE_NS)
    process = number % CLIENTS
    events: list[tuple[Any, Any, Any, Any, Any]] = [
        (begun, process, np.full(ops, "invoke"), np.full(ops, None), asked),
        (begun + 1000, process, np.where(silent, "info", "ok"), np.full(ops, None), asked),
        _nemesis(),
    ]
    time_ns, processes, types, values, nodes = (np.concatenate(column) for column in zip(*events, strict=True))
    order = np.argsort(time_ns, kind="stable")
    named = np.array([*NODES, None], dtype=np.object_)[nodes[order]]
    faults = processes[order] == NEMESIS
    columns: dict[str, Any] = {
        "index": np.arange(len(order)),
        "time": time_ns[order],
        "process": processes[order],
        "type": types[order],
        "f": np.where(processes[order] == HARNESS, "phase", np.where(faults, "partition", "write")),
        "value": values[order],
        "node": named,
        "term": [None if fault else 1 for fault in faults.tolist()],
    }
    return _table(columns, HISTORY_SCHEMA, len(order))


def _nemesis() -> tuple[Any, ...]:
    sides = [[a, b] for a in NODES for b in NODES if (a in NODES[:3]) != (b in NODES[:3])]
    start = json.dumps({"fault": "partition", "action": "start", "target": "", "cut": sides, "down": []})
    stop = json.dumps({"fault": "partition", "action": "stop", "target": "", "cut": [], "down": []})
    begins = np.arange(FAULTS) * CYCLE_NS
    half = CYCLE_NS // 2
    times = np.stack([begins, begins + CHANGE_NS, begins + half, begins + half + CHANGE_NS], axis=1).ravel()
    times[0] = 1  # after the first op
    return (
        times,
        np.full(len(times), NEMESIS),
        np.tile(["invoke", "ok"], 2 * FAULTS),
        np.array([start, start, stop, stop] * FAULTS, dtype=np.object_),
        np.full(len(times), len(NODES)),
    )


def telemetry(rows: int) -> pa.Table:
    """Every node writes telemetry, and n1 leads."""
    number = np.arange(rows)
    at = number // len(NODES)
    node = number % len(NODES)
    columns: dict[str, Any] = {
        "time": number * (FAULTS * CYCLE_NS // rows),
        "node": np.array(NODES, dtype=np.object_)[node],
        "group": np.full(rows, "metadata", dtype=np.object_),
        "life": np.ones(rows),
        "event": np.where(at == 0, "role", "commit"),
        "term": np.ones(rows, dtype=np.int64),
        "role": np.where(node == 0, "leader", "follower"),
        "leader": np.full(rows, "n1", dtype=np.object_),
        "commit_index": at,
        "applied_index": at,
        "voters": [list(NODES)] * rows,
        "chain_hash": at.astype(str),
        "state_hash": at.astype(str),
        "last_index": [0 if first else None for first in (at == 0).tolist()],
    }
    return _table(columns, TELEMETRY_SCHEMA, rows)


def _table(columns: dict[str, Any], schema: pa.Schema, rows: int) -> pa.Table:
    untyped: Any = pa
    types: Any = schema
    filled = [
        array(list(columns[name]), types.field(name).type)
        if name in columns
        else untyped.nulls(rows, types.field(name).type)
        for name in schema.names
    ]
    return untyped.Table.from_arrays(filled, schema=schema)


def cpu_s(work: Callable[[], Any], repeat: int) -> float:
    """The median of CPU seconds."""
    taken: list[float] = []
    for _ in range(repeat):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return statistics.median(taken)


def measure(ops: int, repeat: int) -> dict[str, Any]:
    """A run with this number of ops and rows of telemetry: seconds of the checker and of its parts."""
    ran, said = history(ops), telemetry(ops)
    verdict = QuorumProgress().check(ran, said, OPTIONS)
    assert verdict.valid == "true", verdict.sentence
    found = {
        "whole": cpu_s(lambda: QuorumProgress().check(ran, said, OPTIONS), repeat),
        "answers": cpu_s(lambda: answers(ran, NODES, None, DECIDED), repeat),
        "windows": cpu_s(lambda: windows(run_events(ran), said, NODES), repeat),
        "consensus": cpu_s(lambda: list(consensus(said)), repeat),
    }
    rest = found["whole"] - found["answers"] - found["windows"] - found["consensus"]
    return {
        "ops": ops,
        "windows": len(verdict.figures["windows"]),
        "telemetry": said.num_rows,
        "run_s": int(ints(ran, "time").max()) / NANOSECONDS,
        "seconds": {name: round(seconds, 4) for name, seconds in {**found, "rest": rest}.items()},
    }


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """The power with which seconds grow with sizes."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", type=int, default=100_000, help="of the largest run; as many rows of telemetry")
    parser.add_argument("--repeat", type=int, default=3, help="number of passes; the result is their median")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    runs = [measure(int(chosen.ops * share), chosen.repeat) for share in SHARES]
    power = exponent([run["ops"] for run in runs], [run["seconds"]["whole"] for run in runs])
    if chosen.json:
        json.dump({"runs": runs, "exponent": round(power, 2)}, sys.stdout, indent=2)
        return
    parts = list(runs[0]["seconds"])
    print("| ops | windows | telemetry | " + " | ".join(f"{part} s" for part in parts) + " |")
    print("| ---: " * (3 + len(parts)) + "|")
    for run in runs:
        figures = " | ".join(f"{run['seconds'][part]:.3f}" for part in parts)
        print(f"| {run['ops']:,} | {run['windows']} | {run['telemetry']:,} | {figures} |")
    print(f"\nCPU seconds grow with the power {power:.2f} of ops.")


if __name__ == "__main__":
    main()

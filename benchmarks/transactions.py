"""What judging transactions costs, from columns and from EDN text: CPU seconds after compilation, and peak memory.

    python benchmarks/transactions.py [--large 1000000] [--huge 0]

Every row is a process of its own: it makes its history, judges a small one so that kernels are loaded, and then judges.
Growth is the exponent b of cost = a * n^b between a quarter of the transactions and all of them.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.transaction_histories import Shape, history
from splitbrain.checkers import kernels
from splitbrain.checkers.transactions import ListAppend, RwRegister
from splitbrain.results.arrow import read_parquet, write_parquet
from splitbrain.results.formats import read_table
from splitbrain.results.formats.export import pieces

WORKLOADS: dict[str, dict[str, Any]] = {
    "list-append": {},
    "rw-register": {"registers": True},
    "causal, 500": {"registers": True, "clients": 500, "keys": 1000, "writes": 100_000},
}
"""What clients do; the last is judged by causal consistency, with 500 clients that all write all keys."""


def measure(transactions: int, level: str, workload: str, source: str, folder: Path) -> dict[str, Any]:
    """Judge one history; its figures."""
    shape = WORKLOADS[workload]
    checker = RwRegister() if shape else ListAppend()
    options = {"consistency_models": ["causal"]} if "clients" in shape else {}
    kernels.use_compiled()
    checker.check(history(Shape(2000, level=level, **shape)), options)
    table = history(Shape(transactions, level=level, **shape))
    path = folder / ("history.edn" if source == "edn" else "history.parquet")
    if source == "edn":
        with path.open("w") as file:
            file.writelines(text for _, text in pieces(table, "edn"))
    elif source == "parquet":
        write_parquet(table, path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    if source != "columns":
        del table
        table = read_table(path) if source == "edn" else read_parquet(path)
    read = time.process_time() - began
    verdict = checker.check(table, options)
    return {
        "seconds": round(time.process_time() - began, 3),
        "reading": round(read, 3),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "made_mb": round(before / 1024),
        "valid": verdict.valid,
        "anomalies": list(verdict.anomalies),
        "edges": verdict.figures["edges"],
    }


def apart(transactions: int, level: str, workload: str, source: str) -> dict[str, Any]:
    """The same in a process of its own."""
    row = [str(transactions), level, workload, source]
    made = subprocess.run([sys.executable, __file__, "--row", *row], capture_output=True, check=True, text=True)
    return json.loads(made.stdout.splitlines()[-1])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", type=int, default=1_000_000)
    parser.add_argument("--huge", type=int, default=0)
    parser.add_argument("--row", nargs=4)
    chosen = parser.parse_args()
    if chosen.row:
        count, level, workload, source = chosen.row
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measure(int(count), level, workload, source, Path(folder))))
        return
    small, large = chosen.large // 10, chosen.large
    rows = [
        (small, "serial", "list-append", "columns"),
        (large // 4, "serial", "list-append", "columns"),
        (large, "serial", "list-append", "columns"),
        (large, "serial", "list-append", "parquet"),
        (small, "serial", "list-append", "edn"),
        (small, "snapshot", "list-append", "columns"),
        (small // 4, "none", "list-append", "columns"),
        (small, "none", "list-append", "columns"),
        (large // 4, "serial", "rw-register", "columns"),
        (large, "serial", "rw-register", "columns"),
        (large // 4, "serial", "causal, 500", "columns"),
        (large, "serial", "causal, 500", "columns"),
        *([(chosen.huge, "serial", "list-append", "columns")] if chosen.huge else []),
    ]
    print("transactions  database  workload     from      CPU s  reading  peak MB (history)  verdict  growth")
    costs: dict[tuple[str, str, str], tuple[int, float]] = {}
    for count, level, workload, source in rows:
        found = apart(count, level, workload, source)
        before = costs.get((level, workload, source))
        costs[(level, workload, source)] = count, found["seconds"]
        growth = "" if before is None else f"{math.log(found['seconds'] / before[1]) / math.log(count / before[0]):.2f}"
        print(
            f"{count:12,}  {level:8}  {workload}  {source:8}  {found['seconds']:5.2f}  {found['reading']:7.2f}  "
            f"{found['peak_mb']:7,} ({found['made_mb']:7,})  {found['valid']:7}  {growth:5}  "
            f"{len(found['anomalies'])} types of anomalies"
        )


if __name__ == "__main__":
    main()

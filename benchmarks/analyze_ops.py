"""`splitbrain analyze` by number of ops: in one run, and over many runs of one size.

    python benchmarks/analyze_ops.py [--one 1000000,3000000,10000000] [--many 10,30,100] [--each 1000000]
                                     [--engine inline] [--master 'local[2]'] [--json]

The histories are those of `long_history.py`, which takes seconds to make one of millions of ops: five clients on one
cas-register, valid. A store has one run of so many ops (`--one`), or so many runs (`--many`) of `--each` ops: copies
under other names, which are judged one by one all the same. Judged cold, without pages. CPU is that of all processes,
memory the largest sum of what they held at one time (`analyze_table.py`). The exponent is the slope of a straight line
through (log ops, log CPU seconds), by least squares.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.analyze_scale import cold, exponent, marginal
from benchmarks.analyze_table import Spent, analyzed
from benchmarks.long_history import long_history
from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.results.arrow import write_parquet
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store

SPEC: Final = CheckerSpec("linearizable", {"model": "cas-register"})


def stored(root: Path, ops: int) -> RunDir:
    """A finished run of so many ops."""
    run = Store(root).create("long", ops, {"checkers": [SPEC]}, 10**18)
    write_parquet(long_history(ops, bad=False, folder=root), run.history_path)
    run.release()
    return RunDir(run.path)


def main() -> None:
    """Make the stores, measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--one", default="1000000,3000000,10000000", help="ops of the one run, comma-separated")
    parser.add_argument("--many", default="10,30,100", help="how many runs, comma-separated")
    parser.add_argument("--each", type=int, default=1_000_000, help="ops of each of them")
    parser.add_argument("--engine", choices=["auto", "inline", "spark"], default="inline")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    given = ["--engine", asked.engine, *(["--master", asked.master] if asked.engine == "spark" else [])]
    plan = [(1, int(ops)) for ops in asked.one.split(",") if ops]
    plan += [(int(runs), asked.each) for runs in asked.many.split(",") if runs]
    found: list[tuple[int, int, Spent]] = []
    for runs, ops in plan:
        with tempfile.TemporaryDirectory(prefix="splitbrain-ops-") as name:
            folder = Path(name)
            (folder / "made").mkdir()
            copies = cold([stored(folder / "made", ops)], folder / "store", runs)
            spent = analyzed(f"{runs} x {ops}", folder / "store", *given)
            outcomes = {kept.outcome if (kept := RunDir(copy).read_verdicts()) else "none" for copy in copies}
            if outcomes != {"pass"}:
                raise SystemExit(f"{runs} runs of {ops} ops: {outcomes}, and all of them are valid")
            found.append((runs, ops, spent))
    _print(found, as_json=asked.json)


def _print(found: list[tuple[int, int, Spent]], *, as_json: bool) -> None:
    exponents: dict[str, Any] = {}
    many = [{"runs": runs, "cpu_s": spent.cpu_s} for runs, _, spent in found if runs > 1]
    for what, some in (("one run", [each for each in found if each[0] == 1]), ("many", [x for x in found if x[0] > 1])):
        if len(some) > 1:
            exponents[what] = round(exponent([runs * ops for runs, ops, _ in some], [s.cpu_s for *_, s in some]), 2)
    if as_json:
        print(json.dumps(msgspec.to_builtins({"rows": found, "exponents": exponents}), indent=2))
        return
    print(f"{os.cpu_count()} cores, load of the machine {os.getloadavg()[0]:.0f} at the end\n")
    print("| runs | ops each | ops | seconds | CPU s | us CPU an op | MiB |\n| " + "---: | " * 7)
    for runs, ops, spent in found:
        us = spent.cpu_s / (runs * ops) * 1e6
        print(
            f"| {runs:,} | {ops:,} | {runs * ops:,} | {spent.seconds:.0f} | {spent.cpu_s:.1f} | {us:.2f} | "
            f"{spent.mib:,.0f} |"
        )
    for what, power in exponents.items():
        print(f"\n{what}: CPU seconds grow with the power {power} of ops")
    if len(many) > 2:
        print(f"\nmany: one more run costs {marginal(many)}")


if __name__ == "__main__":
    main()

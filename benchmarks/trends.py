"""Change points of nights: none in nights of the same code, one within one night of an election that is 20 % slower.

Nights are simulated by `splitbrain nightly` as a library, one after the other into one store: first some with an
election timeout of 500 to 1,000 ms (`election-ms=500`), then one with 600 to 1,200 ms. Their cells are the same.

    python benchmarks/trends.py                   # nights of some runs for each cell: CPU seconds, not wall time, count
    python benchmarks/trends.py --budget 3m       # nights of three minutes

Exits 1 if a night of the same code has a change point, or the slower election gives none within one night.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from splitbrain.harness.campaigns.nightly import night as nightly
from splitbrain.harness.campaigns.nightly.matrix import load_matrix
from splitbrain.harness.campaigns.nightly.night import NightPlan, run_night
from splitbrain.harness.campaigns.nightly.tasks import simulate
from splitbrain.results import quantities, runfigures
from splitbrain.results.baseline import Baseline
from splitbrain.results.nightmarkdown import change_line
from splitbrain.results.nights import Night
from splitbrain.results.nighttables import read_nights

FIGURE = "recovery/kill/start/majority"

MATRIX = """
budget = "{budget}"
{runs}
shrink = false
replays = 0

[axes]
workload = "register"
nemesis = ["kill", "kill,partition"]

[options]
nodes = "3"
time-limit = 30
rate = 15
interval = 3
settings = "election-ms={election}"

[seeds]
fixed = [1, 2, 3, 4]
"""


def main() -> int:
    """Run the nights, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nights", type=int, default=10, help="nights of the same code")
    parser.add_argument("--runs", type=int, default=24, help="runs of each cell in a night")
    parser.add_argument("--budget", help="instead: how long a night takes, such as 3m")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--store", type=Path, help="where the nights stay; else they are removed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, _lasting_workers():
        return _measure(options, Path(folder) if options.store is None else options.store)


@contextlib.contextmanager
def _lasting_workers() -> Generator[None]:
    """All nights have the same processes: to start them anew for each takes longer than a short night."""
    made: list[Any] = []
    stops: list[Callable[[], None]] = []
    plain: Any = nightly.Workers

    def lasting(work: Any, *given: Any, **more: Any) -> Any:
        if work is not simulate:
            return plain(work, *given, **more)
        if not made:
            made.append(plain(work, *given, **more).__enter__())
            stops.append(made[0].stop)
            made[0].stop = lambda: None
            made[0].__enter__ = lambda: made[0]
        return made[0]

    nightly.Workers = lasting  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        nightly.Workers = plain
        for stop in stops:
            stop()


def _measure(options: argparse.Namespace, folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    false = 0
    for number in range(options.nights):
        night = _night(options, folder, election=500, seed=number)
        false += bool(night.trends.changes)
        _print(folder, f"same code, night {number + 1}", night)
    night = _night(options, folder, election=600, seed=options.nights)
    _print(folder, "election 20 % slower", night)
    found = any(change.figure.startswith("recovery/kill/start") for change in night.trends.changes)
    verdict = "found within one night" if found else "NOT FOUND"
    print(f"nights of the same code with a change point: {false} of {options.nights}; the slower election: {verdict}")
    return 0 if found and not false else 1


def _night(options: argparse.Namespace, folder: Path, *, election: int, seed: int) -> Night:
    path = folder / "nightly.toml"
    runs = "" if options.budget else f"runs = {options.runs}"
    path.write_text(MATRIX.format(budget=options.budget or "8h", runs=runs, election=election))
    matrix = load_matrix(path)
    plan = NightPlan(
        matrix=matrix,
        store=folder / "store",
        baseline=Baseline(),
        jobs=options.jobs,
        budget_s=matrix.budget_s,
        seed=seed,
    )
    night, _ = run_night(plan)
    return night


def _print(folder: Path, what: str, night: Night) -> None:
    store = folder / "store"
    [table] = read_nights([store / runfigures.FOLDER / f"{night.name}.parquet"])
    figure = next(each for each in table.figures if each.name == FIGURE)
    values = [value for cell in table.cells for value in table.series(figure, cell).values.tolist()]
    size = sum(
        os.stat(os.path.join(at, name)).st_blocks * 512
        for at in (store / "nights" / night.name,)
        for name in os.listdir(at)
    )
    size += (store / runfigures.FOLDER / f"{night.name}.parquet").stat().st_size
    cpu_s = sum(cell.seconds for cell in night.cells)
    print(
        f"{what}: {table.runs} runs, {cpu_s:.0f} CPU s, {night.trends.compared} comparisons, a majority answers "
        f"{statistics.median(values):.3f} s after a kill (median), {len(night.trends.changes)} changes, "
        f"{quantities.shown(size)} on disk",
        flush=True,
    )
    for change in night.trends.changes:
        print(f"    {change_line(change)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

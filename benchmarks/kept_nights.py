"""What nights keep on the disk, and that every violation of thirty nights is replayable after `splitbrain prune`.

Each night simulates two cells, one of them with a bug switched on (`M23`), by the procedure of `splitbrain nightly`,
but in this process: starting workers is not what is measured. Beside it a test that passes is run into the store, as
another job might do. After the last night `splitbrain prune --keep 0` removes all that may go. Then each violation is
run again: by the options of its stored run, or by its cell and seed where the night did not store it. The history must
be the same to the byte where it was stored, the leading signature everywhere.

    python benchmarks/kept_nights.py [--nights 30] [--runs 3]

Exits 1 if a violation is not replayable.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from click.testing import CliRunner

from splitbrain.harness.backends.sim import SimBackend
from splitbrain.harness.campaigns.compose import compose
from splitbrain.harness.campaigns.hunting.trial import carry_out
from splitbrain.harness.campaigns.nightly import night as nightly
from splitbrain.harness.campaigns.nightly.cells import Cell, options_of_cell
from splitbrain.harness.campaigns.nightly.matrix import Matrix, load_matrix
from splitbrain.harness.campaigns.nightly.night import NightPlan, run_night
from splitbrain.harness.campaigns.record import run_and_judge
from splitbrain.harness.campaigns.replaying import original_of
from splitbrain.harness.campaigns.workers import Report
from splitbrain.harness.cli.prune import command as prune
from splitbrain.results import nights, pruning, runfigures
from splitbrain.results.baseline import Baseline
from splitbrain.results.nights import Night, Violation
from splitbrain.results.store import Store

MATRIX = """
budget = "8h"
runs = {runs}
replays = 1
shrink = false
[axes]
workload = "register"
nemesis = "partition-leader"
bug = ["M23", "none"]
[options]
nodes = "3"
rate = 20
time-limit = 3
interval = 1
"""


class Kept(msgspec.Struct, frozen=True):
    """What was kept.

    Attributes:
        runs: of all nights.
        violations: of these; `stored` have a run in the store.
        not_replayable: cell and seed of those that did not come up again in the same way.
        night_bytes: what the files of nights take, tables included; run_bytes: what stored violations take.
        before_bytes, after_bytes: the store before and after the removal.
        removed: how many runs it took away.
    """

    runs: int
    violations: int
    stored: int
    not_replayable: list[str]
    night_bytes: int
    run_bytes: int
    before_bytes: int
    after_bytes: int
    removed: int


class InProcess:
    """Workers of a night that do each task at once, in this process."""

    def __init__(self, work: Callable[[Any], Any], jobs: int, **_: Any) -> None:
        self.work, self.jobs = work, jobs
        self.tasks: dict[int, Any] = {}

    def __enter__(self) -> InProcess:
        """Nothing is started."""
        return self

    def stop(self) -> None:
        """Nothing has to be stopped."""

    @property
    def free(self) -> int:
        """How many tasks can be given now."""
        return self.jobs - len(self.tasks)

    def give(self, task: Any) -> None:
        """Take a task."""
        self.tasks[len(self.tasks)] = task

    def wait(self, _: float) -> list[Report[Any, Any]]:
        """Do what was given."""
        found = [Report(task, self.work(task), None, 0.0) for task in self.tasks.values()]
        self.tasks.clear()
        return found


def main() -> int:
    """Run the nights, and print what they keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--runs", type=int, default=3, help="runs of each of the two cells in a night")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = keep(Path(folder), options.nights, options.runs)
    print(
        f"{options.nights} nights, {found.runs} runs, {found.violations} violations, {found.stored} of them stored\n"
        f"files of nights: {found.night_bytes / options.nights / 1000:.0f} kB a night, "
        f"{found.night_bytes / found.runs / 1000:.1f} kB a run\n"
        f"a stored violation: {found.run_bytes / max(1, found.stored) / 1000:.0f} kB\n"
        f"the store: {found.before_bytes / 1e6:.1f} MB; after prune {found.after_bytes / 1e6:.1f} MB "
        f"({found.removed} runs removed)\n"
        f"not replayable: {', '.join(found.not_replayable) or 'none'}"
    )
    return 1 if found.not_replayable else 0


def keep(folder: Path, count: int, runs: int) -> Kept:
    """Run nights into a store below a folder, remove what may go, and replay what failed."""
    (folder / "night.toml").write_text(MATRIX.format(runs=runs))
    matrix, store = load_matrix(folder / "night.toml"), folder / "store"
    workers = nightly.Workers
    nightly.Workers = InProcess  # type: ignore[assignment, misc]
    try:
        documents = [_night(matrix, store, number) for number in range(count)]
    finally:
        nightly.Workers = workers
    before = pruning.size_bytes(store)
    stored = len(Store(store).runs())
    done = CliRunner().invoke(prune, ["--store", str(store), "--keep", "0"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    failed = [(night, each) for night in documents for each in night.violations]
    kept = {each.run for _, each in failed if each.run is not None}
    return Kept(
        runs=sum(sum(night.outcomes.values()) for night in documents),
        violations=len(failed),
        stored=len(kept),
        not_replayable=list(_not_replayable(matrix, store, [each for _, each in failed])),
        night_bytes=sum(pruning.size_bytes(store / name) for name in (nights.FOLDER, runfigures.FOLDER)),
        run_bytes=sum(pruning.size_bytes(Path(run)) for run in kept),
        before_bytes=before,
        after_bytes=pruning.size_bytes(store),
        removed=stored - len(Store(store).runs()),
    )


def _night(matrix: Matrix, store: Path, number: int) -> Night:
    passing = options_of_cell(Cell("register", "none"), {"nodes": "3", "rate": 20.0, "time_limit": 2.0}, number)
    run_and_judge(compose(passing), SimBackend(), store)
    plan = NightPlan(matrix=matrix, store=store, baseline=Baseline(), jobs=1, budget_s=matrix.budget_s, seed=number)
    return run_night(plan)[0]


def _not_replayable(matrix: Matrix, store: Path, failed: list[Violation]) -> Iterator[str]:
    cells = {cell.name: cell for cell in matrix.cells}
    for each in failed:
        if each.run is None:
            again = carry_out(matrix.options(cells[each.cell], each.seed))
            same = True
        else:
            original = original_of(each.run, store)
            again = carry_out(original.options)
            same = again.history_hash == original.history
        if not same or [str(found) for found in again.signatures][:1] != list(each.signatures[:1]):
            yield f"{each.cell} seed {each.seed}"


if __name__ == "__main__":
    sys.exit(main())

"""`splitbrain analyze` on a store of which nothing, or little, has changed since it was judged.

    python benchmarks/analyze_again.py [--runs 1000] [--different 24] [--engine auto] [--seconds 5] [--rate 40]
                                       [--jobs N] [--json]

The store has runs of the nightly matrix of `analyze_scale.py`. So many of them are simulated (`--different`), and
copied until there are `--runs`: each copy is a run of its own, with siblings of the same test. Then the command is run
on the store: with nothing judged, with nothing changed, with one run changed, with a page gone, and with --again.

CPU seconds are those of all processes of the command: on a busy machine they say more than seconds do.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.analyze_scale import COMMAND, JUDGED, Watch, fill
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store

HOME: Final = Path(__file__).resolve().parent.parent
_SUM: Final = re.compile(r"^(\d+) runs? judged(?:, (\d+) unchanged since .*)?$", re.MULTILINE)


class Pass(msgspec.Struct, frozen=True):
    """One run of the command.

    Attributes:
        what: what had changed before.
        judged, unchanged: numbers of runs, as the command says.
        pages: pages that were written.
        seconds: from its start to its end.
        cpu_s: CPU seconds of all its processes.
    """

    what: str
    judged: int
    unchanged: int
    pages: int
    seconds: float
    cpu_s: float


def copied(runs: Sequence[RunDir], root: Path, count: int) -> list[RunDir]:
    """So many runs in a store, each a copy of one of these; nothing that was found out about them is copied.

    The files are links: nothing writes into a file of a store, each is written aside and renamed.
    """
    ignored = shutil.ignore_patterns(*JUDGED)
    found: list[RunDir] = []
    for number in range(count):
        run = runs[number % len(runs)]
        target = root / run.path.parent.name / f"{run.path.name}-{number // len(runs)}"
        shutil.copytree(run.path, target, copy_function=os.link, ignore=ignored)
        found.append(RunDir(target))
    return found


def analyze(what: str, root: Path, *given: str) -> Pass:
    """Run the command on a store; it ends with the code of any outcome."""
    environment = {**os.environ, "PYTHONPATH": str(HOME)}
    command = [sys.executable, "-c", COMMAND, "analyze", "--pages", "all", "--store", str(root), *given]
    before, spent_s, began_s = _pages(root), _spent_s(), time.perf_counter()
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, text=True, env=environment, cwd=HOME)
        watch = Watch(process)
        code = process.wait()
        seconds = time.perf_counter() - began_s
        watch.join()
        said.seek(0)
        found = _SUM.search(text := said.read())
    if code not in (0, 1, 2) or found is None:
        raise SystemExit(f"splitbrain analyze ended with {code}: {text[-2000:]}")
    pages = sum(before.get(path) != changed for path, changed in _pages(root).items())
    cpu_s = max(watch.cpu_s, _spent_s() - spent_s)
    return Pass(what, int(found[1]), int(found[2] or 0), pages, seconds, cpu_s)


def _spent_s() -> float:
    """CPU seconds of the processes that this one waited for, and of those for which they did.

    The watch looks only a few times a second, and so misses the end of a short command; but no process waits for
    Spark's workers.
    """
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _pages(root: Path) -> Mapping[Path, int]:
    """When each page of a store was written."""
    return {path: path.stat().st_mtime_ns for path in root.glob("test=*/run=*/report.html")}


def measure(runs: Sequence[RunDir], root: Path, engine: str) -> list[Pass]:
    """All passes, in the order in which they are printed."""
    last = runs[-1]

    def change() -> None:
        last.amend_test(changed_by="a benchmark")

    def lose() -> None:
        (last.path / "report.html").unlink()

    steps: list[tuple[str, Callable[[], object], list[str]]] = [
        ("nothing judged", lambda: None, []),
        ("nothing changed", lambda: None, []),
        ("nothing changed, once more", lambda: None, []),
        ("one run changed", change, []),
        ("one page gone", lose, []),
        ("--again", lambda: None, ["--again"]),
    ]
    found: list[Pass] = []
    for what, prepare, given in steps:
        prepare()
        found.append(analyze(what, root, "--engine", engine, *given))
        print(found[-1], file=sys.stderr)
    return found


def main() -> None:
    """Make the store, measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000, help="size of the store")
    parser.add_argument("--different", type=int, default=24, help="number of runs that are simulated")
    parser.add_argument("--engine", choices=["auto", "inline", "spark"], default="auto")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long faults and load of a run last")
    parser.add_argument("--rate", type=float, default=40.0, help="ops a second of a run")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes that make runs")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="splitbrain-again-") as folder:
        different = fill(Path(folder) / "different", chosen.different, chosen.jobs, chosen.seconds, chosen.rate)
        root = Path(folder) / "store"
        runs = copied(different, root, chosen.runs)
        assert len(Store(root).runs()) == chosen.runs
        size = sum(path.stat().st_size for run in runs for path in run.path.rglob("*") if path.is_file())
        passes = measure(runs, root, chosen.engine)
    found: dict[str, Any] = {
        "machine": f"{os.cpu_count()} x {platform.machine()}, Python {platform.python_version()}",
        "load": [round(load, 2) for load in os.getloadavg()],
        "mib": round(size / (1 << 20), 1),
        "passes": msgspec.to_builtins(passes),
    }
    if chosen.json:
        json.dump(found, sys.stdout, indent=2)
        print()
        return
    print(
        f"{found['machine']}; load of the machine {found['load'][0]} at the end; {found['mib']} MiB in {len(runs)} runs"
    )
    print("| before | judged | unchanged | pages written | seconds | CPU seconds |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for each in passes:
        print(
            f"| {each.what} | {each.judged:,} | {each.unchanged:,} | {each.pages:,} | {each.seconds:.2f} | "
            f"{each.cpu_s:.2f} |"
        )


if __name__ == "__main__":
    main()

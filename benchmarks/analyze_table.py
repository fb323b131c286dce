"""What `splitbrain analyze` costs, in one table: small runs, a store of which nothing changed, a store with hot keys.

    python benchmarks/analyze_table.py [--runs 250,500,1000] [--spark-runs 250,500,1000] [--distinct 100] [--again 1000]
                                       [--hot-ops 1500000] [--hot-passes 1] [--store DIR] [--master 'local[2]'] [--json]

*Small runs* are those of `analyze_scale.py`, `--distinct` of them simulated and the others copies under other names,
judged cold without pages: CPU seconds of each size, of one more run, and the exponent of the marginal cost. Verdicts
must be those that were found inline, or the benchmark fails. *Nothing changed* is the store of the last size, inline,
judged once more. The *hot store* has one run of `--hot-ops` ops on two keys, both under way at the same time, and 30
small runs. It is judged three times: by the library in one process, run after run, verdicts and figures kept
(`splitbrain.checkers.engine.judge_each`: what judging itself takes), by the command as it is, and by the command with
Spark; and there is an empty job of Spark, for what is to be taken off. With `--hot-passes` all four are done so many
times in turns, and ratios are those of the sums. Modules are compiled before, as those of an installed command are.
The goals are at most 0.05 CPU seconds for one more run, an exponent of 1.00 within 0.05, 3 CPU seconds for nothing
changed, and ratios of 1.3.

CPU is that of all processes, of which the kernel is asked a few times a second. Memory is the largest sum of what all
processes but Java's held at one time, where a page that several share counts once (PSS); Java's is stated apart.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.analyze_scale import COMMAND, Asked, cold, fill, measure
from benchmarks.hot_key import history
from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.results.arrow import write_parquet
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store

HOME: Final = Path(__file__).resolve().parent.parent
SMALL_RUNS: Final = 30
LOOK_S: Final = 0.2

LIBRARY: Final = """
import sys
from pathlib import Path
from splitbrain.checkers import engine
from splitbrain.harness.campaigns.judging import keep_verdicts
from splitbrain.results.figures import write_figures
from splitbrain.results.loaded import load
from splitbrain.results.store import Store
for run in Store(Path(sys.argv[1])).runs():
    loaded = load(run)
    specs = engine.specs_of(loaded.document, str(run.path))
    verdicts = engine.judge_each(loaded.history, specs, loaded.telemetry)
    write_figures(loaded, keep_verdicts(run, loaded.document, verdicts, "inline"))
"""

EMPTY: Final = """
import sys
from splitbrain.checkers.spark.session import session
# The code that judges is no part of an empty job: our own daemon would load it.
with session(sys.argv[1], options={"spark.python.daemon.module": "pyspark.daemon"}) as spark:
    rows = spark.session.range(0, 2, 1, 2)
    assert len(rows.mapInArrow(lambda batches: batches, "id long").collect()) == 2
"""


class Spent(msgspec.Struct, frozen=True):
    """What a command took: seconds, CPU seconds, and MiB of all its processes but Java's, and of Java's."""

    what: str
    seconds: float
    cpu_s: float
    mib: float
    java_mib: float


class Watch(threading.Thread):
    """Looks at a process and its descendants until it ends."""

    def __init__(self, process: subprocess.Popen[Any]) -> None:
        super().__init__(daemon=True)
        self.mib = self.java_mib = 0.0
        self._process = process
        self._cpu_s: dict[int, float] = {}
        self.start()

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all processes that were seen."""
        return sum(self._cpu_s.values())

    def run(self) -> None:
        """Watch until the process ends."""
        while self._process.poll() is None:
            self._look()
            time.sleep(LOOK_S)

    def _look(self) -> None:
        parents: dict[int, int] = {}
        known: dict[int, tuple[str, float]] = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                name, _, rest = path.read_text().partition("(")[2].rpartition(")")
            except OSError:
                continue
            fields, pid = rest.split(), int(path.parent.name)
            parents[pid] = int(fields[1])
            known[pid] = (name, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))
        ours = {self._process.pid}
        while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
            ours |= more
        held = {True: 0.0, False: 0.0}
        for pid in ours & known.keys():
            name, self._cpu_s[pid] = known[pid]
            held[name == "java"] += _pss_mib(pid)
        self.mib, self.java_mib = max(self.mib, held[False]), max(self.java_mib, held[True])


def _pss_mib(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it is gone
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)


def spent(what: str, *words: str) -> Spent:
    """What a Python command takes; it ends with the code of any outcome."""
    before, began_s = _waited_s(), time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(HOME)}
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen([sys.executable, *words], stdout=said, stderr=said, cwd=HOME, env=environment)
        watch = Watch(process)
        code = process.wait()
        seconds = time.perf_counter() - began_s
        watch.join()
        said.seek(0)
        if code not in (0, 1, 2):
            raise SystemExit(f"{what} ended with {code}: {said.read()[-2000:]}")
    # Who is waited for is counted to the end; no process waits for Spark's workers.
    found = Spent(what, round(seconds, 1), round(max(watch.cpu_s, _waited_s() - before), 2), watch.mib, watch.java_mib)
    print(found, file=sys.stderr)
    return found


def _waited_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def analyzed(what: str, root: Path, *given: str) -> Spent:
    """What the command takes on a store, without pages."""
    return spent(what, "-c", COMMAND, "analyze", "--pages", "none", "--store", str(root), *given)


# --- the hot store ---------------------------------------------------------------------------------------------------


def hot_run(root: Path, ops: int) -> RunDir:
    """A run with two keys of half of the ops each; both are under way all the time, with 20 clients each."""
    tables = [history(ops // 2, clients=20, burst=500, bad=False, seed=seed) for seed in (1, 2)]
    both: Any = pa.concat_tables([_of_key(table, number) for number, table in enumerate(tables)]).sort_by("time")
    both = both.set_column(0, "index", pa.array(range(both.num_rows), pa.int64()))
    run = Store(root).create("hot", 1, {"checkers": [CheckerSpec("linearizable", {"model": "cas-register"})]}, 10**18)
    write_parquet(both, run.history_path)
    run.release()
    return RunDir(run.path)


def _of_key(table: Any, number: int) -> Any:
    import pyarrow.compute as pc

    names = table.schema.names
    process = pc.add(table["process"], pa.scalar(20 * number, pa.int32()))
    time_ns = pc.add(table["time"], pa.scalar(number * 5_000, pa.int64()))
    key = pa.array([f"hot{number}"] * table.num_rows, pa.string())
    for name, column in (("process", process), ("time", time_ns), ("key", key)):
        table = table.set_column(names.index(name), table.schema.field(name), column)
    return table


def hot_store(runs: Sequence[RunDir], folder: Path, ops: int, passes: int, master: str) -> list[list[Spent]]:
    """What each pass over the hot store takes: library, command, empty job, command with Spark."""
    template = hot_run(folder / "hot", ops)
    return [_hot_pass(runs, template, folder / f"pass{number}", master) for number in range(passes)]


def _hot_pass(runs: Sequence[RunDir], template: RunDir, folder: Path, master: str) -> list[Spent]:
    def again(name: str) -> Path:
        root = folder / name
        cold(runs, root, SMALL_RUNS)
        cold([template], root, 1)
        return root

    found = [
        spent("library, one process", "-c", LIBRARY, str(again("library"))),
        analyzed("analyze", again("default")),
        spent("an empty job of Spark", "-c", EMPTY, master),
        analyzed("analyze with Spark", again("spark"), "--engine", "spark", "--master", master),
    ]
    alike = [_verdict(folder / name / template.path.parent.name / template.path.name) for name in ("default", "spark")]
    if alike[0] != alike[1]:
        raise SystemExit(f"the engines do not agree on the hot run: {alike}")
    return found


def _verdict(path: Path) -> list[tuple[Any, ...]]:
    found = RunDir(path).read_verdicts()
    assert found is not None
    return [(each["checker"], each["valid"]) for each in found.verdicts]


def compile_modules() -> None:
    """Compile what is in this checkout, even where Python is not to do so itself (PYTHONDONTWRITEBYTECODE)."""
    for room in ("checkers", "harness", "nemesis", "results", "splitbrain", "workloads"):
        compileall.compile_dir(HOME / room, quiet=2)


# --- the table -------------------------------------------------------------------------------------------------------


def main() -> None:
    """Make the stores, measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", default="250,500,1000", help="sizes of the store without Spark")
    parser.add_argument("--spark-runs", default="250,500,1000", help='the same with Spark; "" for none')
    parser.add_argument("--distinct", type=int, default=100, help="how many runs are simulated")
    parser.add_argument("--again", type=int, default=1000, help="runs of the store of which nothing has changed")
    parser.add_argument("--hot-ops", type=int, default=1_500_000, help="ops of the hot run; 0: no hot store")
    parser.add_argument("--hot-passes", type=int, default=1, help="passes over the hot store")
    parser.add_argument("--store", type=Path, default=None, help="keep the simulated runs here, and use those there")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    compile_modules()
    with tempfile.TemporaryDirectory(prefix="splitbrain-table-") as name:
        folder = Path(name)
        root: Path = asked.store.absolute() if asked.store is not None else folder / "simulated"
        runs = fill(root, asked.distinct, os.cpu_count() or 1, 5.0, 40.0)
        small: dict[str, Any] = {}
        work = root.parent if asked.store is not None else folder  # files are linked: on the same file system
        for engine, sizes in (("inline", asked.runs), ("spark", asked.spark_runs)):
            counts = sorted(int(size) for size in sizes.split(",") if size)
            if counts:
                small[engine] = measure(runs, counts, Asked([engine], asked.master, "none", 1), root)
        stores = Path(tempfile.mkdtemp(prefix="splitbrain-table-", dir=work))
        try:
            again: list[Spent] = []
            if asked.again:
                cold(runs, stores / "again", asked.again)
                before = analyzed("nothing judged", stores / "again", "--engine", "inline")
                again = [before, analyzed("nothing changed", stores / "again")]
            passes = asked.hot_passes if asked.hot_ops else 0
            hot = hot_store(runs, stores, asked.hot_ops, passes, asked.master) if passes else []
        finally:
            shutil.rmtree(stores)
    load = round(os.getloadavg()[0])
    if asked.json:
        found = {"load": load, "small": small, "again": again, "hot": hot}
        print(json.dumps(msgspec.to_builtins(found), indent=2))
        return
    print(f"{os.cpu_count()} cores, load of the machine {load} at the end\n")
    _print(small, again, hot, asked.again)


def _print(small: dict[str, Any], again: Sequence[Spent], hot: Sequence[Sequence[Spent]], runs: int) -> None:
    print("| small runs | runs | ops | CPU s | ms a run |\n| --- | ---: | ---: | ---: | ---: |")
    for engine, of_engine in small.items():
        for row in of_engine["sizes"]:
            each_ms = row["cpu_s"] / row["runs"] * 1000
            print(f"| {engine} | {row['runs']:,} | {row['ops']:,} | {row['cpu_s']:.1f} | {each_ms:.0f} |")
    for engine, of_engine in small.items():
        for slopes in of_engine["exponents"].values():
            print(f"\n{engine}: one more run costs {slopes['marginal']}")
    if again:
        print(f"\n| {runs:,} runs | CPU s | seconds | MiB |\n| --- | ---: | ---: | ---: |")
        for each in again:
            print(f"| {each.what} | {each.cpu_s:.2f} | {each.seconds:.1f} | {each.mib:.0f} |")
    if hot:
        _print_hot(hot)


def _print_hot(hot: Sequence[Sequence[Spent]]) -> None:
    print("\n| hot store | CPU s | seconds | MiB | MiB of Java |\n| --- | ---: | ---: | ---: | ---: |")
    for each in (row for some in zip(*hot, strict=True) for row in some):
        print(f"| {each.what} | {each.cpu_s:.1f} | {each.seconds:.1f} | {each.mib:.0f} | {each.java_mib:.0f} |")
    library, default, empty, spark = (sum(each.cpu_s for each in some) for some in zip(*hot, strict=True))
    library_mib, default_mib = (max(one[place].mib for one in hot) for place in (0, 1))
    print(f"\nanalyze: {default / library:.2f} times the CPU of the library, ", end="")
    print(f"{default_mib / library_mib:.2f} times its memory; ", end="")
    print(f"with Spark, beyond an empty job: {(spark - empty) / default:.2f} times that of analyze")


if __name__ == "__main__":
    main()

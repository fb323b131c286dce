"""`splitbrain analyze` over a growing store of simulated runs: seconds, cost per op, and how they grow.

    python benchmarks/analyze_scale.py [--runs 125,250,500,1000] [--engines spark,inline] [--pages none]
                                       [--distinct N] [--master 'local[2]'] [--store DIR] [--repeat 1]
                                       [--seconds 5] [--rate 40] [--jobs N] [--json]

The runs are those of a nightly matrix: every workload of the metadata cluster under each of four mixes of faults, five
nodes, short, seed after seed. Each is judged inline. With `--store` they are kept and used again, judged anew, since
checkers change, and more are made if more are asked for. Then, for each engine and size, the first so many runs are
linked into a store of their own, without anything that was found out about them, and the command judges that store
cold. Its verdicts must be those that were found inline, or the benchmark fails. With `--distinct` so many runs are
simulated, and a larger store has copies of them under other names.

The marginal cost is what one more run costs: the slope of a straight line through (runs, CPU seconds), by least
squares. Its exponent is that of a line through the logarithms, after the cost of no runs, which the first line gives,
is taken off: 1 if a run costs the same in a store of any size.

Seconds run from the moment when the session is up to the end of the command, all pages written; everything before is
"start". The exponent is the slope of a straight line through (log ops, log seconds), by least squares: 1 is linear.
CPU is that of all processes of the command, start included: on a busy machine it says more than seconds do. Memory is
that of the Python process that drives Spark, at its peak, in MiB.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from rich.console import Console

from splitbrain.checkers import engine
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.campaigns.documents import keep_plan
from splitbrain.harness.campaigns.judging import keep_verdicts
from splitbrain.harness.campaigns.simulated import record_simulated
from splitbrain.harness.campaigns.warm import warm_up
from splitbrain.harness.campaigns.workers import Workers
from splitbrain.harness.cli.analyze import STARTED
from splitbrain.harness.cli.progress import Progress
from splitbrain.harness.systems import catalogue as systems
from splitbrain.results.errors import SplitbrainError
from splitbrain.results.loaded import finish, load
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store
from splitbrain.workloads.catalogue import able

WORKLOADS: Final = able(systems.operations("metadata"))
NEMESES: Final = ("partition,kill", "pause,packet", "power,clog", "restart,clock")
RUN_LIMIT_S: Final = 300.0
WATCH_S: Final = 0.3
JUDGED: Final = ("verdict.json", "figures.json", "report.html", "counterexample.html", "plots")
"""What analyze writes: a cold store has none of it."""

COMMAND: Final = "from splitbrain.harness.cli.main import main; main()"


# --- the store ------------------------------------------------------------------------------------------------------


def fill(root: Path, count: int, jobs: int, seconds: float, rate: float) -> list[RunDir]:
    """The runs of the seeds below `count`, in the order of their seeds, each judged inline by this version."""
    there = {int(run.read_test()["seed"]): run for run in Store(root).runs() if run.history_path.exists()}
    tasks = [there[seed].path if seed in there else options(seed, seconds, rate) for seed in range(count)]
    began_s, done, printed = time.monotonic(), 0, 0.0
    with Workers(partial(provide, root), min(jobs, count), prepare=warm_up, limit_s=RUN_LIMIT_S) as workers:
        waiting = iter(tasks)
        while done < count:
            while workers.free and (task := next(waiting, None)) is not None:
                workers.give(task)
            for report in workers.wait(0.5):
                if report.problem is not None:
                    raise SystemExit(f"{report.task} could not be run or judged: {report.problem}")
                done += 1
            if time.monotonic() - printed > 5 or done == count:
                printed = time.monotonic()
                print(f"{done} of {count} runs are there after {printed - began_s:.0f} s", file=sys.stderr)
    there = {int(run.read_test()["seed"]): run for run in Store(root).runs()}
    return [there[seed] for seed in range(count)]


def provide(root: Path, task: RunOptions | Path) -> None:
    """Simulate a test, or take a run that is there, and judge it in this process."""
    run, failure = (RunDir(task), None) if isinstance(task, Path) else record(root, task)
    loaded = load(run)
    verdicts = engine.judge(loaded.history, engine.specs_of(loaded.document, str(run.path)), loaded.telemetry)
    keep_verdicts(run, loaded.document, verdicts, "inline", failure)


def options(seed: int, seconds: float, rate: float) -> RunOptions:
    """The run of a seed: the tests of the matrix take turns."""
    return RunOptions(
        workload=WORKLOADS[seed % len(WORKLOADS)],
        nemesis=NEMESES[seed // len(WORKLOADS) % len(NEMESES)],
        system="metadata",
        backend="sim",
        bug="",
        nodes="5",
        concurrency="2n",
        rate=rate,
        time_limit=seconds,
        interval=1.0,
        op_timeout=1.0,
        recovery=20.0,
        seed=seed,
    )


def record(root: Path, chosen: RunOptions) -> tuple[RunDir, str | None]:
    """Simulate a test and keep the run; also what went wrong in the harness, if anything did."""
    test = compose(chosen)
    run, summary = record_simulated(test, chosen.world, root, Progress(test.name, Console(quiet=True)), None, {})
    keep_plan(finish(run), test)
    return run, None if summary.failure is None else str(summary.failure)


def cold(runs: Sequence[RunDir], root: Path, count: int) -> list[Path]:
    """A store of the same runs, as they were before they were judged. Their files are links, not copies.

    Nothing writes into a file of a store: each is written aside and renamed. Beyond the runs that there are, those are
    linked once more, under other names.
    """
    found: list[Path] = []
    for number in range(count):
        run, again = runs[number % len(runs)], number // len(runs)
        name = run.path.name if not again else f"{run.path.name}-{again}"
        found.append(root / run.path.parent.name / name)
        shutil.copytree(run.path, found[-1], copy_function=os.link, ignore=shutil.ignore_patterns(*JUDGED))
    return found


# --- the verdicts ---------------------------------------------------------------------------------------------------


def timeless(found: Any) -> Any:
    """A verdict without the seconds that it took, and without who gave it and when."""
    if isinstance(found, dict):
        kept = {key: value for key, value in found.items() if "seconds" not in str(key)}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return {key: timeless(value) for key, value in kept.items() if key not in ("engine", "made_from")}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(found, list):
        return [timeless(each) for each in found]  # pyright: ignore[reportUnknownVariableType]
    return found


def compare(runs: Sequence[RunDir], copies: Sequence[Path]) -> Counter[str]:
    """The outcomes of a judged store; ends the program if a verdict is not the one that was found inline."""
    outcomes: Counter[str] = Counter()
    for number, copy in enumerate(copies):
        run, judged = runs[number % len(runs)], copy / "verdict.json"
        ours, theirs = (timeless(json.loads(path.read_bytes())) for path in (run.path / "verdict.json", judged))
        if ours != theirs:
            raise SystemExit(f"{run.path}/verdict.json (inline) and {judged} do not say the same.")
        outcomes[ours["outcome"]] += 1
    return outcomes


# --- the command ----------------------------------------------------------------------------------------------------


class Pass(msgspec.Struct, frozen=True):
    """One pass of the command: seconds to the session, from there to the end; CPU seconds of all processes; MiB."""

    start_s: float
    seconds: float
    cpu_s: float
    memory_mib: float


def analyze(root: Path, engine: str, master: str, pages: str) -> Pass:
    """Run the command on a store; it ends with the code of any outcome."""
    home = Path(__file__).resolve().parent.parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(home), os.environ.get("PYTHONPATH")]))}
    began_s, before_s = time.perf_counter(), _waited_s()
    command = [sys.executable, "-c", COMMAND, "analyze", "--store", str(root), "--engine", engine, "--pages", pages]
    command += ["--master", master] if engine == "spark" else []
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment, cwd=home
    )
    watch = Watch(process)
    assert process.stderr is not None
    said: list[str] = []
    up_s: float | None = None if engine == "spark" else began_s
    with process.stderr as stderr:
        for line in stderr:
            said.append(line)
            print(line, end="", file=sys.stderr)
            if up_s is None and line.startswith(STARTED):
                up_s = time.perf_counter()
    code = process.wait()
    ended_s = time.perf_counter()
    watch.join()
    if code not in (0, 1, 2) or up_s is None:
        raise SystemExit(f"splitbrain analyze ended with {code}: {''.join(said[-3:])}")
    cpu_s = max(watch.cpu_s, _waited_s() - before_s)
    return Pass(start_s=up_s - began_s, seconds=ended_s - up_s, cpu_s=cpu_s, memory_mib=watch.peak_mib)


def _waited_s() -> float:
    """CPU seconds of the processes that were waited for, to their ends, which the watch misses."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Watch(threading.Thread):
    """Looks at the process and all its descendants a few times a second, for as long as it lives.

    The kernel's sum for a parent cannot be used: no parent waits for Spark's Python workers.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        super().__init__(name="watch", daemon=True)
        self.peak_mib = 0.0
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
            time.sleep(WATCH_S)

    def _look(self) -> None:
        parents: dict[int, int] = {}
        cpu_s: dict[int, float] = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = path.read_text().rpartition(")")[2].split()
                parents[int(path.parent.name)] = int(fields[1])
                cpu_s[int(path.parent.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        ours = {self._process.pid}
        while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
            ours |= more
        self._cpu_s |= {pid: cpu_s[pid] for pid in ours if pid in cpu_s}
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{self._process.pid}/status").read_text()
            found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
            self.peak_mib = max([self.peak_mib, *(int(kib) / 1024 for kib in found)])


# --- measuring ------------------------------------------------------------------------------------------------------


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """The slope of a straight line through (log size, log seconds), by least squares; 1 is linear."""
    return statistics.linear_regression([math.log(n) for n in sizes], [math.log(s) for s in seconds]).slope


def client_ops(run: RunDir) -> int:
    """How many ops clients invoked in a run."""
    rows = run.history().select(["process", "type"])
    return int(np.sum((rows["process"].to_numpy() >= 0) & (rows["type"].to_numpy() == "invoke")))


class Asked(msgspec.Struct, frozen=True):
    """How the command is run."""

    engines: list[str]
    master: str
    pages: str
    repeat: int


def marginal(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What one more run costs in CPU seconds, what no run costs, and the exponent of the marginal cost."""
    counts, spent_s = [row["runs"] for row in rows], [row["cpu_s"] for row in rows]
    line = statistics.linear_regression(counts, spent_s)
    beyond = [cpu_s - line.intercept for cpu_s in spent_s]
    found = {"cpu_s_per_run": round(line.slope, 4), "cpu_s_of_none": round(line.intercept, 2)}
    if min(beyond) > 0:
        found["exponent"] = round(exponent(counts, beyond), 3)
    return found


def measure(runs: Sequence[RunDir], counts: Sequence[int], asked: Asked, root: Path) -> dict[str, Any]:
    """Everything that is reported, as JSON can carry it; stores are made beside `root`, to link files."""
    rows = [_measure(runs, count, name, asked, root) for name in asked.engines for count in counts]
    slopes: dict[str, Any] = {}
    for name in asked.engines if len(counts) > 1 else []:
        of_engine = [row for row in rows if row["engine"] == name]
        ops = [row["ops"] for row in of_engine]
        slopes[name] = {
            what: round(exponent(ops, [row[what] for row in of_engine]), 3) for what in ("seconds", "cpu_s")
        } | {"marginal": marginal(of_engine)}
    return {
        "machine": f"{os.cpu_count()} x {platform.machine()}, Python {platform.python_version()}, {asked.master}",
        "pages": asked.pages,
        "load": [round(load, 2) for load in os.getloadavg()],
        "sizes": rows,
        "exponents": slopes,
    }


def _measure(runs: Sequence[RunDir], count: int, engine: str, asked: Asked, root: Path) -> dict[str, Any]:
    passes: list[Pass] = []
    outcomes: Mapping[str, int] = {}
    for _ in range(asked.repeat):
        with tempfile.TemporaryDirectory(prefix=f"{root.name}-cold-", dir=root.parent) as folder:
            copies = cold(runs, Path(folder), count)
            passes.append(analyze(Path(folder), engine, asked.master, asked.pages))
            outcomes = compare(runs, copies)
    each = [client_ops(run) for run in runs]
    ops = sum(each[number % len(each)] for number in range(count))
    seconds = statistics.median(each.seconds for each in passes)
    cpu_s = statistics.median(each.cpu_s for each in passes)
    return {
        "engine": engine,
        "runs": count,
        "ops": ops,
        "start_s": round(statistics.median(each.start_s for each in passes), 2),
        "seconds": round(seconds, 2),
        "us_per_op": round(seconds / ops * 1e6, 1),
        "cpu_s": round(cpu_s, 2),
        "cpu_us_per_op": round(cpu_s / ops * 1e6, 1),
        "ms_per_run": round(seconds / count * 1e3, 1),
        "memory_mib": round(max(each.memory_mib for each in passes)),
        "outcomes": dict(sorted(outcomes.items())),
    }


def main() -> None:
    """Make the store, measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", default="125,250,500,1000", help="sizes of the store, comma-separated")
    parser.add_argument("--engines", default="spark,inline", help="which engines, comma-separated")
    parser.add_argument("--pages", default="none", choices=["failing", "all", "none"], help="which runs get pages")
    parser.add_argument("--distinct", type=int, default=None, help="how many runs are simulated  [default: all]")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--store", type=Path, default=None, help="keep the runs here, and use those that are there")
    parser.add_argument("--repeat", type=int, default=1, help="number of passes; the result is their median")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long faults and load of a run last")
    parser.add_argument("--rate", type=float, default=40.0, help="ops a second of a run")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes that make runs")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    counts = sorted(int(count) for count in chosen.runs.split(","))
    with tempfile.TemporaryDirectory(prefix="splitbrain-scale-") as folder:
        root: Path = chosen.store.absolute() if chosen.store is not None else Path(folder) / "store"
        try:
            distinct = min(chosen.distinct or max(counts), max(counts))
            runs = fill(root, distinct, chosen.jobs, chosen.seconds, chosen.rate)
        except SplitbrainError as error:
            raise SystemExit(str(error)) from error
        asked = Asked(chosen.engines.split(","), chosen.master, chosen.pages, chosen.repeat)
        found = measure(runs, counts, asked, root)
    if chosen.json:
        json.dump(found, sys.stdout, indent=2)
        print()
        return
    print(f"{found['machine']}; load of the machine {found['load'][0]} at the end")
    print(
        f"{'engine':>7} {'runs':>6} {'ops':>9} {'start s':>8} {'seconds':>8} {'us/op':>7} {'ms/run':>7} "
        f"{'CPU us/op':>10} {'MiB':>5}  outcomes (all as inline)"
    )
    for row in found["sizes"]:
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in row["outcomes"].items())
        print(
            f"{row['engine']:>7} {row['runs']:>6} {row['ops']:>9} {row['start_s']:>8.1f} {row['seconds']:>8.1f} "
            f"{row['us_per_op']:>7.0f} {row['ms_per_run']:>7.0f} {row['cpu_us_per_op']:>10.0f} "
            f"{row['memory_mib']:>5}  {outcomes}"
        )
    for name, slopes in found["exponents"].items():
        print(f"{name}: seconds grow with ops to the power of {slopes['seconds']}, CPU seconds of {slopes['cpu_s']}")
        print(f"{name}: one more run costs {slopes['marginal']}")


if __name__ == "__main__":
    main()

"""What judging transactions costs: CPU seconds after compilation, and the peak memory of the process that judges.

    python benchmarks/transactions.py [--large 1000000] [--huge 0] [--repeat 3] [--only TEXT] [--awdit PROGRAM]

One process makes a history and stores it; others, one for each repetition, open that file and judge it. So nothing of
what made the history counts, neither as time nor as memory. Before the clock starts a small history of the same kind is
judged, so that kernels are loaded. Each row is the median of its repetitions, and has the goal that it is held against:

    stored   the file of a run, as `splitbrain check` and Spark's workers judge it; reading is part of the time
    table    the same file, read as a table first
    columns  a table in memory; reading is no part of the time
    edn      a Jepsen history, from its text on

Growth is the exponent b of cost = a * n^b between the row before, of the same kind, and this one. `--huge 10000000`
adds a history of that length; making it takes about twice the memory of judging it.

AWDIT (`--awdit`: the program, built from its source) and elle-cli (SPLITBRAIN_ELLE_CLI: its jar) judge the same
histories in the same run where they are given; their CPU seconds are those of their whole process.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent.parent))

WARM: Final = 2000
"""Transactions of the history that is judged before the clock starts."""

SUFFIXES: Final = {"stored": "parquet", "table": "parquet", "columns": "arrow", "edn": "edn", "plume": "plume"}


@dataclass(frozen=True)
class Case:
    """A history, how it is read, and what the cost of judging it should be.

    Attributes:
        transactions: how many.
        workload: "list-append" or "rw-register".
        level: of the database (`transaction_histories.LEVELS`).
        source: as above.
        model: the consistency model that it is judged by.
        shape: further fields of `transaction_histories.Shape`.
        goal_s, goal_mb: CPU seconds and MB of memory; None where there is no goal.
    """

    transactions: int
    workload: str
    level: str = "serial"
    source: str = "stored"
    model: str = "strict-serializable"
    shape: dict[str, int] = field(default_factory=dict[str, int])
    goal_s: float | None = None
    goal_mb: int | None = None

    @property
    def kind(self) -> tuple[str, ...]:
        """What rows that grow in length have in common."""
        return (self.workload, self.level, self.source, self.model, str(self.shape))

    @property
    def name(self) -> str:
        """The row's first columns."""
        clients = f"{self.shape.get('clients', 10)} clients"
        return f"{self.workload}, {self.level}, {clients}, {self.model}, {self.source}"


def cases(large: int, huge: int) -> Iterator[Case]:
    """All rows, those of one kind by length."""
    small, quarter, lists, registers = large // 10, large // 4, "list-append", "rw-register"
    for count, seconds, mb in ((small, 0.6, None), (quarter, None, None), (large, 3.0, 1500)):
        for source in ("stored", "columns"):
            yield Case(count, lists, source=source, goal_s=seconds, goal_mb=mb)
    if huge:
        yield Case(huge, lists, goal_mb=15_000)
    yield Case(large, lists, source="table")
    for count in (small // 4, small, large):
        yield Case(count, lists, source="edn")
    yield Case(small, lists, level="snapshot")
    for count, seconds in ((small // 4, None), (small, 5.0)):
        yield Case(count, lists, level="none", goal_s=seconds)
    for count, seconds in ((quarter, None), (large, 6.0)):
        yield Case(count, registers, source="columns", goal_s=seconds)
    twenty, many = {"clients": 20}, {"clients": 500, "keys": 1000, "writes": 100_000}
    for model in ("strong-session-monotonic-atomic-view", "strong-session-read-atomic", "causal"):
        yield Case(large, registers, source="columns", model=model, shape=twenty, goal_s=4.0)
    for count, seconds in ((quarter, None), (large, 4.0)):
        yield Case(count, registers, source="columns", model="causal", shape=many, goal_s=seconds)


# --- one process each -------------------------------------------------------------------------------------------------


def make(case: Case, transactions: int, path: Path) -> None:
    """Store a history as a case reads it."""
    from benchmarks.transaction_histories import Shape, history
    from splitbrain.results.arrow import write_parquet
    from splitbrain.results.formats.export import pieces

    registers = case.workload == "rw-register"
    table = history(Shape(transactions, level=case.level, registers=registers, **case.shape))
    kind = path.suffix.removeprefix(".")
    if kind == "parquet":
        write_parquet(table, path)
    elif kind == "edn":
        with path.open("w") as file:
            file.writelines(text for _, text in pieces(table, "edn"))
    elif kind == "plume":
        path.write_text("".join(plume(table)))
    else:
        import pyarrow as pa

        arrow: Any = pa
        with arrow.OSFile(str(path), "wb") as sink, arrow.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)


def plume(table: Any) -> Iterator[str]:
    """Registers in Plume's format, session by session: committed transactions, and those that may have."""
    from splitbrain.checkers.transactions.columns import ABORTED, NIL, READ, UNKNOWN, transactions_of

    found = transactions_of(table)
    starts, kinds, keys, values = (
        each.tolist() for each in (found.mop_start, found.mop_kind, found.mop_key, found.mop_value)
    )
    for txn, (process, status) in enumerate(zip(found.process.tolist(), found.status.tolist(), strict=True)):
        if status == ABORTED:
            continue
        for mop in range(starts[txn], starts[txn + 1]):
            value = values[mop]
            if kinds[mop] == READ and value == UNKNOWN:
                continue
            shown = 0 if value == NIL else value
            yield f"{'r' if kinds[mop] == READ else 'w'}({keys[mop]},{shown},{process},{txn})\n"


def judge(case: Case, warm: Path, path: Path) -> dict[str, Any]:
    """Judge a stored history; the figures of this process."""
    from splitbrain.checkers import kernels

    kernels.use_compiled()
    read(case, warm).judge()
    opened = read(case, path) if case.source == "columns" else None
    began, wall = time.process_time(), time.perf_counter()
    found = opened or read(case, path)
    reading = time.process_time() - began
    verdict = found.judge()
    return {
        "seconds": time.process_time() - began,
        "wall": time.perf_counter() - wall,
        "reading": reading,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "valid": verdict.valid,
        "anomalies": list(verdict.anomalies),
        "edges": verdict.figures["edges"],
    }


@dataclass(frozen=True)
class Opened:
    """A history that a checker can be given."""

    case: Case
    history: Any

    def judge(self) -> Any:
        """The verdict."""
        from splitbrain.checkers import engine
        from splitbrain.checkers.verdict import CheckerSpec

        spec = CheckerSpec(self.case.workload, {"consistency_models": [self.case.model]})
        [verdict] = engine.judge(self.history, [spec])
        return verdict


def read(case: Case, path: Path) -> Opened:
    """The history in a file, as the case has it."""
    if case.source == "stored":
        from splitbrain.results.summarized import summarized

        return Opened(case, summarized(path))
    if case.source == "columns":
        import pyarrow as pa

        arrow: Any = pa
        with arrow.OSFile(str(path), "rb") as file:
            return Opened(case, arrow.ipc.open_file(file).read_all())
    from splitbrain.results.formats import read_table

    return Opened(case, read_table(path))


# --- the run ----------------------------------------------------------------------------------------------------------


class Runner:
    """Makes histories once, and judges them in processes of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def history(self, case: Case, transactions: int, kind: str) -> Path:
        """The file of a history; made if it is not there."""
        known = f"{case.workload}-{case.level}-{'-'.join(map(str, case.shape.values()))}-{transactions}"
        path = self._folder / f"{known}.{kind}"
        if not path.exists():
            self._started("--make", case, str(transactions), str(path))
        return path

    def measured(self, case: Case) -> dict[str, Any]:
        """The figures of one repetition."""
        kind = SUFFIXES[case.source]
        files = [str(self.history(case, count, kind)) for count in (WARM, case.transactions)]
        return json.loads(self._started("--judge", case, *files).splitlines()[-1])

    def forget(self, case: Case) -> None:
        """Remove the history of a case: large ones would fill the disk."""
        if case.source == "columns" or case.transactions > 5_000_000:
            self.history(case, case.transactions, SUFFIXES[case.source]).unlink()

    def _started(self, what: str, case: Case, *rest: str) -> str:
        written = json.dumps({name: getattr(case, name) for name in Case.__dataclass_fields__})
        done = subprocess.run(
            [sys.executable, __file__, what, written, *rest], stdout=subprocess.PIPE, check=True, text=True
        )
        return done.stdout


def rivals(runner: Runner, case: Case, awdit: str | None) -> Iterator[tuple[str, float]]:
    """Other checkers on the same history, with their CPU seconds."""
    levels = {
        "strong-session-monotonic-atomic-view": "read-committed",
        "strong-session-read-atomic": "read-atomic",
        "causal": "causal",
    }
    if awdit and case.model in levels:
        path = runner.history(case, case.transactions, "plume")
        yield "AWDIT", _cpu_s([awdit, "check", "-i", levels[case.model], str(path)])
    if case.source == "edn" and os.environ.get("SPLITBRAIN_ELLE_CLI"):
        from splitbrain.harness.cli.oracle import command_of

        path = runner.history(case, case.transactions, "edn")
        asked = ["--model", case.workload, "--consistency-models", case.model, str(path)]
        yield "elle-cli", _cpu_s([*command_of(), *asked])


def _cpu_s(command: Sequence[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def machine() -> str:
    """What this ran on."""
    name = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        if line.startswith("model name"):
            name = line.partition(":")[2].strip()
    return f"{name}, {os.cpu_count()} cores, Python {platform.python_version()}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", type=int, default=1_000_000)
    parser.add_argument("--huge", type=int, default=0)
    parser.add_argument("--repeat", type=int, default=3, help="of all but the huge one")
    parser.add_argument("--only", default="", help="rows whose name has this text")
    parser.add_argument("--awdit", help="the program")
    parser.add_argument("--make", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--judge", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.make:
        make(Case(**json.loads(chosen.make[0])), int(chosen.make[1]), Path(chosen.make[2]))
        return
    if chosen.judge:
        print(json.dumps(judge(Case(**json.loads(chosen.judge[0])), *map(Path, chosen.judge[1:]))))
        return
    print(f"{machine()}; load {os.getloadavg()[0]:.1f}; medians of {chosen.repeat}\n")
    print("| transactions | history, model, source | CPU s | goal | reading | peak MB | goal | verdict | growth |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    costs: dict[tuple[str, ...], tuple[int, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(Path(folder))
        for case in cases(chosen.large, chosen.huge):
            if chosen.only in case.name:
                row(runner, case, 1 if case.transactions > chosen.large else chosen.repeat, costs)
                for name, seconds in rivals(runner, case, chosen.awdit):
                    print(f"| {case.transactions:,} | the same, {name} | {seconds:.2f} | | | | | | |", flush=True)
                runner.forget(case)


def row(runner: Runner, case: Case, repeat: int, costs: dict[tuple[str, ...], tuple[int, float]]) -> None:
    """Measure and print one row."""
    found = [runner.measured(case) for _ in range(repeat)]
    seconds, reading, peak = (
        statistics.median(each[name] for each in found) for name in ("seconds", "reading", "peak_mb")
    )
    before = costs.get(case.kind)
    costs[case.kind] = case.transactions, seconds
    growth = "" if before is None else f"{math.log(seconds / before[1]) / math.log(case.transactions / before[0]):.2f}"
    names = found[0]["anomalies"]
    verdict = found[0]["valid"] if not names else ", ".join(names) if len(names) < 4 else f"{len(names)} types"
    print(
        f"| {case.transactions:,} | {case.name} | {seconds:.2f} | {'' if case.goal_s is None else case.goal_s} | "
        f"{reading:.2f} | {peak:,.0f} | {'' if case.goal_mb is None else f'{case.goal_mb:,}'} | {verdict} | {growth} |",
        flush=True,
    )
    if len(names) >= 4:
        print(f"|  | {', '.join(names)} | | | | | | | |", flush=True)


if __name__ == "__main__":
    main()

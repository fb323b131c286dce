"""Transactions over Spark: the same answers as inline, and what the driver holds.

    python benchmarks/transactions_spark.py [--runs 4] [--transactions 1000000] [--large 1000000] [--master 'local[2]']

A store of list-append runs, of a serializable database and of snapshot isolation by turns, and one large run are judged
inline in a process of its own, and with Spark. Prints seconds, and the growth of the peak memory of the process that
judges inline, and of Spark's driver. The large run is judged once more by key, as one is that is too large for a
worker; beside the driver's memory that of the largest Python worker is printed, and that of Java. Exits with 1 if
answers differ.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.transaction_histories import Shape, history
from splitbrain.checkers import engine, stored
from splitbrain.checkers.spark.hot_keys import Sizes
from splitbrain.checkers.spark.pipeline import judge_runs
from splitbrain.checkers.spark.session import session
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.arrow import write_parquet
from splitbrain.results.store import Store

SPECS = (CheckerSpec("list-append", {"consistency_models": ["serializable"]}), CheckerSpec("stats"))
LEVELS = ("serial", "snapshot")


def make_run(root: str, seed: int, transactions: int) -> str:
    """A finished run; its folder."""
    run = Store(Path(root)).create("benchmark", seed, {"checkers": list(SPECS)}, 1_790_000_000_000_000_000 + seed)
    write_parquet(history(Shape(transactions, level=LEVELS[seed % 2], seed=seed)), run.history_path)
    run.release()
    return str(run.path)


def peak_mb() -> int:
    """The largest memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def answers(verdicts: Sequence[Verdict]) -> list[Any]:
    """What a person is given, without what differs from time to time."""
    return [json.loads(json.dumps([each.checker, each.valid, each.anomalies, each.evidence, each.sentence],
                                  default=str)) for each in verdicts]  # fmt: skip


def judge_ready(each: stored.Ready) -> list[Verdict]:
    """One verdict per checker of a run."""
    return engine.judge_each(each.run.history(), each.specs, each.run.telemetry())


def inline(paths: Sequence[str]) -> dict[str, Any]:
    """Judge runs one after the other in this process."""
    before, began = peak_mb(), time.perf_counter()
    found = [answers(judge_ready(stored.ready(Path(path)))) for path in paths]
    return {"seconds": time.perf_counter() - began, "grown_mb": peak_mb() - before, "answers": found}


class Watch:
    """The largest memory of a Python process below this one, and of Java, while the block runs."""

    def __init__(self) -> None:
        self.worker_mb = 0
        self.java_mb = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            parents: dict[int, int] = {}
            used: dict[int, tuple[str, int]] = {}
            for folder in Path("/proc").glob("[0-9]*"):
                try:
                    lines = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
                except OSError:  # it has ended
                    continue
                parents[int(folder.name)] = int(lines["PPid"])
                used[int(folder.name)] = lines["Name"].strip(), int(lines.get("VmRSS", "0 kB").split()[0]) >> 10
            for process, (name, mb) in used.items():
                above = process
                while above not in (0, os.getpid()):
                    above = parents.get(above, 0)
                if above == 0 or process == os.getpid():
                    continue
                if name == "java":
                    self.java_mb = max(self.java_mb, mb)
                else:
                    self.worker_mb = max(self.worker_mb, mb)


BY_KEY = Sizes(graph_rows=0)
"""Every run that is no group by itself is taken apart."""


def over_spark(spark: Any, paths: Sequence[str], sizes: Sizes | None = None) -> dict[str, Any]:
    """Judge runs with Spark; memory is that of the driver."""
    before, began = peak_mb(), time.perf_counter()
    with Watch() as watch:
        judged = judge_runs(spark, [Path(path) for path in paths], sizes=sizes)
    seconds = time.perf_counter() - began
    how = [verdict.evidence.pop("by_key", None) for each in judged.values() for verdict in each]
    for each in filter(None, how):
        print(each)
    return {
        "seconds": seconds,
        "grown_mb": peak_mb() - before,
        "more": f"largest Python worker {watch.worker_mb:,} MB, Java {watch.java_mb:,} MB",
        "answers": [answers(judged[Path(path)]) for path in paths],
    }


def apart(work: Callable[..., Any], *args: Any) -> Any:
    """The result of a function in a process of its own, so that its memory is no part of this one's."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, args)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--transactions", type=int, default=1_000_000, help="of each run")
    parser.add_argument("--large", type=int, default=1_000_000, help="of the one run that is judged by itself")
    parser.add_argument("--master", default="local[2]")
    chosen = parser.parse_args()
    differ = False
    with tempfile.TemporaryDirectory() as root:
        several = [apart(make_run, root, seed, chosen.transactions) for seed in range(chosen.runs)]
        alone = [apart(make_run, root, chosen.runs, chosen.large)]
        print(f"{'':42} {'seconds':>8} {'peak grew by MB':>16}  verdicts")
        with session(chosen.master) as spark:
            judge_runs(spark.session, [Path(apart(make_run, root, 99, 1000))])
            for name, paths, count in (
                (f"{chosen.runs} runs", several, chosen.runs * chosen.transactions),
                ("one run", alone, chosen.large),
            ):
                if not paths:
                    continue
                ours, theirs = apart(inline, paths), over_spark(spark.session, paths)
                judged = [("inline", ours), (f"{chosen.master}, driver", theirs)]
                if paths == alone:
                    judged.append((f"{chosen.master} by key, driver", over_spark(spark.session, paths, BY_KEY)))
                for how, found in judged:
                    valid = ", ".join(each[0][1] for each in found["answers"])
                    print(
                        f"{f'{name}, {count:,} transactions, {how}':42} {found['seconds']:8.1f} "
                        f"{found['grown_mb']:16,}  {valid}  {found.get('more', '')}",
                        flush=True,
                    )
                    differ |= ours["answers"] != found["answers"]
    print("answers differ" if differ else "the answers are the same")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())

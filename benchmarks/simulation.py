"""How fast the simulation is: simulated seconds per CPU second of one core, the same run on one core and on two.

    benchmarks/simulation.py [--seconds 60] [--seeds 6] [--profile]
    benchmarks/simulation.py --table [--beside DIR] [--seconds 20] [--seeds 5]

Five nodes, ten clients, 100 ops a second, default faults. The figure for one core is the median over seeds of simulated
time over CPU time of the process, recording, telemetry and logs included, judging not. For two cores the same seeds run
in two processes at once; efficiency is what each of them reaches in wall time, relative to a process alone.

`--table` measures 3, 5 and 7 nodes with 10, 100 and 1,000 ops a second instead, on one core. With `--beside` each seed
runs in another checkout too, the two in turn, since other work on the machine slows both; the ratio is the median over
seeds of how many times as fast this checkout is as the other one.
"""

from __future__ import annotations

import argparse
import cProfile
import multiprocessing
import os
import pstats
import statistics
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.running.simulate import simulate

NODES = (3, 5, 7)
RATES = (10, 100, 1000)


def options(seed: int, seconds: float, nodes: int = 5, rate: float = 100.0) -> RunOptions:
    """The run that is measured."""
    return RunOptions.of(
        workload="register",
        nemesis="partition,kill",
        system="metadata",
        backend="sim",
        bug="",
        nodes=str(nodes),
        concurrency="10",
        rate=rate,
        time_limit=seconds,
        interval=None,
        op_timeout=2.0,
        recovery=20.0,
        seed=seed,
    )


def measure(seed: int, seconds: float, nodes: int = 5, rate: float = 100.0) -> tuple[float, float, float]:
    """Simulated, CPU and wall seconds of one run."""
    test = compose(options(seed, seconds, nodes, rate))
    cpu, wall = time.process_time(), time.perf_counter()
    simulated = simulate(test)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    assert simulated.failure is None, simulated.failure
    return simulated.simulated_s, cpu, wall


def on_cores(cores: int, seeds: list[int], seconds: float) -> float:
    """Simulated seconds per wall second of `cores` processes together, imports and first run not counted."""
    with ProcessPoolExecutor(cores, mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(measure, [0] * cores, [5.0] * cores))
        began = time.perf_counter()
        done = list(pool.map(measure, seeds, [seconds] * len(seeds)))
        return sum(simulated for simulated, _, _ in done) / (time.perf_counter() - began)


class Checkout:
    """A process that measures the code of one checkout, run by run."""

    def __init__(self, root: Path) -> None:
        command = [sys.executable, __file__, "--answer"]
        environment = os.environ | {"PYTHONPATH": str(root.resolve())}
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def rate(self, seed: int, seconds: float, nodes: int, ops: int) -> float:
        """Simulated seconds per CPU second of one run."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        print(seed, seconds, nodes, ops, file=process.stdin, flush=True)
        return float(process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def answer() -> None:
    """Measure what standard input asks for, one run a line."""
    for line in sys.stdin:
        seed, seconds, nodes, ops = line.split()
        simulated, cpu, _ = measure(int(seed), float(seconds), int(nodes), float(ops))
        print(simulated / cpu, flush=True)


def print_table(beside: Path | None, seeds: list[int], seconds: float) -> None:
    """Print medians for each number of nodes and each rate."""
    checkouts = [Checkout(Path(__file__).parents[1])] + ([] if beside is None else [Checkout(beside)])
    for checkout in checkouts:
        checkout.rate(0, 3.0, 5, 100)
    print("nodes, ops/s: simulated s per CPU s" + ("" if beside is None else "; beside; ratio (least to greatest)"))
    for nodes in NODES:
        for ops in RATES:
            runs = [[checkout.rate(seed, seconds, nodes, ops) for checkout in checkouts] for seed in seeds]
            medians = [f"{statistics.median(rates):6.1f}" for rates in zip(*runs, strict=True)]
            line = f"{nodes}, {ops:5}: " + "; ".join(medians)
            if beside is not None:
                ratios = [here / there for here, there in runs]
                line += f"; {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            print(line, flush=True)
    for checkout in checkouts:
        checkout.close()


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--profile", action="store_true", help="show where the time of one run goes")
    parser.add_argument("--table", action="store_true", help="measure several numbers of nodes and rates")
    parser.add_argument("--beside", type=Path, help="for the table: another checkout, which is measured as well")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.answer:
        answer()
        return
    seeds = list(range(1, given.seeds + 1))
    if given.table:
        print_table(given.beside, seeds, given.seconds)
        return
    measure(0, 5.0)
    if given.profile:
        with cProfile.Profile() as profile:
            measure(1, given.seconds)
        pstats.Stats(profile).sort_stats("tottime").print_stats(35)
        return
    runs = [measure(seed, given.seconds) for seed in seeds]
    rates = [simulated / cpu for simulated, cpu, _ in runs]
    spread = f"{min(rates):.1f} to {max(rates):.1f}"
    print(f"one core: {statistics.median(rates):.1f} simulated s per CPU s, median of {len(seeds)} ({spread})")
    one, two = on_cores(1, seeds, given.seconds), on_cores(2, seeds, given.seconds)
    print(f"processes: one {one:.1f}, two {two:.1f} simulated s per wall s; efficiency {two / (2 * one):.0%}")


if __name__ == "__main__":
    main()

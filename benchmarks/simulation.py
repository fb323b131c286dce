"""How fast the simulation is: simulated seconds per CPU second of one core, the same run on one core and on two.

    benchmarks/simulation.py [--seconds 60] [--seeds 5] [--profile]

Five nodes, ten clients, 100 ops a second, default faults. The figure for one core is the median over seeds of simulated
time over CPU time of the process, recording, telemetry and logs included, judging not. For two cores the same seeds run
in two processes at once; efficiency is what each of them reaches in wall time, relative to a process alone.
"""

from __future__ import annotations

import argparse
import cProfile
import multiprocessing
import pstats
import statistics
import time
from concurrent.futures import ProcessPoolExecutor

from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.running.simulate import simulate


def options(seed: int, seconds: float) -> RunOptions:
    """The run that is measured."""
    return RunOptions.of(
        workload="register",
        nemesis="partition,kill",
        system="metadata",
        backend="sim",
        bug="",
        nodes="5",
        concurrency="2n",
        rate=100.0,
        time_limit=seconds,
        interval=None,
        op_timeout=2.0,
        recovery=20.0,
        seed=seed,
    )


def measure(seed: int, seconds: float) -> tuple[float, float, float]:
    """Simulated, CPU and wall seconds of one run."""
    test = compose(options(seed, seconds))
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


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--profile", action="store_true", help="show where the time of one run goes")
    given = parser.parse_args()
    seeds = list(range(1, given.seeds + 1))
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

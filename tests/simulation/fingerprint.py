"""Simulate one run and print what another run of the same seed must print as well.

    fingerprint.py SEED WORKLOAD NEMESIS [--trace FILE] [--debug]

Needs msgspec, pyarrow and click only, so that any Python can run it.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from harness.cli.compose import RunOptions, compose
from harness.simulation.run import simulate
from harness.simulation.trace import Trace


def options(seed: int, workload: str, nemesis: str, seconds: float = 15.0) -> RunOptions:
    return RunOptions.of(
        workload=workload,
        nemesis=nemesis,
        system="metadata",
        backend="sim",
        bug="",
        nodes="5",
        concurrency="2n",
        rate=100.0,
        time_limit=seconds,
        interval=2.0,
        op_timeout=2.0,
        recovery=20.0,
        seed=seed,
        world="swarm",
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("seed", type=int)
    parser.add_argument("workload")
    parser.add_argument("nemesis")
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--debug", action="store_true")
    given = parser.parse_args()
    if given.debug:
        logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
    trace = Trace() if given.trace else None
    simulated = simulate(compose(options(given.seed, given.workload, given.nemesis)), trace=trace)
    if simulated.failure is not None:
        raise simulated.failure
    if trace is not None:
        given.trace.write_text("".join(line + "\n" for line in trace.lines()))
    print(simulated.history_hash, simulated.fingerprint, len(simulated.ops))


if __name__ == "__main__":
    main()

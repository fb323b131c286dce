"""Simulate one run and print what another run of the same seed must print as well.

    fingerprint.py SEED WORKLOAD NEMESIS [--system NAME] [--trace FILE] [--debug] [--careless]

Needs msgspec, numpy, pyarrow and click only, so that any Python can run it. With --careless the clients iterate over a
set of strings, as no code that is simulated may.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import msgspec

from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.contract.test import Test
from splitbrain.harness.running.simulate import simulate
from splitbrain.harness.simulation.trace import Trace
from splitbrain.results.history import Op
from splitbrain.workloads.register import RegisterClient


class CarelessClient(RegisterClient):
    """Writes what comes first in a set of strings."""

    async def invoke(self, test: Test, op: Op) -> Op:
        if op.f == "write":
            op = msgspec.structs.replace(op, value=len(next(iter({"a", "bb", "ccc", "dddd", "eeeee"}))))
        return await super().invoke(test, op)


def options(seed: int, workload: str, nemesis: str, seconds: float = 15.0, system: str = "metadata") -> RunOptions:
    return RunOptions.of(
        workload=workload,
        nemesis=nemesis,
        system=system,
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
    parser.add_argument("--system", default="metadata")
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--debug", action="store_true")
    parser.add_argument("--careless", action="store_true")
    given = parser.parse_args()
    if given.debug:
        logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
    trace = Trace() if given.trace else None
    test = compose(options(given.seed, given.workload, given.nemesis, system=given.system))
    if given.careless:
        test = dataclasses.replace(test, workload=dataclasses.replace(test.workload, client=CarelessClient()))
    simulated = simulate(test, trace=trace)
    if simulated.failure is not None:
        raise simulated.failure
    if trace is not None:
        with given.trace.open("w") as file:
            trace.write(file)
    print(simulated.history_hash, simulated.fingerprint, len(simulated.ops))


if __name__ == "__main__":
    main()

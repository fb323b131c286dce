"""Whether a long simulation holds its memory: resident memory every ten minutes of an hour of simulated time.

    benchmarks/simulation_memory.py [--minutes 60] [--rate 10]

Five nodes, ten clients, partitions and kills. The history and what nodes say are passed on and dropped, as a stored run
writes them to its files. What grows is the cluster's own log: it has no snapshots, and every node keeps all of it; its
share is printed beside (entries, and what they weigh as bytes on one node's disk).
"""

from __future__ import annotations

import argparse
import os

from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.running.simulate import simulate
from splitbrain.results.history import Op

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TEN_MINUTES_NS = 600 * 10**9


def resident_mb() -> float:
    """Resident memory of this process, in MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * _PAGE / 1e6


class Dropped:
    """Takes a run's history, telemetry and logs, keeps a count, and drops them."""

    def __init__(self) -> None:
        self.ops = 0
        self.lines = 0
        self.applied = 0

    def record(self, op: Op) -> None:
        """Count an op of a client, by its invocation."""
        self.ops += op.process >= 0 and op.type == "invoke"

    def flush(self) -> None:
        """Nothing is kept back."""

    def close(self) -> None:
        """Nothing was opened."""

    def telemetry(self, node: str, time_ns: int, line: bytes) -> None:
        """Count a line, and note how far the node is."""
        self.lines += 1
        start = line.find(b'"applied":') + 10
        self.applied = max(self.applied, int(line[start : line.index(b",", start)]))

    def log(self, node: str, time_ns: int, line: str) -> None:
        """Count a line."""
        self.lines += 1


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=10.0)
    given = parser.parse_args()
    options = RunOptions.of(
        workload="register",
        nemesis="partition,kill",
        system="metadata",
        backend="sim",
        bug="",
        nodes="5",
        concurrency="2n",
        rate=given.rate,
        time_limit=given.minutes * 60,
        interval=None,
        op_timeout=2.0,
        recovery=20.0,
        seed=1,
    )
    dropped = Dropped()
    next_ns = [0]

    def observe(op: Op) -> None:
        if op.time >= next_ns[0]:
            line = f"{dropped.ops:>8} ops  {dropped.applied:>7} entries"
            print(f"{op.time / 60e9:5.0f} min  {resident_mb():7.1f} MB  {line}", flush=True)
            next_ns[0] += _TEN_MINUTES_NS

    simulated = simulate(compose(options), recorder=dropped, outputs=dropped, observe=observe)
    assert simulated.failure is None, simulated.failure
    print(f"{simulated.simulated_s / 60:5.0f} min  {resident_mb():7.1f} MB  {dropped.ops:>8} ops  at the end")


if __name__ == "__main__":
    main()

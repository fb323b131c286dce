"""What the runner itself costs: ops a second with a client that answers at once, in memory.

    python benchmarks/runner_overhead.py [--ops 60000] [--profile]

Everything of a real run takes part but the system under test: generators (a mix of three functions over independent
keys), the scheduler, validating wrappers, the deadline sweeper, and the write-ahead history in a file.
An op is an invocation and its completion, both recorded.
"""

# ruff: noqa: ARG001, ARG005 - stand-ins have the signatures of what they stand for
from __future__ import annotations

import argparse
import asyncio
import cProfile
import itertools
import pstats
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from splitbrain import NemesisPackage, Test, Workload, real_runtime, run_test
from splitbrain.harness.contract.capabilities import Capabilities
from splitbrain.harness.contract.deployments import Deployment, Surroundings
from splitbrain.harness.contract.nodes import ClockOffset, Link, NodeCommand, NodeId, NodePlace, NodeStatus, NodeView
from splitbrain.harness.contract.sessions import Session
from splitbrain.harness.contract.test import Client
from splitbrain.harness.generators import Context, Generator, concurrent_keys, invoke, limit, mix
from splitbrain.results.history import Op
from splitbrain.results.wal import HistoryWriter

NODES = ("n1", "n2", "n3", "n4", "n5")
OPS_PER_KEY = 200
TARGET_OPS_PER_S = 25_000


class NoOpClient:
    """Answers at once."""

    async def open(self, test: Test, deployment: Deployment, node: NodeId) -> Client:
        """A client without a connection."""
        return NoOpClient()

    async def setup(self, test: Test) -> None:
        """Nothing to prepare."""

    async def invoke(self, test: Test, op: Op) -> Op:
        """Everything works."""
        return op.complete("ok", op.value, term=1)

    async def close(self) -> None:
        """Nothing to close."""


class NoSession:
    """A session without operations."""

    async def close(self) -> None:
        """Nothing to close."""


class NoSystem:
    """A system of which nothing runs."""

    name = "none"
    bugs: Mapping[str, str] = {}
    election_timeout_s = 1.0
    capabilities = Capabilities()

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        """It is never run."""
        return NodeCommand(("true",))

    async def connect(self, deployment: Deployment, node: NodeId) -> Session:
        """A session to be closed again."""
        return NoSession()

    async def view(self, deployment: Deployment, node: NodeId) -> NodeView | None:
        """Everybody follows n1."""
        return NodeView(node, "follower", 1, "n1")

    def telemetry(self, test: Test, node_dir: Path) -> Path | None:
        """None is written."""
        return None


class NoDeployment:
    """Nodes that report that they run."""

    nodes: Sequence[NodeId] = NODES
    surroundings = Surroundings()

    async def status(self, node: NodeId) -> NodeStatus:
        """It runs."""
        return NodeStatus("running", 1)

    async def cut(self, links: frozenset[Link]) -> None:
        """Nothing to cut."""

    async def offsets(self) -> Mapping[NodeId, ClockOffset]:
        """Nothing is known of the nodes' clocks."""
        return {}


def workload() -> Generator:
    """Read, write, compare-and-set, five threads to a key."""

    def read(ctx: Context) -> Op:
        return invoke("read")

    def write(ctx: Context) -> Op:
        return invoke("write", ctx.rng.below(5))

    def cas(ctx: Context) -> Op:
        return invoke("cas", [ctx.rng.below(5), ctx.rng.below(5)])

    return concurrent_keys(5, itertools.count(), lambda key: limit(OPS_PER_KEY, mix(read, write, cas)))


def measure(processes: int, ops: int, seed: int) -> float:
    """Ops per second of one run: client ops, each an invocation and a completion."""
    test = Test(
        name="overhead",
        seed=seed,
        nodes=NODES,
        system=NoSystem(),
        concurrency=processes,
        rate=1e6,
        time_limit_s=600,
        op_timeout_s=2.0,
        workload=Workload(
            name="none",
            client=NoOpClient(),
            generator=limit(ops, workload()),
            final_generator=None,
            checkers=(),
            fs=("read", "write", "cas"),
        ),
        nemesis=NemesisPackage(name="none", nemesis=None, generator=None, final_generator=None, faults=frozenset()),
    )
    with tempfile.TemporaryDirectory() as folder:
        history = HistoryWriter(Path(folder) / "history.wal")
        began = time.process_time()
        summary = asyncio.run(
            run_test(
                test,
                NoDeployment(),  # pyright: ignore[reportArgumentType] - all that is used
                real_runtime(seed),
                history,
            )
        )
        seconds = time.process_time() - began
        history.close()
    if summary.failure is not None:
        raise summary.failure
    assert summary.ok == ops, f"{summary.ok} of {ops} ops were ok"
    return ops / seconds


def main() -> None:
    """Print the table; with --profile, where the time goes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", type=int, default=60_000, help="ops of one run")
    parser.add_argument("--profile", action="store_true", help="profile one run with 20 processes instead")
    options = parser.parse_args()
    if options.profile:
        profile = cProfile.Profile()
        profile.runcall(measure, 20, options.ops, 1)
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
        return
    print(f"{'processes':>9}  {'ops/s (CPU)':>11}  {'us/op':>6}   median of 3 runs of {options.ops} ops")
    slowest = float("inf")
    for processes in (10, 20, 50):
        speed = statistics.median(measure(processes, options.ops, seed) for seed in (1, 2, 3))
        slowest = min(slowest, speed)
        print(f"{processes:>9}  {speed:>11.0f}  {1e6 / speed:>6.1f}")
    verdict = "met" if slowest >= TARGET_OPS_PER_S else "MISSED"
    print(f"target: {TARGET_OPS_PER_S} ops/s: {verdict}")


if __name__ == "__main__":
    main()

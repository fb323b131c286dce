"""How a follower that is a million commands behind catches up, and what the leader serves meanwhile.

    python benchmarks/cluster_catch_up.py [--commands 1000000] [--keys 1000] [--clients 64] [--seconds 10]

Three nodes as processes of this machine, on loopback, with real syncs. One follower is killed (SIGKILL), and so many
commands are written over so many keys. Then it is started again, while the clients go on. Printed are the seconds from
the start of its process until it answers, and until it has applied what was committed when it was started; and what the
clients got in as many seconds before its start and after it. The benchmark fails if the follower took no snapshot, or
if the nodes do not have the same state in the end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.throughput_clients import OfMetadata, dial
from benchmarks.throughput_servers import ROOT, Cluster, running
from splitbrain.cluster.client import ClientError, NodeStatus, connect
from splitbrain.results.errors import HarnessError

NODES: Final = 3
POLL_S: Final = 0.02
CATCHES_UP_WITHIN_S: Final = 120.0
TAKEN_OVER: Final = "took over the leader's snapshot"


class Load:
    """Clients of one node, each with one write under way, until they are stopped.

    Attributes:
        answered: when each write was answered, and how many seconds it had taken.
    """

    def __init__(self, port: int, keys: int, clients: int) -> None:
        self._port = port
        self._keys = keys
        self._clients = clients
        self._numbers = itertools.count()
        self._stopped = False
        self.answered: list[tuple[float, float]] = []

    @contextlib.asynccontextmanager
    async def going_on(self) -> AsyncGenerator[None]:
        """While the context lasts; then the last writes are awaited. A write that fails ends the benchmark."""
        tasks = [asyncio.ensure_future(self._client()) for _ in range(self._clients)]
        try:
            yield
        finally:
            self._stopped = True
            await asyncio.gather(*tasks)

    async def reached(self, writes: int) -> None:
        """Wait until so many writes are answered."""
        while len(self.answered) < writes:
            await asyncio.sleep(POLL_S)

    def figures(self, begin: float, end: float) -> str:
        """Writes per second and latencies of what was answered in a time."""
        took = sorted(seconds * 1e3 for at, seconds in self.answered if begin <= at < end)
        if len(took) < 2:
            raise HarnessError(f"{len(took)} writes were answered in {end - begin:.1f} s.")
        cuts = statistics.quantiles(took, n=100, method="inclusive")
        return f"{len(took) / (end - begin):,.0f} | {cuts[49]:.1f} | {cuts[98]:.1f} | {took[-1]:.0f}"

    async def _client(self) -> None:
        client = await OfMetadata.open(self._port)
        while not self._stopped:
            number = next(self._numbers)
            sent = time.perf_counter()
            await client.write(str(number % self._keys), f"{number:064}")
            now = time.perf_counter()
            self.answered.append((now, now - sent))
        await client.close()


async def status(cluster: Cluster, number: int) -> NodeStatus | None:
    """What a node says of itself, None if it does not answer."""
    try:
        client = await connect(await dial(cluster.ports[number]))
    except (OSError, ClientError):
        return None
    try:
        return await client.status()
    except ClientError:
        return None
    finally:
        await client.close()


async def until_applied(cluster: Cluster, number: int, index: int) -> tuple[float, float, int]:
    """When a node first answered, when it had applied an entry, and how far it was when it answered."""
    first: tuple[float, int] | None = None
    until = time.perf_counter() + CATCHES_UP_WITHIN_S
    while (now := time.perf_counter()) < until:
        found = await status(cluster, number)
        if found is not None:
            first = first or (now, found.applied_index)
            if found.applied_index >= index:
                return first[0], now, first[1]
        await asyncio.sleep(POLL_S)
    raise HarnessError(f"node {number} has not caught up after {CATCHES_UP_WITHIN_S:g} s: see {cluster.log(number)}.")


async def same_state(cluster: Cluster) -> None:
    """Wait until all nodes have the same state."""
    until = time.perf_counter() + CATCHES_UP_WITHIN_S
    while time.perf_counter() < until:
        found = [await status(cluster, number) for number in range(NODES)]
        if len({(each.applied_index, each.chain_hash, each.state_hash) for each in found if each}) == 1 and all(found):
            return
        await asyncio.sleep(POLL_S)
    raise HarnessError("the nodes do not have the same state.")


async def measure(cluster: Cluster, commands: int, keys: int, clients: int, seconds: float) -> None:
    """Measure, and print."""
    leader = await cluster.leader()
    behind = (leader + 1) % NODES
    cluster.kill(behind)
    load = Load(cluster.ports[leader], keys, clients)
    async with load.going_on():
        await load.reached(commands)
        before = time.perf_counter()
        await asyncio.sleep(seconds)
        ahead = await status(cluster, leader)
        assert ahead is not None, "the leader answers"
        started = time.perf_counter()
        cluster.start(behind)
        answered, caught_up, applied = await until_applied(cluster, behind, ahead.applied_index)
        await asyncio.sleep(max(0.0, started + seconds - time.perf_counter()))
        end = time.perf_counter()
    await same_state(cluster)
    if TAKEN_OVER not in cluster.log(behind).read_text():
        raise HarnessError(f"the follower caught up without a snapshot: see {cluster.log(behind)}.")
    print(f"{applied:,} of {ahead.applied_index:,} entries were applied when the follower answered for the first time.")
    print(
        f"It answered {answered - started:.2f} s after the start of its process, and had all after "
        f"{caught_up - started:.2f} s.\n"
    )
    print("| writes | ops/s | p50, ms | p99, ms | longest, ms |\n| --- | --- | --- | --- | --- |")
    print(f"| one follower down | {load.figures(before, started)} |")
    print(f"| from its start on | {load.figures(started, end)} |")


async def main(commands: int, keys: int, clients: int, seconds: float) -> None:
    """Run a cluster, and measure."""
    with tempfile.TemporaryDirectory() as folder:
        async with running({"metadata": ("metadata", ROOT)}, NODES, Path(folder)) as clusters:
            await measure(clusters["metadata"], commands, keys, clients, seconds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commands", type=int, default=1_000_000, help="how many the follower misses")
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=10.0, help="before and after the start of the follower")
    options = parser.parse_args()
    asyncio.run(main(options.commands, options.keys, options.clients, options.seconds))

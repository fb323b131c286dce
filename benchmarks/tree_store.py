"""The metadata store: operations per second with real syncs, and what a put and a get cost as the tree grows.

    python benchmarks/tree_store.py [--seconds 3] [--clients 64] [--sizes 1,3] [--largest 1000000]

First clusters of one and of three nodes, as processes of this machine on loopback with a real disk: so many clients in
one Python process, each with one request at a time, half of them of the leader and the others of the other nodes in
turn. A put is acknowledged after fdatasync on a majority; a transaction moves a value back and forth between two nodes;
local reads and projection reads are answered by the node that is asked. On a machine with few cores the clients'
process is the bottleneck of reads.

Then the store alone, in this process: what a node spends on a put of an existing node (to decode the entry of the log,
and apply it) and on a get (to decode the request, answer it, and encode the answer), without consensus, network and
disk. The tree has 10^3 to 10^6 nodes, a thousand at each parent; each figure is CPU time, the median of nine times
2,000 of random nodes. The exponent of a power law is fitted to them by least squares, and may be 0.1 at most.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.syncs import sync_ms
from benchmarks.throughput_clients import dial
from benchmarks.throughput_servers import ROOT, Cluster, running
from splitbrain.cluster import wire
from splitbrain.cluster.client import Client, UnavailableError, connect
from splitbrain.cluster.raft import Entry
from splitbrain.cluster.store import Store
from splitbrain.cluster.tree import PATTERNS_COME, Get, Put, encode_command

WARM_UP_S: Final = 0.5
TABLE: Final = "items_v1"
FAN_OUT: Final = 1_000
SAMPLES: Final = 2_000
ROUNDS: Final = 9
EXPONENT_MAX: Final = 0.1

Op = Callable[[Client, int, int], Awaitable[object]]
"""One operation of a client of this number, the how manieth."""

OPS: Final[dict[str, Op]] = {
    "put": lambda client, own, number: client.put(f"/items/{own}", [own, number]),
    "transaction": lambda client, own, number: client.transaction(
        "move", 1, {"from": f"/moved/{own}/{number % 2}", "to": f"/moved/{own}/{1 - number % 2}"}, "write"
    ),
    "consistent read": lambda client, own, _: client.get(f"/items/{own}"),
    "local read": lambda client, own, _: client.get(f"/items/{own}", mode="local"),
    "projection read": lambda client, own, _: client.look_up(TABLE, own),
}


async def rates(size: int, clients: int, seconds: float) -> None:
    """Measure a cluster of this size, and print a row."""
    with tempfile.TemporaryDirectory(dir=ROOT) as folder:
        async with running({"metadata": ("metadata", ROOT)}, size, Path(folder)) as clusters:
            cluster = clusters["metadata"]
            opened = await prepared(cluster, clients)
            row = [await rate(op, opened, seconds) for op in OPS.values()]
            for client in opened:
                await client.close()
    print(f"| {size} | {' | '.join(row)} |", flush=True)


async def prepared(cluster: Cluster, clients: int) -> list[Client]:
    """Clients, and what they work on."""
    leader = await cluster.leader()
    others = [number for number in range(len(cluster.ports)) if number != leader]
    opened: list[Client] = []
    for own in range(clients):
        node = leader if own % 2 == 0 or not others else others[own // 2 % len(others)]
        opened.append(await connect(await dial(cluster.ports[node])))
    while (await opened[0].status()).machine_version < PATTERNS_COME:
        await asyncio.sleep(0.05)
    await opened[0].register_projection(TABLE, "/items/*")
    for own, client in enumerate(opened):
        await client.put(f"/items/{own}", [own, -1])
        await client.put(f"/moved/{own}/0", own)
    for own, client in enumerate(opened):
        while True:
            try:
                await client.look_up(TABLE, own)
                break
            except UnavailableError:
                await asyncio.sleep(0.05)
    return opened


async def rate(op: Op, opened: Sequence[Client], seconds: float) -> str:
    """Operations per second, with the median time of one."""
    took: list[float] = []
    begin = time.perf_counter() + WARM_UP_S
    end = begin + seconds

    async def carry_out(client: Client, own: int) -> None:
        number = 0
        while (sent := time.perf_counter()) < end or number % 2:
            await op(client, own, number)
            number += 1
            now = time.perf_counter()
            if begin <= now < end:
                took.append(now - sent)

    await asyncio.gather(*(carry_out(client, own) for own, client in enumerate(opened)))
    return f"{len(took) / seconds:,.0f} | {statistics.median(took) * 1e3:.1f}"


def costs(largest: int) -> list[str]:
    """Print what a put and a get cost by the size of the tree; what failed."""
    store, rng, there = Store(), random.Random(1), 0
    store.tree.version = PATTERNS_COME
    sizes = [10**power for power in range(3, 1 + round(math.log10(largest)))]
    measured: dict[str, list[float]] = {"put": [], "get": []}
    print("\n| nodes | put, µs | get, µs |\n| --- | --- | --- |")
    for size in sizes:
        for number in range(there, size):
            store.tree.execute(Put(path_of(number), msgspec.msgpack.encode(number)))
        there = size
        found: dict[str, list[float]] = {"put": [], "get": []}
        for part in range(ROUNDS):
            chosen = [path_of(rng.randrange(size)) for _ in range(SAMPLES)]
            commands = [encode_command(Put(path, msgspec.msgpack.encode([part, n]))) for n, path in enumerate(chosen)]
            first = store.applied_index + 1
            entries = [Entry(first + n, 1, "command", command) for n, command in enumerate(commands)]
            requests = [wire.encode(wire.Request(n, 1_000, wire.LocalQuery(Get(p)))) for n, p in enumerate(chosen)]
            began = time.process_time()
            for entry in entries:
                store.apply(entry)
            put = time.process_time()
            for request in requests:
                answer(store, request)
            found["put"].append((put - began) / SAMPLES * 1e6)
            found["get"].append((time.process_time() - put) / SAMPLES * 1e6)
        for name, each in found.items():
            measured[name].append(statistics.median(each))
        print(f"| {size:,} | {measured['put'][-1]:.2f} | {measured['get'][-1]:.2f} |", flush=True)
    failures: list[str] = []
    for name, each in measured.items():
        exponent = statistics.linear_regression([math.log(size) for size in sizes], [math.log(t) for t in each]).slope
        print(f"\nA {name} costs as the number of nodes to the power of {exponent:.3f}.")
        if exponent > EXPONENT_MAX:
            failures.append(f"the cost of a {name} grows with an exponent of {exponent:.3f}")
    return failures


def answer(store: Store, data: bytes) -> bytes:
    """What a node does with a request for a local read, once it has come, until its answer can be sent."""
    request = wire.decode_request(data)
    assert isinstance(request.body, wire.LocalQuery)
    return wire.encode(wire.Answer(request.id, 1, store.query(request.body.query), store.applied_index))


def path_of(number: int) -> tuple[str, ...]:
    """The path of a node, a thousand at each parent."""
    return ("items", f"p{number // FAN_OUT}", f"i{number % FAN_OUT}")


async def main(words: Sequence[str]) -> int:
    """Carry it out; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--sizes", default="1,3")
    parser.add_argument("--largest", type=int, default=1_000_000)
    given = parser.parse_args(words)
    if given.sizes:
        with tempfile.TemporaryDirectory(dir=ROOT) as folder:
            print(f"A sync of the disk takes {sync_ms(Path(folder)):.2f} ms.\n")
        print(f"| nodes | {' | '.join(f'{name} /s | median, ms' for name in OPS)} |")
        print(f"| --- {'| --- | --- ' * len(OPS)}|", flush=True)
        for size in given.sizes.split(","):
            await rates(int(size), given.clients, given.seconds)
    failures = costs(given.largest)
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))

"""How many writes and reads a second the metadata cluster does, how fast, and for how much CPU time, beside etcd.

    python benchmarks/cluster_throughput.py [--rounds 3] [--seconds 2] [--sizes 3,5] [--clients 1,8,64,256]
                                            [--beside CHECKOUT] [--json] [--profile]

Nodes are processes of this machine on loopback, with a real disk and each system's defaults; no container, no proxy.
Clusters of one size are up at the same time. In each round every load is measured on each of them in turn, so that
other work on the machine affects all alike; the order is turned about from round to round. Ratios are medians of what
rounds found, each system in relation to metadata.

A load: so many clients in one Python process, each with a connection of its own and one request at a time (closed
loop), half a second of warm-up. The first client talks to the leader, the others are spread over all nodes in turn. A
client writes to a key of its own, and reads it, linearizable; every value that is read is compared with what was
written last. Values have `--bytes` characters.

    metadata    the cluster's own client (`splitbrain.cluster.client`)
    etcd        the client that the harness has: JSON over HTTP (h11), which makes the client's process the bottleneck
    etcd bare   the same requests, written as text by a client that does next to nothing (`BareOfEtcd`)
    before      with --beside: the metadata cluster of another checkout, with the client of this one

CPU is measured, and does not depend on who had to wait for whom: that of all nodes, of the leader alone, and of the
clients' process, per op. On a machine with few cores, ops/s are not much more than cores divided by their sum. Where
the clients' share is near 100 %, they are what limits; where a node's is (metadata: one Python process), it is that.

Both systems acknowledge a write after fdatasync on a majority. etcd is asked through its JSON gateway, a hop within the
node that gRPC does not take: it is cheaper for etcd over gRPC.

With --profile no table is printed but where the leader's CPU time goes, by module and by function
(`benchmarks.sampled_node`), for writes and for reads of the largest number of clients.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.sampled_node import Samples
from benchmarks.syncs import sync_ms
from benchmarks.throughput_clients import Open
from benchmarks.throughput_servers import ROOT, Cluster, Kind, client_of, running
from splitbrain.results.errors import HarnessError

F: TypeAlias = Literal["write", "read"]
LOADS: Final[tuple[F, ...]] = ("write", "read")

WARM_UP_S: Final = 0.5
OURS: Final = "metadata"
FUNCTIONS: Final = 25
IN_MEMORY_MS: Final = 0.01
"""No disk syncs as fast as this: the file system is in memory."""


@dataclass(frozen=True)
class System:
    """What is measured: a client of a cluster, which another system may use, too."""

    name: str
    cluster: str
    kind: Kind
    open: Open
    checkout: Path = ROOT


@dataclass(frozen=True)
class Load:
    """What one load came to; CPU in microseconds per op, of all nodes, of the leader, and of the clients' process."""

    system: str
    nodes: int
    f: F
    clients: int
    round: int
    ops_per_s: float
    p50_ms: float
    p99_ms: float
    nodes_us: float
    leader_us: float
    clients_us: float
    leader_busy: float
    clients_busy: float


class Bench:
    """Measures one system.

    Args:
        system: which.
        cluster: the one that it uses.
        value_bytes: the length of a value.
    """

    def __init__(self, system: System, cluster: Cluster, value_bytes: int) -> None:
        self._system = system
        self._cluster = cluster
        self._bytes = value_bytes
        self._last: dict[str, str] = {}
        self._written = 0

    async def load(self, f: F, clients: int, seconds: float, number: int) -> Load:
        """Let clients do one thing for so long; reads follow writes of as many clients.

        Raises:
            HarnessError: a read was wrong.
        """
        cluster = self._cluster
        leader = await cluster.leader()
        ports = [cluster.ports[leader], *(port for node, port in enumerate(cluster.ports) if node != leader)]
        opened = [await self._system.open(ports[each % len(ports)]) for each in range(clients)]
        begin = time.perf_counter() + WARM_UP_S
        end = begin + seconds
        took_s: list[float] = []
        in_time = 0

        async def client(each: int) -> None:
            nonlocal in_time
            key = f"{self._system.name.replace(' ', '-')}-{each}"
            while (sent := time.perf_counter()) < end:
                if f == "write":
                    self._written += 1
                    value = f"{self._written:0{self._bytes}}"
                    await opened[each].write(key, value)
                    self._last[key] = value
                else:
                    found = await opened[each].read(key)
                    if found != self._last[key]:
                        raise HarnessError(f"{key} holds {found!r}, not {self._last[key]!r}, which was written last.")
                done = time.perf_counter()
                in_time += begin <= done <= end
                if sent >= begin:
                    took_s.append(done - sent)  # also of an op that ends late: a stall is not to be hidden

        async def costs() -> tuple[list[float], float, float]:
            await asyncio.sleep(begin - time.perf_counter())
            nodes, own, wall = cluster.cpu_s(), time.process_time(), time.perf_counter()
            await asyncio.sleep(seconds)
            spent = [after - before for before, after in zip(nodes, cluster.cpu_s(), strict=True)]
            return spent, time.process_time() - own, time.perf_counter() - wall

        measured = asyncio.ensure_future(costs())
        try:
            await asyncio.gather(*(client(each) for each in range(clients)))
        finally:
            for each in opened:
                await each.close()
        spent, own, wall = await measured
        cuts = statistics.quantiles(took_s, n=100, method="inclusive")
        return Load(
            system=self._system.name,
            nodes=len(ports),
            f=f,
            clients=clients,
            round=number,
            ops_per_s=in_time / wall,
            p50_ms=cuts[49] * 1e3,
            p99_ms=cuts[98] * 1e3,
            nodes_us=sum(spent) / in_time * 1e6,
            leader_us=spent[leader] / in_time * 1e6,
            clients_us=own / in_time * 1e6,
            leader_busy=spent[leader] / wall,
            clients_busy=own / wall,
        )


async def measure(systems: Sequence[System], size: int, chosen: argparse.Namespace, folder: Path) -> list[Load]:
    """All rounds on clusters of one size."""
    found: list[Load] = []
    clusters: dict[str, tuple[Kind, Path]] = {each.cluster: (each.kind, each.checkout) for each in systems}
    async with running(clusters, size, folder) as up:
        benches = [Bench(system, up[system.cluster], chosen.bytes) for system in systems]
        for number in range(chosen.rounds):
            for clients in chosen.clients:
                for f in LOADS:
                    for bench in benches if number % 2 == 0 else benches[::-1]:
                        found.append(await bench.load(f, clients, chosen.seconds, number))
                        print(_progress(found[-1]), file=sys.stderr, flush=True)
    return found


def _progress(load: Load) -> str:
    return f"{load.system}, {load.nodes} nodes, {load.clients} clients, {load.f}s: {load.ops_per_s:,.0f} ops/s"


# --- tables ---------------------------------------------------------------------------------------------------------


def tables(loads: Sequence[Load]) -> list[str]:
    """Everything that was measured, as markdown."""
    names = list(dict.fromkeys(load.system for load in loads))
    lines: list[str] = []
    for size in dict.fromkeys(load.nodes for load in loads):
        mine = [load for load in loads if load.nodes == size]
        rows: dict[tuple[F, int], None] = dict.fromkeys((load.f, load.clients) for load in mine)
        by_row = {row: {name: _of(mine, row, name) for name in names} for row in rows}
        head = [f"{name}: {what}" for name in names for what in ("ops/s", "p50 / p99 ms")]
        lines += ["", *_head([f"{size} nodes", *head, *(f"ops/s of {name}, times ours" for name in names[1:])])]
        for row, found in by_row.items():
            cells = [cell for name in names for cell in _speed(found[name])]
            lines.append(_row([_label(*row), *cells, *(_ratio(found, name, "ops_per_s") for name in names[1:])]))
        head = [f"{name}: nodes (leader) / clients" for name in names]
        of = [f"nodes' CPU of {name}, times ours" for name in names[1:]]
        lines += ["", *_head([f"{size} nodes, CPU us per op", *head, *of])]
        for row, found in by_row.items():
            cells = [_costs(found[name]) for name in names]
            lines.append(_row([_label(*row), *cells, *(_ratio(found, name, "nodes_us") for name in names[1:])]))
    return lines


def _of(loads: Sequence[Load], row: tuple[F, int], name: str) -> list[Load]:
    """By round."""
    found = [load for load in loads if (load.f, load.clients) == row and load.system == name]
    return sorted(found, key=lambda load: load.round)


def _median(loads: Sequence[Load], figure: str) -> float:
    return statistics.median(getattr(load, figure) for load in loads)


def _speed(loads: Sequence[Load]) -> tuple[str, str]:
    return f"{_median(loads, 'ops_per_s'):,.0f}", f"{_median(loads, 'p50_ms'):.1f} / {_median(loads, 'p99_ms'):.1f}"


def _costs(loads: Sequence[Load]) -> str:
    shares = f"{_median(loads, 'leader_busy'):.0%}", f"{_median(loads, 'clients_busy'):.0%}"
    nodes, leader, clients = (_median(loads, f"{of}_us") for of in ("nodes", "leader", "clients"))
    return f"{nodes:,.0f} ({leader:,.0f}, {shares[0]}) / {clients:,.0f} ({shares[1]})"


def _ratio(found: dict[str, list[Load]], name: str, figure: str) -> str:
    pairs = zip(found[name], found[OURS], strict=True)
    return f"{statistics.median(getattr(theirs, figure) / getattr(ours, figure) for theirs, ours in pairs):.2f}"


def _label(f: F, clients: int) -> str:
    return f"{f}s, {clients} client{'s' if clients > 1 else ''}"


def _head(cells: Sequence[str]) -> list[str]:
    return [_row(cells), _row(["---"] * len(cells))]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


# --- profile --------------------------------------------------------------------------------------------------------


async def profile(system: System, size: int, chosen: argparse.Namespace, folder: Path) -> list[str]:
    """Where the CPU time of the leader goes."""
    lines: list[str] = []
    clients = max(chosen.clients)
    for f in LOADS:
        within = folder / f
        within.mkdir()
        async with running({OURS: ("metadata", system.checkout)}, size, within, sampled=True) as up:
            cluster = up[OURS]
            leader = await cluster.leader()
            bench = Bench(system, cluster, chosen.bytes)
            if f == "read":
                await bench.load("write", clients, 0.1, 0)
            load = await bench.load(f, clients, chosen.rounds * chosen.seconds, 0)
        samples = msgspec.json.decode(cluster.samples(leader).read_bytes(), type=Samples)
        lines += ["", f"{size} nodes, {_label(f, clients)}: {load.leader_us:,.0f} us per op at the leader", ""]
        lines += shares(samples.functions)
    return lines


def shares(functions: dict[str, int]) -> list[str]:
    """The share of each module, then that of the largest functions."""
    total = sum(functions.values())
    modules: Counter[str] = Counter()
    for name, count in functions.items():
        modules[name.partition(":")[0]] += count
    by_module = [f"{count / total:6.1%}  {name}" for name, count in modules.most_common()]
    by_function = [f"{count / total:6.1%}  {name}" for name, count in Counter(functions).most_common(FUNCTIONS)]
    return [f"{total} samples, by module:", *by_module, "", "by function:", *by_function]


# --- the command ----------------------------------------------------------------------------------------------------


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of one load in one round")
    parser.add_argument("--sizes", type=_numbers, default=[3, 5], metavar="N,...", help="numbers of nodes")
    parser.add_argument("--clients", type=_numbers, default=[1, 8, 64, 256], metavar="N,...")
    parser.add_argument("--bytes", type=int, default=64, help="length of a value")
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT", help="another version of the metadata cluster")
    parser.add_argument("--without-etcd", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--profile", action="store_true", help="where the CPU time of our leader goes")
    chosen = parser.parse_args()
    systems = [System(OURS, OURS, "metadata", client_of("metadata", bare=False))]
    if chosen.beside is not None:
        before = System("before", "before", "metadata", client_of("metadata", bare=False), chosen.beside.resolve())
        systems.append(before)
    if not chosen.without_etcd:
        systems.append(System("etcd", "etcd", "etcd", client_of("etcd", bare=False)))
        systems.append(System("etcd bare", "etcd", "etcd", client_of("etcd", bare=True)))
    with tempfile.TemporaryDirectory(prefix="splitbrain-throughput-") as name:
        folder = Path(name)
        if chosen.profile:
            for size in chosen.sizes:
                print("\n".join(asyncio.run(profile(systems[0], size, chosen, folder))), flush=True)
            return
        took_ms = sync_ms(folder)
        if took_ms < IN_MEMORY_MS:
            raise SystemExit(f"{folder} is not on a disk. Set TMPDIR to a folder that is.")
        found = [load for size in chosen.sizes for load in asyncio.run(measure(systems, size, chosen, folder))]
    if chosen.json:
        json.dump({"sync_ms": took_ms, "loads": [asdict(load) for load in found]}, sys.stdout, indent=2)
        return
    print(f"A sync of 200 bytes takes {took_ms:.2f} ms. Medians of {chosen.rounds} rounds of {chosen.seconds:g} s.")
    print("\n".join(tables(found)))


if __name__ == "__main__":
    main()

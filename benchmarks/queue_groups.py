"""Quorum queues on three nodes: confirmed messages a second through one queue and through a hundred, and recovery.

    python benchmarks/queue_groups.py [--publishers 100] [--queues 1,100] [--rounds 3] [--seconds 5]
                                      [--messages 100000 1000000] [--only throughput|recovery]

Throughput: three nodes as processes of this machine on loopback, with a real disk. All queues have a member on each
node; the groups of a node share its write-ahead log. So many publishers, each with one message under way, are spread
over the queues, and over six connections to all nodes in turn; half a second of warm-up, then confirms are counted. In
each round every number of queues is measured in turn. A sync of the disk is measured beside them, and CPU time of all
nodes and of the publishers' process per message.

Recovery: one member's files with a queue of so many messages of 100 bytes, from opening them to the state: first all
messages are ready, so that the log has their bodies and is applied again; then they have been settled, and the log was
let go: the snapshot and one message behind it are all that is left (S004, Ra's pull request 415: 24 s for 5 million
entries, and 10 ms from a checkpoint). The start of a process is not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.syncs import sync_ms
from benchmarks.throughput_clients import dial
from benchmarks.throughput_servers import ROOT, Cluster, running
from splitbrain.cluster.client import QueueOptions, Queues, connect
from splitbrain.cluster.log.group import GroupLog
from splitbrain.cluster.log.nodelog import NodeLog, open_node_log
from splitbrain.cluster.log.snapshot import Meta
from splitbrain.cluster.machinestore import stamped
from splitbrain.cluster.queuegroups.log import Configure, Logged, encode
from splitbrain.cluster.queuegroups.store import QueueStore
from splitbrain.cluster.queues import ConsumerId, Process, QueueConfig
from splitbrain.cluster.queues.commands import Attach, Enqueue, Prefetch, Settle
from splitbrain.cluster.raft import Entry
from splitbrain.cluster.raft.events import Written
from splitbrain.cluster.real import InWorker, RealDisk, RealRng
from splitbrain.cluster.storage import open_group
from splitbrain.cluster.tree import NEWEST_VERSION

WARM_UP_S: Final = 0.5
POLL_S: Final = 0.1
CONNECTIONS: Final = 6
BODY: Final = b"x" * 100
GROUP: Final = "queue.1"
BATCH: Final = 500
IN_MEMORY_MS: Final = 0.01
"""No disk syncs as fast as this: the file system is in memory."""


# --- throughput -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Load:
    """What one load came to; CPU in microseconds for a message, of all nodes and of the publishers' process."""

    queues: int
    confirmed_per_s: float
    p50_ms: float
    p99_ms: float
    nodes_us: float
    publishers_us: float


async def publish(opened: Sequence[Queues], names: Sequence[str], publishers: int, end_s: float) -> list[float]:
    """Publish until then, and count from the end of the warm-up on; how long each confirm took."""
    took_s: list[float] = []
    begin = time.perf_counter() + WARM_UP_S

    async def one(number: int) -> None:
        queues = opened[number % len(opened)]
        publisher = queues.publisher(names[number % len(names)])
        while (sent := time.perf_counter()) < end_s:
            await publisher.publish(BODY)
            if sent >= begin:
                took_s.append(time.perf_counter() - sent)

    await asyncio.gather(*(one(number) for number in range(publishers)))
    return took_s


async def load(cluster: Cluster, names: Sequence[str], publishers: int, seconds: float) -> Load:
    """One load on these queues."""
    clients = [await connect(await dial(cluster.ports[each % len(cluster.ports)])) for each in range(CONNECTIONS)]
    try:
        opened = [await client.queues() for client in clients]
        own, nodes, began = time.process_time(), sum(cluster.cpu_s()), time.perf_counter()
        took_s = await publish(opened, names, publishers, began + WARM_UP_S + seconds)
        wall = time.perf_counter() - began
        spent, own = sum(cluster.cpu_s()) - nodes, time.process_time() - own
    finally:
        for client in clients:
            await client.close()
    cuts = statistics.quantiles(took_s, n=100, method="inclusive")
    per_s = len(took_s) / (wall - WARM_UP_S)
    of_all = per_s * wall
    return Load(len(names), per_s, cuts[49] * 1e3, cuts[98] * 1e3, spent / of_all * 1e6, own / of_all * 1e6)


async def throughput(given: argparse.Namespace, folder: Path) -> list[Load]:
    """All rounds."""
    found: list[Load] = []
    async with running({"queues": ("metadata", ROOT)}, 3, folder) as up:
        cluster = up["queues"]
        client = await connect(await dial(cluster.ports[await cluster.leader()]))
        while (await client.status()).machine_version < NEWEST_VERSION:
            await asyncio.sleep(POLL_S)
        queues = await client.queues()
        names = {count: [f"of-{count}-{number}" for number in range(count)] for count in given.queues}
        for each in (name for of in names.values() for name in of):
            await queues.declare(each, QueueOptions())
        await client.close()
        for _ in range(given.rounds):
            for count in given.queues:
                found.append(await load(cluster, names[count], given.publishers, given.seconds))
                print(f"{count} queues: {found[-1].confirmed_per_s:,.0f} /s", file=sys.stderr, flush=True)
    return found


def table(loads: Sequence[Load]) -> list[str]:
    """Medians of the rounds, as Markdown."""
    lines = [
        "| queues | confirmed /s | p50 / p99 ms | CPU us of all nodes for a message | of the publishers' process |",
        "| --- | --- | --- | --- | --- |",
    ]
    for count in dict.fromkeys(each.queues for each in loads):
        mine = [each for each in loads if each.queues == count]

        def median(figure: str, mine: Sequence[Load] = mine) -> float:
            return statistics.median(getattr(each, figure) for each in mine)

        lines.append(
            f"| {count} | {median('confirmed_per_s'):,.0f} | {median('p50_ms'):.1f} / {median('p99_ms'):.1f} "
            f"| {median('nodes_us'):,.0f} | {median('publishers_us'):,.0f} |"
        )
    return lines


# --- recovery ---------------------------------------------------------------------------------------------------------


class Member:
    """One member's log of a queue, and what it has applied of it."""

    def __init__(self, opened: NodeLog, group: GroupLog) -> None:
        self.store = QueueStore("n1")
        self._opened = opened
        self._group = group
        self._durable = asyncio.Event()
        self._syncing = asyncio.ensure_future(opened.sync(self._written))

    def _written(self, _: str, __: Written) -> None:
        self._durable.set()

    async def take(self, commands: Sequence[Logged]) -> None:
        """Append, sync and apply commands."""
        first = self.store.applied_index + 1
        entries = [
            Entry(first + place, 1, "command", stamped(encode(command), 0)) for place, command in enumerate(commands)
        ]
        self._durable.clear()
        self._group.append(entries, Written(entries[-1].index, 1, 0))
        self._group.committed = entries[-1].index
        for entry in entries:
            self.store.apply(entry)
        await self._durable.wait()

    @property
    def meta(self) -> Meta:
        """Of a snapshot of what is applied."""
        return Meta(uid=self._group.uid, index=self.store.applied_index, term=1)

    async def write_snapshot(self) -> None:
        """Let the log go up to here."""
        await self._group.write_snapshot(self.meta, self.store.dump())

    async def stop(self) -> None:
        """Stop as a node stops."""
        self._syncing.cancel()
        await asyncio.gather(self._syncing, return_exceptions=True)
        self._opened.close()


async def fill(folder: Path, messages: int, *, settled: bool) -> QueueStore:
    """Write a queue with so many messages, settled or not, and one more; what is settled is covered by a snapshot."""
    worker = InWorker(asyncio.get_running_loop())
    opened = await open_node_log(RealDisk(folder, worker), "n1", RealRng(), print)
    member = Member(opened, await opened.create(GROUP))
    publisher = Process("1.1.1", "n1")
    await member.take([Configure(GROUP, QueueConfig(), None)])
    for first in range(1, messages + 1, BATCH):
        last = min(first + BATCH, messages + 1)
        await member.take([Enqueue(publisher, number, BODY) for number in range(first, last)])
    if settled:
        await _settle(member, messages)
        await member.write_snapshot()
    await member.take([Enqueue(publisher, messages + 1, BODY)])
    await member.stop()
    worker.close()
    return member.store


async def _settle(member: Member, count: int) -> None:
    consumer = ConsumerId("consumer", Process("1.1.2", "n2"))
    await member.take([Attach(consumer, "auto", Prefetch(BATCH), keyed_by_id=True)])
    for first in range(0, count, BATCH):
        await member.take([Settle(consumer, tuple(range(first, min(first + BATCH, count))))])


async def recover(folder: Path, expected: QueueStore) -> float:
    """Seconds from opening the files to the state."""
    worker = InWorker(asyncio.get_running_loop())
    began = time.perf_counter()
    opened = await open_group(await open_node_log(RealDisk(folder, worker), "n1", RealRng(), print), GROUP, ())
    store = QueueStore("n1")
    if opened.state is not None:
        store = store.reset(opened.state)
    for entry in opened.recovered.entries:
        store.apply(entry)
    seconds = time.perf_counter() - began
    assert store.state_hash == expected.state_hash
    opened.storage.close()
    worker.close()
    return seconds


def recoveries(messages: int, runs: int) -> str:
    """A row of the table: from the log, and from a snapshot; medians, in turn."""
    with tempfile.TemporaryDirectory(prefix="splitbrain-queues-") as name:
        full, settled = Path(name) / "full", Path(name) / "settled"
        states = [asyncio.run(fill(each, messages, settled=each is settled)) for each in (full, settled)]
        rounds = [
            [asyncio.run(recover(each, state)) for each, state in zip((full, settled), states, strict=True)]
            for _ in range(runs)
        ]
    from_log, from_snapshot = (statistics.median(seconds) for seconds in zip(*rounds, strict=True))
    return f"| {messages:,} | {from_log:.2f} s | {from_snapshot * 1e3:.1f} ms | {from_log / from_snapshot:,.0f} |"


# --- the command ------------------------------------------------------------------------------------------------------


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--publishers", type=int, default=100)
    parser.add_argument("--queues", type=_numbers, default=[1, 100], metavar="N,...")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--messages", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--only", choices=("throughput", "recovery"))
    given = parser.parse_args()
    if given.only != "recovery":
        with tempfile.TemporaryDirectory(prefix="splitbrain-queues-") as name:
            folder = Path(name)
            took_ms = sync_ms(folder)
            if took_ms < IN_MEMORY_MS:
                raise SystemExit(f"{folder} is not on a disk. Set TMPDIR to a folder that is.")
            loads = asyncio.run(throughput(given, folder))
        print(f"A sync of 200 bytes takes {took_ms:.2f} ms; {given.publishers} publishers.\n")
        print("\n".join(table(loads)), flush=True)
    if given.only != "throughput":
        print("\n| messages | from the log | settled: from the snapshot | times |\n| --- | --- | --- | --- |")
        for messages in given.messages:
            print(recoveries(messages, given.rounds), flush=True)


if __name__ == "__main__":
    main()

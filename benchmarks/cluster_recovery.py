"""How long a node of the metadata cluster takes from opening its files to the state that it had.

    python benchmarks/cluster_recovery.py [--commands 100000 1000000] [--keys 1000]
                                          [--growth 1000 10000 100000 1000000]

One node's log with so many commands over so many keys, on a real disk: first all of them are applied again, then the
same log is opened with a checkpoint of its last entry (RabbitMQ's Ra, pull request 415: 24 s to 10 ms). What a longer
log adds to that is printed as well, then how long snapshots of 1,000 to 1,000,000 keys take. The start of the process
is not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from splitbrain.cluster.groupnames import METADATA
from splitbrain.cluster.log.group import GroupLog
from splitbrain.cluster.log.nodelog import NodeLog, open_node_log
from splitbrain.cluster.log.snapshot import Meta
from splitbrain.cluster.log.wal import WORTH_BYTES
from splitbrain.cluster.raft import Entry
from splitbrain.cluster.raft.events import Written
from splitbrain.cluster.real import InWorker, RealDisk, RealRng
from splitbrain.cluster.storage import open_storage
from splitbrain.cluster.store import Store
from splitbrain.cluster.tree import Put, encode_command

BATCH = 500
RUNS = 21


def entries(commands: int, keys: int) -> Iterator[list[Entry]]:
    """Batches of commands."""
    for first in range(1, commands + 1, BATCH):
        yield [
            Entry(index, 1, "command", encode_command(Put(("k", str(index % keys)), b"%d" % index)))
            for index in range(first, min(first + BATCH, commands + 1))
        ]


async def write(folder: Path, commands: int, keys: int, *, log: bool) -> Store:
    """Fill a node's directory; with `log` all commands are in it, else only a snapshot. The state is returned."""
    worker = InWorker(asyncio.get_running_loop())
    opened = await open_node_log(RealDisk(folder, worker), "n1", RealRng(), print)
    group = await opened.create(METADATA)
    store = Store()
    durable = asyncio.Event()

    def written(_: str, __: Written) -> None:
        durable.set()

    syncing = asyncio.ensure_future(opened.sync(written))
    for batch in entries(commands, keys):
        for entry in batch:
            store.apply(entry)
        if log:
            durable.clear()
            group.append(batch, Written(batch[-1].index, 1, 0))
            group.committed = batch[-1].index
            await durable.wait()
    if not log:
        await group.write_snapshot(meta_of(group, commands), store.dump())
    await finish(opened, syncing, worker)
    return store


def meta_of(group: GroupLog, index: int) -> Meta:
    """Of a snapshot at an index."""
    return Meta(uid=group.uid, index=index, term=1)


async def finish(opened: NodeLog, syncing: asyncio.Future[None], worker: InWorker) -> None:
    """Stop as a node stops."""
    syncing.cancel()
    await asyncio.gather(syncing, return_exceptions=True)
    opened.close()
    worker.close()


async def add_checkpoint(folder: Path, store: Store) -> None:
    """Write a checkpoint of the last entry."""
    worker = InWorker(asyncio.get_running_loop())
    opened = await open_node_log(RealDisk(folder, worker), "n1", RealRng(), print)
    group = opened.groups[METADATA]
    group.committed = store.applied_index
    group.write_checkpoint(meta_of(group, store.applied_index), store.dump())

    def written(_: str, __: Written) -> None:
        """Nothing is appended."""

    syncing = asyncio.ensure_future(opened.sync(written))
    # A node rolls its write-ahead log over beside its work.
    while sum(path.stat().st_size for path in folder.glob("wal-*")) > WORTH_BYTES:
        await asyncio.sleep(0.1)
    await finish(opened, syncing, worker)


async def recover(folder: Path, expected: Store) -> float:
    """Seconds from opening the files to the state."""
    worker = InWorker(asyncio.get_running_loop())
    began = time.perf_counter()
    opened = await open_storage(RealDisk(folder, worker), "n1", RealRng(), print)
    store = Store() if opened.state is None else Store.load(opened.state)
    for entry in opened.recovered.entries:
        store.apply(entry)
    seconds = time.perf_counter() - began
    assert (store.applied_index, store.state_hash) == (expected.applied_index, expected.state_hash)
    assert store.chain_hash == expected.chain_hash
    opened.storage.close()
    worker.close()
    return seconds


def medians(folders: Sequence[tuple[Path, Store]], runs: int = RUNS) -> list[float]:
    """The medians of some recoveries of each folder, in seconds; in turn, as the load of the machine changes."""
    rounds = [[asyncio.run(recover(folder, expected)) for folder, expected in folders] for _ in range(runs)]
    return [statistics.median(seconds) for seconds in zip(*rounds, strict=True)]


def compare(sizes: Sequence[int], keys: int) -> None:
    """Print the replay of logs beside the recovery from a checkpoint of each, and how that grows with the log."""
    with tempfile.TemporaryDirectory(prefix="splitbrain-recovery-") as name:
        folders: list[tuple[Path, Store]] = []
        replays: list[float] = []
        for commands in sizes:
            folder = Path(name) / str(commands)
            store = asyncio.run(write(folder, commands, keys, log=True))
            replays += medians([(folder, store)], runs=1 if commands > 200_000 else 3)
            asyncio.run(add_checkpoint(folder, store))
            folders.append((folder, store))
        checkpoints = medians(folders)
    for commands, replayed, checkpoint in zip(sizes, replays, checkpoints, strict=True):
        print(
            f"{commands:>10,} commands, {keys:,} keys: replay {replayed:.3f} s, checkpoint {checkpoint * 1000:.1f} ms, "
            f"1/{replayed / checkpoint:,.0f}"
        )
    grown = checkpoints[-1] / checkpoints[0] - 1
    print(f"{sizes[-1]:>10,} commands against {sizes[0]:,}, from a checkpoint: {grown:+.0%}", flush=True)


def growth(sizes: Sequence[int]) -> None:
    """Print how the recovery from a snapshot grows with the number of keys."""
    for keys in sizes:
        with tempfile.TemporaryDirectory(prefix="splitbrain-recovery-") as name:
            store = asyncio.run(write(Path(name), keys, keys, log=False))
            [seconds] = medians([(Path(name), store)], runs=3)
            print(
                f"{keys:>10,} keys, snapshot: {seconds * 1000:,.1f} ms, {seconds / keys * 1e6:.1f} us a key", flush=True
            )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commands", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--growth", type=int, nargs="*", default=[1_000, 10_000, 100_000, 1_000_000], metavar="KEYS")
    given = parser.parse_args()
    compare(sorted(given.commands), given.keys)
    growth(sorted(given.growth))


if __name__ == "__main__":
    main()

"""The index of classic queues on a real disk: publish, recover and convert, in messages per second (CQ-9).

    python benchmarks/classic_index.py [--messages 6000000] [--queues 1000] [--at-once 8] [--body 0] [--mixed]

Messages are divided among queues, each with a folder of its own. They are published and flushed, with a sync of every
segment; then every index is opened, as after a restart; then every file is converted from version 1 to version 2, each
written aside, synced and renamed. One process, one thread for all but the disk; so many queues wait for it at once.
The figure of document S003 is beside it: 6 million messages of 1,000 queues in about 14 s, on three nodes.

`--body` embeds a message of so many bytes in each record, `--mixed` one of 0 to so many.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from splitbrain.cluster.classic import Index, Record, journal, open_index, record
from splitbrain.cluster.real import InWorker, RealDisk

SEED_MESSAGES: Final = 6_000_000
SEED_QUEUES: Final = 1_000
SEED_SECONDS: Final = 14.0
"""What document S003 says of a conversion."""


def records(messages: int, body: int, *, mixed: bool) -> Iterator[Record]:
    """Messages of one queue; of mixed lengths, no two neighbours have the same."""
    for number in range(messages):
        length = number * 7 % (body + 1) if mixed else body
        yield record(number.to_bytes(16, "big"), length, body=bytes(length))


async def timed(name: str, messages: int, step: Callable[[], Coroutine[Any, Any, None]]) -> float:
    """Carry out a step, print what it took, and return its seconds."""
    begun, cpu = time.perf_counter(), time.process_time()
    await step()
    took, used = time.perf_counter() - begun, time.process_time() - cpu
    print(f"{name:<8} {took:>8.2f} {used:>8.2f} {messages / took:>14,.0f} {used / messages * 1e6:>12.3f}", flush=True)
    return took


async def measure(folder: Path, messages: int, queues: int, at_once: int, body: int, *, mixed: bool) -> None:
    """Print a line for each step."""
    workers = [InWorker(asyncio.get_running_loop()) for _ in range(at_once)]
    disks = [RealDisk(folder / str(number), workers[number % at_once]) for number in range(queues)]
    share = messages // queues
    total = share * queues
    indexes: list[Index] = []

    async def for_all(work: Callable[[int], Coroutine[Any, Any, None]]) -> None:
        async def some(first: int) -> None:
            for number in range(first, queues, at_once):
                await work(number)

        await asyncio.gather(*(some(first) for first in range(at_once)))

    async def publish_to(number: int) -> None:
        index = await open_index(disks[number])
        await index.publish_all(records(share, body, mixed=mixed))
        await index.flush()
        index.close()

    async def open_one(number: int) -> None:
        indexes.append(await open_index(disks[number]))

    async def convert_one(number: int) -> None:
        await indexes[number].convert()
        indexes[number].close()

    async def publish() -> None:
        await for_all(publish_to)

    async def recover() -> None:
        await for_all(open_one)
        assert sum(map(len, indexes)) == total, "all are there"

    async def convert() -> None:
        await for_all(convert_one)
        found = [index.versions for index in indexes]
        assert all(version == 2 for each in found for name, version in each.items() if name != journal.NAME)

    print(f"{total:,} messages of {queues:,} queues, {'0 to ' if mixed else ''}{body} bytes embedded")
    print(f"{'step':<8} {'s':>8} {'CPU s':>8} {'messages/s':>14} {'CPU us each':>12}")
    await timed("publish", total, publish)
    await timed("recover", total, recover)
    took = await timed("convert", total, convert)
    for worker in workers:
        worker.close()
    seed = SEED_MESSAGES / SEED_SECONDS
    print(
        f"S003: {SEED_MESSAGES:,} messages of {SEED_QUEUES:,} queues in about {SEED_SECONDS:.0f} s, "
        f"{seed:,.0f} messages/s; this is {total / took / seed:.1f} times that"
    )


def main() -> None:
    """Measure in a folder that is removed afterwards."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=SEED_MESSAGES)
    parser.add_argument("--queues", type=int, default=SEED_QUEUES)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--body", type=int, default=0)
    parser.add_argument("--mixed", action="store_true")
    parser.add_argument("--folder", type=Path, default=None)
    arguments = parser.parse_args()
    if not 1 <= arguments.queues <= arguments.messages or arguments.at_once < 1:
        parser.error("--queues and --at-once are at least 1, and --queues is at most --messages")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        at_once = min(arguments.at_once, arguments.queues)
        how = (arguments.messages, arguments.queues, at_once, arguments.body)
        asyncio.run(measure(Path(folder), *how, mixed=arguments.mixed))


if __name__ == "__main__":
    main()

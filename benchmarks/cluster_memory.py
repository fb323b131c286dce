"""Whether a node holds its memory: resident memory after 1, 3 and 10 million commands over 1,000 keys.

    python benchmarks/cluster_memory.py [--commands 1000000 3000000 10000000] [--keys 1000]

One node that is a cluster of its own, as a process would run it: the client's protocol, consensus, the store, snapshots
and checkpoints, files on a temporary disk. There is no network: requests come from a connection in memory, so many at a
time. Resident memory is that of this process, read from /proc after a full collection of garbage. The last figure is at
most 1.2 times the first, or the benchmark fails.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from splitbrain.cluster import embedded, wire
from splitbrain.cluster.real import InWorker, RealClock, RealDisk, RealRng
from splitbrain.cluster.runtime import Address, Connection
from splitbrain.cluster.tree import Put

AT_ONCE = 256
TIMEOUT_MS = 60_000
GROWTH_MAX = 1.2
_PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_mb() -> float:
    """Resident memory of this process, in MB."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * _PAGE / 1e6


class Commands:
    """A client's connection, as the node sees it: it brings commands, and takes their answers.

    Attributes:
        answered: how many have been, all of them with success.
    """

    def __init__(self, keys: int) -> None:
        self._keys = keys
        self._asked = 0
        self._limit = 0
        self._more = asyncio.Event()
        self._all = asyncio.Event()
        self._hello = False
        self.answered = 0

    async def upto(self, count: int) -> None:
        """Bring commands until so many are answered."""
        self._limit = count
        self._all.clear()
        self._more.set()
        await self._all.wait()

    def give_up(self) -> None:
        """End `upto`: the node has failed."""
        self._all.set()

    async def receive(self) -> bytes:
        """The next command, once few enough are under way."""
        if not self._hello:
            self._hello = True
            return wire.encode(wire.ClientHello(wire.PROTOCOL_VERSION))
        while self._asked == self._limit or self._asked - self.answered >= AT_ONCE:
            self._more.clear()
            await self._more.wait()
        self._asked += 1
        if self._asked % AT_ONCE == 0:
            await asyncio.sleep(0)
        body = Put(("k", str(self._asked % self._keys)), b"%d" % self._asked)
        return wire.encode(wire.Request(self._asked, TIMEOUT_MS, body))

    async def hand_over(self, take: Callable[[bytes], None]) -> None:
        """Hand each command over as soon as there is one."""
        while True:
            take(await self.receive())

    def send(self, message: bytes) -> None:
        """An answer."""
        assert b"done" in message, f"a command failed: {message!r}"
        self.answered += 1
        self._more.set()
        if self.answered == self._limit:
            self._all.set()

    def close(self) -> None:
        """The node closes it when it ends."""


class OneClient:
    """A network on which only a connection in memory comes in."""

    def __init__(self) -> None:
        self.accept: Callable[[Connection], Awaitable[None]] | None = None

    async def connect(self, address: Address) -> Connection:
        """There are no others."""
        raise ConnectionError(f"no node is at {address}")

    async def listen(self, address: Address, accept: Callable[[Connection], Awaitable[None]]) -> None:
        """Note what serves a connection."""
        self.accept = accept


async def measure(folder: Path, counts: Sequence[int], keys: int) -> list[float]:
    """Resident memory after each of these numbers of commands, in MB."""
    loop = asyncio.get_running_loop()
    worker, network = InWorker(loop), OneClient()
    tasks: list[asyncio.Future[None]] = []
    failed: asyncio.Future[None] = loop.create_future()
    commands = Commands(keys)

    def spawn(work: Awaitable[None], _: str) -> None:
        def ended(task: asyncio.Future[None]) -> None:
            tasks.remove(task)
            error = None if task.cancelled() else task.exception()
            if error is not None and not failed.done():
                failed.set_exception(error)
                commands.give_up()

        task = asyncio.ensure_future(work)
        tasks.append(task)
        task.add_done_callback(ended)

    def drop(_: bytes | str) -> None:
        """Telemetry and log are files of a process."""

    runtime = embedded.Runtime(
        clock=RealClock(loop),
        rng=RealRng(),
        network=network,
        disk=RealDisk(folder, worker),
        spawn=spawn,
        telemetry=drop,
        log=drop,
    )
    node = await embedded.start(["--node", "n1", "--listen", "n1:1", "--data", "-"], runtime)
    assert network.accept is not None
    spawn(network.accept(commands), "client")
    found: list[float] = []
    began = time.perf_counter()
    for count in counts:
        await commands.upto(count)
        if failed.done():
            await failed
        found.append(resident_mb())
        seconds = time.perf_counter() - began
        files = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
        print(
            f"{count:>12,} commands  {found[-1]:7.1f} MB resident  {files:6.1f} MB of files  {seconds:6.0f} s",
            flush=True,
        )
    await node.stop()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    worker.close()
    failed.cancel()
    return found


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commands", type=int, nargs="+", default=[1_000_000, 3_000_000, 10_000_000])
    parser.add_argument("--keys", type=int, default=1_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="splitbrain-memory-") as name:
        found = asyncio.run(measure(Path(name), sorted(given.commands), given.keys))
    growth = found[-1] / found[0]
    print(f"the last is {growth:.2f} times the first")
    if growth > GROWTH_MAX:
        raise SystemExit(f"it may be {GROWTH_MAX} times: something grows with the commands")


if __name__ == "__main__":
    main()

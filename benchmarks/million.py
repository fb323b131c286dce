"""A tree of a million nodes: how a member joins, what it holds, and whether heartbeats go on while a node is at work.

    python benchmarks/million.py [--nodes 1000000] [--folder DIR]

Nodes are processes of this machine on loopback, with real syncs. Three of them begin; transactions of 200 puts each
fill the tree with `--nodes` nodes below a thousand parents. Then, one after the other: a projection of all of them is
built, all of them are counted (a fold), written down as a snapshot, and a fourth node joins, which has nothing.

Every 20 ms each node is asked for its status. It is answered by the same event loop that sends heartbeats, so the
longest time without an answer of the leader, plus the interval of heartbeats, bounds the gap between two of them. On a
busy machine that is also the time for which others had its CPU; what the leader itself computed is its CPU time
between two answers. The benchmark fails if that was longer than the shortest election timeout less the interval, or if
any election was held; if it took longer than 60 s until the new member had all that was committed when it began; if any
node ever held more than 2 GB (its peak); or if a record of the joined node is not what its tree holds (all of them are
compared).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.throughput_clients import dial
from benchmarks.throughput_servers import HOST, ROOT, free_ports
from splitbrain.cluster.client import Client, ClientError, NodeStatus, UnavailableError, connect
from splitbrain.cluster.embedded import ELECTION_MS, HEARTBEAT_MS, NEWEST_VERSION
from splitbrain.results.errors import HarnessError

PARENTS: Final = 1_000
PUTS: Final = 200
"""Of one transaction."""

AT_ONCE: Final = 4
"""Transactions under way."""

POLL_S: Final = 0.02
TIMEOUT_MS: Final = 60_000
JOINS_WITHIN_S: Final = 60.0
PEAK_MAX_MB: Final = 2_000.0
TABLE: Final = "items_v1"
FOUNDERS: Final = 3
JOINER: Final = 3


class Nodes:
    """Four nodes, of which three are founders and run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.ports = free_ports(FOUNDERS + 1)
        self.processes: list[subprocess.Popen[bytes]] = []
        for number in range(FOUNDERS):
            self.start(number)

    def start(self, number: int) -> None:
        """Start the next node."""
        options = ["--node", f"n{number}", "--listen", f"{HOST}:{self.ports[number]}"]
        options += ["--data", str(self._folder / f"data-{number}"), "--founders", "n0,n1,n2"]
        for other, port in enumerate(self.ports):
            if other != number:
                options += ["--peer", f"n{other}={HOST}:{port}"]
        with self.log(number).open("ab") as log:
            command = [sys.executable, "-m", "splitbrain.cluster", *options]
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT))

    def log(self, number: int) -> Path:
        """What a node has printed."""
        return self._folder / f"log-{number}"

    async def client(self, number: int) -> Client:
        """A connection to a node, once it answers."""
        until = time.perf_counter() + 20
        while True:
            try:
                return await connect(await dial(self.ports[number]))
            except (OSError, ClientError):
                if time.perf_counter() > until:
                    raise
                await asyncio.sleep(POLL_S)

    def peak_mb(self, number: int) -> float:
        """The most resident memory that a node has had."""
        status = Path(f"/proc/{self.processes[number].pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
        return int(line.split()[1]) * 1024 / 1e6

    def stop(self) -> None:
        """Stop all nodes."""
        for process in self.processes:
            process.kill()
            process.wait()


class Watch:
    """Asks a node for its status without a pause.

    Attributes:
        longest_s: the longest time between two answers.
        own_s: the longest CPU time of the node between two answers.
        status: the last answer.
    """

    def __init__(self, client: Client, pid: int) -> None:
        self._client = client
        self._pid = pid
        self._last = (0.0, 0.0)
        self.longest_s = 0.0
        self.own_s = 0.0
        self.status: NodeStatus | None = None

    @contextlib.asynccontextmanager
    async def going_on(self) -> AsyncGenerator[Watch]:
        """While the context lasts."""
        self._last = self._now()
        task = asyncio.ensure_future(self._watch())
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._answered()

    async def _watch(self) -> None:
        while True:
            self.status = await self._client.status()
            self._answered()
            await asyncio.sleep(POLL_S)

    def _answered(self) -> None:
        before, self._last = self._last, self._now()
        self.longest_s = max(self.longest_s, self._last[0] - before[0])
        self.own_s = max(self.own_s, self._last[1] - before[1])

    def _now(self) -> tuple[float, float]:
        """The time, and the CPU time of the node's main thread, in seconds."""
        on_cpu_ns = Path(f"/proc/{self._pid}/task/{self._pid}/schedstat").read_text().split()[0]
        return time.perf_counter(), int(on_cpu_ns) / 1e9


class Bench:
    """The steps, on running nodes."""

    def __init__(self, nodes: Nodes, count: int) -> None:
        self._nodes = nodes
        self._count = count
        self._failures: list[str] = []
        self._rows: list[str] = []
        self._leader = 0
        self._term = 0

    async def run(self) -> list[str]:
        """Carry out all steps, and print; what failed."""
        client = await self._found_leader()
        print("| step | s | longest without an answer, ms: leader | others | of that own CPU: leader | peak, MB |")
        print("| --- | --- | --- | --- | --- | --- |", flush=True)
        async with self._step("fill"):
            await self._fill(client)
        self._failures = []  # elections on a busy machine, before there is anything to measure
        client = await self._found_leader()
        async with self._step("build a projection"):
            await client.register_projection(TABLE, "/items/*/*", tables={TABLE: "bag"}, timeout_ms=TIMEOUT_MS)
            await self._built(client)
        async with self._step("count all (a fold)"):
            found = await client.count("/items/*/*", mode="local", timeout_ms=TIMEOUT_MS)
        if found != self._count:
            self._failures.append(f"{found} nodes were counted, not {self._count}")
        async with self._step("write a snapshot"):
            await client.snapshot(timeout_ms=TIMEOUT_MS)
        begun_s = time.perf_counter()
        async with self._step("join"):
            joined = await self._join(client)
        if time.perf_counter() - begun_s > JOINS_WITHIN_S:
            self._failures.append(f"the join took longer than {JOINS_WITHIN_S:g} s")
        if "took over the leader's snapshot" not in self._nodes.log(JOINER).read_text():
            self._failures.append("the node joined without a snapshot")
        async with self._step("build the projection of the joined node"):
            await self._built(joined)
        async with self._step("compare the projection of the joined node with its tree"):
            await self._compare(joined)
        peak = max(map(self._nodes.peak_mb, range(len(self._nodes.processes))))
        if peak > PEAK_MAX_MB:
            self._failures.append(f"a node held {peak:,.0f} MB")
        return self._failures

    async def _found_leader(self) -> Client:
        until = time.perf_counter() + 20
        while time.perf_counter() < until:
            for number in range(FOUNDERS):
                client = await self._nodes.client(number)
                status = await client.status()
                if status.role == "leader" and status.machine_version == NEWEST_VERSION:
                    self._leader, self._term = number, status.term
                    return client
                await client.close()
            await asyncio.sleep(0.1)
        raise HarnessError("there is no leader after 20 s.")

    @contextlib.asynccontextmanager
    async def _step(self, name: str) -> AsyncGenerator[None]:
        numbers = range(len(self._nodes.processes))
        clients = [await self._nodes.client(number) for number in numbers]
        watches = [Watch(client, self._nodes.processes[number].pid) for number, client in enumerate(clients)]
        begun_s = time.perf_counter()
        async with contextlib.AsyncExitStack() as stack:
            for watch in watches:
                await stack.enter_async_context(watch.going_on())
            yield
            took_s = time.perf_counter() - begun_s
        leads, others = watches[self._leader], [each for number, each in enumerate(watches) if number != self._leader]
        peak = max(map(self._nodes.peak_mb, range(len(self._nodes.processes))))
        silent, own = leads.longest_s * 1000, leads.own_s * 1000
        of_others = max(each.longest_s for each in others) * 1000
        print(f"| {name} | {took_s:.1f} | {silent:.0f} | {of_others:.0f} | {own:.0f} | {peak:,.0f} |", flush=True)
        if own > ELECTION_MS - HEARTBEAT_MS:
            self._failures.append(f"{name}: the leader computed for {own:.0f} ms without an answer")
        terms = {watch.status.term for watch in watches if watch.status is not None}
        if terms != {self._term}:
            self._failures.append(f"{name}: there was an election: terms {sorted(terms)} after {self._term}")
        for client in clients:
            await client.close()

    async def _fill(self, client: Client) -> None:
        each = self._count // PARENTS
        parts = iter([(parent, first) for parent in range(PARENTS) for first in range(0, each, PUTS)])

        async def fill() -> None:
            for parent, first in parts:
                numbers = range(first, min(first + PUTS, each))
                steps = [["put", f"/items/p{parent}/i{n}", [parent, n, f"value-{n:08}"]] for n in numbers]
                while True:
                    try:
                        await client.transaction("steps", 1, steps, "write", timeout_ms=TIMEOUT_MS)
                        break
                    except ClientError as error:  # as where an election was held; to put again does no harm
                        print(f"(again, after: {error})", flush=True)
                        await asyncio.sleep(0.5)

        await asyncio.gather(*(fill() for _ in range(AT_ONCE)))

    async def _built(self, client: Client) -> None:
        while True:
            try:
                await client.look_up(TABLE, 0)
            except UnavailableError:
                await asyncio.sleep(POLL_S)
            else:
                return

    async def _join(self, client: Client) -> Client:
        """Take in a node that has nothing; its connection, once it has all."""
        wanted = (await client.status()).applied_index
        self._nodes.start(JOINER)
        joined = await self._nodes.client(JOINER)
        await client.add_member(f"n{JOINER}", timeout_ms=TIMEOUT_MS)
        while (await joined.status()).applied_index < wanted:
            await asyncio.sleep(POLL_S)
        return joined

    async def _compare(self, joined: Client) -> None:
        differing = 0
        for parent in range(PARENTS):
            nodes = await joined.get_nodes(f"/items/p{parent}/*", mode="local", timeout_ms=TIMEOUT_MS)
            records = await joined.look_up(TABLE, parent)
            held, expected = sorted(map(list, records.records)), sorted(node.value for node in nodes.nodes)
            differing += held != expected or len(held) != self._count // PARENTS
        if differing:
            self._failures.append(f"of {differing} parents the joined node's records are not those of its tree")


async def main(words: Sequence[str]) -> int:
    """Carry it out; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="for the files of the nodes, kept afterwards; else a temporary one")
    given = parser.parse_args(words)
    with contextlib.ExitStack() as stack:
        folder: Path | None = given.folder
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        nodes = Nodes(folder)
        stack.callback(nodes.stop)
        failures = await Bench(nodes, given.nodes // PARENTS * PARENTS).run()
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))

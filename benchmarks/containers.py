"""The metadata cluster beside etcd, both in containers, under the same load and the same faults: one table.

    python benchmarks/containers.py [--quick] [--rounds 5] [--sizes 3,5] [--images]

Each round deploys one system after the other (metadata, etcd, metadata, etcd, ...) on three and on five nodes, so that
other load on the machine affects both. It measures:

- up: from the first step of the deployment until all nodes follow one leader, each has answered a linearizable read,
  and one write was ok. Images are there already. The goal for five nodes is 10 s.
- load: 1 and 10 clients, writes, then linearizable reads, each client on a key of its own with one request under way.
  A single client talks to the leader; of ten, the first does, and the others are spread over all nodes in turn.
- failover: from the moment when the leader's death (SIGKILL) or its isolation (all its links cut, both ways) is ordered
  until the first write is ok that was sent, through any other node, after the fault was confirmed. It includes what the
  engine takes to kill (below the table). Every other node is asked by two clients that give a write up after
  250 ms, so that one that is lost hides the recovery for so long at most.

What is the same: both are Raft with pre-vote, heartbeats every 100 ms and reads by read index. Data lie on the same
file system of this machine, bound into the containers. Both acknowledge a write only after fdatasync on a majority, and
sync what arrives during one sync with the next. --syncs counts that: it follows the leader with strace, 1 client.

What differs, and is to be kept in mind:

- Election timeouts, each system's default: metadata 0.6 to 1.2 s, etcd 1 to 2 s. Failover follows them more than
  anything else. --election-ms 1000 gives metadata etcd's.
- etcd is asked through its JSON gateway, which costs it a second hop (HTTP and JSON to gRPC) within the node, and the
  client more time than metadata's own framed protocol. Over gRPC it would be faster.
- The load comes from one Python process on the same machine. Where it is busy near 100 % (shown), it is what limits.
- etcd allocates its log in advance, so that a sync need not write the file's size; metadata appends to a growing file.
  etcd also commits its database to disk, every 100 ms while there are writes. Metadata keeps its tree in memory and its
  log for ever; and it writes telemetry, which it does not sync.
- etcd is Go and uses every core; a node of metadata is one Python process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.container_figures import (
    FAULTS,
    IMAGES_GOAL_S,
    LOADS,
    SYSTEMS,
    F,
    Fault,
    Load,
    Round,
    against,
    remarks,
    table,
)
from benchmarks.syncs import ATTACHES_WITHIN_S, SyncCounter, sync_ms
from splitbrain import KEY_VALUE, DefiniteError, IndefiniteError, KeyValue, Runtime, System, Test, need, real_runtime
from splitbrain.harness import images
from splitbrain.harness.backends.docker import DockerBackend
from splitbrain.harness.backends.docker.deployment import DockerDeployment
from splitbrain.harness.contract.nodes import NodeCommand, NodeId, NodePlace
from splitbrain.harness.images.build import Built, build, choose_foundation
from splitbrain.harness.images.catalogue import Image
from splitbrain.harness.images.survey import survey
from splitbrain.harness.running.deadlines import together
from splitbrain.harness.running.recovery import until_usable
from splitbrain.harness.systems.etcd import Etcd
from splitbrain.harness.systems.metadata import Metadata
from splitbrain.nemesis.compose import package
from splitbrain.results.errors import HarnessError, SplitbrainError
from splitbrain.workloads.register import register

USABLE_WITHIN_S: Final = 60.0
WARM_UP_S: Final = 0.5
PROBE_GIVES_UP_MS: Final = 250
PROBE_PAUSE_S: Final = 0.01
PROBES_PER_NODE: Final = 2
FAILOVER_WITHIN_S: Final = 60.0
IN_MEMORY_MS: Final = 0.01
"""No disk syncs as fast as this: the file system is in memory."""


@dataclass(frozen=True)
class Plan:
    """How much to measure in a round."""

    load_s: float
    failovers: int
    election_ms: int | None
    syncs: bool


class MetadataWithElections(Metadata):
    """The metadata cluster with election timeouts from `election_ms` to twice that."""

    def __init__(self, election_ms: int) -> None:
        super().__init__()
        self._election_ms = election_ms

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        """How to start the node that lives at `place`."""
        command = super().command(test, place)
        return msgspec.structs.replace(command, argv=(*command.argv, "--election-ms", str(self._election_ms)))


# --- one deployment -------------------------------------------------------------------------------------------------


class Bench:
    """One deployed system that is measured."""

    def __init__(self, test: Test, deployment: DockerDeployment, runtime: Runtime, probing: System) -> None:
        self._test = test
        self._deployment = deployment
        self._runtime = runtime
        self._probing = probing
        self._written = 0

    async def bring_up(self) -> None:
        """Start the nodes, wait until they are usable, and write once."""
        for started in await together([self._deployment.start(node) for node in self._test.nodes]):
            if isinstance(started, Exception):
                raise started
        await self._settle()
        async with self._session(self._test.system, self._test.nodes[0]) as session:
            await self._do(session, "write", "first")

    async def load(self, f: F, clients: int, seconds: float, *, syncs: bool) -> Load:
        """Let clients do one thing for so long.

        Raises:
            HarnessError: nothing was ok.
        """
        leader = await self._leader()
        nodes = [leader, *(node for node in self._test.nodes if node != leader)]
        counter = SyncCounter(await self._pid(leader)) if syncs else None
        if counter is not None:
            await asyncio.sleep(ATTACHES_WITHIN_S)
        begin = time.perf_counter() + WARM_UP_S
        end = begin + seconds
        ops, in_time, failed = 0, 0, 0
        took_s: list[float] = []

        async def client(number: int) -> None:
            nonlocal ops, in_time, failed
            async with self._session(self._test.system, nodes[number % len(nodes)]) as session:
                while (sent := time.perf_counter()) < end:
                    try:
                        await self._do(session, f, f"key{number}")
                    except (DefiniteError, IndefiniteError):
                        failed += 1
                        continue
                    done = time.perf_counter()
                    ops += 1
                    in_time += begin <= done <= end
                    if sent >= begin:
                        took_s.append(done - sent)  # also of an op that ends late: a stall is not to be hidden

        async def busy() -> float:
            await asyncio.sleep(begin - time.perf_counter())
            cpu_s, wall_s = time.process_time(), time.perf_counter()
            await asyncio.sleep(seconds)
            return (time.process_time() - cpu_s) / (time.perf_counter() - wall_s)

        share = asyncio.ensure_future(busy())
        try:
            await asyncio.gather(*(client(number) for number in range(clients)))
        finally:
            counted = counter.stop() if counter is not None else None
        if len(took_s) < 2:
            raise HarnessError(f"{self._test.system.name}: {f}s by {clients} clients: none was ok, {failed} failed.")
        cuts = statistics.quantiles(took_s, n=100, method="inclusive")
        return Load(
            ops_per_s=in_time / seconds,
            p50_ms=cuts[49] * 1e3,
            p99_ms=cuts[98] * 1e3,
            busy=await share,
            failed=failed,
            syncs_per_op=None if counted is None else counted / ops,
        )

    async def failover(self, fault: Fault) -> tuple[float, float]:
        """Seconds without a leader that can be used, and how many of them passed until the fault was confirmed."""
        leader = await self._leader()
        others = [node for node in self._test.nodes if node != leader]
        began = time.perf_counter()
        if fault == "kill -9":
            await self._deployment.kill(leader)
        else:
            links = frozenset((a, b) for node in others for a, b in ((leader, node), (node, leader)))
            await self._deployment.cut(links)
        confirmed = time.perf_counter()
        recovered = await self._first_ok(others)
        if fault == "kill -9":
            await self._deployment.start(leader)
        else:
            if not sum((await self._deployment.dropped()).values()):
                raise HarnessError(f"{leader} was cut off, but no packet was dropped: nothing was measured.")
            await self._deployment.cut(frozenset())
        await self._settle()
        return recovered - began, confirmed - began

    async def _first_ok(self, nodes: Sequence[NodeId]) -> float:
        """When the first write was ok."""
        each_s = PROBE_GIVES_UP_MS / 1e3 / PROBES_PER_NODE

        async def probe(node: NodeId, number: int) -> float:
            await asyncio.sleep(number * each_s)
            async with self._session(self._probing, node) as session:
                while True:
                    with contextlib.suppress(DefiniteError, IndefiniteError):
                        await self._do(session, "write", f"probe-{node}-{number}")
                        return time.perf_counter()
                    await asyncio.sleep(PROBE_PAUSE_S)

        probes = [asyncio.ensure_future(probe(node, number)) for node in nodes for number in range(PROBES_PER_NODE)]
        try:
            done, _ = await asyncio.wait(probes, timeout=FAILOVER_WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                raise HarnessError(f"{self._test.system.name}: no write was ok within {FAILOVER_WITHIN_S:g} s.")
            return min([task.result() for task in done])
        finally:
            for task in probes:
                task.cancel()
            await asyncio.gather(*probes, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def _session(self, system: System, node: NodeId) -> AsyncGenerator[KeyValue]:
        session = await system.connect(self._deployment, node)
        try:
            yield need(session, KEY_VALUE, system.name)
        finally:
            await session.close()

    async def _do(self, session: KeyValue, f: F, key: str) -> None:
        if f == "read":
            await session.read(key)
        else:
            self._written += 1
            await session.write(key, self._written)

    async def _settle(self) -> None:
        usable = await until_usable(self._test, self._deployment, self._runtime.clock, USABLE_WITHIN_S)
        if usable.seconds is None:
            raise HarnessError(f"{self._test.system.name} is not usable: {usable.problems}")

    async def _leader(self) -> NodeId:
        await self._settle()
        view = await self._test.system.view(self._deployment, self._test.nodes[0])
        if view is None or view.leader is None:
            raise HarnessError(
                f"{self._test.system.name} has lost its leader without a fault: is the machine too busy?"
            )
        return view.leader

    async def _pid(self, node: NodeId) -> int:
        return int((await self._deployment.status(node)).evidence["pid"])


async def measure(name: str, size: int, seed: int, plan: Plan, folder: Path) -> Round:
    """Deploy a system once and measure everything."""
    nodes = tuple(f"n{number}" for number in range(1, size + 1))
    ours = Metadata() if plan.election_ms is None else MetadataWithElections(plan.election_ms)
    system: System = ours if name == "metadata" else Etcd()
    probing: System = (Metadata if name == "metadata" else Etcd)(request_timeout_ms=PROBE_GIVES_UP_MS)
    test = Test(
        name="containers",
        seed=seed,
        nodes=nodes,
        system=system,
        workload=register(nodes=nodes, concurrency=10),
        nemesis=package("none", ()),
    )
    runtime = real_runtime(seed)
    began = time.perf_counter()
    deployment = await DockerBackend().deploy(test, folder, runtime)
    try:
        bench = Bench(test, deployment, runtime, probing)
        await bench.bring_up()
        found = Round(time.perf_counter() - began)
        for f, clients in LOADS:
            syncs = plan.syncs and clients == 1
            found.loads[f, clients] = await bench.load(f, clients, plan.load_s, syncs=syncs)
        for fault in FAULTS:
            found.failovers[fault] = [await bench.failover(fault) for _ in range(plan.failovers)]
    finally:
        await deployment.close()
    return found


# --- images ---------------------------------------------------------------------------------------------------------


def build_images() -> list[str]:
    """Build the images anew, from Debian's packages on; a line for each, and how long all took."""
    lines: list[str] = []
    said: list[str] = []  # what builds say is of no interest unless they fail, and then the error has it
    began = last = time.perf_counter()

    def begin(image: Image) -> Callable[[str], None]:
        print(f"building {image.name}", file=sys.stderr, flush=True)
        return said.append

    def done(built: Built) -> None:
        nonlocal last
        now = time.perf_counter()
        lines.append(f"image {built.name}: built in {now - last:.1f} s")
        last = now

    with contextlib.closing(images.engine()) as client:
        build(client, ["node", "etcd"], choose_foundation(client, None, None), begin, done, rebuild=True)
    took_s = last - began
    return [*lines, f"all images, cold: {took_s:.1f} s (goal {IMAGES_GOAL_S:g} s: {against(took_s, IMAGES_GOAL_S)})"]


def present_images() -> list[str]:
    """What the engine has; a line for each."""
    with contextlib.closing(images.engine()) as client:
        return [
            f"image {each.name}: {each.state}, {each.size_bytes / 1e6:.0f} MB, built {each.built_at[:19] or 'never'}"
            for each in survey(client)
            if each.name in {"base", "node", "etcd"}
        ]


# --- the command ----------------------------------------------------------------------------------------------------


async def measure_all(
    sizes: Sequence[int], rounds: int, plan: Plan, folder: Path
) -> dict[tuple[int, str], list[Round]]:
    """All rounds, the systems in turn."""
    found: dict[tuple[int, str], list[Round]] = {(size, name): [] for size in sizes for name in SYSTEMS}
    for number in range(1, rounds + 1):
        for size, name in found:
            began = time.perf_counter()
            done = await measure(name, size, number, plan, folder / f"{number}-{name}-{size}")
            found[size, name].append(done)
            took_s = time.perf_counter() - began
            line = (
                f"round {number} of {rounds}: {name}, {size} nodes: up in {done.up_s:.1f} s, measured in {took_s:.0f} s"
            )
            print(line, file=sys.stderr, flush=True)
    return found


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short round of each")
    parser.add_argument("--rounds", type=int, default=5, help="how often each system is deployed per size (5)")
    parser.add_argument("--load-s", type=float, default=5.0, help="how long each load lasts, after its warm-up (5)")
    parser.add_argument("--failovers", type=int, default=3, help="how often each fault is injected in a round (3)")
    parser.add_argument("--sizes", default="3,5", help="numbers of nodes (3,5)")
    parser.add_argument(
        "--election-ms", type=int, help="metadata's shortest election timeout; the longest is twice that"
    )
    parser.add_argument(
        "--syncs", action="store_true", help="count the leader's syncs, 1 client (slower; needs strace)"
    )
    parser.add_argument("--images", action="store_true", help="build the images anew first, and say how long it took")
    parser.add_argument("--dir", type=Path, help="folder for the nodes' data, on a disk (the one for temporary files)")
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    if min(sizes) < 3 or min(options.rounds, options.failovers) < 1 or options.load_s <= 0:
        parser.error("give three nodes or more, and at least one round and failover: failover needs a majority.")
    if options.syncs and shutil.which("strace") is None:
        parser.error("--syncs needs strace: apt install strace.")
    rounds, plan = options.rounds, Plan(options.load_s, options.failovers, options.election_ms, options.syncs)
    if options.quick:
        rounds, plan = 1, Plan(1.5, 1, options.election_ms, options.syncs)
    try:
        with tempfile.TemporaryDirectory(prefix="splitbrain-containers-", dir=options.dir) as folder:
            disk_ms = sync_ms(Path(folder))
            if disk_ms < IN_MEMORY_MS:
                parser.error(f"{folder} is in memory, where syncs cost nothing: give --dir a folder on a disk.")
            load_before = os.getloadavg()[0]
            DockerBackend().sweep()
            about_images = build_images() if options.images else present_images()
            found = asyncio.run(measure_all(sizes, rounds, plan, Path(folder)))
    except SplitbrainError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    lasts = f"loads of {plan.load_s:g} s after {WARM_UP_S:g} s of warm-up"
    print(f"\n{rounds} rounds, medians; {lasts}; a sync of 200 bytes takes {disk_ms:.2f} ms;")
    print(f"{os.cpu_count()} CPUs, load average {load_before:.1f} before, {os.getloadavg()[0]:.1f} after.\n")
    print("\n".join([*table(found), "", *remarks(found), *about_images]))


if __name__ == "__main__":
    main()

"""Clusters of local processes for benchmarks of the metadata cluster, and what CPU time they take."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

from benchmarks.throughput_clients import TIMEOUT_MS, BareOfEtcd, OfEtcd, OfMetadata, Open, Port, dial
from splitbrain.cluster.client import ClientError, connect
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.systems.etcd.gateway import Gateway
from splitbrain.harness.systems.etcd.messages import Nothing, StatusAnswer
from splitbrain.harness.systems.etcd.system import ELECTION_MS, HEARTBEAT_MS
from splitbrain.results.errors import HarnessError

ROOT: Final = Path(__file__).resolve().parent.parent
HOST: Final = "127.0.0.1"
LEADS_WITHIN_S: Final = 20.0
STOPS_WITHIN_S: Final = 10.0
POLL_S: Final = 0.1

Kind: TypeAlias = Literal["metadata", "etcd"]

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


class Cluster:
    """Running nodes, each a process of this machine, on loopback.

    Args:
        kind: of what.
        size: how many nodes.
        folder: for their files; on a disk.
        checkout: of which the metadata cluster is; this one unless given.
        sampled: write down where each node's CPU time goes (`benchmarks.sampled_node`), in files `samples-N`.
    """

    def __init__(self, kind: Kind, size: int, folder: Path, *, checkout: Path = ROOT, sampled: bool = False) -> None:
        self._kind: Kind = kind
        self._folder = folder
        self.ports = free_ports(size)
        folder.mkdir()
        peer_ports = free_ports(size)
        # An installed package must not take the place of the checkout.
        self._environment = {**os.environ, "PYTHONPATH": str(checkout)}
        self._checkout = checkout
        self._commands: list[list[str]] = []
        for number in range(size):
            if kind == "etcd":
                command = _etcd(folder, number, self.ports, peer_ports)
            else:
                program = ("benchmarks.sampled_node", str(self.samples(number))) if sampled else ("splitbrain.cluster",)
                command = [sys.executable, "-m", *program, *_metadata(folder, number, self.ports)]
            self._commands.append(command)
        self._processes = [self._started(number) for number in range(size)]

    def _started(self, number: int) -> subprocess.Popen[bytes]:
        with self.log(number).open("ab") as log:
            return subprocess.Popen(
                self._commands[number], stdout=log, stderr=log, env=self._environment, cwd=self._checkout
            )

    def log(self, number: int) -> Path:
        """What a node has printed."""
        return self._folder / f"log-{number}"

    def kill(self, number: int) -> None:
        """Kill a node with SIGKILL."""
        self._processes[number].kill()
        self._processes[number].wait()

    def start(self, number: int) -> None:
        """Start a node that was killed."""
        self._processes[number] = self._started(number)

    def samples(self, number: int) -> Path:
        """Where a node that is sampled writes what it counted."""
        return self._folder / f"samples-{number}"

    async def leader(self) -> int:
        """The number of the node that leads, once all nodes follow it.

        Raises:
            HarnessError: a node ended, or there was no leader in time.
        """
        until = time.monotonic() + LEADS_WITHIN_S
        while time.monotonic() < until:
            for number, process in enumerate(self._processes):
                if process.poll() is not None:
                    raise HarnessError(f"node {number} of {self._kind} ended: see {self._folder}/log-{number}.")
            with contextlib.suppress(OSError, ClientError, DefiniteError, IndefiniteError):
                views = [await self._view(port) for port in self.ports]
                leading = [number for number, (leads, _) in enumerate(views) if leads]
                if len(leading) == 1 and len({leader for _, leader in views}) == 1:
                    return leading[0]
            await asyncio.sleep(POLL_S)
        raise HarnessError(f"{self._kind} has no leader after {LEADS_WITHIN_S:g} s: see the logs in {self._folder}.")

    async def _view(self, port: Port) -> tuple[bool, object]:
        """Whether the node leads, and who does."""
        if self._kind == "etcd":
            gateway = await Gateway.open(lambda: dial(port), TIMEOUT_MS)
            try:
                status = await gateway.call("maintenance/status", Nothing(), StatusAnswer)
            finally:
                await gateway.close()
            return status.leader == status.header.member_id, status.leader or port
        client = await connect(await dial(port))
        try:
            found = await client.status()
        finally:
            await client.close()
        return found.role == "leader", found.leader or port

    def cpu_s(self) -> list[float]:
        """The CPU seconds of each node so far, of all its threads, also those spent in the kernel."""
        return [_cpu_s(process.pid) for process in self._processes]

    def stop(self) -> None:
        """Stop all nodes in good order."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(STOPS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.asynccontextmanager
async def running(
    kinds: Mapping[str, tuple[Kind, Path]], size: int, folder: Path, *, sampled: bool = False
) -> AsyncGenerator[dict[str, Cluster]]:
    """A cluster of each of these (kind and checkout, by name), up at the same time; gone afterwards."""
    clusters: dict[str, Cluster] = {}
    try:
        for name, (kind, checkout) in kinds.items():
            clusters[name] = Cluster(kind, size, folder / f"{name}-{size}", checkout=checkout, sampled=sampled)
        for cluster in clusters.values():
            await cluster.leader()
        yield clusters
    finally:
        for cluster in clusters.values():
            cluster.stop()


def client_of(kind: Kind, *, bare: bool) -> Open:
    """How a client of a node of this kind is opened."""
    if kind == "metadata":
        return OfMetadata.open
    return BareOfEtcd.open if bare else OfEtcd.open


def _metadata(folder: Path, number: int, ports: Sequence[Port]) -> list[str]:
    peers = [(f"n{other}", port) for other, port in enumerate(ports) if other != number]
    options = ["--node", f"n{number}", "--listen", f"{HOST}:{ports[number]}", "--data", str(folder / f"data-{number}")]
    return options + [word for name, port in peers for word in ("--peer", f"{name}={HOST}:{port}")]


def _etcd(folder: Path, number: int, ports: Sequence[Port], peer_ports: Sequence[Port]) -> list[str]:
    """As `splitbrain.harness.systems.etcd` starts it, on loopback."""
    found = shutil.which("etcd")
    if found is None:
        raise HarnessError("there is no 'etcd' on this machine (Debian and Ubuntu: apt install etcd-server).")
    clients, own = f"http://{HOST}:{ports[number]}", f"http://{HOST}:{peer_ports[number]}"
    options = {
        "name": f"n{number}",
        "data-dir": str(folder / f"data-{number}"),
        "listen-client-urls": clients,
        "advertise-client-urls": clients,
        "listen-peer-urls": own,
        "initial-advertise-peer-urls": own,
        "initial-cluster": ",".join(f"n{other}=http://{HOST}:{port}" for other, port in enumerate(peer_ports)),
        "initial-cluster-state": "new",
        "heartbeat-interval": str(HEARTBEAT_MS),
        "election-timeout": str(ELECTION_MS),
        "logger": "zap",
        "log-outputs": "stderr",
    }
    return [found, *(word for name, value in options.items() for word in (f"--{name}", value))]


def free_ports(count: int) -> list[Port]:
    """Ports of this machine that nothing listens at."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in sockets:
            sock.bind((HOST, 0))
        return [sock.getsockname()[1] for sock in sockets]


def _cpu_s(pid: int) -> float:
    # The name of the program, in brackets, may have spaces in it.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

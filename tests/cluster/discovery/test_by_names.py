"""Node processes that find each other by a real name server: dnsmasq, in a network namespace of the test's own."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from splitbrain import cluster
from splitbrain.cluster.discovery.dns import Dns
from splitbrain.cluster.discovery.nameservers import NameServers
from splitbrain.cluster.discovery.seen import Peer
from splitbrain.harness.backends.agent import syscalls
from tests.cluster.discovery.members import members_at
from tests.cluster.support import Draws

pytestmark = pytest.mark.slow

ROOT = Path(cluster.__path__[0]).parent
PORT = 7101
NAME_SERVER = "127.0.0.1"
SERVICE = "nodes.default.svc.cluster.local"


class Town:
    """A name server, which is that of every process here, and nodes with addresses of their own.

    Args:
        home: for files.
        addresses: of the nodes, by name: the name server leads from SERVICE to all, and from each to NODE.SERVICE.
    """

    def __init__(self, home: Path, addresses: Mapping[str, str]) -> None:
        self.addresses = addresses
        self._home = home
        self._running: list[subprocess.Popen[bytes]] = []
        hosts, self._resolv = home / "hosts", home / "resolv.conf"
        hosts.write_text("".join(f"{address} {name}.{SERVICE} {SERVICE}\n" for name, address in addresses.items()))
        self._resolv.write_text(f"nameserver {NAME_SERVER}\n")
        server = ["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts"]
        server += ["--pid-file=", "--user=root", "--bind-interfaces", f"--listen-address={NAME_SERVER}"]
        self._server = self._spawn("dnsmasq", [*server, f"--addn-hosts={hosts}", "--log-facility=-"])

    def _spawn(self, name: str, argv: list[str]) -> subprocess.Popen[bytes]:
        script = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'
        whole = ["unshare", "--mount", "sh", "-c", script, str(self._resolv), *argv]
        with (self._home / f"{name}.log").open("ab") as log:
            self._running.append(subprocess.Popen(whole, stderr=log, stdout=log, cwd=ROOT))
        return self._running[-1]

    def start(self, name: str, *arguments: str) -> None:
        """Start a node that has no name server but that of its resolv.conf."""
        argv = [sys.executable, "-m", "splitbrain.cluster", "--node", name, "--data", str(self._home / name)]
        self._spawn(name, [*argv, "--listen", f"{self.addresses[name]}:{PORT}", *arguments])

    async def until_it_answers(self) -> None:
        """Until the name server does."""
        while True:
            assert self._server.poll() is None, self.log("dnsmasq")
            try:
                _, writer = await asyncio.open_connection(NAME_SERVER, 53)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return

    async def until_whole(self) -> None:
        """Until each node sees all as voters; fails if a process ends."""
        while {await members_at((host, PORT)) for host in self.addresses.values()} != {tuple(self.addresses)}:
            for process in self._running:
                assert process.poll() is None, "\n".join(map(self.log, self.addresses))
            await asyncio.sleep(0.1)

    def log(self, name: str) -> str:
        """What a process said."""
        return (self._home / f"{name}.log").read_text()

    def close(self) -> None:
        """End all processes."""
        for process in self._running:
            process.kill()
            process.wait()


@contextmanager
def alone() -> Generator[None]:
    """Have sockets and processes that are made meanwhile in a network namespace of their own."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        syscalls.unshare(syscalls.CLONE_NEWNET)
        try:
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            yield
        finally:
            syscalls.set_network_namespace(home)
    finally:
        os.close(home)


@contextmanager
def town(home: Path, addresses: Mapping[str, str]) -> Generator[Town]:
    """A town whose name server answers; what the test does meanwhile is done in it."""
    if shutil.which("dnsmasq") is None or os.geteuid() != 0:
        pytest.skip("there is no dnsmasq on this machine, or this is not root: a name server of one's own needs both")
    with alone():
        made = Town(home, addresses)
        try:
            asyncio.run(made.until_it_answers())
            yield made
        finally:
            made.close()


def test_dnsmasq_lists_more_nodes_than_a_datagram_holds(tmp_path: Path) -> None:
    many = {f"n{number}": f"127.0.1.{number}" for number in range(1, 101)}
    with town(tmp_path, many):
        backend = Dns(NameServers(((NAME_SERVER, 53),), Draws(1)), SERVICE, PORT)
        listed = asyncio.run(backend.list_nodes()).peers
        assert set(listed) == {Peer(name, (f"{name}.{SERVICE}", PORT)) for name in many}


def test_processes_that_know_one_name_form_a_cluster_by_dns(tmp_path: Path) -> None:
    with town(tmp_path, {f"n{number}": f"127.0.0.1{number}" for number in (1, 2, 3)}) as made:
        for name in made.addresses:
            made.start(name, "--discovery", "dns", "--discovery-nodes", "3", "--discovery-hostname", SERVICE)
        asyncio.run(made.until_whole())
        assert sum("founds the cluster" in made.log(name) for name in made.addresses) == 1


def test_pods_of_a_set_form_a_cluster_by_their_names(tmp_path: Path) -> None:
    with town(tmp_path, {f"rabbit-{number}": f"127.0.0.2{number}" for number in (0, 1, 2)}) as made:
        for name in made.addresses:
            own = ("--discovery-address", f"{name}.{SERVICE}:{PORT}")
            made.start(name, "--discovery", "k8s", "--discovery-nodes", "3", *own)
        asyncio.run(made.until_whole())
        assert [name for name in made.addresses if "founds the cluster" in made.log(name)] == ["rabbit-0"]

"""Node processes that find each other by themselves: real sockets, real files, a real etcd."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from splitbrain import cluster
from splitbrain.cluster.__main__ import main
from splitbrain.cluster.discovery.etcd import Etcd
from splitbrain.cluster.discovery.http import Endpoint
from splitbrain.cluster.discovery.seen import Peer
from tests.cluster.discovery.members import members_at
from tests.cluster.discovery.realetcd import etcd, free_port
from tests.cluster.discovery.services import ApiServer, ConsulAgent, pod, served

assert etcd  # the fixture

ROOT = Path(cluster.__path__[0]).parent
NAMES = ("n1", "n2", "n3")


class Nodes:
    """Processes with ports and folders of their own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.addresses = {name: ("127.0.0.1", free_port()) for name in NAMES}
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "splitbrain.cluster", "--node", name, "--data", str(self.home / name)]
        host, port = self.addresses[name]
        argv += ["--listen", f"{host}:{port}", *arguments]
        with (self.home / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(argv, stderr=log, cwd=ROOT)
        return self.running[name]

    def peers(self, name: str) -> list[str]:
        others = (each for each in NAMES if each != name)
        return [word for each in others for word in ("--peer", f"{each}=127.0.0.1:{self.addresses[each][1]}")]

    def log(self, name: str) -> str:
        return (self.home / f"{name}.log").read_text()

    async def until_whole(self) -> None:
        """Until each node sees all three as voters; fails if one ends."""
        while {await members_at(self.addresses[name]) for name in NAMES} != {NAMES}:
            for name, process in self.running.items():
                assert process.poll() is None, self.log(name)
            await asyncio.sleep(0.1)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    made = Nodes(tmp_path)
    yield made
    for process in made.running.values():
        process.kill()
        process.wait()


@pytest.mark.slow
def test_processes_on_a_list_form_a_cluster_and_find_it_again(nodes: Nodes) -> None:
    for name in NAMES:
        nodes.start(name, *nodes.peers(name), "--discovery", "classic")
    asyncio.run(nodes.until_whole())
    for name in NAMES:
        nodes.running[name].kill()
        nodes.running[name].wait()
    for name in NAMES:
        nodes.start(name, *nodes.peers(name), "--discovery", "classic")
    asyncio.run(nodes.until_whole())
    assert sum("founds the cluster" in nodes.log(name) for name in NAMES) == 1


@pytest.mark.slow
def test_processes_that_know_nothing_but_etcd_form_a_cluster_and_leave_etcd_when_they_stop(
    nodes: Nodes, etcd: str
) -> None:
    how = ("--discovery", "etcd", "--discovery-nodes", "3", "--discovery-endpoint", etcd)
    for name in NAMES:
        nodes.start(name, *how)
    asyncio.run(nodes.until_whole())
    looks = Etcd(Endpoint(etcd), Peer("x", ("x", 1)))
    listed = tuple(Peer(name, nodes.addresses[name]) for name in NAMES)
    assert asyncio.run(looks.list_nodes()).peers == listed
    nodes.running["n2"].send_signal(signal.SIGTERM)
    assert nodes.running["n2"].wait() == 0
    assert asyncio.run(looks.list_nodes()).peers == (listed[0], listed[2])
    # What it learned from etcd it has written down: it finds the others without.
    nodes.start("n2", *how[:-1], f"http://127.0.0.1:{free_port()}")
    asyncio.run(nodes.until_whole())


@pytest.mark.slow
def test_processes_form_a_cluster_by_consul(nodes: Nodes) -> None:
    async def story() -> None:
        async with served(ConsulAgent()) as service:
            for name in NAMES:
                how = ("--discovery", "consul", "--discovery-nodes", "3", "--discovery-endpoint", service.url)
                nodes.start(name, *how)
            await nodes.until_whole()
            assert "PUT /v1/session/create" in service.asked

    asyncio.run(story())


@pytest.mark.slow
def test_processes_form_a_cluster_by_the_api_server_of_kubernetes(nodes: Nodes, tmp_path: Path) -> None:
    hosts = {name: f"127.0.0.{40 + number}" for number, name in enumerate(NAMES)}
    port = free_port()
    secret = tmp_path / "token"
    secret.write_text("t0ken")

    async def story() -> None:
        async with served(ApiServer("t0ken", "town", [pod(name, host) for name, host in hosts.items()])) as service:
            for name, host in hosts.items():
                nodes.addresses[name] = (host, port)
                how = ("--discovery", "k8s-api", "--discovery-nodes", "3", "--discovery-label", "app=splitbrain")
                where = ("--discovery-namespace", "town", "--discovery-token-file", str(secret))
                nodes.start(name, *how, *where, "--discovery-endpoint", service.url)
            await nodes.until_whole()

    asyncio.run(story())


def test_a_process_that_finds_no_cluster_ends_and_says_what_is_missing(nodes: Nodes) -> None:
    how = ("--discovery", "classic", "--discovery-retries", "1", "--discovery-retry-ms", "100")
    assert nodes.start("n1", *nodes.peers("n1"), *how).wait() == 1
    assert re.search(
        r"error: node n1 stops: node n1 found no cluster in 2 attempts: no other node answers, of n2, n3\. It founds",
        nodes.log("n1"),
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("--discovery nowhere", "--discovery takes classic, dns, k8s, k8s-api, consul, etcd, not 'nowhere'"),
        ("--discovery-nodes 3", "--discovery-nodes needs --discovery BACKEND"),
        ("--discovery etcd", "--discovery etcd needs --discovery-nodes"),
        ("--discovery etcd --discovery-nodes 0", "from 1 to 1000, not '0'"),
        ("--discovery etcd --discovery-nodes", "--discovery-nodes needs a value"),
        ("--discovery classic --discovery classic", "--discovery is given twice"),
        ("--discovery classic --discovery-list n2", "names this node and nodes of --peer"),
        ("--discovery classic --discovery-hostname a", "--discovery-hostname is for dns, not for classic"),
        ("--discovery classic --discovery-what a", "there is no argument '--discovery-what'"),
        ("--discovery classic --founders n1", "leave it or --discovery out"),
        ("--discovery classic --store tables", "Leave --store or --discovery out"),
        ("--partition-strategy nonsense", "there is no partition strategy 'nonsense': it is one of ignore"),
        ("--partition-strategy pause-if-all-down-ignore", "takes a list of nodes"),
        ("--preferred n1", "takes a list of nodes, the others none"),
        ("--discovery classic --discovery-address n1", "--discovery-address takes HOST:PORT"),
        ("--discovery dns --discovery-nodes 3", "--discovery dns needs --discovery-hostname"),
        ("--discovery k8s", "with the name of its pod"),
        ("--discovery k8s-api --discovery-nodes 3 --discovery-token-file /nowhere", "/nowhere cannot be read"),
        ("--discovery etcd --discovery-nodes 3 --discovery-endpoint here", "takes http://HOST:PORT"),
        ("--discovery etcd --discovery-nodes 3 --discovery-ttl-s 1", "from 10 to 86400, not '1'"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["--node", "n1", "--listen", "127.0.0.1:1", "--data", str(tmp_path), *arguments.split()]
    assert main(argv) == 2
    assert problem in capsys.readouterr().err


def test_an_address_that_is_every_address_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--node", "n1", "--listen", "0.0.0.0:1", "--data", str(tmp_path), "--discovery", "classic"]
    assert main(argv) == 2
    assert "say with --discovery-address" in capsys.readouterr().err


def test_the_help_has_all_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    for option in ("--discovery-nodes", "--discovery-hostname", "--discovery-ca-file", "--discovery-list"):
        assert option in said

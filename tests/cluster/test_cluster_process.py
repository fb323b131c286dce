"""Node processes on this machine: real sockets, real files, kill -9."""

from __future__ import annotations

import asyncio
import json
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from splitbrain import cluster
from splitbrain.cluster.__main__ import main
from splitbrain.cluster.arguments import parse
from splitbrain.cluster.client import Client, OutcomeUnknownError, UnavailableError, connect
from splitbrain.cluster.errors import ArgumentError
from tests.cluster.support import eventually

NAMES: tuple[str, ...] = ("n1", "n2", "n3")
ROOT = Path(cluster.__path__[0]).parent


class Processes:
    """Nodes as processes."""

    def __init__(self, directory: Path, names: tuple[str, ...] = NAMES) -> None:
        self.directory = directory
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._ports = dict(zip(names, free_ports(len(names)), strict=True))

    def start(self, *names: str, max_file_bytes: int = resource.RLIM_INFINITY) -> None:
        for name in names or self._ports:
            argv = [sys.executable, "-m", "splitbrain.cluster", "--node", name, "--listen", self.address(name)]
            for peer in self._ports:
                if peer != name:
                    argv += ["--peer", f"{peer}={self.address(peer)}"]
            argv += ["--data", str(self.directory / name)]
            with (self.directory / f"{name}.log").open("ab") as log:
                self.running[name] = subprocess.Popen(argv, stderr=log, cwd=ROOT)
            if max_file_bytes != resource.RLIM_INFINITY:
                limits = (max_file_bytes, resource.RLIM_INFINITY)
                resource.prlimit(self.running[name].pid, resource.RLIMIT_FSIZE, limits)

    def kill(self, *names: str) -> None:
        for name in names:
            process = self.running.pop(name)
            process.kill()
            process.wait()

    def address(self, name: str) -> str:
        return f"127.0.0.1:{self._ports[name]}"

    def log(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text()

    async def client(self, name: str) -> Client:
        async def attempt() -> Client | None:
            sock = socket.socket()
            sock.setblocking(False)
            try:
                await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self._ports[name]))
                return await connect(sock)
            except OSError:
                sock.close()
                return None

        return await eventually(attempt)

    async def leader(self) -> str:
        """The leader, once every running node knows it."""

        async def agreed() -> str | None:
            views = [await self.status(name) for name in self.running]
            known = {(term, leader) for term, leader in views}
            (_, leader) = views[0]
            return leader if len(known) == 1 and leader in self.running else None

        return await eventually(agreed, within_s=20)

    async def status(self, name: str) -> tuple[int, str | None]:
        client = await self.client(name)
        status = await client.status()
        await client.close()
        return status.term, status.leader


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    nodes = Processes(tmp_path)
    yield nodes
    nodes.kill(*list(nodes.running))


@asynccontextmanager
async def talking_to(nodes: Processes, name: str) -> AsyncGenerator[Client]:
    client = await nodes.client(name)
    try:
        yield client
    finally:
        await client.close()


async def put(nodes: Processes, name: str, first: int, last: int) -> None:
    async with talking_to(nodes, name) as client:
        await asyncio.gather(*(client.put(f"/k/{n}", n) for n in range(first, last)))


async def values(nodes: Processes, name: str, count: int) -> list[int]:
    async with talking_to(nodes, name) as client:
        found = await asyncio.gather(*(client.get(f"/k/{n}", timeout_ms=10_000) for n in range(count)))
        return [node.value for node in found]


@pytest.mark.cluster
def test_a_cluster_goes_on_without_its_leader_and_loses_nothing_when_all_are_killed(processes: Processes) -> None:
    async def check() -> None:
        processes.start()
        leader = await processes.leader()
        follower = next(name for name in NAMES if name != leader)
        await put(processes, follower, 0, 20)

        processes.kill(leader)
        await processes.leader()
        await put(processes, follower, 20, 40)
        assert await values(processes, follower, 40) == list(range(40))

        processes.kill(*list(processes.running))
        processes.start()
        for name in NAMES:
            assert await values(processes, name, 40) == list(range(40))

    asyncio.run(check())


@pytest.mark.slow
@pytest.mark.cluster
def test_a_torn_tail_is_cut_off_and_what_it_held_comes_back_from_the_others(processes: Processes) -> None:
    async def check() -> None:
        processes.start()
        leader = await processes.leader()
        victim = next(name for name in NAMES if name != leader)
        await put(processes, leader, 0, 10)
        processes.kill(victim)
        [log] = (processes.directory / victim).glob("wal-*")
        log.write_bytes(log.read_bytes()[:-60])  # into the last records, so that none is whole at the end
        processes.start(victim)
        assert await values(processes, victim, 10) == list(range(10))
        assert "cut off" in processes.log(victim)

    asyncio.run(check())


@pytest.mark.slow
@pytest.mark.cluster
def test_a_log_damaged_in_the_middle_stops_the_node_with_one_line(processes: Processes) -> None:
    async def check() -> None:
        processes.start()
        leader = await processes.leader()
        await put(processes, leader, 0, 10)
        processes.kill(*NAMES)
        [log] = (processes.directory / "n1").glob("wal-*")
        content = bytearray(log.read_bytes())
        content[30] ^= 4
        log.write_bytes(bytes(content))
        processes.start("n1")
        assert processes.running["n1"].wait(timeout=60) == 1
        assert log.read_bytes() == bytes(content)
        last = processes.log("n1").splitlines()[-1]
        assert last.startswith(f"error: node n1 stops: {log.name}, byte ")
        assert last.endswith(" is damaged. Replace this node, or restore its data directory.")

    asyncio.run(check())


@pytest.mark.slow
@pytest.mark.cluster
def test_a_full_disk_stops_the_node_with_one_line_and_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    nodes = Processes(tmp_path, ("n1",))

    acknowledged: list[str] = []

    async def fill() -> None:
        async with talking_to(nodes, "n1") as client:
            for n in range(500):
                await client.put(f"/k/{n}", "x" * 200, timeout_ms=10_000)
                acknowledged.append(str(n))

    async def names() -> tuple[str, ...]:
        async with talking_to(nodes, "n1") as client:
            return (await client.children("/k", timeout_ms=10_000)).names

    try:
        nodes.start("n1", max_file_bytes=20_000)
        with pytest.raises(OutcomeUnknownError):
            asyncio.run(fill())
        assert nodes.running["n1"].wait(60) == 1
        assert re.search(
            r"^error: node n1 stops: .*File too large: '.*/n1/wal-[0-9a-f]*'$", nodes.log("n1"), re.MULTILINE
        )
        assert "Traceback" not in nodes.log("n1")
        nodes.start("n1")
        assert acknowledged
        assert set(acknowledged) <= set(asyncio.run(names()))
    finally:
        nodes.kill(*list(nodes.running))


@pytest.mark.slow
@pytest.mark.cluster
def test_a_paused_majority_makes_writes_time_out_and_they_are_called_indefinite(processes: Processes) -> None:
    async def check() -> None:
        processes.start()
        leader = await processes.leader()
        others = [processes.running[name] for name in NAMES if name != leader]
        async with talking_to(processes, leader) as client:
            for process in others:
                process.send_signal(signal.SIGSTOP)
            with pytest.raises(OutcomeUnknownError, match="timeout"):
                await client.put("/a", 1, timeout_ms=300)
            with pytest.raises(UnavailableError):
                await client.get("/a", timeout_ms=300)
            for process in others:
                process.send_signal(signal.SIGCONT)
            assert (await client.put("/b", 1, timeout_ms=10_000)).value == 1

    asyncio.run(check())


@pytest.mark.slow
@pytest.mark.cluster
def test_it_stops_in_good_order_when_told_to_and_leaves_telemetry(processes: Processes) -> None:
    async def check() -> None:
        processes.start()
        leader = await processes.leader()
        await put(processes, leader, 0, 5)
        process = processes.running[leader]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
        telemetry = (processes.directory / leader / "telemetry.jsonl").read_text()
        lines = [json.loads(line) for line in telemetry.splitlines()]
        assert [lines[0]["event"], lines[-1]["event"]] == ["start", "stop"]
        assert {"role", "commit"} <= {line["event"] for line in lines}
        assert lines[-1]["applied"] >= 6
        assert abs(lines[-1]["wall"] - time.time_ns()) < 60e9
        log = processes.log(leader)
        assert log.splitlines()[-1].endswith("stops in good order")
        assert "Traceback" not in log

    asyncio.run(check())


@pytest.mark.cluster
def test_a_taken_address_is_one_clear_line(processes: Processes) -> None:
    with socket.create_server(("127.0.0.1", int(processes.address("n1").rpartition(":")[2]))):
        processes.start("n1")
        assert processes.running["n1"].wait(timeout=60) == 1
    log = processes.log("n1")
    assert "address already in use" in log
    assert "Traceback" not in log


class TestCommandLine:
    def test_it_says_everything_that_a_node_needs(self) -> None:
        config, data = parse(
            [
                "--node",
                "n1",
                "--listen",
                "0.0.0.0:1",
                "--peer",
                "n3=h:2",
                "--peer=n2=[::1]:3",
                "--data",
                "d",
                "--bugs",
                "M23,M09",
                "--heartbeat-ms",
                "50",
                "--election-ms",
                "300",
            ]
        )
        assert (config.node, config.listen, data) == ("n1", ("0.0.0.0", 1), "d")
        assert config.peers == {"n3": ("h", 2), "n2": ("::1", 3)}
        assert config.voters == ("n1", "n2", "n3")
        assert config.bugs.ids == ("M09", "M23")
        raft = config.raft
        assert (raft.heartbeat_ms, raft.election_min_ms, raft.election_max_ms) == (50, 300, 600)

    def test_no_bug_is_on_unless_it_is_named(self) -> None:
        config, _ = parse(["--node", "n1", "--listen", "h:1", "--data", "d"])
        assert config.bugs.ids == ()

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            ([], "--node is missing"),
            (["--node", "n1", "--data", "d"], "--listen is missing"),
            (["--nodes", "n1"], "no argument '--nodes'"),
            (["--node"], "--node needs a value"),
            (["--node", "a", "--node", "b"], "given twice"),
            (["--node", "n1", "--data", "d", "--listen", "h"], "HOST:PORT, not 'h'"),
            (["--node", "n1", "--data", "d", "--listen", "h:70000"], "HOST:PORT"),
            (["--peer", "n2"], "HOST:PORT"),
            (["--peer", "n2=h:1", "--peer", "n2=h:2"], "each name once"),
            (["--node", "n1", "--data", "d", "--listen", "h:1", "--peer", "n1=h:2"], "its own peer"),
            (["--node", "n1", "--data", "d", "--listen", "h:1", "--bugs", "M999"], "'M999'"),
            (["--node", "n1", "--data", "d", "--listen", "h:1", "--election-ms", "50"], "heartbeat_ms < election"),
            (["--node", "n1", "--data", "d", "--listen", "h:1", "--heartbeat-ms", "x"], "whole milliseconds"),
        ],
    )
    def test_a_wrong_one_is_refused_with_the_argument_that_is_wrong(self, arguments: list[str], says: str) -> None:
        with pytest.raises(ArgumentError) as error:
            parse(arguments)
        assert says in str(error.value)

    def test_a_wrong_one_ends_with_exit_code_2_and_the_usage(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["--oops"]) == 2
        assert "usage: python -m splitbrain.cluster" in capsys.readouterr().err

"""Table nodes as processes on this machine: real sockets, real files, kill -9."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from splitbrain import cluster
from splitbrain.cluster.tables.__main__ import main
from splitbrain.cluster.tables_client import ClientError, TablesClient, connect
from tests.cluster.support import eventually
from tests.cluster.test_cluster_process import free_ports

ROOT = Path(cluster.__path__[0]).parent
NAMES = ("n1", "n2", "n3")


class Processes:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.ports: dict[str, int] = dict(zip(NAMES, free_ports(len(NAMES)), strict=True))

    def start(self, name: str) -> None:
        argv = [sys.executable, "-m", "splitbrain.cluster.tables", "--node", name]
        argv += ["--listen", f"127.0.0.1:{self.ports[name]}", "--data", str(self.directory / name)]
        for peer in NAMES:
            if peer != name:
                argv += ["--peer", f"{peer}=127.0.0.1:{self.ports[peer]}"]
        with (self.directory / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(argv, stderr=log, cwd=ROOT)

    def end(self, name: str, how: signal.Signals = signal.SIGKILL) -> int:
        process = self.running.pop(name)
        process.send_signal(how)
        return process.wait()

    async def client(self, name: str) -> TablesClient:
        """A client of a node, once that serves."""

        async def attempt() -> TablesClient | None:
            sock = socket.socket()
            sock.setblocking(False)
            try:
                await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.ports[name]))
            except OSError:
                sock.close()
                return None
            client = await connect(sock)
            try:
                if (await client.state()).phase == "running":
                    return client
            except ClientError:
                pass
            await client.close()
            return None

        return await eventually(attempt, within_s=60)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    nodes = Processes(tmp_path)
    yield nodes
    for name in list(nodes.running):
        nodes.end(name)


@pytest.mark.cluster
@pytest.mark.slow
def test_mn_3_a_killed_process_copies_what_it_missed_and_one_that_is_stopped_ends_well(processes: Processes) -> None:
    async def check() -> None:
        for name in NAMES:
            processes.start(name)
        one, two = await processes.client("n1"), await processes.client("n2")
        await one.write("t", "k", 1)
        assert await two.read("t", "k") == 1
        processes.end("n1")
        await two.write("t", "k", 2, 20_000)
        processes.start("n1")
        again = await processes.client("n1")
        assert await again.read("t", "k") == 2
        for client in (one, two, again):
            await client.close()
        assert processes.end("n3", signal.SIGTERM) == 0
        assert "stops in good order" in (processes.directory / "n3.log").read_text()

    asyncio.run(check())


def test_a_wrong_command_line_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--node", "n1"]) == 2
    assert "--listen is missing" in capsys.readouterr().err
    assert main(["--help"]) == 0
    assert "--partition-strategy" in capsys.readouterr().out

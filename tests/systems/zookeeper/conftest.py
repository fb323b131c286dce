"""Real nodes of ZooKeeper on loopback: one alone, for everything that needs no others."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness.contract.nodes import Address
from splitbrain.harness.systems.zookeeper import settings
from splitbrain.harness.systems.zookeeper.connection import Connection
from splitbrain.harness.systems.zookeeper.session import ZookeeperSession
from splitbrain.harness.systems.zookeeper.settings import SETTINGS
from tests.backends.support import missing

STARTS_WITHIN_S = 60.0
OPTIONS: dict[str, Any] = {
    "workload": "register",
    "nemesis": "none",
    "system": "zookeeper",
    "backend": "local",
    "bug": "",
    "nodes": "3",
    "concurrency": "2n",
    "rate": 100.0,
    "time_limit": 5.0,
    "interval": None,
    "op_timeout": 2.0,
    "recovery": 20.0,
    "seed": 1,
}
"""Options of a test of ZooKeeper."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


class Node:
    """A node that runs; with `members` it is the first of so many."""

    def __init__(self, folder: Path, members: int = 0) -> None:
        self.address: Address = ("127.0.0.1", free_port())
        self._folder = folder
        chosen = {name: setting.default for name, setting in SETTINGS.items()}
        addresses = [self.address, *(("127.0.0.1", free_port()) for _ in range(members - 1))][:members]
        configuration = settings.configuration(self.address, addresses, str(folder), chosen)
        (folder / settings.CONFIGURATION).write_bytes(configuration)
        (folder / settings.ID).write_bytes(settings.id_of("n1", ["n1"]))
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(settings.command(str(folder), chosen), stdout=log, stderr=log)
        self._wait(alone=members == 0)

    async def dialled(self) -> socket.socket:
        """A connection to its clients' port."""
        connection = socket.socket()
        connection.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(connection, self.address)
        except OSError:
            connection.close()
            raise
        return connection

    async def session(self, **options: Any) -> ZookeeperSession:
        """A session with it."""
        return ZookeeperSession(await self.connection(), **options)

    async def connection(self) -> Connection:
        """The same for requests of any kind."""
        return await Connection.on(await self.dialled())

    def _wait(self, *, alone: bool) -> None:
        """Wait until it listens, and if it is alone, until it serves."""
        end = time.monotonic() + STARTS_WITHIN_S
        while not self._listens() or (alone and b"Mode: " not in self._said()):
            assert time.monotonic() < end, (self._folder / "log").read_text()[-2000:]
            time.sleep(0.1)

    def _listens(self) -> bool:
        try:
            socket.create_connection(self.address).close()
        except OSError:
            return False
        return True

    def _said(self) -> bytes:
        """What it says of itself."""
        answer = b""
        with suppress(OSError), socket.create_connection(self.address, timeout=2) as connection:
            connection.sendall(b"srvr")
            while part := connection.recv(4096):
                answer += part
        return answer

    def pause(self) -> None:
        """Stop it from running."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        """Let it run again."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


Serve = Callable[..., Node]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts nodes; they end with the test."""
    if shutil.which("java") is None or not Path(settings.JAR).exists():
        missing("there is no ZooKeeper here (Debian: default-jre-headless libslf4j-java libzookeeper-java)")
    nodes: list[Node] = []

    def start(members: int = 0) -> Node:
        folder = tmp_path / f"node{len(nodes)}"
        folder.mkdir()
        nodes.append(Node(folder, members))
        return nodes[-1]

    yield start
    for node in nodes:
        node.kill()

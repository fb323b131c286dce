"""Real Redis servers on loopback, each with a configuration of its own: most of what is tested here needs no nodes."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness.systems.redis.connection import Connection
from splitbrain.harness.systems.redis.session import RedisSession
from tests.backends.support import missing

STARTS_WITHIN_S = 20.0
OPTIONS: dict[str, Any] = {
    "workload": "register",
    "nemesis": "none",
    "system": "redis",
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
"""Options of a test of Redis."""


class Server:
    """A server that runs."""

    def __init__(self, folder: Path, *lines: str) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        words = (f"port {self.port}", "bind 127.0.0.1", f"dir {folder}", 'save ""', *lines)
        (folder / "redis.conf").write_text("\n".join(words))
        self._process = self._run()

    def _run(self) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(("redis-server", "redis.conf"), cwd=self.folder, stdout=log)

    async def connection(self) -> Connection:
        """A connection to it."""
        dialled = socket.socket()
        dialled.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(dialled, ("127.0.0.1", self.port))
        except OSError:
            dialled.close()
            raise
        return Connection(dialled)

    async def session(self, **options: Any) -> RedisSession:
        """A session with it."""
        return RedisSession(await self.connection(), **options)

    async def say(self, *command: str | int) -> Any:
        """Its answer to a command on a connection of its own, an error included."""
        connection = await self.connection()
        (answer,) = await connection.exchange(command, changes=False)
        connection.close()
        return answer

    async def until(self, holds: Callable[[Any], bool], *command: str) -> None:
        """Wait until its answer to a command is so."""
        async with asyncio.timeout(STARTS_WITHIN_S):
            while not holds(await self.say(*command)):
                await asyncio.sleep(0.02)

    def wait(self) -> None:
        """Wait until it listens."""
        end = time.monotonic() + STARTS_WITHIN_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except OSError:
                assert time.monotonic() < end, (self.folder / "log").read_text()
                time.sleep(0.02)
            else:
                return

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

    def restart(self) -> None:
        """Start it again."""
        self._process = self._run()


Serve = Callable[..., Server]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts servers, given lines of their configuration; they end with the test."""
    if shutil.which("redis-server") is None:
        missing("there is no redis-server here (Debian: redis-server)")
    servers: list[Server] = []

    def start(*lines: str) -> Server:
        folder = tmp_path / f"server{len(servers)}"
        folder.mkdir()
        servers.append(Server(folder, *lines))
        servers[-1].wait()
        return servers[-1]

    yield start
    for server in servers:
        server.kill()

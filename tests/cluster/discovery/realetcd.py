"""A real etcd on this machine, for tests of peer discovery."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from splitbrain.cluster.discovery.http import Endpoint
from splitbrain.cluster.errors import DiscoveryError


def free_port() -> int:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return int(tried.getsockname()[1])


@pytest.fixture
def etcd(tmp_path: Path) -> Generator[str]:
    """The URL of a real etcd."""
    program = shutil.which("etcd")
    if program is None:
        pytest.skip("there is no etcd on this machine")
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    arguments = [program, "--name", "e", "--data-dir", str(tmp_path / "data"), "--log-level", "error"]
    arguments += ["--listen-client-urls", client, "--advertise-client-urls", client]
    arguments += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"e={peer}"]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    async def until_it_serves() -> None:
        while process.poll() is None:
            try:
                if (await Endpoint(client).ask("POST", "/v3/kv/range", {"key": "YQ=="})).status == 200:
                    return
            except DiscoveryError:
                await asyncio.sleep(0.05)
        raise AssertionError("etcd ended at once")

    try:
        asyncio.run(until_it_serves())
        yield client
    finally:
        process.kill()
        process.wait()

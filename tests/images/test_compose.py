"""docker/compose.yaml brings up a cluster of five nodes, by the commands that it gives."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import Generator, Mapping

import docker
import pytest

from splitbrain.cluster.client import ClientError, NodeStatus, connect
from splitbrain.harness.images import ensure
from splitbrain.harness.images.catalogue import PACKAGE
from splitbrain.results.errors import ImageMissingError

PORTS = range(7201, 7206)
UP_WITHIN_S = 60


@pytest.fixture
def compose(client: docker.DockerClient) -> Generator[list[str]]:
    """The command, of whichever generation; what it brought up goes after the test."""
    tool = ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]
    try:
        subprocess.run([*tool, "version"], capture_output=True, check=True)
        ensure("node", client)
    except (OSError, subprocess.CalledProcessError, ImageMissingError) as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"docker-compose or the image of a node is missing: {error}")
    command = [
        *tool,
        "--project-name",
        f"splitbrain-test-{os.getpid()}",
        "--file",
        str(PACKAGE / "docker/compose.yaml"),
    ]
    yield command
    subprocess.run([*command, "down", "--volumes", "--timeout", "3"], capture_output=True, check=True)


async def _status(port: int) -> NodeStatus:
    endpoint = socket.socket()
    endpoint.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(endpoint, ("127.0.0.1", port))
        client = await connect(endpoint)
    except BaseException:
        endpoint.close()
        raise
    try:
        return await client.status()
    finally:
        await client.close()


async def _until_agreed() -> Mapping[str, str | None]:
    """Whom each node takes for the leader, once that is the same node for all."""
    async with asyncio.timeout(UP_WITHIN_S):
        while True:
            try:
                said = {status.node: status.leader for status in [await _status(port) for port in PORTS]}
            except (ClientError, OSError):
                said = {}
            if len(said) == len(PORTS) and len(set(said.values())) == 1 and None not in said.values():
                return said
            await asyncio.sleep(0.2)


@pytest.mark.slow
def test_the_compose_file_brings_up_five_nodes_that_agree_on_a_leader(compose: list[str]) -> None:
    brought = subprocess.run([*compose, "up", "--detach"], capture_output=True, text=True, check=False)
    assert brought.returncode == 0, brought.stderr
    said = asyncio.run(_until_agreed())
    assert sorted(said) == ["n1", "n2", "n3", "n4", "n5"]
    assert set(said.values()) <= set(said)

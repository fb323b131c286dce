"""What only containers have: an image, and names that resolve. `conformance` has what is asked of every backend."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

import docker
import pytest

from splitbrain.harness.backends.docker import DockerDeployment
from tests.backends import docker_support

engine = docker_support.engine
pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("engine")]


class Inside(NamedTuple):
    """Two nodes, of which one runs: pid of its first process on this machine."""

    deployment: DockerDeployment
    pid: int


@pytest.fixture(scope="module")
def inside_of(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Generator[Inside, None, None]:
    with asyncio.Runner() as runner:
        deployment = runner.run(docker_support.deploy(tmp_path_factory.mktemp("run"), nodes=("n1", "n2")))
        try:
            yield Inside(deployment, runner.run(deployment.start("n1")).evidence["pid"])
        finally:
            runner.run(deployment.close())


@pytest.mark.slow
def test_the_image_that_the_nodes_run_is_told_by_its_tag_and_by_the_id_that_the_engine_has(inside_of: Inside) -> None:
    image = inside_of.deployment.image
    with contextlib.closing(docker.from_env()) as client:
        assert client.images.get(image.tag).id == image.id
    assert image.id.startswith("sha256:")


def test_nodes_know_each_other_by_name(inside_of: Inside) -> None:
    keeper = inside_of.deployment.places["n2"].listen[0]
    hosts = Path(f"/proc/{inside_of.pid}/root/etc/hosts").read_text().split()
    assert hosts[hosts.index("n2") - 1] == keeper
    hostname = Path(f"/proc/{inside_of.pid}/root/etc/hostname").read_text()
    assert hostname.strip() == "n1"

"""An engine for tests that need one, and checkouts that tests may change."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import closing, suppress
from pathlib import Path

import docker
import pytest
from docker.errors import ImageNotFound

from splitbrain.harness.images import catalogue, ensure
from splitbrain.harness.images.catalogue import Image
from splitbrain.harness.images.connection import engine
from splitbrain.results.errors import BackendError, ImageMissingError


@pytest.fixture
def client() -> Generator[docker.DockerClient]:
    """The engine of this machine. In CI there is one."""
    try:
        opened = engine()
    except BackendError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    with closing(opened):
        yield opened


@pytest.fixture
def base(client: docker.DockerClient) -> str:
    """The base's tag. In CI it is built."""
    try:
        return ensure("base", client)
    except ImageMissingError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what images are built from, in place of this checkout."""
    root = tmp_path / "checkout"
    for name in ("docker", "cluster"):
        shutil.copytree(catalogue.PACKAGE / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(catalogue, "PACKAGE", root)
    return root


@pytest.fixture
def scratch(
    client: docker.DockerClient, checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Generator[Image]:
    """An image of the test's own with the cluster in it, so that nobody else's images change. Gone after the test."""
    image = Image(f"test-{os.getpid()}-{tmp_path.parent.name}", "of a test", files=("cluster",))
    monkeypatch.setitem(catalogue.IMAGES, image.name, image)
    dockerfile = checkout / image.dockerfile
    dockerfile.parent.mkdir()
    dockerfile.write_text("ARG BASE\nFROM ${BASE}\nCOPY cluster /opt/splitbrain/cluster\n")
    yield image
    for tag in [tag for found in client.images.list(name=image.repository) for tag in found.tags]:
        with suppress(ImageNotFound):
            client.images.remove(tag)

"""What test.json says of a deployment."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from harness.backends.docker.deployment import ImageUsed
from harness.cli.documents import keep_surroundings
from harness.protocols import Deployment
from results.store import Store


class Containers:
    """As much of a deployment of containers as is looked at."""

    image = ImageUsed("system:1", "sha256:0123")


class Processes:
    """A deployment without an image."""


@pytest.mark.parametrize(
    ("deployment", "image"), [(Containers(), {"tag": "system:1", "id": "sha256:0123"}), (Processes(), None)]
)
def test_the_image_is_kept_beside_what_is_there_and_only_where_nodes_are_containers(
    tmp_path: Path, deployment: Any, image: Any
) -> None:
    run = Store(tmp_path).create("t", 1, {"nodes": ["n1"]}, 1)
    before = run.read_test()
    keep_surroundings(run, cast(Deployment, deployment))
    run.release()
    after = run.read_test()
    assert all(isinstance(said, str) for said in after.pop("tools").values())
    assert after == {**before, **({"image": image} if image else {})}

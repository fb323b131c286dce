"""What test.json says of a deployment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast, get_args

import pytest

from splitbrain.harness.backends.docker.deployment import DockerDeployment, ImageUsed
from splitbrain.harness.backends.local.deployment import LocalDeployment
from splitbrain.harness.backends.ssh.deployment import SshDeployment
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.campaigns.documents import keep_surroundings
from splitbrain.harness.campaigns.record import record
from splitbrain.harness.cli.progress import Progress
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.faults import FaultKind, Support
from splitbrain.harness.contract.test import Backend, Test
from splitbrain.results.errors import BackendError
from splitbrain.results.store import Store
from tests.plan.mutants import OPTIONS


class NoNodes:
    """A backend that keeps what stood in test.json when it was to deploy, and deploys nothing."""

    name = "none"

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    def support(self) -> Mapping[str, Support]:
        return dict.fromkeys(get_args(FaultKind), Support(False, "there are no nodes"))

    def sweep(self) -> None:
        pass

    async def deploy(self, test: Test, run_dir: Path, runtime: Runtime) -> Deployment:
        [run] = list(Store(run_dir.parents[1]).runs())
        self.found = run.read_test()
        raise BackendError("there are no nodes here")


def test_the_tools_are_asked_before_anything_is_deployed_and_not_under_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def tools() -> dict[str, str]:
        asked.append("tools")
        return {"nft": "nftables v1"}

    backend = NoNodes()

    monkeypatch.setattr("splitbrain.harness.campaigns.documents.tools", tools)
    chosen = RunOptions.of(**{**OPTIONS, "nemesis": "none", "backend": "local"})
    with Progress("test") as progress, pytest.raises(BackendError, match="there are no nodes here"):
        record(compose(chosen), cast(Backend, backend), tmp_path, progress)
    assert backend.found["tools"] == {"nft": "nftables v1"}
    assert asked == ["tools"]


@pytest.mark.parametrize(
    ("deployment", "links"),
    [(DockerDeployment, "receivers"), (SshDeployment, "receivers"), (LocalDeployment, "namespaces")],
)
def test_how_links_are_cut_is_kept_of_every_backend(tmp_path: Path, deployment: Any, links: str) -> None:
    made = object.__new__(deployment)
    if deployment is LocalDeployment:
        made.links = links
    run = Store(tmp_path).create("t", 1, {"nodes": ["n1"]}, 1)
    keep_surroundings(run, made)
    run.release()
    assert run.read_test()["links"] == links


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
    assert after == {**before, **({"image": image} if image else {})}

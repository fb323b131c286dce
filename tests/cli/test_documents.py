"""What test.json says of a deployment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast, get_args

import pytest

from splitbrain.harness.backends.docker.deployment import DockerDeployment
from splitbrain.harness.backends.local.deployment import LocalDeployment
from splitbrain.harness.backends.sim import SimDeployment
from splitbrain.harness.backends.ssh.deployment import SshDeployment
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.campaigns.documents import keep_surroundings
from splitbrain.harness.campaigns.record import record
from splitbrain.harness.cli.progress import Progress
from splitbrain.harness.contract.capabilities import Capabilities
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.deployments import Deployment, ImageUsed
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

    def check(self, test: Test) -> None:
        pass

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


NOTHING: Any = None
SYSTEM = SimpleNamespace(capabilities=Capabilities())
TEST: Any = SimpleNamespace(nodes=("n1",), seed=1, nemesis=SimpleNamespace(faults=()), system=SYSTEM)


def deployments(folder: Path) -> dict[str, Deployment]:
    """A deployment of each kind of real nodes, of which nothing is laid out."""
    image = ImageUsed("system:1", "sha256:0123")
    return {
        "docker": DockerDeployment(TEST, folder, image, "run", NOTHING, NOTHING),
        "ssh": SshDeployment(TEST, folder, {}, NOTHING),
        "local": LocalDeployment(TEST, folder, "namespaces", NOTHING),
    }


@pytest.mark.parametrize(
    ("backend", "kept"),
    [
        ("docker", {"links": "receivers", "image": {"tag": "system:1", "id": "sha256:0123"}}),
        ("ssh", {"links": "receivers"}),
        ("local", {"links": "namespaces"}),
    ],
)
def test_what_nodes_run_in_is_kept_beside_what_is_there(tmp_path: Path, backend: str, kept: dict[str, Any]) -> None:
    run = Store(tmp_path).create("t", 1, {"nodes": ["n1"]}, 1)
    before = run.read_test()
    keep_surroundings(run, deployments(tmp_path)[backend])
    run.release()
    assert run.read_test() == {**before, **kept}


def test_of_simulated_nodes_there_is_nothing_to_keep(tmp_path: Path) -> None:
    run = Store(tmp_path).create("t", 1, {"nodes": ["n1"]}, 1)
    before = run.read_test()
    keep_surroundings(run, cast(Deployment, SimpleNamespace(surroundings=SimDeployment.surroundings)))
    run.release()
    assert run.read_test() == before

"""The docker backend: deployments by the engine of this machine. `support` says what works here."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from splitbrain.harness import images
from splitbrain.harness.backends.docker import labels, support
from splitbrain.harness.backends.docker.deployment import DockerDeployment
from splitbrain.harness.backends.docker.engine import Engine, asked
from splitbrain.harness.backends.docker.subnets import MOST_NODES
from splitbrain.harness.backends.shared import leftovers
from splitbrain.harness.backends.shared.channel import Agent
from splitbrain.harness.backends.shared.deployed import check_nodes, closed_on_failure
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.deployments import ImageUsed
from splitbrain.harness.contract.faults import Support
from splitbrain.harness.contract.test import Test


class DockerBackend:
    """Nodes are containers of the system's image, on a private network of this machine's Docker engine."""

    name = "docker"

    def support(self) -> Mapping[str, Support]:
        """Which faults work here, and how.

        Raises:
            BackendError: nothing works here, as there is no engine, or this process may not enter containers.
        """
        return support.faults()

    def sweep(self) -> list[str]:
        """Remove containers, networks, processes and mounts that a dead controller left behind; a line for each.

        Raises:
            BackendError: no engine answers, or it refuses.
        """
        client = images.engine()
        with contextlib.closing(client):
            return leftovers.sweep(lambda: asked(client.api, "remove what dead controllers left behind", labels.sweep))

    def clean(self, store: Path, *, dry_run: bool) -> list[str]:
        """As `sweep`, and images of disks in a store as well; or only list what would be removed.

        Raises:
            BackendError: no engine answers, or it refuses.
        """
        found = partial(labels.sweep, dry_run=dry_run)
        with contextlib.closing(images.engine()) as client:
            return leftovers.sweep(
                lambda: asked(client.api, "look for what dead controllers left behind", found),
                store=store,
                dry_run=dry_run,
            )

    def check(self, test: Test) -> None:
        """Refuse a test that cannot run here, as far as that shows before anything is started. Looks, changes nothing.

        Raises:
            BackendError: it does not work here, or the image has to be built first.
            UsageError: nodes that cannot be housed, or a system that comes in no image.
        """
        check_nodes(self.name, test.nodes, MOST_NODES)
        image = support.image_of(test)
        support.require_engine()
        images.refuse_missing(image)

    async def deploy(self, test: Test, run_dir: Path, runtime: Runtime) -> DockerDeployment:
        """Lay out the test's nodes, not yet started.

        The nodes outlive this process if it is killed with SIGKILL: the next `sweep` ends them, and cuts expire.

        Raises:
            BackendError: it cannot be done here.
            UsageError: nodes that cannot be housed, or a system that comes in no image.
        """
        check_nodes(self.name, test.nodes, MOST_NODES)
        image = support.image_of(test)
        support.require_engine()
        engine = Engine(images.engine())
        try:
            tag = await engine.run(lambda: images.ensure(image))
            image_id = await engine.image_id(tag)
            agent = Agent.start("containers")
        except BaseException:
            engine.close()
            raise
        deployment = DockerDeployment(test, run_dir, ImageUsed(tag, image_id), _run_id(), engine, agent)
        async with closed_on_failure(deployment):
            await deployment.lay_out()
        return deployment


def _run_id() -> str:
    return f"{os.getpid()}-{secrets.token_hex(3)}"

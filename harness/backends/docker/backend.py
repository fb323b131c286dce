"""The docker backend: what works with the engine here, and deployments by it."""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from splitbrain.harness import images
from splitbrain.harness.backends.agent import volumes
from splitbrain.harness.backends.agent.tools import AgentError, find_tool
from splitbrain.harness.backends.docker import labels
from splitbrain.harness.backends.docker.deployment import DockerDeployment
from splitbrain.harness.backends.docker.engine import Engine, asked
from splitbrain.harness.backends.docker.subnets import MOST_NODES
from splitbrain.harness.backends.shared import disks, leftovers
from splitbrain.harness.backends.shared.channel import Agent, probe_packets
from splitbrain.harness.backends.shared.deployed import check_nodes, closed_on_failure
from splitbrain.harness.backends.shared.nodefaults import MEMBERSHIP_HOW
from splitbrain.harness.contract import faultkinds
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.deployments import ImageUsed
from splitbrain.harness.contract.faults import Support
from splitbrain.harness.contract.test import Test
from splitbrain.results.errors import BackendError, UsageError


class DockerBackend:
    """Nodes are containers of the system's image, on a private network of this machine's Docker engine."""

    name = "docker"

    def support(self) -> Mapping[str, Support]:
        """Which faults work here, and how.

        Raises:
            BackendError: nothing works here, as there is no engine, or this process may not enter containers.
        """
        _require_that_it_works()
        packets, without_volumes = _packets_problem(), volumes.problem()
        by_queue = "NFQUEUE where packets leave their sender's network namespace"
        return {
            "cut": Support(True, "nftables in the receiver's network namespace"),
            **dict.fromkeys(faultkinds.LINK_KINDS, Support(packets is None, packets or by_queue)),
            "kill": Support(True, "SIGKILL to every process of the container"),
            "pause": Support(True, "the control group freezer, until the kernel shows it"),
            "cpu": Support(True, "a quota of the container's control group"),
            **disks.support(without_volumes and f"{without_volumes}."),
            **dict.fromkeys(faultkinds.CLOCK_KINDS, Support(True, "libfaketime of the image; the wall clock only")),
            "membership": Support(True, MEMBERSHIP_HOW),
        }

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
        image = _image_of(test)
        _require_that_it_works()
        images.refuse_missing(image)

    async def deploy(self, test: Test, run_dir: Path, runtime: Runtime) -> DockerDeployment:
        """Lay out the test's nodes, not yet started.

        The nodes outlive this process if it is killed with SIGKILL: the next `sweep` ends them, and cuts expire.

        Raises:
            BackendError: it cannot be done here.
            UsageError: nodes that cannot be housed, or a system that comes in no image.
        """
        check_nodes(self.name, test.nodes, MOST_NODES)
        image = _image_of(test)
        _require_that_it_works()
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


def _image_of(test: Test) -> str:
    image = test.system.capabilities.image
    if image is None:
        raise UsageError(
            f"system {test.system.name!r} comes in no container image: take another backend, such as local."
        )
    return image


def _require_that_it_works() -> None:
    problem = _problem()
    if problem is not None:
        raise BackendError(f"the docker backend does not work here: {problem}")


def _problem() -> str | None:
    """Why the backend does not work here, in one line; None if it does."""
    if sys.platform != "linux":
        return f"it needs Linux, this is {sys.platform}: use the sim backend, or Linux machines over ssh."
    try:
        images.engine().close()
        find_tool("nft")
    except (BackendError, AgentError) as error:
        return f"{str(error).rstrip('.')}."
    if os.geteuid() != 0:
        return "it enters the containers' network namespaces, which only root may: run splitbrain as root."
    return None


@functools.cache
def _packets_problem() -> str | None:
    """Why packets cannot be given faults, None if they can: found by trying, once per process, in about 0.2 s."""
    problem = probe_packets()
    return None if problem is None else f"{problem}."


def _run_id() -> str:
    return f"{os.getpid()}-{secrets.token_hex(3)}"

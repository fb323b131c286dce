"""What the docker backend can do with the engine of this machine, and why not where it cannot.

Doctor and `DockerBackend` report it. What only an image decides (libfaketime in it) shows when nodes are laid out.
"""

from __future__ import annotations

import functools
import os
import sys

from splitbrain.harness import images
from splitbrain.harness.backends.agent import volumes
from splitbrain.harness.backends.agent.tools import AgentError, find_tool
from splitbrain.harness.backends.shared import disks
from splitbrain.harness.backends.shared.channel import probe_packets
from splitbrain.harness.backends.shared.nodefaults import CLIENT_LINKS, MEMBERSHIP_HOW, MOMENT_WHY
from splitbrain.harness.contract import faultkinds
from splitbrain.harness.contract.faults import Support
from splitbrain.harness.contract.test import Test
from splitbrain.results.errors import BackendError, UsageError


def faults() -> dict[str, Support]:
    """Which faults work here, and how.

    Raises:
        BackendError: nothing works here, as there is no engine, or this process may not enter containers.
    """
    require_engine()
    packets, without_volumes = packets_problem(), volumes.problem()
    by_queue = "NFQUEUE where packets leave their sender's network namespace"
    return {
        "cut": Support(True, "nftables in the receiver's network namespace"),
        **dict.fromkeys(faultkinds.LINK_KINDS, Support(packets is None, packets or by_queue)),
        "kill": Support(True, "SIGKILL to every process of the container"),
        "stop": Support(True, "SIGTERM to the container, SIGKILL after a grace"),
        "pause": Support(True, "the control group freezer, until the kernel shows it"),
        "client-links": CLIENT_LINKS,
        "cpu": Support(True, "a quota of the container's control group"),
        **disks.support(without_volumes and f"{without_volumes}."),
        **dict.fromkeys(faultkinds.CLOCK_KINDS, Support(True, "libfaketime of the image; the wall clock only")),
        "membership": Support(True, MEMBERSHIP_HOW),
        "moment": Support(False, MOMENT_WHY),
    }


def require_engine() -> None:
    """Refuse a machine on which the backend does not work.

    Raises:
        BackendError: it does not work here.
    """
    problem = _problem()
    if problem is not None:
        raise BackendError(f"the docker backend does not work here: {problem}")


def image_of(test: Test) -> str:
    """The image of the test's system.

    Raises:
        UsageError: the system comes in no image.
    """
    can = test.system.capabilities
    image = can.image
    if image is not None and can.image_for is not None:
        image = can.image_for(test.settings)
    if image is None:
        raise UsageError(
            f"system {test.system.name!r} comes in no container image: take another backend, such as local."
        )
    return image


@functools.cache
def packets_problem() -> str | None:
    """Why packets cannot be given faults, None if they can: found by trying, once per process, in about 0.2 s."""
    problem = probe_packets()
    return None if problem is None else f"{problem}."


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

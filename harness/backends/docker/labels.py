"""Whose containers and networks are whose, and the removal of those whose controller is dead."""

from __future__ import annotations

import docker
import docker.errors

from harness.backends import ownership
from harness.backends.docker.engine import Labelled, containers_with, networks_with, remove_container

CONTROLLER = "splitbrain.controller"
"""The label that names the controller (`ownership`)."""
RUN = "splitbrain.run"
"""The label that names the run."""
NODE = "splitbrain.node"
"""The label that names the node, of a container that runs one or keeps its network."""


def of_run(run: str) -> dict[str, str]:
    """The labels of what a run of this controller makes."""
    return {CONTROLLER: ownership.this_controller().marker, RUN: run}


def sweep(api: docker.APIClient) -> list[str]:
    """Remove containers and networks of controllers that are dead; a line for each. Those of others are left alone.

    Controllers in other PID namespaces cannot be told from dead ones: theirs are left alone too.
    """
    removed: list[str] = []
    for container in containers_with(api, [CONTROLLER]):
        owner = _dead_owner(container)
        if owner is not None:
            remove_container(api, container.id)
            removed.append(f"removed container {container.shown} of controller {owner.pid}, which is gone")
    for network in networks_with(api, [CONTROLLER]):
        owner = _dead_owner(network)
        if owner is not None:
            try:
                api.remove_network(network.id)
            except docker.errors.NotFound:
                continue
            removed.append(f"removed network {network.shown} of controller {owner.pid}, which is gone")
    return removed


def _dead_owner(thing: Labelled) -> ownership.Controller | None:
    owner = ownership.parse((thing.labels or {}).get(CONTROLLER, ""))
    here = ownership.this_controller().pid_namespace
    return owner if owner is not None and owner.pid_namespace == here and not owner.alive else None

"""Whose containers and networks are whose, and the removal of those whose controller is dead."""

from __future__ import annotations

from pathlib import Path

import docker

from splitbrain.harness.backends.docker.engine import (
    Labelled,
    containers_with,
    networks_with,
    remove_container,
    remove_network,
)
from splitbrain.harness.backends.shared import ownership

CONTROLLER = "splitbrain.controller"
"""The label that names the controller (`ownership`)."""
RUN = "splitbrain.run"
"""The label that names the run."""
NODE = "splitbrain.node"
"""The label that names the node, of a container that runs one or keeps its network."""


def of_run(run: str) -> dict[str, str]:
    """The labels of what a run of this controller makes."""
    return {CONTROLLER: ownership.this_controller().marker, RUN: run}


def sweep(api: docker.APIClient, *, dry_run: bool = False) -> list[str]:
    """Remove containers and networks of controllers that are dead; a line for each. Those of others are left alone.

    With `dry_run` it only lists what would be removed.

    Controllers in other PID namespaces cannot be distinguished from dead ones: their things are not touched either.
    Unlike processes, containers and networks survive a reboot.
    """
    booted_at_s = _booted_at_s()
    removed: list[str] = []
    for container in containers_with(api, [CONTROLLER]):
        owner = _dead_owner(container, booted_at_s)
        if owner is not None and (dry_run or remove_container(api, container.id)):
            done = "would remove" if dry_run else "removed"
            removed.append(f"{done} container {container.shown} of controller {owner.pid}, which is gone")
    for network in networks_with(api, [CONTROLLER]):
        owner = _dead_owner(network, booted_at_s)
        if owner is not None and dry_run:
            removed.append(f"would remove network {network.shown} of controller {owner.pid}, which is gone")
        elif owner is not None:
            problem = remove_network(api, network.id)
            done = (
                f"removed network {network.shown}" if problem is None else f"left network {network.shown} ({problem})"
            )
            removed.append(f"{done} of controller {owner.pid}, which is gone")
    return removed


def _dead_owner(thing: Labelled, booted_at_s: float) -> ownership.Controller | None:
    owner = ownership.parse((thing.labels or {}).get(CONTROLLER, ""))
    if owner is None:
        return None
    return owner if owner.gone or (owner.elsewhere and thing.created_at_s < booted_at_s) else None


def _booted_at_s() -> float:
    """When this machine was booted, in seconds since 1970 by the clock as it is set now (proc(5))."""
    lines = Path("/proc/stat").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("btime ")))

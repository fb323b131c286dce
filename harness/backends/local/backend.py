"""The local backend: which way of cutting links works here, and deployments by it."""

from __future__ import annotations

import functools
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from splitbrain.harness.backends.local import linkkinds, nodefaults
from splitbrain.harness.backends.local.deployment import LocalDeployment
from splitbrain.harness.backends.shared import leftovers
from splitbrain.harness.backends.shared.channel import Agent, probe_namespaces, probe_packets
from splitbrain.harness.backends.shared.deployed import check_nodes, closed_on_failure
from splitbrain.harness.backends.shared.nodefaults import MEMBERSHIP_HOW
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.faults import Support
from splitbrain.harness.contract.test import Test
from splitbrain.results.errors import BackendError, UsageError

MOST_NODES = 250

Links: TypeAlias = Literal["namespaces", "proxy"]
"""How links are carried and cut."""

LINKS_VARIABLE = "SPLITBRAIN_LOCAL_LINKS"
"""The environment variable that forces one of the two."""

_HOW = {
    "namespaces": "nftables on a bridge between network namespaces",
    "proxy": "a userspace proxy for each directed link",
}


class LocalBackend:
    """Nodes are processes on this machine; links are cut in one of two ways.

    If the kernel allows network namespaces (to root, or inside a user namespace) and `ip` and `nft` are installed, each
    node gets its own network namespace and cuts drop packets. Otherwise nodes reach each other through proxies on
    loopback, and cuts drop bytes.

    Args:
        links: force one of the two; else `SPLITBRAIN_LOCAL_LINKS` decides if it is set, else what works here.

    Raises:
        UsageError: there is no such way.
    """

    name = "local"

    def __init__(self, links: Links | None = None) -> None:
        wanted = links or os.environ.get(LINKS_VARIABLE) or None
        if wanted is not None and wanted not in get_args(Links):
            raise UsageError(
                f"links of the local backend are cut by {' or '.join(get_args(Links))}, not {wanted!r} "
                f"(see {LINKS_VARIABLE})."
            )
        self._wanted = wanted

    @property
    def links(self) -> str:
        """How links are cut here."""
        return self._wanted or ("proxy" if namespaces_problem() else "namespaces")

    def support(self) -> Mapping[str, Support]:
        """Which faults work here, and how.

        Raises:
            BackendError: this is not Linux.
        """
        if not _is_linux():
            raise BackendError(_needs_linux())
        return {
            "cut": self._support_of_cuts(),
            "kill": Support(True, "SIGKILL, until the process is reaped"),
            "pause": Support(True, "SIGSTOP, until the kernel shows state T"),
            **linkkinds.support(self.links, self._links_problem(), packets_problem),
            **nodefaults.support(self.links),
            "membership": Support(True, MEMBERSHIP_HOW),
        }

    def _links_problem(self) -> str | None:
        """Why links are carried otherwise than they would best be, or not at all; None if there is no reason."""
        return "proxies were asked for" if self._wanted == "proxy" else namespaces_problem()

    def _support_of_cuts(self) -> Support:
        if self._wanted == "proxy":
            return Support(True, f"{_HOW['proxy']}, as asked for")
        problem = namespaces_problem()
        if problem is None:
            return Support(True, _HOW["namespaces"])
        if self._wanted == "namespaces":
            return Support(False, f"namespaces do not work here: {problem}")
        return Support(True, f"{_HOW['proxy']}, because {problem}")

    def sweep(self) -> list[str]:
        """Remove processes, control groups and volumes that a dead controller left behind; a line for each."""
        return leftovers.sweep() if _is_linux() else []

    def check(self, test: Test) -> None:
        """Refuse a test that cannot run here, as far as that shows before anything is started. Looks, changes nothing.

        Raises:
            BackendError: this is not Linux, a program is missing, or links cannot be carried as they have to be.
            UsageError: nodes that cannot be housed.
        """
        check_nodes(self.name, test.nodes, MOST_NODES)
        if not _is_linux():
            raise BackendError(_needs_linux())
        needed = test.system.capabilities
        for program, package in needed.programs.items():
            if shutil.which(program) is None:
                raise BackendError(
                    f"there is no {program!r} on this machine (Debian and Ubuntu: apt install {package}). Install it, "
                    "or use --backend docker, whose image brings its own."
                )
        links = self.links
        _require_links(links)
        if links == "proxy" and len(test.nodes) > 1 and needed.one_address:
            raise BackendError(
                f"{test.system.name}: all peers must know a node by the same address, but here nodes reach their "
                "peers through proxies on loopback. Use network namespaces (splitbrain doctor shows what is missing "
                "here), or --backend docker."
            )

    async def deploy(self, test: Test, run_dir: Path, runtime: Runtime) -> LocalDeployment:
        """Lay out the test's nodes, not yet started.

        Everything dies with the calling thread: call it from one that outlives the test.

        Raises:
            BackendError: the way of cutting links that was asked for does not work here.
            UsageError: nodes that cannot be housed.
        """
        check_nodes(self.name, test.nodes, MOST_NODES)
        if not _is_linux():
            raise BackendError(_needs_linux())
        links = self.links
        _require_links(links)
        deployment = LocalDeployment(test, run_dir, links, Agent.start(links))
        async with closed_on_failure(deployment):
            await deployment.lay_out()
        return deployment


def _require_links(links: str) -> None:
    problem = namespaces_problem() if links == "namespaces" else None
    if problem is not None:
        raise BackendError(
            f"the local backend cannot use namespaces: {problem}. Leave the choice to it, or set "
            f"{LINKS_VARIABLE}=proxy."
        )


@functools.cache
def namespaces_problem() -> str | None:
    """Why namespaces cannot be used here, None if they can: found by trying, once per process, in about 0.3 s."""
    return probe_namespaces() if _is_linux() else _needs_linux()


@functools.cache
def packets_problem() -> str | None:
    """Why packets cannot be given faults in namespaces, None if they can: found by trying, as before, in 0.2 s."""
    return probe_packets()


def _is_linux() -> bool:
    return sys.platform == "linux"


def _needs_linux() -> str:
    return f"the local backend needs Linux, this is {sys.platform}: use the sim backend, or a Linux machine over ssh."

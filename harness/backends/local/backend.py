"""The local backend: deployments on this machine. `support` says what works here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from splitbrain.harness.backends.local import support
from splitbrain.harness.backends.local.deployment import LocalDeployment
from splitbrain.harness.backends.local.support import Links
from splitbrain.harness.backends.shared import leftovers
from splitbrain.harness.backends.shared.channel import Agent
from splitbrain.harness.backends.shared.deployed import check_nodes, closed_on_failure
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.faults import Support
from splitbrain.harness.contract.test import Test
from splitbrain.results.errors import BackendError

MOST_NODES = 250


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
        self._wanted = support.wanted_links(links)

    @property
    def links(self) -> str:
        """How links are cut here."""
        return support.links_here(self._wanted)

    def support(self) -> Mapping[str, Support]:
        """Which faults work here, and how.

        Raises:
            BackendError: this is not Linux.
        """
        return support.faults(self._wanted)

    def sweep(self) -> list[str]:
        """Remove processes, control groups and volumes that a dead controller left behind; a line for each."""
        return leftovers.sweep() if support.is_linux() else []

    def check(self, test: Test) -> None:
        """Refuse a test that cannot run here, as far as that shows before anything is started. Looks, changes nothing.

        Raises:
            BackendError: this is not Linux, a program is missing or of another release, or links cannot be carried as
                they have to be.
            UsageError: nodes that cannot be housed.
        """
        check_nodes(self.name, test.nodes, MOST_NODES)
        support.require_linux()
        support.require_programs(test)
        support.require_release(test)
        links = self.links
        support.require_links(links)
        if links == "proxy" and len(test.nodes) > 1 and test.system.capabilities.one_address:
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
        support.require_linux()
        links = self.links
        support.require_links(links)
        support.require_shared_folder(run_dir, links)
        deployment = LocalDeployment(test, run_dir, links, Agent.start(links))
        async with closed_on_failure(deployment):
            await deployment.lay_out()
        return deployment

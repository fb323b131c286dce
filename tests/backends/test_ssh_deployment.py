"""Nodes on hosts do what is asked, links between hosts are cut as asked, and a host is left as it was found."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path

import pytest

from splitbrain.harness.backends.ssh.deployment import SshDeployment
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.results.errors import UnknownNodeError, UsageError
from tests.backends import ssh_support
from tests.backends.ssh_support import HostGossip, Hosts, deploy
from tests.backends.support import all_links, ask, start_all, until_silent

hosts = ssh_support.hosts
pytestmark = pytest.mark.cluster

FOREIGN = "table inet somebody { chain input { type filter hook input priority 0; tcp dport 4242 counter drop; }; }"


class Cluster:
    """Three gossiping nodes for several tests, and the event loop in which they are controlled."""

    def __init__(self, runner: asyncio.Runner, deployment: SshDeployment, folder: Path) -> None:
        self.runner = runner
        self.deployment = deployment
        self.folder = folder


@pytest.fixture(scope="module")
def shared(hosts: Hosts, tmp_path_factory: pytest.TempPathFactory) -> Generator[Cluster, None, None]:
    """One deployment for the tests that use it. When it is closed each host is as it was, foreign rules included."""
    folder = tmp_path_factory.mktemp("shared")
    hosts.on(2, f"nft '{FOREIGN}'")
    before = hosts.on(2, "nft list table inet somebody")
    assert hosts.wait_until_clear() == []
    with asyncio.Runner() as runner:
        deployment = runner.run(deploy(hosts.inventory, folder, HostGossip(files={"seed/file": b"laid"})))
        try:
            runner.run(start_all(deployment))
            hosts.on(0, f"echo written > {deployment.places['n1'].data_dir}/by-the-node")
            yield Cluster(runner, deployment, folder)
        finally:
            assert hosts.traces() != []
            runner.run(deployment.close())
    assert hosts.wait_until_clear() == []
    assert hosts.on(2, "nft list table inet somebody") == before
    assert (folder / "nodes/n1/data/by-the-node").read_text() == "written\n"
    assert (folder / "nodes/n1/data/seed/file").read_bytes() == b"laid"
    assert "n1 listens" in (folder / "nodes/n1/log").read_text()


@pytest.fixture
def cluster(shared: Cluster) -> Cluster:
    """The shared nodes: all of them run, no link is cut."""

    async def tidy() -> None:
        await shared.deployment.cut(frozenset())
        for node in shared.deployment.nodes:
            await shared.deployment.resume(node)
        await start_all(shared.deployment)

    shared.runner.run(tidy())
    return shared


@pytest.mark.slow
def test_a_cut_drops_one_direction_of_a_link_and_counts_it(cluster: Cluster, hosts: Hosts) -> None:
    deployment = cluster.deployment

    async def scenario() -> None:
        await until_silent(deployment, [])
        await deployment.cut(frozenset({("n1", "n2")}))
        assert "table inet splitbrain" in "\n".join(hosts.traces())
        await until_silent(deployment, [("n1", "n2")])
        passes = await deployment.passes(all_links(deployment))
        assert [link for link, passed in passes.items() if not passed] == [("n1", "n2")]
        dropped = await deployment.dropped()
        assert list(dropped) == [("n1", "n2")]
        assert dropped["n1", "n2"] > 0
        await deployment.cut(frozenset())
        await until_silent(deployment, [])
        assert await deployment.dropped() == {}

    cluster.runner.run(scenario())


@pytest.mark.slow
def test_probes_are_not_counted_as_dropped_traffic(cluster: Cluster) -> None:
    deployment = cluster.deployment

    async def scenario() -> None:
        for node in deployment.nodes:
            await deployment.kill(node)  # no node runs: there is no other traffic
        await deployment.cut(frozenset({("n1", "n2")}))
        for _ in range(3):
            seen = await deployment.passes([("n1", "n2"), ("n2", "n1")])
            assert seen == {("n1", "n2"): False, ("n2", "n1"): True}
        assert await deployment.dropped() == {("n1", "n2"): 0}

    cluster.runner.run(scenario())


@pytest.mark.slow
def test_a_killed_node_comes_back_with_its_data_behind_the_same_cut(cluster: Cluster, hosts: Hosts) -> None:
    deployment = cluster.deployment

    async def scenario() -> None:
        life = (await deployment.status("n1")).life
        kept = f"{deployment.places['n1'].data_dir}/kept"
        hosts.on(0, f"echo kept > {kept}")
        await deployment.cut(frozenset({("n2", "n1")}))
        killed = await deployment.kill("n1")
        assert (killed.state, killed.evidence) == ("stopped", {"exit": "SIGKILL"})
        with pytest.raises(DefiniteError, match="n1 cannot be reached"):
            await deployment.dial("n1")
        again = await deployment.start("n1")
        assert (again.state, again.life) == ("running", life + 1)
        assert hosts.on(0, f"cat {kept}") == "kept\n"
        assert (await deployment.passes([("n2", "n1")])) == {("n2", "n1"): False}

    cluster.runner.run(scenario())


@pytest.mark.slow
def test_a_paused_node_is_silent_until_it_is_resumed(cluster: Cluster) -> None:
    deployment = cluster.deployment

    async def scenario() -> None:
        paused = await deployment.pause("n2")
        assert (paused.state, paused.evidence["stat"]) == ("paused", "T")
        await until_silent_from(deployment, "n2")
        assert (await deployment.resume("n2")).state == "running"
        await until_silent(deployment, [])

    async def until_silent_from(deployment: SshDeployment, node: str) -> None:
        heard = -1
        async with asyncio.timeout(60):  # what was on its way may still arrive
            while heard != (heard := (await ask(deployment, "n1"))["heard"].get(node, 0)):
                await asyncio.sleep(0.2)

    cluster.runner.run(scenario())


@pytest.mark.slow
def test_names_that_are_not_in_the_test_are_refused(cluster: Cluster) -> None:
    async def scenario() -> None:
        with pytest.raises(UnknownNodeError, match="no node 'n9'"):
            await cluster.deployment.start("n9")
        with pytest.raises(UsageError, match="no link to itself"):
            await cluster.deployment.cut(frozenset({("n1", "n1")}))

    cluster.runner.run(scenario())

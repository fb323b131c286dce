"""Faults of nodes on hosts: each is injected, seen by somebody other than who injected it, healed, seen to be gone."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path

import pytest

from splitbrain.harness.backends.ssh.deployment import SshDeployment
from splitbrain.harness.contract.faults import ClockFault, DiskFault, FaultKind, LinkFault
from splitbrain.results.errors import FaultNotSupportedError
from tests.backends import ssh_support
from tests.backends.ssh_support import Hosts, deploy, deployed
from tests.backends.support import ask, beats, refuses_what_was_not_asked_for, start_all, until_silent

hosts = ssh_support.hosts
pytestmark = pytest.mark.cluster

NEEDED: tuple[FaultKind, ...] = ("loss", "hold", "disk-full", "disk-fails", "disk-rot", "power", "clock-jump", "cpu")


class Cluster:
    """Three gossiping nodes, the hosts below them, and the event loop in which they are controlled."""

    def __init__(self, runner: asyncio.Runner, deployment: SshDeployment, hosts: Hosts) -> None:
        self.runner = runner
        self.deployment = deployment
        self.hosts = hosts
        self.data = deployment.places["n1"].data_dir

    def as_n1(self, command: str) -> str:
        """Run a command on the host of n1, with the mounts and the environment that the node has."""
        node = "$(pgrep -f gossip_node.py | head -1)"
        faked = "$(tr '\\0' '\\n' < /proc/$pid/environ | grep -E '^(FAKETIME|LD_PRELOAD)')"
        return self.hosts.on(0, f"pid={node}; env {faked} nsenter -t $pid -m sh -c '{command}'")


@pytest.fixture(scope="module")
def shared(hosts: Hosts, tmp_path_factory: pytest.TempPathFactory) -> Generator[Cluster, None, None]:
    with asyncio.Runner() as runner:
        deployment = runner.run(deploy(hosts.inventory, tmp_path_factory.mktemp("run"), faults=NEEDED))
        try:
            yield Cluster(runner, deployment, hosts)
        finally:
            runner.run(deployment.close())
    assert hosts.wait_until_clear() == []


@pytest.fixture
def cluster(shared: Cluster) -> Cluster:
    """The shared nodes: all of them run."""
    shared.runner.run(start_all(shared.deployment))
    return shared


@pytest.mark.slow
def test_a_link_loses_packets_one_way_and_counts_them(cluster: Cluster) -> None:
    deployment = cluster.deployment

    async def scenario() -> None:
        await until_silent(deployment, [])
        await deployment.disturb({("n1", "n2"): LinkFault(loss=1.0)})
        await until_silent(deployment, [("n1", "n2")])
        assert (await deployment.disturbed())["n1", "n2"]["lost"] > 0
        assert (await deployment.passes([("n1", "n2")])) == {("n1", "n2"): True}, "a lossy link is not a cut one"
        await deployment.disturb({})
        await until_silent(deployment, [])
        assert await deployment.disturbed() == {}

    cluster.runner.run(scenario())


@pytest.mark.slow
def test_a_link_that_holds_everything_lets_it_go_afterwards(cluster: Cluster) -> None:
    deployment = cluster.deployment

    async def scenario() -> None:
        await deployment.disturb({("n1", "n2"): LinkFault(held=True)})
        await until_silent(deployment, [("n1", "n2")])
        assert (await deployment.passes([("n1", "n2"), ("n2", "n1")])) == {("n1", "n2"): False, ("n2", "n1"): True}
        heard = (await ask(deployment, "n2"))["heard"]["n1"]
        await deployment.disturb({})
        await until_silent(deployment, [])
        assert (await ask(deployment, "n2"))["heard"]["n1"] > heard

    cluster.runner.run(scenario())


def test_a_full_disk_refuses_writes_until_it_is_healed(cluster: Cluster) -> None:
    deployment = cluster.deployment

    async def scenario() -> None:
        assert (await deployment.spoil("n1", DiskFault(full=True)))["errno"] == "ENOSPC"
        said = cluster.as_n1(f"head -c 9000 /dev/zero 2>&1 > {cluster.data}/more || true")
        assert "No space left on device" in said
        await deployment.spoil("n1", None)
        assert cluster.as_n1(f"echo fits > {cluster.data}/more && cat {cluster.data}/more") == "fits\n"

    cluster.runner.run(scenario())


@pytest.mark.slow
def test_a_failed_disk_is_healed_by_a_new_mount_without_its_node(cluster: Cluster) -> None:
    deployment = cluster.deployment

    async def scenario() -> None:
        assert (await deployment.spoil("n1", DiskFault(fails=True)))["errno"] == "EIO"
        assert "Input/output error" in cluster.as_n1(f"echo 2>&1 > {cluster.data}/more || true")
        assert (await deployment.spoil("n1", None))["killed"] is True
        assert (await deployment.start("n1")).state == "running"
        assert cluster.as_n1(f"echo works > {cluster.data}/more && cat {cluster.data}/more") == "works\n"

    cluster.runner.run(scenario())


@pytest.mark.slow
def test_a_loss_of_power_loses_what_was_not_synced_and_nothing_else(cluster: Cluster) -> None:
    deployment = cluster.deployment

    async def scenario() -> None:
        cluster.as_n1(
            f"echo kept > {cluster.data}/kept && sync -f {cluster.data}/kept && echo lost > {cluster.data}/lost"
        )
        status = await deployment.power_off("n1")
        assert status.state == "stopped"
        assert status.evidence["names_lost"] >= 1
        await deployment.start("n1")
        found = cluster.as_n1(f"ls {cluster.data}").split()
        assert "kept" in found
        assert "lost" not in found

    cluster.runner.run(scenario())


def test_files_rot_only_while_their_node_is_stopped_and_are_mended(cluster: Cluster) -> None:
    deployment = cluster.deployment

    async def scenario() -> None:
        cluster.as_n1(f"head -c 4096 /dev/zero > {cluster.data}/zeros && sync -f {cluster.data}/zeros")
        with pytest.raises(FaultNotSupportedError, match="only while it is stopped"):
            await deployment.spoil("n1", DiskFault(rot=1))
        await deployment.kill("n1")
        assert (await deployment.spoil("n1", DiskFault(rot=1)))["rotten"]
        assert (await deployment.spoil("n1", None))["mended"] == 1

    cluster.runner.run(scenario())


@pytest.mark.slow
def test_a_clock_jumps_and_comes_back_as_measured_and_as_the_node_sees_it(cluster: Cluster) -> None:
    deployment = cluster.deployment

    async def scenario() -> None:
        measured = await deployment.skew("n1", ClockFault(offset_ms=-3_600_000.0))
        assert abs(measured["before"]["offset_ms"]) < 1000
        assert abs(measured["after"]["offset_ms"] + 3_600_000) < 1000
        behind_s = int(cluster.hosts.on(0, "date +%s")) - int(cluster.as_n1("date +%s"))
        assert abs(behind_s - 3600) <= 5
        measured = await deployment.skew("n1", None)
        assert abs(measured["after"]["offset_ms"]) < 1000

    cluster.runner.run(scenario())


@pytest.mark.slow
def test_a_throttled_node_runs_into_its_limit_and_gets_free_again(cluster: Cluster) -> None:
    deployment = cluster.deployment

    async def scenario() -> None:
        await deployment.throttle("n2", 0.01)
        async with asyncio.timeout(120):
            while True:
                await beats(deployment, 0.2)
                if (await deployment.throttle("n2", 0.01))["throttled"] > 0:
                    break
        await deployment.throttle("n2", None)
        assert await deployment.throttle("n2", None) == {}

    cluster.runner.run(scenario())


@pytest.mark.slow
def test_what_a_test_did_not_ask_for_is_refused_by_name(hosts: Hosts, shared: Cluster, tmp_path: Path) -> None:
    shared.runner.run(shared.deployment.close())

    async def scenario() -> None:
        async with deployed(hosts.of(0), tmp_path) as deployment:
            await refuses_what_was_not_asked_for(deployment)

    asyncio.run(scenario())

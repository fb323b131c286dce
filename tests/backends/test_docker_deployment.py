"""Nodes in containers do what is asked, and links between them are cut as asked: seen by the nodes themselves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator
from pathlib import Path

import docker
import pytest

from splitbrain.harness.backends.docker import DockerDeployment
from splitbrain.harness.contract.faults import LinkFault
from splitbrain.harness.contract.nodes import Link, NodeStatus
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.results.errors import BackendError, NodeStartError, UnknownNodeError, UsageError
from tests.backends import docker_support
from tests.backends.docker_support import ContainerGossip, deployed, inside, of_run
from tests.backends.support import all_links, ask, beats, start_all, until_silent

engine = docker_support.engine
pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("engine")]

FOREIGN = (
    "table inet somebody {\n chain input {\n type filter hook input priority 0\n tcp dport 4242 counter drop\n }\n}\n"
)

LISTENS_AND_ENDS = """
import os, socket, time
listening = socket.create_server(("", 7000))
time.sleep(0.2)
print("out of luck", flush=True)
os.kill(os.getpid(), 11)
"""


class Cluster:
    """Three gossiping nodes for all tests of this module, and the event loop in which they are controlled."""

    def __init__(self, runner: asyncio.Runner, deployment: DockerDeployment, folder: Path) -> None:
        self.runner = runner
        self.deployment = deployment
        self.folder = folder


@pytest.fixture(scope="module")
def shared(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Generator[Cluster, None, None]:
    folder = tmp_path_factory.mktemp("shared")
    with asyncio.Runner() as runner:
        deployment = runner.run(docker_support.deploy(folder))
        try:
            yield Cluster(runner, deployment, folder)
        finally:
            runner.run(deployment.close())
    assert of_run(deployment.run) == []


@pytest.fixture
def cluster(shared: Cluster) -> Cluster:
    """The shared nodes: all of them run, no link is cut."""

    async def tidy() -> None:
        await shared.deployment.cut(frozenset())
        await shared.deployment.disturb({})
        for node in shared.deployment.nodes:
            await shared.deployment.resume(node)
        await start_all(shared.deployment)

    shared.runner.run(tidy())
    return shared


@pytest.mark.slow
def test_the_image_that_the_nodes_run_is_told_by_its_tag_and_by_the_id_that_the_engine_has(cluster: Cluster) -> None:
    image = cluster.deployment.image
    with contextlib.closing(docker.from_env()) as client:
        assert client.images.get(image.tag).id == image.id
    assert image.id.startswith("sha256:")


# --- nodes --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_node_is_killed_and_started_again_as_a_new_process_with_its_data(cluster: Cluster) -> None:
    deployment = cluster.deployment
    data = cluster.folder / "nodes/n1/data"

    async def run() -> None:
        first = await deployment.status("n1")
        assert first.state == "running"
        assert Path(f"/proc/{first.evidence['pid']}").exists()
        assert await deployment.start("n1") == await deployment.status("n1"), "a node that runs is left alone"
        (data / "kept").write_text("by whoever starts next")
        killed = await deployment.kill("n1")
        assert (killed.state, killed.evidence["exit"]) == ("stopped", "SIGKILL")
        assert "by_itself" not in killed.evidence
        assert not Path(f"/proc/{first.evidence['pid']}").exists()
        with pytest.raises(DefiniteError, match="n1 cannot be reached: Connection refused"):
            await deployment.dial("n1")
        second = await deployment.start("n1")
        assert (second.state, second.life, second.evidence["listening"]) == ("running", first.life + 1, True)
        assert second.evidence["pid"] != first.evidence["pid"]
        assert (data / "kept").read_text() == "by whoever starts next"
        logged = (cluster.folder / "nodes/n1/log").read_text().splitlines()
        assert logged.count("n1 listens") == second.life, "the log goes on where it was"
        await deployment.kill("n1")
        assert (await deployment.kill("n1")).state == "stopped", "killing what is dead does no harm"

    cluster.runner.run(run())


@pytest.mark.slow
def test_a_paused_node_is_frozen_by_the_kernel_and_goes_on_where_it_was(cluster: Cluster) -> None:
    deployment = cluster.deployment

    async def run() -> None:
        await until_silent(deployment, [])
        before = (await ask(deployment, "n2"))["pid"]
        paused = await deployment.pause("n2")
        assert (paused.state, paused.evidence["frozen"]) == ("paused", True)
        assert (await deployment.pause("n2")).state == "paused", "what is paused stays paused"
        connection = await deployment.dial("n2")  # the kernel still takes connections
        with connection, pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await asyncio.get_running_loop().sock_recv(connection, 1)
        heard = (await ask(deployment, "n1"))["heard"]["n2"]
        await asyncio.sleep(0.2)
        assert (await ask(deployment, "n1"))["heard"]["n2"] == heard
        resumed = await deployment.resume("n2")
        assert (resumed.state, resumed.evidence["frozen"]) == ("running", False)
        await until_silent(deployment, [])
        assert (await ask(deployment, "n2"))["pid"] == before
        await deployment.pause("n2")
        assert (await deployment.kill("n2")).state == "stopped", "what is paused can be killed"
        assert (await deployment.pause("n2")).state == "stopped"
        assert (await deployment.resume("n2")).state == "stopped"

    cluster.runner.run(run())


def test_nodes_know_each_other_by_name(cluster: Cluster) -> None:
    keeper = cluster.deployment.places["n2"].listen[0]
    hosts = Path(f"/proc/{_pid(cluster, 'n1')}/root/etc/hosts").read_text().split()
    assert hosts[hosts.index("n2") - 1] == keeper
    hostname = Path(f"/proc/{_pid(cluster, 'n1')}/root/etc/hostname").read_text()
    assert hostname.strip() == "n1"


def test_a_name_that_is_no_node_is_refused(cluster: Cluster) -> None:
    with pytest.raises(UnknownNodeError, match="there is no node 'n9'"):
        cluster.runner.run(cluster.deployment.kill("n9"))
    with pytest.raises(UsageError, match="no link to itself"):
        cluster.runner.run(cluster.deployment.cut(frozenset({("n1", "n1")})))


# --- links --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "cut",
    [[("n1", "n2")], [("n2", "n3"), ("n3", "n2")], [("n1", "n2"), ("n1", "n3"), ("n2", "n1"), ("n3", "n1")]],
    ids=["one way", "both ways", "one node apart"],
)
def test_exactly_the_cut_links_drop_everything_and_they_heal(cluster: Cluster, cut: list[Link]) -> None:
    deployment = cluster.deployment

    async def run() -> None:
        await until_silent(deployment, [])
        await deployment.cut(frozenset(cut))
        await until_silent(deployment, cut)
        passes = await deployment.passes(all_links(deployment))
        assert sorted(link for link, passed in passes.items() if not passed) == cut
        first = await deployment.dropped()
        assert sorted(first) == cut
        await beats(deployment)
        second = await deployment.dropped()
        assert all(second[link] > first[link] > 0 for link in cut), "each cut link has a counter that goes up"
        await deployment.cut(frozenset())
        await until_silent(deployment, [])
        assert all((await deployment.passes(all_links(deployment))).values())
        assert await deployment.dropped() == {}

    cluster.runner.run(run())


def test_probes_are_not_counted_as_dropped_traffic(cluster: Cluster) -> None:
    deployment = cluster.deployment

    async def run() -> None:
        for node in deployment.nodes:
            await deployment.kill(node)
        await deployment.cut(frozenset({("n1", "n2")}))
        for _ in range(3):
            assert not (await deployment.passes([("n1", "n2")]))["n1", "n2"]
        assert await deployment.dropped() == {("n1", "n2"): 0}

    cluster.runner.run(run())


@pytest.mark.slow
def test_a_node_that_starts_again_never_hears_across_a_cut(cluster: Cluster) -> None:
    """Its counts begin with its process: one beat in the moment before the rules were there again would show."""
    deployment = cluster.deployment

    async def run() -> None:
        await until_silent(deployment, [])
        await deployment.cut(frozenset({("n1", "n2"), ("n2", "n3")}))
        await until_silent(deployment, [("n1", "n2"), ("n2", "n3")])
        dropped = await deployment.dropped()
        await deployment.kill("n3")
        await deployment.start("n3")
        await deployment.kill("n2")
        await deployment.start("n2")
        await until_silent(deployment, [("n1", "n2"), ("n2", "n3")])
        assert "n1" not in (await ask(deployment, "n2"))["heard"]
        assert "n2" not in (await ask(deployment, "n3"))["heard"]
        assert (await deployment.dropped())["n1", "n2"] > dropped["n1", "n2"], "counted across the restart"

    cluster.runner.run(run())


@pytest.mark.slow
def test_rules_of_others_are_not_touched(cluster: Cluster) -> None:
    deployment = cluster.deployment
    pid = _pid(cluster, "n1")
    path = cluster.folder / "foreign.nft"
    path.write_text(FOREIGN)
    inside(pid, "nft", "-f", str(path))
    before = inside(pid, "nft", "list", "table", "inet", "somebody")

    async def run() -> None:
        await deployment.cut(frozenset({("n2", "n1")}))
        await until_silent(deployment, [("n2", "n1")])
        await deployment.cut(frozenset())
        await until_silent(deployment, [])

    cluster.runner.run(run())
    assert inside(pid, "nft", "list", "table", "inet", "somebody") == before


# --- links with faults ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "word", "least", "most"),
    [
        (LinkFault(loss=1.0), "lost", 0.0, 0.0),
        pytest.param(LinkFault(held=True), "held", 0.0, 0.0, marks=pytest.mark.slow),
        pytest.param(LinkFault(corrupt=1.0), "corrupted", 0.0, 0.0, marks=pytest.mark.slow),
        pytest.param(LinkFault(mtu=20), "oversized", 0.0, 0.0, marks=pytest.mark.slow),
        (LinkFault(duplicate=1.0), "duplicated", 1.5, 2.5),
        pytest.param(LinkFault(reorder=0.5), "reordered", 0.6, 1.4, marks=pytest.mark.slow),
        pytest.param(LinkFault(delay_ms=50, jitter_ms=10), "delayed", 0.6, 1.4, marks=pytest.mark.slow),
    ],
    ids=["lost", "held", "corrupted", "oversized", "duplicated", "reordered", "delayed"],
)
def test_a_link_with_a_fault_carries_as_much_as_it_should_beside_one_without(
    cluster: Cluster, fault: LinkFault, word: str, least: float, most: float
) -> None:
    """What n2 hears of n1 in the time in which it hears 50 beats of n3."""
    deployment = cluster.deployment

    async def heard() -> dict[str, int]:
        return (await ask(deployment, "n2"))["heard"]

    async def run() -> None:
        await until_silent(deployment, [])
        await deployment.disturb({("n1", "n2"): fault})
        assert list(await deployment.disturbed()) == [("n1", "n2")]
        before = now = await heard()
        while now["n3"] < before["n3"] + 50:
            await asyncio.sleep(0.05)
            now = await heard()
        share = (now["n1"] - before["n1"]) / (now["n3"] - before["n3"])
        assert least <= share <= most
        assert (await deployment.disturbed())["n1", "n2"][word] > 0
        await deployment.disturb({})
        assert await deployment.disturbed() == {}
        await until_silent(deployment, [])

    cluster.runner.run(run())


@pytest.mark.slow
def test_a_link_keeps_its_fault_when_the_node_that_sends_starts_again(cluster: Cluster) -> None:
    deployment = cluster.deployment

    async def run() -> None:
        await until_silent(deployment, [])
        await deployment.disturb({("n1", "n2"): LinkFault(loss=1.0)})
        await deployment.kill("n2")
        await deployment.start("n2")
        await deployment.kill("n1")
        await deployment.start("n1")
        await until_silent(deployment, [("n1", "n2")])
        assert "n1" not in (await ask(deployment, "n2"))["heard"]
        rules = inside(_pid_of(await deployment.status("n1")), "iptables-save", "-t", "mangle")
        assert "NFQUEUE" in rules
        await deployment.disturb({})
        rules = inside(_pid_of(await deployment.status("n1")), "iptables-save", "-t", "mangle")
        assert "SPLITBRAIN" not in rules, "no rule stays when no link has a fault"

    cluster.runner.run(run())


# --- deployments of their own ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_deployments_at_the_same_time_do_not_disturb_each_other(cluster: Cluster, tmp_path: Path) -> None:
    ours = cluster.deployment

    async def run() -> None:
        async with deployed(tmp_path, nodes=("n1", "n2")) as other:
            await start_all(other)
            assert other.places["n1"].listen != ours.places["n1"].listen
            await other.cut(frozenset(all_links(other)))
            await until_silent(other, all_links(other))
            await until_silent(ours, [])
            await ours.cut(frozenset({("n1", "n2")}))
            await other.cut(frozenset())
            await until_silent(other, [])
            await until_silent(ours, [("n1", "n2")])
        assert of_run(other.run) == []
        await until_silent(ours, [("n1", "n2")])

    cluster.runner.run(run())


@pytest.mark.slow
def test_a_node_that_does_not_come_up_says_why_and_nothing_is_left(tmp_path: Path) -> None:
    async def run() -> str:
        system = ContainerGossip(script="echo no licence; exit 3")
        async with deployed(tmp_path, system, nodes=("n1",)) as deployment:
            with pytest.raises(NodeStartError, match=r"n1 ended at once \(exit code 3\); its log, .*: no licence$"):
                await deployment.start("n1")
            system.script = f"exec python3 -S -E -c '{LISTENS_AND_ENDS}'"
            assert (await deployment.start("n1")).life == 2
            status = await deployment.status("n1")
            while status.state == "running":
                await asyncio.sleep(0.05)
                status = await deployment.status("n1")
            assert (status.evidence["exit"], status.evidence["by_itself"]) == ("SIGSEGV", True)
            assert status.evidence["log"] == "out of luck"
            system.files = {"../escape": b""}
            with pytest.raises(NodeStartError, match="must lie in its data directory"):
                await deployment.start("n1")
            return deployment.run

    assert of_run(asyncio.run(run())) == []


@pytest.mark.slow
def test_closing_twice_does_no_harm_and_afterwards_nothing_is_possible(tmp_path: Path) -> None:
    async def run() -> None:
        async with deployed(tmp_path, nodes=("n1", "n2")) as deployment:
            await start_all(deployment)
            await deployment.pause("n1")
            assert len(of_run(deployment.run)) == 5, "two containers for each node, and the network"
        await deployment.close()
        assert of_run(deployment.run) == []
        with pytest.raises(BackendError, match="deployment is closed"):
            await deployment.cut(frozenset())

    asyncio.run(run())


def _pid(cluster: Cluster, node: str) -> int:
    return _pid_of(cluster.runner.run(cluster.deployment.status(node)))


def _pid_of(status: NodeStatus) -> int:
    return status.evidence["pid"]

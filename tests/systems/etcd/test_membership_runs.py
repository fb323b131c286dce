"""Members of a real etcd leave and join: seen by a client that had no part in it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Literal

import pytest

from splitbrain import KEY_VALUE, need
from splitbrain.harness import images
from splitbrain.harness.backends.docker import DockerBackend
from splitbrain.harness.backends.local import LocalBackend
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.realtime import RealClock
from splitbrain.harness.contract.rng import Streams
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.contract.test import NemesisContext, Test
from splitbrain.harness.running.recovery import until_usable
from splitbrain.harness.systems.etcd import Etcd
from splitbrain.harness.systems.etcd.messages import MembersAnswer, Nothing
from splitbrain.nemesis.grudges import all_links
from splitbrain.nemesis.membership import MembershipChanges
from splitbrain.results.errors import BackendError, NodeStartError
from splitbrain.results.history import NEMESIS, Op
from tests.backends.support import missing
from tests.cli.support import comes_out, splitbrain
from tests.systems.etcd.conftest import OPTIONS

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

Where = Literal["docker", "local"]
FAULTS = ["--nemesis", "membership,partition", "--time-limit", "30", "--engine", "inline"]


@pytest.fixture(params=["docker", "local"])
def where(request: pytest.FixtureRequest) -> Where:
    """A backend that can have nodes of etcd."""
    if request.param == "local":
        request.getfixturevalue("etcd_program")
        return "local"
    try:
        images.ensure("etcd")
    except BackendError as error:
        missing(str(error))
    return "docker"


class Cluster:
    """Nodes of etcd that run, and a nemesis that changes who is a member."""

    def __init__(self, test: Test, deployment: Deployment) -> None:
        self.test = test
        self.deployment = deployment
        self.context = NemesisContext(test, deployment, Runtime(RealClock(), Streams(1)))
        self.nemesis = MembershipChanges()
        self._outside = Etcd()

    async def do(self, f: str, **request: Any) -> Any:
        """Carry out an op of the nemesis; its value."""
        op = Op(process=NEMESIS, type="invoke", f=f, value=request)
        done = await self.nemesis.invoke(self.context, op)
        assert done.type == "ok", done.error
        return done.value

    async def members(self, node: NodeId) -> dict[str, str] | None:
        """Ids by name as the node lists them to anybody; None if it does not answer."""
        try:
            gateway = await self._outside._gateway(self.deployment, node)  # pyright: ignore[reportPrivateUsage]
            try:
                answer = await gateway.call("cluster/member/list", Nothing(), MembersAnswer)
            finally:
                await gateway.close()
        except (DefiniteError, IndefiniteError):
            return None
        return {member.name: f"{member.member:x}" for member in answer.members}


@contextlib.asynccontextmanager
async def cluster_of(count: int, where: Where, run_dir: Path) -> AsyncGenerator[Cluster]:
    test = compose(
        RunOptions.of(
            **{**OPTIONS, "nodes": str(count), "nemesis": "membership", "backend": where, "time_limit": 120.0}
        )
    )
    backend = DockerBackend() if where == "docker" else LocalBackend("namespaces")
    deployment = await backend.deploy(test, run_dir, Runtime(RealClock(), Streams(1)))
    try:
        await asyncio.gather(*(deployment.start(node) for node in test.nodes))
        assert (await until_usable(test, deployment, RealClock(), 30)).seconds is not None
        yield Cluster(test, deployment)
    finally:
        await deployment.close()


def test_each_node_leaves_and_joins_as_another_member_with_all_data_and_the_others_list_it(
    where: Where, tmp_path: Path
) -> None:
    count = {"docker": 5, "local": 3}[where]

    async def scenario() -> None:
        async with cluster_of(count, where, tmp_path) as cluster:
            nodes = cluster.test.nodes
            ids = await cluster.members("n1")
            assert ids is not None
            assert sorted(ids) == list(nodes)
            session = need(await cluster.test.system.connect(cluster.deployment, "n1"), KEY_VALUE, "etcd")
            await session.write("kept", 7)
            await session.close()
            for node in nodes:
                left = await cluster.do("leave", spec="one", order=[node, *(other for other in nodes if other != node)])
                assert left["target"] == node
                assert left["evidence"][node]["wiped"] >= 1
                for other in nodes:
                    expected = None if other == node else {name: id_ for name, id_ in ids.items() if name != node}
                    assert await cluster.members(other) == expected
                with pytest.raises(NodeStartError, match="it left the cluster"):
                    await cluster.deployment.start(node)

                joined = await cluster.do("join")
                assert (joined["target"], joined["down"]) == (node, [])
                now = await cluster.members(node)
                assert now is not None
                assert sorted(now) == list(nodes)
                assert now[node] not in ids.values()
                assert [await cluster.members(other) for other in nodes] == [now] * count
                session = need(await cluster.test.system.connect(cluster.deployment, node), KEY_VALUE, "etcd")
                assert (await session.read("kept")).value == 7
                await session.close()
                ids = now
            await cluster.nemesis.heal(cluster.context)

    asyncio.run(scenario())


def test_the_leader_leaves_and_the_others_elect_another_one(where: Where, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster_of(3, where, tmp_path) as cluster:
            view = await cluster.test.system.view(cluster.deployment, "n1")
            assert view is not None
            left = await cluster.do("leave", spec="leader")
            assert left["target"] == view.leader
            rest = [node for node in cluster.test.nodes if node != view.leader]
            async with asyncio.timeout(120):
                while True:
                    seen = [await cluster.test.system.view(cluster.deployment, node) for node in rest]
                    leaders = {None if found is None else found.leader for found in seen}
                    if len(leaders) == 1 and leaders <= set(rest):
                        break
                    await asyncio.sleep(0.1)
            await cluster.do("join")

    asyncio.run(scenario())


def test_members_that_are_cut_off_may_be_removed_and_nobody_is_back_before_the_cut_heals(
    where: Where, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with cluster_of(5, where, tmp_path) as cluster:
            nodes, away = cluster.test.nodes, ("n4", "n5")
            cut = frozenset(link for link in all_links(nodes) if set(link) & set(away))
            await cluster.deployment.cut(cut)
            left: Any = None
            async with asyncio.timeout(40):  # until etcd has noticed that they are away, and trusts the others
                while left is None or left["target"].startswith("none:"):
                    left = await cluster.do("leave", order=[*away, "n1", "n2", "n3"])
            assert left["target"] in away
            stays_out = await cluster.do("join")
            assert stays_out["target"].startswith(f"none: {left['target']} is not back")
            await cluster.deployment.cut(frozenset())
            assert (await cluster.do("join"))["target"] == left["target"]
            lists = [await cluster.members(node) for node in nodes]
            assert lists == [lists[0]] * 5
            assert sorted(lists[0] or {}) == list(nodes)

    asyncio.run(scenario())


def test_a_run_passes_while_members_leave_and_join_under_partitions(where: Where, tmp_path: Path) -> None:
    workload = {"docker": "register", "local": "set"}[where]
    options = ["--system", "etcd", "--backend", where, "--nodes", "5", "--workload", workload, *FAULTS]
    comes_out("pass", lambda store: splitbrain("run", "--json", *options, "--store", str(store)), tmp_path)

"""What a node of etcd says of itself for the telemetry: from which answers, and what it is worth."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.observing import Observed
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.systems.etcd import Etcd
from tests.systems.etcd.conftest import Running
from tests.systems.etcd.fake_node import Step, fake_node, page, says, then_closes

STATUS = {"raftTerm": "3", "raftIndex": "9", "raftAppliedIndex": "7", "leader": "11"}
RAFT = {"id": "a", "term": 4, "vote": "a", "commit": 8, "lead": "b", "raftState": "StateFollower", "applied": 8}
MEMBERS = [
    {"ID": "11", "name": "n2"},
    {"ID": "10", "name": "n1"},
    {"ID": "12", "name": "n3", "isLearner": True},
]


def answers(raft: Any = RAFT, members: Any = MEMBERS) -> list[Step]:
    pages = [page(STATUS), page({"cmdline": ["etcd"], "raft.status": raft}), page({"members": members})]
    return [says(each) for each in pages]


async def looked(*steps: Step, times: int = 1) -> Observed:
    async with fake_node(*steps) as node:
        observer = await Etcd().observe(cast(Deployment, node), "n1")
        try:
            found = [await observer.look() for _ in range(times)]
        finally:
            await observer.close()
        assert node.connections == 1
        assert [request.path for request in node.requests[:3]] == [
            "/v3/maintenance/status",
            "/debug/vars",
            "/v3/cluster/member/list",
        ]
        return found[-1]


def test_role_term_leader_and_commit_are_those_of_one_moment_and_voters_are_the_nodes_own_list() -> None:
    assert asyncio.run(looked(*answers())) == Observed(
        group="etcd", term=4, role="follower", leader="n2", commit=8, applied=7, voters=("n1", "n2")
    )


@pytest.mark.parametrize(
    ("state", "role"),
    [
        ("StateLeader", "leader"),
        ("StateCandidate", "candidate"),
        ("StatePreCandidate", "pre_candidate"),
        ("StateFollower", "follower"),
    ],
)
def test_roles_have_the_names_of_telemetry(state: str, role: str) -> None:
    assert asyncio.run(looked(*answers({**RAFT, "raftState": state}))).role == role


def test_no_leader_is_none_and_a_connection_serves_many_questions() -> None:
    assert asyncio.run(looked(*answers(), *answers({**RAFT, "lead": "0"}), times=2)).leader is None


@pytest.mark.parametrize("raft", [None, {**RAFT, "id": "0"}, {**RAFT, "raftState": "StateUnknown"}])
def test_a_raft_that_does_not_run_yet_or_any_more_says_nothing(raft: Any) -> None:
    with pytest.raises(DefiniteError, match="Raft does not run"):
        asyncio.run(looked(*answers(raft)))


def test_with_its_connection_an_observer_ends_instead_of_asking_another_process() -> None:
    async def check() -> None:
        async with fake_node(*answers()[:2], then_closes(page({"members": MEMBERS})), *answers()) as node:
            observer = await Etcd().observe(cast(Deployment, node), "n1")
            await observer.look()
            await asyncio.sleep(0.05)
            with pytest.raises((DefiniteError, IndefiniteError), match=r"closed the connection|connection broke"):
                await observer.look()
            assert node.connections == 1
            await observer.close()

    asyncio.run(check())


@pytest.mark.slow
def test_a_real_node_that_leads_itself_says_so(etcd: Running) -> None:
    async def check() -> None:
        session = await etcd.session()
        term = (await session.write("observed", 1)).term
        observer = await Etcd().observe(etcd.deployment, "n1")
        first = await observer.look()
        await session.write("observed", 2)
        second = await observer.look()
        await observer.close()
        await session.close()
        assert (first.role, first.leader, first.term) == ("leader", "n1", term)
        assert first.voters == ("n1",)
        assert first.commit is not None
        assert second.commit == first.commit + 1
        assert first.applied is not None
        assert first.applied <= first.commit

    etcd.run(check())

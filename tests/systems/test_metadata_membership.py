"""How nodes of the metadata cluster leave and join: how they are started then, and runs in which they do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from splitbrain.checkers.consensus import CommitMonotonic, ElectionSafety, LeaderCompleteness, ReplicaAgreement
from splitbrain.checkers.quorum.checker import QuorumProgress
from splitbrain.cluster.client import ChangeRefusedError, NodeNotFoundError, OutcomeUnknownError, UnavailableError
from splitbrain.harness.campaigns.compose import compose
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodePlace
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.contract.test import Test
from splitbrain.harness.running.simulate import simulate
from splitbrain.harness.systems.metadata import Metadata
from splitbrain.harness.systems.metadata_members import MetadataMembership
from splitbrain.harness.systems.metadata_sparing import Sparing, spared_by_queues, spared_by_streams
from splitbrain.results.errors import NodeStartError
from tests.simulation.fingerprint import options

TEST = cast(
    Test,
    SimpleNamespace(
        request_timeout_ms=1500, bugs=(), settings={}, workload=SimpleNamespace(needs=frozenset({"key-value"}))
    ),
)
NODES = ("n1", "n2", "n3", "n4")
ANYWHERE = cast(Deployment, None)


class FakeClient:
    """Answers each request with the next of some outcomes, and notes what was asked."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)
        self.asked: list[str] = []
        self.closed = 0

    async def members(self, *, learners: bool) -> tuple[str, ...]:
        assert learners, "a learner is a member, too"
        return self._next("members")

    async def add_member(self, member: str, *, role: str | None, learners: bool, timeout_ms: int) -> tuple[str, ...]:
        assert learners
        assert role is None
        return self._next(f"add {member}")

    async def remove_member(self, member: str, *, timeout_ms: int) -> tuple[str, ...]:
        return self._next(f"remove {member}")

    async def children(self, path: str, *, mode: str) -> Any:
        assert mode == "local"
        return SimpleNamespace(names=self._next(path))

    async def get(self, path: str, *, mode: str) -> Any:
        assert mode == "local"
        return SimpleNamespace(value={"members": self._next(path)})

    def of_group(self, name: str) -> Any:
        async def members() -> tuple[str, ...]:
            return self._next(name)

        return SimpleNamespace(members=members)

    async def streams(self) -> Any:
        async def status(timeout_ms: int) -> list[Any]:
            assert timeout_ms > 0
            return [
                SimpleNamespace(name=f"s{i}", voters=list(voters)) for i, voters in enumerate(self._next("streams"))
            ]

        return SimpleNamespace(status=status)

    async def close(self) -> None:
        self.closed += 1

    def _next(self, what: str) -> tuple[str, ...]:
        self.asked.append(what)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def asked(
    what: Callable[[MetadataMembership], Awaitable[Any]], *outcomes: Any, founders: tuple[str, ...] = ()
) -> tuple[MetadataMembership, FakeClient, Any]:
    client = FakeClient(*outcomes)

    async def connect(_: Deployment, __: str) -> Any:
        return client

    membership = MetadataMembership(connect, founders)

    async def scenario() -> Any:
        return await what(membership)

    result = asyncio.run(scenario())
    assert client.closed == len(client.asked)
    return membership, client, result


def refused(reason: str) -> ChangeRefusedError:
    return ChangeRefusedError(f"{reason}: so it is.", 3, reason)


def test_a_node_is_started_as_it_always_was_until_it_leaves() -> None:
    peers: dict[str, tuple[str, int]] = dict.fromkeys(NODES[1:], ("10.0.0.1", 1))
    argv = Metadata().command(TEST, NodePlace(node="n1", data_dir="d", listen=("h", 1), peers=peers)).argv
    assert not {"--founders", "--incarnation"} & set(argv)


def test_who_left_is_not_started_before_it_was_taken_in_as_another_member() -> None:
    async def leaves(membership: MetadataMembership) -> str:
        await membership.remove(ANYWHERE, "n1", "n4", "n4")
        assert membership.unsettled("n4")
        with pytest.raises(NodeStartError, match="n4 cannot be started: it left the cluster"):
            membership.arguments("n4", NODES)
        return await membership.add(ANYWHERE, "n1", "n4")

    membership, client, member = asked(leaves, NODES[:3], (*NODES[:3], "n4#1"))
    assert (member, client.asked) == ("n4#1", ["remove n4", "add n4#1"])
    assert membership.arguments("n4", NODES) == ["--incarnation", "1"]
    assert membership.unsettled("n4")
    membership.settle("n4")
    assert not membership.unsettled("n4")
    membership.begin()
    assert membership.arguments("n4", NODES) == []


def of_queues(*outcomes: Any) -> FakeClient:
    """The client of a cluster with queues that was asked to remove n4, and answered so."""
    return sparing(spared_by_queues, *outcomes)


def of_streams(*outcomes: Any) -> FakeClient:
    """The same of one with streams."""
    return sparing(spared_by_streams, *outcomes)


def sparing(refuse_early: Sparing, *outcomes: Any) -> FakeClient:
    client = FakeClient(*outcomes)

    async def connect(_: Deployment, __: str) -> Any:
        return client

    membership = MetadataMembership(connect)
    membership.sparing = (refuse_early,)
    try:
        asyncio.run(membership.remove(ANYWHERE, "n1", "n4", "n4"))
    finally:
        assert client.closed == 1
        assert not client.outcomes
    return client


RECORDS = ["members", "/quorum_queues", "/quorum_queues/q0", "/quorum_queues/q1"]


def test_a_member_leaves_once_queues_have_followed_those_before() -> None:
    assert of_queues(NODES, ("q0", "q1"), NODES, NODES[1:], NODES[:3]).asked == [*RECORDS, "remove n4"]
    again = of_queues(NODES[:3], ("q0", "q1"), NODES, NODES[1:], refused("not_member"))
    assert again.asked == [*RECORDS, "remove n4"]


def test_no_member_leaves_while_a_queue_has_one_that_left_before() -> None:
    with pytest.raises(DefiniteError, match="queue q1 still has n2#1, which left before"):
        of_queues(NODES, ("q0", "q1"), NODES, ("n1", "n2#1", "n3", "n4"))


def test_no_member_of_a_queue_of_two_leaves() -> None:
    with pytest.raises(DefiniteError, match="queue q0 has n1, n4 alone"):
        of_queues(NODES, ("q0", "q1"), ("n1", "n4"), NODES)


def test_a_member_leaves_where_no_queue_was_declared() -> None:
    asked = of_queues(NODES, NodeNotFoundError("there is no /quorum_queues.", 3), NODES[:3]).asked
    assert asked == ["members", "/quorum_queues", "remove n4"]


COORDINATED = ["members", "/stream_coordinator", "stream-coordinator"]


def test_a_member_leaves_once_streams_and_their_coordinator_have_followed_those_before() -> None:
    asked = of_streams(NODES, NODES, NODES, (NODES, NODES[1:], NODES[:3]), NODES[:3]).asked
    assert asked == [*COORDINATED, "streams", "remove n4"]


def test_no_member_leaves_while_a_vote_of_the_coordinator_is_gone() -> None:
    with pytest.raises(DefiniteError, match="the coordinator of streams still has n2#1, which left before"):
        of_streams(NODES, NODES, ("n1", "n2#1", "n3", "n4"))


def test_no_member_leaves_while_a_vote_of_a_stream_is_gone() -> None:
    with pytest.raises(DefiniteError, match="stream s1 still has n2#1, which left before"):
        of_streams(NODES, NODES, NODES, (NODES, ("n1", "n2#1", "n3")))


def test_no_member_of_a_stream_of_two_leaves() -> None:
    with pytest.raises(DefiniteError, match="stream s0 has n1, n4 alone"):
        of_streams(NODES, NODES, NODES, (("n1", "n4"),))


def test_no_member_leaves_while_the_coordinator_does_not_answer() -> None:
    with pytest.raises(DefiniteError, match="no leader"):
        of_streams(NODES, NODES, NODES, UnavailableError("n1 knows no leader."))


def test_a_member_leaves_where_no_stream_was_declared() -> None:
    asked = of_streams(NODES, NodeNotFoundError("there is no /stream_coordinator.", 3), NODES[:3]).asked
    assert asked == [*COORDINATED[:2], "remove n4"]


@pytest.mark.parametrize(
    ("needs", "expected"),
    [("key-value", ()), ("queues", (spared_by_queues,)), ("streams", (spared_by_streams,))],
)
def test_only_what_clients_declare_is_asked_for(needs: str, expected: tuple[Sparing, ...]) -> None:
    test = cast(
        Test,
        SimpleNamespace(
            request_timeout_ms=1500, bugs=(), settings={}, workload=SimpleNamespace(needs=frozenset({needs}))
        ),
    )
    system = Metadata()
    system.command(test, NodePlace(node="n1", data_dir="d", listen=("h", 1), peers={}))
    assert cast(MetadataMembership, system.capabilities.membership).sparing == expected


def test_who_leaves_again_comes_back_as_a_third_member() -> None:
    async def twice(membership: MetadataMembership) -> str:
        await membership.remove(ANYWHERE, "n1", "n4", "n4")
        member = await membership.add(ANYWHERE, "n1", "n4")
        await membership.remove(ANYWHERE, "n1", "n4", member)
        return await membership.add(ANYWHERE, "n1", "n4")

    assert asked(twice, (), (), (), ())[2] == "n4#2"


def test_who_was_refused_to_leave_is_started_as_before() -> None:
    async def stays(membership: MetadataMembership) -> None:
        with pytest.raises(DefiniteError, match="change_not_permitted"):
            await membership.remove(ANYWHERE, "n1", "n4", "n4")

    membership, _, _ = asked(stays, refused("change_not_permitted"))
    membership.settle("n4")
    assert membership.arguments("n4", NODES) == []


def test_what_is_so_already_is_as_good() -> None:
    async def again(membership: MetadataMembership) -> str:
        await membership.remove(ANYWHERE, "n1", "n4", "n4")
        return await membership.add(ANYWHERE, "n1", "n4")

    assert asked(again, refused("not_member"), refused("already_member"))[2] == "n4#1"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OutcomeUnknownError("timeout: nobody knows."), IndefiniteError),
        (UnavailableError("no_leader: nobody leads."), DefiniteError),
        (refused("was_member"), DefiniteError),
        (refused("not_member"), DefiniteError),
    ],
)
def test_what_nobody_knows_is_told_apart_from_a_refusal(error: Exception, told: type[Exception]) -> None:
    async def joins(membership: MetadataMembership) -> None:
        with pytest.raises(told):
            await membership.add(ANYWHERE, "n1", "n4")

    asked(joins, error)


def test_nodes_that_are_no_founders_wait_and_join_as_they_are() -> None:
    async def joins(membership: MetadataMembership) -> str:
        assert [node for node in NODES if membership.unsettled(node)] == ["n4"]
        assert membership.arguments("n4", NODES) == ["--founders", "n1,n2,n3"]
        return await membership.add(ANYWHERE, "n1", "n4")

    membership, _, member = asked(joins, NODES, founders=("n1", "n2", "n3"))
    assert member == "n4"
    membership.settle("n4")
    assert not membership.unsettled("n4")


def test_members_are_listed_by_id_with_their_nodes() -> None:
    found = asked(lambda membership: membership.members(ANYWHERE, "n1"), ("n1", "n2#3"))[2]
    assert found == {"n1": "n1", "n2#3": "n2"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "nemesis"), [(1, "membership"), (2, "membership,partition,kill"), (3, "membership,power,packet")]
)
def test_simulated_members_leave_and_join_and_nothing_is_lost(seed: int, nemesis: str) -> None:
    test = compose(options(seed, "register", nemesis, seconds=30.0))
    simulated = simulate(test)
    assert simulated.failure is None
    assert simulated.marks["member removed"] == simulated.marks["member added"] >= 1
    for checker in (ElectionSafety(), LeaderCompleteness(), ReplicaAgreement(), CommitMonotonic()):
        assert checker.check(simulated.telemetry, {}).valid == "true", checker.name
    (spec,) = [spec for spec in test.workload.checkers if spec.name == "quorum-progress"]
    assert QuorumProgress().check(simulated.history, simulated.telemetry, spec.options).valid == "true"
    last = {node: lines[-1][1] for node, lines in simulated.lines.items()}
    assert all(b'"voters":["n1","n2","n3","n4","n5"]' in line for line in last.values())
    assert any(b'"event":"new-member"' in line for lines in simulated.lines.values() for _, line in lines)

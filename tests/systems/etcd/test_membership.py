"""How nodes of etcd leave and join: what is asked for, what the answers mean, and how a node is started then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodePlace
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.contract.test import Test
from splitbrain.harness.systems.etcd import Etcd
from splitbrain.harness.systems.etcd.membership import EtcdMembership
from splitbrain.results.errors import NodeStartError
from tests.systems.etcd.fake_node import FakeNode, Step, fake_node, page, refuses, says, then_resets

TEST = cast(Test, SimpleNamespace(request_timeout_ms=1500, seed=5, bugs=(), settings={}))
NODES = ("n1", "n2", "n3")
ADDRESSES = {node: (f"10.0.0.{number}", 7000) for number, node in enumerate(NODES, 1)}
NAMED = [
    {"ID": str(0xA0 + number), "name": node, "peerURLs": [f"http://10.0.0.{number}:7001"]}
    for number, node in enumerate(NODES, 1)
]
NEW = {"ID": "208", "peerURLs": ["http://10.0.0.2:7001"]}
NEW_ID = "d0"
UNHEALTHY = refuses(14, "etcdserver: unhealthy cluster")
NOT_FOUND = refuses(5, "etcdserver: member not found", "404 Not Found")
EXISTS = refuses(9, "etcdserver: Peer URLs already exists", "400 Bad Request")


def place(node: str) -> NodePlace:
    peers = {peer: address for peer, address in ADDRESSES.items() if peer != node}
    return NodePlace(node=node, data_dir="/data", listen=ADDRESSES[node], peers=peers, home="image")


def listed(*members: Any) -> Step:
    return says(page({"members": members}))


def options_of(etcd: Etcd, node: str) -> dict[str, str]:
    argv = etcd.command(TEST, place(node)).argv
    return dict(zip(argv[1::2], argv[2::2], strict=True))


def known() -> Etcd:
    """A system that has told how to start every node."""
    etcd = Etcd()
    for node in NODES:
        etcd.command(TEST, place(node))
    return etcd


def asked(
    etcd: Etcd, what: Callable[[EtcdMembership, Deployment], Awaitable[Any]], *steps: Step
) -> tuple[Any, FakeNode]:
    """What comes of a request to a node that answers like this, and the node."""

    async def scenario() -> tuple[Any, FakeNode]:
        async with fake_node(*steps) as node:
            try:
                return await what(cast(EtcdMembership, etcd.capabilities.membership), cast(Deployment, node)), node
            except (DefiniteError, IndefiniteError) as error:
                return error, node

    return asyncio.run(scenario())


def removed(etcd: Etcd, *steps: Step) -> tuple[Any, FakeNode]:
    return asked(etcd, lambda membership, node: membership.remove(node, "n1", "n2", "a2"), *steps)


def added(etcd: Etcd, *steps: Step) -> tuple[Any, FakeNode]:
    return asked(etcd, lambda membership, node: membership.add(node, "n1", "n2"), *steps)


def test_members_are_told_by_their_ids_also_one_that_never_ran() -> None:
    found, node = asked(
        known(), lambda membership, node: membership.members(node, "n1"), listed(NAMED[0], NAMED[2], NEW)
    )
    assert found == {"a1": "n1", "a3": "n3", NEW_ID: "n2"}
    assert [request.path for request in node.requests] == ["/v3/cluster/member/list"]


def test_a_removal_is_asked_for_by_the_id() -> None:
    etcd = known()
    found, node = removed(etcd, listed(NAMED[0], NAMED[2]))
    assert found is None
    assert [(request.path, request.body) for request in node.requests] == [("/v3/cluster/member/remove", {"ID": 0xA2})]
    assert etcd.capabilities.membership is not None
    assert etcd.capabilities.membership.unsettled("n2")


def test_a_member_that_is_not_there_is_removed() -> None:
    assert removed(known(), NOT_FOUND)[0] is None


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (UNHEALTHY, DefiniteError),
        (refuses(9, "etcdserver: re-configuration failed due to not enough started members"), DefiniteError),
        (refuses(14, "etcdserver: request timed out"), IndefiniteError),
        (refuses(14, "etcdserver: server stopped"), IndefiniteError),
        (then_resets(), IndefiniteError),
    ],
)
def test_refusals_are_told_from_doubts(step: Step, kind: type[Exception]) -> None:
    for request in (removed, added):
        assert isinstance(request(known(), step)[0], kind)


def test_an_addition_names_where_the_node_serves_its_peers_and_tells_the_new_id() -> None:
    found, node = added(known(), listed(NAMED[0], NAMED[2], NEW))
    assert found == NEW_ID
    assert [request.body for request in node.requests] == [{"peerURLs": ["http://10.0.0.2:7001"]}]


def test_a_node_that_was_taken_in_already_is_found_on_the_list() -> None:
    found, node = added(known(), EXISTS, listed(NAMED[0], NAMED[2], NEW))
    assert found == NEW_ID
    assert [request.path for request in node.requests] == ["/v3/cluster/member/add", "/v3/cluster/member/list"]


def test_an_addition_after_which_the_node_is_not_listed_is_in_doubt() -> None:
    assert isinstance(added(known(), listed(NAMED[0], NAMED[2]))[0], IndefiniteError)


def test_who_joins_is_started_with_the_members_that_the_addition_returned() -> None:
    etcd = known()
    removed(etcd, listed(NAMED[0], NAMED[2]))
    added(etcd, listed(NAMED[0], NEW))
    options = options_of(etcd, "n2")
    assert options["--initial-cluster-state"] == "existing"
    assert options["--initial-cluster"] == "n1=http://10.0.0.1:7001,n2=http://10.0.0.2:7001"
    assert etcd.capabilities.membership is not None
    etcd.capabilities.membership.settle("n2")
    assert not etcd.capabilities.membership.unsettled("n2")
    assert options_of(etcd, "n2") == options, "also the next time"
    others = options_of(etcd, "n1")
    assert others["--initial-cluster-state"] == "new"
    assert others["--initial-cluster"].count("=") == 3


def test_who_left_is_not_started() -> None:
    etcd = known()
    removed(etcd, refuses(14, "etcdserver: request timed out"))
    with pytest.raises(NodeStartError, match="n2 cannot be started: it left the cluster"):
        etcd.command(TEST, place("n2"))


def test_a_new_deployment_has_its_first_members_again() -> None:
    etcd = known()
    removed(etcd, listed(NAMED[0], NAMED[2]))
    added(etcd, listed(NAMED[0], NAMED[2], NEW))
    assert etcd.capabilities.membership is not None
    etcd.capabilities.membership.begin()
    assert options_of(etcd, "n2")["--initial-cluster-state"] == "new"
    assert not etcd.capabilities.membership.unsettled("n2")

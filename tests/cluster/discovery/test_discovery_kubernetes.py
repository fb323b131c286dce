"""The Kubernetes backends: the API server's list of pods, and the pod of the first ordinal."""

from __future__ import annotations

import pytest

from splitbrain.cluster.discovery import kubernetes
from splitbrain.cluster.discovery.http import Endpoint
from splitbrain.cluster.discovery.kubernetes import Pods, Seed
from splitbrain.cluster.discovery.seen import Peer
from splitbrain.cluster.errors import ArgumentError, DiscoveryError
from tests.cluster.discovery.ill import LIES, play, says, suffers
from tests.cluster.discovery.services import (
    ApiServer,
    pod,
    served,
)


def test_the_api_server_lists_pods_that_have_an_address_and_do_not_end() -> None:
    async def story() -> None:
        pods = [
            pod("n-0", "10.0.0.1"),
            pod("n-1", None),
            pod("n-2", "10.0.0.3", deletionTimestamp="2026-01-01T00:00:00Z"),
            pod("n-3", "10.0.0.4", phase="Failed"),
            pod("n-4", "fd00::5", phase="Pending"),
            pod("other", "10.0.0.6", labels={"app": "other"}),
        ]
        async with served(ApiServer("token", "prod", pods)) as service:
            server = Endpoint(service.url, {"Authorization": "Bearer token"})
            listing = await Pods(server, "prod", "app=splitbrain", 7101).list_nodes()
            assert listing.peers == (Peer("n-0", ("10.0.0.1", 7101)), Peer("n-4", ("fd00::5", 7101)))
            assert listing.founder is None
            assert len(service.asked) == 3, "the list has three pages"
            with pytest.raises(DiscoveryError, match="status 401"):
                await Pods(Endpoint(service.url), "prod", "app=splitbrain", 7101).list_nodes()
            with pytest.raises(DiscoveryError, match="status 404"):
                await Pods(server, "else", "app=splitbrain", 7101).list_nodes()

    play(story)


def test_a_list_of_pods_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes, "_PAGES_MAX", 3)

    async def story() -> None:
        async with served(says({"metadata": {"continue": "more"}, "items": []})) as service:
            with pytest.raises(DiscoveryError, match="more than 3 pages"):
                await Pods(Endpoint(service.url), "prod", "app=splitbrain", 7101).list_nodes()
            assert len(service.asked) == 3

    play(story)


def test_an_ill_api_server_is_an_error_each_time() -> None:
    async def story() -> None:
        async with served(ApiServer("token", "prod", [pod("n-0", "10.0.0.1")])) as service:
            pods = Pods(Endpoint(service.url, {"Authorization": "Bearer token"}), "prod", "app=splitbrain", 7101)
            await suffers(service, pods.list_nodes, LIES)

    play(story)


def test_the_seed_is_the_pod_of_the_first_ordinal() -> None:
    async def story() -> None:
        host = "n-2.nodes.default.svc.cluster.local"
        own = Peer("n-2", (host, 7101))
        seed = Peer("n-0", ("n-0.nodes.default.svc.cluster.local", 7101))
        listing = await Seed(own).list_nodes()
        assert listing.peers == (seed, own)
        assert listing.founder == "n-0"
        assert (await Seed(seed).list_nodes()).peers == (seed,)
        assert (await Seed(own, 2).list_nodes()).peers == (own,)
        assert [peer.name for peer in (await Seed(own, 1, nodes=3).list_nodes()).peers] == ["n-1", "n-2", "n-3"]

    play(story)


@pytest.mark.parametrize(
    ("peer", "problem"),
    [
        (Peer("n2", ("n2.nodes", 1)), "ends in an ordinal"),
        (Peer("-2", ("-2.nodes", 1)), "ends in an ordinal"),
        (Peer("n-2", ("10.0.0.1", 1)), "the pod's own host name"),
    ],
)
def test_a_seed_cannot_be_told_from_any_name(peer: Peer, problem: str) -> None:
    with pytest.raises(ArgumentError, match=problem):
        Seed(peer)

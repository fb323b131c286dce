"""The etcd backend against a real etcd."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from splitbrain.cluster.discovery import etcd as etcd_module
from splitbrain.cluster.discovery.etcd import Etcd
from splitbrain.cluster.discovery.http import Endpoint, Endpoints
from splitbrain.cluster.discovery.seen import Peer
from splitbrain.cluster.errors import DiscoveryError
from splitbrain.cluster.real import RealNetwork
from tests.cluster.discovery.ill import LIES, N1, N2, play, says, suffers
from tests.cluster.discovery.realetcd import etcd, free_port
from tests.cluster.discovery.services import (
    served,
)

assert etcd  # the fixture


def test_etcd_lists_registered_nodes_of_the_cluster(etcd: str) -> None:
    async def story() -> None:
        one, two, other = Etcd(Endpoint(etcd), N1), Etcd(Endpoint(etcd), N2), Etcd(Endpoint(etcd), N2, "other")
        assert (await one.list_nodes()).peers == ()
        for each in (one, two, other):
            await each.register()
            await each.post_registration()
        assert (await one.list_nodes()).peers == (N1, N2)
        assert (await other.list_nodes()).peers == (N2,)
        await two.unregister()
        assert (await one.list_nodes()).peers == (N1,)
        with pytest.raises(DiscoveryError, match="has no lease"):
            await two.post_registration()

    play(story)


def test_a_name_that_a_node_at_another_address_has_in_etcd_is_refused(etcd: str) -> None:
    async def story() -> None:
        first, second = Etcd(Endpoint(etcd), N1), Etcd(Endpoint(etcd), Peer("n1", ("10.0.0.7", 7101)))
        await first.register()
        with pytest.raises(DiscoveryError, match=r"another node is registered as n1, at 10\.0\.0\.1:7101"):
            await second.register()
        assert len((await Endpoint(etcd).ask("POST", "/v3/lease/leases", {})).json("leases")["leases"]) == 1
        assert (await second.list_nodes()).peers == (N1,)
        again = Etcd(Endpoint(etcd), N1)  # the same node, which was killed
        await again.register()
        await first.unregister()
        assert (await again.list_nodes()).peers == (N1,)
        await again.unregister()
        await second.register()

    play(story)


def test_a_lease_that_ended_is_an_error_and_the_node_registers_again(etcd: str) -> None:
    async def story() -> None:
        node = Etcd(Endpoint(etcd), N1)
        await node.register()
        leases = (await Endpoint(etcd).ask("POST", "/v3/lease/leases", {})).json("leases")["leases"]
        await Endpoint(etcd).ask("POST", "/v3/lease/revoke", {"ID": leases[0]["ID"]})
        assert (await node.list_nodes()).peers == ()
        with pytest.raises(DiscoveryError, match="ran out"):
            await node.post_registration()
        await node.register()
        assert (await node.list_nodes()).peers == (N1,)

    play(story)


def test_etcds_lock_has_one_owner_and_passes_to_who_waits(etcd: str) -> None:
    async def story() -> None:
        one, two = Etcd(Endpoint(etcd), N1), Etcd(Endpoint(etcd), N2)
        assert await one.lock(())
        waits = asyncio.ensure_future(two.lock(()))
        key = {"key": "AA==", "range_end": "AA=="}  # all keys
        while len((await Endpoint(etcd).ask("POST", "/v3/kv/range", key)).json("range")["kvs"]) < 2:
            await asyncio.sleep(0.01)
        assert not waits.done()
        await one.unlock()
        assert await waits
        await two.unlock()

    play(story)


def test_who_waits_for_etcds_lock_in_vain_leaves_nothing(etcd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd_module, "LOCK_WAIT_S", 0.1)

    async def story() -> None:
        one, two = Etcd(Endpoint(etcd), N1), Etcd(Endpoint(etcd), N2)
        assert await one.lock(())
        with pytest.raises(DiscoveryError, match="no answer within"):
            await two.lock(())
        await one.unlock()
        assert "leases" not in (await Endpoint(etcd).ask("POST", "/v3/lease/leases", {})).json("r")
        assert "kvs" not in (
            await Endpoint(etcd).ask("POST", "/v3/kv/range", {"key": "AA==", "range_end": "AA=="})
        ).json("r")

    play(story)


def test_an_etcd_that_is_gone_is_an_error_and_the_next_endpoint_is_asked(etcd: str) -> None:
    async def story() -> None:
        nowhere = Endpoint(f"http://127.0.0.1:{free_port()}")
        with pytest.raises(DiscoveryError, match="Connect call failed"):
            await Etcd(nowhere, N1).list_nodes()
        node = Etcd(Endpoints((nowhere, Endpoint(etcd))), N1)
        await node.register()
        assert (await node.list_nodes()).peers == (N1,)

    play(story)


def test_an_ill_etcd_is_an_error_each_time() -> None:
    async def story() -> None:
        async with served(says({"header": {}})) as service:
            node = Etcd(Endpoint(service.url), N1)
            await suffers(
                service,
                node.list_nodes,
                [lie for lie in LIES if not (lie == b"{}" or lie.startswith((b'{"items"', b'{"a":{')))],
            )
            service.ills.raw = b'{"result": {"TTL": "30"}}'
            with pytest.raises(DiscoveryError, match="no ID"):
                await node.register()

    play(story)


@pytest.mark.parametrize("ttl", ["soon", "", "1e3", None, [], "٣", "9" * 5000])
def test_a_sign_of_life_that_etcd_answers_with_no_number_is_an_error(ttl: object) -> None:
    async def story() -> None:
        said: dict[str, Any] = {"ID": "7", "succeeded": True}
        async with served(says(said)) as service:
            node = Etcd(Endpoint(service.url), N1)
            await node.register()
            said["result"] = {"TTL": ttl}
            with pytest.raises(DiscoveryError, match="lease"):
                await node.post_registration()

    play(story)


HOSTS = ["", "a..b", ".a", "x" * 64 + ".example", "a\0b", "a b", "a\nb", "ü" * 70, "x" * 300, "1.2.3.4/5"]


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_to_which_nothing_can_be_connected_is_an_error_of_the_service(host: str) -> None:
    async def story() -> None:
        value = base64.b64encode(json.dumps({"name": "n1", "host": host, "port": 1}).encode()).decode()
        async with served(says({"kvs": [{"value": value}]})) as service:
            with pytest.raises(DiscoveryError, match="is no address of a node"):
                await Etcd(Endpoint(service.url), N1).list_nodes()

    play(story)


def _spawns_nothing(_: object, __: str) -> None:
    raise AssertionError("it only connects")


@pytest.mark.parametrize("host", ["a..b", "a\0b", "ü" * 70])
def test_a_node_that_is_said_to_be_at_no_host_is_not_reached(host: str) -> None:
    async def story() -> None:
        network = RealNetwork(asyncio.get_running_loop(), _spawns_nothing)
        with pytest.raises(ConnectionError):
            await network.connect((host, 1))

    play(story)

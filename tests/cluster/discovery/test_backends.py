"""Backends against services on this machine, which also fail, are silent, answer in part, and lie."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import ipaddress
import json
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Coroutine, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.cluster.__main__ import main
from splitbrain.cluster.discovery import consul as consul_module
from splitbrain.cluster.discovery import etcd as etcd_module
from splitbrain.cluster.discovery import http as http_module
from splitbrain.cluster.discovery import kubernetes, nameservers
from splitbrain.cluster.discovery.consul import Consul
from splitbrain.cluster.discovery.dns import Dns
from splitbrain.cluster.discovery.dnswire import answers, question, reverse
from splitbrain.cluster.discovery.etcd import Etcd
from splitbrain.cluster.discovery.http import Answer, Endpoint, Endpoints
from splitbrain.cluster.discovery.kubernetes import Pods, Seed
from splitbrain.cluster.discovery.nameservers import NameServers, of_this_machine
from splitbrain.cluster.discovery.seen import Peer
from splitbrain.cluster.errors import ArgumentError, DiscoveryError
from splitbrain.cluster.real import RealClock, RealNetwork
from tests.cluster.discovery.services import (
    ApiServer,
    ConsulAgent,
    Handler,
    Served,
    as_name,
    name_server,
    pod,
    served,
)
from tests.cluster.support import Draws

N1, N2 = Peer("n1", ("10.0.0.1", 7101)), Peer("n2", ("10.0.0.2", 7102))

Listed = Callable[[], Coroutine[Any, Any, Any]]


def play(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story())


LIES: list[bytes] = [
    b"",
    b"{",
    b"[]",
    b"{}",
    b"null",
    b"7",
    b'[{"Service": 1}]',
    b'{"items": [{}]}',
    b'{"kvs": [{}]}',
    b"\xff",
    b'"\xff"',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    *(b"[" * depth + b"]" * depth for depth in (900, 5000)),
    *(b'{"a":' * depth + b"1" + b"}" * depth for depth in (900, 5000)),
]


async def suffers(service: Served, call: Listed, lies: Sequence[bytes]) -> None:
    """A call to a service that is ill raises what says so, and works again after that."""
    service.ills.status = 500
    with pytest.raises(DiscoveryError, match="status 500: it is ill"):
        await call()
    service.ills.status, service.ills.half = 0, True
    with pytest.raises(DiscoveryError, match="without sending complete message body"):
        await call()
    service.ills.half, service.ills.silent = False, True
    with impatience(), pytest.raises(DiscoveryError, match="no answer within"):
        await call()
    service.ills.silent = False
    for lie in lies:
        service.ills.raw = lie
        with pytest.raises(DiscoveryError):
            await call()
    service.ills.raw = None
    await call()


@contextlib.contextmanager
def impatience() -> Generator[None]:
    """A service is given up soon: only where it is silent, as any other may be slow on a busy machine."""
    exchange = Endpoint.ask

    async def ask(self: Endpoint, method: str, target: str, body: object = None, timeout_s: float = 0.1) -> Any:
        return await exchange(self, method, target, body, min(timeout_s, 0.1))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Endpoint, "ask", ask)
        patched.setattr(nameservers, "TIMEOUT_S", 0.1)
        yield


# --- Consul ---------------------------------------------------------------------------------------------


def of_consul(service: Served, peer: Peer, **more: Any) -> Consul:
    return Consul(Endpoint(service.url, more.pop("headers", None)), RealClock(asyncio.get_running_loop()), peer, **more)


def test_consul_lists_registered_nodes_of_the_cluster_whose_checks_pass() -> None:
    async def story() -> None:
        agent = ConsulAgent()
        async with served(agent) as service:
            one, two, other = of_consul(service, N1), of_consul(service, N2), of_consul(service, N2, cluster="other")
            for each in (one, two, other):
                await each.register()
                await each.post_registration()
            assert (await one.list_nodes()).peers == (N1, N2)
            assert (await other.list_nodes()).peers == (N2,)
            agent.critical.add("splitbrain-default-n2")
            assert (await one.list_nodes()).peers == (N1,)
            await two.post_registration()
            assert (await one.list_nodes()).peers == (N1, N2)
            await two.unregister()
            assert (await one.list_nodes()).peers == (N1,)
            with pytest.raises(DiscoveryError, match="Unknown check ID"):
                await two.post_registration()

    play(story)


def test_consuls_lock_has_one_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consul_module, "LOCK_ATTEMPTS", 2)
    monkeypatch.setattr(consul_module, "_LOCK_PAUSE_MS", 1)

    async def story() -> None:
        agent = ConsulAgent()
        async with served(agent) as service:
            one, two = of_consul(service, N1), of_consul(service, N2)
            assert await one.lock(())
            with pytest.raises(DiscoveryError, match="another node had the lock in all 2 attempts"):
                await two.lock(())
            assert list(agent.sessions) == ["session-1"], "a node that waits no longer leaves no session"
            await one.unlock()
            assert agent.sessions == {}
            assert await two.lock(())
            await two.unlock()
            await two.unlock()

    play(story)


def test_consuls_token_is_sent() -> None:
    async def story() -> None:
        async with served(ConsulAgent("secret")) as service:
            await of_consul(service, N1, headers={"X-Consul-Token": "secret"}).register()
            with pytest.raises(DiscoveryError, match="status 403: Permission denied"):
                await of_consul(service, N1).register()

    play(story)


def test_an_ill_consul_is_an_error_each_time() -> None:
    async def story() -> None:
        async with served(ConsulAgent()) as service:
            node = of_consul(service, N1)
            await node.register()
            await suffers(service, node.list_nodes, [lie for lie in LIES if lie != b"[]"])
            service.ills.raw = b"[]"
            assert (await node.list_nodes()).peers == ()

    play(story)


# --- Kubernetes -----------------------------------------------------------------------------------------


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


# --- DNS ------------------------------------------------------------------------------------------------

TABLE = {
    ("nodes.example", "A"): [bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]), bytes([10, 0, 0, 3])],
    ("nodes.example", "AAAA"): [ipaddress.ip_address("fd00::4").packed],
    (reverse("10.0.0.1"), "PTR"): [as_name("nodes.example"), as_name("n1.nodes.example")],
    (reverse("10.0.0.2"), "PTR"): [as_name("n2.nodes.example")],
    (reverse("fd00::4"), "PTR"): [as_name("n4.nodes.example")],
}


def of_dns(address: tuple[str, int], hostname: str = "nodes.example") -> Dns:
    return Dns(NameServers((address,), Draws(1)), hostname, 7101)


def test_dns_lists_the_hosts_to_which_addresses_lead_back() -> None:
    async def story() -> None:
        async with name_server(dict(TABLE)) as (server, address):
            listed = (Peer(name, (f"{name}.nodes.example", 7101)) for name in ("n1", "n2", "n4"))
            assert (await of_dns(address).list_nodes()).peers == tuple(listed)
            server.truncates = True
            assert len((await of_dns(address).list_nodes()).peers) == 3
            assert server.over_tcp > 0

    play(story)


def test_an_ill_name_server_is_an_error_each_time() -> None:
    async def story() -> None:
        async with name_server(dict(TABLE)) as (server, address):
            with pytest.raises(DiscoveryError, match=r"nowhere\.example has no address"):
                await of_dns(address, "nowhere.example").list_nodes()
            server.code = 2
            with pytest.raises(DiscoveryError, match="server failure"):
                await of_dns(address).list_nodes()
            server.code, server.garbage = 0, b"\x81\x80\0\1\0\1\0\0\0\0\xc0\x0c"
            with pytest.raises(DiscoveryError, match="makes no sense"):
                await of_dns(address).list_nodes()
            server.garbage, server.silent = None, True
            with impatience(), pytest.raises(DiscoveryError, match="does not answer within"):
                await of_dns(address).list_nodes()
            server.silent = False
            server.table = {key: records for key, records in TABLE.items() if key[1] != "PTR"}
            with pytest.raises(DiscoveryError, match="none leads back"):
                await of_dns(address).list_nodes()

    play(story)


def test_the_second_name_server_is_asked_if_the_first_fails() -> None:
    async def story() -> None:
        async with name_server(dict(TABLE)) as (first, one), name_server(dict(TABLE)) as (_, two):
            first.code = 5
            assert await NameServers((one, two), Draws(1)).resolve("nodes.example", "AAAA") == ["fd00::4"]

    play(story)


def test_a_name_server_that_failed_is_not_asked_again_once_another_has_answered() -> None:
    async def story() -> None:
        async with name_server(dict(TABLE)) as (first, one), name_server(dict(TABLE)) as (second, two):
            first.code = 5
            both = NameServers((one, two), Draws(1))
            assert len((await Dns(both, "nodes.example", 7101).list_nodes()).peers) == 3
            assert (first.asked, second.asked) == (1, 6)
            first.code, second.code = 0, 5
            assert await both.resolve("nodes.example", "AAAA") == ["fd00::4"]

    play(story)


@given(st.binary(max_size=200))
def test_no_bytes_are_taken_for_an_answer_that_they_are_not(data: bytes) -> None:
    head = (7).to_bytes(2, "big") + b"\x81\x80\0\1\0\2\0\0\0\0"
    asked = question(7, "nodes.example", "A")[12:]
    for answer in (data, head + data, head + asked + data):
        try:
            found = answers(answer, 7, "nodes.example", "A")
        except DiscoveryError:
            continue
        assert all(ipaddress.IPv4Address(each) for each in found)


def test_an_answer_to_another_question_is_none() -> None:
    head, rest = (7).to_bytes(2, "big"), b"\x81\x80\0\1\0\1\0\0\0\0" + question(7, "nodes.example", "A")[12:]
    record = b"\xc0\x0c\0\1\0\1\0\0\0\5\0\4\x0a\0\0\1"
    assert answers(head + rest + record, 7, "Nodes.example.", "A") == ["10.0.0.1"]
    with pytest.raises(DiscoveryError, match=r"is about nodes\.example, not other\.example"):
        answers(head + rest + record, 7, "other.example", "A")
    with pytest.raises(DiscoveryError, match="is no answer to the question"):
        answers(head + rest + record, 8, "nodes.example", "A")
    with pytest.raises(DiscoveryError, match="is no answer to the question"):
        answers(question(7, "nodes.example", "A"), 7, "nodes.example", "A")


def test_a_name_that_points_to_itself_ends() -> None:
    head = (7).to_bytes(2, "big") + b"\x81\x80\0\1\0\0\0\0\0\0"
    with pytest.raises(DiscoveryError, match="has no end"):
        answers(head + b"\xc0\x0c" + b"\0\1\0\1", 7, "nodes.example", "A")


def test_a_name_that_cannot_be_one_is_refused() -> None:
    for name in ("", "a..b", "x" * 64, "ü" * 70):
        with pytest.raises(DiscoveryError, match="cannot be the name of a host"):
            question(1, name, "A")


def test_the_name_servers_of_this_machine_are_read(tmp_path: Path) -> None:
    conf = tmp_path / "resolv.conf"
    conf.write_text("# nameserver 1.1.1.1\nsearch example\nnameserver 10.0.0.53\nnameserver fd00::53\nnameserver\n")
    assert of_this_machine(str(conf)) == (("10.0.0.53", 53), ("fd00::53", 53))
    assert of_this_machine(str(tmp_path / "none")) == ()


# --- etcd -----------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return int(tried.getsockname()[1])


@pytest.fixture
def etcd(tmp_path: Path) -> Generator[str]:
    """The URL of a real etcd."""
    program = shutil.which("etcd")
    if program is None:
        pytest.skip("there is no etcd on this machine")
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    arguments = [program, "--name", "e", "--data-dir", str(tmp_path / "data"), "--log-level", "error"]
    arguments += ["--listen-client-urls", client, "--advertise-client-urls", client]
    arguments += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"e={peer}"]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    async def until_it_serves() -> None:
        while process.poll() is None:
            try:
                if (await Endpoint(client).ask("POST", "/v3/kv/range", {"key": "YQ=="})).status == 200:
                    return
            except DiscoveryError:
                await asyncio.sleep(0.05)
        raise AssertionError("etcd ended at once")

    try:
        asyncio.run(until_it_serves())
        yield client
    finally:
        process.kill()
        process.wait()


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


def says(answer: object) -> Handler:
    """A service that always answers this."""

    def handler(*_: object) -> tuple[int, object]:
        return 200, answer

    return handler


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


# --- endpoints ------------------------------------------------------------------------------------------


class Machine:
    """One machine of a service: on, or without power, where a connection takes as long as one waits for it."""

    def __init__(self, *, on: bool) -> None:
        self.on = on
        self.waited: list[float] = []

    async def ask(self, method: str, target: str, body: object = None, timeout_s: float = 5.0) -> Answer:
        self.waited.append(timeout_s)
        if not self.on:
            raise DiscoveryError("no answer")
        return Answer(200, b'{"ID": "1", "succeeded": true, "result": {"TTL": "30"}}')


def test_endpoints_without_power_together_take_no_longer_than_one_and_are_not_asked_again() -> None:
    async def story() -> None:
        dead = [Machine(on=False), Machine(on=False)]
        lives = Machine(on=True)
        node = Etcd(Endpoints((*dead, lives)), N1)
        await node.register()
        await node.post_registration()
        assert [len(each.waited) for each in (*dead, lives)] == [1, 1, 3], "the one that answered is the first now"
        assert sum(each.waited[0] for each in (*dead, lives)) <= http_module.TIMEOUT_S
        lives.on, dead[0].on = False, True
        await node.post_registration()
        assert len(dead[0].waited) == 2

    play(story)


@pytest.mark.parametrize(
    "url",
    [
        "http://a..b:1",
        "http://[fe80::1:1",
        "localhost:1",
        "ftp://a:1",
        "http://",
        "http://a:x",
        "http://a:1/path",
        "http://a:1?q=1",
    ],
)
def test_what_is_no_url_of_a_service_is_refused(url: str) -> None:
    with pytest.raises(ArgumentError, match="--discovery-endpoint takes"):
        Endpoint(url)


@pytest.mark.parametrize(
    "url", ["http://me:hush@a:1", "http://me:hush/1@a:1", "http://hush@a:1/path", "me:hush@a:1", "http://a:1#hush"]
)
def test_a_url_with_a_password_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ArgumentError, match="--discovery-endpoint takes") as refused:
        Endpoint(url)
    assert "hush" not in str(refused.value)


def test_an_answer_without_end_is_an_error_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "ANSWER_MAX_BYTES", 1 << 18)
    sent = 0

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while not writer.is_closing():
                writer.write(b"1000\r\n" + b" " * 0x1000 + b"\r\n")
                sent += 0x1000
                await writer.drain()
        writer.close()

    async def story() -> None:
        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        with pytest.raises(DiscoveryError, match="longer than 262,144 bytes"):
            await Endpoint(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}").ask("GET", "/")
        assert sent > 1 << 18
        server.close()

    play(story)


@pytest.mark.parametrize("status", [301, 307, 308])
def test_a_redirect_is_an_error_and_not_followed(status: int) -> None:
    async def story() -> None:
        async with served(ConsulAgent()) as service:
            service.ills.status = status
            with pytest.raises(DiscoveryError, match=f"status {status}"):
                await of_consul(service, N1).list_nodes()
            with pytest.raises(DiscoveryError, match=f"status {status}"):
                await of_consul(service, N1).register()
            assert len(service.asked) == 2

    play(story)


def test_a_host_header_has_brackets_where_an_address_has_colons() -> None:
    assert Endpoint("http://[fd00::1]:2379").authority == "[fd00::1]:2379"
    assert Endpoint("https://a").authority == "a:443"


@pytest.mark.parametrize("content", ["", "\n", "hush\nhush", "h\0ush", "h\x1bush", "husch\u00e9"])
@pytest.mark.parametrize("backend", ["consul", "k8s-api"])
def test_a_file_that_holds_no_token_is_refused_and_not_shown(
    backend: str, content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "token"
    path.write_text(content)
    argv = ["--node", "n1", "--listen", "127.0.0.1:1", "--data", str(tmp_path / "data"), "--discovery", backend]
    argv += ["--discovery-nodes", "1", "--discovery-token-file", str(path)]
    argv += ["--discovery-namespace", "n", "--discovery-label", "l"] if backend == "k8s-api" else []
    argv += ["--discovery-endpoint", "http://127.0.0.1:1", "--discovery-retries", "0"]
    assert main(argv) == 2
    said = capsys.readouterr().err
    assert f"--discovery-token-file: {path} holds no token" in said
    assert "hus" not in said


def test_certificates_that_cannot_be_read_are_refused() -> None:
    with pytest.raises(ArgumentError, match="--discovery-ca-file /nowhere"):
        Endpoint("https://a:1", ca_file="/nowhere")


def certificate(folder: Path) -> Path:
    """A file with a key and a certificate of 127.0.0.1, which signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    begins = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begins)
        .not_valid_after(begins + datetime.timedelta(days=36500))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "service.pem"
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(private + made.public_bytes(pem))
    return path


def test_a_service_with_a_certificate_is_asked_if_that_is_trusted(tmp_path: Path) -> None:
    pem = certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pem)

    async def story() -> None:
        async with served(ConsulAgent(), tls) as service:
            trusts = Consul(Endpoint(service.url, ca_file=str(pem)), RealClock(asyncio.get_running_loop()), N1)
            await trusts.register()
            assert (await trusts.list_nodes()).peers == (N1,)
            with pytest.raises(DiscoveryError, match="certificate"):
                await Endpoint(service.url).ask("GET", "/v1/health/service/splitbrain")

    play(story)

"""The DNS backend against a name server on this machine."""

from __future__ import annotations

import asyncio
import ipaddress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.cluster.discovery.dns import Dns
from splitbrain.cluster.discovery.dnswire import Type, answers, question, reverse
from splitbrain.cluster.discovery.nameservers import NameServers, of_this_machine
from splitbrain.cluster.discovery.seen import Peer
from splitbrain.cluster.errors import DiscoveryError
from tests.cluster.discovery.ill import impatience, play
from tests.cluster.discovery.services import (
    as_name,
    name_server,
)
from tests.cluster.support import Draws

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


class OfOneKind:
    """A resolver that refuses to answer about addresses of the other kind."""

    def __init__(self, kind: Type) -> None:
        self._refuses: Type = "AAAA" if kind == "A" else "A"

    async def resolve(self, name: str, kind: Type) -> list[str]:
        """One address, and where it leads back to."""
        if kind == self._refuses:
            raise DiscoveryError(f"refused about {name}")
        return ["n1.nodes.example"] if kind == "PTR" else ["10.0.0.1"]


@pytest.mark.parametrize("kind", ["A", "AAAA"])
def test_a_server_that_answers_about_one_kind_of_address_lists_the_nodes_that_it_has(kind: Type) -> None:
    listed = asyncio.run(Dns(OfOneKind(kind), "nodes.example", 7101).list_nodes())
    assert listed.peers == (Peer("n1", ("n1.nodes.example", 7101)),)


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

"""What cannot work on hosts is told in one line, with the host, and whatever was begun is undone."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

from splitbrain.results.errors import BackendError, FaultNotSupportedError
from tests.backends import ssh_support
from tests.backends.elf import elf
from tests.backends.ssh_support import HostGossip, Hosts, deploy, deployed, new_key

hosts = ssh_support.hosts
pytestmark = pytest.mark.cluster


@pytest.mark.slow
def test_a_host_serves_one_run_at_a_time(hosts: Hosts, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with deployed(hosts.of(0), tmp_path / "a"):
            with pytest.raises(BackendError, match=r"n1 \(.*:22\): another run of splitbrain uses this host"):
                await deploy(hosts.of(0, 1), tmp_path / "b")
            left = [trace for trace in hosts.traces() if trace.startswith(hosts.addresses[1])]
            assert left == [], "what was begun on the other host is gone"

    asyncio.run(scenario())
    assert hosts.wait_until_clear() == []


@pytest.mark.slow
def test_a_taken_port_is_an_error_before_anything_starts(hosts: Hosts, tmp_path: Path) -> None:
    holder = "import socket, time; s = socket.create_server(('', 7000)); print('up', flush=True); time.sleep(30)"
    _, output = hosts.containers[1].exec_run(["python3", "-c", holder], stream=True)
    assert next(iter(output)) == b"up\n"
    with pytest.raises(BackendError, match=rf"n2 .*TCP port 7000 of {hosts.addresses[1]} is taken"):
        asyncio.run(deploy(hosts.inventory, tmp_path))
    hosts.on(1, "kill -9 $(ps ax -o pid,args | awk '/[c]reate_server/ {print $1}')")
    assert hosts.wait_until_clear() == []


@pytest.mark.slow
def test_hosts_that_do_not_reach_each_other_are_told(hosts: Hosts, tmp_path: Path) -> None:
    hosts.on(0, "nft 'table inet wall { chain input { type filter hook input priority 0; udp dport 65009 drop; }; }'")
    try:
        with pytest.raises(BackendError, match="the hosts do not reach each other: nothing passes n2 -> n1, n3 -> n1"):
            asyncio.run(deploy(hosts.inventory, tmp_path))
    finally:
        hosts.on(0, "nft delete table inet wall")
    assert hosts.wait_until_clear() == []


@pytest.mark.slow
def test_everything_that_hosts_lack_is_told_in_one_message(hosts: Hosts, tmp_path: Path) -> None:
    hosts.on(0, "mv /etc/sudoers.d/splitbrain /root/sudoers")
    hosts.on(1, "mv /usr/sbin/nft /usr/sbin/nft-away")
    try:
        with pytest.raises(BackendError) as told:
            asyncio.run(deploy(hosts.inventory, tmp_path, HostGossip(imports=("json", "no_such_module"))))
    finally:
        hosts.on(0, "mv /root/sudoers /etc/sudoers.d/splitbrain")
        hosts.on(1, "mv /usr/sbin/nft-away /usr/sbin/nft")
    said = str(told.value)
    assert "\n" not in said
    assert "sudo does not work without a password" in said
    assert "there is no nft (apt install nftables)" in said
    assert said.count("lacks the module no_such_module") == 3
    assert "json" not in said
    assert hosts.wait_until_clear() == []


@pytest.mark.slow
def test_a_host_without_python_is_told(hosts: Hosts, tmp_path: Path) -> None:
    hosts.on(1, "mv /usr/bin/python3 /usr/bin/python3-away")
    try:
        with pytest.raises(BackendError, match=r"n2 \(.*\): there is no python3 \(Debian and Ubuntu: apt install"):
            asyncio.run(deploy(hosts.inventory, tmp_path))
    finally:
        hosts.on(1, "mv /usr/bin/python3-away /usr/bin/python3")
    assert hosts.wait_until_clear() == []


@pytest.mark.slow
def test_one_host_with_a_wrong_key_stops_the_run_before_it_starts(hosts: Hosts, tmp_path: Path) -> None:
    other = new_key(tmp_path / "other")
    known = tmp_path / "known_hosts"
    lines = hosts.inventory.known_hosts.read_text().splitlines()
    known.write_text("\n".join([lines[0], f"{hosts.addresses[1]} {other}", *lines[2:]]) + "\n")
    with pytest.raises(BackendError, match=rf"n2 .*the host key is not the one in {known}") as told:
        asyncio.run(deploy(hosts.of(known_hosts=known), tmp_path / "run"))
    assert "n1" not in str(told.value)
    assert hosts.wait_until_clear() == []


@pytest.mark.slow
def test_a_go_program_whose_clock_is_to_be_faked_is_refused_before_it_starts(hosts: Hosts, tmp_path: Path) -> None:
    program = base64.b64encode(elf([6, 3, 1], [b".go.buildinfo"])).decode()
    hosts.on(0, f"echo {program} | base64 -d > /usr/local/bin/goes && chmod 755 /usr/local/bin/goes")
    with pytest.raises(FaultNotSupportedError, match="the clock of 'goes' cannot be faked: it is a Go program"):
        asyncio.run(deploy(hosts.of(0), tmp_path, HostGossip(("goes",)), ("clock-jump",)))
    assert hosts.wait_until_clear() == []

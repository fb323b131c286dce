"""`splitbrain doctor --hosts`: what works on hosts, and of each host that cannot be asked why, beside all the rest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
from click.testing import CliRunner

from splitbrain.harness.backends.catalogue import BACKENDS
from splitbrain.harness.backends.ssh.inventory import Inventory
from splitbrain.harness.campaigns import doctor
from splitbrain.harness.cli.doctor import command
from splitbrain.harness.contract.faults import FaultKind, Support
from splitbrain.results.errors import EXIT_PASS, UsageError
from tests.backends import ssh_support
from tests.backends.ssh_support import USER, Hosts, new_key

hosts = ssh_support.hosts


class _Elsewhere:
    """Another backend, which is asked in no time."""

    def support(self) -> dict[str, Support]:
        return dict.fromkeys(get_args(FaultKind), Support(True, "by magic"))


@pytest.fixture(autouse=True)
def only_ssh_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(name: str, inventory: Inventory | None = None) -> Any:
        return BACKENDS[name][0](inventory) if name == "ssh" else _Elsewhere()

    monkeypatch.setattr(doctor, "build", build)


def asked(*arguments: str) -> dict[str, Any]:
    """What doctor answers in JSON: of each kind of fault, by backend."""
    done = CliRunner().invoke(command, ["--json", *arguments], catch_exceptions=False)
    assert done.exit_code == EXIT_PASS, done.output
    return json.loads(done.stdout)["faults"]


def options(known_hosts: Path, key: Path | None, *entries: str) -> Sequence[str]:
    return ("--hosts", ",".join(entries), "--known-hosts", str(known_hosts), "--ssh-key", str(key))


@pytest.mark.slow
@pytest.mark.cluster
def test_the_column_of_ssh_is_what_the_hosts_answer(hosts: Hosts) -> None:
    inventory = hosts.inventory
    entries = [f"{host.node}={USER}@{host.name}" for host in inventory.hosts]
    found = asked(*options(inventory.known_hosts, inventory.key, *entries))
    assert found["cut"]["ssh"] == {"works": True, "how": "nftables on each receiving host"}
    hosts.on(1, "mv /usr/sbin/mkfs.ext4 /usr/sbin/mkfs.ext4-away")
    try:
        # Under other names, for hosts that were asked once are not asked again by this process.
        others = [entry.replace("=", "x=") for entry in entries]
        found = asked(*options(inventory.known_hosts, inventory.key, *others))
    finally:
        hosts.on(1, "mv /usr/sbin/mkfs.ext4-away /usr/sbin/mkfs.ext4")
    assert found["cut"]["ssh"]["works"]
    assert not found["power"]["ssh"]["works"]
    assert "the host of n2x cannot" in found["power"]["ssh"]["how"]


@pytest.mark.slow
@pytest.mark.cluster
def test_each_host_that_cannot_be_asked_has_a_line_and_the_other_backends_are_told(
    hosts: Hosts, tmp_path: Path
) -> None:
    inventory, addresses = hosts.inventory, hosts.addresses
    known = tmp_path / "known_hosts"
    lines = inventory.known_hosts.read_text().splitlines()
    known.write_text("\n".join([lines[0], f"{addresses[1]} {new_key(tmp_path / 'other')}", lines[2]]) + "\n")
    given = options(
        known, inventory.key, f"n1={USER}@{addresses[0]}", f"n2={USER}@{addresses[1]}", f"n3={USER}@{addresses[2]}:23"
    )
    done = CliRunner().invoke(command, [*given], catch_exceptions=False)
    assert done.exit_code == EXIT_PASS
    ssh = done.stdout.partition("\nssh\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split(":")[0] for line in ssh] == ["  no    everything"] * 2
    assert f"n2 ({addresses[1]}:22): the host key is not the one in {known}" in ssh[0]
    assert f"n3 ({addresses[2]}:23): the port is closed: no ssh server listens there" in ssh[1]
    assert "by magic" in done.stdout, "what the other backends answer is there as well"
    found = asked(*given)
    assert found["kill"]["local"]["works"]
    assert not found["kill"]["ssh"]["works"]


def test_a_list_of_hosts_that_is_none_is_a_wrong_request() -> None:
    done = CliRunner().invoke(command, ["--hosts", "somewhere"])
    assert isinstance(done.exception, UsageError)


def test_without_hosts_the_column_says_what_to_give() -> None:
    assert asked()["cut"]["ssh"] == {"works": False, "how": "no hosts are named: give --hosts"}

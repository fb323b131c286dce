"""etcd on hosts over SSH, with real faults."""

from __future__ import annotations

import tarfile
from collections.abc import Generator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from tests.backends.ssh_support import Hosts, running_hosts
from tests.cli.support import comes_out, splitbrain

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Generator[Hosts, None, None]:
    with running_hosts(3, tmp_path_factory.mktemp("hosts")) as found:
        yield found


def run_on(hosts: Hosts, store: Path, *options: str) -> Any:
    entries = ",".join(f"{host.node}={host.user}@{host.name}:{host.port}" for host in hosts.inventory.hosts)
    reached = ["--hosts", entries, "--known-hosts", f"{hosts.folder}/known_hosts", "--ssh-key", f"{hosts.folder}/user"]
    words = ["--backend", "ssh", *reached, "--system", "etcd", "--store", str(store), "--engine", "inline"]
    return splitbrain("run", "--json", *words, *options, cwd=store, timeout_s=240)


def etcd_on(hosts: Hosts) -> list[str]:
    """What of etcd still runs on hosts."""
    return [
        line for number in range(len(hosts.addresses)) for line in hosts.on(number, "pgrep -a etcd || true").split()
    ]


def test_a_register_passes_under_partitions_kills_pauses_and_faults_of_packets(three: Hosts, tmp_path: Path) -> None:
    faults = ["--nemesis", "partition,kill,pause,packet", "--interval", "3", "--time-limit", "40", "--seed", "3"]
    _, store = comes_out("pass", lambda store: run_on(three, store, "--workload", "register", *faults), tmp_path)
    [run] = store.glob("test=*/run=*")
    for node in ("n1", "n2", "n3"):
        assert "serving" in (run / "nodes" / node / "log").read_text()
        with tarfile.open(run / "nodes" / node / "data.tar.gz") as packed:
            assert [name for name in packed.getnames() if fnmatch(name, "data/etcd/member/wal/*.wal")]
        rows = (run / "nodes" / node / "telemetry.jsonl").read_text().splitlines()
        assert len(rows) > 30, "nodes on hosts are asked for telemetry as others are"
    assert three.wait_until_clear() == []
    assert etcd_on(three) == []


def test_members_on_hosts_leave_and_join(three: Hosts, tmp_path: Path) -> None:
    faults = ["--nemesis", "membership", "--time-limit", "20", "--interval", "3"]
    comes_out("pass", lambda store: run_on(three, store, "--workload", "register", *faults), tmp_path)
    assert three.wait_until_clear() == []


def test_a_host_without_etcd_is_refused_before_anything_starts(three: Hosts, tmp_path: Path) -> None:
    three.on(1, "mv /usr/bin/etcd /usr/bin/etcd.away")
    try:
        done = run_on(three, tmp_path, "--nemesis", "none", "--time-limit", "5")
    finally:
        three.on(1, "mv /usr/bin/etcd.away /usr/bin/etcd")
    assert done.returncode == 255
    assert "there is no etcd (apt install etcd-server)" in done.stdout + done.stderr
    assert "n2 (" in done.stdout + done.stderr
    assert three.wait_until_clear() == []

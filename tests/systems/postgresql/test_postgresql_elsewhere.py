"""PostgreSQL in containers, and on hosts over SSH, with real faults: as on this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness.backends.docker import labels
from splitbrain.results.rundir import RunDir
from tests.backends import docker_support
from tests.backends.docker_support import leftovers
from tests.backends.ssh_support import Hosts, running_hosts
from tests.cli.support import answer, comes_out, only_run, splitbrain, start

engine = docker_support.engine
pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.usefixtures("engine")]

ENDS_WITHIN_S = 300
STANDBYS = ("--nodes", "3", "--read-mode", "serializable")


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Generator[Hosts, None, None]:
    with running_hosts(3, tmp_path_factory.mktemp("hosts")) as found:
        yield found


def in_containers(store: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """A run to its end, after which nothing of it is in the engine."""
    always = ("run", "--json", "--backend", "docker", "--system", "postgresql", "--engine", "inline")
    process = start(*always, "--store", str(store), *options, cwd=store)
    try:
        out, err = process.communicate(timeout=ENDS_WITHIN_S)
    finally:
        process.kill()
        process.wait()
    assert [name for name in leftovers(labels.CONTROLLER) if name.startswith(f"splitbrain-{process.pid}-")] == []
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def on_hosts(hosts: Hosts, store: Path, *options: str) -> Any:
    """A run on hosts."""
    number = int(options[options.index("--nodes") + 1])
    entries = ",".join(f"{host.node}={host.user}@{host.name}:{host.port}" for host in hosts.inventory.hosts[:number])
    reached = ["--hosts", entries, "--known-hosts", f"{hosts.folder}/known_hosts", "--ssh-key", f"{hosts.folder}/user"]
    words = ["--backend", "ssh", *reached, "--system", "postgresql", "--store", str(store), "--engine", "inline"]
    return splitbrain("run", "--json", *words, *options, cwd=store, timeout_s=ENDS_WITHIN_S)


def servers_on(hosts: Hosts) -> list[str]:
    """What of PostgreSQL still runs on hosts."""
    found = [hosts.on(number, "pgrep -a postgres || true") for number in range(len(hosts.addresses))]
    return [line for said in found for line in said.splitlines()]


REGISTER = ("--workload", "register", "--nemesis", "kill,pause", "--interval", "3", "--time-limit", "25", "--seed", "5")
SERIALIZABLE = ("--workload", "list-append", "--isolation", "serializable", "--nemesis", "none", "--time-limit", "12")


def keeps_its_register(done: Any) -> None:
    """A node alone may be down for half of a run, which then proves too little; its answers are right nevertheless."""
    found = answer(done)
    verdicts = {verdict["checker"]: verdict for verdict in found["verdicts"]}
    assert found["harness_error"] is None
    assert verdicts["linearizable"]["valid"] is True, verdicts["linearizable"]["sentence"]
    assert {window["fault"] for window in verdicts["coverage"]["figures"]["windows"]} == {"kill", "pause"}


def test_in_a_container_a_register_of_one_node_stays_right_under_kills_and_pauses(tmp_path: Path) -> None:
    keeps_its_register(in_containers(tmp_path, "--nodes", "1", "--concurrency", "12", *REGISTER))


def test_in_a_container_serializable_transactions_pass(tmp_path: Path) -> None:
    options = ("--nodes", "1", "--concurrency", "8", *SERIALIZABLE)
    comes_out("pass", lambda store: in_containers(store, *options), tmp_path)


def test_in_containers_a_standby_is_promoted_when_the_primary_dies(tmp_path: Path) -> None:
    faults = ("--workload", "set", "--nemesis", "kill-leader", "--interval", "6", "--time-limit", "25", "--seed", "2")
    done = in_containers(tmp_path, *STANDBYS, "--settings", "synchronous-standbys=1", *faults)
    assert done.returncode in (0, 1, 2), done.stdout + done.stderr
    rows = RunDir(only_run(tmp_path)).telemetry().to_pylist()
    assert {row["node"] for row in rows} == {"n1", "n2", "n3"}
    assert {row["term"] for row in rows if row["role"] == "leader"} >= {1, 2}, "no standby was promoted"


def test_on_a_host_a_register_of_one_node_stays_right_under_kills_and_pauses(three: Hosts, tmp_path: Path) -> None:
    keeps_its_register(on_hosts(three, tmp_path, "--nodes", "1", "--concurrency", "12", *REGISTER))
    assert three.wait_until_clear() == []
    assert servers_on(three) == []


def test_on_hosts_a_standby_is_promoted_when_the_primary_dies(three: Hosts, tmp_path: Path) -> None:
    faults = ("--workload", "set", "--nemesis", "kill-leader", "--interval", "6", "--time-limit", "25", "--seed", "2")
    done = on_hosts(three, tmp_path, *STANDBYS, "--settings", "synchronous-standbys=1", *faults)
    assert done.returncode in (0, 1, 2), done.stdout + done.stderr
    rows = RunDir(only_run(tmp_path)).telemetry().to_pylist()
    assert {row["term"] for row in rows if row["role"] == "leader"} >= {1, 2}, "no standby was promoted"
    assert three.wait_until_clear() == []
    assert servers_on(three) == []


def test_a_host_without_postgresql_is_refused_before_anything_starts(three: Hosts, tmp_path: Path) -> None:
    three.on(0, "mv /usr/lib/postgresql /usr/lib/postgresql.away; mv /usr/bin/psql /usr/bin/psql.away")
    try:
        done = on_hosts(three, tmp_path, "--nodes", "1", "--nemesis", "none", "--time-limit", "5")
    finally:
        three.on(0, "mv /usr/lib/postgresql.away /usr/lib/postgresql; mv /usr/bin/psql.away /usr/bin/psql")
    assert done.returncode == 255
    assert "postgresql" in done.stdout + done.stderr
    assert three.wait_until_clear() == []

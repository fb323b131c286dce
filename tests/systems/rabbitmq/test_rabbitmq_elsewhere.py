"""Whole runs of RabbitMQ on this machine and on hosts over SSH, after which neither a broker nor its epmd is left."""

from __future__ import annotations

import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from splitbrain.results.store import RunDir
from tests.backends.ssh_support import Hosts, running_hosts
from tests.backends.support import processes_with, skip_without_namespaces, wait_until_gone
from tests.cli.support import comes_out, kill, only_run, splitbrain, start
from tests.systems.rabbitmq.conftest import installed, release_of

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

ENDS_WITHIN_S = 400
ALWAYS = ("--json", "--system", "rabbitmq", "--nodes", "3", "--engine", "inline", "--recovery", "120")
QUEUE = ("--workload", "queue", "--time-limit", "18", "--rate", "30", "--seed", "3")
FAULTS = """
[2.0, "start-partition", {"shape": "isolate-one"}]
[6.0, "stop-partition"]
[8.0, "pause", {"spec": "one", "order": ["n2", "n1", "n3"]}]
[10.0, "resume"]
[11.0, "kill", {"spec": "one", "order": ["n3", "n1", "n2"]}]
[12.0, "start"]
"""
"""A node needs some seconds until it serves again."""
COMMANDS = ("epmd", "beam.smp", "erl_child_setup")
"""How the programs of a node are called in its processes."""


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Generator[Hosts, None, None]:
    with running_hosts(3, tmp_path_factory.mktemp("hosts")) as found:
        yield found


def under_faults(folder: Path) -> tuple[str, ...]:
    """Options of a run of queues."""
    schedule = folder / "three.schedule"
    schedule.write_text(FAULTS)
    return (*QUEUE, "--schedule", str(schedule))


def brokers_on(hosts: Hosts) -> list[str]:
    """What of RabbitMQ runs on hosts."""
    found = [hosts.on(at, f"pgrep -a '{'|'.join(COMMANDS)}' || true") for at in range(len(hosts.addresses))]
    return [line for said in found for line in said.splitlines()]


def keeps_its_queues(found: Any, store: Path) -> None:
    verdicts = {verdict["checker"]: verdict for verdict in found["verdicts"]}
    assert verdicts["queue"]["figures"]["acknowledged"] > 20
    assert {window["fault"] for window in verdicts["coverage"]["figures"]["windows"]} == {"partition", "kill", "pause"}
    rows = RunDir(only_run(store)).telemetry().to_pylist()
    assert {row["node"] for row in rows} == {"n1", "n2", "n3"}
    assert {row["leader"] for row in rows} & {"n1", "n2", "n3"}, "names in the VM are no names of nodes"


def test_here_queues_lose_nothing_under_partitions_kills_and_pauses(tmp_path: Path) -> None:
    skip_without_namespaces()
    options = ("--settings", f"release={installed()}", *under_faults(tmp_path))

    def run(store: Path) -> Any:
        done = splitbrain("run", *ALWAYS, "--store", str(store), *options, cwd=store, timeout_s=ENDS_WITHIN_S)
        assert wait_until_gone(str(store), 0.0) == {}
        return done

    keeps_its_queues(*comes_out("pass", run, tmp_path))


@pytest.mark.alone
def test_brokers_that_are_set_up_end_with_their_controller(tmp_path: Path) -> None:
    """epmd has the directory of the node in its environment, as the broker does."""
    skip_without_namespaces()
    settings = ("--settings", f"release={installed()}")
    process = start("run", *ALWAYS, "--store", str(tmp_path), *QUEUE, *settings, "--nemesis", "kill", cwd=tmp_path)
    try:
        deadline = time.monotonic() + 60
        while sorted(each for each in commands_of(tmp_path) if each in COMMANDS[:2]) != ["beam.smp"] * 3 + ["epmd"] * 3:
            assert time.monotonic() < deadline, commands_of(tmp_path)
            time.sleep(0.05)
    finally:
        kill(process)
    assert wait_until_gone(str(tmp_path)) == {}


def commands_of(store: Path) -> list[str]:
    """The programs of the processes that have to do with a store."""
    found: list[str] = []
    for pid in processes_with(str(store)):
        try:
            found.append(Path(f"/proc/{pid}/comm").read_text().strip())
        except OSError:
            continue
    return found


def test_a_release_that_is_not_here_is_refused_and_the_one_that_is_named(tmp_path: Path) -> None:
    other = {"4.0": "3.10", "3.10": "4.0"}[installed()]
    words = ("--workload", "queue", "--settings", f"release={other}", "--nemesis", "none", "--time-limit", "5")
    done = splitbrain("run", *ALWAYS, "--store", str(tmp_path), *words, cwd=tmp_path)
    assert done.returncode == 255
    assert f"--settings release={installed()}" in done.stdout + done.stderr
    assert wait_until_gone(str(tmp_path)) == {}


def on_hosts(hosts: Hosts, store: Path, *options: str) -> Any:
    release = release_of(hosts.on(0, "ls /usr/lib/rabbitmq/lib"))
    entries = ",".join(f"{host.node}={host.user}@{host.name}:{host.port}" for host in hosts.inventory.hosts)
    reached = ["--hosts", entries, "--known-hosts", f"{hosts.folder}/known_hosts", "--ssh-key", f"{hosts.folder}/user"]
    words = ["--backend", "ssh", *reached, "--store", str(store), "--settings", f"release={release}", *options]
    return splitbrain("run", *ALWAYS, *words, cwd=store, timeout_s=ENDS_WITHIN_S)


def test_on_hosts_queues_lose_nothing_under_partitions_kills_and_pauses(three: Hosts, tmp_path: Path) -> None:
    """An epmd of a host's own, as packages start one, disturbs no node, and stays."""
    three.on(1, "epmd -daemon")
    own = brokers_on(three)
    assert len(own) == 1
    options = under_faults(tmp_path)
    keeps_its_queues(*comes_out("pass", lambda store: on_hosts(three, store, *options), tmp_path))
    assert three.wait_until_clear() == []
    assert brokers_on(three) == own

"""Whole runs on hosts: the cluster passes under faults of every part, and one that is broken on purpose is found."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.backends.ssh_support import Hosts, running_hosts
from tests.cli.support import comes_out, splitbrain

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> Generator[Hosts, None, None]:
    with running_hosts(5, tmp_path_factory.mktemp("hosts")) as found:
        yield found


def options(hosts: Hosts) -> list[str]:
    entries = [f"{host.node}={host.user}@{host.name}:{host.port}" for host in hosts.inventory.hosts]
    (hosts.folder / "inventory").write_text("\n".join(["# five hosts", *entries]) + "\n")
    words = ["--backend", "ssh", "--hosts", f"@{hosts.folder}/inventory"]
    return [*words, "--known-hosts", f"{hosts.folder}/known_hosts", "--ssh-key", f"{hosts.folder}/user"]


def test_a_register_on_five_hosts_passes_under_faults(five: Hosts, tmp_path: Path) -> None:
    faults = ["--nemesis", "partition,kill,pause,packet,disk", "--interval", "2", "--time-limit", "30", "--seed", "11"]
    words = ["run", *options(five), "-w", "register", *faults, "--json"]
    found, folder = comes_out("pass", lambda folder: splitbrain(*words, cwd=folder, timeout_s=240), tmp_path)
    [coverage] = [each for each in found["verdicts"] if each["checker"] == "coverage"]
    struck = {window["fault"] for window in coverage["figures"]["windows"]}
    assert struck == {"partition", "kill", "pause", "packet", "disk"}
    [run] = folder.glob("store/test=*/run=*")
    assert sorted(path.name for path in (run / "nodes").iterdir()) == ["n1", "n2", "n3", "n4", "n5"]
    for number in range(1, 6):
        with tarfile.open(run / f"nodes/n{number}/data.tar.gz") as packed:
            assert "data/telemetry.jsonl" in packed.getnames()
    assert json.loads((run / "test.json").read_text())["links"] == "receivers"
    assert five.wait_until_clear() == []


def test_stale_reads_on_hosts_are_found(five: Hosts, tmp_path: Path) -> None:
    load = ["--bug", "M23", "--nemesis", "partition", "--interval", "4", "--time-limit", "30", "--seed", "7"]
    words = ["run", *options(five), "-w", "register", *load, "--json"]
    comes_out("violation", lambda folder: splitbrain(*words, cwd=folder, timeout_s=240), tmp_path)
    assert five.wait_until_clear() == []


def test_a_host_that_is_down_ends_the_run_in_one_line_before_it_is_stored(five: Hosts, tmp_path: Path) -> None:
    five.containers[4].kill()
    try:
        done = splitbrain("run", *options(five), "--nemesis", "none", "--time-limit", "5", cwd=tmp_path, timeout_s=120)
    finally:
        five.containers[4].start()
    assert done.returncode == 255
    [line] = [line for line in done.stderr.splitlines() if "n5 (" in line]
    assert "the host cannot be reached" in line or "the host does not answer" in line
    assert list(tmp_path.glob("store/test=*/run=*")) == []

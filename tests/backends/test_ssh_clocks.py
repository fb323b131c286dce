"""Hosts whose clocks are not the controller's: how far apart they are is found out, and rows of nodes are in place."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path

import msgspec
import pytest

from splitbrain.results.calls import ints
from splitbrain.results.clocks import clocks_in
from splitbrain.results.rundir import RunDir
from tests.backends.ssh_support import Hosts, deployed, running_hosts
from tests.cli.support import comes_out, only_run, splitbrain

pytestmark = pytest.mark.cluster

AHEAD_S = 5000
PORT = 2222


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Generator[Hosts, None, None]:
    """Three hosts; a login on the second one finds a monotonic clock that is ahead, in a time namespace."""
    with running_hosts(3, tmp_path_factory.mktemp("hosts"), "SYS_TIME") as found:
        serve = f"/usr/sbin/sshd -f /opt/splitbrain/sshd.conf -p {PORT}"
        found.on(1, f"unshare --time --fork --monotonic {AHEAD_S} {serve}")
        inventory = found.inventory
        first, second, third = inventory.hosts
        known = inventory.known_hosts
        [line] = [line for line in known.read_text().splitlines() if line.startswith(f"{second.name} ")]
        with known.open("a") as file:
            file.write(f"[{second.name}]:{PORT} {line.partition(' ')[2]}\n")
        found.inventory = msgspec.structs.replace(
            inventory, hosts=(first, msgspec.structs.replace(second, port=PORT), third)
        )
        yield found


@pytest.mark.slow
def test_how_far_the_clocks_of_hosts_are_ahead_is_told_within_the_error(three: Hosts, tmp_path: Path) -> None:
    async def check() -> None:
        async with deployed(three.inventory, tmp_path) as deployment:
            found = await deployment.offsets()
        assert list(found) == ["n1", "n2", "n3"]
        for node, offset in found.items():
            true_ns = AHEAD_S * 10**9 if node == "n2" else 0
            assert abs(offset.mono_ns - true_ns) <= offset.error_ns
            # One kernel has one wall clock; it may have been adjusted between two looks at it.
            assert abs(offset.wall_ns) <= offset.error_ns + 10**6
            assert offset.error_ns > 0

    asyncio.run(check())


@pytest.mark.slow
def test_rows_of_nodes_are_placed_in_the_run_though_monotonic_clocks_differ_and_wall_clocks_are_bent(
    three: Hosts, tmp_path: Path
) -> None:
    entries = ",".join(f"{host.node}={host.user}@{host.name}:{host.port}" for host in three.inventory.hosts)
    reached = ["--hosts", entries, "--known-hosts", str(three.inventory.known_hosts), "--ssh-key"]
    words = ["run", "--json", "--backend", "ssh", *reached, f"{three.folder}/user"]
    words += ["--nodes", "3", "--nemesis", "clock", "--interval", "3", "--time-limit", "15", "--engine", "inline"]
    _, store = comes_out("pass", lambda store: splitbrain(*words, "--store", str(store), timeout_s=240), tmp_path)
    run = RunDir(only_run(store))
    clocks = clocks_in(run.history())
    assert abs(clocks.offsets_s["n2"] - AHEAD_S) <= clocks.error_s
    end_ns = int(ints(run.history(), "time").max())
    rows = run.telemetry().to_pylist()
    assert {row["node"] for row in rows} == {"n1", "n2", "n3"}
    started_ns = [row["time"] for row in rows if row["event"] == "start"]
    up_ns = round(run.read_test()["up_s"] * 1e9)
    assert all(-up_ns <= time_ns <= 0 for time_ns in started_ns)
    assert all(-up_ns <= row["time"] <= end_ns + 60 * 10**9 for row in rows)
    assert three.wait_until_clear() == []

"""`splitbrain cluster`: an operator's whole life with a cluster of real processes, and what is refused on the way."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from splitbrain.harness.cli.cluster import command
from splitbrain.harness.cli.clusters.layout import running
from splitbrain.harness.cli.clusters.processes import alive, refusal_of_port
from splitbrain.results.errors import UsageError

NODES = 6
"""Names that a cluster of three with three spares has."""

pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
"""Nodes outlive the command that starts them, which in these tests is the test's own process."""

Call = Callable[..., Result]


def five_free_ports() -> int:
    """The first of as many consecutive ports as a cluster has names."""
    rng = random.Random(os.getpid())
    while True:
        first = rng.randint(20_000, 30_000)
        if not any(refusal_of_port(first + offset) for offset in range(NODES)):
            return first


@pytest.fixture(name="call")
def _call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Call]:
    """Call `splitbrain cluster` in a folder of the test's own; no process of it is left behind."""
    monkeypatch.chdir(tmp_path)
    # Nodes find the project wherever they are started.
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))

    def call(*arguments: str, code: int = 0) -> Result:
        done = CliRunner().invoke(command, arguments, catch_exceptions=False)
        assert done.exit_code == code, (done.stdout, done.stderr)
        return done

    yield call
    call("down")


def answer(done: Result) -> Any:
    return json.loads(done.stdout)


def state_of(name: str) -> dict[str, Any]:
    nodes = json.loads(Path("metadata-cluster/cluster.json").read_text())["nodes"]
    return next(node for node in nodes if node["node"] == name)


def leader(call: Call) -> str:
    """The leader on which a majority agrees."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        done = CliRunner().invoke(command, ["status", "--json"], catch_exceptions=False)
        if done.exit_code == 0:
            leaders = [each["leader"] for each in answer(done) if each.get("leader")]
            return max(set(leaders), key=leaders.count)
        time.sleep(0.05)
    raise AssertionError("no leader")


def test_ra28_to_ra32_the_life_of_a_cluster_from_up_to_its_logs(call: Call) -> None:
    said = call("up", "--base-port", str(five_free_ports()), "--spares", "3").stdout
    assert [line.split()[0] for line in said.splitlines()] == ["n1", "n2", "n3"]

    written = answer(call("ctl", "put", "/queues/orders", '{"durable": true}', "--node", "n2"))
    after = f"{written['index']}:{written['term']}"
    for node in ("n1", "n3"):
        read = answer(call("ctl", "--node", node, "get", "/queues/orders", "--mode", "local", "--after", after))
        assert read["value"] == {"durable": True}
    assert answer(call("ctl", "children", "/queues", "--mode", "leader"))["names"] == ["orders"]

    # A feature flag, which a node that joins takes over.
    assert "experimental" in call("ctl", "enable_feature_flag", "khepri_db", code=1).stderr
    assert "unknown_flag" in call("ctl", "enable_feature_flag", "nothing", code=1).stderr
    call("ctl", "enable_feature_flag", "khepri_db", "--experimental", "--node", "n2")
    for node in ("n1", "n2", "n3"):
        flags = answer(call("ctl", "--node", node, "list_feature_flags", "--json"))
        assert {flag["name"]: flag["state"] for flag in flags} == dict.fromkeys(
            ("feature_flags", "khepri_db"), "enabled"
        )

    # A learner that becomes a voter, and leads.
    added = answer(call("ctl", "add", "n4", "--role", "learner", "--json"))
    assert (added["voters"], added["learners"]) == (["n1", "n2", "n3"], ["n4"])
    assert answer(call("ctl", "add", "n4", "--json"))["voters"] == ["n1", "n2", "n3", "n4"]
    assert "already_member" in call("ctl", "add", "n4", code=1).stderr
    call("ctl", "transfer", "n4")
    while leader(call) != "n4":
        time.sleep(0.05)
    while "khepri_db      enabled" not in call("ctl", "list_feature_flags", "--node", "n4").stdout:
        time.sleep(0.05)
    assert answer(call("ctl", "status", "--node", "n4", "--json"))["role"] == "leader"
    assert call("ctl", "status", "--node", "n1").stdout.split()[:2] == ["n1", "follower"]

    # A member that leaves, and returns as another, with its former data aside.
    assert "n2 left the cluster." in call("ctl", "remove", "n2").stdout
    assert (state_of("n2")["part"], state_of("n2")["pid"]) == ("removed", 0)
    returned = answer(call("ctl", "add", "n2", "--json"))
    assert returned["voters"] == ["n1", "n2#1", "n3", "n4"]
    kept = Path("metadata-cluster/n2.incarnation-0")
    assert "node n2, incarnation 0" in call("log", str(kept)).stdout
    assert "node n2, incarnation 1" in call("log", "metadata-cluster/n2").stdout

    # A member whose process has ended starts again with its data.
    ended = running(Path("metadata-cluster")).find("n3")
    os.kill(ended.pid, signal.SIGKILL)
    while alive(ended):
        time.sleep(0.01)
    assert "n3 is a member already." in call("ctl", "add", "n3").stdout
    assert state_of("n3")["incarnation"] == 0

    taken = answer(call("ctl", "snapshot", "--node", "n1", "--json"))
    assert f"snapshot of entry {taken['index']}, term {taken['term']}" in call("log", "metadata-cluster/n1").stdout
    held = answer(call("state", "metadata-cluster/n1", "--path", "/queues", "--json"))
    assert [each["path"] for each in held["tree"]] == ["/queues", "/queues/orders"]
    assert held["applied_index"] == taken["index"]
    call("ctl", "get", "/queues/orders", "--node", "n3", "--mode", "local", "--after", after)
    assert "a checkpoint of entry" in call("ctl", "checkpoint", "--node", "n3").stdout

    # What one node has goes on; the others join without data.
    with pytest.raises(UsageError, match="can only join again without data"):
        call("ctl", "force-shrink", "--node", "n1")
    assert state_of("n4")["part"] == "member"
    assert answer(call("ctl", "force-shrink", "--node", "n1", "--yes", "--json"))["voters"] == ["n1"]
    assert {state_of(name)["part"] for name in ("n2", "n3", "n4")} == {"removed"}
    assert answer(call("ctl", "add", "n3", "--json"))["voters"] == ["n1", "n3#1"]
    assert answer(call("ctl", "get", "/queues/orders", "--node", "n3"))["value"] == {"durable": True}

    # The members of then are those of the next start.
    assert call("down").stdout == "stopped n1, n3\n"
    log = answer(call("log", "metadata-cluster/n1", "--json"))
    assert log["damage"] == []
    assert log["groups"][0]["entries"][-1]["what"] == "voters n1, n3#1"
    said = call("up").stdout
    assert [line.split()[0] for line in said.splitlines()] == ["n1", "n3"]
    assert answer(call("ctl", "get", "/queues/orders"))["value"] == {"durable": True}


def test_what_ctl_cannot_do_is_refused_in_one_sentence(call: Call) -> None:
    call("up", "--nodes", "1", "--spares", "1", "--base-port", str(five_free_ports()))
    for arguments, says in (
        (("ctl", "add", "n9"), "have no address of 'n9': they know n1, n2"),
        (("ctl", "remove", "n9"), "there is no node 'n9' in this cluster: n1, n2"),
        (("ctl", "transfer", "n9"), "there is no node 'n9' in this cluster: n1, n2"),
        (("ctl", "get", "/x", "--node", "n9"), "there is no node 'n9' in this cluster: n1, n2"),
        (("ctl", "force-shrink"), "--node NAME"),
        (("up",), "a cluster is already up"),
    ):
        with pytest.raises(UsageError) as refused:
            call(*arguments)
        assert says in str(refused.value)
    for arguments, says in (
        (("ctl", "remove", "n1"), "last_member"),
        (("ctl", "transfer", "n2"), "n2 is no member. Members: n1."),
        (("ctl", "get", "/x"), "node_not_found"),
        (("ctl", "put", "x", "1"), "is not a path"),
        (("state", "metadata-cluster/n1"), "there is no snapshot and no checkpoint"),
    ):
        assert says in call(*arguments, code=1).stderr
    assert state_of("n1")["part"] == "member"
    call("down")
    with pytest.raises(UsageError, match="the cluster in metadata-cluster began with n1"):
        call("up", "--nodes", "3")


def test_damage_is_printed_with_file_and_byte_and_nothing_is_changed(call: Call) -> None:
    call("up", "--nodes", "1", "--base-port", str(five_free_ports()))
    call("ctl", "put", "/a", '"\x1b[31mred\\n"')
    call("down")
    folder = Path("metadata-cluster/n1")
    [wal] = folder.glob("wal-*")
    content = wal.read_bytes()
    assert "\x1b" not in call("log", str(folder)).stdout
    wal.write_bytes(content.replace(b"red", b"rot"))
    before = {path: path.read_bytes() for path in folder.iterdir()}
    done = call("log", str(folder), code=1)
    assert f"damage: {wal.name}, byte " in done.stdout
    assert "a record that was durable is damaged" in done.stdout
    assert answer(call("log", str(folder), "--json", code=1))["damage"][0]["file"] == wal.name
    assert {path: path.read_bytes() for path in folder.iterdir()} == before

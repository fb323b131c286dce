"""`splitbrain cluster ctl` of two stores: an operator moves entities of a cluster of real processes, and back."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from splitbrain.cluster.client import Client
from splitbrain.harness.cli.clusters.asking import with_client
from splitbrain.harness.cli.clusters.layout import running
from tests.cli.test_cluster_ctl import Call, answer, five_free_ports
from tests.cli.test_cluster_ctl import _call as _fixture  # pyright: ignore[reportPrivateUsage]

assert _fixture

pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")


def serving(call: Call) -> str:
    """The status of the cluster once the tables of its first node serve, with those of all others."""
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        found = call("ctl", "cluster_status").stdout
        if "running on n1, with n1, n2, n3" in found and "unknown" not in found:
            return found
        time.sleep(0.1)
    raise AssertionError("the tables do not serve")


def test_an_operator_moves_entities_back_and_forth_until_the_tree_has_changed(call: Call) -> None:
    chosen = ("--store", "tables", "--partition-strategy", "pause-minority")
    call("up", *chosen, "--base-port", str(five_free_ports()), "--spares", "0")
    before = serving(call)
    assert "store          the tables are in force" in before
    assert "khepri_db disabled" in before
    call("ctl", "drain", "n2")  # a change of the tables
    refused = call("ctl", "rollback", code=1)
    assert "migration_refused: the tables are in force already" in refused.stderr
    assert call("ctl", "migrate", "--timeout", "30").stdout == "the tree is in force.\n"
    assert call("ctl", "rollback", "--node", "n3").stdout == "the tables are in force.\n"
    assert answer(call("ctl", "migrate", "--timeout", "30", "--json")) == {"store": "tree"}
    call("ctl", "revive", "n2")
    refused = call("ctl", "rollback", code=1)
    assert "the tree has taken changes since the migration" in refused.stderr
    after = answer(call("ctl", "cluster_status", "--node", "n3", "--json"))
    assert (after["store"], after["written"], after["feature_flags"]["khepri_db"]) == ("tree", True, "enabled")


def test_a_cluster_with_the_tree_alone_says_so_and_has_nothing_to_move(call: Call) -> None:
    call("up", "--base-port", str(five_free_ports()), "--spares", "0")
    assert call("ctl", "cluster_status").stdout == (
        "members        n1, n2, n3\n"
        "store          the tree is in force\n"
        "feature flags  feature_flags enabled, khepri_db disabled\n"
    )
    assert answer(call("ctl", "cluster_status", "--json"))["phase"] == "none"
    for name in ("migrate", "rollback"):
        assert "was not started with --store tables" in call("ctl", name, code=1).stderr


@pytest.mark.slow
def test_nothing_begins_on_a_drained_node_also_where_the_tables_say_that_it_is_drained(call: Call) -> None:
    call("up", "--store", "tables", "--base-port", str(five_free_ports()), "--spares", "0")
    serving(call)
    assert call("ctl", "list_drained").stdout == "no node is being drained\n"
    call("ctl", "drain", "n2")
    assert call("ctl", "list_drained", "--node", "n3").stdout == "n2\n"
    call("ctl", "add_stream", "events")
    [stream] = answer(call("ctl", "streams", "--json"))
    assert sorted(stream["members"]) == ["n1", "n3"]

    async def declare(client: Client) -> None:
        await (await client.queues()).declare("orders")

    asyncio.run(with_client(running(Path("metadata-cluster")).find("n2"), declare))
    [queue] = answer(call("ctl", "queues", "--json"))
    assert sorted(queue["members"]) == ["n1", "n3"]
    assert "target -  members" in call("ctl", "queues").stdout
    call("ctl", "migrate", "--timeout", "30")
    assert answer(call("ctl", "list_drained", "--json")) == {"draining": ["n2"]}

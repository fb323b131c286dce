"""`splitbrain cluster ctl` of two stores: an operator moves entities of a cluster of real processes, and back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from splitbrain.cluster.client import Client
from splitbrain.harness.cli.clusters import lifecycle
from splitbrain.harness.cli.clusters.asking import with_client
from splitbrain.harness.cli.clusters.layout import ClusterNode, Layout, running
from splitbrain.results.errors import NodeStartError
from tests.cli.test_cluster_ctl import Call, answer, five_free_ports
from tests.cli.test_cluster_ctl import _call as _fixture  # pyright: ignore[reportPrivateUsage]

assert _fixture

pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")


def serving(call: Call) -> str:
    """What the first node says of the stores, whose tables serve on all nodes as soon as `up` has returned."""
    found = ""
    for name in ("n3", "n2", "n1"):
        found = call("ctl", "cluster_status", "--node", name).stdout
        assert f"running on {name}, with n1, n2, n3" in found, "`up` returns once the tables serve"
        assert "unknown" not in found
    return found


@pytest.mark.slow
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


@pytest.mark.slow
def test_up_waits_for_the_tables_also_where_it_knows_a_leader_sooner(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once(_: Layout, *, whole: bool) -> str:
        assert not whole
        return "n1"

    monkeypatch.setattr(lifecycle, "_until_led", at_once)
    call("up", "--store", "tables", "--base-port", str(five_free_ports()), "--spares", "0")
    serving(call)


@pytest.mark.slow
def test_up_says_which_tables_do_not_serve_and_stops_a_new_cluster(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_: Sequence[ClusterNode]) -> list[str]:
        return ["n2"]

    tables = ("up", "--store", "tables", "--spares", "0")
    with monkeypatch.context() as patched:
        patched.setattr(lifecycle, "_TABLES_S", 0.0)
        patched.setattr(lifecycle, "without_tables", never)
        with pytest.raises(NodeStartError, match=r"the tables of n2 do not serve after 0 s.*\*\.log"):
            call(*tables, "--base-port", str(five_free_ports()))
        assert not Path("metadata-cluster/cluster.json").exists()
    call(*tables, "--base-port", str(five_free_ports()))
    call("down")
    monkeypatch.setattr(lifecycle, "_TABLES_S", 0.0)
    monkeypatch.setattr(lifecycle, "without_tables", never)
    said = call("up")
    assert "the tables of n2 do not serve" in said.stderr
    assert len(said.stdout.splitlines()) == 3, "an operator can look into a cluster that was up before"


@pytest.mark.slow
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

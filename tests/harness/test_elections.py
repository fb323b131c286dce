"""What a system promises about its elections, in a test with settings."""

from __future__ import annotations

import pytest

from splitbrain.harness.contract.elections import Elections
from splitbrain.harness.contract.settings import chosen
from splitbrain.harness.systems.metadata import Metadata
from splitbrain.results.telemetry import CONSENSUS_CHECKERS


@pytest.mark.parametrize(
    ("setting", "settings", "lease_s"),
    [
        ("", {}, 0.6),
        ("lease-reads", {}, 0.0),
        ("lease-reads", {"lease-reads": 0}, 0.0),
        ("lease-reads", {"lease-reads": 1}, 0.6),
        ("lease-reads", {"snapshot-interval": 16}, 0.0),
    ],
)
def test_a_lease_counts_where_the_nodes_have_one(setting: str, settings: dict[str, int], lease_s: float) -> None:
    elections = Elections(timeout_s=1.2, lease_s=0.6, lease_setting=setting)
    assert elections.lease_in_force_s(settings) == lease_s


@pytest.mark.parametrize(
    ("group", "needs", "groups"),
    [
        ("metadata", {"key-value"}, ("metadata",)),
        ("metadata", {"queues"}, ("queue.*",)),
        ("metadata", {"key-value", "queues"}, ("metadata", "queue.*")),
        ("metadata", set[str](), ("metadata",)),
        ("", {"key-value"}, ()),
        ("", {"queues"}, ("queue.*",)),
        ("", {"key-value", "queues"}, ()),
    ],
)
def test_a_workload_is_answered_by_the_groups_of_its_operations(
    group: str, needs: set[str], groups: tuple[str, ...]
) -> None:
    elections = Elections(timeout_s=1.2, group=group, own_groups={"queues": "queue.*"})
    assert elections.groups_for(needs) == groups


@pytest.mark.parametrize(
    ("settings", "factor"),
    [
        ({}, 1.0),
        ({"tick": 500, "limit": 4}, 1.0),
        ({"tick": 2000}, 4.0),
        ({"tick": 2000, "limit": 10}, 10.0),
        ({"tick": 100}, 1.0),
        ({"tick": 100, "limit": 8}, 2.0),
        ({"other": 9}, 1.0),
    ],
)
@pytest.mark.parametrize("recovery_s", [None, 15.0])
def test_times_grow_with_the_settings_that_make_them(
    settings: dict[str, int], factor: float, recovery_s: float | None
) -> None:
    elections = Elections(timeout_s=3.0, recovery_s=recovery_s, lease_s=2.0, scaled_by={"tick": 500, "limit": 4})
    found = elections.under(settings)
    assert (found.timeout_s, found.lease_s) == (3.0 * factor, 2.0 * factor)
    assert found.bound_s == elections.bound_s * factor


def test_ops_that_nodes_answer_alone_may_depend_on_a_setting() -> None:
    elections = Elections(timeout_s=1.2, local=frozenset({"look-up"}), local_where=(("store", 1, frozenset({"bind"})),))
    assert elections.under({}).local == elections.under({"store": 0}).local == frozenset({"look-up"})
    assert elections.under({"store": 1}).local == frozenset({"look-up", "bind"})


def test_the_metadata_cluster_is_judged_by_a_strategy_where_entities_are_asked_to_be_in_tables() -> None:
    known = Metadata().capabilities
    assert known.telemetry_checkers is not None
    assert known.elections is not None
    tables = chosen("store=tables,partition-strategy=autoheal", known.settings, "metadata")
    with_cuts = known.telemetry_checkers(tables, frozenset({"cut"}))
    assert with_cuts == (*CONSENSUS_CHECKERS, "strategy-down", "strategy-autoheal")
    assert known.telemetry_checkers(tables, frozenset({"kill"})) == CONSENSUS_CHECKERS
    assert known.telemetry_checkers({}, frozenset({"cut"})) == CONSENSUS_CHECKERS
    assert "bind" in known.elections.under(tables).local
    assert "bind" not in known.elections.under({}).local

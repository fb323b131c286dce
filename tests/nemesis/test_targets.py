"""Node specs: how many, who, and who leads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.harness.contract.nodes import NodeView
from splitbrain.nemesis.grudges import majority
from splitbrain.nemesis.targets import SPECS, choose, fewest, leader, primaries, views
from splitbrain.results.errors import UnknownNameError
from tests.nemesis.support import FIVE, Nodes, Roles, context, led_by, run

NODES = tuple(f"n{i}" for i in range(1, 12))


def view(node: str, role: str, term: int, boss: str | None = None) -> NodeView:
    return NodeView(node=node, role=role, term=term, leader=boss)


@given(order=st.integers(1, 11).flatmap(lambda count: st.permutations(NODES[:count])))
def test_specs_by_number_take_the_first_nodes_of_the_order(order: list[str]) -> None:
    count = len(order)
    sizes = {
        "one": 1,
        "minority": count - majority(count),
        "majority": majority(count),
        "minority-third": (count - 1) // 3,
        "all": count,
    }
    for spec, size in sizes.items():
        assert choose(spec, order, []) == order[:size], spec


@pytest.mark.parametrize("spec", SPECS)
def test_a_spec_means_somebody_from_its_fewest_nodes_on_and_nobody_below(spec: str) -> None:
    seen = [view("n1", "leader", 3, "n1")]
    assert choose(spec, list(NODES[: fewest(spec)]), seen)
    if fewest(spec) > 1:
        assert choose(spec, list(NODES[: fewest(spec) - 1]), seen) == []


def test_of_five_nodes_two_are_a_minority_three_a_majority_and_one_less_than_a_third() -> None:
    assert [len(choose(spec, FIVE, [])) for spec in ("minority", "majority", "minority-third")] == [2, 3, 1]


def test_the_leader_of_the_highest_term_is_the_leader() -> None:
    seen = [view("n1", "leader", 3, "n1"), view("n2", "leader", 5, "n2"), view("n3", "follower", 6, "n1")]
    assert leader(seen) == "n2"
    assert choose("leader", ["n3", "n2", "n1"], seen) == ["n2"]


def test_a_leader_that_does_not_answer_is_known_by_its_followers_of_the_highest_term() -> None:
    seen = [view("n1", "follower", 3, "n4"), view("n2", "follower", 5, "n5"), view("n3", "candidate", 6)]
    assert leader(seen) == "n5"


def test_nobody_leads_where_nobody_says_so_and_then_the_order_decides() -> None:
    seen = [view("n1", "candidate", 3), view("n2", "follower", 3)]
    assert leader(seen) is None
    assert choose("leader", ["n2", "n1"], seen) == ["n2"]
    assert choose("primaries", ["n2", "n1"], seen) == ["n2"]


def test_the_leader_of_a_queue_is_by_the_order_one_that_says_so_of_itself_before_one_of_whom_others_do() -> None:
    seen = [
        NodeView("n1", "leader", 3, "n1", queue_leaders=("n1", "n2")),
        NodeView("n2", "follower", 3, "n1", queue_leaders=("n2", "n4")),
    ]
    assert choose("queue-leader", ["n4", "n3", "n2", "n1"], seen) == ["n2"]
    assert choose("queue-leader", ["n1", "n2", "n3", "n4"], seen) == ["n1"]
    others = [NodeView("n1", "leader", 3, "n1", queue_leaders=("n4", "n3"))]
    assert choose("queue-leader", ["n2", "n4", "n3", "n1"], others) == ["n4"]


def test_the_leader_of_the_store_is_whom_most_nodes_take_for_it() -> None:
    named = {"n1": "n3", "n2": "n2", "n4": "n2"}
    seen = [NodeView(node, "follower", 3, "n1", store_leader=boss) for node, boss in named.items()]
    assert choose("store-leader", FIVE, seen) == ["n2"]


@pytest.mark.parametrize("role", ["queue-leader", "store-leader"])
def test_a_system_that_has_one_leader_for_all_has_it_for_each_role(role: str) -> None:
    assert choose(role, ["n2", "n1"], [view("n1", "leader", 3, "n1")]) == ["n1"]
    assert choose(role, ["n2", "n1"], []) == ["n2"]


def test_primaries_are_all_that_take_themselves_for_the_leader_in_the_order_given() -> None:
    seen = [view("n1", "leader", 3), view("n2", "follower", 5), view("n3", "leader", 5)]
    assert primaries(seen) == ["n1", "n3"]
    assert choose("primaries", ["n3", "n2", "n1"], seen) == ["n3", "n1"]


@given(order=st.permutations(FIVE), boss=st.sampled_from(FIVE))
def test_a_follower_is_never_the_leader(order: list[str], boss: str) -> None:
    (chosen,) = choose("follower", order, [view(boss, "leader", 2, boss)])
    assert chosen != boss


def test_every_spec_picks_somebody() -> None:
    assert all(choose(spec, FIVE, [view("n1", "leader", 1, "n1")]) for spec in SPECS)


def test_an_unknown_spec_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"'minorty'\. Did you mean 'minority'"):
        choose("minorty", FIVE, [])


def test_only_nodes_that_answer_are_heard() -> None:
    system = led_by("n2")
    del system.roles["n4"]
    nodes = Nodes()
    nodes.states["n5"] = "stopped"
    assert [found.node for found in run(views(context(nodes, system)))] == ["n1", "n2", "n3"]
    assert run(views(context(nodes, Roles()))) == []

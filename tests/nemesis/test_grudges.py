"""What each topology promises, for any number of nodes in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.harness.contract.nodes import Link, NodeId
from splitbrain.nemesis import grudges
from splitbrain.nemesis.grudges import Grudge, majority

NODES = tuple(f"n{i}" for i in range(1, 16))


def orders(low: int = 2, high: int = 15) -> st.SearchStrategy[list[NodeId]]:
    return st.integers(low, high).flatmap(lambda count: st.permutations(NODES[:count]))


FIVE = st.permutations(NODES[:5])


def sees(grudge: Grudge, node: NodeId, order: Sequence[NodeId]) -> frozenset[NodeId]:
    """The nodes linked with `node` both ways, itself included."""
    return frozenset(other for other in order if other == node or {(node, other), (other, node)}.isdisjoint(grudge.cut))


def components(grudge: Grudge, order: Sequence[NodeId]) -> list[frozenset[NodeId]]:
    """Nodes that reach each other over any number of open links."""
    found: list[frozenset[NodeId]] = []
    left = list(order)
    while left:
        reached, new = {left[0]}, {left[0]}
        while new:
            new = {other for node in new for other in sees(grudge, node, order)} - reached
            reached |= new
        found.append(frozenset(reached))
        left = [node for node in left if node not in reached]
    return found


def symmetric(cut: frozenset[Link]) -> bool:
    return all((b, a) in cut for a, b in cut)


SHAPES: dict[str, Callable[[Sequence[NodeId]], Grudge]] = {
    "halves": grudges.halves,
    "isolate_one": grudges.isolate_one,
    "isolate_leader": lambda order: grudges.isolate(order, order[-1]),
    "in_minority": lambda order: grudges.in_minority(order, order[-1]),
    "thirds": grudges.thirds,
    "bridge": grudges.bridge,
    "majorities_ring": grudges.majorities_ring,
    "mute": lambda order: grudges.mute(order, order[0]),
    "deaf": lambda order: grudges.deaf(order, order[0]),
    "one_way_halves": grudges.one_way_halves,
}


@pytest.mark.parametrize("shape", SHAPES)
@given(order=orders(low=3))
def test_every_shape_cuts_something_and_only_links_between_different_nodes_of_the_test(
    shape: str, order: list[NodeId]
) -> None:
    cut = SHAPES[shape](order).cut
    assert cut or (shape == "majorities_ring" and len(order) < 3)
    assert cut <= set(grudges.all_links(order))


@pytest.mark.parametrize("shape", [name for name in SHAPES if name not in ("mute", "deaf", "one_way_halves")])
@given(order=orders())
def test_every_shape_that_is_not_called_one_way_cuts_both_ways(shape: str, order: list[NodeId]) -> None:
    assert symmetric(SHAPES[shape](order).cut)


@given(order=orders())
def test_halves_are_two_components_that_differ_by_one_node_at_most(order: list[NodeId]) -> None:
    small, large = sorted(map(len, components(grudges.halves(order), order)))
    assert small + large == len(order)
    assert large - small <= 1


@given(order=orders())
def test_isolating_one_node_leaves_it_alone_and_the_rest_whole(order: list[NodeId]) -> None:
    grudge = grudges.isolate(order, order[1])
    assert sees(grudge, order[1], order) == {order[1]}
    assert {sees(grudge, node, order) for node in order if node != order[1]} == {frozenset(order) - {order[1]}}


@given(order=orders(low=3))
def test_the_minority_of_the_leader_holds_it_is_no_majority_and_is_the_largest_such(order: list[NodeId]) -> None:
    boss = order[2]
    side = sees(grudges.in_minority(order, boss), boss, order)
    assert boss in side
    assert len(side) == len(order) - majority(len(order))


@given(order=orders(low=3))
def test_of_thirds_no_component_has_a_majority(order: list[NodeId]) -> None:
    parts = components(grudges.thirds(order), order)
    assert len(parts) == 3
    assert all(len(part) < majority(len(order)) for part in parts)


@given(order=FIVE)
def test_thirds_of_five_nodes_are_2_2_1(order: list[NodeId]) -> None:
    grudge = grudges.thirds(order)
    assert sorted(map(len, components(grudge, order))) == [1, 2, 2]
    assert {(a, b) for a in order for b in order if a != b and b in sees(grudge, a, order)} == set(
        grudges.all_links(order)
    ) - grudge.cut


@given(order=orders(low=3))
def test_of_a_bridge_one_node_reaches_all_and_the_sides_reach_each_other_only_through_it(order: list[NodeId]) -> None:
    grudge = grudges.bridge(order)
    hubs = [node for node in order if sees(grudge, node, order) == frozenset(order)]
    assert hubs == [order[0]]
    others = {sees(grudge, node, order) for node in order if node != order[0]}
    assert len(others) == 2
    left, right = others
    assert left & right == {order[0]}
    assert left | right == set(order)
    assert abs(len(left) - len(right)) <= 1


@given(order=FIVE)
def test_of_a_bridge_over_five_nodes_every_node_reaches_a_majority(order: list[NodeId]) -> None:
    grudge = grudges.bridge(order)
    assert all(len(sees(grudge, node, order)) >= 3 for node in order)


@given(order=FIVE)
def test_on_a_ring_of_five_every_node_is_linked_with_exactly_its_two_neighbours(order: list[NodeId]) -> None:
    grudge = grudges.majorities_ring(order)
    for i, node in enumerate(order):
        assert sees(grudge, node, order) == {order[i - 1], node, order[(i + 1) % 5]}
    assert len(grudge.cut) == 10


@given(order=orders(low=3))
def test_on_a_ring_every_node_sees_a_majority_no_two_the_same_and_no_more_than_parity_demands(
    order: list[NodeId],
) -> None:
    grudge = grudges.majorities_ring(order)
    seen = [sees(grudge, node, order) for node in order]
    assert len(frozenset(seen)) == len(order)
    least = majority(len(order))
    sizes = sorted(map(len, seen))
    assert sizes[:-1] == [least] * (len(order) - 1)
    assert sizes[-1] == least + (len(order) % 2 and (least - 1) % 2)


@given(order=orders(), data=st.data())
def test_a_mute_node_hears_everybody_and_a_deaf_one_is_heard_by_everybody(
    order: list[NodeId], data: st.DataObject
) -> None:
    node = data.draw(st.sampled_from(order))
    others = [other for other in order if other != node]
    assert grudges.mute(order, node).cut == {(node, other) for other in others}
    assert grudges.deaf(order, node).cut == {(other, node) for other in others}


@given(order=orders())
def test_one_way_halves_leave_the_reverse_direction_open(order: list[NodeId]) -> None:
    cut = grudges.one_way_halves(order).cut
    assert cut
    assert all((b, a) not in cut for a, b in cut)
    deaf = {destination for _, destination in cut}
    assert len(deaf) == len(order) // 2
    assert {source for source, _ in cut} == set(order) - deaf


def test_the_words_for_a_topology_name_its_sides() -> None:
    order = ["n3", "n1", "n5", "n2", "n4"]
    assert grudges.isolate(order, "n4").target == "n4 | n1 n2 n3 n5"
    assert grudges.halves(order).target == "n1 n3 | n2 n4 n5"
    assert grudges.thirds(order).target == "n2 n3 | n1 n4 | n5"
    assert grudges.bridge(order).target == "n1 n5 | n3 (linked with all) | n2 n4"
    assert grudges.mute(order, "n4").target == "n4 mute: nobody hears it"
    assert grudges.deaf(order, "n4").target == "n4 deaf: it hears nobody"

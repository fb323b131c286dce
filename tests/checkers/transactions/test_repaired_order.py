"""An order of transactions is repaired where new edges lead back, and derived edges are found again as they grow."""

from __future__ import annotations

import random

import numpy as np
import pytest

from splitbrain.checkers.transactions.derived_edges import Columns, DerivedEdges, Premise, put_edge
from splitbrain.checkers.transactions.graph import KINDS, RW, WW, Bools, Edges
from splitbrain.checkers.transactions.ways import Order, Ways

Pairs = list[tuple[int, int]]

ONLY_WW: Bools = np.arange(KINDS) == WW


def edges_of(pairs: Pairs, kind: int = WW) -> Edges:
    source, target = np.array(pairs, np.int32).reshape(-1, 2).T
    return Edges(source.copy(), target.copy(), np.full(len(pairs), kind, np.uint8))


def acyclic(rng: random.Random, nodes: int, count: int) -> Pairs:
    """Edges along a hidden order, which has little to do with the numbers of the nodes."""
    hidden = rng.sample(range(nodes), nodes)
    near = [(at, min(nodes - 1, at + rng.randint(1, 4))) for at in (rng.randrange(nodes - 1) for _ in range(count))]
    return [(hidden[one], hidden[other]) for one, other in near]


def leads_forward(order: Order, pairs: Pairs) -> bool:
    assert sorted(order.order.tolist()) == list(range(len(order.order)))
    assert (order.place[order.order] == np.arange(len(order.order))).all()
    return all(order.place[one] < order.place[other] for one, other in pairs)


def pairs_in(ways: Ways) -> Pairs:
    targets = np.repeat(np.arange(len(ways.order)), np.diff(ways.start))
    return list(zip(ways.source.tolist(), targets.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(30))
def test_no_edge_leads_back_as_edges_are_added(seed: int) -> None:
    rng = random.Random(seed)
    nodes = rng.randint(5, 60)
    pairs = acyclic(rng, nodes, 3 * nodes)
    cuts = sorted(rng.sample(range(len(pairs)), 4))
    order = Order(nodes)
    ways = order.ways([edges_of(pairs[: cuts[0]])], ONLY_WW)
    for begin, end in zip(cuts, [*cuts[1:], len(pairs)], strict=True):
        assert ways is not None
        ways = order.with_edges(ways, edges_of(pairs[begin:end]))
        assert ways is not None
        assert leads_forward(order, pairs[:end])
        assert sorted(pairs_in(ways)) == sorted(pairs[:end])


@pytest.mark.parametrize("seed", range(30))
def test_a_cycle_is_found_whenever_it_is_closed(seed: int) -> None:
    rng = random.Random(seed)
    nodes = rng.randint(5, 40)
    pairs = acyclic(rng, nodes, 2 * nodes)
    ring = rng.sample(range(nodes), rng.randint(2, 5))
    closing = list(zip(ring, [*ring[1:], ring[0]], strict=True))
    order = Order(nodes)
    assert order.ways([edges_of(pairs), edges_of(closing)], ONLY_WW) is None
    ways = order.ways([edges_of(pairs)], ONLY_WW)
    assert ways is not None
    assert leads_forward(order, pairs)
    assert order.with_edges(ways, edges_of(closing)) is None
    assert order.ways([edges_of(pairs)], ONLY_WW) is not None
    assert leads_forward(order, pairs)


def test_an_edge_from_a_node_to_itself_is_a_cycle() -> None:
    assert Order(3).ways([edges_of([(1, 1)])], ONLY_WW) is None


def test_edges_of_other_kinds_are_no_ways() -> None:
    order = Order(3)
    ways = order.ways([edges_of([(0, 1)]), edges_of([(1, 0), (2, 1)], RW)], ONLY_WW)
    assert ways is not None
    assert pairs_in(ways) == [(0, 1)]


def test_a_repair_looks_only_at_what_is_between_the_ends() -> None:
    pairs = [(each, each + 1) for each in range(0, 999, 2)]
    order = Order(1000)
    ways = order.ways([edges_of(pairs)], ONLY_WW)
    assert ways is not None
    assert order.moved == 0
    assert order.with_edges(ways, edges_of([(505, 500), (903, 900)])) is not None
    assert leads_forward(order, [*pairs, (505, 500), (903, 900)])
    assert order.moved < 30
    assert order.order[:500].tolist() == list(range(500))


def put(found: DerivedEdges, columns: Columns, edge: tuple[int, int, int], same: list[int], number: int) -> None:
    table = np.isin(np.arange(KINDS), same)
    found.count = int(put_edge(columns, found.count, *edge, table, number, number, number, number, number))


def test_every_edge_is_found_again_after_more_room_was_made() -> None:
    rng = random.Random(5)
    found, first = DerivedEdges(), dict[tuple[int, int, int], int]()
    for number in range(3000):
        edge = (rng.randrange(40), rng.randrange(40), rng.choice([16, 20]))
        found.make_room(1)
        put(found, found.columns, edge, [edge[2]], number)
        first.setdefault(edge, number)
    assert found.count == len(first)
    assert {edge: found.premise(*edge) for edge in first} == {
        edge: Premise(*[each] * 5) for edge, each in first.items()
    }
    assert found.premise(41, 0, 16) is None
    assert found.since(found.count - 2).source.tolist() == [edge[0] for edge in list(first)[-2:]]


def test_an_edge_that_says_as_much_by_less_is_not_added_again() -> None:
    found = DerivedEdges()
    put(found, found.columns, (1, 2, 20), [20], 0)
    put(found, found.columns, (1, 2, 26), [20, 26], 1)
    assert found.count == 1
    put(found, found.columns, (1, 2, 23), [17, 23], 2)
    assert found.count == 2

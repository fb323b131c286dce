"""Components, the ladder and the search, against all simple cycles of small random graphs."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from splitbrain.checkers.transactions import models
from splitbrain.checkers.transactions.anomalies import TAGS, TYPES, classify
from splitbrain.checkers.transactions.components import TRIVIAL, components, core_of, cyclic_nodes
from splitbrain.checkers.transactions.cycles import cycles_of
from splitbrain.checkers.transactions.graph import (
    KINDS,
    LINK,
    NO_G_SINGLE,
    PROCESS,
    REALTIME,
    RW,
    RWP,
    WR,
    WW,
    Edges,
    derived,
    graph_of,
    parts,
)
from splitbrain.checkers.transactions.search import shortest_cycle

Edge = tuple[int, int, int]


def random_edges(rng: random.Random, nodes: int, tag: int) -> list[Edge]:
    """Edges of data anywhere, and of order from lower to higher nodes only: that one has no cycles."""
    kinds = [WW, WR, RW, RW, RWP] if rng.random() < 0.3 else [WW, WR, RW, RW]
    rows: list[Edge] = []
    for _ in range(rng.randint(nodes, 2 * nodes + 2)):
        one, other = rng.sample(range(nodes), 2)
        rows.append((one, other, rng.choice(kinds)))
    for _ in range(rng.randint(0, nodes) if tag else 0):
        one, other = sorted(rng.sample(range(nodes), 2))
        rows.append((one, other, (PROCESS, REALTIME)[tag - 1]))
    return rows


def edges_of(rows: list[Edge]) -> Edges:
    columns = np.array(rows, np.int64).reshape(-1, 3)
    return Edges(columns[:, 0].astype(np.int32), columns[:, 1].astype(np.int32), columns[:, 2].astype(np.uint8))


def simple_cycles(rows: list[Edge], nodes: int) -> Iterator[list[int]]:
    """The kinds of every simple cycle, once for each choice among parallel edges."""

    def walk(start: int, path: list[int], kinds: list[int]) -> Iterator[list[int]]:
        for one, other, kind in rows:
            if one != path[-1]:
                continue
            if other == start:
                yield [*kinds, kind]
            elif other > start and other not in path:
                yield from walk(start, [*path, other], [*kinds, kind])

    for start in range(nodes):
        yield from walk(start, [start], [])


def of_order_alone(kinds: list[int]) -> bool:
    return all(kind in (PROCESS, REALTIME) for kind in kinds)


@pytest.mark.parametrize("tag", [0, 1, 2])
def test_a_named_cycle_is_a_shortest_one_of_its_type_and_no_type_of_one_rw_is_missed(tag: int) -> None:
    found_types = dict[str, int]()
    for seed in range(150):
        rng = random.Random(f"{tag} {seed}")
        nodes = rng.randint(2, 6)
        rows = random_edges(rng, nodes, tag)
        shortest = dict[str, int]()
        for kinds in simple_cycles(rows, nodes):
            name = classify(kinds)
            shortest[name] = min(shortest.get(name, 99), len(kinds))
        graph = graph_of(nodes, nodes, [edges_of(rows)])
        for type_ in TYPES:
            if type_.tag not in (0, tag):
                continue
            cycle = shortest_cycle(graph, type_)
            if cycle is None:
                assert type_.name not in shortest or type_.rw in ("nonadjacent", "adjacent") or type_.tag
                continue
            assert len(set(cycle.transactions)) == len(cycle.transactions)
            assert classify(list(cycle.kinds)) == type_.name
            assert len(cycle.kinds) == shortest[type_.name]
            found_types[type_.name] = found_types.get(type_.name, 0) + 1
    items = ("G0", "G1c", "G-single-item", "G-nonadjacent-item", "G2-item")
    assert {f"{each}{TAGS[tag]}" for each in items} <= found_types.keys()


def test_components_are_what_reaches_each_other() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        nodes = rng.randint(2, 9)
        rows = random_edges(rng, nodes, 0)
        reach = {(one, other) for one, other, _ in rows}
        for middle in range(nodes):
            reach |= {(a, d) for a, b in reach if b == middle for c, d in reach if c == middle}
        graph = graph_of(nodes, nodes, [edges_of(rows)])
        left = cyclic_nodes(graph)
        component = components(graph, np.ones(KINDS, np.bool_), left)
        for one in range(nodes):
            assert (component[one] != TRIVIAL) == ((one, one) in reach)
            for other in range(nodes):
                together = (one, other) in reach and (other, one) in reach
                assert together == (component[one] == component[other] != TRIVIAL)
        core, names = core_of(graph, component)
        inside = {(a, b, k) for a, b, k in rows if component[a] == component[b] != TRIVIAL}
        source = np.repeat(np.arange(core.nodes), np.diff(core.start))
        edges = zip(names[source].tolist(), names[core.target].tolist(), core.kind.tolist(), strict=True)
        assert set(edges) == inside


def test_the_ladder_rules_out_what_closed_walks_of_its_kinds_do() -> None:
    """A closed walk is a union of simple cycles, but for snapshot isolation, whose walks are of composed edges."""
    for seed in range(300):
        rng = random.Random(f"ladder {seed}")
        nodes = rng.randint(2, 6)
        rows = [row for row in random_edges(rng, nodes, 0) if row[2] != RWP]
        names = {classify(kinds) for kinds in simple_cycles(rows, nodes)}
        found = cycles_of(nodes, nodes, [edges_of(rows)], 0)
        impossible = models.impossible([f"{each}{models.EXISTS}" for each in found.ruled_out])
        assert ("read-uncommitted" in impossible) == ("G0" in names)
        assert ("read-committed" in impossible) == bool(names & {"G0", "G1c"})
        assert ("serializable" in impossible) == bool(names)
        base = {(one, other) for one, other, kind in rows if kind != RW}
        step = base | {(a, d) for a, b in base for c, d, kind in rows if b == c and kind == RW}
        for middle in range(nodes):
            step |= {(a, d) for a, b in step if b == middle for c, d in step if c == middle}
        assert ("snapshot-isolation" in impossible) == any(a == b for a, b in step)


def test_joints_cost_nothing_and_are_left_out_of_cycles() -> None:
    rows = [(0, 3, RW), (3, 4, LINK), (4, 1, LINK), (1, 2, WW), (2, 0, WR)]
    found = cycles_of(3, 5, [edges_of(rows)], 0)
    assert found.named["G-single-item"].kinds in ((RW, WW, WR), (WW, WR, RW), (WR, RW, WW))
    assert found.core == 3


def test_a_cycle_of_derived_edges_is_named_by_what_they_rest_on() -> None:
    rests = derived(WW, NO_G_SINGLE, 0)
    assert parts(rests) == (WW, NO_G_SINGLE, 0)
    found = cycles_of(2, 2, [edges_of([(0, 1, rests), (1, 0, WW)])], 0)
    assert list(found.named) == ["G-single-item"]
    assert found.ruled_out == ("snapshot-isolation", "repeatable-read")


def test_names_of_cycles_follow_their_definitions() -> None:
    assert classify([WW, WW]) == "G0"
    assert classify([WW, WR, PROCESS]) == "G1c-process"
    assert classify([RW, WW, WR]) == "G-single-item"
    assert classify([RWP, WW]) == "G-single"
    assert classify([RW, WW, RW, WR]) == "G-nonadjacent-item"
    assert classify([RW, WW, RW]) == "G2-item"
    assert classify([RW, RWP, REALTIME]) == "G2-realtime"
    with pytest.raises(ValueError, match="order alone"):
        classify([PROCESS, PROCESS])

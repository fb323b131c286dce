"""Shortest cycles and paths of weak levels, against a search in which every way within a session is an edge."""

from __future__ import annotations

import random
from itertools import pairwise, product

import numpy as np
import pytest

from splitbrain.checkers.transactions.graph import PROCESS, WR, WW, Edges, Graph, graph_of
from splitbrain.checkers.transactions.weak import paths
from splitbrain.checkers.transactions.weak.paths import Way, shortest_cycle, shortest_path

Steps = list[tuple[int, int, int]]
"""From where, where to, and of which kind."""


def graph_from(edges: Steps, nodes: int) -> Graph:
    columns = np.array(edges or np.zeros((0, 3)), np.int32)
    found = Edges(columns[:, 0].copy(), columns[:, 1].copy(), columns[:, 2].astype(np.uint8))
    return graph_of(nodes, nodes, [found])


def drawn(rng: random.Random) -> tuple[Graph, Steps]:
    """Sessions of a few nodes each, one after the other, and some edges across."""
    sizes = [rng.randint(1, 6) for _ in range(rng.randint(1, 5))]
    nodes, edges, first = sum(sizes), Steps(), 0
    for size in sizes:
        edges += [(node, node + 1, PROCESS) for node in range(first, first + size - 1)]
        first += size
    for _ in range(rng.randint(0, 2 * nodes)):
        one, other = rng.randrange(nodes), rng.randrange(nodes)
        if one != other:
            edges.append((one, other, rng.choice([WR, WW])))
    return graph_from(edges, nodes), edges


def distances(edges: Steps, nodes: int) -> list[list[float]]:
    """By pair of nodes the least number of steps, where a way along a session is one; by trying every node between."""
    far = float("inf")
    along = _closed(
        [[0.0 if one == other else far for other in range(nodes)] for one in range(nodes)], edges, (PROCESS,)
    )
    steps = [
        [0.0 if one == other else 1.0 if along[one][other] < far else far for other in range(nodes)]
        for one in range(nodes)
    ]
    return _closed(steps, edges, (WR, WW))


def _closed(known: list[list[float]], edges: Steps, kinds: tuple[int, ...]) -> list[list[float]]:
    for one, other, kind in edges:
        if kind in kinds:
            known[one][other] = min(known[one][other], 1.0)
    for between, one, other in product(range(len(known)), repeat=3):
        known[one][other] = min(known[one][other], known[one][between] + known[between][other])
    return known


def least_cycle(edges: Steps, nodes: int) -> float:
    least = distances(edges, nodes)
    return min((least[other][one] + 1 for one, other, kind in edges if kind != PROCESS), default=float("inf"))


def is_way(way: Way, edges: Steps, nodes: int, *, closed: bool) -> bool:
    """Whether each step is one of the edges, or leads on within a session; and none can be joined with the next."""
    ends = [*way[0][1:], way[0][0]] if closed else way[0][1:]
    far = float("inf")
    along = _closed([[far] * nodes for _ in range(nodes)], edges, (PROCESS,))
    for one, other, kind in zip(way[0], ends, way[1], strict=False):
        if (along[one][other] == far) if kind == PROCESS else ((one, other, kind) not in edges):
            return False
    ring = [*way[1], way[1][0]] if closed else list(way[1])
    return len(way[1]) == len(ends) and (PROCESS, PROCESS) not in pairwise(ring)


def test_cycles_and_paths_are_shortest_on_random_graphs() -> None:
    rng = random.Random(5)
    cycles = steps = 0
    for _ in range(400):
        graph, edges = drawn(rng)
        least, cycle = distances(edges, graph.nodes), least_cycle(edges, graph.nodes)
        if cycle < float("inf"):
            found = shortest_cycle(graph)
            assert is_way(found, edges, graph.nodes, closed=True), (found, edges)
            assert len(found[0]) == cycle, (found, edges)
            cycles += 1
        begin, end = rng.randrange(graph.nodes), rng.randrange(graph.nodes)
        if begin != end and least[begin][end] < float("inf"):
            path = shortest_path(graph, begin, end)
            assert (path[0][0], path[0][-1]) == (begin, end)
            assert is_way(path, edges, graph.nodes, closed=False), (path, edges)
            assert len(path[1]) == least[begin][end], (path, edges)
            steps += len(path[1]) > 2
    assert cycles > 200
    assert steps > 50


def test_a_cycle_is_found_where_looks_do_not_suffice_for_all_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "LOOKS", 1)
    rng, found = random.Random(6), 0
    for _ in range(100):
        graph, edges = drawn(rng)
        if least_cycle(edges, graph.nodes) < float("inf"):
            assert is_way(shortest_cycle(graph), edges, graph.nodes, closed=True)
            found += 1
    assert found > 20


def test_steps_of_one_session_are_one() -> None:
    """Along the session it is two steps from 0 to 5; along edges across it would be three."""
    across = [(0, 6, WR), (6, 7, WR), (7, 5, WR), (5, 0, WW)]
    edges = [*((node, node + 1, PROCESS) for node in range(5)), *across]
    graph = graph_from(edges, 8)
    assert shortest_cycle(graph) == ((5, 0), (WW, PROCESS))
    assert shortest_path(graph, 0, 5) == ((0, 5), (PROCESS,))

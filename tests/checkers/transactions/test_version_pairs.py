"""Which versions of a key come before which: as by sets of all that is reached, in steps that grow like the history."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest

from splitbrain.checkers.transactions import reach
from splitbrain.checkers.transactions.graph import Edges, graph_of
from splitbrain.checkers.transactions.open_keys import Key, keys_of
from splitbrain.checkers.transactions.reach import find_pairs, room_for, with_more
from splitbrain.checkers.transactions.ways import Ways
from tests.checkers.transactions.shapes import SHAPES, table_of

Order = set[tuple[int, int]]


@dataclass(frozen=True)
class Pairs:
    """What was found: pairs of versions, if there was room; whether the whole order is known; and in how many steps."""

    pairs: Order
    distinct: bool
    steps: int
    complete: bool


def found_in(nodes: int, edges: list[tuple[int, int]], writers: list[int], readers: list[list[int]]) -> Pairs:
    """The pairs of a key in a graph whose edges lead to higher numbers. Micro-operations are those of another key."""
    source, target = np.array(edges, np.int32).reshape(-1, 2).T
    backward = graph_of(nodes, nodes, [Edges(target.copy(), source.copy(), np.zeros(len(edges), np.uint8))])
    key = Key(0, [(each, each) for each in writers], [[(each, each) for each in some] for some in readers])
    keys = keys_of([Key(7, [(0, 0)], [[(1, 1)]]), key])
    order = np.arange(nodes, dtype=np.int32)
    ways = Ways(order, order, backward.start, backward.target)
    first, last = min(writers), max(*writers, *(each for some in readers for each in some))
    room, said = room_for(keys, last - first + 1), np.zeros(4, np.int64)
    while (count := find_pairs(keys, 1, ways, first, last, room, reach.ROOM, said)) < reach.TOO_WIDE:
        room = with_more(room, count, int(said[reach.NEED]))
    pairs = {(int(room.earlier[each]) - 1, int(room.later[each]) - 1) for each in range(count)}
    distinct, steps = bool(said[reach.DISTINCT]), int(said[reach.STEPS])
    return Pairs(pairs, distinct, steps, complete=count != reach.TOO_WIDE)


def made(nodes: int, edges: list[tuple[int, int]], writers: list[int], readers: list[list[int]]) -> tuple[Pairs, Order]:
    """The pairs of a key in a graph whose edges lead to higher numbers; and all pairs by search."""
    found = found_in(nodes, edges, writers, readers)
    before: list[set[int]] = [set() for _ in range(nodes)]
    for one, other in sorted(edges, key=lambda edge: edge[1]):
        before[other] |= before[one] | {one}
    every = {
        (earlier, later)
        for later, writer in enumerate(writers)
        for access in (writer, *readers[later])
        for earlier, other in enumerate(writers)
        if other in before[access] and earlier != later
    }
    return found, every


def closed(pairs: Order, versions: int) -> Order:
    """All that follows."""
    reached = np.zeros((versions, versions), np.bool_)
    for one, other in pairs:
        reached[one, other] = True
    for middle in range(versions):
        reached |= np.outer(reached[:, middle], reached[middle])
    return {(one, other) for one, other in zip(*map(list, np.nonzero(reached)), strict=True)}


@pytest.mark.parametrize("seed", range(60))
def test_pairs_say_all_that_sets_of_versions_say(seed: int) -> None:
    rng = random.Random(seed)
    nodes, versions = rng.randint(4, 30), rng.randint(2, 4)
    versions = min(versions + nodes // 4, nodes // 2)
    edges = [(one, other) for other in range(nodes) for one in range(other) if rng.random() < rng.choice([0.05, 0.2])]
    places = rng.sample(range(nodes), nodes)
    writers = places[:versions]
    readers: list[list[int]] = [[] for _ in range(versions)]
    for place in [*places[versions:], *rng.sample(writers, versions // 2)]:
        version = rng.randrange(versions)
        if place > writers[version]:
            readers[version].append(place)
    edges += [(writers[version], place) for version, each in enumerate(readers) for place in each]
    found, every = made(nodes, edges or [(0, nodes - 1)], writers, readers)
    assert found.complete
    assert found.pairs <= every
    assert closed(found.pairs, versions) == closed(every, versions)


def test_a_key_whose_versions_are_in_one_order_takes_steps_like_its_length() -> None:
    def chain(size: int) -> Pairs:
        found, _ = made(size, [(each, each + 1) for each in range(size - 1)], list(range(size)), [[]] * size)
        assert found.distinct
        assert len(found.pairs) == size - 1
        return found

    assert chain(400).steps <= 2.1 * chain(200).steps


def test_versions_after_which_nothing_comes_need_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "ROOM", 4 * 200)
    found, _ = made(200, [(each, each + 100) for each in range(100)], list(range(100)), [[n + 100] for n in range(100)])
    assert found.complete
    assert not found.pairs


def test_clocks_that_would_take_too_much_memory_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "ROOM", 100)
    edges = [(one, other) for one in range(20) for other in range(20, 40)]
    assert not made(40, edges, list(range(40)), [[]] * 40)[0].complete


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["hot key", "hot key, read"])
def test_a_key_with_thousands_of_blind_writes_is_judged_to_the_end(name: str) -> None:
    """With sets of versions this took the square of the writes in time and memory."""
    from splitbrain.checkers import engine
    from splitbrain.checkers.verdict import CheckerSpec

    shape = SHAPES[name]
    table = table_of(shape, 20_000)
    [verdict] = engine.judge(table, [CheckerSpec(shape.checker, {"consistency_models": [shape.model]})])
    assert verdict.valid == "true"
    assert [each.code.value for each in verdict.inconclusive] == ["not-exercised"]
    assert verdict.figures["open_keys"] == 0 or name != "hot key"

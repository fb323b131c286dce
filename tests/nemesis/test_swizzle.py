"""A swizzle cuts nodes off one after the other and lets them back in another order, every step measured."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.harness.contract.nodes import Link
from splitbrain.harness.contract.rng import Rng
from splitbrain.nemesis import swizzle
from splitbrain.nemesis.grudges import all_links
from splitbrain.nemesis.partition import Partition, PartitionRequest
from splitbrain.results.history import Op
from splitbrain.results.nemesisop import asked
from tests.nemesis.support import FIVE, Nodes, context, nemesis_op, run

REQUEST = {
    "fault": "partition",
    "action": "start",
    "shape": "swizzle",
    "nodes": ["n4", "n2", "n5"],
    "pauses_ms": [300, 70],
    "heal_nodes": ["n2", "n5", "n4"],
    "heal_pauses_ms": [50, 1000],
}


class Witness(Nodes):
    """Remembers every topology."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.topologies: list[set[Link]] = []

    async def cut(self, links: frozenset[Link]) -> None:
        before = dict(self.cut_links)
        await super().cut(links)
        for link in self.cut_links:
            self.cut_links[link] = before.get(link, 0)
        self.topologies.append(set(links))


def start(nemesis: Partition, world: Nodes, **request: Any) -> Op:
    return run(nemesis.invoke(context(world), nemesis_op("start-partition", **{**REQUEST, **request})))


def stop(nemesis: Partition, nodes: Nodes) -> Op:
    return run(nemesis.invoke(context(nodes), nemesis_op("stop-partition", fault="partition", action="stop")))


def gone(*nodes: str) -> set[Link]:
    return {link for link in all_links(FIVE) if link[0] in nodes or link[1] in nodes}


def test_nodes_go_one_after_the_other_and_come_back_in_the_other_order() -> None:
    nemesis, nodes = Partition(), Witness()
    done = start(nemesis, nodes)
    assert done.type == "ok", done.error
    assert nodes.topologies == [gone("n4"), gone("n4", "n2"), gone("n4", "n2", "n5")]
    assert {(a, b) for a, b in done.value["cut"]} == gone("n4", "n2", "n5")
    assert done.value["evidence"]["steps"] == [
        {"at_ms": 0.0, "node": "n4", "links_cut": 8},
        {"at_ms": 300.0, "node": "n2", "links_cut": 14},
        {"at_ms": 370.0, "node": "n5", "links_cut": 18},
    ]
    nodes.topologies.clear()
    nodes.cut_links["n2", "n1"] = 5
    nodes.cut_links["n4", "n1"] = 6
    done = stop(nemesis, nodes)
    assert done.type == "ok", done.error
    assert nodes.topologies[:3] == [gone("n5", "n4"), gone("n4"), set()]
    assert [(step["at_ms"], step["node"]) for step in done.value["evidence"]["steps"]] == [
        (0.0, "n2"),
        (50.0, "n5"),
        (1050.0, "n4"),
    ]
    assert done.value["evidence"]["dropped"] == 11, "also what was swallowed by links that were healed early"
    assert done.value["cut"] == []


def test_a_step_that_does_not_take_effect_makes_the_op_info() -> None:
    done = start(Partition(), Nodes(leaky={("n1", "n2")}))
    assert done.type == "info"
    assert "n1 -> n2 passes" in str(done.error)


def test_heal_and_other_partitions_do_not_wait_for_the_steps() -> None:
    nemesis, nodes = Partition(), Witness()
    start(nemesis, nodes)
    run(nemesis.heal(context(nodes)))
    assert nodes.cut_links == {}
    assert "steps" not in stop(nemesis, nodes).value["evidence"], "there is nothing left to undo in steps"
    start(nemesis, nodes)
    start(nemesis, nodes, shape="isolate-one", order=list(FIVE))
    assert "steps" not in stop(nemesis, nodes).value["evidence"]


@pytest.mark.parametrize(("request_", "words"), [({"nodes": ["n9"]}, "n9"), ({"nodes": []}, "no nodes")])
def test_a_swizzle_of_nobody_is_info(request_: dict[str, Any], words: str) -> None:
    done = start(Partition(), Nodes(), **request_)
    assert done.type == "info"
    assert words in str(done.error)
    bare = nemesis_op("start-partition", shape="swizzle")
    assert "a swizzle of no nodes" in str(run(Partition().invoke(context(Nodes()), bare)).error)


def test_a_shrunk_request_with_pauses_that_do_not_fit_is_carried_out_all_the_same() -> None:
    nemesis, nodes = Partition(), Witness()
    assert start(nemesis, nodes, nodes=["n4", "n2"], pauses_ms=[], heal_nodes=["n4"]).type == "ok"
    assert stop(nemesis, nodes).value["cut"] == []
    assert asyncio.run(nodes.dropped()) == {}


@given(count=st.integers(2, 9), seed=st.integers(0, 2**32))
def test_what_is_drawn_is_a_subset_in_two_orders_and_takes_two_seconds_at_most(count: int, seed: int) -> None:
    names = [f"n{i}" for i in range(1, count + 1)]
    request = swizzle.draw(names, Rng(seed))
    steps = asked(request, PartitionRequest).steps
    swizzle.check(steps, names)
    assert 2 <= len(steps.nodes) == len(set(steps.nodes))
    assert sorted(steps.nodes) == sorted(steps.heal_nodes)
    for pauses in (steps.pauses_ms, steps.heal_pauses_ms):
        assert len(pauses) == len(steps.nodes) - 1
        assert all(pause >= swizzle.PAUSE_MIN_MS for pause in pauses)
        assert sum(pauses) <= swizzle.LASTS_MS

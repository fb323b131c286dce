"""A partition is what was measured, not what was asked for."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.nemesis import grudges
from splitbrain.nemesis.partition import SHAPES, Partition
from splitbrain.results.errors import NemesisError
from splitbrain.results.history import Op
from tests.nemesis.support import FIVE, Nodes, Roles, context, led_by, nemesis_op, run

ORDER = ["n3", "n1", "n5", "n2", "n4"]
ISOLATED = {"fault": "partition", "action": "start", "shape": "isolate-one", "order": ORDER}


def start(nodes: Nodes, shape: str, system: Roles | None = None) -> Op:
    op = nemesis_op("start-partition", **{**ISOLATED, "shape": shape})
    return run(Partition().invoke(context(nodes, system), op))


def stop(nodes: Nodes) -> Op:
    op = nemesis_op("stop-partition", fault="partition", action="stop")
    return run(Partition().invoke(context(nodes), op))


def cut_of(op: Op) -> set[tuple[str, str]]:
    return {(source, destination) for source, destination in op.value["cut"]}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_takes_effect_and_says_which_links_are_cut(shape: str) -> None:
    nodes = Nodes()
    done = start(nodes, shape, led_by("n2"))
    assert done.type == "ok"
    assert cut_of(done) == set(nodes.cut_links) != set()
    assert all(nodes.reachable(a, b) is ((a, b) not in cut_of(done)) for a, b in grudges.all_links(FIVE))
    evidence = done.value["evidence"]
    assert evidence["links_blocked"] == len(nodes.cut_links)
    assert evidence["links_blocked"] + evidence["links_open"] == 20


@pytest.mark.parametrize("shape", [name for name, shape in SHAPES.items() if shape.role])
def test_shapes_about_the_leader_look_up_who_leads_when_they_strike(shape: str) -> None:
    for boss in FIVE:
        nodes = Nodes()
        done = start(nodes, shape, led_by(boss))
        assert done.value["evidence"]["leader"] == boss
        assert boss in {node for link in nodes.cut_links for node in link}
        company = [
            other
            for other in FIVE
            if other != boss and (boss, other) not in nodes.cut_links and (other, boss) not in nodes.cut_links
        ]
        assert len(company) + 1 < grudges.majority(5), "the leader still reaches a majority both ways"


def test_where_nobody_leads_the_order_decides_and_the_evidence_says_so() -> None:
    done = start(Nodes(), "isolate-leader", Roles())
    assert done.type == "ok"
    assert done.value["target"] == "n3 | n1 n2 n4 n5"
    assert done.value["evidence"]["leader"] is None


def test_the_completion_carries_the_request_the_target_and_what_is_in_force() -> None:
    nodes = Nodes()
    nodes.states.update(n4="stopped", n5="paused")
    done = start(nodes, "isolate-one")
    assert {name: done.value[name] for name in ISOLATED} == ISOLATED
    assert done.value["target"] == "n3 | n1 n2 n4 n5"
    assert done.value["cut"] == sorted(done.value["cut"])
    assert (done.value["down"], done.value["paused"]) == (["n4"], ["n5"])


def test_a_link_that_passes_although_it_was_cut_makes_the_op_info_and_is_named() -> None:
    done = start(Nodes(leaky={("n1", "n3")}), "isolate-one")
    assert done.type == "info"
    assert done.error is not None
    assert "n1 -> n3 passes" in done.error
    assert len(cut_of(done)) == 8, "what is in force is recorded all the same"


def test_a_link_that_is_blocked_although_it_was_not_cut_makes_the_op_info_and_is_named() -> None:
    done = start(Nodes(dead={("n1", "n2")}), "isolate-one")
    assert done.type == "info"
    assert "n1 -> n2 is blocked" in str(done.error)


@pytest.mark.parametrize(("lost", "expected"), [(1, "ok"), (2, "ok"), (3, "info")])
def test_a_lost_probe_is_measured_again_before_it_counts(lost: int, expected: str) -> None:
    done = start(Nodes(lost_probes={("n1", "n2"): lost}), "isolate-one")
    assert done.type == expected
    if expected == "ok":
        assert done.value["evidence"]["measurements"] == lost + 1


def test_healing_records_what_each_cut_link_swallowed_and_that_every_link_passes() -> None:
    nodes = Nodes()
    start(nodes, "isolate-one")
    nodes.cut_links["n1", "n3"] = 40
    nodes.cut_links["n3", "n2"] = 2
    done = stop(nodes)
    assert done.type == "ok"
    assert done.value["cut"] == []
    evidence = done.value["evidence"]
    assert evidence["dropped"] == 42
    assert ["n1", "n3", 40] in evidence["dropped_by_link"]
    assert len(evidence["dropped_by_link"]) == 8
    assert (evidence["links_blocked"], evidence["links_open"]) == (0, 20)


def test_a_link_that_stays_blocked_after_healing_makes_the_op_info() -> None:
    nodes = Nodes()
    start(nodes, "isolate-one")
    nodes.dead.add(("n3", "n4"))
    done = stop(nodes)
    assert done.type == "info"
    assert "n3 -> n4 is blocked" in str(done.error)


def test_a_new_topology_replaces_the_old_one() -> None:
    nodes = Nodes()
    start(nodes, "isolate-one")
    done = start(nodes, "one-way-deaf")
    assert cut_of(done) == {(other, "n3") for other in FIVE if other != "n3"}


@pytest.mark.parametrize(("shape", "nodes"), [("bridge", 2), ("majorities-ring", 2), ("halves", 1)])
def test_a_shape_that_would_cut_nothing_is_info_and_not_a_silent_success(shape: str, nodes: int) -> None:
    few = FIVE[:nodes]
    op = nemesis_op("start-partition", shape=shape, order=list(few))
    done = run(Partition().invoke(context(Nodes(few)), op))
    assert done.type == "info"
    assert "nodes, and there" in str(done.error)


def test_heal_opens_every_link_as_often_as_it_is_called_and_complains_if_it_cannot() -> None:
    nodes = Nodes()
    start(nodes, "bridge")
    run(Partition().heal(context(nodes)))
    run(Partition().heal(context(nodes)))
    assert nodes.cut_links == {}
    nodes.dead.add(("n1", "n2"))
    with pytest.raises(NemesisError, match="n1 -> n2 is blocked"):
        run(Partition().heal(context(nodes)))


def test_an_op_without_an_order_strikes_the_nodes_as_they_stand() -> None:
    request: dict[str, Any] = {"shape": "isolate-one"}
    done = run(Partition().invoke(context(Nodes()), nemesis_op("start-partition", **request)))
    assert done.value["target"] == "n1 | n2 n3 n4 n5"


# --- partitions that end before they are healed -----------------------------------------------------------------------


def invoke(nemesis: Partition, nodes: Nodes, f: str, **request: Any) -> Op:
    return run(nemesis.invoke(context(nodes), nemesis_op(f, **request)))


@pytest.mark.parametrize("then", ["stop-partition", "start-partition"])
def test_a_cut_that_vanished_while_it_was_in_force_makes_the_op_that_ends_it_info(then: str) -> None:
    nemesis, nodes = Partition(), Nodes()
    assert invoke(nemesis, nodes, "start-partition", **ISOLATED).type == "ok"
    nodes.leaky = {("n1", "n3")}
    done = invoke(nemesis, nodes, then, **{**ISOLATED, "shape": "one-way-mute"})
    assert done.type == "info"
    assert "before the links were changed" in str(done.error)
    assert "n1 -> n3 passes" in str(done.error)
    assert len(nodes.cut_links) == (4 if then == "start-partition" else 0), "it is done all the same"
    nodes.leaky = set()
    assert invoke(nemesis, nodes, "stop-partition").type == "ok"
    assert invoke(nemesis, nodes, "stop-partition").type == "ok", "there is nothing left to vanish"


def test_a_cut_whose_counters_are_gone_is_told_and_healed() -> None:
    nemesis, nodes = Partition(), Nodes()
    invoke(nemesis, nodes, "start-partition", **ISOLATED)
    nodes.silent = {"dropped"}
    done = invoke(nemesis, nodes, "stop-partition")
    assert done.type == "info"
    assert str(done.error).startswith("the agent says nothing of dropped")
    assert "cut" not in done.value, "nobody knows"
    assert (done.value["down"], nodes.cut_links) == ([], {})


@pytest.mark.parametrize(("swallowed", "bit"), [(3, True), (0, False)])
def test_the_end_of_a_partition_tells_whether_it_swallowed_anything(swallowed: int, bit: bool) -> None:
    nodes = Nodes()
    start(nodes, "isolate-one")
    nodes.cut_links["n1", "n3"] = swallowed
    assert stop(nodes).value["evidence"]["bit"] is bit
    assert "bit" not in stop(nodes).value["evidence"], "nothing was cut"


@pytest.mark.parametrize("silent", ["dropped", "disturbed", "status"])
def test_a_backend_that_cannot_say_what_is_in_force_does_not_hide_what_went_wrong(silent: str) -> None:
    nodes = Nodes(leaky={("n1", "n3")}, silent={silent})
    done = start(nodes, "isolate-one")
    assert done.type == "info"
    first, last = str(done.error).split("n1 -> n3 passes (measured 3 times).")
    assert first
    assert last == f" the backend cannot say what is in force: the agent says nothing of {silent}"
    assert done.value["target"] == "n3 | n1 n2 n4 n5"

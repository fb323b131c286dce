"""A clock is wrong, or right again, only if that was measured."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.harness.contract.faults import ClockFault
from splitbrain.harness.contract.rng import Rng
from splitbrain.nemesis import clock
from splitbrain.nemesis.clock import Clocks
from splitbrain.results.errors import NemesisError
from splitbrain.results.history import Op
from tests.nemesis.support import FIVE, Nodes, Roles, context, led_by, nemesis_op, run

ORDER = ["n3", "n1", "n5", "n2", "n4"]
SKEW = {node: {"offset_ms": 1000.0 * i, "drift_ppm": -500.0} for i, node in enumerate(FIVE, start=1)}


def start(nemesis: Clocks, nodes: Nodes, spec: str, system: Roles | None = None, skew: Any = SKEW) -> Op:
    op = nemesis_op("start-clock", fault="clock", action="start", spec=spec, order=ORDER, skew=skew)
    return run(nemesis.invoke(context(nodes, system), op))


def stop(nemesis: Clocks, nodes: Nodes) -> Op:
    return run(nemesis.invoke(context(nodes), nemesis_op("stop-clock", fault="clock", action="stop")))


@pytest.mark.parametrize(
    ("spec", "expected"), [("one", ["n3"]), ("leader", ["n4"]), ("minority", ["n1", "n3"]), ("all", list(FIVE))]
)
def test_each_node_that_is_meant_gets_the_fault_that_was_drawn_for_it(spec: str, expected: list[str]) -> None:
    nemesis, nodes = Clocks(), Nodes()
    done = start(nemesis, nodes, spec, led_by("n4"))
    assert done.type == "ok", done.error
    assert nodes.clocks == {node: ClockFault(SKEW[node]["offset_ms"], -500.0) for node in expected}
    assert done.value["clocks"] == expected
    assert done.value["evidence"][expected[0]]["after"]["drift_ppm"] == -500.0
    done = stop(nemesis, nodes)
    assert (done.type, nodes.clocks) == ("ok", {})
    assert "clocks" not in done.value
    assert set(done.value["evidence"]) == set(expected)


def test_a_clock_that_cannot_be_set_makes_both_ops_info_and_is_named() -> None:
    nemesis, nodes = Clocks(), Nodes(stubborn={"n1"})
    done = start(nemesis, nodes, "minority")
    assert done.type == "info"
    assert "offset_ms of n1 changed by 0 instead of 1000" in str(done.error)
    assert nodes.clocks.keys() == {"n3"}, "the next node is struck all the same"
    nodes.stubborn = {"n3"}
    done = stop(nemesis, nodes)
    assert done.type == "info"
    assert "offset_ms of n3 changed by 0 instead of -3000" in str(done.error)


def test_a_backend_that_measures_nothing_makes_the_op_info() -> None:
    class Blind(Nodes):
        async def skew(self, node: str, fault: ClockFault | None) -> dict[str, Any]:
            return {}

    done = start(Clocks(), Blind(), "one")
    assert done.type == "info"
    assert "nothing was measured of offset_ms on n3" in str(done.error)


def test_a_spec_chooses_among_the_nodes_for_which_the_request_has_a_fault() -> None:
    for spec in ("one", "all", "majority"):
        nodes = Nodes()
        done = start(Clocks(), nodes, spec, skew={"n1": {"offset_ms": 5}})
        assert done.type == "ok", done.error
        assert nodes.clocks.keys() == {"n1"}


def test_a_request_without_faults_is_no_silent_success() -> None:
    assert "a skew for each node" in str(start(Clocks(), Nodes(), "one", skew={}).error)


def test_a_new_fault_replaces_the_old_one_and_a_stop_without_a_start_does_nothing() -> None:
    nemesis, nodes = Clocks(), Nodes()
    assert stop(nemesis, nodes).value["target"].startswith("none")
    assert nodes.calls == []
    start(nemesis, nodes, "all")
    done = start(nemesis, nodes, "one")
    assert (done.type, list(nodes.clocks)) == ("ok", ["n3"])


def test_heal_sets_every_clock_right_as_often_as_it_is_called_and_complains_if_it_cannot() -> None:
    nemesis, nodes = Clocks(), Nodes()
    start(nemesis, nodes, "all")
    run(nemesis.heal(context(nodes)))
    run(nemesis.heal(context(nodes)))
    assert nodes.clocks == {}
    start(nemesis, nodes, "one")
    nodes.stubborn = {"n3"}
    with pytest.raises(NemesisError, match="n3"):
        run(nemesis.heal(context(nodes)))


@pytest.mark.parametrize(
    ("draw", "name", "low", "high"),
    [(clock.jump, "offset_ms", 10, 3_600_000), (clock.drift, "drift_ppm", 1_000, 100_000)],
)
def test_figures_are_drawn_for_each_node_both_ways_and_over_every_power_of_ten(
    draw: Any, name: str, low: int, high: int
) -> None:
    rng = Rng(1)
    requests = [draw(FIVE, rng)["skew"] for _ in range(500)]
    assert all(list(request) == list(FIVE) for request in requests)
    figures = [fault[name] for request in requests for fault in request.values()]
    sizes = [abs(figure) for figure in figures]
    assert low <= min(sizes) < 2 * low
    assert high * 0.9 < max(sizes) <= high
    assert 0.4 < sum(figure > 0 for figure in figures) / len(figures) < 0.6
    assert sum(size < 10 * low for size in sizes) > len(sizes) / 10, "small ones are as likely as large ones"


def test_a_strobe_is_right_again_whether_the_jump_was_in_force_at_its_end_or_not() -> None:
    class Strobing(Nodes):
        jumped = True

        async def skew(self, node: str, fault: ClockFault | None) -> dict[str, Any]:
            told = await super().skew(node, fault)
            if fault is None and not self.jumped:
                told["before"] |= {"offset_ms": 0.0}
            return {**told, "jumps": 7}

    request = {"n1": {"offset_ms": 500.0, "strobe_ms": 20.0}}
    for jumped, drift_ppm, kind in ((True, 0.0, "ok"), (False, 0.0, "ok"), (False, 100.0, "info")):
        nodes, nemesis = Strobing(nodes=("n1",)), Clocks()
        nodes.jumped = jumped
        started = run(nemesis.invoke(context(nodes), nemesis_op("start-clock", skew=request, spec="one")))
        assert started.type == "ok", started.error
        nodes.clocks["n1"] = ClockFault(offset_ms=500.0, strobe_ms=20.0, drift_ppm=drift_ppm)
        stopped = run(nemesis.invoke(context(nodes), nemesis_op("stop-clock")))
        assert (stopped.type, stopped.value["evidence"]["n1"]["jumps"]) == (kind, 7)


# --- nodes that are down ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "expected"), [("one", ["n1"]), ("leader", ["n4"]), ("minority", ["n1", "n5"]), ("all", ["n1", "n4", "n5"])]
)
def test_the_clocks_of_nodes_that_run_are_struck(spec: str, expected: list[str]) -> None:
    nodes = Nodes()
    nodes.states.update(n3="stopped", n2="stopped", n5="paused")
    done = start(Clocks(), nodes, spec, led_by("n4"))
    assert (done.type, sorted(nodes.clocks), done.value["clocks"]) == ("ok", expected, expected)


def test_a_leader_that_is_down_is_not_struck_and_where_none_runs_nobody_is() -> None:
    nodes, follower = Nodes(), Roles({"n1": ("follower", 3, "n3")})
    nodes.states["n3"] = "stopped"
    assert start(Clocks(), nodes, "leader", follower).value["target"] == "n1"
    nodes.states = dict.fromkeys(FIVE, "stopped")
    done = start(Clocks(), nodes, "all")
    assert (done.type, done.value["target"]) == ("ok", "none: no node was running")


# --- answers that do not come -------------------------------------------------------------------------------------


def test_a_heal_that_failed_is_tried_again_until_the_clock_is_right() -> None:
    nemesis, nodes = Clocks(), Nodes()
    start(nemesis, nodes, "one")
    nodes.stubborn, nodes.unheard = {"n3"}, {"n3": 1}
    done = stop(nemesis, nodes)
    assert (done.type, done.value["clocks"]) == ("info", ["n3"]), "it is not forgotten"
    nodes.stubborn = set()
    done = stop(nemesis, nodes)
    assert (done.type, done.value["target"], nodes.clocks) == ("ok", "n3", {})


def test_a_clock_that_was_set_right_without_an_answer_is_seen_to_be_right_by_the_next_attempt() -> None:
    nemesis, nodes = Clocks(), Nodes(unheard={"n3": 0})
    start(nemesis, nodes, "one")
    nodes.unheard = {"n3": 1}
    assert stop(nemesis, nodes).type == "info"
    assert nodes.clocks == {}
    done = stop(nemesis, nodes)
    assert (done.type, "clocks" in done.value) == ("ok", False)


@pytest.mark.parametrize("fault", [{"offset_ms": 50.0}, {"drift_ppm": 1000.0}])
def test_a_clock_that_stays_wrong_is_never_taken_for_one_that_was_set_right(fault: dict[str, float]) -> None:
    nemesis, nodes = Clocks(), Nodes()
    start(nemesis, nodes, "one", skew={"n3": fault})
    nodes.stubborn, nodes.unheard = {"n3"}, {"n3": 1}
    for _ in range(3):
        assert stop(nemesis, nodes).type == "info"
    with pytest.raises(NemesisError, match="n3 changed by 0 instead of -"):
        run(nemesis.heal(context(nodes)))


@pytest.mark.parametrize("set_all_the_same", [True, False])
def test_a_strike_without_an_answer_is_healed_whether_it_took_effect_or_not(set_all_the_same: bool) -> None:
    nemesis, nodes = Clocks(), Nodes(unheard={"n3": 1}, stubborn=set() if set_all_the_same else {"n3"})
    assert start(nemesis, nodes, "one").type == "info"
    nodes.stubborn = set()
    done = stop(nemesis, nodes)
    assert (done.type, done.error, nodes.clocks) == ("ok", None, {})

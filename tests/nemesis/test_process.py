"""Kills and pauses count only if the operating system says so, and are undone on the nodes that suffer from them."""

from __future__ import annotations

import pytest

from splitbrain.nemesis.disk import Disks
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.process import NodeFault, kill, pause, power
from splitbrain.results.errors import NemesisError
from splitbrain.results.history import Op
from tests.nemesis.support import FIVE, Nodes, Roles, context, led_by, nemesis_op, run

ORDER = ["n3", "n1", "n5", "n2", "n4"]


def invoke(nemesis: NodeFault, f: str, nodes: Nodes, system: Roles | None = None, **request: object) -> Op:
    return run(nemesis.invoke(context(nodes, system), nemesis_op(f, **request)))


def inject(nodes: Nodes, f: str, spec: str, system: Roles | None = None) -> Op:
    nemesis = kill() if f == "kill" else pause()
    return invoke(nemesis, f, nodes, system, fault=f, action="start", spec=spec, order=ORDER)


@pytest.mark.parametrize(("f", "state", "column"), [("kill", "stopped", "down"), ("pause", "paused", "paused")])
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("one", ["n3"]),
        ("minority", ["n1", "n3"]),
        ("majority", ["n1", "n3", "n5"]),
        ("all", list(FIVE)),
        ("minority-third", ["n3"]),
        ("leader", ["n4"]),
        ("follower", ["n3"]),
        ("primaries", ["n4"]),
    ],
)
def test_a_strike_hits_whom_the_spec_means_and_nobody_else(
    f: str, state: str, column: str, spec: str, expected: list[str]
) -> None:
    nodes = Nodes()
    done = inject(nodes, f, spec, led_by("n4"))
    assert done.type == "ok"
    assert [node for node in FIVE if nodes.states[node] == state] == expected == done.value[column]
    assert sorted(done.value["target"].split()) == expected
    assert done.value["spec"] == spec
    for node in expected:
        assert done.value["evidence"][node]["before"]["state"] == "running"
        assert done.value["evidence"][node]["after"]["state"] == state


@pytest.mark.parametrize(("f", "stop_f", "column"), [("kill", "start", "down"), ("pause", "resume", "paused")])
def test_the_relief_reaches_everybody_who_suffers(f: str, stop_f: str, column: str) -> None:
    nodes = Nodes()
    inject(nodes, f, "majority")
    done = invoke(kill() if f == "kill" else pause(), stop_f, nodes, fault=f, action="stop")
    assert done.type == "ok"
    assert set(nodes.states.values()) == {"running"}
    assert done.value[column] == []
    assert done.value["target"] == "n1 n3 n5"


def test_a_killed_node_comes_back_in_a_new_life_and_a_paused_one_in_the_same() -> None:
    nodes = Nodes()
    inject(nodes, "kill", "one")
    done = invoke(kill(), "start", nodes)
    assert done.value["evidence"]["n3"]["after"]["life"] == 2
    inject(nodes, "pause", "one")
    done = invoke(pause(), "resume", nodes)
    assert done.value["evidence"]["n3"]["after"]["life"] == 2


@pytest.mark.parametrize(("f", "state"), [("kill", "stopped"), ("pause", "paused")])
def test_a_node_that_survives_makes_the_op_info_and_is_named(f: str, state: str) -> None:
    done = inject(Nodes(immortal={"n1"}), f, "minority")
    assert done.type == "info"
    assert f"n1 is running instead of {state}" in str(done.error)
    assert done.value["target"] == "n3 n1", "what was asked for and what is in force is recorded all the same"


def test_a_node_that_does_not_start_does_not_keep_the_others_from_starting() -> None:
    nodes = Nodes(broken={"n1"})
    inject(nodes, "kill", "all")
    done = invoke(kill(), "start", nodes)
    assert done.type == "info"
    assert "n1: n1 ended at once: no such file" in str(done.error)
    assert done.value["down"] == ["n1"]


def test_a_strike_spares_nodes_that_suffer_already() -> None:
    nodes = Nodes()
    nodes.states["n3"] = "stopped"
    done = inject(nodes, "pause", "one")
    assert done.value["target"] == "n1"
    assert nodes.states["n3"] == "stopped"
    done = inject(nodes, "kill", "minority")
    assert done.value["target"] == "n1 n5", "a paused node can be killed"


def test_when_everybody_suffers_already_nobody_is_struck_and_it_says_so() -> None:
    nodes = Nodes()
    inject(nodes, "kill", "all")
    calls = len(nodes.calls)
    done = inject(nodes, "pause", "majority")
    assert done.type == "ok"
    assert done.value["target"].startswith("none")
    assert done.value["paused"] == []
    assert len(nodes.calls) == calls


def test_a_leader_that_is_down_is_not_struck_again() -> None:
    nodes = Nodes()
    nodes.states["n4"] = "stopped"
    done = inject(nodes, "kill", "leader", Roles({"n1": ("follower", 3, "n4")}))
    assert done.value["target"] == "n3"


@pytest.mark.parametrize("f", ["kill", "pause"])
def test_heal_makes_every_struck_node_run_as_often_as_it_is_called(f: str) -> None:
    nodes = Nodes()
    inject(nodes, f, "all")
    nemesis = kill() if f == "kill" else pause()
    run(nemesis.heal(context(nodes)))
    run(nemesis.heal(context(nodes)))
    assert set(nodes.states.values()) == {"running"}
    assert nodes.lives["n1"] == (2 if f == "kill" else 1)


def test_heal_complains_of_a_node_that_does_not_run_afterwards() -> None:
    nodes = Nodes(broken={"n2"})
    inject(nodes, "kill", "all")
    with pytest.raises(NemesisError, match="n2 is stopped instead of running"):
        run(kill().heal(context(nodes)))
    assert [node for node, state in nodes.states.items() if state == "stopped"] == ["n2"]


# --- power --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("spec", "expected"), [("minority", ["n1", "n3"]), ("leader", ["n4"]), ("all", list(FIVE))])
def test_a_loss_of_power_tells_what_it_cost_and_is_relieved_by_a_start(spec: str, expected: list[str]) -> None:
    nodes = Nodes()
    done = invoke(power(), "power-off", nodes, led_by("n4"), fault="power", action="start", spec=spec, order=ORDER)
    assert done.type == "ok", done.error
    assert done.value["down"] == expected
    assert done.value["evidence"][expected[0]]["lost"] == {"bytes_lost": 512, "sectors_torn": 1}
    done = invoke(power(), "power-on", nodes, fault="power", action="stop")
    assert (done.type, done.value["down"]) == ("ok", [])
    assert "lost" not in done.value["evidence"][expected[0]]
    assert nodes.lives[expected[0]] == 2


def test_a_kill_tells_of_no_loss() -> None:
    assert "lost" not in inject(Nodes(), "kill", "one").value["evidence"]["n3"]


def test_a_node_that_lost_its_power_is_not_started_by_the_end_of_a_kill() -> None:
    ledger, nodes = Ledger(), Nodes()
    killer, outage = kill(ledger), power(ledger)
    invoke(outage, "power-off", nodes, action="start", spec="one", order=ORDER)
    invoke(killer, "kill", nodes, action="start", spec="minority", order=ORDER)
    done = invoke(killer, "start", nodes, action="stop")
    assert (done.type, done.value["down"]) == ("ok", ["n3"])
    assert done.value["evidence"]["left to"] == {"n3": ["power"]}
    assert invoke(outage, "power-on", nodes, action="stop").value["down"] == []


def test_a_paused_node_is_resumed_whoever_may_keep_it_down_later() -> None:
    ledger, nodes = Ledger(), Nodes()
    ledger.hold("n3", "disk")
    sleeper = pause(ledger)
    invoke(sleeper, "pause", nodes, action="start", spec="one", order=ORDER)
    assert invoke(sleeper, "resume", nodes, action="stop").value["paused"] == []


def test_a_paused_node_that_is_killed_is_started_by_the_end_of_the_kill() -> None:
    ledger, nodes = Ledger(), Nodes()
    sleeper, killer = pause(ledger), kill(ledger)
    invoke(sleeper, "pause", nodes, action="start", spec="one", order=ORDER)
    invoke(killer, "kill", nodes, action="start", spec="one", order=ORDER)
    done = invoke(killer, "start", nodes, action="stop")
    assert (done.type, done.value["target"], done.value["down"]) == ("ok", "n3", [])
    assert "left to" not in done.value["evidence"]
    done = invoke(sleeper, "resume", nodes, action="stop")
    assert (done.type, done.value["down"], done.value["paused"]) == ("ok", [], [])


def test_a_paused_node_that_is_killed_for_its_disk_is_started_once_that_is_well() -> None:
    ledger, nodes = Ledger(), Nodes()
    sleeper, disks = pause(ledger), Disks(ledger)
    invoke(sleeper, "pause", nodes, action="start", spec="one", order=ORDER)
    spoil = nemesis_op("start-disk", action="start", spec="one", order=ORDER, spoil={"fails": True})
    assert run(disks.invoke(context(nodes), spoil)).value["disks"] == ["n3"]
    nodes.states["n3"] = "stopped"
    done = run(disks.invoke(context(nodes), nemesis_op("stop-disk", action="stop")))
    assert (done.type, done.value["down"]) == ("ok", [])


@pytest.mark.parametrize(
    ("lost", "bit"),
    [
        ({"bytes_lost": 512, "sectors_torn": 1}, True),
        ({"bytes_lost": 0, "names_lost": 2}, True),
        ({"bytes_lost": 0, "names_lost": 0}, False),
        ({}, None),
    ],
)
def test_a_loss_of_power_bit_if_something_was_lost(lost: dict[str, int], bit: bool | None) -> None:
    nodes = Nodes(loses=lost)
    done = invoke(power(), "power-off", nodes, fault="power", action="start", spec="one", order=ORDER)
    assert done.value["evidence"]["n3"].get("bit") is bit

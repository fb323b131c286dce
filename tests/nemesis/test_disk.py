"""Faults of disks strike a minority, whatever else is in force, and nodes that stop over them come back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.harness.contract.faults import DiskFault
from splitbrain.harness.contract.nodes import NodeStatus
from splitbrain.harness.contract.rng import Rng
from splitbrain.nemesis import disk
from splitbrain.nemesis.disk import Disks, spare
from splitbrain.nemesis.grudges import majority
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.process import kill, power
from splitbrain.results.errors import NemesisError
from splitbrain.results.history import Op
from tests.nemesis.support import FIVE, Nodes, Roles, context, led_by, nemesis_op, run

ORDER = ["n3", "n1", "n5", "n2", "n4"]
FULL = {"full": True}
ROT = {"rot": 2}
NAMES = tuple(f"n{i}" for i in range(1, 10))


def start(
    nemesis: Disks, nodes: Nodes, spoil: Any, spec: str = "one", system: Roles | None = None, order: Any = ORDER
) -> Op:
    op = nemesis_op("start-disk", fault="disk", action="start", spec=spec, order=order, spoil=spoil)
    return run(nemesis.invoke(context(nodes, system), op))


def stop(nemesis: Disks, nodes: Nodes) -> Op:
    return run(nemesis.invoke(context(nodes), nemesis_op("stop-disk", fault="disk", action="stop")))


@pytest.mark.parametrize(
    ("spec", "expected"), [("one", ["n3"]), ("leader", ["n4"]), ("minority", ["n1", "n3"]), ("all", ["n1", "n3"])]
)
@pytest.mark.parametrize("spoil", [FULL, {"sync_fails": True}, {"slow_ms": 50}])
def test_the_disks_that_are_meant_have_the_fault_and_no_more_than_a_minority(
    spec: str, expected: list[str], spoil: Any
) -> None:
    nemesis, nodes = Disks(), Nodes()
    done = start(nemesis, nodes, spoil, spec, led_by("n4"))
    assert done.type == "ok", done.error
    assert sorted(nodes.disks) == expected == done.value["disks"]
    assert set(nodes.states.values()) == {"running"}
    done = stop(nemesis, nodes)
    assert (done.type, nodes.disks) == ("ok", {})
    assert "disks" not in done.value


def test_a_node_that_stopped_over_its_disk_is_started_when_the_disk_is_well() -> None:
    nemesis, nodes = Disks(), Nodes()
    start(nemesis, nodes, FULL, "minority")
    nodes.states["n3"] = "stopped"
    nodes.disk_did["n3"] = {"refused_writes": 4}
    nodes.disk_did["n1"] = {"refused_writes": 0}
    done = stop(nemesis, nodes)
    assert (done.type, nodes.states["n3"]) == ("ok", "running")
    told = done.value["evidence"]["n3"]
    assert (told["before"]["state"], told["did"], told["bit"]) == ("stopped", {"refused_writes": 4}, True)
    assert done.value["evidence"]["n1"]["bit"] is False, "a fault that never bit is told"
    assert nodes.calls.index("unspoil n1") < nodes.calls.index("running n3"), "first every disk, then the nodes"


@pytest.mark.parametrize(
    ("did", "bit"),
    [
        ({"errno": "ENOSPC", "failed_calls": 0}, False),
        ({"errno": "ENOSPC", "failed_calls": 3}, True),
        ({"errno": "EIO", "failed_calls": 0, "killed": True}, False),
        ({"errno": "EIO", "uncounted": "nobody may count here"}, None),
        ({"errno": "EIO", "uncounted": "nobody may count here", "halted": True}, True),
        ({"freezes": 12, "slowed_syncs": 0}, False),
        ({"freezes": 12, "slowed_syncs": 1}, True),
        ({}, None),
    ],
)
def test_only_what_a_node_met_is_a_fault_that_bit_and_without_a_count_nothing_is_said(
    did: dict[str, Any], bit: bool | None
) -> None:
    """Not what a write of the backend's own got, which shows that the fault is in force."""
    nemesis, nodes = Disks(), Nodes()
    start(nemesis, nodes, FULL)
    nodes.disk_did["n3"] = did
    evidence = stop(nemesis, nodes).value["evidence"]["n3"]
    assert evidence["did"] == did
    assert evidence.get("bit") is bit


def test_a_node_that_does_not_come_back_makes_the_op_info() -> None:
    nemesis, nodes = Disks(), Nodes()
    start(nemesis, nodes, FULL, "minority")
    nodes.states.update(n1="stopped", n3="stopped")
    nodes.broken = {"n3"}
    done = stop(nemesis, nodes)
    assert done.type == "info"
    assert "n3: n3 ended at once" in str(done.error)
    assert nodes.states["n1"] == "running", "it does not keep the others from starting"


# --- rot ----------------------------------------------------------------------------------------------------------


def test_a_node_that_refuses_to_start_on_rotten_data_stays_down_until_the_heal() -> None:
    nemesis, nodes = Disks(), Nodes(fragile={"n3"})
    done = start(nemesis, nodes, ROT, "minority")
    assert done.type == "ok", done.error
    assert done.value["down"] == ["n3"]
    evidence = done.value["evidence"]
    assert "a record that was durable is damaged" in evidence["n3"]["refused"]
    assert evidence["n3"]["found"] == {"rotten": [["log", 0], ["log", 1]]}
    assert "refused" not in evidence["n1"]
    assert nodes.calls[:3] == ["stopped n3", "spoil n3", "stopped n1"], "it must restart to read what is rotten"
    done = stop(nemesis, nodes)
    assert (done.type, done.value["down"], set(nodes.states.values())) == ("ok", [], {"running"})


def test_a_disk_on_which_nothing_could_rot_is_told_and_a_node_that_does_not_start_on_it_is_a_problem() -> None:
    nemesis, nodes = Disks(), Nodes(blank={"n3"})
    done = start(nemesis, nodes, ROT)
    assert (done.type, done.value["evidence"]["n3"]["bit"]) == ("ok", False)
    stop(nemesis, nodes)
    nodes.fragile = {"n3"}
    assert start(nemesis, nodes, ROT).type == "info"


def test_over_a_whole_run_only_the_same_minority_ever_rots() -> None:
    nemesis, nodes = Disks(), Nodes()
    rotted: set[str] = set()
    rng = Rng(1)
    for _ in range(50):
        done = start(nemesis, nodes, ROT, rng.choice(["one", "minority", "leader"]), order=rng.sample(FIVE, 5))
        assert nodes.disks, done.value["target"]
        rotted |= set(nodes.disks)
        stop(nemesis, nodes)
    assert len(rotted) == 2
    run(nemesis.heal(context(nodes)))
    start(nemesis, nodes, ROT, order=[node for node in FIVE if node not in rotted] + sorted(rotted))
    assert not rotted & set(nodes.disks), "the next run begins afresh"


def test_nodes_that_are_down_count_as_lost_and_are_not_struck() -> None:
    nemesis, nodes = Disks(), Nodes()
    nodes.states["n3"] = "stopped"
    assert list(_spoiled(start(nemesis, nodes, ROT, "minority"))) == ["n1"], "one of two may still be lost"
    stop(nemesis, nodes)
    nodes.states.update(n2="stopped", n3="stopped", n4="stopped")
    done = start(nemesis, nodes, FULL, "minority")
    assert (done.type, done.value["target"]) == ("ok", "none: no node can be spared")
    assert nodes.disks == {}


def _spoiled(op: Op) -> list[str]:
    return op.value["disks"]


@pytest.mark.slow
@given(
    count=st.integers(1, 9),
    data=st.data(),
    spoil=st.sampled_from([FULL, ROT]),
    spec=st.sampled_from(["one", "minority", "majority", "all", "leader"]),
)
def test_a_strike_never_leaves_less_than_a_majority_that_is_up_and_well(
    count: int, data: st.DataObject, spoil: Any, spec: str
) -> None:
    names = NAMES[:count]
    nodes = Nodes(names, fragile=set(names))
    for node in data.draw(st.lists(st.sampled_from(names), unique=True)):
        nodes.states[node] = "stopped"
    down = [node for node in names if nodes.states[node] == "stopped"]
    ledger = Ledger()
    ledger.rotted = dict.fromkeys(data.draw(st.lists(st.sampled_from(names), max_size=count - majority(count))))
    before = dict(ledger.rotted)
    order = data.draw(st.permutations(names))
    done = start(Disks(ledger), nodes, spoil, spec, led_by(order[-1], names), order)
    assert done.type == "ok", done.error
    struck = set(nodes.disks)
    assert not struck & set(down)
    if struck:
        assert len(struck | set(down)) <= count - majority(count)
    if "rot" in spoil:
        assert len(set(before) | struck) <= count - majority(count)


@pytest.mark.slow
@given(count=st.integers(1, 9), data=st.data())
def test_spare_takes_the_first_that_can_be_lost_and_as_many_as_can(count: int, data: st.DataObject) -> None:
    names = NAMES[:count]
    stopped = data.draw(st.lists(st.sampled_from(names), unique=True))
    seen = {node: NodeStatus("stopped" if node in stopped else "running", 1) for node in names}
    lost = [*stopped, *data.draw(st.lists(st.sampled_from(names)))]
    wished = data.draw(st.permutations(names))
    chosen = spare(wished, seen, lost)
    room = count - majority(count)
    fresh = [node for node in wished if node not in lost]
    again = [node for node in lost if node not in stopped]
    assert [node for node in chosen if node in fresh] == fresh[: max(0, room - len(set(lost)))]
    assert {node for node in chosen if node in again} == (set(again) if len(set(lost)) <= room else set())


# --- beside other faults ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "inject_f", "release_f"), [(kill, "kill", "start"), (power, "power-off", "power-on")]
)
def test_who_keeps_a_node_down_decides_when_it_starts(other: Any, inject_f: str, release_f: str) -> None:
    ledger, nodes = Ledger(), Nodes()
    disks, killer = Disks(ledger), other(ledger)
    start(disks, nodes, FULL)
    run(killer.invoke(context(nodes), nemesis_op(inject_f, action="start", spec="all", order=ORDER)))
    done = run(killer.invoke(context(nodes), nemesis_op(release_f, action="stop")))
    assert done.type == "ok"
    assert done.value["down"] == ["n3"], "its disk is still full"
    assert done.value["evidence"]["left to"] == {"n3": ["disk"]}
    assert stop(disks, nodes).value["down"] == []

    start(disks, nodes, FULL)
    run(killer.invoke(context(nodes), nemesis_op(inject_f, action="start", spec="all", order=ORDER)))
    done = stop(disks, nodes)
    assert done.type == "ok"
    assert len(done.value["down"]) == 5, "it is still to be down"
    done = run(killer.invoke(context(nodes), nemesis_op(release_f, action="stop")))
    assert (done.type, done.value["down"]) == ("ok", [])


def test_heal_makes_every_disk_well_and_complains_of_a_node_that_stays_down() -> None:
    nemesis, nodes = Disks(), Nodes()
    start(nemesis, nodes, FULL, "minority")
    nodes.states.update(n1="stopped", n3="stopped")
    nodes.broken = {"n1"}
    with pytest.raises(NemesisError, match="n1 ended at once"):
        run(nemesis.heal(context(nodes)))
    assert (nodes.disks, nodes.states["n3"]) == ({}, "running")
    run(nemesis.heal(context(nodes)))


@pytest.mark.parametrize(("spoil", "words"), [({}, "has no effect"), (None, "got `null` - at `$.spoil`")])
def test_a_request_that_asks_for_no_fault_is_info_and_not_a_silent_success(spoil: Any, words: str) -> None:
    done = start(Disks(), Nodes(), spoil)
    assert done.type == "info"
    assert words in str(done.error)


def test_figures_are_drawn_within_their_bounds() -> None:
    rng = Rng(1)
    slow = [disk.slow(FIVE, rng)["spoil"]["slow_ms"] for _ in range(1000)]
    assert (20 <= min(slow) < 30, 900 < max(slow) <= 1000) == (True, True)
    assert {disk.rot(FIVE, rng)["spoil"]["rot"] for _ in range(100)} == {1, 2, 3, 4}
    assert DiskFault(**disk.FULL["spoil"]) == DiskFault(full=True)
    assert DiskFault(**disk.SYNC_FAILS["spoil"]) == DiskFault(sync_fails=True)

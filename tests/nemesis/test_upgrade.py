"""A rolling upgrade: nodes that differ in their versions for a while, and one that goes back."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.harness.contract.marks import counted
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.nemesis.catalogue import build
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.upgrade import Rollback, Upgrade
from splitbrain.results.errors import FaultNotSupportedError
from splitbrain.results.history import Op
from tests.nemesis.support import FIVE, Nodes, Roles, Versions, context, led_by, nemesis_op, run
from tests.nemesis.test_catalogue import support

ORDER = ["n4", "n1", "n5", "n2", "n3"]


class Restarted(Nodes):
    """Notes with which version each node is started."""

    def __init__(self, versions: Versions) -> None:
        super().__init__()
        self.versions = versions
        self.started: list[tuple[NodeId, int]] = []

    async def start(self, node: NodeId) -> Any:
        self.started.append((node, self.versions.version(node)))
        return await super().start(node)


def cluster(leader: str = "n2", *, raises: bool = True) -> tuple[Restarted, Roles, Versions]:
    versions, roles = Versions(raises=raises), led_by(leader)
    roles.upgrades = versions
    return Restarted(versions), roles, versions


def started(nodes: Nodes, roles: Roles, nemesis: Upgrade | Rollback, f: str, **request: Any) -> Op:
    fault = "upgrade" if isinstance(nemesis, Upgrade) else "rollback"
    action = "start" if f in ("upgrade", "roll-back") else "stop"
    return run(nemesis.invoke(context(nodes, roles), nemesis_op(f, fault=fault, action=action, **request)))


def test_ra43_so_many_nodes_are_upgraded_in_the_order_of_the_op_and_the_others_when_it_stops() -> None:
    nodes, roles, _ = cluster()
    nemesis = Upgrade()
    with counted() as marks:
        done = started(nodes, roles, nemesis, "upgrade", order=ORDER, count=2)
    assert (done.type, done.value["target"]) == ("ok", "n4 n1")
    assert nodes.started == [("n4", 2), ("n1", 2)]
    assert done.value["evidence"]["n4"]["lives"] == [1, 2]
    assert (marks["some nodes upgraded"], marks["every node upgraded"]) == (1, 0)
    with counted() as marks:
        done = started(nodes, roles, nemesis, "stop-upgrade")
    assert nodes.started[2:] == [("n2", 2), ("n3", 2), ("n5", 2)]
    assert marks["every node upgraded"] == 1
    again = started(nodes, roles, nemesis, "upgrade", order=ORDER)
    assert again.value["target"] == "none: every node is upgraded"
    assert len(nodes.started) == 5


def test_ra43_a_node_that_is_down_or_has_another_fault_is_upgraded_by_its_next_start() -> None:
    nodes, roles, versions = cluster()
    nodes.states["n1"] = "stopped"
    ledger = Ledger()
    ledger.hold("n3", "disk")
    done = started(nodes, roles, Upgrade(ledger), "upgrade", order=ORDER)
    assert [node for node, _ in nodes.started] == ["n4", "n5", "n2"]
    assert (done.value["evidence"]["n1"]["bit"], done.value["evidence"]["n4"]["bit"]) == (False, True)
    assert set(versions.chosen.values()) == {2}


@pytest.mark.parametrize("by", ["stop-upgrade", "heal"])
def test_ra43_a_node_that_goes_on_as_it_was_is_restarted_by_the_stop_or_the_heal(by: str) -> None:
    nodes, roles, _ = cluster()
    nodes.states["n3"] = "paused"
    nemesis = Upgrade()
    with counted() as marks:
        done = started(nodes, roles, nemesis, "upgrade", order=ORDER)
    assert done.value["evidence"]["n3"]["bit"] is False
    assert marks["every node upgraded"] == 0
    nodes.states["n3"] = "running"
    if by == "heal":
        run(nemesis.heal(context(nodes, roles)))
    else:
        assert started(nodes, roles, nemesis, by).value["target"] == "n3"
    assert nodes.started[-1] == ("n3", 2)
    assert len(nodes.started) == 5
    run(nemesis.heal(context(nodes, roles)))
    assert len(nodes.started) == 5, "once is enough"


def test_ra43_a_node_that_another_fault_starts_anew_is_upgraded_by_that() -> None:
    nodes, roles, _ = cluster()
    nodes.states["n3"] = "paused"
    nemesis = Upgrade()
    started(nodes, roles, nemesis, "upgrade", order=ORDER)
    run(nodes.kill("n3"))
    run(nodes.start("n3"))
    assert started(nodes, roles, nemesis, "stop-upgrade").value["target"] == "none: every node is upgraded"
    assert len(nodes.started) == 5


def test_ra43_what_was_not_upgraded_is_so_when_everything_is_healed() -> None:
    nodes, roles, _ = cluster()
    nemesis = Upgrade()
    started(nodes, roles, nemesis, "upgrade", order=ORDER, count=3)
    run(nemesis.heal(context(nodes, roles)))
    assert sorted(nodes.started) == [(node, 2) for node in FIVE]


def test_ra43_a_node_is_rolled_back_that_was_down_when_the_version_came_into_force() -> None:
    nodes, roles, versions = cluster(leader="n4")
    nemesis = Rollback()
    with counted() as marks:
        done = started(nodes, roles, nemesis, "roll-back", order=ORDER)
    assert (done.type, done.value["target"]) == ("ok", "n1"), "the first in the order that does not lead"
    assert nodes.started == [("n4", 2), ("n1", 2), ("n5", 2), ("n2", 2), ("n3", 2), ("n1", 1)]
    assert nodes.calls.index("stopped n3") > [i for i, call in enumerate(nodes.calls) if call == "stopped n1"][1]
    assert (done.value["evidence"]["n1"]["raised"], marks["node rolled back"]) == (True, 1)
    assert versions.version("n1") == 2, "who starts it next has the latest version"
    started(nodes, roles, nemesis, "upgrade-again")
    assert nodes.started[6:] == [("n1", 2)]
    again = started(nodes, roles, nemesis, "roll-back", order=ORDER)
    assert again.value["target"] == "none: every node is upgraded, and would refuse to go back"


def test_ra43_a_rollback_before_the_version_came_into_force_did_nothing() -> None:
    nodes, roles, _ = cluster(leader="n4", raises=False)
    done = started(nodes, roles, Rollback(), "roll-back", order=ORDER)
    assert done.value["evidence"]["n1"]["bit"] is False


def test_ra43_no_node_is_rolled_back_while_another_is_down() -> None:
    nodes, roles, _ = cluster()
    nodes.states["n5"] = "stopped"
    done = started(nodes, roles, Rollback(), "roll-back", order=ORDER)
    assert done.value["target"] == "none: n5 is down, or has another fault"
    assert nodes.started == []


def test_ra43_a_rolled_back_node_is_upgraded_when_everything_is_healed() -> None:
    nodes, roles, _ = cluster(leader="n4")
    nemesis = Rollback()
    started(nodes, roles, nemesis, "roll-back", order=ORDER)
    run(nemesis.heal(context(nodes, roles)))
    assert nodes.started[-1] == ("n1", 2)


@pytest.mark.parametrize("name", ["upgrade", "rollback"])
def test_a_system_of_one_version_is_not_upgraded(name: str) -> None:
    lacking = support("upgrade", why="there is one version of system 'etcd' only.")
    with pytest.raises(FaultNotSupportedError, match="one version of system 'etcd' only"):
        build([name], support=lacking)

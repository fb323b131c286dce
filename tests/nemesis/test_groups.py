"""Groups that are deleted and made again: on which nodes, under which incarnation, and what is said of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
import pytest

from splitbrain.harness.contract.clock import Clock
from splitbrain.harness.contract.marks import counted
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.nemesis.groups import GROUP, Regrouping
from splitbrain.results.history import Op
from tests.nemesis.support import FIVE, Groups, Leaps, Nodes, Roles, context, led_by, nemesis_op, run

ORDER = ["n4", "n1", "n5", "n2", "n3"]


class Cluster:
    """Nodes with groups that are only lists, and a nemesis."""

    clock: Clock

    def __init__(self) -> None:
        self.nodes = Nodes()
        self.groups = Groups()
        self.system: Roles = led_by("n2")
        self.system.groups = self.groups
        self.nemesis = Regrouping()

    def regroup(self, on: str, writes: int = 3) -> Op:
        op = nemesis_op("regroup", fault="groups", action="start", order=ORDER, on=on, writes=writes)
        return run(self.nemesis.invoke(context(self.nodes, self.system), op))

    def settle(self) -> Op:
        op = nemesis_op("settle-group", fault="groups", action="stop")
        return run(self.nemesis.invoke(context(self.nodes, self.system), op))

    def heal(self) -> float:
        """The seconds that it took."""
        around = context(self.nodes, self.system)
        self.clock = around.runtime.clock
        run(self.nemesis.heal(around))
        return self.clock.now_ns() / 1e9

    def refuses_until(self, s: float, *nodes: str) -> None:
        """Have nodes refuse to delete for so many seconds after healing began."""
        delete = self.groups.delete

        async def refusing(deployment: Any, node: str, name: str) -> None:
            if node in nodes and self.clock.now_ns() < s * 1e9:
                raise DefiniteError(f"{node} is busy")
            await delete(deployment, node, name)

        self.groups.delete = refusing

    def here(self) -> dict[str, int | None]:
        """By node the incarnation of the group that it has."""
        return {node: self.groups.of_nodes.get(node, {}).get(GROUP) for node in FIVE}


def test_ra33_a_group_that_is_made_again_is_another_one_on_all_nodes() -> None:
    cluster = Cluster()
    with counted() as marks:
        done = cluster.regroup("all")
    assert (done.type, done.value["target"]) == ("ok", " ".join(ORDER))
    evidence = done.value["evidence"]
    assert (evidence["group"], evidence["incarnation"], evidence["stored"]) == (GROUP, 1, [1, 2, 3])
    assert evidence["deleted"] == evidence["made"] == dict.fromkeys(ORDER, "done")
    assert evidence["founders"] == [f"a{node}" for node in FIVE]
    assert cluster.here() == dict.fromkeys(FIVE, 1)
    assert (marks["group made again"], marks["group made in part"], marks["group deleted"]) == (1, 0, 1)
    assert cluster.regroup("all").value["evidence"]["incarnation"] == 2


def test_ra33_a_group_that_is_made_in_part_has_no_majority_until_it_is_settled() -> None:
    cluster = Cluster()
    with counted() as marks:
        done = cluster.regroup("some")
    assert done.value["target"] == "n4 n1"
    assert cluster.here() == {"n1": 1, "n2": None, "n3": None, "n4": 1, "n5": None}
    assert marks["group made in part"] == 1
    done = cluster.settle()
    assert (done.type, done.value["target"]) == ("ok", "n1 n2 n3 n4 n5")
    assert cluster.here() == dict.fromkeys(FIVE, 1)
    assert done.value["evidence"]["read"] == {"n1": None}, "it has nothing of the former group"
    assert done.value["evidence"]["stored"] == [4]


def test_a_node_that_was_down_meanwhile_forgets_the_former_group_first() -> None:
    cluster = Cluster()
    cluster.regroup("all")
    cluster.nodes.states["n3"] = "stopped"
    done = cluster.regroup("all")
    assert "n3" not in done.value["evidence"]["made"]
    assert cluster.here()["n3"] == 1
    cluster.nodes.states["n3"] = "running"
    cluster.groups.asked.clear()
    cluster.settle()
    assert [asked for asked in cluster.groups.asked if asked.startswith("n3")] == ["n3 deletes g1", "n3 makes g1#2"]


def test_a_node_that_lost_its_data_since_is_no_founder_and_stays_out() -> None:
    cluster = Cluster()
    cluster.regroup("all")

    async def members(deployment: Any, nodes: Collection[str]) -> tuple[str, ...]:
        return tuple(f"a{node}" if node != "n3" else "an3#1" for node in nodes)

    cluster.groups.of_nodes["n3"] = {}
    cluster.groups.members = members
    done = cluster.settle()
    assert done.value["evidence"]["made"]["n3"] == "refused: it is no founder"
    assert cluster.here()["n3"] is None


def test_refusals_are_recorded_and_no_group_is_said_to_be_made() -> None:
    cluster = Cluster()
    cluster.groups.unwilling = set(FIVE)
    with counted() as marks:
        done = cluster.regroup("all", writes=0)
    assert done.type == "ok"
    assert done.value["target"] == "none: no node began the group"
    assert done.value["evidence"]["made"]["n1"] == "refused: n1 refuses"
    assert (marks["group made"], marks["group made again"]) == (0, 0)


def test_in_the_end_no_node_has_a_group() -> None:
    cluster = Cluster()
    cluster.heal()
    assert cluster.groups.asked == []
    cluster.regroup("some")
    cluster.heal()
    assert cluster.here() == dict.fromkeys(FIVE)


def test_healing_deletes_again_as_long_as_a_recovery_may_take() -> None:
    cluster = Cluster()
    cluster.regroup("all")
    cluster.refuses_until(15.0, "n3")
    with counted() as marks:
        assert 15 <= cluster.heal() < 25
    assert cluster.here() == dict.fromkeys(FIVE)
    assert marks["group left behind"] == 0


def test_healing_waits_longer_for_a_node_that_takes_over_a_snapshot() -> None:
    cluster = Cluster()
    cluster.regroup("all")
    cluster.refuses_until(50.0, "n3", "n4")
    view = cluster.system.view

    async def catching_up(deployment: Any, node: str) -> Any:
        said = await view(deployment, node)
        if said is None or node != "n3":
            return said
        return msgspec.structs.replace(said, received_bytes=1 + cluster.clock.now_ns() // 1_000_000)

    cluster.system.view = catching_up  # type: ignore[method-assign]
    assert 50 <= cluster.heal() < 60
    assert cluster.here() == dict.fromkeys(FIVE)


def test_healing_deletes_on_a_node_that_comes_up_meanwhile() -> None:
    cluster = Cluster()
    cluster.regroup("all")
    cluster.nodes.states["n5"] = "stopped"
    cluster.refuses_until(5.0, "n3")
    sleep = Leaps.sleep_ns

    async def comes_up(clock: Leaps, duration_ns: int) -> None:
        cluster.nodes.states["n5"] = "running"
        await sleep(clock, duration_ns)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Leaps, "sleep_ns", comes_up)
        cluster.heal()
    assert cluster.here() == dict.fromkeys(FIVE)


def test_healing_ends_where_a_group_does_not_go_and_says_so() -> None:
    cluster = Cluster()
    cluster.regroup("all")
    cluster.refuses_until(10_000.0, "n3")
    with counted() as marks:
        assert 20 <= cluster.heal() <= 31
    assert marks["group left behind"] == 1
    assert cluster.here() == {**dict.fromkeys(FIVE), "n3": 1}


def test_a_system_without_groups_says_so() -> None:
    cluster = Cluster()
    cluster.system.groups = None
    done = cluster.regroup("all")
    assert done.type == "info"
    assert "take part in one cluster only" in str(done.error)

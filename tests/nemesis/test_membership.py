"""Members that leave and join again: who may go, what a refusal does, and what becomes of an answer that never came."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from splitbrain.harness.contract.clock import Runtime, Timer
from splitbrain.harness.contract.faults import DiskFault
from splitbrain.harness.contract.marks import counted
from splitbrain.harness.contract.nodes import Link
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.nemesis.grudges import all_links
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.membership import MembershipChanges
from splitbrain.nemesis.process import kill
from splitbrain.results.errors import NodeStartError
from splitbrain.results.history import Op
from tests.nemesis.support import FIVE, Members, Nodes, Roles, context, led_by, nemesis_op, run

ORDER = ["n4", "n1", "n5", "n2", "n3"]
UNHEALTHY = DefiniteError("UNAVAILABLE: etcdserver: unhealthy cluster")
SILENCE = IndefiniteError("nothing came back")
DONE = IndefiniteError("done")


class Clock:
    """On which a sleep is over as soon as everybody else had a chance; one that is cancelled takes no time."""

    def __init__(self) -> None:
        self._now_ns = 0

    def now_ns(self) -> int:
        return self._now_ns

    async def sleep_ns(self, duration_ns: int) -> None:
        for _ in range(50):
            await asyncio.sleep(0)
        self._now_ns += duration_ns

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> Timer:
        raise NotImplementedError("what is tested sets no timers")


def around(*islands: str) -> frozenset[Link]:
    """Every link between one of these nodes and another that is none of them."""
    return frozenset(link for link in all_links(FIVE) if (link[0] in islands) != (link[1] in islands))


class Cluster:
    """Nodes with a list of members, and what a nemesis does with them; `leader` leads."""

    def __init__(self, leader: str = "n2", count: int = 5) -> None:
        self.nodes = Nodes(FIVE[:count])
        self.members = Members(FIVE[:count])
        self.system: Roles = led_by(leader, FIVE[:count])
        self.system.membership = self.members
        self.ledger = Ledger()
        self.nemesis = MembershipChanges(self.ledger)
        self.clock = Clock()
        runtime: Any = Runtime(clock=self.clock, streams=cast("Any", None))
        self.context = msgspec.structs.replace(context(self.nodes, self.system), runtime=runtime)

    def leave(self, spec: str = "one") -> Op:
        order = [node for node in ORDER if node in self.nodes.nodes]
        return self._do("leave", action="start", spec=spec, order=order)

    def leave_rashly(self, spec: str = "one") -> Op:
        return self._do("leave", action="start", rash=True, spec=spec, order=ORDER)

    def replace(self) -> Op:
        return self._do("leave", action="start", replace=True, spec="one", order=ORDER)

    def learn(self) -> Op:
        return self._do("leave", action="start", learner=True, spec="one", order=ORDER)

    def join(self) -> Op:
        return self._do("join", action="stop")

    def heal(self) -> None:
        run(self.nemesis.heal(self.context))

    def elapsed_s(self) -> float:
        return self.clock.now_ns() / 1e9

    def _do(self, f: str, **request: Any) -> Op:
        return run(self.nemesis.invoke(self.context, nemesis_op(f, fault="membership", **request)))


# --- leaving ----------------------------------------------------------------------------------------------------------


def test_a_member_leaves_by_the_word_of_another_and_ends_with_nothing_on_its_disk() -> None:
    cluster = Cluster()
    with counted() as marks:
        done = cluster.leave()
    assert (done.type, done.value["target"], done.value["down"]) == ("ok", "n4", ["n4"])
    assert cluster.members.asked == ["n1 removes n4"]
    assert cluster.nodes.calls == ["stopped n4", "spoil n4", "unspoil n4"]
    told = done.value["evidence"]["n4"]
    assert (told["member"], told["asked"], told["bit"]) == ("an4", "n1", True)
    assert told["members"] == {f"a{node}": node for node in FIVE}
    assert told["unlisted by"] == {node: ["an1", "an2", "an3", "an5"] for node in ("n1", "n2", "n3", "n5")}
    assert cluster.members.unsettled("n4")
    assert cluster.ledger.held_by_others("n4", "kill") == ["membership"]
    assert (marks["member removed"], marks["leader removed"]) == (1, 0)


def test_the_disk_is_wiped_and_not_merely_damaged() -> None:
    cluster = Cluster()
    given: list[DiskFault | None] = []

    async def spoil(node: str, fault: DiskFault | None) -> dict[str, Any]:
        given.append(fault)
        return {"wiped": 3}

    cluster.nodes.spoil = spoil
    done = cluster.leave()
    assert given == [DiskFault(wipe=True), None]
    assert done.value["evidence"]["n4"]["wiped"] == 3


def test_the_leader_leaves_as_well() -> None:
    cluster = Cluster(leader="n2")
    with counted() as marks:
        done = cluster.leave("leader")
    assert (done.type, done.value["target"], marks["leader removed"]) == ("ok", "n2", 1)
    assert "n2" not in cluster.members.ids.values()


def test_a_refusal_is_met_with_patience() -> None:
    cluster = Cluster()
    cluster.members.refusals = [UNHEALTHY] * 20
    done = cluster.leave()
    assert (done.type, done.value["target"]) == ("ok", "n4")
    assert set(cluster.members.asked) == {"n1 removes n4"}
    assert len(cluster.members.asked) == 21


def test_a_refusal_that_does_not_end_strikes_nobody() -> None:
    cluster = Cluster()
    cluster.members.refusals = [UNHEALTHY] * 1000
    with counted() as marks:
        done = cluster.leave()
    assert done.type == "ok"
    assert done.value["target"].startswith("none: the cluster refuses")
    assert "unhealthy cluster" in done.value["target"]
    assert (cluster.nodes.calls, done.value["down"]) == ([], [])
    assert not cluster.members.unsettled("n4")
    assert cluster.ledger.held_by_others("n4", "kill") == []
    assert 9 <= cluster.elapsed_s() <= 10
    assert marks["membership change refused"] == 1
    assert cluster.join().value["target"] == "none: every node is a member"


def test_patience_ends_before_the_clients_work_does() -> None:
    cluster = Cluster()
    cluster.members.refusals = [UNHEALTHY] * 1000
    order = list(FIVE)
    op = nemesis_op("leave", fault="membership", action="start", spec="one", order=order)
    late = msgspec.structs.replace(op, time=55_000_000_000)
    assert run(cluster.nemesis.invoke(cluster.context, late)).value["target"].startswith("none: the cluster refuses")
    assert 2 <= cluster.elapsed_s() <= 3


def test_where_another_fault_is_in_force_it_does_not_wait_and_takes_another_node_instead() -> None:
    cluster = Cluster()
    run(cluster.nodes.cut(around("n5")))
    cluster.members.refusals = [UNHEALTHY, UNHEALTHY]
    done = cluster.leave()
    assert (done.type, done.value["target"]) == ("ok", "n5")
    assert cluster.members.asked == ["n1 removes n4", "n2 removes n1", "n1 removes n5"]
    assert cluster.elapsed_s() == 0
    assert "n5" not in done.value["evidence"]["n5"]["unlisted by"]


def test_nobody_is_asked_who_has_no_majority() -> None:
    cluster = Cluster()
    run(cluster.nodes.cut(around("n1", "n2")))
    done = cluster.leave()
    assert (done.type, done.value["target"]) == ("ok", "n1"), "without n4 those who stay had no majority"
    assert cluster.members.asked == ["n3 removes n1"]


def test_an_answer_that_never_came_is_asked_for_again_and_what_was_done_is_found_done() -> None:
    cluster = Cluster()
    cluster.members.refusals = [DONE]
    done = cluster.leave()
    assert (done.type, done.value["target"]) == ("ok", "n4")
    assert cluster.members.asked == ["n1 removes n4", "n2 removes n4"]


def test_after_an_answer_that_never_came_a_refusal_proves_nothing() -> None:
    cluster = Cluster()
    cluster.members.refusals = [SILENCE, *[UNHEALTHY] * 1000]
    done = cluster.leave()
    assert done.type == "info"
    assert "it is unknown whether n4 left: n1: nothing came back" in str(done.error)
    assert cluster.nodes.states["n4"] == "running"
    assert cluster.members.unsettled("n4"), "it may end by itself"
    cluster.members.refusals = []
    joined = cluster.join()
    assert (joined.type, joined.value["target"], joined.value["down"]) == ("ok", "n4", [])
    assert cluster.nodes.lives["n4"] == 2, "it has left for good before it joins"
    assert sorted(cluster.members.ids.values()) == list(FIVE)


def test_one_node_is_out_at_a_time() -> None:
    cluster = Cluster()
    cluster.leave()
    done = cluster.leave()
    assert (done.type, done.value["target"], done.value["down"]) == ("ok", "none: n4 is still out", ["n4"])


def test_nobody_leaves_who_is_needed_for_a_majority_of_those_who_stay() -> None:
    three = Cluster(count=3)
    three.nodes.states["n1"] = "stopped"
    assert three.leave().value["target"] == "none: no member can be spared"

    five = Cluster()
    five.nodes.states["n1"] = "stopped"
    assert five.leave().value["target"] == "n4", "three of four are well"

    five = Cluster()
    five.nodes.states |= {"n1": "stopped", "n2": "paused"}
    assert five.leave().value["target"] == "none: no member can be spared"


def test_a_node_that_is_at_another_faults_mercy_is_passed_over() -> None:
    cluster = Cluster()
    cluster.nodes.states["n4"] = "paused"
    cluster.ledger.hold("n1", "disk")
    cluster.ledger.spoiled["n5"] = DiskFault(slow_ms=5)
    assert cluster.leave().value["target"] == "none: no member can be spared", "three of five are well"
    cluster.nodes.states["n4"] = "running"
    cluster.ledger.hold("n4", "restart")
    assert cluster.leave().value["target"] == "n2"


def test_without_a_majority_that_agrees_nobody_leaves() -> None:
    cluster = Cluster()
    cluster.members.ids.pop("an5")
    cluster.members.behind = {"n1", "n2"}
    assert cluster.leave().value["target"] == "none: no majority agrees on who is a member"


def test_a_member_that_the_others_go_on_listing_is_not_taken_for_gone() -> None:
    cluster = Cluster()
    cluster.members.behind = {"n3"}
    done = cluster.leave()
    assert done.type == "info"
    assert "n4 was removed, and others still list it" in str(done.error)
    assert cluster.nodes.calls == []


# --- joining ----------------------------------------------------------------------------------------------------------


def test_who_left_joins_as_another_member() -> None:
    cluster = Cluster()
    cluster.leave()
    with counted() as marks:
        done = cluster.join()
    assert (done.type, done.value["target"], done.value["down"]) == ("ok", "n4", [])
    told = done.value["evidence"]["n4"]
    assert told["member"] != "an4"
    assert told["listed by"] == {node: sorted(cluster.members.ids) for node in FIVE}
    assert cluster.nodes.lives["n4"] == 2
    assert not cluster.members.unsettled("n4")
    assert cluster.ledger.held_by_others("n4", "kill") == []
    assert marks["member added"] == 1
    assert cluster.leave("follower").value["target"] == "n4", "and may leave again"


def test_a_refusal_to_take_it_in_is_met_with_patience() -> None:
    cluster = Cluster()
    cluster.leave()
    cluster.members.refusals = [UNHEALTHY] * 20
    assert (cluster.join().value["target"], cluster.nodes.states["n4"]) == ("n4", "running")


def test_an_admission_that_was_never_answered_is_found_made() -> None:
    cluster = Cluster()
    cluster.leave()
    cluster.members.refusals = [DONE]
    assert cluster.join().type == "ok"
    assert cluster.members.asked[1:] == ["n1 adds n4", "n2 adds n4"]
    assert len(cluster.members.ids) == 5


def test_who_is_refused_while_another_fault_is_in_force_stays_out_and_joins_when_it_is_over() -> None:
    cluster = Cluster()
    cluster.leave()
    run(cluster.nodes.cut(around("n5")))
    cluster.members.refusals = [UNHEALTHY] * 1000
    done = cluster.join()
    assert (done.type, done.value["down"]) == ("ok", ["n4"])
    assert done.value["target"].startswith("none: n4 is not back")
    run(cluster.nodes.cut(frozenset()))
    cluster.members.refusals = [UNHEALTHY] * 3
    assert (cluster.join().value["target"], cluster.nodes.states["n4"]) == ("n4", "running")


def test_a_refusal_that_nothing_explains_is_no_success() -> None:
    cluster = Cluster()
    cluster.leave()
    cluster.members.refusals = [UNHEALTHY] * 1000
    done = cluster.join()
    assert (done.type, done.value["down"]) == ("info", ["n4"])
    assert "n4 did not join: n1: UNAVAILABLE" in str(done.error)


def test_a_node_that_does_not_start_at_once_is_started_again() -> None:
    cluster = Cluster()
    cluster.leave()
    tries: list[str] = []
    start = cluster.nodes.start

    async def stubborn(node: str) -> Any:
        tries.append(node)
        if len(tries) < 4:
            raise NodeStartError(f"{node} ended at once: it reaches nobody")
        return await start(node)

    cluster.nodes.start = stubborn
    assert (cluster.join().type, tries) == ("ok", ["n4"] * 4)


def test_a_node_is_not_started_while_it_would_hear_from_who_takes_it_for_the_member_that_left() -> None:
    cluster = Cluster()
    cluster.leave()
    cluster.members.behind = {"n3"}
    done = cluster.join()
    assert done.type == "info"
    assert "n4 was taken in, and n3 did not hear of it" in str(done.error)
    assert cluster.nodes.lives["n4"] == 1
    run(cluster.nodes.cut(around("n3")))
    assert (cluster.join().value["target"], cluster.members.unsettled("n4")) == ("n4", False)


def test_a_node_that_reaches_no_majority_is_not_even_taken_in() -> None:
    cluster = Cluster()
    cluster.leave()
    run(cluster.nodes.cut(around("n4", "n3")))
    done = cluster.join()
    assert (done.type, done.value["target"]) == ("ok", "none: n4 is not back (n4 reaches no majority)")
    assert cluster.members.asked == ["n1 removes n4"]


def test_a_node_that_does_not_serve_is_removed_and_taken_in_once_more() -> None:
    cluster = Cluster()
    cluster.leave()
    n4 = cluster.system.roles.pop("n4")
    done = cluster.join()
    assert done.type == "info"
    assert "n4 was taken in, and does not serve" in str(done.error)
    cluster.system.roles["n4"] = n4
    assert cluster.join().type == "ok"
    assert [asked.split(" ", 1)[1] for asked in cluster.members.asked] == [
        "removes n4",
        "adds n4",
        "removes n4",
        "adds n4",
    ]
    assert cluster.nodes.calls.count("spoil n4") == 2
    assert len(cluster.members.ids) == 5


@pytest.mark.parametrize("behind", ["n3", "n4"])
def test_lists_that_differ_once_it_serves_are_no_success(behind: str) -> None:
    cluster = Cluster()
    cluster.leave()
    start = cluster.nodes.start

    async def ignorant(node: str) -> Any:
        cluster.members.behind = {behind}
        return await start(node)

    cluster.nodes.start = ignorant
    assert "n4 was taken in, and the members' lists differ" in str(cluster.join().error)


# --- the end ----------------------------------------------------------------------------------------------------------


def test_a_kill_beside_it_leaves_who_left_alone() -> None:
    cluster = Cluster()
    cluster.leave()
    killer = kill(cluster.ledger)
    done = run(killer.invoke(cluster.context, nemesis_op("start", fault="kill", action="stop")))
    assert (done.type, done.value["down"]) == ("ok", ["n4"])


def test_healing_takes_everybody_in_again_and_forgets() -> None:
    cluster = Cluster()
    cluster.leave()
    cluster.members.refusals = [UNHEALTHY] * 40
    cluster.heal()
    assert sorted(cluster.members.ids.values()) == list(FIVE)
    assert cluster.nodes.states["n4"] == "running"
    before = len(cluster.members.asked)
    cluster.heal()
    assert len(cluster.members.asked) == before


def test_who_cannot_be_taken_in_until_a_recovery_must_be_over_stays_out() -> None:
    cluster = Cluster()
    cluster.leave()
    cluster.members.refusals = [UNHEALTHY] * 10_000
    with counted() as marks:
        cluster.heal()
    assert 20 <= cluster.elapsed_s() <= 30
    assert marks["member did not come back"] == 1
    assert cluster.members.unsettled("n4")


def test_healing_waits_for_a_node_that_takes_over_a_snapshot_in_parts_and_only_then_starts_who_joins() -> None:
    cluster = Cluster()
    cluster.leave()
    cluster.members.behind = {"n3"}
    view = cluster.system.view
    needs_s = 3 * cluster.context.test.recovery_s

    async def catching_up(deployment: Any, node: str) -> Any:
        said = await view(deployment, node)
        if said is None or node != "n3":
            return said
        if cluster.elapsed_s() >= needs_s:
            cluster.members.behind.clear()
            return said
        return msgspec.structs.replace(said, received_bytes=1 + round(1000 * cluster.elapsed_s()))

    cluster.system.view = catching_up  # type: ignore[method-assign]
    with counted() as marks:
        cluster.heal()
    assert needs_s <= cluster.elapsed_s() < needs_s + 15
    assert marks["member did not come back"] == 0
    assert (cluster.nodes.states["n4"], cluster.members.unsettled("n4")) == ("running", False)


def test_healing_ends_where_a_node_hears_of_no_change_and_who_left_is_not_started() -> None:
    cluster = Cluster()
    cluster.leave()
    cluster.members.behind = {"n3"}
    with counted() as marks:
        cluster.heal()
    assert 20 <= cluster.elapsed_s() <= 60
    assert marks["member did not come back"] == 1
    assert (cluster.nodes.states["n4"], cluster.nodes.lives["n4"]) == ("stopped", 1)
    assert cluster.members.unsettled("n4")


def test_healing_is_no_error_where_a_removed_member_stays_listed() -> None:
    cluster = Cluster()
    cluster.leave()
    n4 = cluster.system.roles.pop("n4")
    assert cluster.join().type == "info"
    cluster.system.roles["n4"] = n4
    stays = next(member for member, node in cluster.members.ids.items() if node == "n4")

    async def listed(deployment: Any, node: str) -> dict[str, str]:
        return {**cluster.members.ids, stays: "n4"}

    cluster.members.members = listed  # type: ignore[method-assign]
    with counted() as marks:
        cluster.heal()
    assert marks["member did not come back"] == 1
    assert cluster.members.unsettled("n4")


# --- rash leaves ------------------------------------------------------------------------------------------------------


def test_a_rash_leave_asks_who_leads_to_remove_those_first_that_it_does_not_reach() -> None:
    cluster = Cluster(leader="n2")
    run(cluster.nodes.cut(around("n1", "n2")))
    with counted() as marks:
        done = cluster.leave_rashly()
    assert (done.type, done.value["target"]) == ("ok", "n4 n5")
    assert cluster.members.asked == ["n2 removes n4", "n2 removes n5"]
    assert done.value["evidence"]["asked"] == [["n2", "n4", "done"], ["n2", "n5", "done"]]
    assert set(cluster.nodes.states.values()) == {"running"}
    assert marks["members removed rashly"] == 1


def test_all_who_say_they_lead_are_asked_or_only_one_of_them() -> None:
    for spec, asked in (("primaries", {"n1", "n2"}), ("one", {"n1"})):
        cluster = Cluster(leader="n2")
        cluster.system.roles["n1"] = ("leader", 2, "n1")
        cluster.leave_rashly(spec)
        assert {each.partition(" ")[0] for each in cluster.members.asked} == asked


def test_who_was_removed_rashly_joins_again_and_who_was_not_stays_as_it_is() -> None:
    cluster = Cluster(leader="n2")
    cluster.members.refusals = [None, DefiniteError("one change at a time")]
    cluster.leave_rashly()
    assert sorted(cluster.members.open) == ["n1", "n4"]
    done = cluster.join()
    assert (done.type, done.value["target"]) == ("ok", "n4 n1")
    assert cluster.members.asked[2:] == ["n1 adds n4"]
    assert cluster.nodes.calls == ["stopped n4", "spoil n4", "unspoil n4", "running n4"]
    assert sorted(cluster.members.ids.values()) == list(FIVE)
    assert cluster.members.open == set()
    assert cluster.ledger.held_by_others("n1", "kill") == []


def test_as_long_as_members_list_different_members_nothing_is_concluded() -> None:
    cluster = Cluster(leader="n2")
    cluster.leave_rashly()
    cluster.members.behind = {"n3"}
    done = cluster.join()
    assert done.value["target"] == "none: it is not known yet who is a member"
    assert cluster.members.open == {"n1", "n4"}
    cluster.heal()  # it gives up: that is for recovery to judge
    assert cluster.members.open == {"n1", "n4"}
    cluster.members.behind = set()
    cluster.heal()
    assert cluster.members.open == set()
    assert sorted(cluster.members.ids.values()) == list(FIVE)


def test_who_was_removed_is_ended_only_by_nodes_that_can_be_asked() -> None:
    cluster = Cluster(leader="n2")
    cluster.leave_rashly()
    run(cluster.nodes.cut(around("n2") | around("n3")))
    done = cluster.join()
    assert (done.type, done.value["target"]) == ("ok", "none: it is not known yet who is a member")
    assert cluster.members.open == {"n1", "n4"}
    run(cluster.nodes.cut(frozenset()))
    assert cluster.join().type == "ok"
    assert cluster.members.open == set()
    assert sorted(cluster.members.ids.values()) == list(FIVE)


def test_a_node_in_doubt_that_another_fault_has_paused_is_neither_started_nor_settled() -> None:
    cluster = Cluster(leader="n2")
    cluster.leave_rashly()
    out = [node for node in FIVE if cluster.members.unsettled(node)]
    run(cluster.nodes.pause(out[0]))
    cluster.members.behind = {"n3"}
    started: list[str] = []
    start = cluster.nodes.start

    async def noted(node: str) -> Any:
        started.append(node)
        return await start(node)

    cluster.nodes.start = noted
    done = cluster.join()
    assert out[0] not in started
    assert cluster.members.unsettled(out[0])
    assert (done.type, cluster.nodes.states[out[0]]) == ("ok", "paused")


def test_who_was_added_by_a_request_without_an_answer_starts_before_another_one_is_added() -> None:
    """Else both are listed, neither runs, and those that run are no majority: n1 was taken in without an answer."""
    cluster = Cluster(leader="n2")
    cluster.leave_rashly()
    run(cluster.nodes.cut(around("n5")))  # another fault: the join does not wait for long
    cluster.members.refusals = [UNHEALTHY] * 1000
    cluster.join()
    run(cluster.nodes.cut(frozenset()))
    cluster.members.refusals = []
    cluster.members.ids["b9n1"] = "n1"
    cluster.members.asked.clear()
    assert cluster.join().type == "ok"
    assert [word.split(" ", 1)[1] for word in cluster.members.asked] == ["adds n1", "adds n4"]
    assert [call for call in cluster.nodes.calls if call.startswith("running")] == ["running n1", "running n4"]


def test_no_voter_is_added_while_those_that_run_would_be_no_majority_then() -> None:
    cluster = Cluster(leader="n2")
    cluster.leave()
    cluster.members.ids |= {"b7n8": "n8", "b8n9": "n9"}
    assert len(cluster.members.ids) == 6, "four of them run: enough for six, and not for seven with 3 that do not run"
    cluster.members.ids["b6n7"] = "n7"
    done = cluster.join()
    assert cluster.members.asked[1:] == [], "it is not even requested"
    assert done.type == "info"
    assert "too few run for one more" in str(done.error)
    del cluster.members.ids["b6n7"]
    assert cluster.join().type == "ok"


def test_after_a_rash_leave_no_other_one_begins_before_a_join() -> None:
    cluster = Cluster(leader="n2")
    cluster.leave_rashly()
    assert cluster.leave_rashly().value["target"] == "none: n4 n1 is still out"


def test_a_system_whose_members_are_fixed_is_not_asked() -> None:
    cluster = Cluster()
    cluster.system.membership = None
    done = cluster.leave()
    assert (done.type, done.error) == ("info", "membership: the members of system 'roles' are fixed.")


# --- replacing, and learners ------------------------------------------------------------------------------------------


def test_a_node_is_taken_in_again_while_another_one_is_removed() -> None:
    cluster = Cluster()
    with counted() as marks:
        done = cluster.replace()
    assert (done.type, done.value["down"]) == ("ok", ["n1"])
    assert done.value["target"] == "n4 n1"
    assert cluster.members.asked[0] == "n1 removes n4"
    assert sorted(asked.partition(" ")[2] for asked in cluster.members.asked[1:]) == ["adds n4", "removes n1"]
    assert sorted(cluster.members.ids.values()) == ["n2", "n3", "n4", "n5"]
    assert done.value["evidence"]["replaced"] == [None, None]
    assert (marks["member replaced"], marks["member removed"], marks["member added"]) == (1, 2, 1)
    assert cluster.join().value["target"] == "n1"
    assert sorted(cluster.members.ids.values()) == list(FIVE)


def test_a_replacement_whose_second_removal_is_refused_leaves_all_nodes_in() -> None:
    cluster = Cluster()
    cluster.members.refusals = [None, None, *[UNHEALTHY] * 1000]
    with counted() as marks:
        done = cluster.replace()
    assert done.type == "ok"
    assert marks["member replaced"] == 0
    assert "unhealthy" in "".join(map(str, done.value["evidence"]["replaced"]))


def test_a_node_joins_as_a_learner_and_is_promoted_when_the_fault_ends() -> None:
    cluster = Cluster()
    with counted() as marks:
        done = cluster.learn()
        assert (done.type, done.value["target"], done.value["down"]) == ("ok", "n4", [])
        (member,) = cluster.members.learners
        assert cluster.members.ids[member] == "n4"
        assert not cluster.members.unsettled("n4")
        assert cluster.leave().value["target"] == "none: n4 is still out"
        done = cluster.join()
    assert (done.type, done.value["target"]) == ("ok", "n4")
    assert done.value["evidence"]["n4"]["member"] == member
    assert cluster.members.learners == set()
    assert (marks["member joined as learner"], marks["learner promoted"]) == (1, 1)
    assert cluster.join().value["target"] == "none: every node is a member"


def test_a_learner_is_promoted_when_everything_is_healed() -> None:
    cluster = Cluster()
    cluster.learn()
    cluster.members.refusals = [UNHEALTHY] * 3
    cluster.heal()
    assert cluster.members.learners == set()

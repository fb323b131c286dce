"""Nemeses at moments: the node that passes the mark is hit in the way that the op says, and healed; no other is."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import pytest

from splitbrain.harness.contract.moments import Act, Moment, Passed
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.rng import Rng
from splitbrain.nemesis import bounce_at_moments, moment
from splitbrain.nemesis.bounce_at_moments import BounceAtMoments
from splitbrain.nemesis.catalogue import build, reduced
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.moment import AtMoment
from splitbrain.nemesis.requests import complete, needs_of, passed_in
from splitbrain.results.errors import NodeStartError, UnknownNameError, UsageError
from splitbrain.results.history import Op
from tests.nemesis.support import FIVE, Nodes, context, led_by, nemesis_op, run


class Marked(Nodes):
    """Nodes of which it is known beforehand which marks they pass."""

    def pass_next(self, *passed: tuple[NodeId, str]) -> None:
        self.coming = deque(passed)

    async def at_moment(self, moments: Sequence[Moment], act: Act, within_ns: int) -> Passed | None:
        for node, mark in list(self.coming):
            for each in moments:
                if each.mark == mark and each.node in (None, node):
                    self.coming.remove((node, mark))
                    await act(node)
                    return Passed(each, node)
        return None


def marked(*passed: tuple[NodeId, str]) -> Marked:
    nodes = Marked()
    nodes.pass_next(*passed)
    return nodes


def awaited(nodes: Marked, nemesis: AtMoment, inject: str, **fields: Any) -> Op:
    wanted = {"moments": [{"mark": "vote granted"}], "inject": inject, **fields}
    op = nemesis_op("await-moment", fault="moment", action="start", **wanted)
    return run(nemesis.invoke(context(nodes, led_by("n1")), op))


def stopped(nodes: Marked, nemesis: AtMoment) -> Op:
    op = nemesis_op("stop-moment", fault="moment", action="stop")
    return run(nemesis.invoke(context(nodes, led_by("n1")), op))


def states(nodes: Marked) -> dict[str, str]:
    return {node: state for node, state in nodes.states.items() if state != "running"}


@pytest.mark.parametrize(("inject", "state"), [("kill", "stopped"), ("power", "stopped"), ("pause", "paused")])
def test_the_node_that_passes_the_mark_is_stopped_and_runs_again(inject: str, state: str) -> None:
    nodes, nemesis = marked(("n4", "election won"), ("n3", "vote granted")), AtMoment()
    done = awaited(nodes, nemesis, inject)
    assert (done.type, done.value["target"], states(nodes)) == ("ok", "n3", {"n3": state})
    assert done.value["evidence"]["passed"] == {"mark": "vote granted", "occurrence": 1}
    assert done.value["evidence"]["n3"]["after"]["state"] == state
    assert ("lost" in done.value["evidence"]["n3"]) is (inject == "power")
    healed = stopped(nodes, nemesis)
    assert (healed.type, healed.value["target"], states(nodes)) == ("ok", "n3", {})


def test_a_node_is_cut_off_and_connected_again_but_not_in_a_network_that_is_cut_already() -> None:
    nodes, nemesis = marked(("n3", "vote granted"), ("n2", "vote granted")), AtMoment()
    assert awaited(nodes, nemesis, "cut").value["target"] == "n3"
    assert len(nodes.cut_links) == 8
    assert all("n3" in link for link in nodes.cut_links)
    stopped(nodes, nemesis)
    assert nodes.cut_links == {}
    nodes.cut_links = {("n4", "n5"): 0}
    assert awaited(nodes, nemesis, "cut").value["target"] == "none: n2 could not be hit at that moment"
    stopped(nodes, nemesis)
    assert list(nodes.cut_links) == [("n4", "n5")]


@pytest.mark.parametrize("dropped", [0, 3])
def test_a_cut_that_swallowed_nothing_did_nothing(dropped: int) -> None:
    nodes, nemesis = marked(("n3", "vote granted")), AtMoment()
    awaited(nodes, nemesis, "cut")
    nodes.cut_links["n3", "n1"] = dropped
    assert stopped(nodes, nemesis).value["evidence"] == {"dropped": dropped, "bit": dropped > 0}


def test_a_clock_jumps_and_is_set_right_but_one_that_is_wrong_already_is_left_alone() -> None:
    ledger = Ledger()
    nodes, nemesis = marked(("n3", "vote granted"), ("n3", "vote granted")), AtMoment(ledger)
    assert awaited(nodes, nemesis, "clock", offset_ms=500).value["clocks"] == ["n3"]
    assert nodes.clocks["n3"].offset_ms == 500
    again = AtMoment(ledger)
    assert awaited(nodes, again, "clock", offset_ms=9).value["target"] == "none: n3 could not be hit at that moment"
    assert stopped(nodes, nemesis).value.get("clocks", []) == []
    assert "n3" not in nodes.clocks


def test_what_did_not_come_was_not_injected() -> None:
    nodes, nemesis = marked(("n3", "election won")), AtMoment()
    done = awaited(nodes, nemesis, "kill")
    assert done.type == "ok"
    assert done.value["target"] == "none: no such moment came within 2,000 ms"
    assert done.value["evidence"] == {"waits": True}
    assert states(nodes) == {}
    assert stopped(nodes, nemesis).value["target"] == "none: no node has this fault"


def test_a_node_that_survives_makes_it_info() -> None:
    nodes = marked(("n3", "vote granted"))
    nodes.immortal.add("n3")
    done = awaited(nodes, AtMoment(), "kill")
    assert (done.type, done.error) == ("info", "moment: n3 is running instead of stopped.")


def test_a_node_that_another_fault_keeps_down_stays_down() -> None:
    ledger = Ledger()
    nodes, nemesis = marked(("n3", "vote granted")), AtMoment(ledger)
    awaited(nodes, nemesis, "kill")
    ledger.hold("n3", "disk")
    stopped(nodes, nemesis)
    assert states(nodes) == {"n3": "stopped"}


def test_a_backend_that_hears_no_marks_says_so() -> None:
    class Deaf(Nodes):
        at_moment: Any = None

    op = nemesis_op("await-moment", fault="moment", action="start", moments=[{"mark": "vote granted"}])
    done = run(AtMoment().invoke(context(Deaf(), led_by("n1")), op))
    assert (done.type, done.error) == ("info", "this backend does not hear which marks nodes pass.")


# --- bouncing ---------------------------------------------------------------------------------------------------------


def bounced(nodes: Marked, nemesis: BounceAtMoments, **fields: Any) -> Op:
    wanted = {"moments": [{"mark": "vote granted"}], "downs_ms": [1], "over": True, **fields}
    op = nemesis_op("bounce-at-moments", fault="bounce-at-moments", action="start", **wanted)
    return run(nemesis.invoke(context(nodes, led_by("n1")), op))


def test_nodes_are_bounced_as_often_as_an_op_says() -> None:
    nodes = marked(("n3", "vote granted"), ("n2", "election won"), ("n3", "vote granted"), ("n4", "vote granted"))
    done = bounced(nodes, BounceAtMoments(), times=2)
    assert (done.type, done.value["target"], states(nodes)) == ("ok", "n3", {})
    assert [each["node"] for each in done.value["evidence"]["bounces"]] == ["n3", "n3"]
    assert done.value["evidence"]["bit"] is True
    assert nodes.lives == {"n1": 1, "n2": 1, "n3": 3, "n4": 1, "n5": 1}


def test_the_leader_is_bounced_first_and_alone_that_counts_for_nothing() -> None:
    nodes = marked()
    done = bounced(nodes, BounceAtMoments(), first="leader", inject="power")
    assert (done.type, done.value["target"], nodes.lives["n1"]) == ("ok", "n1", 2)
    assert done.value["evidence"]["bit"] is False
    assert done.value["evidence"]["waits"] is True


def test_a_node_that_does_not_come_back_makes_it_info_and_is_started_when_it_stops() -> None:
    class Stubborn(Marked):
        refuses = True

        async def start(self, node: str) -> Any:
            if self.refuses:
                raise NodeStartError(f"{node} does not start")
            return await super().start(node)

    nodes, nemesis = Stubborn(), BounceAtMoments()
    nodes.pass_next(("n3", "vote granted"))
    done = bounced(nodes, nemesis)
    assert (done.type, done.error) == ("info", "bounce-at-moments: n3: n3 does not start.")
    nodes.refuses = False
    stop = nemesis_op("stop-bounce-at-moments", fault="bounce-at-moments", action="stop")
    healed = run(nemesis.invoke(context(nodes, led_by("n1")), stop))
    assert (healed.type, healed.value["target"], states(nodes)) == ("ok", "n3", {})


def test_a_node_that_another_fault_keeps_down_is_left_alone() -> None:
    ledger = Ledger()
    ledger.hold("n3", "disk")
    nodes = marked(("n3", "vote granted"))
    assert bounced(nodes, BounceAtMoments(ledger)).value["evidence"]["bounces"] == []
    assert nodes.lives["n3"] == 1


# --- requests ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "request_", "says"),
    [
        ("await-moment", {}, "await-moment needs 1 to 100 moments"),
        ("await-moment", {"moments": [{"mark": "a", "node": "n9"}]}, "a moment names 'n9'; the nodes are n1"),
        ("await-moment", {"moments": [{"mark": "a", "occurrence": 0}]}, "occurrence is a whole number of 1 to"),
        ("await-moment", {"moments": [{"mark": "a", "after_us": -1}]}, "after_us is a whole number of 0 to"),
        ("await-moment", {"moments": [{"mark": "a", "when": 1}]}, "unknown field `when`"),
        ("await-moment", {"moments": [{"mark": "a"}], "inject": "axe"}, "Invalid enum value 'axe'"),
        ("await-moment", {"moments": [{"mark": "a"}], "inject": "clock"}, "offset_ms is how far the clock jumps"),
        ("await-moment", {"moments": [{"mark": "a"}], "offset_ms": 1}, "offset_ms is how far the clock jumps"),
        ("await-moment", {"moments": [{"mark": "a"}], "within_ms": 30_000}, "within_ms is a whole number of 1 to 20"),
        ("bounce-at-moments", {"moments": [{"mark": "a"}]}, "each moment has a time in downs_ms"),
        ("bounce-at-moments", {"moments": [{"mark": "a"}], "downs_ms": [1], "times": 0}, "times is a whole number"),
        ("bounce-at-moments", {"moments": [{"mark": "a"}], "downs_ms": [1], "first": "boss"}, "no node spec 'boss'"),
        ("bounce-at-moments", {"moments": [{"mark": "a"}], "downs_ms": [19_000]}, "are 20,000 ms at most"),
        ("bounce-at-moments", {"moments": [{"mark": "a"}], "downs_ms": [1], "over": False}, "remove over"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(f: str, request_: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        complete(f, request_, FIVE)


def test_a_request_says_what_it_needs_and_which_marks_it_waits_for() -> None:
    asked = {"moments": [{"mark": "a"}, {"mark": "b"}], "inject": "power", "downs_ms": [1, 1]}
    assert needs_of("bounce-at-moments", asked) == {"moment", "power"}
    assert passed_in("bounce-at-moments", asked) == ("a", "b")
    del asked["downs_ms"]
    assert needs_of("await-moment", {**asked, "inject": "clock"}) == {"moment", "clock-jump"}
    assert passed_in("stop-moment", None) == passed_in("kill", {}) == passed_in("nothing", None) == ()


def test_without_some_nodes_a_request_waits_for_the_others_only() -> None:
    asked = {"moments": [{"mark": "a", "node": "n1"}, {"mark": "b"}]}
    assert reduced("await-moment", asked, ["n1"]) == {"moments": [{"mark": "b"}]}
    assert reduced("await-moment", {"moments": [{"mark": "a", "node": "n1"}]}, ["n1"]) is None


@pytest.mark.parametrize("kind", [moment.KIND, bounce_at_moments.KIND], ids=lambda kind: kind.name)
def test_marks_are_drawn_from_those_of_the_system_and_every_draw_can_be_carried_out(kind: Any) -> None:
    rng, marks, drawn = Rng(1), ("a", "b", "c"), set[str]()
    injections = [each for ways in kind.ways.values() for group in ways.rounds for each in group]
    for injection in injections * 5:
        value = dict(injection.with_marks(marks).draw(FIVE, rng))
        drawn |= set(passed_in(kind.start_f, value))
        complete(kind.start_f, value, FIVE)
    assert drawn == set(marks)
    with pytest.raises(UsageError, match="build the package with marks="):
        injections[0].draw(FIVE, rng)


def test_a_package_needs_no_more_than_its_ways() -> None:
    assert build(["moment-pause"], marks=["a"]).faults == {"moment", "pause"}
    assert build(["bounce-at-moments"], marks=["a"]).faults == {"moment", "kill", "power"}


def test_an_unknown_node_spec_is_refused_while_a_run_is_under_way_too() -> None:
    assert "boss" in str(bounced(marked(), BounceAtMoments(), first="boss").error)
    with pytest.raises(UnknownNameError):
        complete("bounce-at-moments", {"moments": [{"mark": "a"}], "downs_ms": [1], "first": "boss"}, FIVE)

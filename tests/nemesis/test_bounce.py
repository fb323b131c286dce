"""Bouncing: every node that ran is killed and started again in the order that was drawn; others are left alone."""

from __future__ import annotations

from typing import Any

from splitbrain.harness.contract.nodes import NodeView
from splitbrain.nemesis.bounce import Bounce
from splitbrain.nemesis.ledger import Ledger
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import NodeStartError
from splitbrain.results.faults import run_events
from splitbrain.results.history import NEMESIS, Op
from tests.nemesis.support import Nodes, Roles, context, led_by, run


def bounced(nodes: Nodes, *names: str, nemesis: Bounce | None = None) -> Op:
    value: dict[str, Any] = {"fault": "bounce", "action": "start", "over": True}
    value |= {"nodes": list(names), "pauses_ms": [20] * len(names)}
    op = Op(process=NEMESIS, type="invoke", f="bounce", value=value)
    return run((nemesis or Bounce()).invoke(context(nodes, led_by("n2")), op))


def test_nodes_that_run_get_new_lives_and_those_that_are_down_or_paused_are_left_alone() -> None:
    nodes = Nodes()
    nodes.states |= {"n3": "stopped", "n4": "paused"}
    done = bounced(nodes, "n1", "n3", "n2", "n1", "n4")
    assert done.type == "ok", done.error
    assert done.value["evidence"] == {"restarts": {"n1": 2, "n2": 1}}
    assert done.value["target"] == "n1 n2"
    assert nodes.states == {"n1": "running", "n2": "running", "n3": "stopped", "n4": "paused", "n5": "running"}


def test_a_node_in_which_another_fault_has_a_say_is_left_alone() -> None:
    ledger = Ledger()
    ledger.hold("n1", "disk")
    done = bounced(Nodes(), "n1", "n2", nemesis=Bounce(ledger))
    assert (done.type, done.value["evidence"]) == ("ok", {"restarts": {"n2": 1}})


def test_a_node_that_does_not_come_back_makes_it_info_and_is_started_when_it_stops() -> None:
    class Stubborn(Nodes):
        refuses = True

        async def start(self, node: str) -> Any:
            if node == "n2" and self.refuses:
                raise NodeStartError("n2 does not start")
            return await super().start(node)

    nodes, nemesis = Stubborn(), Bounce()
    done = bounced(nodes, "n1", "n2", "n3", nemesis=nemesis)
    assert (done.type, done.error) == ("info", "bounce: n2 did not come back.")
    assert done.value["down"] == ["n2"]
    nodes.refuses = False
    stop = Op(process=NEMESIS, type="invoke", f="stop-bounce", value={"fault": "bounce", "action": "stop"})
    healed = run(nemesis.invoke(context(nodes, led_by("n1")), stop))
    assert (healed.type, healed.value["target"]) == ("ok", "n2")
    assert nodes.states["n2"] == "running"


def test_strangers_and_requests_without_nodes_are_refused() -> None:
    assert bounced(Nodes(), "n9").error == "a bounce of n9: the nodes are n1, n2, n3, n4, n5."
    assert bounced(Nodes()).error == "a bounce of no nodes: the nodes are n1, n2, n3, n4, n5."


def test_the_window_of_a_bounce_is_its_op() -> None:
    value = {"fault": "bounce", "action": "start", "over": True, "nodes": ["n1"], "pauses_ms": [20], "target": "n1"}
    ops = [
        Op(index=0, time=10, process=NEMESIS, type="invoke", f="bounce", value=value),
        Op(index=1, time=90, process=NEMESIS, type="ok", f="bounce", value=value),
        Op(index=2, time=500, process=NEMESIS, type="invoke", f="stop-bounce", value={"action": "stop"}),
    ]
    (window,) = run_events(to_table(ops)).windows
    assert (window.begin_ns, window.end_ns) == (10, 90)


def test_in_an_election_the_leader_stays_down_while_whoever_votes_is_bounced_in_order() -> None:
    class Election(Roles):
        """After its leader is gone n4 stands for election, and wins once two others have been bounced."""

        async def view(self, deployment: Any, node: str) -> NodeView | None:
            if deployment.states["n2"] != "running" and node == "n4":
                bounced = sum(deployment.lives[name] - 1 for name in ("n1", "n3", "n5"))
                return NodeView(node="n4", role="leader" if bounced >= 3 else "candidate", term=4, leader=None)
            return await super().view(deployment, node)

    nodes = Nodes()
    system = Election(led_by("n2").roles)
    value = {"fault": "bounce", "action": "start", "over": True, "when": "election", "order": ["n5", "n3", "n1"]}
    op = Op(process=NEMESIS, type="invoke", f="bounce", value=value)
    done = run(Bounce().invoke(context(nodes, system), op))
    assert done.type == "ok", done.error
    assert done.value["target"] == "n2 n5 n3 n1"
    assert done.value["evidence"] == {"killed": "n2", "restarts": {"n5": 1, "n3": 1, "n1": 1}}
    assert set(nodes.states.values()) == {"running"}

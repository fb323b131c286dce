"""Restarts of all nodes: one after the other, all at once, and in one order and back in another."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.harness.contract.marks import counted
from splitbrain.harness.contract.nodes import NodeView
from splitbrain.harness.contract.rng import Streams
from splitbrain.nemesis.catalogue import build
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.restart import KIND, RestartRequest, Restarts, check, draw
from splitbrain.nemesis.restarting import BACK_S
from splitbrain.results.errors import BackendError, NodeStartError, UsageError
from splitbrain.results.history import Op
from tests.nemesis.support import FIVE, Nodes, Roles, context, led_by, nemesis_op, run

ORDER = ["n4", "n1", "n5", "n2", "n3"]


def restarted(
    nodes: Nodes, roles: Roles, nemesis: Restarts | None = None, order: list[str] = ORDER, **request: Any
) -> Op:
    op = nemesis_op("restart", fault="restart", action="start", over=True, order=order, **request)
    return run((nemesis or Restarts()).invoke(context(nodes, roles), op))


class SlowToAnswer(Roles):
    """Every node is silent for the first three times that it is asked after a start; notes who was down meanwhile."""

    def __init__(self) -> None:
        super().__init__(led_by("n2").roles)
        self.asked: dict[tuple[str, int], int] = {}
        self.down: list[list[str]] = []

    async def view(self, deployment: Any, node: str) -> NodeView | None:
        self.down.append([other for other in FIVE if deployment.states[other] != "running"])
        life = node, deployment.lives[node]
        self.asked[life] = self.asked.get(life, 0) + 1
        return None if self.asked[life] <= 3 else await super().view(deployment, node)


def test_every_node_gets_one_new_life_in_the_order_of_the_op_and_the_next_waits_until_it_answers() -> None:
    nodes, roles = Nodes(), SlowToAnswer()
    with counted() as marks:
        done = restarted(nodes, roles)
    assert (done.type, done.value["target"]) == ("ok", " ".join(ORDER))
    assert [call for call in nodes.calls if call.startswith("stopped")] == [f"stopped {node}" for node in ORDER]
    assert all(seen["lives"] == [1, 2] and seen["answered"] for seen in done.value["evidence"].values())
    assert all(seen["away_ms"] == 150 for seen in done.value["evidence"].values())
    assert list(roles.asked.values()) == [4] * 5
    assert not any(roles.down), "no node is asked while another is down"
    assert marks["rolling restart"] == 1


def test_nodes_that_are_down_or_paused_or_at_another_faults_mercy_are_left_alone() -> None:
    nodes, ledger = Nodes(), Ledger()
    nodes.states |= {"n1": "stopped", "n2": "paused"}
    ledger.hold("n3", "disk")
    with counted() as marks:
        done = restarted(nodes, led_by("n5"), Restarts(ledger))
    assert done.value["target"] == "n4 n5"
    assert (nodes.states["n1"], nodes.states["n2"], nodes.lives["n3"]) == ("stopped", "paused", 1)
    assert marks["rolling restart"] == 0


def test_a_node_that_never_answers_is_not_waited_for_longer_than_the_limit() -> None:
    roles = led_by("n2")
    del roles.roles["n1"]
    done = restarted(Nodes(), roles)
    assert done.type == "ok"
    seen = done.value["evidence"]["n1"]
    assert (seen["answered"], seen["away_ms"]) == (False, BACK_S * 1000)
    assert done.value["evidence"]["n3"]["answered"]


def test_a_node_that_does_not_start_makes_it_info_and_is_started_when_it_stops() -> None:
    class Stubborn(Nodes):
        refuses = True

        async def start(self, node: str) -> Any:
            if node == "n5" and self.refuses:
                raise NodeStartError("n5 does not start")
            return await super().start(node)

    nodes, nemesis = Stubborn(), Restarts()
    done = restarted(nodes, led_by("n2"), nemesis)
    assert (done.type, done.error) == ("info", "restart: n5 did not come back.")
    assert done.value["down"] == ["n5"]
    nodes.refuses = False
    stop = nemesis_op("stop-restart", fault="restart", action="stop")
    healed = run(nemesis.invoke(context(nodes, led_by("n2")), stop))
    assert (healed.type, healed.value["target"], nodes.states["n5"]) == ("ok", "n5", "running")


def test_an_order_of_strangers_restarts_nobody() -> None:
    nodes = Nodes()
    done = restarted(nodes, led_by("n2"), order=["n1", "n9"])
    assert (done.type, nodes.lives["n1"]) == ("info", 1)
    assert "restart of n9" in str(done.error)


def test_all_nodes_end_before_the_first_of_them_starts_at_once() -> None:
    nodes = Nodes()
    with counted() as marks:
        done = restarted(nodes, led_by("n2"), how="at-once")
    assert nodes.calls == [f"stopped {node}" for node in ORDER] + [f"running {node}" for node in ORDER]
    assert (done.type, done.value["target"]) == ("ok", " ".join(ORDER))
    assert all(seen == {"lives": [1, 2], "answered": True, "away_ms": 0} for seen in done.value["evidence"].values())
    assert (marks["restarted at once"], marks["rolling restart"]) == (1, 0)


def test_nodes_come_back_in_the_order_that_the_op_says() -> None:
    nodes, back = Nodes(), ["n3", "n1", "n4", "n2", "n5"]
    nodes.states["n4"] = "stopped"
    with counted() as marks:
        done = restarted(nodes, led_by("n2"), how="any-order", back=back, pauses_ms=[10] * 5)
    assert nodes.calls == [
        *(f"stopped {node}" for node in ORDER[1:]),
        *(f"running {node}" for node in back if node != "n4"),
    ]
    assert (done.type, marks["restarted in another order"]) == ("ok", 0), "n4 was down already"


def test_a_node_that_does_not_come_back_with_the_others_is_started_when_it_stops() -> None:
    nodes, nemesis = Nodes(broken={"n5"}), Restarts()
    done = restarted(nodes, led_by("n2"), nemesis, how="at-once")
    assert (done.type, done.error) == ("info", "restart: n5 did not come back.")
    nodes.broken.clear()
    run(nemesis.heal(context(nodes, led_by("n2"))))
    assert set(nodes.states.values()) == {"running"}


HOW: dict[str, dict[str, Any]] = {
    "rolling": {},
    "at-once": {},
    "any-order": {"back": ["n3", "n1", "n4", "n2", "n5"], "pauses_ms": [10] * 5},
}
"""Ways to restart nodes, with what each needs beside."""


@pytest.mark.parametrize("how", HOW)
def test_nodes_stop_in_good_order_where_the_op_says_so(how: str) -> None:
    nodes = Nodes()
    with counted() as marks:
        done = restarted(nodes, led_by("n2"), how=how, ends="stop", **HOW[how])
    assert done.type == "ok"
    assert [call for call in nodes.calls if call.startswith("asked")] == [f"asked {node}" for node in ORDER]
    assert set(done.value["evidence"]) == set(FIVE)
    for seen in done.value["evidence"].values():
        assert (seen["stopped"], seen["exit"], seen["lives"]) == ("in good order", "exit code 0", [1, 2])
    assert marks["restarted in good order"] == 1


@pytest.mark.parametrize("how", HOW)
def test_a_node_that_had_to_be_killed_did_not_stop_in_good_order(how: str) -> None:
    nodes = Nodes(deaf={"n5"})
    with counted() as marks:
        done = restarted(nodes, led_by("n2"), how=how, ends="stop", **HOW[how])
    assert (done.type, marks["restarted in good order"]) == ("ok", 0)
    seen = done.value["evidence"]
    assert (seen["n5"]["stopped"], seen["n5"]["exit"]) == ("killed", "SIGKILL")
    assert seen["n4"]["stopped"] == "in good order"


@pytest.mark.parametrize(
    ("ended", "stopped"),
    [
        ("SIGTERM", "in good order"),
        ("exit code 143", "in good order"),
        ("exit code 1", "failed on the way"),
        ("SIGSEGV", "failed on the way"),
        ("OSError: [Errno 5] failed", "failed on the way"),
    ],
)
def test_how_a_node_ended_that_was_asked_to_is_in_the_evidence(ended: str, stopped: str) -> None:
    with counted() as marks:
        done = restarted(Nodes(ends={"n5": ended}), led_by("n2"), ends="stop")
    seen = done.value["evidence"]["n5"]
    assert (done.type, seen["stopped"], seen["exit"]) == ("ok", stopped, ended)
    assert marks["restarted in good order"] == (stopped == "in good order")


def test_nodes_that_are_killed_were_asked_nothing_and_did_not_stop_in_good_order() -> None:
    nodes = Nodes()
    with counted() as marks:
        done = restarted(nodes, led_by("n2"), ends="kill")
    assert not any(call.startswith("asked") for call in nodes.calls)
    assert not any({"stopped", "exit"} & seen.keys() for seen in done.value["evidence"].values())
    assert (marks["rolling restart"], marks["restarted in good order"]) == (1, 0)


def test_a_restart_in_good_order_is_info_where_the_backend_can_only_kill() -> None:
    class OnlyKills(Nodes):
        stop = None  # type: ignore[assignment]

    nodes = OnlyKills()
    done = restarted(nodes, led_by("n2"), ends="stop")
    assert (done.type, done.error) == ("info", "restart: this backend cannot stop nodes in good order.")
    assert done.value["down"] == []


def test_a_node_whose_stop_failed_on_the_way_is_started_when_it_stops() -> None:
    class Lost(Nodes):
        async def stop(self, node: str) -> Any:
            await super().stop(node)
            raise BackendError("the agent did not answer")

    nodes, nemesis = Lost(), Restarts()
    done = restarted(nodes, led_by("n2"), nemesis, ends="stop")
    assert (done.type, done.value["down"]) == ("info", ["n4"])
    run(nemesis.heal(context(nodes, led_by("n2"))))
    assert set(nodes.states.values()) == {"running"}


def test_a_restart_needs_of_a_backend_what_it_does() -> None:
    assert build(["restart-in-good-order"]).faults == {"stop"}
    assert [KIND.needs(RestartRequest(ends=ends)) for ends in ("kill", "stop")] == [("kill",), ("stop",)]


@pytest.mark.parametrize(
    "request_",
    [
        {"how": "slowly"},
        {"ends": "at last"},
        {"how": "at-once", "back": ("n1",)},
        {"how": "any-order"},
        {"how": "any-order", "back": ("n1", "n1"), "pauses_ms": (1, 1)},
        {"how": "any-order", "back": ("n1", "n2"), "pauses_ms": (1,)},
        {"how": "any-order", "back": ("n9",), "pauses_ms": (1,)},
    ],
)
def test_a_restart_that_cannot_be_is_refused(request_: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        check(RestartRequest(**request_), FIVE)


def test_an_order_to_come_back_is_one_of_all_nodes() -> None:
    drawn = draw(FIVE, Streams(1)["nemesis"])
    assert sorted(drawn["back"]) == list(FIVE)
    check(RestartRequest(how="any-order", **drawn), FIVE)

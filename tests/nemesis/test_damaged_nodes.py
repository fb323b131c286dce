"""A node whose disk lost data for good may refuse to start: no nemesis takes that for a fault that stays in force."""

from __future__ import annotations

from typing import Any, Protocol

import pytest

from splitbrain.harness.contract.test import NemesisContext
from splitbrain.nemesis.bounce import Bounce
from splitbrain.nemesis.disk import Disks
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.process import kill, power
from splitbrain.nemesis.restart import Restarts
from splitbrain.results.history import Op
from tests.nemesis.support import FIVE, Nodes, context, led_by, nemesis_op, run

ORDER = ["n3", "n1", "n5", "n2", "n4"]


class _Nemesis(Protocol):
    async def invoke(self, context: NemesisContext, op: Op) -> Op: ...
    async def heal(self, context: NemesisContext) -> None: ...


NEMESES = {
    "kill": (kill, "kill", "start"),
    "power": (power, "power-off", "power-on"),
    "restart": (Restarts, "restart", "stop-restart"),
    "bounce": (Bounce, "bounce", "stop-bounce"),
}


def invoke(nemesis: _Nemesis, deployment: Nodes, f: str, **request: Any) -> Op:
    return run(nemesis.invoke(context(deployment, led_by("n1")), nemesis_op(f, **request)))


def truncated(ledger: Ledger, nodes: Nodes) -> Disks:
    """Take the end of a file from n3."""
    disks = Disks(ledger)
    done = invoke(disks, nodes, "start-disk", fault="disk", action="start", order=ORDER, spoil={"truncate": 1})
    assert (done.type, list(ledger.damaged)) == ("ok", ["n3"])
    return disks


def inject(nemesis: _Nemesis, deployment: Nodes, f: str) -> Op:
    return invoke(
        nemesis, deployment, f, action="start", spec="all", order=ORDER, nodes=ORDER, pauses_ms=[20] * 5, over=True
    )


@pytest.mark.parametrize("name", NEMESES)
def test_a_damaged_node_that_does_not_start_any_more_is_no_problem_and_the_others_start(name: str) -> None:
    make, begin, end = NEMESES[name]
    ledger, nodes = Ledger(), Nodes()
    disks = truncated(ledger, nodes)
    assert invoke(disks, nodes, "stop-disk", action="stop").type == "ok"
    assert set(nodes.states.values()) == {"running"}
    nodes.fragile = {"n3"}
    nemesis = make(ledger)
    for done in (inject(nemesis, nodes, begin), invoke(nemesis, nodes, end, action="stop")):
        assert (done.type, done.error) == ("ok", None)
    run(nemesis.heal(context(nodes)))
    assert nodes.states == {**dict.fromkeys(FIVE, "running"), "n3": "stopped"}


@pytest.mark.parametrize("name", NEMESES)
def test_a_node_with_a_whole_disk_that_does_not_start_is_a_problem_beside_a_damaged_one(name: str) -> None:
    make, begin, end = NEMESES[name]
    ledger, nodes = Ledger(), Nodes()
    truncated(ledger, nodes)
    nodes.fragile, nodes.broken = {"n3"}, {"n5"}
    nemesis = make(ledger)
    inject(nemesis, nodes, begin)
    done = invoke(nemesis, nodes, end, action="stop")
    assert done.type == "info"
    assert done.error is not None
    assert "n5" in done.error
    assert "n3" not in done.error


def test_a_node_that_refuses_its_truncated_disk_at_once_stays_down_when_the_fault_ends() -> None:
    ledger, nodes = Ledger(), Nodes(fragile={"n3"})
    disks = truncated(ledger, nodes)
    done = invoke(disks, nodes, "stop-disk", action="stop")
    assert (done.type, done.error) == ("ok", None)
    assert "damaged" in done.value["evidence"]["n3"]["refused"]
    run(disks.heal(context(nodes)))
    assert nodes.states["n3"] == "stopped"

"""Throttled nodes: whom it strikes, what is measured, and that every limit is lifted."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.harness.contract.marks import counted
from splitbrain.nemesis.catalogue import build
from splitbrain.nemesis.cpu import Cpu
from splitbrain.results.errors import BackendError, NemesisError
from tests.nemesis.support import FIVE, Nodes, context, led_by, nemesis_op, run


def start(**request: Any) -> Any:
    return nemesis_op("start-cpu", **{"fault": "cpu", "action": "start", "share": 0.05, "order": list(FIVE), **request})


STOP = nemesis_op("stop-cpu", fault="cpu", action="stop")


@pytest.mark.parametrize(
    ("spec", "struck"), [("one", ["n1"]), ("leader", ["n3"]), ("minority", ["n1", "n2"]), ("all", [*FIVE])]
)
def test_the_nodes_that_are_meant_get_the_share_and_get_it_back(spec: str, struck: list[str]) -> None:
    nodes, nemesis = Nodes(), Cpu()
    done = run(nemesis.invoke(context(nodes, led_by("n3")), start(spec=spec)))
    assert (done.type, done.value["cpus"]) == ("ok", struck)
    assert nodes.shares == dict.fromkeys(struck, 0.05)
    healed = run(nemesis.invoke(context(nodes, led_by("n3")), STOP))
    assert healed.type == "ok"
    assert "cpus" not in healed.value
    assert healed.value["evidence"] == {node: {"did": {"throttled": 3}, "bit": True} for node in struck}
    assert nodes.shares == {}


def test_a_new_limit_replaces_the_old_one_and_a_throttled_leader_is_marked() -> None:
    nodes, nemesis = Nodes(), Cpu()
    with counted() as marks:
        run(nemesis.invoke(context(nodes, led_by("n3")), start(spec="leader")))
        run(nemesis.invoke(context(nodes, led_by("n3")), start(spec="one", share=0.2)))
    assert nodes.shares == {"n1": 0.2}
    assert (marks["leader throttled"], marks["node throttled"]) == (1, 1)


@pytest.mark.parametrize("share", [None, 0, -0.1, 1.5, "much", True, float("nan")])
def test_a_share_that_is_none_strikes_nobody(share: Any) -> None:
    nodes = Nodes()
    done = run(Cpu().invoke(context(nodes), start(share=share)))
    assert done.type == "info"
    assert "share" in str(done.error)
    assert nodes.shares == {}


def test_a_limit_that_cannot_be_lifted_is_told_and_does_not_keep_the_others_throttled() -> None:
    class Stubborn(Nodes):
        async def throttle(self, node: str, share: float | None) -> dict[str, Any]:
            if node == "n1" and share is None:
                raise BackendError("no such group")
            return await super().throttle(node, share)

    nodes, nemesis = Stubborn(), Cpu()
    run(nemesis.invoke(context(nodes), start(spec="minority")))
    with pytest.raises(NemesisError, match="cpu: n1: no such group"):
        run(nemesis.heal(context(nodes)))
    assert nodes.shares == {"n1": 0.05}


def test_shares_are_drawn_between_one_and_thirty_percent() -> None:
    from tests.nemesis.test_catalogue import injections, schedule

    drawn = [injection["share"] for injection in injections(schedule(build(["cpu"]), seconds=3000))]
    assert 0.01 <= min(drawn) < 0.05
    assert 0.2 < max(drawn) <= 0.3

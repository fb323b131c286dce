"""A fault of links is on exactly the links that were meant, and what it did is told when it ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from splitbrain.harness.contract.faults import LinkFault
from splitbrain.harness.contract.nodes import Link
from splitbrain.harness.contract.rng import Rng
from splitbrain.nemesis import packet
from splitbrain.nemesis.grudges import all_links
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.packet import Packet
from splitbrain.nemesis.partition import Partition
from splitbrain.results.errors import BackendError, NemesisError
from splitbrain.results.history import Op
from tests.nemesis.support import FIVE, Nodes, Roles, context, led_by, nemesis_op, run

ORDER = ["n3", "n1", "n5", "n2", "n4"]
LOSSY = {"loss": 0.25}
CLOGGED = {"held": True}


def start(nodes: Nodes, disturb: Any = None, system: Roles | None = None, **request: Any) -> Op:
    value = {"fault": "packet", "action": "start", "order": ORDER, "disturb": disturb or LOSSY, **request}
    return run(Packet().invoke(context(nodes, system), nemesis_op("start-packet", **value)))


def stop(nodes: Nodes) -> Op:
    return run(Packet().invoke(context(nodes), nemesis_op("stop-packet", fault="packet", action="stop")))


def of(node: str, *, out: bool, into: bool) -> set[Link]:
    return {link for link in all_links(FIVE) if (out and link[0] == node) or (into and link[1] == node)}


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"scope": "all"}, set(all_links(FIVE))),
        ({"scope": "link"}, {("n3", "n1")}),
        ({"scope": "node", "spec": "one"}, of("n3", out=True, into=True)),
        ({"scope": "out", "spec": "one"}, of("n3", out=True, into=False)),
        ({"scope": "in", "spec": "leader"}, of("n4", out=False, into=True)),
        ({"scope": "out", "spec": "minority"}, of("n3", out=True, into=False) | of("n1", out=True, into=False)),
    ],
)
def test_exactly_the_links_that_are_meant_have_exactly_the_fault(request_: Any, expected: set[Link]) -> None:
    nodes = Nodes()
    done = start(nodes, system=led_by("n4"), **request_)
    assert done.type == "ok", done.error
    assert set(nodes.faults) == expected
    assert set(nodes.faults.values()) == {LinkFault(loss=0.25)}
    assert done.value["links"] == [list(link) for link in sorted(expected)]
    assert done.value["evidence"]["links_disturbed"] == len(expected)


def test_a_link_that_takes_no_fault_makes_the_op_info_and_is_named() -> None:
    done = start(Nodes(deafened={("n3", "n5")}), scope="out")
    assert done.type == "info"
    assert "n3 -> n5 has no fault" in str(done.error)
    assert len(done.value["links"]) == 3, "what is in force is recorded all the same"


def test_a_clogged_link_is_measured_to_be_shut() -> None:
    nodes = Nodes()
    done = start(nodes, CLOGGED, scope="in")
    assert done.type == "ok"
    assert not any(nodes.reachable(other, "n3") for other in FIVE if other != "n3")

    class Open(Nodes):
        async def passes(self, links: Any) -> dict[Link, bool]:
            return dict.fromkeys(links, True)

    done = start(Open(), CLOGGED, scope="link")
    assert done.type == "info"
    assert "n3 -> n1 passes" in str(done.error)


def test_the_stop_tells_what_the_fault_did_in_all_and_by_link() -> None:
    nodes = Nodes()
    start(nodes, scope="out")
    nodes.did["n3", "n1"] = {"lost": 7, "delayed": 1}
    nodes.did["n3", "n2"] = {"lost": 2}
    done = stop(nodes)
    assert done.type == "ok"
    assert done.value["evidence"] == {
        "did": {"delayed": 1, "lost": 9},
        "did_by_link": [["n3", "n1", {"lost": 7, "delayed": 1}], ["n3", "n2", {"lost": 2}]],
        "bit": True,
    }
    assert "links" not in done.value
    assert nodes.faults == {}


def test_a_fault_that_never_bit_is_told_and_is_no_failure() -> None:
    nodes = Nodes()
    start(nodes, scope="all")
    done = stop(nodes)
    assert (done.type, done.value["evidence"]["bit"]) == ("ok", False)


@pytest.mark.parametrize(
    ("disturb", "words"),
    [({}, "has no effect"), ({"loss": "much"}, "at `$.disturb.loss`"), ([], "at `$.disturb`")],
)
def test_a_request_that_asks_for_no_fault_is_info_and_not_a_silent_success(disturb: Any, words: str) -> None:
    op = nemesis_op("start-packet", scope="all", disturb=disturb)
    done = run(Packet().invoke(context(Nodes()), op))
    assert done.type == "info"
    assert words in str(done.error)


def test_heal_takes_every_fault_away_and_complains_if_it_cannot() -> None:
    nodes = Nodes()
    start(nodes, scope="all")
    run(Packet().heal(context(nodes)))
    assert nodes.faults == {}

    class Stuck(Nodes):
        async def disturbed(self) -> dict[Link, dict[str, int]]:
            return {("n1", "n2"): {}}

    with pytest.raises(NemesisError, match="n1 -> n2 has a fault"):
        run(Packet().heal(context(Stuck())))


def test_a_partition_does_not_take_a_clogged_link_for_one_that_it_failed_to_open() -> None:
    ledger, nodes = Ledger(), Nodes()
    clog = nemesis_op("start-packet", scope="in", order=ORDER, disturb=CLOGGED)
    run(Packet(ledger).invoke(context(nodes), clog))
    cut = nemesis_op("start-partition", shape="isolate-one", order=["n1", "n2", "n3", "n4", "n5"])
    partition = Partition(ledger)
    done = run(partition.invoke(context(nodes), cut))
    assert done.type == "ok", done.error
    assert len(done.value["links"]) == 4, "the partition tells what else is in force"
    assert run(partition.invoke(context(nodes), nemesis_op("stop-partition"))).type == "ok"
    run(Packet(ledger).invoke(context(nodes), nemesis_op("stop-packet")))
    nodes.dead.add(("n2", "n3"))
    assert run(partition.invoke(context(nodes), nemesis_op("stop-partition"))).type == "info", "no longer excused"


def test_links_that_could_not_have_their_faults_are_excused_no_longer() -> None:
    class Refusing(Nodes):
        async def disturb(self, faults: Mapping[Link, LinkFault]) -> None:
            await super().disturb({} if self.calls else faults)
            if len(self.calls) > 1:
                raise BackendError("iptables failed for n2")

    ledger, nodes = Ledger(), Refusing()
    clog = nemesis_op("start-packet", scope="in", order=ORDER, disturb=CLOGGED)
    assert run(Packet(ledger).invoke(context(nodes), clog)).type == "ok"
    assert len(ledger.clogged) == 4
    done = run(Packet(ledger).invoke(context(nodes), nemesis_op("start-packet", scope="all", disturb=LOSSY)))
    assert (done.type, done.error) == ("info", "iptables failed for n2")
    assert ledger.clogged == frozenset()


@pytest.mark.parametrize(
    ("draw", "bounds"),
    [
        (packet.loss, {"loss": (0.05, 0.4)}),
        (packet.duplicate, {"duplicate": (0.05, 0.4)}),
        (packet.reorder, {"reorder": (0.05, 0.5)}),
        (packet.delay, {"delay_ms": (20, 500), "jitter_ms": (0, 500)}),
        (packet.flaky, {"resets": (0.5, 3.0)}),
    ],
)
def test_intensities_are_drawn_within_their_bounds_and_reach_both_ends(draw: Any, bounds: Any) -> None:
    rng = Rng(1)
    drawn = [draw(FIVE, rng)["disturb"] for _ in range(2000)]
    for name, (low, high) in bounds.items():
        figures = [fault[name] for fault in drawn]
        assert low <= min(figures) < low + (high - low) / 10
        assert high - (high - low) / 10 < max(figures) <= high
    for fault in drawn:
        assert set(fault) == set(bounds)
        assert msgspec.convert(fault, LinkFault) != LinkFault()

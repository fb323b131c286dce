"""Faults on links between clients and nodes: what is asked for, reported and healed, and what clients see of it."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.harness.backends.shared.nodefaults import CLIENT_LINKS
from splitbrain.harness.backends.sim import SimBackend
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.contract.faults import ClientFault
from splitbrain.harness.contract.marks import counted
from splitbrain.harness.running.simulate import Simulated, simulate
from splitbrain.nemesis.catalogue import build
from splitbrain.nemesis.clients import Clients
from splitbrain.results.errors import FaultNotSupportedError
from splitbrain.results.history import NEMESIS
from tests.cli.test_arguments import OPTIONS
from tests.harness.worlds import MemoryDeployment
from tests.nemesis.support import FIVE, Nodes, context, led_by, nemesis_op, run


def start(**request: Any) -> Any:
    return nemesis_op("start-clients", fault="clients", action="start", order=list(FIVE), **request)


STOP = nemesis_op("stop-clients", fault="clients", action="stop")


@pytest.mark.parametrize(("spec", "struck"), [("one", ["n1"]), ("leader", ["n3"]), ("all", [*FIVE])])
def test_the_links_of_the_chosen_nodes_get_the_fault_and_lose_it(spec: str, struck: list[str]) -> None:
    nodes, nemesis = Nodes(), Clients()
    done = run(nemesis.invoke(context(nodes, led_by("n3")), start(spec=spec, trouble={"cut_answers": True})))
    assert (done.type, done.value["clients"]) == ("ok", struck)
    assert nodes.clients == dict.fromkeys(struck, ClientFault(cut_answers=True))
    with counted() as marks:
        healed = run(nemesis.invoke(context(nodes, led_by("n3")), STOP))
    assert healed.type == "ok"
    assert "clients" not in healed.value
    assert healed.value["evidence"] == {node: {"did": {"swallowed": 2}, "bit": True} for node in struck}
    assert nodes.clients == {}
    assert marks["messages of clients swallowed"] == len(struck)


@pytest.mark.parametrize("trouble", [None, {}, {"cut_requests": "north"}, {"loss": 2}, {"delay_ms": -1}])
def test_a_fault_that_is_none_strikes_no_node(trouble: Any) -> None:
    nodes = Nodes()
    done = run(Clients().invoke(context(nodes), start(trouble=trouble)))
    assert done.type == "info"
    assert nodes.clients == {}


def test_only_the_simulation_has_links_of_clients_and_the_others_say_why() -> None:
    assert SimBackend().support()["client-links"].works
    deployment = MemoryDeployment(FIVE)
    assert run(deployment.disturb_clients({})) == {}
    with pytest.raises(FaultNotSupportedError, match="client-links"):
        run(deployment.disturb_clients({"n1": ClientFault(held=True)}))


def simulated(workload: str, nemesis: str, seed: int = 1, **options: Any) -> Simulated:
    """Three nodes and six clients, with this nemesis all the time, for 20 s."""
    given = {"backend": "sim", "workload": workload, "nemesis": nemesis, "nodes": "n1,n2,n3", "seed": seed}
    test = compose(RunOptions.of(**{**OPTIONS, **given, "interval": 1.0, "rate": 60.0, "time_limit": 20.0, **options}))
    left = simulate(test)
    assert left.failure is None
    return left


def test_a_node_cut_off_from_its_clients_loses_requests_and_answers_but_not_its_peers() -> None:
    left = simulated("register", "partition-clients", interval=4.0)
    assert left.marks["messages of clients swallowed"] > 0
    assert left.marks["link broke"] == 0
    unknown = [op for op in left.ops if op.process >= 0 and op.type == "info"]
    assert unknown, "a request whose answer is lost may have been carried out"
    assert not [op for op in left.ops if op.process == NEMESIS and op.type == "fail"]


def test_requests_that_arrive_twice_are_ignored_the_second_time() -> None:
    assert simulated("register", "clients-repeat").marks["repeated request ignored"] > 0
    assert simulated("register", "partition").marks["repeated request ignored"] == 0


@pytest.mark.slow
def test_a_client_sends_a_command_again_with_the_same_ref_and_gets_the_first_result() -> None:
    left = simulated("counter", "clients-loss,clients-late", op_timeout=5.0)
    assert left.marks["protected command came again"] > 0
    assert simulated("counter", "none", op_timeout=5.0).marks["protected command came again"] == 0


def test_what_is_drawn_needs_links_of_clients() -> None:
    with pytest.raises(FaultNotSupportedError, match="partition-clients"):
        build(["partition-clients"], support={**SimBackend().support(), "client-links": CLIENT_LINKS})

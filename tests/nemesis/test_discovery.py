"""A discovery service that does something wrong: what is asked of the system, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.harness.contract.discovery import DiscoveryTrouble
from splitbrain.nemesis.discovery import Troubles
from splitbrain.results.errors import UsageError
from splitbrain.results.history import Op
from tests.nemesis.support import Nodes, Roles, Service, context, nemesis_op, run


def start(**trouble: Any) -> Op:
    return nemesis_op("trouble-discovery", fault="discovery", action="start", order=[], trouble=trouble)


def test_a_start_and_a_stop_reach_the_service() -> None:
    service = Service()
    system = Roles(discovery=service)
    done = run(Troubles().invoke(context(Nodes(), system), start(left_out=0.5)))
    assert (done.type, done.value["target"]) == ("ok", "the discovery service")
    done = run(
        Troubles().invoke(
            context(Nodes(), system), nemesis_op("mend-discovery", fault="discovery", action="stop", order=[])
        )
    )
    assert (done.type, done.value["evidence"]) == ("ok", {"asked": 0, "bit": False})
    assert service.troubles == [DiscoveryTrouble(left_out=0.5), None]


def test_without_a_service_and_without_a_trouble_nothing_is_done() -> None:
    done = run(Troubles().invoke(context(Nodes(), Roles()), start(down=True)))
    assert (done.type, "find each other without a service" in (done.error or "")) == ("info", True)
    service = Service()
    done = run(Troubles().invoke(context(Nodes(), Roles(discovery=service)), start()))
    assert (done.type, service.troubles) == ("info", [])


def test_figures_that_cannot_be_are_refused() -> None:
    with pytest.raises(UsageError, match="left_out"):
        DiscoveryTrouble(left_out=2.0)

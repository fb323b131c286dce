"""A test is named after its parts: by their own names, not by those of the functions that make them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from splitbrain import Workload
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.systems.metadata import Metadata
from splitbrain.workloads.register import register


def orders(nodes: Sequence[str], concurrency: int) -> Workload:
    """A workload whose name is not that of the function."""
    return dataclasses.replace(register(nodes=nodes, concurrency=concurrency), name="shop-orders")


def like_ours(nodes: Sequence[str], concurrency: int) -> Workload:
    """A workload with the name of a built-in one."""
    return register(nodes=nodes, concurrency=concurrency)


class Ours(Metadata):
    """A system whose name is not that of the class."""

    name = "our-cluster"


@pytest.mark.parametrize(
    ("named", "name"),
    [
        ({"workload": f"{__name__}:orders"}, "metadata-shop-orders-kill"),
        ({"workload": f"{__name__}:like_ours"}, "metadata-like_ours-kill"),
        ({"system": f"{__name__}:Ours"}, "our-cluster-register-kill"),
        ({"nemesis": "examples.own_nemesis:EXILE"}, "metadata-register-exile"),
        ({"nemesis": "examples.own_nemesis:EXILE_LEADER:2,kill"}, "metadata-register-exile-leader+kill"),
        ({"nemesis": "partition:2,kill", "bug": "M23"}, "metadata-register-partition+kill-M23"),
    ],
)
def test_a_test_has_the_own_names_of_its_parts(named: dict[str, str], name: str) -> None:
    options = {
        "workload": "register",
        "nemesis": "kill",
        "system": "metadata",
        "backend": "sim",
        "bug": "",
        "nodes": "3",
        "concurrency": "2n",
        "rate": 100.0,
        "time_limit": 20.0,
        "interval": None,
        "op_timeout": 2.0,
        "recovery": 20.0,
        "seed": 1,
    }
    assert compose(RunOptions.of(**options | named)).name == name

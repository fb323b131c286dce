"""Cuts at the receiver expire by themselves or are removed, which is told; a refresh keeps them; others' rules stay."""

from __future__ import annotations

import asyncio
import subprocess
from typing import Any

import pytest

from splitbrain.harness.backends.agent import receivers, syscalls
from splitbrain.harness.backends.agent.bridge import Bridge
from splitbrain.harness.backends.agent.receivers import Receiver, Receivers, run_inside
from splitbrain.harness.backends.agent.tools import AgentError, find_tool
from tests.backends.namespaces import (
    EXPIRES_S,
    LINKS,
    course_of_a_cut,
    passing,
    private,
    refusal,
    seen_in_namespaces,
)

pytestmark = pytest.mark.cluster

FOREIGN = "table inet somebody {\n chain input {\n type filter hook input priority 0\n counter\n }\n}\n"


def nft(*words: str, text: str = "") -> str:
    return subprocess.run(["nft", *words], input=text, check=True, capture_output=True, text=True).stdout


async def scenario() -> dict[str, Any]:
    receivers.CUT_EXPIRES_S = EXPIRES_S
    receivers.REFRESH_AFTER_S = 0
    wires = Bridge(["a", "b"])
    wires.lay_out()
    for probe in private(wires, "_probes", "_sockets").values():
        asyncio.get_running_loop().remove_reader(probe)
        probe.close()
    fabric = Receivers(private(wires, "_places"))
    await fabric.lay_out()
    network, home = private(wires, "_namespaces")["b"], private(wires, "_home")
    with syscalls.inside(network, home):
        nft("-f", "-", text=FOREIGN)
    seen = {"open": await passing(fabric), **await course_of_a_cut(fabric)}
    receiver: Receiver = private(fabric, "_receivers")["b"]
    await receiver.cut(["10.203.0.1", "10.203.0.77"])
    await receiver.cut(["10.203.0.77"])
    seen["replaced"] = await passing(fabric)
    for removed in ("flush set inet splitbrain cut", "delete table inet splitbrain"):
        await fabric.cut(LINKS[:1])
        with syscalls.inside(network, home):
            nft(*removed.split())
        refused = [await refusal(fabric.dropped()), await refusal(fabric.refresh())]
        await fabric.cut([])
        seen[removed] = [*refused, await passing(fabric)]
    await receiver.remove()
    with syscalls.inside(network, home):
        seen["tables"] = nft("list", "tables").split()
    try:
        await run_inside(network, [find_tool("nft"), "list", "table", "inet", "splitbrain"], "", "b")
    except AgentError as error:
        seen["complaint"] = str(error)[:36]
    return seen


@pytest.mark.slow
def test_cuts_at_the_receiver_last_as_long_as_somebody_cares_and_touch_nothing_else() -> None:
    assert seen_in_namespaces(scenario) == {
        "open": [True, True],
        "cut": [False, True],
        "refreshed": [False, True],
        "counted": [["a", "b", 1]],
        "left alone": [True, True],
        "missed": 2 * ["b no longer drops what 10.203.0.1 sends"],
        "cut again": [False, False],
        "flush set inet splitbrain cut": [*2 * ["b no longer drops what 10.203.0.1 sends"], [True, True]],
        "delete table inet splitbrain": [*2 * ["b no longer drops what 10.203.0.1 sends"], [True, True]],
        "replaced": [True, True],
        "tables": ["table", "inet", "somebody"],
        "complaint": "nft failed for b with code 1: Error:",
    }

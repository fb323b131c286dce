"""Cuts at the receiver expire by themselves, a refresh keeps them and their counts, and rules of others stay."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.backends.support import skip_without_namespaces

pytestmark = pytest.mark.cluster

PROGRAM = """
import asyncio, json, os, signal, socket, subprocess
from harness.backends.agent import bridge as b, receivers as r, syscalls

r.CUT_EXPIRES_S = 1
r.REFRESH_AFTER_S = 0

FOREIGN = "table inet somebody {\\n chain input {\\n type filter hook input priority 0\\n counter\\n }\\n}\\n"

def nft(*words, text=""):
    return subprocess.run(["nft", *words], input=text, check=True, capture_output=True, text=True).stdout

async def main():
    links = [("a", "b"), ("b", "a")]
    wires = b.Bridge(["a", "b"])
    wires.lay_out()
    for probe in wires._probes._sockets.values():
        asyncio.get_running_loop().remove_reader(probe)
        probe.close()
    fabric = r.Receivers(wires._places)
    await fabric.lay_out()
    with syscalls.inside(wires._namespaces["b"], wires._home):
        nft("-f", "-", text=FOREIGN)
    seen = {"open": list((await fabric.passes(links)).values())}
    await fabric.cut(links[:1])
    sender = fabric._probes._sockets["a"]
    sender.sendto(b"not a probe", fabric._probes._sockets["b"].getsockname())
    seen["cut"] = list((await fabric.passes(links)).values())
    for _ in range(3):
        await asyncio.sleep(0.6)
        await fabric.refresh()
    seen["refreshed"] = list((await fabric.passes(links)).values())
    seen["counted"] = [[*link, count] for link, count in (await fabric.dropped()).items()]
    await asyncio.sleep(1.2)
    seen["left alone"] = list((await fabric.passes(links)).values())
    receiver = fabric._receivers["b"]
    await receiver.cut(["10.203.0.1", "10.203.0.77"])
    await receiver.cut(["10.203.0.77"])
    seen["replaced"] = list((await fabric.passes(links)).values())
    await receiver.remove()
    with syscalls.inside(wires._namespaces["b"], wires._home):
        seen["tables"] = nft("list", "tables").split()
    try:
        await r.run_inside(wires._namespaces["b"], [b.find_tool("nft"), "list", "table", "inet", "splitbrain"], "", "b")
    except r.AgentError as error:
        seen["complaint"] = str(error)[:36]
    print(json.dumps(seen), flush=True)

b.enter_namespaces()
if os.fork():
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
syscalls.signal_on_parent_death(signal.SIGKILL)
b.mount_proc()
asyncio.run(main())
"""


def test_cuts_at_the_receiver_last_as_long_as_somebody_cares_and_touch_nothing_else() -> None:
    skip_without_namespaces()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "open": [True, True],
        "cut": [False, True],
        "refreshed": [False, True],
        "counted": [["a", "b", 1]],
        "left alone": [True, True],
        "replaced": [True, True],
        "tables": ["table", "inet", "somebody"],
        "complaint": "nft failed for b with code 1: Error:",
    }

"""Cuts on the bridge expire by themselves, and a refresh keeps them and their counts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.backends.support import skip_without_namespaces

pytestmark = pytest.mark.cluster

PROGRAM = """
import asyncio, json, os, signal
from harness.backends.agent import bridge as b, probes, syscalls

b.CUT_EXPIRES_S = 1
b.REFRESH_AFTER_S = 0

async def main():
    bridge = b.Bridge(["a", "b"])
    bridge.lay_out()
    links = [("a", "b"), ("b", "a")]
    await bridge.cut(links[:1])
    sender = bridge._probes._sockets["a"]
    sender.sendto(b"not a probe", bridge._probes._sockets["b"].getsockname())
    seen = {"cut": list((await bridge.passes(links)).values())}
    for _ in range(3):
        await asyncio.sleep(0.6)
        await bridge.refresh()
    seen["refreshed"] = list((await bridge.passes(links)).values())
    seen["counted"] = list((await bridge.dropped()).values())
    await asyncio.sleep(1.2)
    seen["left alone"] = list((await bridge.passes(links)).values())
    print(json.dumps(seen), flush=True)

b.enter_namespaces()
if os.fork():
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
syscalls.signal_on_parent_death(signal.SIGKILL)
b.mount_proc()
asyncio.run(main())
"""


def test_a_cut_that_nobody_refreshes_heals_by_itself() -> None:
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
        "cut": [False, True],
        "refreshed": [False, True],
        "counted": [1],
        "left alone": [True, True],
    }

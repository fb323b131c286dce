"""Scenarios that need network namespaces of their own, and what becomes of a cut in any fabric that lives in those."""

from __future__ import annotations

import asyncio
import functools
import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from splitbrain.harness.backends.agent import syscalls
from splitbrain.harness.backends.agent.bridge import Bridge, enter_namespaces, mount_proc
from splitbrain.harness.backends.agent.receivers import Receivers
from splitbrain.harness.backends.agent.tools import AgentError
from splitbrain.harness.contract.nodes import Link
from tests.backends.support import skip_without_namespaces

ROOT: Final = Path(__file__).parents[2]
LINKS: Final[Sequence[Link]] = (("a", "b"), ("b", "a"))
EXPIRES_S: Final = 4
"""How long a cut shall last that nobody refreshes, so that its end can be awaited."""

Scenario = Callable[[], Coroutine[Any, Any, Mapping[str, Any]]]
Fabric = Bridge | Receivers


def seen_in_namespaces(scenario: Scenario) -> Any:
    """What a scenario (a function of a test module) returns that runs in a process with namespaces of its own."""
    skip_without_namespaces()
    call = f"run({scenario.__module__!r}, {scenario.__name__!r})"
    done = subprocess.run(
        [sys.executable, "-c", f"from tests.backends.namespaces import run; {call}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def run(module: str, name: str) -> None:
    """Enter namespaces and print what the scenario of that name returns."""
    scenario: Scenario = getattr(importlib.import_module(module), name)
    enter_namespaces()
    if os.fork():
        os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
    syscalls.signal_on_parent_death(signal.SIGKILL)
    mount_proc()
    print(json.dumps(asyncio.run(scenario())), flush=True)


async def course_of_a_cut(fabric: Fabric) -> dict[str, Any]:
    """Cut the link from "a" to "b", send something over it, refresh the cut for longer than it lasts, then forget it.

    Which of `LINKS` pass when it is "cut", when it was "refreshed" and when it was "left alone"; what was "counted";
    how it is "missed" when it expired; and which pass when both are "cut again". In the end both do.
    """
    await fabric.cut(LINKS[:1])
    probes = private(fabric, "_probes", "_sockets")
    probes["a"].sendto(b"not a probe", probes["b"].getsockname())
    seen: dict[str, Any] = {"cut": await passing(fabric)}
    for _ in range(4):
        await asyncio.sleep(0.3 * EXPIRES_S)
        await fabric.refresh()
    seen["refreshed"] = await passing(fabric)
    seen["counted"] = [[*link, count] for link, count in (await fabric.dropped()).items()]
    await asyncio.sleep(1.2 * EXPIRES_S)
    seen["left alone"] = await passing(fabric)
    seen["missed"] = [await refusal(fabric.dropped()), await refusal(fabric.refresh())]
    await fabric.cut(LINKS)
    seen["cut again"] = await passing(fabric)
    await fabric.cut([])
    return seen


async def refusal(asked: Awaitable[object]) -> str | None:
    """What an agent says to something that it cannot do, as far as its cause; None if it does it."""
    try:
        await asked
    except AgentError as error:
        return str(error).partition(":")[0]
    return None


async def passing(fabric: Fabric) -> list[bool]:
    """Which of `LINKS` pass."""
    return list((await fabric.passes(LINKS)).values())


def private(owner: Any, *names: str) -> Any:
    """What an object keeps to itself, or what that keeps to itself in turn."""
    return functools.reduce(getattr, names, owner)

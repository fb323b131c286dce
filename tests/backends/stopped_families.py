"""Has an agent stop nodes that are more than one process, and prints what it says: `python stopped_families.py FOLDER`.

In a process of its own, since an agent reaps every child of its process.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, Final

from splitbrain.harness.backends.agent.processes import Processes

GRACE_S: Final = 1.0

_SERVES: Final = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: {handler})
print(flush=True)
time.sleep(60)
"""
_SLOW: Final = _SERVES.format(handler="time.sleep(30)")
_QUICK: Final = _SERVES.format(handler="sys.exit()")
_LEADS: Final = """
import os, signal, subprocess, sys, time
others = subprocess.Popen([sys.executable, "-c", {program!r}], stdout=subprocess.PIPE, start_new_session={session})
others.stdout.readline()
{handler}
open("ready", "w").close()
time.sleep(60)
"""
_WAITS: Final = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(others.wait()))"
_ABORTS: Final = "signal.signal(signal.SIGTERM, lambda *_: os.abort())"

NODES: Final = {
    "left in its own session": _LEADS.format(program=_SLOW, session=True, handler=""),
    "left in its session": _LEADS.format(program=_SLOW, session=False, handler=""),
    "waits": _LEADS.format(program=_QUICK, session=True, handler=_WAITS),
    "aborts": _LEADS.format(program=_QUICK, session=False, handler=_ABORTS),
}


async def stopped(processes: Processes, name: str, folder: Path) -> dict[str, Any]:
    """What the agent says of a node that it stops, and how many of its processes are left."""
    (folder / name).mkdir()
    where = str(folder / name)
    await processes.start(name, [sys.executable, "-c", NODES[name]], dict(os.environ), where, f"{where}/log")
    while not (folder / name / "ready").exists():
        await asyncio.sleep(0.02)
    members = processes.members(name)
    status = await processes.stop(name, GRACE_S)
    return {**status, "members": len(members), "left": sum(map(_runs, members))}


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def main(folder: Path) -> None:
    """Stop each node alone; then all nodes of another agent together, one of which leaves a process."""
    processes = Processes(dict.fromkeys(NODES, 1), lambda _: None)
    asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, processes.reap)
    said = {name: await stopped(processes, name, folder) for name in NODES}
    name = "left in its own session"
    where = str(folder / name)
    (folder / name / "ready").unlink()
    await processes.start(name, [sys.executable, "-c", NODES[name]], dict(os.environ), where, f"{where}/log")
    while not (folder / name / "ready").exists():
        await asyncio.sleep(0.02)
    await processes.stop_all(GRACE_S)
    print(json.dumps({**said, "all": {each: processes.status(each) for each in NODES}}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))

"""The program of one node of Redis: a server, and a Sentinel beside it. When either ends, the node ends.

It is laid beside the node's data and run by a bare interpreter, so it imports nothing of splitbrain.

Both rewrite their configuration when roles change. So the files with which the test lays the node out are used for its
first start only.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

PERIOD_S = 0.05


def main(data: Path) -> int:
    """Run the node until one of both ends, or it is asked to end; the exit code of what ended first."""
    folder = data / "redis"
    folder.mkdir(exist_ok=True)
    children: list[subprocess.Popen[bytes]] = []
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    for program in ("redis-server", "redis-sentinel"):
        if shutil.which(program) is None:
            sys.exit(f"splitbrain: there is no {program} here (Debian and Ubuntu: apt install {program}).")
        name = program.removeprefix("redis-").replace("server", "redis") + ".conf"
        configuration = folder / name
        if not configuration.exists():
            new = folder / f"{name}.new"
            shutil.copyfile(data / f"{name}.first", new)
            os.replace(new, configuration)
        children.append(subprocess.Popen((program, str(configuration))))
    while not asked and all(child.poll() is None for child in children):
        time.sleep(PERIOD_S)
    ended = next((child for child in children if child.poll() is not None), None)
    for child in children:
        child.terminate()
    for child in children:
        child.wait()
    return 0 if ended is None else ended.returncode or 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

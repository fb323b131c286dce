"""Wrong clocks for nodes in containers: libfaketime of the node's own image, controlled by a file that is bound into
it.

What a node sees is measured in the container that keeps its network, which is of the same image and has the same file.
"""

from __future__ import annotations

import glob
import json

from splitbrain.harness.backends import faketime
from splitbrain.harness.backends.clocks import NodeClock
from splitbrain.harness.backends.docker.engine import Engine
from splitbrain.harness.backends.docker.nodes import Node
from splitbrain.harness.backends.faketime import FakeClock, Measured
from splitbrain.harness.contract.nodes import NodeCommand
from splitbrain.results.errors import BackendError

CLOCK_DIR = "/splitbrain.clock"
"""Where a container finds the directory with the file of its clock."""
_FILE = "clock"
_LAUNCH = """
import json, os, sys, time
variables = {**os.environ, **json.loads(sys.argv[1])}
print(time.monotonic_ns(), flush=True)
os.execvpe(sys.argv[2], sys.argv[2:], variables)
"""
"""Becomes the probe, and says when: the engine takes much longer to begin a process than a clock may be wrong by."""
_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


def container_clock(engine: Engine, node: Node, command: NodeCommand) -> NodeClock:
    """The clock of a node whose keeper runs with `CLOCK_DIR` bound into it.

    Raises:
        FaultNotSupportedError: libfaketime does not reach the program of the command.
        BackendError: the image has no libfaketime, or not the program.
    """
    root = f"/proc/{node.keeper_pid}/root"
    faketime.require_reach(command.argv[0], ":".join(f"{root}{folder}" for folder in _PATH))
    variables = faketime.environment(_library(node, root), f"{CLOCK_DIR}/{_FILE}")
    launch = ["python3", "-I", "-S", "-c", _LAUNCH, json.dumps(dict(variables)), *faketime.probe_command("python3")]

    async def measured(clock: FakeClock) -> Measured:
        printed = await engine.execute(node.keeper, launch)
        try:
            began, answer = printed.split("\n", 1)
            return clock.measured(answer, int(began) / 1e9)
        except ValueError:
            raise BackendError(
                f"the clock of {node.name} could not be measured: python3 in its image said {printed[-300:]!r}."
            ) from None

    return NodeClock(node.binds[CLOCK_DIR] / _FILE, variables, measured)


def _library(node: Node, root: str) -> str:
    """Where libfaketime is in the node's image, whose root directory this machine sees at `root`."""
    found = [path for pattern in faketime.LIBRARY_PLACES for path in sorted(glob.glob(f"{root}{pattern}"))]
    if not found:
        raise BackendError(
            f"the image of {node.name} has no libfaketime: add it to its Dockerfile, or leave clocks out of --nemesis."
        )
    return found[0].removeprefix(root)

"""A controller of its own, for tests that kill it: `controller.py ROW FOLDER [INVENTORY]`, the last one in JSON.

It deploys three nodes and puts in force what the backend can do: a cut, a link that holds everything, a full disk, a
limited node and a paused one. Then it prints a line of JSON about them, and waits.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import msgspec

from splitbrain.harness.backends.docker import DockerDeployment
from splitbrain.harness.backends.local import LocalDeployment
from splitbrain.harness.backends.ssh.backend import SshBackend
from splitbrain.harness.backends.ssh.deployment import SshDeployment
from splitbrain.harness.backends.ssh.inventory import Inventory
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.faults import DiskFault, FaultKind, LinkFault
from tests.backends.conformance.adapters import ROWS
from tests.backends.conformance.rows import deployed
from tests.backends.support import NODES

ROOT = Path(__file__).parents[3]
WANTED: tuple[FaultKind, ...] = ("hold", "disk-full", "cpu")


@contextmanager
def holding_controller(
    row: str, folder: Path, inventory: Inventory | None = None
) -> Generator[tuple[Popen[str], dict[str, Any]], None, None]:
    """A controller that runs, and what it says of its nodes; it is killed at the end."""
    hosts = [] if inventory is None else [json.dumps(msgspec.to_builtins(inventory, enc_hook=str))]
    controller = Popen(
        [sys.executable, "-m", "tests.backends.conformance.controller", row, str(folder), *hosts],
        cwd=ROOT,
        stdout=PIPE,
        text=True,
    )
    assert controller.stdout is not None
    try:
        yield controller, json.loads(controller.stdout.readline())
    finally:
        controller.kill()
        controller.wait()
        controller.stdout.close()


async def hold(row: str, folder: Path, inventory: Inventory | None) -> None:
    backend = ROWS[row]().backend() if inventory is None else SshBackend(inventory)
    support = backend.support()
    faults: list[FaultKind] = [kind for kind in WANTED if support[kind].works]
    deployment, _ = await deployed(ROWS[row].python, backend, NODES, faults, folder)
    try:
        await deployment.cut(frozenset({("n1", "n3")}))
        if "hold" in faults:
            await deployment.disturb({("n3", "n1"): LinkFault(held=True)})
        if "disk-full" in faults:
            await deployment.spoil("n1", DiskFault(full=True))
        if "cpu" in faults:
            await deployment.throttle("n3", 0.5)
        await deployment.pause("n2")
        print(json.dumps(await about(deployment)), flush=True)
        await asyncio.sleep(120)
    finally:
        await deployment.close()


async def about(deployment: Deployment) -> dict[str, Any]:
    """What a test has to know of a deployment to find its traces."""
    if isinstance(deployment, LocalDeployment):
        return {"agent": deployment.agent_pid}
    if isinstance(deployment, SshDeployment):
        return {"homes": deployment.homes}
    assert isinstance(deployment, DockerDeployment)
    pid = (await deployment.status("n3")).evidence["pid"]
    return {"run": deployment.run, "pid of n3": pid, "address of n1": deployment.places["n1"].listen[0]}


def _path(kind: type, value: Any) -> Path:
    return Path(value)


if __name__ == "__main__":
    given = [msgspec.json.decode(words, type=Inventory, dec_hook=_path) for words in sys.argv[3:]]
    asyncio.run(hold(sys.argv[1], Path(sys.argv[2]), *(given or [None])))

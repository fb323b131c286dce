"""A controller of its own, for tests that kill it: `docker_controller.py RUN_DIR`.

It deploys three nodes in containers, on file systems of their own, pauses one, cuts a link, lets another lose packets,
fills a disk, prints a line of JSON and waits.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from harness.protocols import DiskFault, LinkFault
from tests.backends.docker_support import deployed
from tests.backends.support import start_all


async def hold(run_dir: Path) -> None:
    async with deployed(run_dir, faults=["disk-full"]) as deployment:
        await start_all(deployment)
        await deployment.cut(frozenset({("n1", "n3")}))
        await deployment.disturb({("n3", "n1"): LinkFault(loss=1.0)})
        await deployment.spoil("n1", DiskFault(full=True))
        pid = (await deployment.status("n3")).evidence["pid"]
        await deployment.pause("n2")
        address = deployment.places["n1"].listen[0]
        print(json.dumps({"run": deployment.run, "pid of n3": pid, "address of n1": address}), flush=True)
        await asyncio.sleep(60)


if __name__ == "__main__":
    asyncio.run(hold(Path(sys.argv[1])))

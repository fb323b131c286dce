"""A controller of its own, for a test that kills it: `ssh_controller.py INVENTORY RUN_DIR`, the first in JSON.

It starts a node on every host, on a file system of its own; cuts a link, holds another, limits a node and pauses it,
prints the directories on the hosts as a line of JSON, and waits.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from splitbrain.harness.backends.ssh.inventory import Inventory
from splitbrain.harness.contract.faults import LinkFault
from tests.backends.ssh_support import deployed
from tests.backends.support import start_all


async def hold(inventory: Inventory, run_dir: Path) -> None:
    async with deployed(inventory, run_dir, faults=("power", "hold", "cpu")) as deployment:
        await start_all(deployment)
        await deployment.cut(frozenset({("n1", "n2")}))
        await deployment.disturb({("n2", "n3"): LinkFault(held=True)})
        await deployment.throttle("n3", 0.5)
        await deployment.pause("n3")
        print(json.dumps(deployment.homes), flush=True)
        await asyncio.sleep(120)


def _path(kind: type, value: Any) -> Path:
    return Path(value)


if __name__ == "__main__":
    asyncio.run(hold(msgspec.json.decode(sys.argv[1], type=Inventory, dec_hook=_path), Path(sys.argv[2])))

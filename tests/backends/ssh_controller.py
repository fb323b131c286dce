"""A controller of its own, for a test that kills it: `ssh_controller.py INVENTORY RUN_DIR`, the first in JSON.

It starts a node on every host, cuts a link, pauses a node, prints "holding" and waits.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import msgspec

from harness.backends.ssh.inventory import Inventory
from tests.backends.ssh_support import deployed
from tests.backends.support import start_all


async def hold(inventory: Inventory, run_dir: Path) -> None:
    async with deployed(inventory, run_dir) as deployment:
        await start_all(deployment)
        await deployment.cut(frozenset({("n1", "n2")}))
        await deployment.pause("n3")
        print("holding", flush=True)
        await asyncio.sleep(120)


def _path(kind: type, value: Any) -> Path:
    return Path(value)


if __name__ == "__main__":
    asyncio.run(hold(msgspec.json.decode(sys.argv[1], type=Inventory, dec_hook=_path), Path(sys.argv[2])))

"""A controller of its own, for tests that need another user: `controller.py LINKS RUN_DIR`.

It does everything once and prints what it saw.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any, cast

from splitbrain.harness.backends.local import Links, LocalDeployment
from tests.backends.support import all_links, beats, deployed, start_all


async def exercise(deployment: LocalDeployment) -> None:
    seen: dict[str, Any] = {"uid": os.getuid(), "links": deployment.links}
    await start_all(deployment)
    await deployment.cut(frozenset({("n1", "n2")}))
    await beats(deployment, 0.1)
    seen["silent"] = [link for link, count in (await beats(deployment)).items() if count == 0]
    passes = await deployment.passes(all_links(deployment))
    seen["not passing"] = [link for link, passed in passes.items() if not passed]
    seen["dropped"] = [[link, count > 0] for link, count in (await deployment.dropped()).items()]
    await deployment.cut(frozenset())
    seen["heals"] = all((await deployment.passes(all_links(deployment))).values())
    seen["states"] = [
        (await deployment.pause("n1")).state,
        (await deployment.resume("n1")).state,
        (await deployment.kill("n1")).state,
        (await deployment.start("n1")).state,
    ]
    print(json.dumps(seen), flush=True)


async def main(links: str, run_dir: str) -> None:
    async with deployed(cast(Links, links), Path(run_dir)) as deployment:
        await exercise(deployment)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

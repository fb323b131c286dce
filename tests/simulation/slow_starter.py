"""The server that `splitbrain new` writes, as one that needs 25 seconds to start."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from splitbrain import NodeCommand, NodePlace, Program, Test
from splitbrain.harness.campaigns.starters.server import main as serve
from splitbrain.harness.campaigns.starters.system import Starter


async def main(arguments: Sequence[str]) -> None:
    """Serve, after a while."""
    await asyncio.sleep(25)
    await serve(arguments)


class SlowStarter(Starter):
    """Its nodes need longer to start than a healed system has otherwise, and it says so."""

    name = "slow-starter"
    capabilities = replace(Starter.capabilities, simulation=Program(main), start_s=40.0)

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        """As the other one, by the main of this module."""
        python, option, _, *arguments = super().command(test, place).argv
        return NodeCommand((python, option, __name__, *arguments))

"""The process of a node of the table store: `python -m splitbrain.cluster.tables --node n1 --listen HOST:PORT ...`.

The log goes to standard error. SIGTERM and SIGINT stop the node. Exit codes: 0 stopped in good order, 1 the node
failed, 2 the command line is wrong.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from splitbrain.cluster.errors import ArgumentError, ClusterError
from splitbrain.cluster.real import RealWorld
from splitbrain.cluster.runtime import STOPS
from splitbrain.cluster.tables.arguments import USAGE, parse
from splitbrain.cluster.tables.node import TablesConfig, TablesNode


def main(arguments: list[str]) -> int:
    """Run one node until it gets a stop signal; returns the exit code."""
    if any(argument in ("-h", "--help") for argument in arguments):
        print(USAGE, end="")
        return 0
    try:
        config, data = parse(arguments)
    except ArgumentError as error:
        print(f"error: {error}\n\n{USAGE}", end="", file=sys.stderr)
        return 2
    try:
        asyncio.run(_run(config, Path(data)))
    except (ClusterError, OSError) as error:
        print(f"error: node {config.node} stops: {error}", file=sys.stderr)
        return 1
    return 0


async def _run(config: TablesConfig, data: Path) -> None:
    loop = asyncio.get_running_loop()
    stop = loop.create_future()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, lambda: stop.done() or stop.set_result(None))
    world = RealWorld(data, config.node, lambda error: stop.done() or stop.set_exception(error))
    try:
        await TablesNode(config, world.runtime).start()
        world.runtime.log(f"serves {config.listen[0]}:{config.listen[1]}")
        await stop
        world.runtime.log(STOPS)
    finally:
        await world.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

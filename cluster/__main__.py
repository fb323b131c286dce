"""The node process: `python -m splitbrain.cluster --node n1 --listen HOST:PORT --peer n2=HOST:PORT ... --data DIR`.

The log goes to standard error, telemetry to DIR/telemetry.jsonl, and the marks that the node passes to the file that
SPLITBRAIN_MARKS names in the environment, if it does. SIGTERM and SIGINT stop the node in good order. Exit codes: 0
stopped in good order, 1 the node failed, 2 the command line is wrong.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import time
from pathlib import Path

from splitbrain.cluster.arguments import USAGE, parse
from splitbrain.cluster.discovery.arguments import USAGE as DISCOVERY_USAGE
from splitbrain.cluster.discovery.arguments import Options, taken_out
from splitbrain.cluster.errors import ArgumentError, ClusterError
from splitbrain.cluster.longcollections import LongCollections
from splitbrain.cluster.marks import MARKS_VARIABLE
from splitbrain.cluster.node import Node, NodeConfig
from splitbrain.cluster.real import RealWorld, marks_reported
from splitbrain.cluster.runtime import STOPS, Runtime


def main(arguments: list[str]) -> int:
    """Run one node until it gets a stop signal; returns the exit code."""
    if any(argument in ("-h", "--help") for argument in arguments):
        print(USAGE, end=DISCOVERY_USAGE)
        return 0
    try:
        others, discovery = taken_out(arguments)
        config, data = parse(others)
        if discovery is not None and config.founders:
            raise ArgumentError("--founders is for nodes that do not look for a cluster: leave it or --discovery out.")
        if discovery is not None and config.store == "tables":
            raise ArgumentError("--store tables: these nodes begin with --founders. Leave --store or --discovery out.")
    except ArgumentError as error:
        print(f"error: {error}\n\n{USAGE}", end="", file=sys.stderr)
        return 2
    try:
        gc.callbacks.append(LongCollections(time.perf_counter))
        with marks_reported(os.environ.get(MARKS_VARIABLE)):
            asyncio.run(_run(config, discovery, Path(data)))
    except ArgumentError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (ClusterError, OSError) as error:
        print(f"error: node {config.node} stops: {error}", file=sys.stderr)
        return 1
    return 0


async def _run(config: NodeConfig, discovery: Options | None, data: Path) -> None:
    loop = asyncio.get_running_loop()
    stop = loop.create_future()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, lambda: stop.done() or stop.set_result(None))
    world = RealWorld(data, config.node, lambda error: stop.done() or stop.set_exception(error))
    try:
        await (_of_founders if discovery is None else _by_discovery)(config, discovery, world.runtime, stop)
        world.runtime.log(STOPS)
    finally:
        await world.close()


async def _of_founders(config: NodeConfig, _: Options | None, runtime: Runtime, stop: asyncio.Future[None]) -> None:
    """A node that is said with which nodes its cluster begins."""
    node = Node(config, runtime)
    await node.start()
    runtime.log(f"serves {config.listen[0]}:{config.listen[1]}")
    await stop
    await node.stop()


async def _by_discovery(
    config: NodeConfig, discovery: Options | None, runtime: Runtime, stop: asyncio.Future[None]
) -> None:
    """A node that finds its cluster by itself."""
    from splitbrain.cluster.discovery.places import forming  # most nodes do without it, and start sooner

    assert discovery is not None, "the node has founders"
    node = forming(config, discovery, runtime)
    await node.start()
    runtime.log(f"serves {config.listen[0]}:{config.listen[1]}")
    try:
        await stop
    except ClusterError:
        await node.stop()  # that it gave up must not leave it listed
        raise
    await node.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

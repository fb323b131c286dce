"""A node of the table store inside another process, on a given runtime: for simulations.

As `splitbrain.cluster.embedded` is for the metadata cluster: only the runtime differs from that of a process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from splitbrain.cluster.bugs import lines_of
from splitbrain.cluster.runtime import Runtime
from splitbrain.cluster.tables.arguments import parse
from splitbrain.cluster.tables.node import TICK_MS, TablesNode
from splitbrain.cluster.tables.strategies import STRATEGIES

__all__ = ["BUGS", "STRATEGY_NAMES", "TICK_MS", "start"]

STRATEGY_NAMES: Final = tuple(STRATEGIES)

BUGS: Final[Mapping[str, str]] = lines_of("tables")
"""What a node's `--bugs` takes: what is broken, its source, and the checkers that can see it."""


async def start(argv: Sequence[str], runtime: Runtime) -> None:
    """Start a node; returns when it listens. It lives in the tasks that it spawned.

    Args:
        argv: what would follow `python -m splitbrain.cluster.tables`; `--data` has no effect.
        runtime: the node's world.

    Raises:
        ArgumentError: `argv` is wrong.
        StorageError: what the disk holds cannot be used.
        OSError: the disk failed, or the address cannot be served.
    """
    config, _ = parse(argv)
    await TablesNode(config, runtime).start()
    runtime.log(f"serves {config.listen[0]}:{config.listen[1]}")

"""A node inside another process, on a given runtime: for simulations.

What a node is and does here is what it is and does as a process of its own (`python -m splitbrain.cluster`); only the
runtime differs. Nothing that this module imports or runs looks at a clock, at entropy, at a file or at a socket of its
own.

    node = await start(["--node", "n1", "--listen", "n1:1", "--peer", "n2=n2:1", "--data", "-"], runtime)
    ...
    await node.stop()

`MARKS` are the states that a node may reach (see `splitbrain.cluster.marks`), `counted` counts them in all nodes of
this process, `heard` reports each of them at once. `recoverable` says what a node would
find on a disk.
"""

from __future__ import annotations

from collections.abc import Sequence

from splitbrain.cluster.arguments import parse
from splitbrain.cluster.arrivals import WINDOW
from splitbrain.cluster.errors import ArgumentError
from splitbrain.cluster.marks import (
    MARKS,
    MARKS_VARIABLE,
    OF_CLASSIC,
    OF_FLAGS,
    OF_QUEUES,
    OF_STORES,
    OF_STREAMS,
    counted,
    heard,
)
from splitbrain.cluster.node import Node
from splitbrain.cluster.nodeconfig import APPLY_SLICE
from splitbrain.cluster.raft.config import ELECTION_MS, HEARTBEAT_MS, MAX_BATCH, MAX_PENDING, MAX_PIPELINE
from splitbrain.cluster.recoverable import Seen, recoverable
from splitbrain.cluster.registered import known as known_functions
from splitbrain.cluster.runtime import STOPS, Address, Clock, Connection, Disk, File, Network, Rng, Runtime, Timer
from splitbrain.cluster.snapshotting import CHECKPOINT_INTERVAL, CHUNK_BYTES, SNAPSHOT_INTERVAL
from splitbrain.cluster.storage import WAL_BYTES
from splitbrain.cluster.tree import NEWEST_VERSION

__all__ = [
    "APPLY_SLICE",
    "CHECKPOINT_INTERVAL",
    "CHUNK_BYTES",
    "ELECTION_MS",
    "HEARTBEAT_MS",
    "MARKS",
    "MARKS_VARIABLE",
    "MAX_BATCH",
    "MAX_PENDING",
    "MAX_PIPELINE",
    "NEWEST_VERSION",
    "OF_CLASSIC",
    "OF_FLAGS",
    "OF_QUEUES",
    "OF_STORES",
    "OF_STREAMS",
    "SNAPSHOT_INTERVAL",
    "WAL_BYTES",
    "WINDOW",
    "Address",
    "ArgumentError",
    "Clock",
    "Connection",
    "Disk",
    "EmbeddedNode",
    "File",
    "Network",
    "Rng",
    "Runtime",
    "Seen",
    "Timer",
    "counted",
    "heard",
    "known_functions",
    "recoverable",
    "start",
]


class EmbeddedNode:
    """A node that serves. Made by `start`.

    It lives in the tasks that it spawned through its runtime: to end those tasks is to kill it.
    """

    def __init__(self, node: Node, runtime: Runtime) -> None:
        self._node = node
        self._runtime = runtime

    async def stop(self) -> None:
        """Do what a node process does when it gets SIGTERM; its tasks are to be cancelled right after this.

        Raises:
            OSError: the disk failed.
        """
        await self._node.stop()
        self._runtime.log(STOPS)


async def start(argv: Sequence[str], runtime: Runtime) -> EmbeddedNode:
    """Start a node; returns when it listens.

    Args:
        argv: what would follow `python -m splitbrain.cluster`. `--data` is needed as it is there, and of no effect: the
            files are those of the runtime's disk.
        runtime: the node's world. An exception out of a task that the node spawned means that the node has failed.

    Raises:
        ArgumentError: `argv` is wrong; the message names the argument.
        StorageError: what the disk holds cannot be used.
        OSError: the disk failed, or the address cannot be served.
    """
    config, _ = parse(argv)
    node = Node(config, runtime)
    await node.start()
    runtime.log(f"serves {config.listen[0]}:{config.listen[1]}")
    embedded = EmbeddedNode(node, runtime)
    runtime.stops(embedded.stop)
    return embedded

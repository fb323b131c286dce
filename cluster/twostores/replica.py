"""The tables of a node with two stores: a replica whose frames go over the links of the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from splitbrain.cluster.links import Links
from splitbrain.cluster.nodeconfig import NodeConfig
from splitbrain.cluster.runtime import Runtime
from splitbrain.cluster.tables.config import TablesConfig
from splitbrain.cluster.tables.hosted import HostedReplica
from splitbrain.cluster.tables.observed import Observed, line

ABOUT_TABLES: Final = b"t"
"""The first byte of a frame of the tables; those of consensus, requests and feature flags have others."""


GROUP: Final = ":tables"
"""Of what the tables report of themselves: no group of consensus has such a name."""


def hosted(config: NodeConfig, runtime: Runtime, links: Links, listen: Callable[[bool], None]) -> HostedReplica | None:
    """The replica of a node; None for one that is no founder: it joins the tree, and holds no tables.

    Args:
        config: of the node.
        runtime: of the node.
        links: to the other nodes.
        listen: is called when the replica begins or ends to serve.
    """
    if config.node not in config.founding_nodes:
        return None
    peers = {name: address for name, address in config.peers.items() if name in config.founding_nodes}
    of_tables = TablesConfig(
        config.node,
        config.listen,
        peers,
        config.partition_strategy,
        config.preferred,
        config.net_tick_ms,
        config.bugs,
    )
    return HostedReplica(
        of_tables,
        runtime,
        lambda to, frame: links.send_to_node(to, ABOUT_TABLES + frame),
        links.is_refused,
        listen,
        lambda observed: tell(runtime, observed),
    )


def tell(runtime: Runtime, observed: Observed) -> None:
    """Report something of the tables."""
    runtime.telemetry(line(observed, runtime.clock, GROUP))

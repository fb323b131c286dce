"""Maintenance: whether a node of the cluster takes on work, or is being drained."""

# A transaction reads values of any shape.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any, Final

import msgspec

from splitbrain.cluster import draining
from splitbrain.cluster.entities.checking import checked
from splitbrain.cluster.entities.names import node_name
from splitbrain.cluster.entities.paths import MAINTENANCE
from splitbrain.cluster.entities.records import Maintenance, NodeState
from splitbrain.cluster.entities.store import MetadataStore, Operation
from splitbrain.cluster.tree import ANY_CHILD

SET: Final = Operation("maintenance_set", 1)
DRAINED: Final = Operation(*draining.ASK)
TABLE: Final = "maintenance_v1"


def set_maintenance(tx: Any, data: Any) -> Any:
    """Note a node's state; whether it was another one."""
    path = (*MAINTENANCE, data["node"])
    before = tx.value(tx.get(path)) if tx.exists(path) else None
    tx.put(path, data["record"])
    return before != data["record"]


def drained_nodes(tx: Any, data: Any) -> Any:  # noqa: ARG001 - as every operation
    """Names of the nodes that are being drained, sorted."""
    records = [tx.value(node) for node in tx.get_many((*MAINTENANCE, ANY_CHILD))]
    return sorted([record["node"] for record in records if record["state"] == "draining"])


FUNCTIONS: Final = ((SET, set_maintenance), (DRAINED, drained_nodes))


async def put(store: MetadataStore, node: str, state: NodeState) -> bool:
    """Note the state of a node; whether it was noted as another one, or not at all, before."""
    record = checked(Maintenance(node, state))
    return await store.change(SET, {"node": node_name(node), "record": record})


async def drained(store: MetadataStore) -> frozenset[str]:
    """Names of the nodes that are being drained; linearizable."""
    return frozenset(await store.ask(DRAINED, None))


async def state_of(store: MetadataStore, node: str) -> NodeState:
    """The state of a node, as the member that is asked holds it; a node of which nothing is noted is regular."""
    found = await store.records(TABLE, node_name(node))
    return msgspec.convert(found[0][1], Maintenance).state if found else "regular"

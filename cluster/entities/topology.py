"""All entities, as one consistent read shows them.

The read has two versions: the first is of those that depend on each other, the second of every kind.
"""

# A transaction reads values of any shape.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from splitbrain.cluster.entities import bindings, exchanges, paths, permissions, policies, queues, users, vhosts
from splitbrain.cluster.entities.records import (
    Binding,
    Exchange,
    GlobalParameter,
    Maintenance,
    Parameter,
    Permission,
    Policy,
    Queue,
    TopicPermission,
    User,
    Vhost,
)
from splitbrain.cluster.entities.store import MetadataStore, Operation
from splitbrain.cluster.tree import ANY_CHILD

READ: Final = Operation("topology_read", 1)
READ_ALL: Final = Operation("topology_read", 2)

_LEVELS: Final = (
    ("vhosts", (*paths.VHOSTS, ANY_CHILD)),
    ("users", (*paths.USERS, ANY_CHILD)),
    ("permissions", (*paths.PERMISSIONS, ANY_CHILD, ANY_CHILD)),
    ("topic_permissions", (*paths.TOPIC_PERMISSIONS, ANY_CHILD, ANY_CHILD, ANY_CHILD)),
    ("exchanges", (*paths.EXCHANGES, ANY_CHILD, ANY_CHILD)),
    ("queues", (*paths.QUEUES, ANY_CHILD, ANY_CHILD)),
    ("bindings", (*paths.BINDINGS, ANY_CHILD, ANY_CHILD, ANY_CHILD, ANY_CHILD, ANY_CHILD)),
    ("policies", (*paths.POLICIES, ANY_CHILD, ANY_CHILD)),
)
_ALL_LEVELS: Final = (
    *_LEVELS,
    ("operator_policies", (*paths.OPERATOR_POLICIES, ANY_CHILD, ANY_CHILD)),
    ("parameters", (*paths.RUNTIME_PARAMS, ANY_CHILD, ANY_CHILD, ANY_CHILD)),
    ("global_parameters", (*paths.GLOBAL_PARAMS, ANY_CHILD)),
    ("maintenance", (*paths.MAINTENANCE, ANY_CHILD)),
)


class Topology(msgspec.Struct, frozen=True):
    """Entities, each kind in the order of paths. The last four kinds are empty where `READ_ALL` was not asked for."""

    vhosts: tuple[Vhost, ...]
    users: tuple[User, ...]
    permissions: tuple[Permission, ...]
    topic_permissions: tuple[TopicPermission, ...]
    exchanges: tuple[Exchange, ...]
    queues: tuple[Queue, ...]
    bindings: tuple[Binding, ...]
    policies: tuple[Policy, ...]
    operator_policies: tuple[Policy, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    global_parameters: tuple[GlobalParameter, ...] = ()
    maintenance: tuple[Maintenance, ...] = ()


def read_topology(tx: Any, data: Any) -> Any:  # noqa: ARG001 - as every operation
    """All that depend on each other from one state: of each kind the values of its nodes."""
    return [[kind, [tx.value(node) for node in tx.get_many(pattern)]] for kind, pattern in _LEVELS]


def read_all_entities(tx: Any, data: Any) -> Any:  # noqa: ARG001 - as every operation
    """The same of every kind."""
    return [[kind, [tx.value(node) for node in tx.get_many(pattern)]] for kind, pattern in _ALL_LEVELS]


FUNCTIONS: Final = ((READ, read_topology), (READ_ALL, read_all_entities))


TABLES: Final = (
    *(vhosts.TABLE, users.TABLE, permissions.TABLE, permissions.TOPIC_TABLE, exchanges.TABLE, queues.TABLE),
    *(bindings.BY_SOURCE, policies.TABLE),
)
"""The tables with the same entities, in the same order."""


async def read(store: MetadataStore) -> Topology:
    """All entities that depend on each other, of one state; linearizable."""
    return of_read(await store.ask(READ, None))


async def read_all(store: MetadataStore) -> Topology:
    """Entities of every kind, of one state; linearizable."""
    return of_read(await store.ask(READ_ALL, None))


def of_read(found: Any) -> Topology:
    """What `READ` or `READ_ALL` gave."""
    kinds = dict(found)
    kinds["bindings"] = [
        {**node, "arguments": arguments} for node in kinds["bindings"] for arguments in node["arguments"]
    ]
    return msgspec.convert(kinds, Topology)


def of_tables(tables: Mapping[str, Sequence[Sequence[Any]]]) -> Topology:
    """The same from all records of `TABLES`."""
    kinds = {kind: [record[1] for record in tables[name]] for (kind, _), name in zip(_LEVELS, TABLES, strict=True)}
    return msgspec.convert(kinds, Topology)

"""The projections of entities: what every member keeps of them beside the tree (DB-8, DB-9).

Their names have a version: what a name stands for never changes (KH-14). A program that changes one registers it under
the next version, and lists the former in `LEGACY`, which `register` drops.
"""

# A projection is given values of any shape.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any, Final

from splitbrain.cluster.entities import (
    bindings,
    exchanges,
    maintenance,
    parameters,
    paths,
    permissions,
    policies,
    queues,
    route_index,
    topic_trie,
    users,
    vhosts,
)
from splitbrain.cluster.entities.route_index import arguments_of
from splitbrain.cluster.entities.store import Operation
from splitbrain.cluster.tree import ANY_CHILD, RegisterProjection, UnregisterProjections
from splitbrain.cluster.tree.messages import TableKind

RECORD: Final = Operation("project_record", 1)
BOTH_ENDS: Final = Operation("project_bindings", 1)

LEGACY: Final[tuple[str, ...]] = ()
"""Former versions of projections."""


def project_record(path: Any, value: Any) -> Any:
    """The record of an entity: its names below the two of its kind, and its value."""
    return [path[2] if len(path) == 3 else list(path[2:]), value]


def project_bindings(tables: Any, path: Any, before: Any, after: Any) -> None:
    """Bindings by source and by destination; the node of several gives a record for each."""
    node = before if after is None else after
    if node["value"] is None:
        return
    vhost, source, kind, destination = path[2:6]
    by_source, by_destination = tables
    old, new = arguments_of(before), arguments_of(after)
    for arguments in [*old, *new]:
        if arguments in old and arguments in new:
            continue
        record = {**node["value"], "arguments": arguments}
        for table, key in ((by_source, [vhost, source]), (by_destination, [vhost, kind[1:], destination])):
            if arguments in old:
                table.delete_record([key, record])
            else:
                table.insert([key, record])


FUNCTIONS: Final = (
    (RECORD, project_record),
    (BOTH_ENDS, project_bindings),
    (route_index.PROJECT, route_index.project),
    (topic_trie.PROJECT, topic_trie.project),
)

_OF_RECORDS: Final = (
    (vhosts.TABLE, paths.VHOSTS, 1),
    (users.TABLE, paths.USERS, 1),
    (permissions.TABLE, paths.PERMISSIONS, 2),
    (permissions.TOPIC_TABLE, paths.TOPIC_PERMISSIONS, 3),
    (exchanges.TABLE, paths.EXCHANGES, 2),
    (queues.TABLE, paths.QUEUES, 2),
    (policies.TABLE, paths.POLICIES, 2),
    (policies.OPERATOR_TABLE, paths.OPERATOR_POLICIES, 2),
    (parameters.TABLE, paths.RUNTIME_PARAMS, 3),
    (parameters.GLOBAL_TABLE, paths.GLOBAL_PARAMS, 1),
    (maintenance.TABLE, paths.MAINTENANCE, 1),
)
_OF_BINDINGS: Final[tuple[tuple[str, Operation, tuple[tuple[str, TableKind], ...]], ...]] = (
    ("bindings_v1", BOTH_ENDS, ((bindings.BY_SOURCE, "bag"), (bindings.BY_DESTINATION, "bag"))),
    (route_index.TABLE, route_index.PROJECT, ((route_index.TABLE, "bag"),)),
    ("topic_trie_v1", topic_trie.PROJECT, ((topic_trie.EDGES, "set"), (topic_trie.BINDINGS, "bag"))),
)

PROJECTIONS: Final[tuple[RegisterProjection, ...]] = (
    *(
        RegisterProjection(name, (*above, *(ANY_CHILD for _ in range(names))), "simple", RECORD)
        for name, above, names in _OF_RECORDS
    ),
    *(
        RegisterProjection(name, (*paths.BINDINGS, *(ANY_CHILD for _ in range(5))), "extended", made, tables)
        for name, made, tables in _OF_BINDINGS
    ),
)
"""All of them."""

REGISTER: Final[tuple[RegisterProjection | UnregisterProjections, ...]] = (
    *((UnregisterProjections(LEGACY),) if LEGACY else ()),
    *PROJECTIONS,
)
"""The commands that make a store one of entities. To send one again does no harm: it is refused."""

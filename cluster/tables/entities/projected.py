"""The tables of entities as look-ups see them: with the names and records of the tree's projections (DB-8)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from splitbrain.cluster.entities import (
    bindings,
    exchanges,
    maintenance,
    parameters,
    permissions,
    policies,
    queues,
    route_index,
    topic_trie,
    users,
    vhosts,
)
from splitbrain.cluster.tables.entities import layout
from splitbrain.cluster.tables.entities.routes import edge_of
from splitbrain.cluster.tables.records import Item, Tables

Record = Sequence[Any]

_encoder: Final = msgspec.msgpack.Encoder(order="deterministic")


class Projected(NamedTuple):
    """A table under the name of a projection.

    Attributes:
        table: where its records are.
        keys: the keys of that table that have records of a projected key; None for all of them.
        records: the records of a key of that table.
    """

    table: str
    keys: Callable[[Tables, Any], Iterable[str]]
    records: Callable[[str, Any], Record]


def _names(found: str) -> Any:
    parts = found.split("/")
    return parts[0] if len(parts) == 1 else parts


def _record(found: str, value: Any) -> Record:
    return [_names(found), value]


def _policy(found: str, value: Any) -> Record:
    return [found.split("/")[::2], value]


def _by_source(found: str, value: Any) -> Record:
    return [found.split("/")[:2], value]


def _indexed(found: str, value: Any) -> Record:
    return [found.split("/"), *value]


def _bound_to_topic(found: str, value: Any) -> Record:
    return [found.split("/", 2), *value]


def _joined(wanted: Any) -> str:
    return wanted if isinstance(wanted, str) else layout.key(*wanted)


def _of_records(table: str, names: int) -> Projected:
    def keys(tables: Tables, wanted: Any) -> Iterable[str]:
        found = tables.keys(table) if wanted is None else [_joined(wanted)]
        return [each for each in found if each.count("/") == names - 1 and not _is_policy(each)]

    return Projected(table, keys, _record)


def _is_policy(found: str) -> bool:
    return found.split("/")[1:2] in ([layout.POLICY], [layout.OPERATOR_POLICY])


def _of_policies(component: str) -> Projected:
    def keys(tables: Tables, wanted: Any) -> Iterable[str]:
        found = tables.keys(layout.PARAMETERS) if wanted is None else [layout.key(wanted[0], component, wanted[1])]
        return [each for each in found if each.split("/")[1:2] == [component]]

    return Projected(layout.PARAMETERS, keys, _policy)


def _from_source(tables: Tables, wanted: Any) -> Iterable[str]:
    return tables.keys(layout.ROUTE, "" if wanted is None else layout.key(*wanted, ""))


def _to_destination(tables: Tables, wanted: Any) -> Iterable[str]:
    if wanted is None:
        return tables.keys(layout.ROUTE)
    return tables.read(Item(layout.REVERSE_ROUTE, layout.key(*wanted)))


def _by_destination(found: str, value: Any) -> Record:
    vhost, _, kind, end, _ = found.split("/")
    return [[vhost, kind, end], value]


def _of_trie(table: str) -> Callable[[Tables, Any], Iterable[str]]:
    def keys(tables: Tables, wanted: Any) -> Iterable[str]:
        if wanted is None:
            return tables.keys(table)
        return [layout.key(*wanted[:2], "".join(wanted[2:]))]

    return keys


def _edge(found: str, value: Any) -> Record:
    return [list(edge_of(found)), *value]


def _exactly(table: str) -> Callable[[Tables, Any], Iterable[str]]:
    return lambda tables, wanted: tables.keys(table) if wanted is None else [_joined(wanted)]


PROJECTED: Final[dict[str, Projected]] = {
    vhosts.TABLE: _of_records(layout.VHOST, 1),
    users.TABLE: _of_records(layout.USER, 1),
    permissions.TABLE: _of_records(layout.USER_PERMISSION, 2),
    permissions.TOPIC_TABLE: _of_records(layout.TOPIC_PERMISSION, 3),
    exchanges.TABLE: _of_records(layout.EXCHANGE, 2),
    queues.TABLE: _of_records(layout.QUEUE, 2),
    policies.TABLE: _of_policies(layout.POLICY),
    policies.OPERATOR_TABLE: _of_policies(layout.OPERATOR_POLICY),
    parameters.TABLE: _of_records(layout.PARAMETERS, 3),
    parameters.GLOBAL_TABLE: _of_records(layout.PARAMETERS, 1),
    maintenance.TABLE: _of_records(layout.MAINTENANCE, 1),
    bindings.BY_SOURCE: Projected(layout.ROUTE, _from_source, _by_source),
    bindings.BY_DESTINATION: Projected(layout.ROUTE, _to_destination, _by_destination),
    route_index.TABLE: Projected(layout.INDEX_ROUTE, _exactly(layout.INDEX_ROUTE), _indexed),
    topic_trie.EDGES: Projected(layout.TRIE_EDGE, _of_trie(layout.TRIE_EDGE), _edge),
    topic_trie.BINDINGS: Projected(layout.TRIE_BINDING, _of_trie(layout.TRIE_BINDING), _bound_to_topic),
}
"""By the names of the projections (`splitbrain.cluster.entities.tables`)."""


def records_of(tables: Tables, table: str, wanted: Any = None) -> list[Record]:
    """The records of a key, all without one, in the order in which a projection has them.

    Raises:
        KeyError: there is no such table.
    """
    projected = PROJECTED[table]
    found = [
        projected.records(each, value)
        for each in projected.keys(tables, wanted)
        for value in tables.read(Item(projected.table, each))
    ]
    return sorted(found, key=lambda record: (_encoder.encode(record[0]), _encoder.encode(record)))

"""What a record of a table becomes in the tree (M2K-3). Each table has one converter; who adds tables registers theirs.

A converter is pure: it is given a change of its table, and says what the tree is to be written. A record of a
checkpoint is the change that makes it. What a node needs is written before it: copies come in the order of converters,
and events behind them as they were committed. A write whose needs are not there is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from splitbrain.cluster.entities import paths
from splitbrain.cluster.errors import ArgumentError
from splitbrain.cluster.tables.entities import layout
from splitbrain.cluster.tables.records import Change, Delete, Insert, Item, Put, Remove

Path: TypeAlias = tuple[str, ...]
Write: TypeAlias = dict[str, Any]
"""What `splitbrain.cluster.migration.treewrites` takes: one change of the tree."""


class ConverterError(Exception):
    """A converter cannot convert a change. The message names the converter, the table and the key."""


class Converter(Protocol):
    """Of one table, or of several."""

    @property
    def tables(self) -> tuple[str, ...]:
        """Their names."""
        ...

    @property
    def order(self) -> int:
        """Tables of lower orders are copied before: what others need."""
        ...

    @property
    def roots(self) -> tuple[Path, ...]:
        """The tree nodes below which it writes: all of that goes when a migration begins anew, or fails."""
        ...

    def writes(self, change: Change) -> list[Write]:
        """What a change of its table is in the tree."""
        ...


class Converters:
    """A registry of converters.

    Args:
        converters: the first ones.
    """

    def __init__(self, converters: Iterable[Converter] = ()) -> None:
        self._by_table: dict[str, Converter] = {}
        for converter in converters:
            self.register(converter)

    def register(self, converter: Converter) -> None:
        """Add one.

        Raises:
            ArgumentError: one of its tables has a converter.
        """
        for table in converter.tables:
            if table in self._by_table:
                raise ArgumentError(f"table {table} has a converter already: each table takes one.")
        self._by_table.update(dict.fromkeys(converter.tables, converter))

    @property
    def roots(self) -> tuple[Path, ...]:
        """All tree nodes below which they write."""
        found = (root for converter in self._by_table.values() for root in converter.roots)
        return tuple(sorted(dict.fromkeys(found)))

    def writes(self, changes: Iterable[Change]) -> list[Write]:
        """What changes are in the tree; of tables without a converter nothing.

        Raises:
            ConverterError: a converter raised something.
        """
        found: list[Write] = []
        for change in changes:
            converter = self._by_table.get(change.item.table)
            if converter is None:
                continue
            try:
                found += converter.writes(change)
            except Exception as error:  # a plug-in's converter may raise anything, and the tables must answer again
                where = f"{type(converter).__name__}: {change.item.table}"
                raise ConverterError(f"{where}: {type(error).__name__}: {error} (key {change.item.key!r})") from error
        return found

    def ordered(self, contents: Mapping[str, Mapping[str, Sequence[Any]]]) -> list[Change]:
        """The records of a checkpoint as changes that make them, what others need first."""
        tables = sorted((converter.order, table) for table, converter in self._by_table.items() if contents.get(table))
        return [
            Insert(Item(table, key), value)
            for _, table in tables
            for key, values in sorted(contents[table].items())
            for value in values
        ]


class OfRecords:
    """Of a table whose every record is a node.

    Args:
        table: its name.
        order: of it.
        root: where its nodes stand.
        needs: below which tree nodes something has to be there, and which names of the key lead to it.
    """

    def __init__(self, table: str, order: int, root: Path, needs: Mapping[Path, tuple[int, ...]]) -> None:
        self.tables = (table,)
        self.order = order
        self.roots = (root,)
        self._needs = needs

    def writes(self, change: Change) -> list[Write]:
        """See `Converter`."""
        names = change.item.key.split("/")
        path = (*self.roots[0], *names)
        if isinstance(change, Put | Insert):
            needs = [(*root, *(names[at] for at in of)) for root, of in self._needs.items()]
            return [put(path, change.value, needs)]
        return [delete(path)]


class OfExchanges(OfRecords):
    """An exchange that deletes itself is kept by its bindings, once it has some."""

    def __init__(self) -> None:
        super().__init__(layout.EXCHANGE, 2, paths.EXCHANGES, {paths.VHOSTS: (0,)})

    def writes(self, change: Change) -> list[Write]:
        """See `Converter`."""
        found = super().writes(change)
        if isinstance(change, Put | Insert) and change.value["auto_delete"]:
            found[0]["if_there"] = [(*paths.BINDINGS, *change.item.key.split("/"))]
        return found


class OfParameters:
    """Parameters of virtual hosts and of the cluster, and policies, are in one table."""

    def __init__(self) -> None:
        self.tables = (layout.PARAMETERS,)
        self.order = 2
        self.roots = (paths.RUNTIME_PARAMS, paths.GLOBAL_PARAMS, paths.POLICIES, paths.OPERATOR_POLICIES)

    def writes(self, change: Change) -> list[Write]:
        """See `Converter`."""
        match change.item.key.split("/"):
            case [name]:
                path, needs = (*paths.GLOBAL_PARAMS, name), list[Path]()
            case [vhost, component, name]:
                path = _of_component(vhost, component, name)
                needs = [(*paths.VHOSTS, vhost)]
            case _:
                return []
        return [put(path, change.value, needs) if isinstance(change, Put | Insert) else delete(path)]


def _of_component(vhost: str, component: str, name: str) -> Path:
    if component == layout.POLICY:
        return (*paths.POLICIES, vhost, name)
    if component == layout.OPERATOR_POLICY:
        return (*paths.OPERATOR_POLICIES, vhost, name)
    return (*paths.RUNTIME_PARAMS, vhost, component, name)


class OfRoutes:
    """One node holds all bindings of the same ends and routing key (DB-3)."""

    def __init__(self) -> None:
        self.tables = (layout.ROUTE,)
        self.order = 3
        self.roots = (paths.BINDINGS,)

    def writes(self, change: Change) -> list[Write]:
        """See `Converter`."""
        vhost, source, kind, end, key = change.item.key.split("/")
        path = (*paths.BINDINGS, vhost, source, f":{kind}", end, key)
        match change:
            case Insert(value=value):
                ends = [
                    (*paths.EXCHANGES, vhost, source),
                    (*(paths.EXCHANGES if kind == "exchange" else paths.QUEUES), vhost, end),
                ]
                return [{"do": "bind", "path": path, "value": value, "needs": ends, "vhost": (*paths.VHOSTS, vhost)}]
            case Remove(value=value):
                return [{"do": "unbind", "path": path, "value": value}]
            case Delete():
                return [delete(path)]
            case Put():
                return [delete(path), *self.writes(Insert(change.item, change.value))]


class Derived:
    """Of tables that follow from others: in the tree they are projections."""

    tables = (layout.REVERSE_ROUTE, layout.INDEX_ROUTE, layout.TRIE_EDGE, layout.TRIE_BINDING)
    order = 4
    roots = ()

    def writes(self, change: Change) -> list[Write]:
        """Nothing."""
        return []


def put(path: Path, value: Any, needs: Sequence[Path]) -> Write:
    """Have a node, kept by what it needs; nothing if one of these is not there."""
    return {"do": "put", "path": path, "value": value, "needs": needs, "if_there": []}


def delete(path: Path) -> Write:
    """Have no node."""
    return {"do": "delete", "path": path}


def of_entities(others: Iterable[Converter] = ()) -> Converters:
    """The converters of all tables of entities, and others. A new registry, to which more can be added.

    Raises:
        ArgumentError: one of the others is of a table that has a converter.
    """
    vhost: dict[Path, tuple[int, ...]] = {paths.VHOSTS: (0,)}
    user: dict[Path, tuple[int, ...]] = {paths.USERS: (1,)}
    return Converters(
        (
            OfRecords(layout.VHOST, 0, paths.VHOSTS, {}),
            OfRecords(layout.USER, 0, paths.USERS, {}),
            OfRecords(layout.MAINTENANCE, 0, paths.MAINTENANCE, {}),
            OfRecords(layout.USER_PERMISSION, 1, paths.PERMISSIONS, {**vhost, **user}),
            OfExchanges(),
            OfRecords(layout.QUEUE, 2, paths.QUEUES, vhost),
            OfParameters(),
            OfRecords(
                layout.TOPIC_PERMISSION, 3, paths.TOPIC_PERMISSIONS, {paths.USERS: (2,), paths.EXCHANGES: (0, 1)}
            ),
            OfRoutes(),
            Derived(),
            *others,
        )
    )


ORDER_OF_PLUGINS: Final = 10
"""From here on: what needs any of the above."""

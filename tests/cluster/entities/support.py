"""A store of entities in this process, and its coroutines without a loop."""

# A transaction reads values of any shape.
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from splitbrain.cluster.bugs import NO_BUGS, Bugs
from splitbrain.cluster.entities import queues, topology, users, vhosts
from splitbrain.cluster.entities.functions import functions_of
from splitbrain.cluster.entities.names import decoded_arguments
from splitbrain.cluster.entities.store import LocalStore, MetadataStore, Operation
from splitbrain.cluster.entities.tables import REGISTER
from splitbrain.cluster.tables.entities.store import LocalTables, TablesStore
from splitbrain.cluster.tree import NEWEST_VERSION, Tree
from tests.cluster.entities.broker import typed

T = TypeVar("T")


def now(of: Coroutine[Any, Any, T]) -> T:
    """What a coroutine gives that waits for nothing."""
    try:
        of.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits for something")


def new_store(bugs: Bugs = NO_BUGS) -> tuple[Tree, LocalStore]:
    """An empty tree with the projections of entities, and the store over it."""
    tree = Tree(version=NEWEST_VERSION, functions=functions_of(bugs))
    for command in REGISTER:
        tree.execute(command)
    return tree, LocalStore(tree)


KINDS = ("tree", "tables")
"""Of stores."""


def empty(kind: str, bugs: Bugs = NO_BUGS) -> MetadataStore:
    """An empty store of a kind."""
    return new_store(bugs)[1] if kind == "tree" else TablesStore(LocalTables())


def stocked() -> tuple[Tree, LocalStore]:
    """A store with the vhost "/", the user "u" and the queue "q"."""
    tree, store = new_store()
    stock(store)
    return tree, store


def stock(store: MetadataStore) -> None:
    """Put the same into an empty store."""
    now(vhosts.declare(store, "/"))
    now(users.add(store, "u"))
    now(queues.declare(store, "/", "q"))


class Interposed:
    """A store before whose changes something else happens.

    Args:
        store: it.
        before: is given the operation and its data.
    """

    def __init__(self, store: MetadataStore, before: Callable[[Operation, Any], Awaitable[None]]) -> None:
        self._store = store
        self._before = before

    async def change(self, operation: Operation, data: Any) -> Any:
        await self._before(operation, data)
        return await self._store.change(operation, data)

    async def ask(self, operation: Operation, data: Any) -> Any:
        return await self._store.ask(operation, data)

    async def records(self, table: str, key: Any = None) -> Sequence[Sequence[Any]]:
        return await self._store.records(table, key)


def rebuilt(tree: Tree, bugs: Bugs = NO_BUGS) -> Tree:
    """The same tree after a restart: its projections are made from its nodes alone."""
    made = Tree.load(
        tree.dump(),
        version=NEWEST_VERSION,
        functions=functions_of(bugs),
        triggers=tree.triggers.dump(),
        projections=tree.projections.dump(),
    )
    while made.projections.build(made.state):
        pass
    return made


def shape(found: topology.Topology) -> Any:
    """A topology as the model has it (`Broker.shape`)."""
    return {
        "vhosts": sorted(each.name for each in found.vhosts),
        "users": sorted(each.name for each in found.users),
        "permissions": sorted((each.vhost, each.user) for each in found.permissions),
        "topic_permissions": sorted((each.vhost, each.user, each.exchange) for each in found.topic_permissions),
        "exchanges": sorted((each.vhost, each.name, each.type, each.auto_delete) for each in found.exchanges),
        "queues": sorted(
            (
                each.vhost,
                each.name,
                *map(repr, (each.durable, each.owner, each.node, typed(decoded_arguments(each.arguments)))),
            )
            for each in found.queues
        ),
        "bindings": sorted(
            (
                (
                    each.vhost,
                    each.source,
                    each.kind,
                    each.destination,
                    each.key,
                    typed(decoded_arguments(each.arguments)),
                )
                for each in found.bindings
            ),
            key=repr,
        ),
        "policies": sorted((each.vhost, each.name) for each in found.policies),
    }

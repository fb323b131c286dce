"""Tree and tables side by side: `python -m tests.cluster.entities.side_by_side STEPS` for very many steps (DB-7)."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Sequence
from typing import Any, cast

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from splitbrain.cluster.entities import bindings, parameters, permissions, policies, queues, topology, users, vhosts
from splitbrain.cluster.entities.store import LocalStore, MetadataStore, Operation
from splitbrain.cluster.errors import ClusterError
from splitbrain.cluster.tables.entities.projected import PROJECTED
from splitbrain.cluster.tables.entities.store import LocalTables, TablesStore
from splitbrain.cluster.tree import Tree
from tests.cluster.entities.entities_modelled import (
    ARGUMENTS,
    EXCHANGES,
    KEYS,
    TYPES,
    USERS,
    VHOSTS,
    EntitiesBesideModel,
    outcome,
    run,
)
from tests.cluster.entities.support import new_store, now

NAMES = st.sampled_from(["n", ":policy", "a/b"])


class SideBySide:
    """Two stores that take the same calls, and have to give the same answers and errors."""

    def __init__(self, tree: LocalStore, tables: TablesStore) -> None:
        self.tree = tree
        self.tables = tables

    async def change(self, operation: Operation, data: Any) -> Any:
        if operation == queues.DELETE_UNCHANGED:
            # A version stands for something in its own store only.
            of_tree = [[path, versions[0], *of] for path, versions, *of in data]
            of_tables = [[path, versions[1], *of] for path, versions, *of in data]
            return await same(self.tree.change(operation, of_tree), self.tables.change(operation, of_tables))
        return await same(self.tree.change(operation, data), self.tables.change(operation, data))

    async def ask(self, operation: Operation, data: Any) -> Any:
        if operation != queues.SELECT:
            return await same(self.tree.ask(operation, data), self.tables.ask(operation, data))
        of_tree, of_tables = await self.tree.ask(operation, data), await self.tables.ask(operation, data)
        assert [(path, value) for path, _, value in of_tree] == [(path, value) for path, _, value in of_tables]
        return [[each[0], [each[1], other[1]], each[2]] for each, other in zip(of_tree, of_tables, strict=True)]

    async def records(self, table: str, key: Any = None) -> Sequence[Sequence[Any]]:
        return await same(self.tree.records(table, key), self.tables.records(table, key))


async def same(of_tree: Awaitable[Any], of_tables: Awaitable[Any]) -> Any:
    """What both give, or the error that both raise."""
    answers: list[Any] = []
    for asked in (of_tree, of_tables):
        try:
            answers.append(await asked)
        except ClusterError as error:
            answers.append(error)
    first, second = answers
    if isinstance(first, ClusterError):
        assert (type(first), str(first)) == (type(second), str(second))
        raise first
    assert typed(first) == typed(second), f"tree: {first}, tables: {second}"
    return first


def typed(value: Any) -> Any:
    """A value that differs from one of another type: to Python 1 and True are equal."""
    if isinstance(value, dict):
        found = cast("dict[Any, Any]", value)
        return {name: typed(inner) for name, inner in found.items()}
    if isinstance(value, list | tuple):
        return [typed(inner) for inner in cast("Sequence[Any]", value)]
    return type(value), value


class TreeBesideTables(EntitiesBesideModel):
    """The rules of entities, each on both stores, and beside the model; then rules that the model does not have."""

    def stores(self) -> tuple[Tree, MetadataStore]:
        tree, store = new_store()
        self.tables = LocalTables()
        return tree, SideBySide(store, TablesStore(self.tables))

    @rule(u=USERS, tags=st.lists(st.sampled_from(["administrator", "monitoring"]), max_size=2))
    def change_user(self, u: str, tags: list[str]) -> None:
        outcome(users.change(self.store, u, tags=tags))

    @rule(v=VHOSTS)
    def declare_another_vhost(self, v: str) -> None:
        if v in self.broker.vhosts:
            assert outcome(vhosts.declare(self.store, v, description="another")) == "precondition_failed"

    @rule(v=VHOSTS, u=USERS, x=EXCHANGES)
    def revoke_topic(self, v: str, u: str, x: str) -> None:
        outcome(permissions.revoke_topic(self.store, v, u, x))
        self.broker.topic_permissions.discard((v, u, x))

    @rule(v=VHOSTS, component=NAMES, name=NAMES, value=st.sampled_from([1, True, {"a": [1]}]), is_set=st.booleans())
    def parameter(self, v: str, component: str, name: str, value: Any, is_set: bool) -> None:
        if is_set:
            outcome(parameters.put(self.store, v, component, name, value))
        else:
            outcome(parameters.clear(self.store, v, component, name))
        outcome(parameters.find(self.store, v, component, name))

    @rule(name=NAMES, is_set=st.booleans())
    def global_parameter(self, name: str, is_set: bool) -> None:
        if is_set:
            outcome(parameters.put_global(self.store, name, name))
        else:
            outcome(parameters.clear_global(self.store, name))

    @rule(v=VHOSTS, is_set=st.booleans())
    def operator_policy(self, v: str, is_set: bool) -> None:
        if is_set:
            outcome(policies.put(self.store, v, "p", "q", {"max-length": 1}, operator=True))
        else:
            outcome(policies.clear(self.store, v, "p", operator=True))

    @rule(v=VHOSTS, q=st.sampled_from(["q", "r.s", ""]), x=EXCHANGES, key=KEYS)
    def look_up(self, v: str, q: str, x: str, key: str) -> None:
        outcome(queues.find(self.store, v, q))
        outcome(self.store.records("topic_edges_v1", [v.replace("/", "%2F"), x, "", key.partition(".")[0]]))  # pyright: ignore[reportArgumentType]

    @rule(v=VHOSTS, kind=TYPES, keys=st.lists(KEYS, min_size=1, max_size=3), arguments=ARGUMENTS, by_end=st.booleans())
    def an_exchange_deletes_itself(self, v: str, kind: Any, keys: list[str], arguments: Any, by_end: bool) -> None:
        self.declare_vhost(v)
        self.declare_exchange(v, "y", kind, True)
        self.declare_exchange(v, "x", "fanout", True)
        self.declare_queue(v, "r.s", True, None, "n1", ())
        self.bind(v, "x", "exchange", "", "y", "", (), None)
        for key in keys:
            self.bind(v, "y", "queue", "r.s", "", key, arguments, None)
        self.every_table_is_the_same()
        if by_end:
            self.delete_queue(v, "r.s", None)
        else:
            self.delete_exchange(v, "y", False)

    @rule(v=VHOSTS, x=EXCHANGES, keys=st.lists(KEYS, min_size=2, max_size=4))
    def bindings_come_and_go(self, v: str, x: str, keys: list[str]) -> None:
        for key in keys:
            self.bind(v, x, "queue", "q", "", key, (), None)
            self.bind(v, x, "queue", "q", "", key, (("h", 1),), None)
        for key in keys[1:]:
            self.both(
                bindings.remove(self.store, v, x, "queue", "q", key), self.broker.unbind(v, x, "queue", "q", key, ())
            )

    @rule(v=VHOSTS, u=USERS, is_user=st.booleans())
    def a_user_or_a_vhost_ends(self, v: str, u: str, is_user: bool) -> None:
        self.add_user(u)
        for x in ("x", "y"):
            self.grant(v, u)
            self.grant_topic(v, u, x)
        if is_user:
            self.delete_user(u, True)
        else:
            self.delete_vhost(v, True)

    def projections_are_those_of_the_tree(self) -> None:
        """Is checked beside the model alone."""

    @invariant()
    def every_table_is_the_same(self) -> None:
        for table in PROJECTED:
            now(self.store.records(table))  # pyright: ignore[reportArgumentType]
        now(topology.read_all(self.store))

    def teardown(self) -> None:
        for name in ("n", ":policy", "a/b"):
            outcome(parameters.clear_global(self.store, name))
        super().teardown()
        assert not self.tables.tables.contents(), "tables keep something of what was removed"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.cluster.entities.side_by_side STEPS")
    run(int(sys.argv[1]), same=False, machine=TreeBesideTables)
    print(f"{EntitiesBesideModel.taken:,} steps: tree and tables gave the same answers, errors and records.")

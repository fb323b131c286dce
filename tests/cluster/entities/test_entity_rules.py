"""What entities promise, rule by rule (DB-1 to DB-9, D2), on a tree and on tables in this process (DB-7)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from splitbrain.cluster.entities import (
    bindings,
    exchanges,
    maintenance,
    parameters,
    permissions,
    policies,
    queues,
    records,
    topology,
    users,
    vhosts,
)
from splitbrain.cluster.entities.errors import (
    AccessRefusedError,
    EntityExistsError,
    EntityNotFoundError,
    PreconditionFailedError,
    ResourceLockedError,
)
from splitbrain.cluster.entities.store import LocalStore, MetadataStore, Operation, encoded
from splitbrain.cluster.errors import InvalidRequestError, RefusedError, UnavailableError
from splitbrain.cluster.tables.entities.store import LocalTables, TablesStore
from splitbrain.cluster.tables.records import Item, Put
from splitbrain.cluster.tree import NEWEST_VERSION, PutNodes, Tree
from tests.cluster.entities.support import KINDS, Interposed, empty, now, stock, stocked


@pytest.fixture
def tree_and_store() -> tuple[Tree, LocalStore]:
    tree, store = stocked()
    now(exchanges.declare(store, "/", "x", "direct"))
    now(exchanges.declare(store, "/", "y", "topic"))
    return tree, store


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest) -> MetadataStore:
    made = empty(request.param)
    stock(made)
    now(exchanges.declare(made, "/", "x", "direct"))
    now(exchanges.declare(made, "/", "y", "topic"))
    return made


def paths(tree: Tree) -> list[str]:
    return ["/".join(path) for path, found in tree.contents() if found.payload is not None]


def test_d2_entities_stand_at_the_paths_of_the_documents(tree_and_store: tuple[Tree, LocalStore]) -> None:
    tree, store = tree_and_store
    now(permissions.grant(store, "/", "u"))
    now(permissions.grant_topic(store, "/", "u", "y"))
    now(bindings.add(store, "/", "x", "queue", "q", "a/b"))
    now(bindings.add(store, "/", "x", "exchange", "y"))
    now(parameters.put(store, "/", "shovel", "s", {"n": 1}))
    now(parameters.put_global(store, "cluster_name", "c"))
    now(policies.put(store, "/", "p", ".*", {"delivery-limit": 10}))
    now(policies.put(store, "/", "p", ".*", {"delivery-limit": 20}, operator=True))
    now(maintenance.put(store, "n1", "draining"))
    found = paths(tree)
    assert [path for path in found if "amq." not in path] == [
        ":rabbit/:bindings/%2F/x/:exchange/y/:empty",
        ":rabbit/:bindings/%2F/x/:queue/q/a%2Fb",
        ":rabbit/:exchanges/%2F/x",
        ":rabbit/:exchanges/%2F/y",
        ":rabbit/:global_params/cluster_name",
        ":rabbit/:maintenance/n1",
        ":rabbit/:operator_policies/%2F/p",
        ":rabbit/:permissions/%2F/u",
        ":rabbit/:policies/%2F/p",
        ":rabbit/:queues/%2F/q",
        ":rabbit/:runtime_params/%2F/shovel/s",
        ":rabbit/:topic_permissions/%2F/y/u",
        ":rabbit/:users/u",
        ":rabbit/:vhosts/%2F",
    ]


def test_db_2_all_of_a_vhost_goes_with_it_in_one_command(tree_and_store: tuple[Tree, LocalStore]) -> None:
    tree, store = tree_and_store
    now(permissions.grant(store, "/", "u"))
    now(permissions.grant_topic(store, "/", "u", "y"))
    now(bindings.add(store, "/", "x", "queue", "q"))
    now(parameters.put(store, "/", "shovel", "s", 1))
    now(policies.put(store, "/", "p", ".*", {"delivery-limit": 10}))
    now(policies.put(store, "/", "p", ".*", {"delivery-limit": 10}, operator=True))
    now(vhosts.delete(store, "/"))
    assert paths(tree) == [":rabbit/:users/u"]
    with pytest.raises(EntityNotFoundError):
        now(vhosts.delete(store, "/"))


def test_db_2_permissions_go_with_their_user(store: MetadataStore) -> None:
    now(users.add(store, "w"))
    for user in ("u", "w"):
        now(permissions.grant(store, "/", user, read=".*"))
        now(permissions.grant_topic(store, "/", user, "y"))
    now(users.delete(store, "u"))
    assert [found.user for found in now(permissions.every(store))] == ["w"]
    assert [found.user for found in now(permissions.every_topic(store))] == ["w"]
    with pytest.raises(EntityNotFoundError):
        now(permissions.grant(store, "/", "u"))


@pytest.mark.parametrize("end", ["x", "y", "q"])
def test_db_2_a_binding_goes_with_either_end_and_does_not_come_back_with_it(store: MetadataStore, end: str) -> None:
    now(bindings.add(store, "/", "x", "queue" if end != "y" else "exchange", "q" if end != "y" else "y", "k"))
    if end == "q":
        assert now(queues.delete(store, "/", "q"))
        now(queues.declare(store, "/", "q"))
    else:
        assert now(exchanges.delete(store, "/", end))
        now(exchanges.declare(store, "/", end, "fanout"))
    assert now(bindings.every(store)) == []
    assert now(topology.read(store)).bindings == ()


def test_db_2_an_exchange_that_deletes_itself_goes_with_its_last_binding_and_takes_others_along(
    store: MetadataStore,
) -> None:
    for name in ("first", "second"):
        now(exchanges.declare(store, "/", name, "fanout", auto_delete=True))
    now(bindings.add(store, "/", "first", "exchange", "second"))
    now(bindings.add(store, "/", "second", "queue", "q", "k"))
    now(bindings.add(store, "/", "second", "queue", "q", "l"))
    now(bindings.remove(store, "/", "second", "queue", "q", "k"))
    assert now(exchanges.find(store, "/", "second")) is not None
    now(queues.delete(store, "/", "q"))
    assert now(exchanges.find(store, "/", "second")) is None
    assert now(exchanges.find(store, "/", "first")) is None


def test_db_3_bindings_that_differ_in_arguments_are_several(store: MetadataStore) -> None:
    for arguments, is_new in (({"n": 1}, True), ({"n": True}, True), ({"n": 1}, False), ({}, True)):
        assert now(bindings.add(store, "/", "x", "queue", "q", "k", arguments=arguments)) is is_new
    assert now(bindings.remove(store, "/", "x", "queue", "q", "k", arguments={"n": True}))
    assert not now(bindings.remove(store, "/", "x", "queue", "q", "k", arguments={"n": True}))
    assert len(now(bindings.of_source(store, "/", "x"))) == 2
    assert len(now(bindings.of_destination(store, "/", "queue", "q"))) == 2


def test_db_3_a_binding_looks_at_its_ends_in_its_own_transaction(store: MetadataStore) -> None:
    """What was seen before it does not count: the queue goes between the look and the binding."""

    async def before(operation: Operation, data: Any) -> None:
        if operation == bindings.ADD:
            await queues.delete(store, "/", "q")

    late = Interposed(store, before)
    with pytest.raises(EntityNotFoundError, match="queue 'q'"):
        now(bindings.add(late, "/", "x", "queue", "q"))
    assert now(topology.read(store)).bindings == ()


def test_db_4_to_declare_again_what_is_there_is_fine_and_what_differs_is_refused(store: MetadataStore) -> None:
    now(queues.declare(store, "/", "d", node="n1", arguments={"x-max-length": 1}))
    assert now(queues.declare(store, "/", "d", node="n2", arguments={"x-max-length": 1})).node == "n1"
    for different in ({"durable": False}, {"auto_delete": True}, {"arguments": {"x-max-length": True}}):
        fields: Any = {"arguments": {"x-max-length": 1}, **different}
        with pytest.raises(PreconditionFailedError, match=next(iter(different))):
            now(queues.declare(store, "/", "d", **fields))
    with pytest.raises(PreconditionFailedError, match="type is 'direct', not 'topic'"):
        now(exchanges.declare(store, "/", "x", "topic"))
    with pytest.raises(PreconditionFailedError):
        now(vhosts.declare(store, "/", description="another"))
    with pytest.raises(EntityExistsError):
        now(users.add(store, "u"))


def test_db_5_transient_queues_of_a_node_are_selected_outside_and_removed_if_they_did_not_change(
    store: MetadataStore,
) -> None:
    for number in range(3):
        now(queues.declare(store, "/", f"t{number}", durable=False, node="n1"))
    now(queues.declare(store, "/", "elsewhere", durable=False, node="n2"))
    now(queues.declare(store, "/", "durable", node="n1"))
    attempts: list[Operation] = []

    async def before(operation: Operation, data: Any) -> None:
        """A queue is declared anew, elsewhere, between the first selection and the removal."""
        if operation == queues.DELETE_UNCHANGED and not attempts:
            replace(store, data[1][0], records.Queue("/", "t1", durable=False, node="n2"))
        attempts.append(operation)

    assert now(queues.delete_transient(Interposed(store, before), "n1")) == 2
    assert len(attempts) == 2
    assert sorted(found.name for found in now(queues.every(store))) == ["durable", "elsewhere", "q", "t1"]


@pytest.mark.parametrize("kind", KINDS)
def test_db_5_queues_with_long_names_are_removed_by_requests_that_a_store_takes(kind: str) -> None:
    store = empty(kind)
    stock(store)
    for at in range(queues.AT_ONCE):
        now(queues.declare(store, "/", f"{at:03}{'x' * 252}", durable=False, node="n1"))
    assert now(queues.delete_transient(store, "n1")) == queues.AT_ONCE
    assert [each.name for each in now(queues.every(store))] == ["q"]


def replace(store: MetadataStore, path: Any, record: records.Queue) -> None:
    if isinstance(store, LocalStore):
        store._tree.execute(PutNodes(tuple(path), encoded(record)))  # pyright: ignore[reportPrivateUsage]
    else:
        assert isinstance(store, TablesStore)
        tables = store._tables  # pyright: ignore[reportPrivateUsage]
        assert isinstance(tables, LocalTables)
        tables.tables.apply([Put(Item("rabbit_queue", "/".join(path[2:])), msgspec.to_builtins(record))])


def test_db_6_an_exclusive_queue_is_of_one_connection_and_goes_with_it(store: MetadataStore) -> None:
    now(queues.declare(store, "/", "mine", owner="c1"))
    now(bindings.add(store, "/", "x", "queue", "mine", owner="c1"))
    for refused in (
        queues.declare(store, "/", "mine", owner="c2"),
        queues.delete(store, "/", "mine", owner="c2"),
        bindings.add(store, "/", "x", "queue", "mine", "k", owner="c2"),
    ):
        with pytest.raises(ResourceLockedError):
            now(refused)
    assert now(queues.delete_exclusive(store, "c2")) == 0
    assert now(queues.delete_exclusive(store, "c1")) == 1
    assert now(bindings.every(store)) == []


def test_db_6_the_end_of_a_connection_leaves_the_queue_of_another_one_that_came_under_the_name(
    store: MetadataStore,
) -> None:
    """The virtual host goes and comes between the selection and the removal: both queues are of the first version."""
    now(queues.declare(store, "/", "mine", owner="c1"))

    async def before(operation: Operation, data: Any) -> None:
        if operation == queues.DELETE_UNCHANGED:
            await vhosts.delete(store, "/")
            await vhosts.declare(store, "/")
            await queues.declare(store, "/", "mine", owner="c2")

    assert now(queues.delete_exclusive(Interposed(store, before), "c1")) == 0
    assert [found.owner for found in now(queues.every(store))] == ["c2"]
    assert [found.owner for found in now(queues.of_owner(store, "c2"))] == ["c2"]
    assert now(queues.of_owner(store, "c1")) == []


def test_names_that_are_reserved_are_refused(store: MetadataStore) -> None:
    for refused in (
        exchanges.declare(store, "/", "amq.mine", "direct"),
        exchanges.delete(store, "/", "amq.direct"),
        exchanges.declare(store, "/", "", "direct"),
        bindings.add(store, "/", "", "queue", "q", "k"),
    ):
        with pytest.raises(AccessRefusedError):
            now(refused)


def test_an_exchange_in_use_stays_if_that_was_asked_for(store: MetadataStore) -> None:
    now(bindings.add(store, "/", "x", "queue", "q"))
    with pytest.raises(PreconditionFailedError, match="in use"):
        now(exchanges.delete(store, "/", "x", if_unused=True))
    assert now(exchanges.delete(store, "/", "y", if_unused=True))


def test_users_change_and_parameters_and_states_of_nodes_are_kept(store: MetadataStore) -> None:
    now(users.change(store, "u", tags=["administrator"]))
    assert now(users.find(store, "u")) == records.User("u", "", ("administrator",))
    assert now(parameters.put(store, "/", "c", "n", [1])) == now(parameters.find(store, "/", "c", "n"))
    assert now(parameters.clear(store, "/", "c", "n"))
    assert now(parameters.find(store, "/", "c", "n")) is None
    now(parameters.put_global(store, "g", 1))
    assert now(parameters.find_global(store, "g")) == records.GlobalParameter("g", 1)
    assert now(maintenance.put(store, "n1", "draining"))
    assert not now(maintenance.put(store, "n1", "draining"))
    assert now(maintenance.state_of(store, "n1")) == "draining"
    assert now(maintenance.state_of(store, "n2")) == "regular"


def test_of_policies_the_one_of_the_highest_priority_counts_and_the_operator_limits_it() -> None:
    low = records.Policy("/", "low", ".*", {"delivery-limit": 5, "max-length": 1}, 0, "all")
    high = records.Policy("/", "high", "^orders", {"delivery-limit": 50, "target-group-size": 3}, 1, "queues")
    operator = records.Policy("/", "op", "", {"delivery-limit": 20, "target-group-size": 5}, 0, "queues")
    assert policies.effective("queue", "orders.new", [low, high]) == {"delivery-limit": 50, "target-group-size": 3}
    assert policies.effective("queue", "orders.new", [low, high], [operator]) == {
        "delivery-limit": 20,
        "target-group-size": 5,
    }
    assert policies.effective("exchange", "orders.new", [low, high], [operator]) == low.definition
    assert policies.effective("queue", "other", [high]) == {}


def test_bad_input_is_refused_with_the_store_unchanged(tree_and_store: tuple[Tree, LocalStore]) -> None:
    tree, store = tree_and_store
    before = tree.state_hash
    for refused in (
        queues.declare(store, "/", "q" * 256),
        queues.declare(store, "/", "big", arguments={"a": "x" * 200_000}),
        queues.declare(store, "/", "odd", arguments={"a": object()}),
        permissions.grant(store, "/", "u", read="("),
        policies.put(store, "/", "p", ".*", {}),
        bindings.add(store, "/", "x", "queue", "q", "k" * 300),
    ):
        with pytest.raises(InvalidRequestError):
            now(refused)
    assert tree.state_hash == before


def test_a_member_without_the_projections_is_unavailable_and_does_not_say_that_nothing_is_there() -> None:
    store = LocalStore(Tree(version=NEWEST_VERSION))
    with pytest.raises(UnavailableError):
        now(users.find(store, "u"))
    with pytest.raises(RefusedError, match="unknown_function"):
        now(users.add(store, "u"))

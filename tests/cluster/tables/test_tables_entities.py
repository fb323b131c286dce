"""Entities on table nodes (DB-7): transactions of several nodes are as if one came after the other, all or nothing."""

from __future__ import annotations

import random
from collections.abc import Coroutine, Generator, Sequence
from typing import Any

import msgspec
import pytest

from splitbrain.cluster.entities import (
    bindings,
    exchanges,
    maintenance,
    parameters,
    permissions,
    queues,
    topology,
    users,
    vhosts,
)
from splitbrain.cluster.entities.errors import EntityError
from splitbrain.cluster.errors import UnavailableError
from splitbrain.cluster.tables.coordinator import Done
from splitbrain.cluster.tables.entities.access import TablesClosedError
from splitbrain.cluster.tables.entities.store import LocalTables, TablesStore
from splitbrain.cluster.tables.known import KNOWN, problem_of
from tests.cluster.entities.support import now
from tests.cluster.tables.simulation import Cluster, Request
from tests.cluster.tables.test_tables_random import check_alike, kill_or_start

VHOSTS = ("/", "v")
USERS = ("u", "w")
EXCHANGES = ("x", "y", "z")
QUEUES = ("q", "r")


class Ended:
    """Waits for a request: a client gives way until it has ended."""

    def __init__(self, request: Request) -> None:
        self._request = request

    def __await__(self) -> Generator[None, None, Any]:
        while self._request.end is None:
            yield
        if not isinstance(self._request.end, Done):
            raise UnavailableError(f"{self._request.end.reason}.")
        return self._request.end.result


class OfNode:
    """Runs procedures on one node of a simulated cluster (`RunsProcedures`)."""

    def __init__(self, cluster: Cluster, node: str) -> None:
        self._cluster = cluster
        self._node = node

    async def run(self, procedure: str, arguments: Sequence[Any]) -> Any:
        if self._cluster.members[self._node].machine is None:
            raise UnavailableError("down.")
        return await Ended(self._cluster.request(self._node, procedure, *arguments, timeout_ms=3000))


def an_operation(store: TablesStore, rng: random.Random) -> Coroutine[Any, Any, Any]:
    v, u, x, q = (rng.choice(names) for names in (VHOSTS, USERS, EXCHANGES, QUEUES))
    y = rng.choice(EXCHANGES)
    drawn: list[tuple[int, Coroutine[Any, Any, Any]]] = [
        (3, vhosts.declare(store, v)),
        (1, vhosts.delete(store, v)),
        (3, users.add(store, u)),
        (1, users.delete(store, u)),
        (3, permissions.grant(store, v, u, read=".*")),
        (3, permissions.grant_topic(store, v, u, x)),
        (5, exchanges.declare(store, v, x, "topic" if x == "z" else "direct", auto_delete=x == "y")),
        (1, exchanges.delete(store, v, x)),
        (5, queues.declare(store, v, q, owner="c" if q == "r" else None)),
        (1, queues.delete(store, v, q)),
        (1, queues.delete_exclusive(store, "c")),
        (5, bindings.add(store, v, x, "queue", "q", rng.choice(("a.b", "a")))),
        (3, bindings.add(store, v, x, "exchange", y)),
        (2, bindings.remove(store, v, x, "queue", "q", "a")),
        (2, topology.read(store)),
        (2, parameters.put_global(store, rng.choice(("g", "h")), rng.random())),
        (1, parameters.clear_global(store, "g")),
        (2, maintenance.put(store, "n1", rng.choice(("regular", "draining")))),
        (2, topology.read_all(store)),
    ]
    chosen = rng.choices(range(len(drawn)), [weight for weight, _ in drawn])[0]
    for at, (_, other) in enumerate(drawn):
        if at != chosen:
            other.close()
    return drawn[chosen][1]


def step(client: Coroutine[Any, Any, Any]) -> bool:
    """Whether a client goes on."""
    try:
        client.send(None)
    except (StopIteration, EntityError, UnavailableError):
        return False
    return True


def run(seed: int, *, kills: float) -> Cluster:
    cluster = Cluster(["n1", "n2", "n3"], seed)
    rng = random.Random(seed)
    clients: list[Coroutine[Any, Any, Any]] = []
    for _ in range(400):
        if len(clients) < 6 and cluster.serving():
            clients.append(an_operation(TablesStore(OfNode(cluster, rng.choice(cluster.serving()))), rng))
        if rng.random() < kills:
            kill_or_start(cluster, rng)
        clients = [client for client in clients if step(client)]
        cluster.run(rng.choice([0, 1, 5, 40]))
    for client in clients:
        client.close()
    for name in cluster.names:
        if cluster.members[name].machine is None:
            cluster.start(name)
    cluster.run(8000)
    return cluster


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(6))
def test_db_7_operations_of_several_nodes_are_as_one_after_the_other(seed: int) -> None:
    cluster = run(seed, kills=0.0)
    assert cluster.differences == []
    check_alike(cluster)
    assert sum(request.end is not None for request in cluster.requests) > 150


@pytest.mark.parametrize("seed", range(6))
def test_db_7_a_node_that_is_killed_leaves_no_operation_half_done(seed: int) -> None:
    cluster = run(100 + seed, kills=0.05)
    for name in cluster.names:
        tables = TablesStore(LocalTables(cluster.node(name).database.tables))
        found = now(topology.read(tables))
        ends = {(each.vhost, each.name) for each in (*found.exchanges, *found.queues)}
        assert {each.vhost for each in (*found.exchanges, *found.queues)} <= {each.name for each in found.vhosts}
        assert {(each.vhost, end) for each in found.bindings for end in (each.source, each.destination)} <= ends
        assert {each.user for each in (*found.permissions, *found.topic_permissions)} <= {
            each.name for each in found.users
        }


def test_m2k_2_who_closes_the_tables_waits_for_changes_under_way_and_later_ones_are_refused() -> None:
    cluster = Cluster(["n1", "n2", "n3"], 1)
    stores = [TablesStore(OfNode(cluster, name)) for name in cluster.names]
    made = vhosts.declare(stores[0], "/")
    while step(made):
        cluster.run(5)
    under_way = [queues.declare(store, "/", f"q{number}") for number, store in enumerate(stores)]
    for client in under_way:
        assert step(client)
    closing = cluster.request("n2", "set_access", "read_only", 1)
    while closing.end is None:
        cluster.run(5)
    at_close = len(cluster.model.tables.keys("rabbit_queue"))
    cluster.run(500)
    assert cluster.differences == []
    assert len(cluster.model.tables.keys("rabbit_queue")) == at_close, "a change was made after the tables were closed"
    late = queues.declare(stores[2], "/", "late")
    with pytest.raises(TablesClosedError, match="no_exists"):  # noqa: PT012 - the error ends the loop
        while True:
            late.send(None)
            cluster.run(5)
    assert cluster.ask("n3", "entity_ask", "topology_read", 1, b"\xc0")[0] == "value", "reads go on"
    assert cluster.ask("n1", "set_access", "retired", 1)
    assert cluster.ask("n3", "entity_ask", "topology_read", 1, b"\xc0") == ["closed", "retired"]
    assert not cluster.ask("n3", "set_access", "read_write", 0), "a former migration"


@pytest.mark.parametrize(
    ("procedure", "arguments", "why"),
    [
        ("entity_change", ("queue_declare", 1), "missing"),
        ("entity_change", ("queue_declare", "1", b""), "version"),
        ("entity_change", ("queue_declare", 1, b"\xc1"), "no sense"),
        ("entity_records", ("queues_v1", "q"), "key"),
        ("set_access", ("open", 1), "access is one of"),
        ("nothing", (), "no procedure"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_before_it_is_a_transaction(
    procedure: str, arguments: tuple[Any, ...], why: str
) -> None:
    assert why in str(problem_of(procedure, arguments))


def test_an_operation_whose_data_are_of_another_shape_is_refused_and_changes_nothing() -> None:
    cluster = Cluster(["n1"])
    for name in ("queue_declare", "vhost_put", "binding_add", "queue_delete_unchanged"):
        for data in (None, {}, {"vhost": 5}, [[1, 2]]):
            if data or "queue_delete" not in name:  # of no queues all are removed
                answer = cluster.ask("n1", "entity_change", name, 1, msgspec.msgpack.encode(data))
                assert answer[0] == "invalid", (name, data)
    assert cluster.node("n1").database.tables.contents() == {}
    assert "entity_ask" in KNOWN

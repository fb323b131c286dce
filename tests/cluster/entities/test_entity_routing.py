"""Routing from projections alone (DB-8, DB-9), type by type; beside brute force in `test_entities_beside_model`."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.cluster.bugs import M57, M58, Bugs
from splitbrain.cluster.entities import bindings, exchanges, queues, topic_trie, topology, vhosts
from splitbrain.cluster.entities.routing import route, routed, routed_by
from splitbrain.cluster.entities.store import LocalStore, MetadataStore, Operation
from splitbrain.cluster.tree import Tree
from tests.cluster.entities.support import KINDS, Interposed, empty, new_store, now, rebuilt


def broker(bugs: Bugs = Bugs()) -> tuple[Tree, LocalStore]:  # noqa: B008 - immutable
    tree, store = new_store(bugs)
    with_exchanges(store)
    return tree, store


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest) -> MetadataStore:
    made = empty(request.param)
    with_exchanges(made)
    return made


def with_exchanges(store: MetadataStore) -> None:
    now(vhosts.declare(store, "/"))
    for kind in ("direct", "fanout", "topic", "headers"):
        now(exchanges.declare(store, "/", kind, kind))
    for name in ("q", "r"):
        now(queues.declare(store, "/", name))


def routes(store: MetadataStore, exchange: str, key: str = "", headers: dict[str, Any] | None = None) -> list[str]:
    return now(routed_by(store, route("/", exchange, key, headers)))


def test_the_default_exchange_leads_to_the_queue_of_that_name(store: MetadataStore) -> None:
    assert routes(store, "", "q") == ["q"]
    assert routes(store, "", "nothing") == []


def test_direct_and_fanout(store: MetadataStore) -> None:
    now(bindings.add(store, "/", "direct", "queue", "q", "k"))
    now(bindings.add(store, "/", "fanout", "queue", "q", "k"))
    now(bindings.add(store, "/", "fanout", "queue", "r", "l"))
    assert routes(store, "direct", "k") == ["q"]
    assert routes(store, "direct", "kk") == []
    assert routes(store, "fanout", "anything") == ["q", "r"]


@pytest.mark.parametrize(
    ("bound", "key", "leads"),
    [
        ("a.b", "a.b", True), ("a.b", "a", False), ("a.*", "a.b", True), ("a.*", "a", False), ("a.*", "a.b.c", False),
        ("a.#", "a", True), ("a.#", "a.b.c", True), ("#", "", True), ("", "", True), ("*", "", False), ("*", "x", True),
        ("#.b.#", "a.b.c", True), ("#.b.#", "a.c", False), ("*.*", ".", True), ("a..b", "a..b", True),
        ("#.#", "", True), ("#.*", "a", True), ("#.*.#.b", "a.a.b", True), ("#.*.#.b", "b", False),
    ],
)  # fmt: skip
def test_topics(store: MetadataStore, bound: str, key: str, leads: bool) -> None:
    now(bindings.add(store, "/", "topic", "queue", "q", bound))
    assert routes(store, "topic", key) == (["q"] if leads else [])


@pytest.mark.parametrize(
    ("arguments", "headers", "leads"),
    [
        ({}, {}, True),
        ({"x-match": "any"}, {"a": 1}, False),
        ({"a": 1, "b": "2"}, {"a": 1, "b": "2", "c": 3}, True),
        ({"a": 1, "b": "2"}, {"a": 1}, False),
        ({"x-match": "any", "a": 1, "b": "2"}, {"a": 1}, True),
        ({"a": None}, {"a": "whatever"}, True),
        ({"a": None}, {}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"x-a": 1}, {}, True),
        ({"x-match": "all-with-x", "x-a": 1}, {}, False),
        ({"x-match": "any", "x-a": 1}, {"x-a": 1}, False),
        ({"x-match": "any-with-x", "x-a": 1}, {"x-a": 1}, True),
    ],
)
def test_headers(store: MetadataStore, arguments: dict[str, Any], headers: dict[str, Any], leads: bool) -> None:
    now(bindings.add(store, "/", "headers", "queue", "q", arguments=arguments))
    assert routes(store, "headers", "", headers) == (["q"] if leads else [])


def test_exchanges_that_are_bound_in_a_circle_route_once_and_end(store: MetadataStore) -> None:
    now(bindings.add(store, "/", "fanout", "exchange", "topic"))
    now(bindings.add(store, "/", "topic", "exchange", "fanout", "#"))
    now(bindings.add(store, "/", "topic", "queue", "q", "a.*"))
    assert routes(store, "fanout", "a.b") == ["q"]


def test_an_alternate_exchange_gets_what_goes_nowhere(store: MetadataStore) -> None:
    now(exchanges.declare(store, "/", "main", "direct", arguments={"alternate-exchange": "fanout"}))
    now(bindings.add(store, "/", "main", "queue", "q", "k"))
    now(bindings.add(store, "/", "fanout", "queue", "r"))
    assert routes(store, "main", "k") == ["q"]
    assert routes(store, "main", "other") == ["r"]


def test_db_8_branches_of_the_trie_that_are_empty_go_up_to_where_another_begins(store: MetadataStore) -> None:
    for key in ("a.b.c", "a.b.d", "a"):
        now(bindings.add(store, "/", "topic", "queue", "q", key))
    now(bindings.remove(store, "/", "topic", "queue", "q", "a.b.c"))
    left = [(key[2:], count) for key, _, count in now(store.records(topic_trie.EDGES))]
    assert left == [(["", "a"], 2), (["a.", "b"], 1), (["a.b.", "d"], 1)]
    now(bindings.remove(store, "/", "topic", "queue", "q", "a.b.d"))
    assert [(key[2:], count) for key, _, count in now(store.records(topic_trie.EDGES))] == [(["", "a"], 1)]
    now(queues.delete(store, "/", "q"))
    assert now(store.records(topic_trie.EDGES)) == []


def test_db_9_a_member_routes_from_its_tables_also_after_a_restart() -> None:
    tree, store = broker()
    now(bindings.add(store, "/", "topic", "queue", "q", "a.#"))

    def records(name: str, key: Any) -> Any:
        table = again.projections.table(name)
        assert table is not None
        return table.lookup(key)

    again = rebuilt(tree)
    assert routed(route("/", "topic", "a.b"), records) == ["q"]


def test_m57_the_end_of_one_of_two_bindings_that_differ_in_arguments_takes_the_route_away() -> None:
    found: list[list[str]] = []
    for bugs in (Bugs(), Bugs(["M57"])):
        _, store = broker(bugs)
        for arguments in ({"n": 1}, {"n": 2}):
            now(bindings.add(store, "/", "direct", "queue", "q", "k", arguments=arguments))
        now(bindings.remove(store, "/", "direct", "queue", "q", "k", arguments={"n": 1}))
        found.append(routes(store, "direct", "k"))
    assert found == [["q"], []]
    assert M57.id == "M57"


def test_m58_a_binding_outlives_a_queue_that_went_between_look_and_binding_and_poisons_its_name() -> None:
    _, store = broker(Bugs([M58.id]))

    async def before(operation: Operation, data: Any) -> None:
        if operation == bindings.ADD:
            await queues.delete(store, "/", "q")

    now(bindings.add(Interposed(store, before), "/", "direct", "queue", "q", "k"))
    assert len(now(topology.read(store)).bindings) == 1
    now(queues.declare(store, "/", "q"))
    assert routes(store, "direct", "k") == ["q"]  # nobody bound the new queue

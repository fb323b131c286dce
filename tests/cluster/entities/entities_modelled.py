"""Entities beside the model, step by step: `python -m tests.cluster.entities.entities_modelled STEPS` for very many."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from splitbrain.cluster.entities import (
    bindings,
    exchanges,
    permissions,
    policies,
    queues,
    route_index,
    topic_trie,
    topology,
    users,
    vhosts,
)
from splitbrain.cluster.entities.errors import EntityError
from splitbrain.cluster.entities.routing import route, routed_by
from splitbrain.cluster.entities.store import MetadataStore
from splitbrain.cluster.tree import Tree
from tests.cluster.entities.broker import Broker
from tests.cluster.entities.support import new_store, now, rebuilt, shape

STEPS_OF_A_RUN = 40

VHOSTS = st.sampled_from(["/", "v"])
USERS = st.sampled_from(["u", "%2F"])
EXCHANGES = st.sampled_from(["x", "y", "*"])
TYPES: Any = st.sampled_from(["direct", "fanout", "topic", "headers"])
QUEUES = st.sampled_from(["q", "r.s", ""])
OWNERS = st.sampled_from([None, None, "c1", "c2"])
NODES = st.sampled_from(["n1", "n2"])
WORDS = st.sampled_from(["a", "b", "*", "#", ""])
KEYS = st.lists(WORDS, max_size=3).map(".".join)
VALUES = st.sampled_from([1, True, "1", None])
MATCHES = st.sampled_from([(), (("x-match", "any"),), (("x-match", "all-with-x"),), (("x-match", "any-with-x"),)])
HEADERS = st.dictionaries(st.sampled_from(["h", "i", "x-h"]), VALUES, max_size=2)
ARGUMENTS: Any = st.one_of(
    st.just(()),
    st.tuples(MATCHES, HEADERS.map(lambda found: tuple(found.items()))).map(lambda both: (*both[0], *both[1])),
)
RARELY = st.integers(0, 4).map(lambda drawn: drawn == 0)
KINDS: Any = st.sampled_from(["queue", "queue", "exchange"])


def outcome(of: Coroutine[Any, Any, Any]) -> Any:
    """What an operation gives, or the first word of its error. What it returns of an entity is left out."""
    try:
        given = now(of)
    except EntityError as error:
        return str(error).partition(":")[0]
    return given if isinstance(given, (bool, int)) else None


class EntitiesBesideModel(RuleBasedStateMachine):
    """The store and the model take the same calls, hold the same entities and give the same answers."""

    taken: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.tree, self.store = self.stores()
        self.broker = Broker()

    def stores(self) -> tuple[Tree, MetadataStore]:
        return new_store()

    def both(self, of: Coroutine[Any, Any, Any], expected: Any) -> None:
        got = outcome(of)
        self.broker.settle()
        assert got == expected, f"the store: {got}, the model: {expected}"

    @rule(v=VHOSTS)
    def declare_vhost(self, v: str) -> None:
        self.both(vhosts.declare(self.store, v), self.broker.declare_vhost(v))

    @initialize(kinds=st.lists(TYPES, min_size=6, max_size=6), auto_delete=st.booleans())
    def begin_with_some(self, kinds: list[Any], auto_delete: bool) -> None:
        for u in ("u", "%2F"):
            self.add_user(u)
        for at, v in enumerate(("/", "v")):
            self.declare_vhost(v)
            for kind, x in zip(kinds[3 * at :], ("x", "y", "*"), strict=False):
                self.declare_exchange(v, x, kind, auto_delete and x == "y")
            self.declare_queue(v, "q", True, None, "n1", ())
            self.declare_queue(v, "r.s", False, None, "n1", ())
            self.declare_queue(v, "", False, "c1", "n2", ())

    @rule(v=VHOSTS, really=RARELY)
    def delete_vhost(self, v: str, really: bool) -> None:
        if really:
            self.both(vhosts.delete(self.store, v), self.broker.delete_vhost(v))

    @rule(u=USERS)
    def add_user(self, u: str) -> None:
        self.both(users.add(self.store, u), self.broker.add_user(u))

    @rule(u=USERS, really=RARELY)
    def delete_user(self, u: str, really: bool) -> None:
        if really:
            self.both(users.delete(self.store, u), self.broker.delete_user(u))

    @rule(v=VHOSTS, u=USERS)
    def grant(self, v: str, u: str) -> None:
        self.both(permissions.grant(self.store, v, u, read=".*"), self.broker.grant(v, u))

    @rule(v=VHOSTS, u=USERS)
    def revoke(self, v: str, u: str) -> None:
        self.both(permissions.revoke(self.store, v, u), self.broker.revoke(v, u))

    @rule(v=VHOSTS, u=USERS, x=EXCHANGES)
    def grant_topic(self, v: str, u: str, x: str) -> None:
        self.both(permissions.grant_topic(self.store, v, u, x), self.broker.grant_topic(v, u, x))

    @rule(v=VHOSTS)
    def set_policy(self, v: str) -> None:
        self.both(policies.put(self.store, v, "p", ".*", {"delivery-limit": 10}), self.broker.set_policy(v, "p"))

    @rule(v=VHOSTS, x=EXCHANGES, kind=TYPES, auto_delete=st.booleans())
    def declare_exchange(self, v: str, x: str, kind: Any, auto_delete: bool) -> None:
        self.both(
            exchanges.declare(self.store, v, x, kind, auto_delete=auto_delete),
            self.broker.declare_exchange(v, x, kind, auto_delete=auto_delete),
        )

    @rule(v=VHOSTS, x=EXCHANGES, if_unused=st.booleans())
    def delete_exchange(self, v: str, x: str, if_unused: bool) -> None:
        self.both(
            exchanges.delete(self.store, v, x, if_unused=if_unused),
            self.broker.delete_exchange(v, x, if_unused=if_unused),
        )

    @rule(v=VHOSTS, q=QUEUES, durable=st.booleans(), owner=OWNERS, node=NODES, arguments=ARGUMENTS)
    def declare_queue(self, v: str, q: str, durable: bool, owner: str | None, node: str, arguments: Any) -> None:
        self.both(
            queues.declare(self.store, v, q, durable=durable, owner=owner, node=node, arguments=dict(arguments)),
            self.broker.declare_queue(v, q, durable=durable, owner=owner, node=node, arguments=arguments),
        )

    @rule(v=VHOSTS, q=QUEUES, owner=OWNERS)
    def delete_queue(self, v: str, q: str, owner: str | None) -> None:
        self.both(queues.delete(self.store, v, q, owner=owner), self.broker.delete_queue(v, q, owner))

    @rule(owner=st.sampled_from(["c1", "c2"]))
    def delete_exclusive(self, owner: str) -> None:
        self.both(queues.delete_exclusive(self.store, owner), self.broker.delete_exclusive(owner))

    @rule(node=NODES)
    def delete_transient(self, node: str) -> None:
        self.both(queues.delete_transient(self.store, node), self.broker.delete_transient(node))

    @rule(v=VHOSTS, x=EXCHANGES, kind=KINDS, q=QUEUES, y=EXCHANGES, key=KEYS, arguments=ARGUMENTS, owner=OWNERS)
    def bind(self, v: str, x: str, kind: Any, q: str, y: str, key: str, arguments: Any, owner: str | None) -> None:
        end = q if kind == "queue" else y
        self.both(
            bindings.add(self.store, v, x, kind, end, key, arguments=dict(arguments), owner=owner),
            self.broker.bind(v, x, kind, end, key, arguments, owner),
        )

    @rule(v=VHOSTS, x=EXCHANGES, q=QUEUES, keys=st.lists(KEYS, min_size=1, max_size=3), arguments=ARGUMENTS)
    def bind_often(self, v: str, x: str, q: str, keys: list[str], arguments: Any) -> None:
        for key in keys:
            self.bind(v, x, "queue", q, "y", key, arguments, None)
            self.bind(v, x, "exchange", q, "y", key, (), None)

    @rule(data=st.data())
    def unbind(self, data: st.DataObject) -> None:
        if self.broker.bindings:
            v, x, kind, end, key, arguments = data.draw(st.sampled_from(sorted(self.broker.bindings, key=repr)))
            plain: Any = tuple((name, value) for name, _, value in arguments)
            self.both(
                bindings.remove(self.store, v, x, kind, end, key, arguments=dict(plain)),  # pyright: ignore[reportArgumentType]
                self.broker.unbind(v, x, kind, end, key, plain),
            )

    @rule(v=VHOSTS, x=st.one_of(EXCHANGES, st.just("")), key=st.one_of(KEYS, QUEUES), headers=HEADERS)
    def publish(self, v: str, x: str, key: str, headers: dict[str, Any]) -> None:
        assert now(routed_by(self.store, route(v, x, key, headers))) == sorted(self.broker.route(v, x, key, headers))

    # --- after every step -----------------------------------------------------------------------------------------

    @invariant()
    def the_tree_is_as_the_model(self) -> None:
        EntitiesBesideModel.taken += 1
        assert shape(now(topology.read(self.store))) == self.broker.shape()

    @invariant()
    def nothing_depends_on_what_is_not_there(self) -> None:
        found = shape(now(topology.read(self.store)))
        ends = {"exchange": {each[:2] for each in found["exchanges"]}, "queue": {each[:2] for each in found["queues"]}}
        assert all(each[0] in found["vhosts"] for each in (*found["exchanges"], *found["queues"], *found["policies"]))
        assert all(v in found["vhosts"] and u in found["users"] for v, u in found["permissions"])
        assert all(u in found["users"] and (v, x) in ends["exchange"] for v, u, x in found["topic_permissions"])
        for v, x, kind, end, *_ in found["bindings"]:
            assert (v, x) in ends["exchange"]
            assert (v, end) in ends[kind]

    @invariant()
    def projections_are_those_of_the_tree(self) -> None:
        again = rebuilt(self.tree)
        assert self.tree.projections.contents_hash() == again.projections.contents_hash()
        found = now(topology.read(self.store))
        for module in (bindings, queues, exchanges, users, vhosts, permissions):
            kind = module.__name__.rpartition(".")[2]
            assert sorted(now(module.every(self.store)), key=repr) == sorted(getattr(found, kind), key=repr)
        assert not any(
            self.tree.projections.failures(name) for name, _ in self.tree.projections.registered().projections
        )

    def teardown(self) -> None:
        """Every name can be declared again, as something else, and has nothing of what it had; then nothing is left."""
        for v, q in list(self.broker.queues):
            self.broker.queues[v, q] = (True, None, "", ())
            outcome(queues.delete_exclusive(self.store, "c1"))
            outcome(queues.delete_exclusive(self.store, "c2"))
            outcome(queues.delete(self.store, v, q))
            assert outcome(queues.declare(self.store, v, q, arguments={"new": 1})) is None
            assert not now(bindings.of_destination(self.store, v, "queue", q))
        for v in list(self.broker.vhosts):
            assert outcome(vhosts.delete(self.store, v)) is None
        for u in list(self.broker.users):
            assert outcome(users.delete(self.store, u)) is None
        assert self.tree.state.size == 1
        tables = (bindings.BY_SOURCE, bindings.BY_DESTINATION, route_index.TABLE, topic_trie.EDGES, topic_trie.BINDINGS)
        assert not any(now(self.store.records(table)) for table in tables)


def run(steps: int, *, same: bool, machine: type[EntitiesBesideModel] = EntitiesBesideModel) -> None:
    """Carry out so many steps or more, or about as many that are the same each time."""
    wanted = settings(
        max_examples=max(1, steps // STEPS_OF_A_RUN),
        stateful_step_count=STEPS_OF_A_RUN,
        deadline=None,
        derandomize=same,
        database=None,
        phases=[Phase.generate] if same else [Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    end = EntitiesBesideModel.taken + steps
    while True:
        run_state_machine_as_test(machine, settings=wanted)
        if same or EntitiesBesideModel.taken >= end:
            return


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.cluster.entities.entities_modelled STEPS")
    run(int(sys.argv[1]), same=False)
    print(f"{EntitiesBesideModel.taken:,} steps: the entities and the model were the same after each.")

"""An entity of other types than those of its record is refused: stored, it would make lists of its kind fail."""

# What is given is wrong on purpose.
# pyright: reportArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from splitbrain.cluster.entities import (
    bindings,
    exchanges,
    maintenance,
    parameters,
    permissions,
    policies,
    queues,
    topology,
    users,
    vhosts,
)
from splitbrain.cluster.entities.records import Policy
from splitbrain.cluster.entities.store import MetadataStore
from splitbrain.cluster.errors import InvalidRequestError
from tests.cluster.entities.support import KINDS, empty, now, stock


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest) -> MetadataStore:
    made = empty(request.param)
    stock(made)
    now(exchanges.declare(made, "/", "h", "headers"))
    return made


BAD: dict[str, Callable[[MetadataStore], Coroutine[Any, Any, Any]]] = {
    "name of a vhost": lambda store: vhosts.declare(store, 5),
    "description": lambda store: vhosts.declare(store, "v", description=b"x"),
    "tags": lambda store: users.add(store, "other", tags=[1]),
    "password": lambda store: users.add(store, "other", 5),
    "other tags": lambda store: users.change(store, "u", tags=[1]),
    "expression that is none": lambda store: permissions.grant(store, "/", "u", configure=None),
    "expression of topics": lambda store: permissions.grant_topic(store, "/", "u", "h", write=1),
    "durable exchange": lambda store: exchanges.declare(store, "/", "x", "direct", durable="yes"),
    "durable queue": lambda store: queues.declare(store, "/", "x", durable="yes"),
    "owner": lambda store: queues.declare(store, "/", "x", owner=7),
    "kind of a destination": lambda store: bindings.add(store, "/", "h", "topic", "q"),
    "key": lambda store: bindings.add(store, "/", "h", "queue", "q", 5),
    "x-match": lambda store: bindings.add(store, "/", "h", "queue", "q", arguments={"x-match": "most"}),
    "x-match that is a list": lambda store: bindings.add(store, "/", "h", "queue", "q", arguments={"x-match": ["any"]}),
    "priority": lambda store: policies.put(store, "/", "p", "q", {"a": 1}, priority="high"),
    "expression of a policy": lambda store: policies.put(store, "/", "p", 5, {"a": 1}),
    "limit": lambda store: policies.put(store, "/", "p", "q", {"max-length": "ten"}),
    "limit that is true": lambda store: policies.put(store, "/", "p", "q", {"expires": True}, operator=True),
    "negative limit": lambda store: policies.put(store, "/", "p", "q", {"message-ttl": -1}),
    "parameter": lambda store: parameters.put(store, "/", "c", "n", object()),
    "global parameter": lambda store: parameters.put_global(store, "n", {1: 2}),
    "state of a node": lambda store: maintenance.put(store, "n1", "odd"),
}


@pytest.mark.parametrize("wrong", BAD.values(), ids=BAD)
def test_db_4_what_is_of_another_type_is_refused_and_changes_nothing(
    wrong: Callable[[MetadataStore], Coroutine[Any, Any, Any]], store: MetadataStore
) -> None:
    before = now(topology.read(store))
    with pytest.raises(InvalidRequestError, match=r"^invalid_"):
        now(wrong(store))
    assert now(topology.read(store)) == before
    assert len(now(topology.read(store)).queues) == 1  # lists work


def test_qq_3_that_a_user_wants_no_limit_does_not_lift_that_of_an_operator() -> None:
    unlimited, ten = Policy("/", "u", "q", {"delivery-limit": -1}), Policy("/", "o", "q", {"delivery-limit": 10})
    assert policies.effective("queue", "q", [unlimited], [ten]) == {"delivery-limit": 10}
    assert policies.effective("queue", "q", [ten], [unlimited]) == {"delivery-limit": 10}
    assert policies.effective("queue", "q", [unlimited], [unlimited]) == {"delivery-limit": -1}

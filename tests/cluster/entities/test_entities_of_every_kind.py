"""One read shows entities of every kind, of one state, in both stores."""

from __future__ import annotations

import pytest

from splitbrain.cluster.entities import maintenance, parameters, permissions, policies, topology, users, vhosts
from splitbrain.cluster.entities.records import GlobalParameter, Maintenance, Parameter, Policy, TopicPermission
from tests.cluster.entities.support import empty, now


@pytest.mark.parametrize("kind", ["tree", "tables"])
def test_every_kind_is_read_with_its_values_and_goes_with_what_it_belongs_to(kind: str) -> None:
    store = empty(kind)
    for vhost in ("/", "v"):
        now(vhosts.declare(store, vhost))
        now(policies.put(store, vhost, "p", "^q", {"expires": 5}, operator=True))
        now(policies.put(store, vhost, "p", "^u", {"expires": 6}))
        now(parameters.put(store, vhost, "shovel", "s", {"uri": "amqp://a"}))
    now(users.add(store, "u"))
    now(permissions.grant_topic(store, "v", "u", "amq.topic", write="^a"))
    now(parameters.put_global(store, "g/h", [1, True]))
    now(maintenance.put(store, "n1", "draining"))
    found = now(topology.read_all(store))
    assert found.topic_permissions == (TopicPermission("v", "u", "amq.topic", "^a", ""),)
    assert found.operator_policies == tuple(Policy(vhost, "p", "^q", {"expires": 5}) for vhost in ("/", "v"))
    assert found.policies == tuple(Policy(vhost, "p", "^u", {"expires": 6}) for vhost in ("/", "v"))
    assert found.parameters == tuple(Parameter(vhost, "shovel", "s", {"uri": "amqp://a"}) for vhost in ("/", "v"))
    assert found.global_parameters == (GlobalParameter("g/h", [1, True]),)
    assert found.maintenance == (Maintenance("n1", "draining"),)
    former = now(topology.read(store))
    assert (former.policies, former.vhosts) == (found.policies, found.vhosts)
    assert (former.parameters, former.operator_policies) == ((), ()), "the first version has what it had"
    now(vhosts.delete(store, "v"))
    left = now(topology.read_all(store))
    assert [each.vhost for each in (*left.parameters, *left.operator_policies, *left.policies)] == ["/"] * 3
    assert left.topic_permissions == ()
    assert (left.global_parameters, left.maintenance) == (found.global_parameters, found.maintenance)

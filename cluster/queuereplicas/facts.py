"""What the metadata say that decides about replicas of queues: which nodes are being drained, and what policies hold.

Queues of this cluster have no virtual host; policies for them are those of the virtual host `/`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from splitbrain.cluster.entities.inforce import RecordsInForce
from splitbrain.cluster.entities.names import node_name
from splitbrain.cluster.entities.paths import MAINTENANCE, OPERATOR_POLICIES, POLICIES
from splitbrain.cluster.entities.policies import effective
from splitbrain.cluster.entities.records import Maintenance, Policy
from splitbrain.cluster.queuegroups.records import records_in
from splitbrain.cluster.tree import Path, Tree

VHOST: Final = "/"
"""Whose policies are for quorum queues."""


class MetadataFacts(msgspec.Struct, frozen=True):
    """What counts of the metadata at one entry.

    Attributes:
        draining: names of the nodes that are being drained.
        policies, operator_policies: those for queues.
        queues: how many queues there are.
        load: how many queues each member takes part in.
    """

    draining: frozenset[str] = frozenset()
    policies: tuple[Policy, ...] = ()
    operator_policies: tuple[Policy, ...] = ()
    queues: int = 0
    load: Mapping[str, int] = {}

    def policy_of(self, queue: str) -> Mapping[str, Any]:
        """The settings that policies have for a queue."""
        if not self.policies and not self.operator_policies:
            return {}
        return effective("queue", queue, self.policies, self.operator_policies)

    @property
    def events(self) -> tuple[object, ...]:
        """What is compared to see whether something happened that calls for a check."""
        return self.draining, self.policies, self.operator_policies


def facts_in(tree: Tree, entities: RecordsInForce) -> MetadataFacts:
    """What counts of this tree, and of the entities in force."""
    nodes = [msgspec.convert(value, Maintenance) for value in entities.below(tree, MAINTENANCE)]
    records = [record for _, record in records_in(tree)]
    load = Counter(member for record in records for member in record.members)
    return MetadataFacts(
        frozenset(each.node for each in nodes if each.state == "draining"),
        tuple(_policies(entities, tree, POLICIES)),
        tuple(_policies(entities, tree, OPERATOR_POLICIES)),
        len(records),
        load,
    )


def policies_in(tree: Tree, entities: RecordsInForce) -> MetadataFacts:
    """The policies in force, and nothing else."""
    return MetadataFacts(
        policies=tuple(_policies(entities, tree, POLICIES)),
        operator_policies=tuple(_policies(entities, tree, OPERATOR_POLICIES)),
    )


def _policies(entities: RecordsInForce, tree: Tree, path: Path) -> Iterator[Policy]:
    for value in entities.below(tree, (*path, node_name(VHOST))):
        yield msgspec.convert(value, Policy)

"""What policies say of streams, for the copies of a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from splitbrain.cluster.entities.inforce import RecordsInForce
from splitbrain.cluster.queuereplicas.facts import MetadataFacts, policies_in
from splitbrain.cluster.store import Store


class StreamPolicies:
    """The policies in force, which are read again where something has changed.

    Args:
        entities: in force.
    """

    def __init__(self, entities: RecordsInForce) -> None:
        self._entities = entities
        self._policies = MetadataFacts()
        self._at: tuple[Store, int, int] | None = None  # what they are from

    def of(self, store: Store, stream: str) -> Mapping[str, Any]:
        """The settings that policies have for a stream, by this state of the metadata."""
        now = (store, store.applied_index, self._entities.changes)
        if self._at != now:
            self._policies, self._at = policies_in(store.tree, self._entities), now
        return self._policies.policy_of(stream)

"""What policies say of classic queues: their delivery limit, and where dead letters go (CQ-6).

Queues of this cluster have no virtual host; policies for them are those of the virtual host `/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from splitbrain.cluster.classicqueues.records import DEAD_LETTER_TO, converted_in, seen_in
from splitbrain.cluster.commands import encode_value
from splitbrain.cluster.entities.expressions import checked_expression
from splitbrain.cluster.entities.inforce import RecordsInForce
from splitbrain.cluster.entities.names import node_name
from splitbrain.cluster.entities.paths import OPERATOR_POLICIES, POLICIES
from splitbrain.cluster.entities.policies import effective
from splitbrain.cluster.entities.records import Policy
from splitbrain.cluster.errors import InvalidRequestError
from splitbrain.cluster.queuereplicas.facts import VHOST
from splitbrain.cluster.tree import Path, Tree

_PATHS: Final[tuple[Path, ...]] = tuple((*path, node_name(VHOST)) for path in (POLICIES, OPERATOR_POLICIES))
_SETTINGS: Final = {"delivery-limit": int, DEAD_LETTER_TO: str, "queue-mode": str}


class ClassicPolicies:
    """The policies of users and operators, as one node has applied them.

    Args:
        entities: those in force, as this node has them.
    """

    def __init__(self, entities: RecordsInForce) -> None:
        self._entities = entities
        self._seen: tuple[object, ...] = (None, None)
        self._policies: tuple[tuple[Policy, ...], ...] = ((), ())

    def look(self, tree: Tree) -> bool:
        """See what there is now; whether anything changed."""
        beside = [self._entities.beside_tree(tree, path) for path in _PATHS]
        seen = tuple(
            seen_in(tree, path) if found is None else (encode_value(found),)
            for path, found in zip(_PATHS, beside, strict=True)
        )
        if seen == self._seen:
            return False
        self._seen = seen
        self._policies = tuple(
            _sound_ones(tree, path) if found is None else tuple(each for each in _policies(found) if _is_sound(each))
            for path, found in zip(_PATHS, beside, strict=True)
        )
        return True

    def of_queue(self, name: str) -> Mapping[str, Any]:
        """The settings that count for a queue."""
        of_users, of_operators = self._policies
        return effective("queue", name, of_users, of_operators)


def _sound_ones(tree: Tree, path: Path) -> tuple[Policy, ...]:
    """Those that make sense: clients may write anything there, and no node may stop for that."""
    return tuple(each for _, each in converted_in(tree, path, Policy) if _is_sound(each))


def _policies(found: Sequence[Any]) -> Iterator[Policy]:
    for each in found:
        with suppress(msgspec.ValidationError):
            yield msgspec.convert(each, Policy)


def _is_sound(policy: Policy) -> bool:
    try:
        checked_expression(policy.pattern)
    except InvalidRequestError:
        return False
    return all(type(policy.definition.get(each, kind())) is kind for each, kind in _SETTINGS.items())

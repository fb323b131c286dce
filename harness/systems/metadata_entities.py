"""Each kind of entity on the metadata cluster: how one is declared with its value, removed, and shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from splitbrain.cluster.entities import (
    bindings,
    exchanges,
    maintenance,
    parameters,
    permissions,
    policies,
    queues,
    users,
    vhosts,
)
from splitbrain.cluster.entities.errors import EntityExistsError
from splitbrain.cluster.entities.names import decoded_arguments
from splitbrain.cluster.entities.store import MetadataStore
from splitbrain.cluster.entities.topology import Topology
from splitbrain.harness.contract.brokers import Entity
from splitbrain.results.errors import ProtocolError

NUMBER: Final = "number"
"""The argument in which bindings differ."""

NO_OWNER: Final[Mapping[str, str]] = {}

ARGUMENTS: Final = "arguments"

NAMED_BY: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "vhost": ("vhosts", ("name",)),
    "user": ("users", ("name",)),
    "permission": ("permissions", ("vhost", "user")),
    "topic_permission": ("topic_permissions", ("vhost", "user", "exchange")),
    "exchange": ("exchanges", ("vhost", "name")),
    "queue": ("queues", ("vhost", "name")),
    "binding": ("bindings", ("vhost", "source", "kind", "destination", "key")),
    "policy": ("policies", ("vhost", "name")),
    "operator_policy": ("operator_policies", ("vhost", "name")),
    "parameter": ("parameters", ("vhost", "component", "name")),
    "global_parameter": ("global_parameters", ("name",)),
    "maintenance": ("maintenance", ("node",)),
}
"""By kind: where a `Topology` has them, and the fields that are their names. All others are their value."""


async def _declare_user(store: MetadataStore, name: str, **value: Any) -> None:
    try:
        await users.add(store, name, **value)
    except EntityExistsError:
        await users.change(store, name, **value)


async def _declare_exchange(store: MetadataStore, vhost: str, name: str, **value: Any) -> None:
    kind = value.pop("type")
    await exchanges.declare(store, vhost, name, kind, **value)


async def _declare_binding(store: MetadataStore, *ends_and_number: Any, **value: Any) -> None:
    *ends, number = ends_and_number
    if value[ARGUMENTS].get(NUMBER) != number:
        raise ProtocolError(f"the number of a binding is one of its arguments: {number!r} and {value[ARGUMENTS]!r}.")
    await bindings.add(store, *ends, **value)


async def _put_operator_policy(store: MetadataStore, vhost: str, name: str, **value: Any) -> None:
    await policies.put(store, vhost, name, **value, operator=True)


_DECLARE: Final[Mapping[str, Callable[..., Awaitable[Any]]]] = {
    "vhost": vhosts.declare,
    "user": _declare_user,
    "permission": permissions.grant,
    "topic_permission": permissions.grant_topic,
    "exchange": _declare_exchange,
    "queue": queues.declare,
    "binding": _declare_binding,
    "policy": policies.put,
    "operator_policy": _put_operator_policy,
    "parameter": parameters.put,
    "global_parameter": parameters.put_global,
    "maintenance": maintenance.put,
}


async def _delete_exchange(store: MetadataStore, vhost: str, name: str, *_: Any) -> bool:
    return await exchanges.delete(store, vhost, name)  # what else an entity has may be its type


async def _delete_queue(store: MetadataStore, vhost: str, name: str, as_whom: Mapping[str, str] = NO_OWNER) -> bool:
    return await queues.delete(store, vhost, name, **as_whom)


async def _remove_binding(store: MetadataStore, *ends_and_number: Any) -> bool:
    *ends, number = ends_and_number
    return await bindings.remove(store, *ends, arguments={NUMBER: number})


async def _clear_operator_policy(store: MetadataStore, vhost: str, name: str) -> bool:
    return await policies.clear(store, vhost, name, operator=True)


_DELETE: Final[Mapping[str, Callable[..., Awaitable[bool | None]]]] = {
    "vhost": vhosts.delete,
    "user": users.delete,
    "permission": permissions.revoke,
    "topic_permission": permissions.revoke_topic,
    "exchange": _delete_exchange,
    "queue": _delete_queue,
    "binding": _remove_binding,
    "policy": policies.clear,
    "operator_policy": _clear_operator_policy,
    "parameter": parameters.clear,
    "global_parameter": parameters.clear_global,
}
"""What is noted of nodes is not removed: they are regular, or they are not."""


async def declare(store: MetadataStore, entity: Entity) -> None:
    """Make an entity that has its value at its end, or give the one that is there this value.

    Raises:
        EntityError: it is refused.
        ProtocolError: there is no such kind.
    """
    kind, *names, value = entity
    if kind not in _DECLARE:
        raise ProtocolError(f"there is no entity {entity!r}.")
    await _DECLARE[kind](store, *names, **value)


async def delete(store: MetadataStore, entity: Entity) -> bool:
    """Remove an entity; whether it was there. An exclusive queue has `{"owner": NAME}` at its end.

    Raises:
        EntityError: it is refused: that one of some kinds is not there is an EntityNotFoundError.
        ProtocolError: there is no such kind, or none of it is ever removed.
    """
    kind, *names = entity
    if kind not in _DELETE:
        raise ProtocolError(f"there is no entity {entity!r} that can be removed.")
    return await _DELETE[kind](store, *names) is not False


def shown(found: Topology) -> list[Entity]:
    """All entities with their values, those left out that every virtual host begins with."""
    entities = [
        _shown(kind, msgspec.to_builtins(record, builtin_types=(bytes,)), names)
        for kind, (attribute, names) in NAMED_BY.items()
        for record in getattr(found, attribute)
    ]
    return sorted(
        (each for each in entities if each[0] != "exchange" or not each[2].startswith(exchanges.RESERVED)), key=repr
    )


def _shown(kind: str, record: Mapping[str, Any], names: Sequence[str]) -> Entity:
    value = {field: part for field, part in record.items() if field not in names}
    if ARGUMENTS in value:
        value[ARGUMENTS] = decoded_arguments(value[ARGUMENTS])
    number = [value[ARGUMENTS].get(NUMBER)] if kind == "binding" else []
    return [kind, *(record[name] for name in names), *number, value]

"""Runtime parameters: of components in a virtual host, with which they go, and of the whole cluster."""

# A transaction reads values of any shape.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any, Final

import msgspec

from splitbrain.cluster.entities.checking import checked
from splitbrain.cluster.entities.names import node_name
from splitbrain.cluster.entities.needs import found_or_abort
from splitbrain.cluster.entities.paths import GLOBAL_PARAMS, RUNTIME_PARAMS, THERE, VHOSTS
from splitbrain.cluster.entities.records import GlobalParameter, Parameter
from splitbrain.cluster.entities.store import MetadataStore, Operation

SET: Final = Operation("parameter_set", 1)
CLEAR: Final = Operation("parameter_clear", 1)
SET_GLOBAL: Final = Operation("global_parameter_set", 1)
CLEAR_GLOBAL: Final = Operation("global_parameter_clear", 1)
TABLE: Final = "runtime_params_v1"
GLOBAL_TABLE: Final = "global_params_v1"


def set_parameter(tx: Any, data: Any) -> Any:
    """Set a parameter of a virtual host, which keeps it."""
    vhost = (*VHOSTS, data["vhost"])
    found_or_abort(tx, vhost, "vhost", data["record"]["vhost"])
    path = (*RUNTIME_PARAMS, data["vhost"], data["component"], data["name"])
    tx.put(path, data["record"], keep_while=[(vhost, THERE)])
    return None


def clear_parameter(tx: Any, data: Any) -> Any:
    """Remove a parameter; whether there was one."""
    path = (*RUNTIME_PARAMS, data["vhost"], data["component"], data["name"])
    was_there = tx.exists(path)
    tx.delete(path)
    return was_there


def set_global_parameter(tx: Any, data: Any) -> Any:
    """Set a parameter of the cluster."""
    tx.put((*GLOBAL_PARAMS, data["name"]), data["record"])
    return None


def clear_global_parameter(tx: Any, data: Any) -> Any:
    """Remove a parameter of the cluster; whether there was one."""
    path = (*GLOBAL_PARAMS, data["name"])
    was_there = tx.exists(path)
    tx.delete(path)
    return was_there


FUNCTIONS: Final = (
    (SET, set_parameter),
    (CLEAR, clear_parameter),
    (SET_GLOBAL, set_global_parameter),
    (CLEAR_GLOBAL, clear_global_parameter),
)


async def put(store: MetadataStore, vhost: str, component: str, name: str, value: Any) -> Parameter:
    """Set a parameter of a component in a virtual host; its value is what msgpack can carry.

    Raises:
        EntityNotFoundError: there is no such virtual host.
    """
    record = checked(Parameter(vhost, component, name, value))
    await store.change(SET, {**_named(vhost, component, name), "record": record})
    return record


async def clear(store: MetadataStore, vhost: str, component: str, name: str) -> bool:
    """Remove a parameter; whether there was one."""
    return await store.change(CLEAR, _named(vhost, component, name))


async def put_global(store: MetadataStore, name: str, value: Any) -> GlobalParameter:
    """Set a parameter of the cluster."""
    record = checked(GlobalParameter(name, value))
    await store.change(SET_GLOBAL, {"name": node_name(name), "record": record})
    return record


async def clear_global(store: MetadataStore, name: str) -> bool:
    """Remove a parameter of the cluster; whether there was one."""
    return await store.change(CLEAR_GLOBAL, {"name": node_name(name)})


async def find(store: MetadataStore, vhost: str, component: str, name: str) -> Parameter | None:
    """A parameter, as the member that is asked holds it."""
    found = await store.records(TABLE, list(_named(vhost, component, name).values()))
    return msgspec.convert(found[0][1], Parameter) if found else None


async def find_global(store: MetadataStore, name: str) -> GlobalParameter | None:
    """A parameter of the cluster, as the member that is asked holds it."""
    found = await store.records(GLOBAL_TABLE, node_name(name))
    return msgspec.convert(found[0][1], GlobalParameter) if found else None


async def every(store: MetadataStore) -> list[Parameter]:
    """All of those of virtual hosts, as the member that is asked holds them."""
    return [msgspec.convert(value, Parameter) for _, value in await store.records(TABLE)]


def _named(vhost: str, component: str, name: str) -> dict[str, str]:
    return {"vhost": node_name(vhost), "component": node_name(component), "name": node_name(name)}

"""What an operation locks before it looks at tables.

A virtual host and a user stand for what belongs to them: who changes anything of one locks its key for writing, on all
replicas. So an operation may look at all records of what it has locked without a lock on each, and nothing is added
meanwhile. Two operations on one virtual host wait for each other, also on different nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

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
from splitbrain.cluster.entities.store import Operation
from splitbrain.cluster.tables.entities.layout import (
    ALL_GLOBAL_PARAMETERS,
    ALL_MAINTENANCE,
    ALL_USERS,
    ALL_VHOSTS,
    MAINTENANCE,
    PARAMETERS,
    USER,
    VHOST,
)
from splitbrain.cluster.tables.locks import Mode
from splitbrain.cluster.tables.procedures import Look, Read, Steps
from splitbrain.cluster.tables.records import Item

Locking = Callable[[Any], Steps]


def _item(table: str, name: Any) -> Item:
    """What stands for an entity.

    Raises:
        TypeError: its name is no text. No other node could read a message with it.
    """
    if not isinstance(name, str):
        raise TypeError(f"a name in {table} is {type(name).__name__}")
    return Item(table, name)


def _of_vhost(data: Any) -> Steps:
    yield Read(_item(VHOST, data["vhost"]), "write")


def _of_user(data: Any) -> Steps:
    yield Read(_item(USER, data["user"]), "write")


def _of_both(data: Any) -> Steps:
    yield from _of_vhost(data)
    yield from _of_user(data)


def _vhost_comes_or_goes(data: Any) -> Steps:
    yield Read(ALL_VHOSTS, "write")
    yield from _of_vhost(data)


def _user_comes_or_goes(data: Any) -> Steps:
    yield Read(ALL_USERS, "write")
    yield from _of_user(data)


def _of_all_vhosts(data: Any) -> Steps:  # noqa: ARG001 - as every one
    yield from _each(ALL_VHOSTS, "read")


def _of_all(data: Any) -> Steps:
    yield from _of_all_vhosts(data)
    yield from _each(ALL_USERS, "read")


def _of_every_kind(data: Any) -> Steps:
    yield from _of_all(data)
    yield Read(ALL_GLOBAL_PARAMETERS)
    yield Read(ALL_MAINTENANCE)


def _each(all_of_them: Item, mode: Mode) -> Steps:
    yield Read(all_of_them, mode)
    tables = yield Look()
    for key in tables.keys(all_of_them.table):
        yield Read(Item(all_of_them.table, key), mode)


def _of_selected(data: Any) -> Steps:
    for vhost in dict.fromkeys(path[2] for path, *_ in data):
        yield Read(_item(VHOST, vhost), "write")


def _looked_at(data: Any) -> Steps:
    yield Read(_item(VHOST, data["vhost"]), "read")


def _of_node(data: Any) -> Steps:
    yield Read(ALL_MAINTENANCE, "write")
    yield Read(_item(MAINTENANCE, data["node"]), "write")


def _of_all_nodes(data: Any) -> Steps:  # noqa: ARG001 - as every one
    yield Read(ALL_MAINTENANCE)


def _of_global_parameter(data: Any) -> Steps:
    yield Read(ALL_GLOBAL_PARAMETERS, "write")
    yield Read(_item(PARAMETERS, data["name"]), "write")


LOCKS: Final[dict[Operation, Locking]] = {
    vhosts.PUT: _vhost_comes_or_goes,
    vhosts.DELETE: _vhost_comes_or_goes,
    users.ADD: _user_comes_or_goes,
    users.CHANGE: _of_user,
    users.DELETE: _user_comes_or_goes,
    **dict.fromkeys(
        (permissions.SET, permissions.CLEAR, permissions.SET_TOPIC, permissions.CLEAR_TOPIC),
        _of_both,
    ),
    **dict.fromkeys(
        (
            *(exchanges.DECLARE, exchanges.DELETE, queues.DECLARE, queues.DELETE, bindings.ADD, bindings.REMOVE),
            *(parameters.SET, parameters.CLEAR, policies.SET, policies.CLEAR),
        ),
        _of_vhost,
    ),
    bindings.LOOK: _looked_at,
    queues.SELECT: _of_all_vhosts,
    queues.DELETE_UNCHANGED: _of_selected,
    queues.DELETE_BY_VERSION: _of_selected,
    parameters.SET_GLOBAL: _of_global_parameter,
    parameters.CLEAR_GLOBAL: _of_global_parameter,
    maintenance.SET: _of_node,
    maintenance.DRAINED: _of_all_nodes,
    topology.READ: _of_all,
    topology.READ_ALL: _of_every_kind,
}

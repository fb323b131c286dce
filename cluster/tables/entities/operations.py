"""The operations of entities on tables, with the names, versions and answers of those on the tree (DB-7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from splitbrain.cluster.draining import drained
from splitbrain.cluster.entities import (
    maintenance,
    parameters,
    permissions,
    policies,
    topology,
    users,
    vhosts,
)
from splitbrain.cluster.entities.errors import EXISTS, NOT_FOUND
from splitbrain.cluster.entities.store import Operation
from splitbrain.cluster.tables.entities import ends
from splitbrain.cluster.tables.entities.layout import (
    EXCHANGE,
    MAINTENANCE,
    OPERATOR_POLICY,
    PARAMETERS,
    POLICY,
    QUEUE,
    ROUTE,
    TOPIC_PERMISSION,
    USER,
    USER_PERMISSION,
    VHOST,
    key,
)
from splitbrain.cluster.tables.entities.needs import found_or_abort
from splitbrain.cluster.tables.entities.removal import remove_user, remove_vhost
from splitbrain.cluster.tables.entities.transaction import TableTransaction

Function: TypeAlias = Callable[[TableTransaction, Any], Any]


def _put_vhost(tx: TableTransaction, data: Any) -> Any:
    there = tx.get(VHOST, data["vhost"])
    if there is None:
        tx.put(VHOST, data["vhost"], data["record"])
        for name, record in data["exchanges"]:
            tx.put(EXCHANGE, key(data["vhost"], name), record)
    return there


def _delete_vhost(tx: TableTransaction, data: Any) -> Any:
    found_or_abort(tx, VHOST, data["vhost"], data["name"])
    remove_vhost(tx, data["vhost"])


def _add_user(tx: TableTransaction, data: Any) -> Any:
    if tx.get(USER, data["user"]) is not None:
        tx.abort([EXISTS, "user", data["name"], ""])
    tx.put(USER, data["user"], data["record"])


def _change_user(tx: TableTransaction, data: Any) -> Any:
    found = tx.get(USER, data["user"])
    if found is None:
        tx.abort([NOT_FOUND, "user", data["name"], ""])
    tx.put(USER, data["user"], {**found, **data["fields"]})


def _delete_user(tx: TableTransaction, data: Any) -> Any:
    found_or_abort(tx, USER, data["user"], data["name"])
    remove_user(tx, data["user"])


def _set_permission(tx: TableTransaction, data: Any) -> Any:
    record = data["record"]
    found_or_abort(tx, VHOST, data["vhost"], record["vhost"])
    found_or_abort(tx, USER, data["user"], record["user"])
    tx.put(USER_PERMISSION, key(data["vhost"], data["user"]), record)


def _set_topic_permission(tx: TableTransaction, data: Any) -> Any:
    record = data["record"]
    found_or_abort(tx, VHOST, data["vhost"], record["vhost"])
    found_or_abort(tx, USER, data["user"], record["user"])
    found_or_abort(tx, EXCHANGE, key(data["vhost"], data["exchange"]), record["exchange"])
    tx.put(TOPIC_PERMISSION, key(data["vhost"], data["exchange"], data["user"]), record)


def _clear_permission(tx: TableTransaction, data: Any) -> Any:
    return _clear(tx, USER_PERMISSION, key(data["vhost"], data["user"]))


def _clear_topic_permission(tx: TableTransaction, data: Any) -> Any:
    return _clear(tx, TOPIC_PERMISSION, key(data["vhost"], data["exchange"], data["user"]))


def _set_parameter(tx: TableTransaction, data: Any) -> Any:
    found_or_abort(tx, VHOST, data["vhost"], data["record"]["vhost"])
    tx.put(PARAMETERS, key(data["vhost"], data["component"], data["name"]), data["record"])


def _clear_parameter(tx: TableTransaction, data: Any) -> Any:
    return _clear(tx, PARAMETERS, key(data["vhost"], data["component"], data["name"]))


def _set_global_parameter(tx: TableTransaction, data: Any) -> Any:
    tx.put(PARAMETERS, data["name"], data["record"])


def _clear_global_parameter(tx: TableTransaction, data: Any) -> Any:
    return _clear(tx, PARAMETERS, data["name"])


def _set_policy(tx: TableTransaction, data: Any) -> Any:
    found_or_abort(tx, VHOST, data["vhost"], data["record"]["vhost"])
    tx.put(PARAMETERS, _policy(data), data["record"])


def _clear_policy(tx: TableTransaction, data: Any) -> Any:
    return _clear(tx, PARAMETERS, _policy(data))


def _policy(data: Any) -> str:
    return key(data["vhost"], OPERATOR_POLICY if data["operator"] else POLICY, data["name"])


def _set_maintenance(tx: TableTransaction, data: Any) -> Any:
    before = tx.get(MAINTENANCE, data["node"])
    tx.put(MAINTENANCE, data["node"], data["record"])
    return before != data["record"]


def _drained_nodes(tx: TableTransaction, data: Any) -> Any:  # noqa: ARG001 - as every operation
    return sorted(drained(tx.get(MAINTENANCE, each) for each in tx.keys(MAINTENANCE)))


def _clear(tx: TableTransaction, table: str, found: str) -> bool:
    was_there = tx.get(table, found) is not None
    tx.delete(table, found)
    return was_there


def _read_topology(tx: TableTransaction, data: Any) -> Any:  # noqa: ARG001 - as every operation
    tables = (
        *(("vhosts", VHOST), ("users", USER), ("permissions", USER_PERMISSION)),
        *(("topic_permissions", TOPIC_PERMISSION), ("exchanges", EXCHANGE), ("queues", QUEUE)),
    )
    found = [[kind, [tx.get(table, each) for each in _in_order_of_paths(tx.keys(table))]] for kind, table in tables]
    routes = [tx.values(ROUTE, each) for each in _in_order_of_paths(tx.keys(ROUTE))]
    found.append(
        ["bindings", [{**bound[0], "arguments": sorted(each["arguments"] for each in bound)} for bound in routes]]
    )
    chosen = [each for each in _in_order_of_paths(tx.keys(PARAMETERS)) if each.split("/")[1:2] == [POLICY]]
    found.append(["policies", [tx.get(PARAMETERS, each) for each in chosen]])
    return found


def _read_all(tx: TableTransaction, data: Any) -> Any:
    found = _in_order_of_paths(tx.keys(PARAMETERS))
    of_vhosts = [(each, each.split("/")[1]) for each in found if "/" in each]
    kinds = (
        ("operator_policies", [each for each, component in of_vhosts if component == OPERATOR_POLICY]),
        ("parameters", [each for each, component in of_vhosts if component not in (POLICY, OPERATOR_POLICY)]),
        ("global_parameters", [each for each in found if "/" not in each]),
    )
    return [
        *_read_topology(tx, data),
        *([kind, [tx.get(PARAMETERS, each) for each in keys]] for kind, keys in kinds),
        ["maintenance", [tx.get(MAINTENANCE, each) for each in sorted(tx.keys(MAINTENANCE))]],
    ]


def _in_order_of_paths(keys: list[str]) -> list[str]:
    return sorted(keys, key=lambda found: found.split("/"))


OPERATIONS: Final[Mapping[Operation, Function]] = {
    vhosts.PUT: _put_vhost,
    vhosts.DELETE: _delete_vhost,
    users.ADD: _add_user,
    users.CHANGE: _change_user,
    users.DELETE: _delete_user,
    permissions.SET: _set_permission,
    permissions.CLEAR: _clear_permission,
    permissions.SET_TOPIC: _set_topic_permission,
    permissions.CLEAR_TOPIC: _clear_topic_permission,
    parameters.SET: _set_parameter,
    parameters.CLEAR: _clear_parameter,
    parameters.SET_GLOBAL: _set_global_parameter,
    parameters.CLEAR_GLOBAL: _clear_global_parameter,
    policies.SET: _set_policy,
    policies.CLEAR: _clear_policy,
    maintenance.SET: _set_maintenance,
    maintenance.DRAINED: _drained_nodes,
    topology.READ: _read_topology,
    topology.READ_ALL: _read_all,
    **ends.OPERATIONS,
}
"""What each does, in the transaction that `splitbrain.cluster.tables.entities.locks` began."""

"""What users may do in a virtual host, and with which routing keys of a topic exchange.

A permission is kept by its user and its virtual host, one of topics by its exchange as well (DB-1, DB-2).
"""

# A transaction reads values of any shape.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any, Final

import msgspec

from splitbrain.cluster.entities.checking import checked
from splitbrain.cluster.entities.expressions import checked_expression
from splitbrain.cluster.entities.names import node_name
from splitbrain.cluster.entities.needs import found_or_abort
from splitbrain.cluster.entities.paths import EXCHANGES, PERMISSIONS, THERE, TOPIC_PERMISSIONS, USERS, VHOSTS
from splitbrain.cluster.entities.records import Permission, TopicPermission
from splitbrain.cluster.entities.store import MetadataStore, Operation

SET: Final = Operation("permission_set", 1)
CLEAR: Final = Operation("permission_clear", 1)
SET_TOPIC: Final = Operation("topic_permission_set", 1)
CLEAR_TOPIC: Final = Operation("topic_permission_clear", 1)
TABLE: Final = "permissions_v1"
TOPIC_TABLE: Final = "topic_permissions_v1"


def set_permission(tx: Any, data: Any) -> Any:
    """Permit, in place of what was permitted before."""
    record, vhost, user = data["record"], (*VHOSTS, data["vhost"]), (*USERS, data["user"])
    found_or_abort(tx, vhost, "vhost", record["vhost"])
    found_or_abort(tx, user, "user", record["user"])
    tx.put((*PERMISSIONS, data["vhost"], data["user"]), record, keep_while=[(vhost, THERE), (user, THERE)])
    return None


def set_topic_permission(tx: Any, data: Any) -> Any:
    """The same for the routing keys of an exchange, which has to be there."""
    record, user = data["record"], (*USERS, data["user"])
    exchange = (*EXCHANGES, data["vhost"], data["exchange"])
    found_or_abort(tx, (*VHOSTS, data["vhost"]), "vhost", record["vhost"])
    found_or_abort(tx, user, "user", record["user"])
    found_or_abort(tx, exchange, "exchange", record["exchange"])
    path = (*TOPIC_PERMISSIONS, data["vhost"], data["exchange"], data["user"])
    tx.put(path, record, keep_while=[(user, THERE), (exchange, THERE)])
    return None


def clear_permission(tx: Any, data: Any) -> Any:
    """Permit nothing more; whether something was permitted."""
    path = (*PERMISSIONS, data["vhost"], data["user"])
    was_there = tx.exists(path)
    tx.delete(path)
    return was_there


def clear_topic_permission(tx: Any, data: Any) -> Any:
    """The same for the routing keys of an exchange."""
    path = (*TOPIC_PERMISSIONS, data["vhost"], data["exchange"], data["user"])
    was_there = tx.exists(path)
    tx.delete(path)
    return was_there


FUNCTIONS: Final = (
    (SET, set_permission),
    (CLEAR, clear_permission),
    (SET_TOPIC, set_topic_permission),
    (CLEAR_TOPIC, clear_topic_permission),
)


async def grant(
    store: MetadataStore, vhost: str, user: str, *, configure: str = "", write: str = "", read: str = ""
) -> Permission:
    """Permit a user what these regular expressions match, in place of what was permitted before; "" is nothing.

    Raises:
        EntityNotFoundError: there is no such user or virtual host.
        InvalidRequestError: an expression is not in order.
    """
    record = checked(Permission(vhost, user, configure, write, read))
    for expression in (configure, write, read):
        checked_expression(expression)
    await store.change(SET, {"vhost": node_name(vhost), "user": node_name(user), "record": record})
    return record


async def revoke(store: MetadataStore, vhost: str, user: str) -> bool:
    """Permit a user nothing more in a virtual host; whether something was permitted."""
    return await store.change(CLEAR, {"vhost": node_name(vhost), "user": node_name(user)})


async def grant_topic(
    store: MetadataStore, vhost: str, user: str, exchange: str, *, write: str = "", read: str = ""
) -> TopicPermission:
    """The same for the routing keys of an exchange.

    Raises:
        EntityNotFoundError: there is no such user, virtual host or exchange.
        InvalidRequestError: an expression is not in order.
    """
    record = checked(TopicPermission(vhost, user, exchange, write, read))
    for expression in (write, read):
        checked_expression(expression)
    data = {"vhost": node_name(vhost), "user": node_name(user), "exchange": node_name(exchange), "record": record}
    await store.change(SET_TOPIC, data)
    return record


async def revoke_topic(store: MetadataStore, vhost: str, user: str, exchange: str) -> bool:
    """Forget what a user was permitted of the routing keys of an exchange; whether there was something."""
    data = {"vhost": node_name(vhost), "user": node_name(user), "exchange": node_name(exchange)}
    return await store.change(CLEAR_TOPIC, data)


async def find(store: MetadataStore, vhost: str, user: str) -> Permission | None:
    """What a user may do in a virtual host, as the member that is asked holds it."""
    found = await store.records(TABLE, [node_name(vhost), node_name(user)])
    return msgspec.convert(found[0][1], Permission) if found else None


async def every(store: MetadataStore) -> list[Permission]:
    """All of them, as the member that is asked holds them."""
    return [msgspec.convert(value, Permission) for _, value in await store.records(TABLE)]


async def every_topic(store: MetadataStore) -> list[TopicPermission]:
    """All of those of topics, as the member that is asked holds them."""
    return [msgspec.convert(value, TopicPermission) for _, value in await store.records(TOPIC_TABLE)]

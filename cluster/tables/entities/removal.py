"""What goes with an entity (DB-2). A tree takes it along by itself; in tables the transaction has to find it."""

from __future__ import annotations

from collections.abc import Iterable

from splitbrain.cluster.tables.entities.layout import (
    EXCHANGE,
    OF_VHOSTS,
    QUEUE,
    REVERSE_ROUTE,
    ROUTE,
    TOPIC_PERMISSION,
    USER,
    USER_PERMISSION,
    VHOST,
    key,
)
from splitbrain.cluster.tables.entities.routes import unlink
from splitbrain.cluster.tables.entities.transaction import TableTransaction


def remove_vhost(tx: TableTransaction, vhost: str) -> None:
    """Remove a virtual host with all that belongs to it."""
    for table in OF_VHOSTS:
        for found in tx.keys(table, key(vhost, "")):
            tx.delete(table, found)
    tx.delete(VHOST, vhost)


def remove_user(tx: TableTransaction, user: str) -> None:
    """Remove a user with all that it is permitted."""
    for table in (USER_PERMISSION, TOPIC_PERMISSION):
        for found in tx.keys(table):
            if found.endswith(f"/{user}"):
                tx.delete(table, found)
    tx.delete(USER, user)


def remove_queue(tx: TableTransaction, vhost: str, name: str) -> None:
    """Remove a queue with its bindings, and exchanges that delete themselves with these."""
    sources = _unlink_all(tx, tx.values(REVERSE_ROUTE, key(vhost, "queue", name)))
    tx.delete(QUEUE, key(vhost, name))
    end_unbound(tx, vhost, sources)


def remove_exchange(tx: TableTransaction, vhost: str, name: str) -> None:
    """Remove an exchange with its bindings from and to it, and what goes with these."""
    end_unbound(tx, vhost, _remove_exchange(tx, vhost, name))


def end_unbound(tx: TableTransaction, vhost: str, sources: Iterable[str]) -> None:
    """Remove those of these exchanges that lost their last binding and delete themselves; what goes with them, too."""
    pending = list(sources)
    while pending:
        name = pending.pop()
        exchange = tx.get(EXCHANGE, key(vhost, name))
        if exchange is not None and exchange["auto_delete"] and not tx.keys(ROUTE, key(vhost, name, "")):
            pending += _remove_exchange(tx, vhost, name)


def _remove_exchange(tx: TableTransaction, vhost: str, name: str) -> list[str]:
    """The same without others; the sources of bindings that went."""
    routes = [*tx.keys(ROUTE, key(vhost, name, "")), *tx.values(REVERSE_ROUTE, key(vhost, "exchange", name))]
    sources = _unlink_all(tx, routes)
    for permission in tx.keys(TOPIC_PERMISSION, key(vhost, name, "")):
        tx.delete(TOPIC_PERMISSION, permission)
    tx.delete(EXCHANGE, key(vhost, name))
    return sources


def _unlink_all(tx: TableTransaction, routes: Iterable[str]) -> list[str]:
    """Take bindings away; their sources."""
    sources: dict[str, None] = {}
    for route in routes:
        for binding in tx.values(ROUTE, route):
            unlink(tx, route, binding)
        sources[route.split("/")[1]] = None
    return list(sources)

"""Operations on exchanges, queues and bindings: the ends of bindings, and what binds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec

from splitbrain.cluster.entities import bindings, exchanges, queues
from splitbrain.cluster.entities.errors import CHANGED, PRECONDITION_FAILED, RESOURCE_LOCKED
from splitbrain.cluster.entities.paths import QUEUES
from splitbrain.cluster.entities.store import Operation
from splitbrain.cluster.tables.entities.layout import EXCHANGE, QUEUE, ROUTE, VHOST, key
from splitbrain.cluster.tables.entities.needs import found_or_abort
from splitbrain.cluster.tables.entities.removal import end_unbound, remove_exchange, remove_queue
from splitbrain.cluster.tables.entities.routes import link, unlink
from splitbrain.cluster.tables.entities.transaction import TableTransaction
from splitbrain.cluster.tree.datapattern import compile_pattern

_encoder: Final = msgspec.msgpack.Encoder(order="deterministic")


def _declare_exchange(tx: TableTransaction, data: Any) -> Any:
    found_or_abort(tx, VHOST, data["vhost"], data["record"]["vhost"])
    there = tx.get(EXCHANGE, key(data["vhost"], data["name"]))
    if there is None:
        tx.put(EXCHANGE, key(data["vhost"], data["name"]), data["record"])
    return there


def _delete_exchange(tx: TableTransaction, data: Any) -> Any:
    vhost, name = data["vhost"], data["name"]
    if tx.get(EXCHANGE, key(vhost, name)) is None:
        return False
    if data["if_unused"] and tx.keys(ROUTE, key(vhost, name, "")):
        tx.abort([PRECONDITION_FAILED, "exchange", data["raw_name"], "it is in use: it has bindings"])
    remove_exchange(tx, vhost, name)
    return True


def _declare_queue(tx: TableTransaction, data: Any) -> Any:
    record, found = data["record"], key(data["vhost"], data["name"])
    found_or_abort(tx, VHOST, data["vhost"], record["vhost"])
    there = tx.get(QUEUE, found)
    if there is None:
        tx.put(QUEUE, found, record)
    elif there["owner"] != record["owner"]:
        if there["owner"] is not None:
            tx.abort([RESOURCE_LOCKED, "queue", record["name"], ""])
        tx.abort([PRECONDITION_FAILED, "queue", record["name"], "there is one that is not exclusive"])
    return there


def _delete_queue(tx: TableTransaction, data: Any) -> Any:
    there = tx.get(QUEUE, key(data["vhost"], data["name"]))
    if there is None:
        return False
    if there["owner"] is not None and there["owner"] != data["owner"]:
        tx.abort([RESOURCE_LOCKED, "queue", there["name"], ""])
    remove_queue(tx, data["vhost"], data["name"])
    return True


def _select_queues(tx: TableTransaction, data: Any) -> Any:
    pattern = compile_pattern(data["pattern"], b"")
    found: list[Any] = []
    for each in sorted(tx.keys(QUEUE), key=lambda name: name.split("/")):
        record = tx.get(QUEUE, each)
        if pattern.matches(_encoder.encode(record)):
            found.append([[*QUEUES, *each.split("/")], version_of(record), record])
    return found


def version_of(record: Any) -> int:
    """What stands for the version of a record in tables.

    It is negative, as no version of a tree node is: a queue that was selected in one store counts as changed in the
    other one, and is selected again.
    """
    return -1 - int.from_bytes(blake2b(_encoder.encode(record), digest_size=7).digest(), "big")


def _delete_unchanged(tx: TableTransaction, data: Any) -> Any:
    """The version is a digest of the record, which needs no second look."""
    for path, version, *_ in data:
        vhost, name = path[2:]
        there = tx.get(QUEUE, key(vhost, name))
        if there is None:
            continue  # another one removed it
        if version_of(there) != version:
            tx.abort([CHANGED, "queue", there["name"], ""])
        remove_queue(tx, vhost, name)


def _look_at_ends(tx: TableTransaction, data: Any) -> Any:
    """The exchange that the binding comes from."""
    record = data["record"]
    source = found_or_abort(tx, EXCHANGE, key(data["vhost"], data["source"]), record["source"])
    table = EXCHANGE if record["kind"] == "exchange" else QUEUE
    ending = found_or_abort(tx, table, key(data["vhost"], data["destination"]), record["destination"])
    owner = ending.get("owner")
    if owner is not None and owner != data["owner"]:
        tx.abort([RESOURCE_LOCKED, "queue", record["destination"], ""])
    return source


def _look(tx: TableTransaction, data: Any) -> Any:
    _look_at_ends(tx, data)


def _add_binding(tx: TableTransaction, data: Any) -> Any:
    source = _look_at_ends(tx, data)
    route, binding = _route(data), {**data["record"], "type": source["type"]}
    if tx.has(ROUTE, route, binding):
        return False
    link(tx, route, binding)
    return True


def _remove_binding(tx: TableTransaction, data: Any) -> Any:
    route, wanted = _route(data), data["record"]["arguments"]
    for binding in tx.values(ROUTE, route):
        if binding["arguments"] == wanted:
            unlink(tx, route, binding)
            end_unbound(tx, data["vhost"], [data["source"]])
            return True
    return False


def _route(data: Any) -> str:
    return key(data["vhost"], data["source"], data["record"]["kind"], data["destination"], data["key"])


OPERATIONS: Final[Mapping[Operation, Callable[[TableTransaction, Any], Any]]] = {
    exchanges.DECLARE: _declare_exchange,
    exchanges.DELETE: _delete_exchange,
    queues.DECLARE: _declare_queue,
    queues.DELETE: _delete_queue,
    queues.SELECT: _select_queues,
    queues.DELETE_UNCHANGED: _delete_unchanged,
    queues.DELETE_BY_VERSION: _delete_unchanged,
    bindings.LOOK: _look,
    bindings.ADD: _add_binding,
    bindings.REMOVE: _remove_binding,
}

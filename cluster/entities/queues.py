"""Queues: durable, transient (DB-5) and exclusive (DB-6) ones. The bindings of a queue go with it."""

# A transaction reads values of any shape.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any, Final

import msgspec

from splitbrain.cluster.entities.checking import checked
from splitbrain.cluster.entities.equivalence import check_equivalent
from splitbrain.cluster.entities.errors import CHANGED, PRECONDITION_FAILED, RESOURCE_LOCKED, PreconditionFailedError
from splitbrain.cluster.entities.names import encoded_arguments, node_name
from splitbrain.cluster.entities.needs import found_or_abort, found_or_none
from splitbrain.cluster.entities.paths import QUEUES, THERE, VHOSTS
from splitbrain.cluster.entities.records import Queue
from splitbrain.cluster.entities.store import MetadataStore, Operation, encoded
from splitbrain.cluster.tree import ANY, ANY_CHILD, IfAll, IfDataMatches, IfPayloadVersion, Refused

DECLARE: Final = Operation("queue_declare", 1)
DELETE: Final = Operation("queue_delete", 1)
SELECT: Final = Operation("queue_select", 1)
DELETE_UNCHANGED: Final = Operation("queue_delete_unchanged", 2)
DELETE_BY_VERSION: Final = Operation("queue_delete_unchanged", 1)
"""Stands in logs. A queue that was made since under the same name is of the same version, the first."""

TABLE: Final = "queues_v1"

AT_ONCE: Final = 500
"""Queues that one command removes; each takes two of a transaction's operations."""

BYTES_AT_ONCE: Final = 64 * 1024
"""Of what one command says of them: names may be long, and a request has at most 100 KiB."""

ATTEMPTS: Final = 100
"""How often what changed meanwhile is selected again."""


def declare_queue(tx: Any, data: Any) -> Any:
    """Make a queue; the one that there is, None if this made it (create or get, DB-4)."""
    vhost, path = (*VHOSTS, data["vhost"]), (*QUEUES, data["vhost"], data["name"])
    found_or_abort(tx, vhost, "vhost", data["record"]["vhost"])
    made = tx.create(path, data["record"], keep_while=[(vhost, THERE)])
    if not isinstance(made, Refused):
        return None
    found = tx.value(tx.get(path))
    if found["owner"] != data["record"]["owner"]:
        if found["owner"] is not None:
            tx.abort([RESOURCE_LOCKED, "queue", data["record"]["name"], ""])
        tx.abort([PRECONDITION_FAILED, "queue", data["record"]["name"], "there is one that is not exclusive"])
    return found


def delete_queue(tx: Any, data: Any) -> Any:
    """Remove a queue; whether there was one. Its bindings are kept by it, and go as well."""
    path = (*QUEUES, data["vhost"], data["name"])
    found = found_or_none(tx, path)
    if found is None:
        return False
    if found["owner"] is not None and found["owner"] != data["owner"]:
        tx.abort([RESOURCE_LOCKED, "queue", found["name"], ""])
    tx.delete(path)
    return True


def select_queues(tx: Any, data: Any) -> Any:
    """The queues whose records match a pattern, each with its path and the version of its payload."""
    found = tx.get_many((*QUEUES, ANY_CHILD, IfAll((ANY_CHILD, IfDataMatches(data["pattern"])))))
    return [[list(node.path), node.payload_version, tx.value(node)] for node in found]


def delete_unchanged(tx: Any, data: Any) -> Any:
    """Remove queues if each is the one that was selected: it did not change, and has the same owner and node."""
    for path, version, owner, node in data:
        if not tx.exists(path):
            continue  # someone else removed it
        there = tx.value(tx.get(path))
        is_of_version = tx.get_many((*path[:-1], IfAll((path[-1], IfPayloadVersion(version)))))
        if not is_of_version or there["owner"] != owner or there["node"] != node:
            tx.abort([CHANGED, "queue", there["name"], ""])
        tx.delete(path)
    return None


def delete_by_version(tx: Any, data: Any) -> Any:
    """Remove queues if none of them has another version than when they were selected."""
    for path, version in data:
        if not tx.exists(path):
            continue  # someone else removed it
        if not tx.get_many((*path[:-1], IfAll((path[-1], IfPayloadVersion(version))))):
            tx.abort([CHANGED, "queue", tx.value(tx.get(path))["name"], ""])
        tx.delete(path)
    return None


FUNCTIONS: Final = (
    (DECLARE, declare_queue),
    (DELETE, delete_queue),
    (SELECT, select_queues),
    (DELETE_UNCHANGED, delete_unchanged),
    (DELETE_BY_VERSION, delete_by_version),
)


async def declare(
    store: MetadataStore,
    vhost: str,
    name: str,
    *,
    durable: bool = True,
    auto_delete: bool = False,
    owner: str | None = None,
    node: str = "",
    arguments: Mapping[str, Any] | None = None,
) -> Queue:
    """The queue of that name, made if there is none; where it lives is `node` only if this made it.

    Raises:
        PreconditionFailedError: there is one that differs.
        ResourceLockedError: there is one that is exclusive to another connection.
        EntityNotFoundError: there is no such virtual host.
    """
    record = checked(Queue(vhost, name, durable, auto_delete, owner, node, encoded_arguments(arguments or {})))
    there = await store.change(DECLARE, {"vhost": node_name(vhost), "name": node_name(name), "record": record})
    if there is None:
        return record
    found = msgspec.convert(there, Queue)
    check_equivalent("queue", record, found)
    return found


async def delete(store: MetadataStore, vhost: str, name: str, *, owner: str | None = None) -> bool:
    """Remove a queue with its bindings; whether there was one.

    Raises:
        ResourceLockedError: it is exclusive to another connection than `owner`.
    """
    return await store.change(DELETE, {"vhost": node_name(vhost), "name": node_name(name), "owner": owner})


async def delete_exclusive(store: MetadataStore, owner: str) -> int:
    """Remove the queues that are exclusive to a connection, which has ended (DB-6); how many there were."""
    return await _delete_matching(store, {"owner": owner}, lambda queue: queue.owner == owner)


async def of_owner(store: MetadataStore, owner: str) -> list[Queue]:
    """The queues that are exclusive to a connection; linearizable."""
    found = await store.ask(SELECT, {"pattern": _pattern({"owner": owner})})
    return list(of_records(value for _, _, value in found))


async def delete_transient(store: MetadataStore, node: str, is_gone: Callable[[Queue], bool] = lambda _: True) -> int:
    """Remove the transient queues of a node that starts anew, or has left the cluster (DB-5); how many there were.

    Not when a node is only down, or cut off: its queues may live on there, and come back with it (rabbitmq-server
    #12597, #14573).

    Args:
        store: of the entities.
        node: of the cluster, or one life of it, as the queues were declared.
        is_gone: which of them; it is asked outside of the store.
    """
    return await _delete_matching(store, {"durable": False, "node": node}, is_gone)


async def _delete_matching(store: MetadataStore, fields: Mapping[str, Any], chosen: Callable[[Queue], bool]) -> int:
    """Select, then remove what did not change meanwhile; if something did, select again.

    Raises:
        PreconditionFailedError: something changed each time.
    """
    data = {"pattern": _pattern(fields)}
    deleted = 0
    for _ in range(ATTEMPTS):
        found = await store.ask(SELECT, data)
        ending = [
            (path, version, value["owner"], value["node"])
            for path, version, value in found
            if any(map(chosen, of_records([value])))
        ]
        if not ending:
            return deleted
        first = ending[: _at_once(ending)]
        try:
            await store.change(DELETE_UNCHANGED, first)
            deleted += len(first)
        except PreconditionFailedError:
            continue
    raise PreconditionFailedError(f"{CHANGED}: queues with {dict(fields)}: they change all the time; try again.")


def _at_once(ending: Sequence[Any]) -> int:
    """How many of them one command removes."""
    sizes = accumulate(len(encoded(each)) for each in ending[:AT_ONCE])
    return max(1, sum(size <= BYTES_AT_ONCE for size in sizes))


def of_records(records: Iterable[Any]) -> Iterator[Queue]:
    """Those of these records that are of queues: clients may write anything there."""
    for record in records:
        with suppress(msgspec.ValidationError):
            yield msgspec.convert(record, Queue)


def _pattern(fields: Mapping[str, Any]) -> bytes:
    return encoded({field.name: fields.get(field.name, ANY) for field in msgspec.structs.fields(Queue)})


async def find(store: MetadataStore, vhost: str, name: str) -> Queue | None:
    """The queue of that name, as the member that is asked holds it."""
    found = await store.records(TABLE, [node_name(vhost), node_name(name)])
    return msgspec.convert(found[0][1], Queue) if found else None


async def every(store: MetadataStore) -> list[Queue]:
    """All of them, as the member that is asked holds them."""
    return [msgspec.convert(value, Queue) for _, value in await store.records(TABLE)]

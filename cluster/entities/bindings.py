"""Bindings: from an exchange to a queue or an exchange, looked up in the transaction that makes the binding (DB-3).

The node of a binding holds all bindings of the same ends and routing key, which differ in arguments. It is kept by both
ends, and goes with either (DB-2). An exchange that deletes itself is kept, once it has a binding, by having one.
"""

# A transaction reads values of any shape.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from splitbrain.cluster.entities.checking import checked
from splitbrain.cluster.entities.errors import RESOURCE_LOCKED, AccessRefusedError
from splitbrain.cluster.entities.headers import WAYS, X_MATCH
from splitbrain.cluster.entities.names import encoded_arguments, node_name
from splitbrain.cluster.entities.needs import found_or_abort, found_or_none
from splitbrain.cluster.entities.paths import BINDINGS, EXCHANGES, QUEUES, THERE, VHOSTS
from splitbrain.cluster.entities.records import Binding, DestinationKind
from splitbrain.cluster.entities.store import MetadataStore, Operation
from splitbrain.cluster.errors import InvalidRequestError

LOOK: Final = Operation("binding_look", 1)
ADD: Final = Operation("binding_add", 1)
REMOVE: Final = Operation("binding_remove", 1)
BY_SOURCE: Final = "bindings_by_source_v1"
BY_DESTINATION: Final = "bindings_by_destination_v1"


def look_at_ends(tx: Any, data: Any) -> Any:
    """Nothing, if both ends are there, and the connection may use them."""
    record = data["record"]
    found_or_abort(tx, (*EXCHANGES, data["vhost"], data["source"]), "exchange", record["source"])
    ending = found_or_abort(tx, _destination(data), record["kind"], record["destination"])
    owner = ending.get("owner")
    if owner is not None and owner != data["owner"]:
        tx.abort([RESOURCE_LOCKED, "queue", record["destination"], ""])
    return None


def add_binding(tx: Any, data: Any) -> Any:
    """Bind, if both ends are there; whether this binding is new."""
    look_at_ends(tx, data)
    return _add(tx, data)


def add_binding_to_anything(tx: Any, data: Any) -> Any:
    """With M58: bind to what was there when the ends were looked at, before this transaction."""
    return _add(tx, data)


def remove_binding(tx: Any, data: Any) -> Any:
    """Unbind; whether there was such a binding."""
    path = _path(data)
    found = found_or_none(tx, path)
    if found is None or data["record"]["arguments"] not in found["arguments"]:
        return False
    left = [arguments for arguments in found["arguments"] if arguments != data["record"]["arguments"]]
    if left:
        tx.put(path, {**found, "arguments": left})
    else:
        tx.delete(path)
    return True


def _add(tx: Any, data: Any) -> Any:
    record, path = data["record"], _path(data)
    source = (*EXCHANGES, data["vhost"], data["source"])
    exchange = found_or_none(tx, source)
    found = found_or_none(tx, path)
    if found is not None:
        if record["arguments"] in found["arguments"]:
            return False
        tx.put(path, {**found, "arguments": sorted([*found["arguments"], record["arguments"]])})
        return True
    ends = [(end, THERE) for end in (source, _destination(data)) if tx.exists(end)]
    kind = "direct" if exchange is None else exchange["type"]
    tx.put(path, {**record, "type": kind, "arguments": [record["arguments"]]}, keep_while=ends)
    if exchange is not None and exchange["auto_delete"]:
        bound = (*BINDINGS, data["vhost"], data["source"])
        tx.put(source, exchange, keep_while=[((*VHOSTS, data["vhost"]), THERE), (bound, THERE)])
    return True


def _path(data: Any) -> Any:
    ends = (data["vhost"], data["source"], ":" + data["record"]["kind"], data["destination"])
    return (*BINDINGS, *ends, data["key"])


def _destination(data: Any) -> Any:
    above = EXCHANGES if data["record"]["kind"] == "exchange" else QUEUES
    return (*above, data["vhost"], data["destination"])


FUNCTIONS: Final = ((LOOK, look_at_ends), (ADD, add_binding), (REMOVE, remove_binding))


async def add(
    store: MetadataStore,
    vhost: str,
    source: str,
    kind: DestinationKind,
    destination: str,
    key: str = "",
    *,
    arguments: Mapping[str, Any] | None = None,
    owner: str | None = None,
) -> bool:
    """Bind; whether this binding is new.

    The ends are looked at first, so that a refusal costs no entry of the log; what counts is the look in the
    transaction.

    Raises:
        EntityNotFoundError: one of the ends is not there.
        ResourceLockedError: the queue is exclusive to another connection than `owner`.
        AccessRefusedError: the source is the default exchange, to which every queue is bound by its name.
        InvalidRequestError: `x-match` is none of those that there are.
    """
    given = arguments or {}
    if given.get(X_MATCH, "all") not in WAYS:
        raise InvalidRequestError(f"invalid_arguments: {X_MATCH} is one of {', '.join(WAYS)}.")
    data = _data(Binding(vhost, source, kind, destination, key, encoded_arguments(given)), owner)
    await store.ask(LOOK, data)
    return await store.change(ADD, data)


async def remove(
    store: MetadataStore,
    vhost: str,
    source: str,
    kind: DestinationKind,
    destination: str,
    key: str = "",
    *,
    arguments: Mapping[str, Any] | None = None,
) -> bool:
    """Unbind; whether there was such a binding.

    Raises:
        AccessRefusedError: the source is the default exchange.
    """
    data = _data(Binding(vhost, source, kind, destination, key, encoded_arguments(arguments or {})), None)
    return await store.change(REMOVE, data)


async def of_source(store: MetadataStore, vhost: str, source: str) -> list[Binding]:
    """The bindings from an exchange, as the member that is asked holds them."""
    found = await store.records(BY_SOURCE, [node_name(vhost), node_name(source)])
    return [msgspec.convert(value, Binding) for _, value in found]


async def of_destination(store: MetadataStore, vhost: str, kind: DestinationKind, destination: str) -> list[Binding]:
    """The bindings to a queue or an exchange, as the member that is asked holds them."""
    found = await store.records(BY_DESTINATION, [node_name(vhost), kind, node_name(destination)])
    return [msgspec.convert(value, Binding) for _, value in found]


async def every(store: MetadataStore) -> list[Binding]:
    """All of them, as the member that is asked holds them."""
    return [msgspec.convert(value, Binding) for _, value in await store.records(BY_SOURCE)]


def _data(binding: Binding, owner: str | None) -> dict[str, Any]:
    checked(binding)
    if not binding.source or (binding.kind == "exchange" and not binding.destination):
        raise AccessRefusedError("access_refused: exchange '': every queue is bound to the default exchange by name.")
    return {
        "vhost": node_name(binding.vhost),
        "source": node_name(binding.source),
        "destination": node_name(binding.destination),
        "key": node_name(binding.key),
        "record": binding,
        "owner": owner,
    }

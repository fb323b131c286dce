"""Exchanges. The bindings of an exchange, from it and to it, go with it; one that deletes itself goes with its last."""

# A transaction reads values of any shape.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

import msgspec

from splitbrain.cluster.entities.checking import checked
from splitbrain.cluster.entities.equivalence import check_equivalent
from splitbrain.cluster.entities.errors import PRECONDITION_FAILED, AccessRefusedError, PreconditionFailedError
from splitbrain.cluster.entities.names import encoded_arguments, node_name
from splitbrain.cluster.entities.needs import found_or_abort
from splitbrain.cluster.entities.paths import BINDINGS, EXCHANGES, THERE, VHOSTS
from splitbrain.cluster.entities.records import Exchange, ExchangeType
from splitbrain.cluster.entities.store import MetadataStore, Operation
from splitbrain.cluster.tree import Refused

DECLARE: Final = Operation("exchange_declare", 1)
DELETE: Final = Operation("exchange_delete", 1)
TABLE: Final = "exchanges_v1"

RESERVED: Final = "amq."
"""How names begin that clients neither declare nor delete; "" is the default exchange, which is no entity."""


def declare_exchange(tx: Any, data: Any) -> Any:
    """Make an exchange; the one that there is, None if this made it (create or get, DB-4)."""
    vhost, path = (*VHOSTS, data["vhost"]), (*EXCHANGES, data["vhost"], data["name"])
    found_or_abort(tx, vhost, "vhost", data["record"]["vhost"])
    made = tx.create(path, data["record"], keep_while=[(vhost, THERE)])
    return tx.value(tx.get(path)) if isinstance(made, Refused) else None


def delete_exchange(tx: Any, data: Any) -> Any:
    """Remove an exchange; whether there was one. Its bindings are kept by it, and go as well."""
    path = (*EXCHANGES, data["vhost"], data["name"])
    if not tx.exists(path):
        return False
    if data["if_unused"] and tx.exists((*BINDINGS, data["vhost"], data["name"])):
        tx.abort([PRECONDITION_FAILED, "exchange", data["raw_name"], "it is in use: it has bindings"])
    tx.delete(path)
    return True


FUNCTIONS: Final = ((DECLARE, declare_exchange), (DELETE, delete_exchange))


async def declare(
    store: MetadataStore,
    vhost: str,
    name: str,
    kind: ExchangeType,
    *,
    durable: bool = True,
    auto_delete: bool = False,
    internal: bool = False,
    arguments: Mapping[str, Any] | None = None,
) -> Exchange:
    """The exchange of that name, made if there is none.

    Raises:
        PreconditionFailedError: there is one that differs, or no such type.
        EntityNotFoundError: there is no such virtual host.
        AccessRefusedError: the name is reserved.
    """
    if kind not in get_args(ExchangeType):
        raise PreconditionFailedError(f"{PRECONDITION_FAILED}: exchange {name!r}: there is no type {kind!r}.")
    record = checked(Exchange(vhost, name, kind, durable, auto_delete, internal, encoded_arguments(arguments or {})))
    _check_name(name)
    data = {"vhost": node_name(vhost), "name": node_name(name), "record": record}
    there = await store.change(DECLARE, data)
    if there is not None:
        check_equivalent("exchange", record, msgspec.convert(there, Exchange))
    return record


async def delete(store: MetadataStore, vhost: str, name: str, *, if_unused: bool = False) -> bool:
    """Remove an exchange with its bindings; whether there was one.

    Raises:
        PreconditionFailedError: it has bindings from it, and `if_unused` was asked for.
        AccessRefusedError: the name is reserved.
    """
    _check_name(name)
    data = {"vhost": node_name(vhost), "name": node_name(name), "raw_name": name, "if_unused": if_unused}
    return await store.change(DELETE, data)


async def find(store: MetadataStore, vhost: str, name: str) -> Exchange | None:
    """The exchange of that name, as the member that is asked holds it."""
    found = await store.records(TABLE, [node_name(vhost), node_name(name)])
    return msgspec.convert(found[0][1], Exchange) if found else None


async def every(store: MetadataStore) -> list[Exchange]:
    """All of them, as the member that is asked holds them."""
    return [msgspec.convert(value, Exchange) for _, value in await store.records(TABLE)]


def _check_name(name: str) -> None:
    if not name or name.startswith(RESERVED):
        raise AccessRefusedError(f"access_refused: exchange {name!r}: the name is reserved.")

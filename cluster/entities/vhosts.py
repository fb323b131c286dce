"""Virtual hosts: each is a space of names of its own, and goes with all that is in it in one command (DB-2)."""

# A transaction reads values of any shape.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from splitbrain.cluster.entities.checking import checked
from splitbrain.cluster.entities.errors import NOT_FOUND, PRECONDITION_FAILED, PreconditionFailedError
from splitbrain.cluster.entities.names import node_name
from splitbrain.cluster.entities.paths import EXCHANGES, THERE, VHOSTS
from splitbrain.cluster.entities.records import Exchange, ExchangeType, Vhost
from splitbrain.cluster.entities.store import MetadataStore, Operation
from splitbrain.cluster.tree import Refused

PUT: Final = Operation("vhost_put", 1)
DELETE: Final = Operation("vhost_delete", 1)
TABLE: Final = "vhosts_v1"

STANDARD_EXCHANGES: Final[tuple[tuple[str, ExchangeType], ...]] = (
    ("amq.direct", "direct"),
    ("amq.fanout", "fanout"),
    ("amq.topic", "topic"),
    ("amq.headers", "headers"),
    ("amq.match", "headers"),
)
"""The exchanges that every virtual host begins with. They are made in the command that makes it."""


def put_vhost(tx: Any, data: Any) -> Any:
    """Make a virtual host with its standard exchanges; the one that there is, None if this made it."""
    path = (*VHOSTS, data["vhost"])
    made = tx.create(path, data["record"])
    if isinstance(made, Refused):
        return tx.value(tx.get(path))
    for name, record in data["exchanges"]:
        tx.create((*EXCHANGES, data["vhost"], name), record, keep_while=[(path, THERE)])
    return None


def delete_vhost(tx: Any, data: Any) -> Any:
    """Remove a virtual host; what belongs to it is kept by it, and goes as well."""
    path = (*VHOSTS, data["vhost"])
    if not tx.exists(path):
        tx.abort([NOT_FOUND, "vhost", data["name"], ""])
    tx.delete(path)
    return None


FUNCTIONS: Final = ((PUT, put_vhost), (DELETE, delete_vhost))


async def declare(store: MetadataStore, name: str, *, description: str = "", tags: Sequence[str] = ()) -> Vhost:
    """The virtual host of that name, made if there is none.

    Raises:
        PreconditionFailedError: there is one with another description or other tags.
    """
    record = checked(Vhost(name, description, tuple(tags)))
    exchanges = [(node_name(each), Exchange(name, each, kind)) for each, kind in STANDARD_EXCHANGES]
    data = {"vhost": node_name(name), "record": record, "exchanges": exchanges}
    there = await store.change(PUT, data)
    if there is not None and msgspec.convert(there, Vhost) != record:
        raise PreconditionFailedError(f"{PRECONDITION_FAILED}: vhost {name!r}: there is one that differs.")
    return record


async def delete(store: MetadataStore, name: str) -> None:
    """Remove a virtual host and all that belongs to it.

    Raises:
        EntityNotFoundError: there is none.
    """
    await store.change(DELETE, {"vhost": node_name(name), "name": name})


async def find(store: MetadataStore, name: str) -> Vhost | None:
    """The virtual host of that name, as the member that is asked holds it."""
    found = await store.records(TABLE, node_name(name))
    return msgspec.convert(found[0][1], Vhost) if found else None


async def every(store: MetadataStore) -> list[Vhost]:
    """All of them, as the member that is asked holds them."""
    return [msgspec.convert(value, Vhost) for _, value in await store.records(TABLE)]

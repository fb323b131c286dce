"""Internal users. Their permissions go with them (DB-2)."""

# A transaction reads values of any shape.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from splitbrain.cluster.entities.checking import checked
from splitbrain.cluster.entities.errors import EXISTS, NOT_FOUND
from splitbrain.cluster.entities.names import node_name
from splitbrain.cluster.entities.paths import USERS
from splitbrain.cluster.entities.records import User
from splitbrain.cluster.entities.store import MetadataStore, Operation
from splitbrain.cluster.tree import Refused

ADD: Final = Operation("user_add", 1)
CHANGE: Final = Operation("user_change", 1)
DELETE: Final = Operation("user_delete", 1)
TABLE: Final = "users_v1"


def add_user(tx: Any, data: Any) -> Any:
    """Make a user."""
    if isinstance(tx.create((*USERS, data["user"]), data["record"]), Refused):
        tx.abort([EXISTS, "user", data["name"], ""])
    return None


def change_user(tx: Any, data: Any) -> Any:
    """Change some fields of a user."""
    path = (*USERS, data["user"])
    found = tx.get(path)
    if isinstance(found, Refused):
        tx.abort([NOT_FOUND, "user", data["name"], ""])
    tx.put(path, {**tx.value(found), **data["fields"]})
    return None


def delete_user(tx: Any, data: Any) -> Any:
    """Remove a user; what the user was permitted is kept by the user's node, and goes as well."""
    path = (*USERS, data["user"])
    if not tx.exists(path):
        tx.abort([NOT_FOUND, "user", data["name"], ""])
    tx.delete(path)
    return None


FUNCTIONS: Final = ((ADD, add_user), (CHANGE, change_user), (DELETE, delete_user))


async def add(store: MetadataStore, name: str, password_hash: str = "", tags: Sequence[str] = ()) -> User:
    """Make a user.

    Raises:
        EntityExistsError: there is one of that name.
    """
    record = checked(User(name, password_hash, tuple(tags)))
    await store.change(ADD, {"user": node_name(name), "name": name, "record": record})
    return record


async def change(
    store: MetadataStore, name: str, *, password_hash: str | None = None, tags: Sequence[str] | None = None
) -> None:
    """Give a user another password or other tags; None leaves what there is.

    Raises:
        EntityNotFoundError: there is no such user.
    """
    checked(User(name, password_hash or "", tuple(tags or ())))
    given = {"password_hash": password_hash, "tags": None if tags is None else list(tags)}
    fields = {field: value for field, value in given.items() if value is not None}
    await store.change(CHANGE, {"user": node_name(name), "name": name, "fields": fields})


async def delete(store: MetadataStore, name: str) -> None:
    """Remove a user and all its permissions.

    Raises:
        EntityNotFoundError: there is no such user.
    """
    await store.change(DELETE, {"user": node_name(name), "name": name})


async def find(store: MetadataStore, name: str) -> User | None:
    """The user of that name, as the member that is asked holds it."""
    found = await store.records(TABLE, node_name(name))
    return msgspec.convert(found[0][1], User) if found else None


async def every(store: MetadataStore) -> list[User]:
    """All of them, as the member that is asked holds them."""
    return [msgspec.convert(value, User) for _, value in await store.records(TABLE)]

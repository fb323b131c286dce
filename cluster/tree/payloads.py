"""What a tree node may hold, and what it looks like from outside."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec


class Procedure(msgspec.Struct, frozen=True, array_like=True, tag="procedure"):
    """A stored procedure: a registered function (`splitbrain.cluster.tree.functions`), by name and version (KH-13).

    Attributes:
        name: of the function.
        version: of the function.
        data: in msgpack, which the function is given.
    """

    name: str
    version: int
    data: bytes = b"\xc0"


Payload: TypeAlias = bytes | Procedure | None
"""Data, which are opaque bytes; a stored procedure; or nothing."""


class NoPayload(msgspec.Struct, frozen=True):
    """What a transaction puts into a node that is to have no payload: None is a value."""


NO_PAYLOAD: Final = NoPayload()


class Properties(msgspec.Struct, frozen=True, array_like=True):
    """What a tree node looks like from outside."""

    payload: Payload
    payload_version: int
    child_list_version: int
    child_list_length: int

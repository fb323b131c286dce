"""One tree node, and its share in the state hash.

The state hash is the sum, modulo 2**128, of a hash for every tree node: it does not depend on any order, and a command
costs as much as the nodes that it touched, in a tree of any size (an incremental multiset hash after Bellare
and Micciancio, 1997).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, TypeAlias

import msgspec

from splitbrain.cluster.tree.messages import Properties
from splitbrain.cluster.tree.paths import Path

HASH_BYTES: Final = 16
HASH_MASK: Final = (1 << (8 * HASH_BYTES)) - 1

_encoder = msgspec.msgpack.Encoder()


class Node:
    """One tree node.

    `hash` is its share of the state hash as it was last counted, `implicit_hash` what comes to that if it is implicit:
    apart, since a projection has the one and not the other.
    """

    __slots__ = (
        "child_list_version",
        "children",
        "hash",
        "implicit_hash",
        "is_watched",
        "path",
        "payload",
        "payload_version",
    )

    def __init__(self, path: Path, payload: bytes | None, *, is_watched: bool, is_implicit: bool = False) -> None:
        self.is_watched = is_watched
        self.implicit_hash = hashed([path, "implicit"]) if is_implicit else 0
        self.path = path
        self.payload = payload
        self.payload_version = 1
        self.child_list_version = 1
        self.children: dict[str, Node] = {}
        self.hash = 0

    def properties(self) -> Properties:
        """What it looks like from outside."""
        return Properties(self.payload, self.payload_version, self.child_list_version, len(self.children))

    @property
    def is_implicit(self) -> bool:
        """Whether it is there for its children only."""
        return bool(self.implicit_hash)


Content: TypeAlias = tuple[Path, bytes | None, int, int]
"""What is hashed of a node, and dumped: its path, payload, payload version and child list version.

Behind that a dump has True for a node that is implicit.
"""


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """A node as a dump has it."""

    path: Path
    payload: bytes | None
    payload_version: int
    child_list_version: int
    is_implicit: bool = False


_dump_decoder = msgspec.msgpack.Decoder(list[Kept])


def kept_in(dump: bytes) -> list[Kept]:
    """The nodes of a dump.

    Raises:
        msgspec.DecodeError: these bytes are no dump (msgspec.ValidationError is one).
    """
    return _dump_decoder.decode(dump)


def share(content: Content) -> int:
    """The share in the state hash of a node with this content."""
    return hashed(content)


def hashed(content: object) -> int:
    """A hash of what msgpack can carry, below 2**128."""
    return int.from_bytes(blake2b(_encoder.encode(content), digest_size=HASH_BYTES).digest(), "big")


def content_of(node: Node) -> Content:
    """What is hashed of a node."""
    return node.path, node.payload, node.payload_version, node.child_list_version

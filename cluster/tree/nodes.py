"""One tree node, and its share in the state hash.

The state hash is the sum, modulo 2**128, of a hash for every tree node: it does not depend on any order, and a command
costs as much as the nodes that it touched, in a tree of any size (an incremental multiset hash after Bellare
and Micciancio, 1997).
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias

import msgspec

from splitbrain.cluster.tree.messages import KeepWhile
from splitbrain.cluster.tree.paths import Path
from splitbrain.cluster.tree.payloads import Payload, Properties

HASH_BYTES: Final = 16
HASH_MASK: Final = (1 << (8 * HASH_BYTES)) - 1

_encoder = msgspec.msgpack.Encoder()


class Before(NamedTuple):
    """What a node was before a command touched it."""

    payload: Payload
    payload_version: int
    child_list_version: int
    child_list_length: int
    is_implicit: bool
    keep_while: tuple[KeepWhile, ...]

    def properties(self) -> Properties:
        """What it looked like from outside."""
        return Properties(self.payload, self.payload_version, self.child_list_version, self.child_list_length)


class Node:
    """One tree node.

    `hash` is its share of the state hash as it was last counted, `kept_hash` what comes to that by what keeps it:
    apart, since a projection has the one and not the other.
    """

    __slots__ = (
        "child_list_version",
        "children",
        "hash",
        "is_implicit",
        "is_watched",
        "keep_while",
        "kept_hash",
        "path",
        "payload",
        "payload_version",
    )

    def __init__(self, path: Path, payload: Payload, *, is_watched: bool, is_implicit: bool = False) -> None:
        self.is_watched = is_watched
        self.is_implicit = is_implicit
        self.keep_while: tuple[KeepWhile, ...] = ()
        self.kept_hash = hashed([path, "implicit"]) if is_implicit else 0
        self.path = path
        self.payload: Payload = payload
        self.payload_version = 1
        self.child_list_version = 1
        self.children: dict[str, Node] = {}
        self.hash = 0

    def properties(self) -> Properties:
        """What it looks like from outside."""
        return Properties(self.payload, self.payload_version, self.child_list_version, len(self.children))

    def as_it_is(self) -> Before:
        """What it is now, to be remembered."""
        return Before(
            self.payload,
            self.payload_version,
            self.child_list_version,
            len(self.children),
            self.is_implicit,
            self.keep_while,
        )

    @property
    def is_needless(self) -> bool:
        """Whether it is there for its children only, and has none (D14)."""
        return self.is_implicit and not self.children and self.payload is None


Content: TypeAlias = tuple[Path, Payload, int, int]
"""What is hashed of a node, and dumped: its path, payload, payload version and child list version.

Behind that a dump has True for a node that is implicit, and False and its conditions for one that has any.
"""


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """A node as a dump has it."""

    path: Path
    payload: Payload
    payload_version: int
    child_list_version: int
    is_implicit: bool = False
    keep_while: tuple[KeepWhile, ...] = ()


_dump_decoder = msgspec.msgpack.Decoder(list[msgspec.Raw])
_kept_decoder = msgspec.msgpack.Decoder(Kept)


def kept_in(dump: bytes) -> Iterator[Kept]:
    """The nodes of a dump, each decoded in its turn: a million at once would take more than a second.

    Raises:
        msgspec.DecodeError: these bytes are no dump (msgspec.ValidationError is one).
    """
    return map(_kept_decoder.decode, _dump_decoder.decode(dump))


def dumped(node: Node) -> tuple[object, ...]:
    """A node as a dump has it."""
    content = content_of(node)
    if node.is_implicit:
        return (*content, True)
    return (*content, False, node.keep_while) if node.keep_while else content


def share(content: Content) -> int:
    """The share in the state hash of a node with this content."""
    return hashed(content)


def kept_share(path: Path, keep_while: tuple[KeepWhile, ...], *, is_implicit: bool) -> int:
    """What comes to a node's share by what keeps it."""
    if is_implicit:
        return hashed([path, "implicit"])
    return hashed([path, "keep_while", keep_while]) if keep_while else 0


def hashed(content: object) -> int:
    """A hash of what msgpack can carry, below 2**128."""
    return int.from_bytes(blake2b(_encoder.encode(content), digest_size=HASH_BYTES).digest(), "big")


def content_of(node: Node) -> Content:
    """What is hashed of a node."""
    return node.path, node.payload, node.payload_version, node.child_list_version

"""What the metadata say of classic queues: a record for each.

    /classic_queues/NAME    the record

A queue that is declared again after it was deleted has another id, and so files of other names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias, TypeVar

import msgspec

from splitbrain.cluster.commands import decode_value
from splitbrain.cluster.tree import Children, Names, Path, Tree

Version: TypeAlias = Literal[1, 2]
"""Of records, as `splitbrain.cluster.classic` has them: only nodes that hold a queue load that, and numpy with it."""

PATH: Final[Path] = ("classic_queues",)

DEAD_LETTER_TO: Final = "dead-letter-to"
"""The setting of policies that names the queue for dead letters; a queue's own declaration counts before it."""

MAX_QUEUES: Final = 1000
"""They are looked at with each batch of entries of the metadata."""

_ID: Final = re.compile("[0-9a-f]{16}")


class ClassicRecord(msgspec.Struct, frozen=True):
    """A classic queue, as it was declared.

    Attributes:
        id: 16 hexadecimal digits, which no other queue has or will have: its files are named by it.
        member: id of the member that holds it.
        delivery_limit: how often a message may be delivered again, None for any number of times.
        version: of the records of its files: with 2 all that are of version 1 are converted.
        dead_letter_to: name of the queue that gets dead letters, None to leave that to policies.
    """

    id: str
    member: str
    delivery_limit: int | None = None
    version: Version = 1
    dead_letter_to: str | None = None

    def __post_init__(self) -> None:
        """Refuse an id that cannot be part of the name of a file."""
        if not _ID.fullmatch(self.id):
            raise ValueError(f"a classic queue has an id of 16 hexadecimal digits, not {self.id!r}")


T = TypeVar("T")

Seen = tuple[int, tuple[tuple[str, int], ...]]
"""By what it is known whether any record changed."""


def seen_in(tree: Tree, path: Path = PATH) -> Seen | None:
    """What differs whenever a record below a path was made, changed or removed; None without any."""
    above = tree.properties(path)
    if above is None:
        return None
    versions = [
        (name, found.payload_version) for name in _names(tree, path) if (found := tree.properties((*path, name)))
    ]
    return above.child_list_version, tuple(versions)


def records_in(tree: Tree) -> Iterator[tuple[str, ClassicRecord]]:
    """All queues by name; what makes no sense as a record is none, as clients may write anything there."""
    return converted_in(tree, PATH, ClassicRecord)


def converted_in(tree: Tree, path: Path, kind: type[T]) -> Iterator[tuple[str, T]]:
    """What is below a path, by name; what makes no sense as such a record is left out."""
    for name in _names(tree, path):
        found = tree.properties((*path, name))
        if found is not None and isinstance(found.payload, bytes):
            try:
                yield name, msgspec.convert(decode_value(found.payload), kind)
            except msgspec.ValidationError:
                continue


def _names(tree: Tree, path: Path) -> tuple[str, ...]:
    found = tree.query(Children(path))
    return tuple(found.names)[:MAX_QUEUES] if isinstance(found, Names) else ()

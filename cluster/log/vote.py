"""The term of a group and its vote in it: a file that is replaced as a whole, before anything else goes on (RA-6).

name     := "vote-" uid                                    8 hexadecimal digits
file     := "SBVT" version:u32 checksum:u32 body           CRC-32 of the body
body     := a MessagePack map (`Vote`), with `uid`, with `installed`: the entry of the last snapshot that was taken
            over from another member, and with `number`, which rises in a node with all that its groups save
"""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from splitbrain.cluster.log.damage import corrupt
from splitbrain.cluster.log.whole import Form
from splitbrain.cluster.runtime import Disk

PREFIX: Final = "vote-"
_FORM: Final = Form(b"SBVT", 1)


class Readable(Protocol):
    """The part of a `Disk` that reads a file."""

    def read(self, name: str) -> bytes | None:
        """The content of a file, None if there is none."""
        ...


class Vote(msgspec.Struct, frozen=True):
    """A term, 0 before the first one, and the member that this one voted for in it, None if it has not voted."""

    term: int = 0
    voted_for: str | None = None


class Stored(Vote, frozen=True):
    """Term and vote, and what is saved with them.

    Attributes:
        uid: of the group.
        installed: the entry of the last snapshot that it took over from another member, 0 if there was none.
        number: of two that one group saved, the one with the higher number is the later one.
    """

    uid: int = 0
    installed: int = 0
    number: int = 0


async def write_stored(disk: Disk, stored: Stored) -> None:
    """Make term and vote of a group durable in its own file, and what is saved with them.

    Raises:
        OSError: it is not known what is durable; the node must stop.
    """
    await disk.replace(name_of(stored.uid), _FORM.encode(stored))


def read_stored(disk: Readable, uid: int) -> Stored:
    """What the own file of a group says.

    Raises:
        CorruptStorageError: they are damaged or gone.
        StorageError: the file is of another version.
        OSError: the disk failed.
    """
    name = name_of(uid)
    content = disk.read(name)
    if content is None:
        raise corrupt(name, 0, "term and vote are gone")
    stored = _FORM.decode(content, name, Stored)
    if stored.uid != uid:
        raise corrupt(name, 0, f"the file is that of group {stored.uid}: it was renamed")
    return stored


def name_of(uid: int) -> str:
    """The name of the file of a group."""
    return f"{PREFIX}{uid:08x}"

"""The term of a group and its vote in it: a file that is replaced as a whole, before anything else goes on (RA-6).

name     := "vote-" uid                                    8 hexadecimal digits
file     := "SBVT" version:u32 checksum:u32 body           CRC-32 of the body
body     := a MessagePack map (`Vote`), with `uid`, and with `installed`: the entry of the last snapshot that was taken
            over from another member
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


class _Stored(Vote, frozen=True):
    uid: int = 0
    installed: int = 0


async def write_vote(disk: Disk, uid: int, vote: Vote, installed: int = 0) -> None:
    """Make term and vote of a group durable, and the entry of the last snapshot that it took over.

    Raises:
        OSError: it is not known what is durable; the node must stop.
    """
    await disk.replace(name_of(uid), _FORM.encode(_Stored(vote.term, vote.voted_for, uid, installed)))


def read_vote(disk: Readable, uid: int) -> tuple[Vote, int]:
    """Term and vote of a group, and the entry of the last snapshot that it took over, 0 if there was none.

    Raises:
        CorruptStorageError: they are damaged or gone.
        StorageError: the file is of another version.
        OSError: the disk failed.
    """
    name = name_of(uid)
    content = disk.read(name)
    if content is None:
        raise corrupt(name, 0, "term and vote are gone")
    stored = _FORM.decode(content, name, _Stored)
    if stored.uid != uid:
        raise corrupt(name, 0, f"the file is that of group {stored.uid}: it was renamed")
    return Vote(stored.term, stored.voted_for), stored.installed


def name_of(uid: int) -> str:
    """The name of the file of a group."""
    return f"{PREFIX}{uid:08x}"

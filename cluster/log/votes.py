"""Terms and votes of all groups of a node: those that are to be saved while another is written share a file.

Each group has a file of its own (`splitbrain.cluster.log.vote`), and one whose turn it is alone writes that. After a
silence many groups stand for election, or are asked for their votes, at once. On a slow disk one file after the other
would take longer than an election. So what came while a file was written goes into one file, `votes`, in one piece:
a group commit. What a group saved last counts, wherever it is: what is saved has numbers, which rise in a node.

name     := "votes"
file     := "SBVS" version:u32 checksum:u32 body           CRC-32 of the body
body     := a MessagePack map: "groups", from uids to what their own files would say
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec

from splitbrain.cluster.log.damage import corrupt
from splitbrain.cluster.log.vote import Readable, Stored, Vote, read_stored, write_stored
from splitbrain.cluster.log.whole import Form
from splitbrain.cluster.runtime import Disk

VOTES: Final = "votes"
_FORM: Final = Form(b"SBVS", 1)


class VotesFile(msgspec.Struct, frozen=True):
    """What the file `votes` says: what groups saved together, by uid. Their own files may say something later."""

    groups: dict[int, Stored] = {}


def decode_votes(content: bytes) -> VotesFile:
    """What the file `votes` says.

    Raises:
        CorruptStorageError: it is damaged.
        StorageError: it is of another version.
    """
    return _FORM.decode(content, VOTES, VotesFile)


def read_votes(disk: Readable, *, required: bool) -> Mapping[int, Stored]:
    """What groups saved together.

    Args:
        disk: of the node.
        required: whether the node has written that file before.

    Raises:
        CorruptStorageError: it is damaged, or gone.
        StorageError: it is of another version.
        OSError: the disk failed.
    """
    content = disk.read(VOTES)
    if content is None:
        if required:
            raise corrupt(VOTES, 0, "terms and votes are gone")
        return {}
    return decode_votes(content).groups


def last_saved(disk: Readable, uid: int, together: Mapping[int, Stored]) -> Stored:
    """What a group saved last, alone or together with others.

    Raises:
        CorruptStorageError: its own file is damaged or gone.
        StorageError: it is of another version.
        OSError: the disk failed.
    """
    own, other = read_stored(disk, uid), together.get(uid)
    return own if other is None or own.number >= other.number else other


class Votes:
    """Saves terms and votes of the groups of one node.

    Args:
        disk: of the node.
        together: what the file `votes` says (`read_votes`).
        number: the highest one that was found on the disk.
        shares: called after the file `votes` was written; it makes durable that there is one.
    """

    def __init__(
        self, disk: Disk, together: Mapping[int, Stored], number: int, shares: Callable[[], Awaitable[None]]
    ) -> None:
        self._disk = disk
        self._together = dict(together)
        self._number = number
        self._shares = shares
        self._is_writing = False
        self._waiting: list[tuple[Stored, asyncio.Future[bool]]] = []

    def next_number(self) -> int:
        """The number of what is saved next."""
        self._number += 1
        return self._number

    def forget(self, uid: int) -> None:
        """Keep nothing of a group that was deleted. Its uid is not used again."""
        self._together.pop(uid, None)

    async def save(self, uid: int, vote: Vote, installed: int) -> None:
        """Make term and vote of a group durable, and the entry of the last snapshot that it took over.

        Raises:
            OSError: it is not known what is durable; the node must stop.
        """
        stored = Stored(vote.term, vote.voted_for, uid, installed, self.next_number())
        if self._is_writing:
            turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self._waiting.append((stored, turn))
            if not await turn:
                return  # the first of those that waited has written it
            others, self._waiting = self._waiting[1:], []
        else:
            others = []
        self._is_writing = True
        try:
            await self._write([stored, *(waiting for waiting, _ in others)])
        except BaseException as error:
            for _, turn in others:
                _fail(turn, error)
            raise
        finally:
            self._hand_on()
        for _, turn in others:
            if not turn.done():
                turn.set_result(False)

    def _hand_on(self) -> None:
        """Give the turn to the first that waits, for all that wait then; those that were cancelled wait no more."""
        self._waiting = [(stored, turn) for stored, turn in self._waiting if not turn.done()]
        self._is_writing = bool(self._waiting)
        if self._waiting:
            self._waiting[0][1].set_result(True)

    async def _write(self, batch: list[Stored]) -> None:
        if len(batch) == 1:
            await write_stored(self._disk, batch[0])
            return
        self._together |= {stored.uid: stored for stored in batch}
        await self._disk.replace(VOTES, _FORM.encode(VotesFile(self._together)))
        await self._shares()


def _fail(turn: asyncio.Future[bool], error: BaseException) -> None:
    if turn.done():
        return
    if isinstance(error, Exception):
        turn.set_exception(error)
    else:
        turn.cancel()

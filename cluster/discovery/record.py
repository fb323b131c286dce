"""What a node keeps on disk while its cluster forms: its vote, whether it founded the cluster, and whom it joined.

A vote is durable before it is given, and a node that founds a cluster writes that down first. So a restart neither
gives a vote twice nor forgets a cluster (D20).
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from splitbrain.cluster.discovery.messages import AskVote, Ballot
from splitbrain.cluster.discovery.seen import Peer
from splitbrain.cluster.errors import CorruptStorageError
from splitbrain.cluster.runtime import Disk, Rng

FILE: Final = "formation.json"
_NOT_DATA: Final = (FILE, "telemetry.jsonl")
_IDENTITY_MAX: Final = 2**62


class Record(msgspec.Struct, frozen=True):
    """The content of the file.

    Attributes:
        identity: of this directory, drawn when it was first used.
        vote: the candidacy for which the node has given its vote; None if for none.
        founded: whether the node founded a cluster.
        joined: names of the founders of the cluster that it joined, or began to join.
        addresses: of the nodes that it knows.
        was_used: whether the directory was used by a node without peer discovery, before this file was made.
    """

    identity: str
    vote: Ballot | None = None
    founded: bool = False
    joined: tuple[str, ...] = ()
    addresses: tuple[Peer, ...] = ()
    was_used: bool = False


class Kept:
    """The file of one node. Open it with `open_record`.

    Attributes:
        record: its content, as it will be once what was begun is written.
    """

    def __init__(self, disk: Disk, record: Record) -> None:
        self._disk = disk
        self._writing = asyncio.Lock()
        self.record = record

    @property
    def may_found(self) -> bool:
        """Whether the node neither founded a cluster nor began to join one, nor has data older than this file."""
        return not self.record.founded and not self.record.joined and not self.record.was_used

    def refusal(self, asked: AskVote, node: str, nodes: int) -> str | None:
        """Why the node does not give its vote, a clause; None if it may."""
        vote = self.record.vote
        if asked.nodes != nodes:
            return f"{node} was started for a cluster of {nodes} nodes, and {asked.ballot.node} for {asked.nodes}"
        if not self.may_found:
            return f"{node} is in a cluster, or joins one"
        if vote is not None and vote.identity != asked.ballot.identity:
            if vote.node == asked.ballot.node:
                return f"{node} has given its vote to {vote.node}, which has lost its data since"
            return f"{node} has given its vote to {vote.node}"
        return None

    async def vote(self, ballot: Ballot) -> None:
        """Give the vote; durable when this returns."""
        await self._change(msgspec.structs.replace(self.record, vote=ballot))

    async def take_back(self, ballot: Ballot) -> None:
        """The candidate of this candidacy does not need the vote any more; that of another one stays."""
        if self.record.vote == ballot:
            await self._change(msgspec.structs.replace(self.record, vote=None))

    async def found(self) -> None:
        """This node founds a cluster; durable when this returns."""
        await self._change(msgspec.structs.replace(self.record, founded=True))

    async def join(self, founders: tuple[str, ...]) -> None:
        """This node begins to join the cluster of these founders; durable when this returns."""
        await self._change(msgspec.structs.replace(self.record, joined=founders))

    def know(self, addresses: tuple[Peer, ...]) -> None:
        """These are the nodes that this one knows; durable with the next change, or once `write` has returned."""
        self.record = msgspec.structs.replace(self.record, addresses=addresses)

    async def _change(self, record: Record) -> None:
        self.record = record
        await self.write()

    async def write(self) -> None:
        """Make the record durable as it is now."""
        async with self._writing:
            await self._disk.replace(FILE, msgspec.json.encode(self.record))


async def open_record(disk: Disk, rng: Rng) -> Kept:
    """The file of a node, which is made if it is missing.

    Raises:
        CorruptStorageError: it cannot be read.
        OSError: the disk failed.
    """
    content = disk.read(FILE)
    if content is None:
        was_used = any(name not in _NOT_DATA for name in disk.names())
        kept = Kept(disk, Record(f"{rng.between(0, _IDENTITY_MAX):016x}", was_used=was_used))
        await kept.write()  # at once: later the file itself would be what shows that there were none
        return kept
    try:
        return Kept(disk, msgspec.json.decode(content, type=Record))
    except msgspec.DecodeError as error:
        raise CorruptStorageError(
            f"{FILE}: it is damaged ({error}). It holds this node's vote. If the node was in a cluster, restore the "
            f"file; if there never was a cluster, begin with an empty directory.",
            FILE,
            0,
            str(error),
        ) from error

"""What a node keeps on disk: its tables at some moment, and a journal of what was committed since.

    tables        := version:u8 checksum:u32 body          of the body: CRC-32; numbers are little endian
    body          := msgpack of `Whole`
    journal-<n>   := record*                               n: the generation that `tables` names; others do not count
    record        := length:u32 checksum:u32 msgpack       of a `Committed` or an `Active`; CRC-32 of length and msgpack

`tables` is replaced as a whole: at each start, when the journal has become long, and when a node copies the tables of
another one. Each time a new journal begins, and what is written to it is not acknowledged before `tables` names it.

A damaged record ends the journal: what a crash left half written cannot be told from other damage. That is no
promise broken: a node that starts takes over the tables of a running one, and MN-9 holds.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias
from zlib import crc32

import msgspec

from splitbrain.cluster.errors import CorruptStorageError, WrongNodeError
from splitbrain.cluster.runtime import Disk, File
from splitbrain.cluster.tables.records import Change, Contents, Tables

VERSION: Final = 1
WHOLE: Final = "tables"
MAX_BYTES: Final = 4 * 1024 * 1024
"""A longer journal is replaced."""

_FRAME: Final = struct.Struct("<II")
_HEAD: Final = struct.Struct("<BI")


class Whole(msgspec.Struct, frozen=True, array_like=True):
    """All that a node held at some moment.

    Attributes:
        node: its name.
        generation: the number of the journal that goes on from here.
        contents: the tables.
        active: the replicas that were up; none before the node first served.
    """

    node: str
    generation: int
    contents: Contents
    active: tuple[str, ...]


class Committed(msgspec.Struct, frozen=True, array_like=True, tag="committed"):
    """The changes of one transaction."""

    changes: tuple[Change, ...]


class Active(msgspec.Struct, frozen=True, array_like=True, tag="active"):
    """The replicas that were up from then on."""

    nodes: tuple[str, ...]


Record: TypeAlias = Committed | Active

_encoder = msgspec.msgpack.Encoder()
_whole_decoder = msgspec.msgpack.Decoder(Whole)
_record_decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Committed | Active)


def encode_record(record: Record) -> bytes:
    """A record as the journal has it."""
    body = _encoder.encode(record)
    length = len(body).to_bytes(4, "little")
    return _FRAME.pack(len(body), crc32(length + body)) + body


def decode_records(data: bytes) -> list[Record]:
    """The records of a journal, up to the first one that is damaged or cut short."""
    records: list[Record] = []
    at = 0
    while at + _FRAME.size <= len(data):
        length, checksum = _FRAME.unpack_from(data, at)
        body = data[at + _FRAME.size : at + _FRAME.size + length]
        if len(body) < length or crc32(length.to_bytes(4, "little") + body) != checksum:
            break
        records.append(_record_decoder.decode(body))
        at += _FRAME.size + length
    return records


def encode_whole(whole: Whole) -> bytes:
    """The file `tables`."""
    body = _encoder.encode(whole)
    return _HEAD.pack(VERSION, crc32(body)) + body


def decode_whole(data: bytes) -> Whole:
    """What the file `tables` says.

    Raises:
        CorruptStorageError: it is damaged, or of a later version.
    """
    if len(data) < _HEAD.size or data[0] != VERSION:
        raise CorruptStorageError(f"{WHOLE}: it is of no version that this program reads: remove the data, or upgrade.")
    body = data[_HEAD.size :]
    if crc32(body) != _HEAD.unpack_from(data)[1]:
        raise CorruptStorageError(f"{WHOLE} is damaged: remove the data of this node; it copies those of another one.")
    return _whole_decoder.decode(body)


class Recovered(NamedTuple):
    """What was on disk."""

    contents: Contents
    active: tuple[str, ...]


class _Waiting(NamedTuple):
    position: int
    done: Callable[[], None]


class Journal:
    """The files of a running node. Opened by `open_journal`.

    What is appended is durable once what was given to `when_durable` after it is called; `sync` does the work.
    """

    def __init__(self, disk: Disk, node: str, generation: int, tables: Tables, active: tuple[str, ...]) -> None:
        self._disk = disk
        self._node = node
        self._generation = generation
        self._tables = tables
        self._active = active
        self._file: File = disk.open(_name(generation))
        self._former: list[File] = []
        self._bytes = 0
        self._appended = 0
        self._whole: Whole | None = None
        self._waiting: list[_Waiting] = []
        self._wake: asyncio.Future[None] | None = None

    def append(self, record: Record) -> None:
        """Append a record."""
        match record:
            case Committed(changes):
                self._tables.apply(changes)
            case Active(nodes):
                self._active = nodes
        data = encode_record(record)
        self._file.append(data)
        self._bytes += len(data)
        self._appended += 1
        if self._bytes > MAX_BYTES:
            self._begin()
        self._woken()

    def replace(self, contents: Contents, active: tuple[str, ...]) -> None:
        """Forget everything, and hold this."""
        self._tables, self._active = Tables(contents), active
        self._appended += 1
        self._begin()
        self._woken()

    def when_durable(self, done: Callable[[], None]) -> None:
        """Call `done` once everything that was appended until now is durable."""
        self._waiting.append(_Waiting(self._appended, done))
        self._woken()

    async def sync(self) -> None:
        """For ever: make durable what was appended.

        Raises:
            OSError: it is not known what is durable; the node must stop.
        """
        while True:
            if not self._waiting and self._whole is None:
                self._wake = asyncio.get_running_loop().create_future()
                await self._wake
            position, whole, file = self._appended, self._whole, self._file
            if whole is not None:
                await self._write_whole(whole)
            await file.sync()
            # What is in the new file counts only once `tables` names it: all of it may have been replaced meanwhile.
            if self._file is file:
                due = [each for each in self._waiting if each.position <= position]
                self._waiting = [each for each in self._waiting if each.position > position]
                for each in due:
                    each.done()

    def _begin(self) -> None:
        self._generation += 1
        self._former.append(self._file)  # it may be being synced
        self._file = self._disk.open(_name(self._generation))
        self._bytes = 0
        self._whole = Whole(self._node, self._generation, self._tables.contents(), self._active)

    async def _write_whole(self, whole: Whole) -> None:
        await self._disk.replace(WHOLE, encode_whole(whole))
        while self._former:
            self._former.pop().close()
        if self._whole is whole:
            self._whole = None
        for name in self._disk.names():
            if name.startswith(_PREFIX) and int(name[len(_PREFIX) :]) < whole.generation:
                self._disk.remove(name)
        await self._disk.sync_names()

    def _woken(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


_PREFIX: Final = "journal-"


def _name(generation: int) -> str:
    return f"{_PREFIX}{generation}"


async def open_journal(disk: Disk, node: str) -> tuple[Recovered, Journal]:
    """What is on disk, and a new journal behind it.

    Raises:
        WrongNodeError: the data are those of another node.
        CorruptStorageError: they are damaged.
        OSError: the disk failed.
    """
    recovered, generation = recover(disk, node)
    generation += 1
    await disk.replace(WHOLE, encode_whole(Whole(node, generation, recovered.contents, recovered.active)))
    for name in disk.names():
        if name.startswith(_PREFIX):
            disk.remove(name)
    journal = Journal(disk, node, generation, Tables(recovered.contents), recovered.active)
    await disk.sync_names()
    return recovered, journal


def recover(disk: Disk, node: str) -> tuple[Recovered, int]:
    """What is on disk, and the generation of its journal; errors as of `open_journal`."""
    data = disk.read(WHOLE)
    if data is None:
        return Recovered({}, ()), 0
    whole = decode_whole(data)
    if whole.node != node:
        raise WrongNodeError(f"the data are those of {whole.node}, not of {node}: start {whole.node} with them.")
    tables, active = Tables(whole.contents), whole.active
    records: Sequence[Record] = decode_records(disk.read(_name(whole.generation)) or b"")
    for record in records:
        match record:
            case Committed(changes):
                tables.apply(changes)
            case Active(nodes):
                active = nodes
    return Recovered(tables.contents(), active), whole.generation

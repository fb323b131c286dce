"""How an index is found on disk: what a clean stop, a kill or a loss of power at any moment left of it.

The journal is the root. Its manifest says how far each segment is durable. What is behind that is the rest of a flush
that did not finish, and is cut off; its entries are in the journal. A segment whose serial is that of the journal was
made anew meanwhile (a conversion), is whole, and says the same. A segment that the manifest does not name is removed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from zlib import crc32

from splitbrain.cluster.classic import entries, journal, segments
from splitbrain.cluster.classic.damage import corrupt
from splitbrain.cluster.classic.framing import Header, decode_header
from splitbrain.cluster.classic.journal import JournalContent, Manifest, Row
from splitbrain.cluster.classic.records import Version
from splitbrain.cluster.classic.segments import ACKED, Segment
from splitbrain.cluster.classic.state import Held, IndexState
from splitbrain.cluster.errors import UnknownMessageError
from splitbrain.cluster.runtime import Disk

Log = Callable[[str], None]


class Recovered(NamedTuple):
    """An index as it was found.

    Attributes:
        state: of its messages.
        serial: of the journal, 0 where there was none of ours: one must be made.
        version: of the journal.
        size: bytes of the journal that are whole.
        marked: whether the journal ends with a mark.
        entries: how many the journal has.
    """

    state: IndexState
    serial: int
    version: Version
    size: int
    marked: bool
    entries: int


async def recover(disk: Disk, log: Log) -> Recovered:
    """Read an index; files are cut to what is whole, and durable as they were read.

    Raises:
        CorruptStorageError: something that had been made durable is damaged or gone.
        StorageError: a file is of a later version.
        OSError: the disk failed.
    """
    content = disk.read(journal.NAME)
    header = None if content is None else decode_header(content, journal.NAME, journal.MAGIC)
    if content is None or header is None:
        return _recover_original(disk, content or b"", log)
    found = journal.decode(content, header)
    state = IndexState(found.manifest.next_seq)
    for row in found.manifest.rows:
        state.add(row.number, await _open_segment(disk, row, header.serial, log))
    _remove_others(disk, found.manifest, header.serial, log)
    _replay(state, found)
    if found.size < len(content):
        log(f"{journal.NAME}: cut off {len(content) - found.size} bytes of an unfinished write at byte {found.size}")
        await _cut(disk, journal.NAME, found.size)
    return Recovered(state, header.serial, header.version, found.size, found.marked, len(found.entries))


def _replay(state: IndexState, found: JournalContent) -> None:
    for entry in found.entries:
        try:
            state.replay(entry)
        except UnknownMessageError as error:
            raise corrupt(journal.NAME, entry.at, f"an entry contradicts what is before it: {error}") from error


async def _cut(disk: Disk, name: str, size: int) -> None:
    file = disk.open(name)
    try:
        file.truncate(size)
        await file.sync()
    finally:
        file.close()


# --- segments ---------------------------------------------------------------------------------------------------------


async def _open_segment(disk: Disk, row: Row, serial: int, log: Log) -> Held:
    name = segments.name_of(row.number)
    content = disk.read(name)
    if content is None:
        raise corrupt(name, 0, "the file is gone")
    header = decode_header(content, name, segments.MAGIC)
    if header is None:
        return _held(row, _known_original(content, name, row))
    row = _row_of(header, name, row, serial)
    segment = segments.decode(content, name, header, row.length)
    if row.length < len(content):
        log(f"{name}: cut off {len(content) - row.length} bytes of an unfinished flush at byte {row.length}")
        await _cut(disk, name, row.length)
    return _held(row, segment)


def _row_of(header: Header, name: str, row: Row, serial: int) -> Row:
    """What is durable of a file of ours."""
    if header.number != row.number:
        raise corrupt(name, 0, f"the file says that it is segment {header.number}: it was renamed")
    if header.serial == serial:
        # It was made anew under this journal: what is behind its beginning is of a flush that did not finish.
        return Row(row.number, serial, header.version, header.base)
    if header.serial == row.serial:
        return row
    raise corrupt(name, 0, f"the file is of journal {header.serial}, and was one of journal {row.serial}")


def _known_original(content: bytes, name: str, row: Row) -> Segment:
    if row.serial or len(content) != row.length or crc32(content) != row.checksum:
        raise corrupt(name, 0, f"the file is not the one of {row.length} bytes that it was")
    return segments.decode_original(content, name)[0]


def _held(row: Row, segment: Segment) -> Held:
    unacked = int(((segment.status > 0) & (segment.status < ACKED)).sum())
    return Held(row, segment.status, unacked, segment.updates)


def _remove_others(disk: Disk, manifest: Manifest, serial: int, log: Log) -> None:
    """Remove segments that the manifest does not name: of an unfinished flush, or that were to be removed."""
    named = {row.number for row in manifest.rows}
    for name in disk.names():
        number = segments.number_of(name)
        if number is not None and number not in named:
            log(f"{name}: removed; the journal {serial} does not name it")
            disk.remove(name)


# --- an index of RabbitMQ ---------------------------------------------------------------------------------------------


def _recover_original(disk: Disk, content: bytes, log: Log) -> Recovered:
    """An index without a journal of ours: a new one, or one of RabbitMQ.

    Raises:
        CorruptStorageError: there are segments of ours, which have a journal.
    """
    state = IndexState()
    numbers = sorted(number for name in disk.names() if (number := segments.number_of(name)) is not None)
    for number in numbers:
        name = segments.name_of(number)
        if number > segments.MAX_NUMBER:
            raise corrupt(name, 0, "no segment has this number, as no sequence id is so high")
        found = disk.read(name) or b""
        if decode_header(found, name, segments.MAGIC) is not None:
            raise corrupt(journal.NAME, 0, f"the journal is gone, or its beginning is damaged: {name} had one")
        segment, torn = segments.decode_original(found, name)
        if torn:
            log(f"{name}: the last {torn} bytes are no whole record, and do not count")
        state.add(number, _held(Row(number, 0, 1, len(found), crc32(found)), segment))
    known, end = entries.decode_original(content)
    if end < len(content):
        log(f"{journal.NAME}: the last {len(content) - end} bytes are no whole entry, and do not count")
    for entry in known:
        state.replay_original(entry)
    return Recovered(state, 0, 1, 0, marked=True, entries=0)

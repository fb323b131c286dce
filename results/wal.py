"""The write-ahead file of a running test: its history, safe from a crash of the controller up to the last flush.

    file    = magic, format version (u32), frame...
    frame   = length (u32), CRC-32 of the payload (u32), payload
    payload = MessagePack array of ops, written by one flush
    footer  = the frame that ends a file whose controller came to its end: length 0xFFFFFFFF, CRC-32 of the payload,
              payload = the number of ops (u64)

All integers are little-endian, except those of MessagePack. Flushing hands the bytes to the operating system: they
survive the death of this process by any signal. Only `close` waits until the disk has them.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import Final

import msgspec

from splitbrain.results.errors import HarnessError, HistoryFormatError, StoreVersionError
from splitbrain.results.history import Op
from splitbrain.results.plainfile import refuse_others
from splitbrain.results.quantities import counted
from splitbrain.results.values import NOT_JSON, refuse_not_finite

MAGIC: Final = b"SBHIST\r\n"
VERSION: Final = 1

_HEADER: Final = struct.Struct("<8sI")
_FRAME: Final = struct.Struct("<II")
_COUNT: Final = struct.Struct("<Q")
_FOOTER: Final = 0xFFFFFFFF
_ARRAY: Final = struct.Struct(">BI")
_ARRAY32: Final = 0xDD
_EMPTY: Final = bytes(_FRAME.size + _ARRAY.size)
_FRAME_LIMIT_BYTES: Final = 1 << 30


class HistoryWriter:
    """Appends ops to a write-ahead file. `record` only encodes; `flush` writes: call it at least twice a second."""

    def __init__(self, path: Path) -> None:
        """Create the file.

        Raises:
            HarnessError: it exists, or cannot be created.
        """
        self._path = path
        self._recorded = 0
        self._pending = 0
        self._buffer = bytearray(_EMPTY)
        self._encode_into = msgspec.msgpack.Encoder().encode_into
        try:
            self._descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise HarnessError(f"cannot create the history {path}: {error.strerror}.") from error
        self._closed = False
        self._size = 0
        self._append(_HEADER.pack(MAGIC, VERSION))

    @property
    def recorded(self) -> int:
        """How many rows of the history were recorded so far."""
        return self._recorded + self._pending

    def record(self, op: Op) -> None:
        """Add an op to the history; it is in the file after the next `flush`.

        Raises:
            HarnessError: the op has a value that a history cannot carry; nothing was recorded.
        """
        before = len(self._buffer)
        try:
            refuse_not_finite(op.value)
            self._encode_into(op, self._buffer, -1)
        except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
            del self._buffer[before:]
            raise HarnessError(
                f"op {op.index} ({op.f} of process {op.process}) has a value that a history cannot carry: {error}"
            ) from error
        self._pending += 1

    def flush(self) -> None:
        """Write everything recorded to the operating system.

        Raises:
            HarnessError: it could not be written (disk full, say). The ops are kept; a later flush tries again.
        """
        if not self._pending:
            return
        buffer = self._buffer
        _ARRAY.pack_into(buffer, _FRAME.size, _ARRAY32, self._pending)
        payload = memoryview(buffer)[_FRAME.size :]
        if len(payload) > _FRAME_LIMIT_BYTES:
            raise HarnessError(
                f"{len(payload)} bytes of history were recorded between two flushes; the limit is "
                f"{_FRAME_LIMIT_BYTES}. Record smaller values, or flush more often."
            )
        _FRAME.pack_into(buffer, 0, len(payload), zlib.crc32(payload))
        payload.release()
        self._append(buffer)
        self._recorded += self._pending
        self._pending = 0
        self._buffer = bytearray(_EMPTY)

    def close(self) -> None:
        """Flush, mark the history as complete, and wait until the disk has it. Closing again does nothing.

        Raises:
            HarnessError: it could not be written; the file is open still.
        """
        if self._closed:
            return
        self.flush()
        count = _COUNT.pack(self._recorded)
        self._append(_FRAME.pack(_FOOTER, zlib.crc32(count)) + count)
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise HarnessError(f"the history {self._path} may not be on the disk: {error.strerror}.") from error
        finally:
            self._closed = True
            os.close(self._descriptor)

    def abandon(self) -> None:
        """Close the file without a flush or a footer, as a crash would."""
        if not self._closed:
            self._closed = True
            os.close(self._descriptor)

    def _append(self, data: bytes | bytearray) -> None:
        """Write all of it, or leave the file as it was."""
        if self._closed:
            raise HarnessError(f"the history {self._path} is closed; nothing can be recorded any more.")
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError as error:
            os.ftruncate(self._descriptor, self._size)
            raise HarnessError(
                f"cannot write the history {self._path}: {error.strerror}. Make room there; nothing "
                f"recorded was lost so far."
            ) from error
        self._size += len(data)


class WalContent(msgspec.Struct, frozen=True):
    """What a write-ahead file holds.

    Attributes:
        ops: every op that was flushed whole, in order.
        complete: whether the controller came to its end and closed the file.
        problem: what is wrong with the file, in words; None where nothing is (it may still be incomplete).
        damaged: whether that is more than a crash of the controller leaves: ops that were flushed are lost.
    """

    ops: list[Op]
    complete: bool
    problem: str | None
    damaged: bool = False


def read(path: Path) -> WalContent:
    """Recover every whole record of a write-ahead file. What cannot be read is reported, never skipped silently.

    A torn tail is what a crash leaves. Damage before the tail ends the recovery there: what follows a gap would make
    a history that never was.

    Raises:
        HistoryFormatError: there is no such file, or it is not a write-ahead file.
        StoreVersionError: a newer splitbrain wrote it.
    """
    refuse_others(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise HistoryFormatError(str(path), f"cannot be read: {error.strerror}") from error
    if len(data) < _HEADER.size:
        if not (MAGIC + VERSION.to_bytes(4, "little")).startswith(data):
            raise HistoryFormatError(str(path), "this is not a splitbrain write-ahead file")
        return WalContent([], complete=False, problem="the file ends within its header: no op was recorded")
    magic, version = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise HistoryFormatError(str(path), "this is not a splitbrain write-ahead file")
    if version > VERSION:
        raise StoreVersionError(
            f"{path} is in format {version}, this splitbrain reads up to {VERSION}: upgrade "
            f"splitbrain; nothing was changed."
        )
    return _read_frames(memoryview(data))


def _read_frames(data: memoryview) -> WalContent:
    decode = msgspec.msgpack.Decoder(list[Op]).decode
    ops: list[Op] = []
    position = _HEADER.size
    while position < len(data):
        left = len(data) - position
        unread = f"the last {counted(left, 'byte')} were not read, after {counted(len(ops), 'row')}"
        if left < _FRAME.size:
            return WalContent(ops, complete=False, problem=f"torn tail: {unread}")
        length, checksum = _FRAME.unpack_from(data, position)
        start = position + _FRAME.size
        end = start + (_COUNT.size if length == _FOOTER else length)
        if end > len(data):
            damaged = _frame_within(data, position + 1)
            where = f"damaged at byte {position}" if damaged else "torn tail"
            return WalContent(ops, complete=False, problem=f"{where}: {unread}", damaged=damaged)
        payload = data[start:end]
        if zlib.crc32(payload) != checksum:
            damaged = end != len(data)
            where = f"damaged at byte {position}" if damaged else "torn tail"
            return WalContent(ops, complete=False, problem=f"{where}: {unread}", damaged=damaged)
        if length == _FOOTER:
            return _ended(ops, _COUNT.unpack(payload)[0], left_over=len(data) - end)
        try:
            batch = decode(payload)
        except NOT_JSON as error:
            return WalContent(
                ops, complete=False, problem=f"damaged at byte {position} ({error}): {unread}", damaged=True
            )
        gap = _gap(ops, batch)
        if gap is not None:
            return WalContent(ops, complete=False, problem=f"{gap}: {unread}", damaged=True)
        ops += batch
        position = end
    return WalContent(ops, complete=False, problem=None)


def _frame_within(data: memoryview, begin: int) -> bool:
    """Whether a whole frame follows: then what is before it was not torn by a crash, but its length is damaged."""
    content = bytes(data[begin:])
    at = content.find(_ARRAY32, _FRAME.size)
    while at >= 0:
        length, checksum = _FRAME.unpack_from(content, at - _FRAME.size)
        if length <= len(content) - at and zlib.crc32(content[at : at + length]) == checksum:
            return True
        at = content.find(_ARRAY32, at + 1)
    return False


def _ended(ops: list[Op], promised: int, left_over: int) -> WalContent:
    if promised != len(ops):
        problem = f"{promised} rows were recorded, {len(ops)} are in the file"
        return WalContent(ops, complete=False, problem=problem, damaged=True)
    if left_over:
        problem = f"{left_over} bytes follow the end of the history"
        return WalContent(ops, complete=False, problem=problem, damaged=True)
    return WalContent(ops, complete=True, problem=None)


def _gap(ops: list[Op], batch: list[Op]) -> str | None:
    """Why `batch` cannot follow `ops`: indexes of a history run from 0 without gaps."""
    for expected, op in enumerate(batch, start=len(ops)):
        if op.index != expected:
            return f"op {op.index} stands where op {expected} is expected"
    return None

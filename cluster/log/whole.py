"""Small files that are replaced as a whole.

file     := magic version:u32 checksum:u32 body            CRC-32 of the body, which is a MessagePack map
"""

from __future__ import annotations

import struct
from typing import Final, TypeVar
from zlib import crc32

import msgspec

from splitbrain.cluster.log.damage import corrupt, require_version

S = TypeVar("S", bound=msgspec.Struct)

_HEADER: Final = struct.Struct("<4sII")


class Form:
    """A format of such files: its magic number and its version."""

    def __init__(self, magic: bytes, version: int) -> None:
        self._magic = magic
        self._version = version

    def encode(self, value: msgspec.Struct) -> bytes:
        """The file of a value."""
        body = msgspec.msgpack.encode(value)
        return _HEADER.pack(self._magic, self._version, crc32(body)) + body

    def decode(self, content: bytes, name: str, kind: type[S]) -> S:
        """The value in a file; `name` is for messages.

        Raises:
            CorruptStorageError: it is damaged.
            StorageError: it is of another version.
        """
        if len(content) < _HEADER.size or content[:4] != self._magic:
            raise corrupt(name, 0, "this is no such file, or its beginning is damaged")
        _, version, checksum = _HEADER.unpack_from(content)
        require_version(name, version, self._version)
        body = content[_HEADER.size :]
        if crc32(body) != checksum:
            raise corrupt(name, _HEADER.size, "the file is damaged")
        return msgspec.msgpack.decode(body, type=kind)

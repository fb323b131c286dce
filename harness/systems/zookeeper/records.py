"""Requests and answers of ZooKeeper as bytes: of its protocol no more than sessions need.

Records are written in jute: whole numbers big-endian, texts and buffers behind their length, lists behind their number.
Source: `zookeeper.jute`, `ZooDefs.java` and `KeeperException.java` of ZooKeeper 3.8 and 3.9.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

CREATE2: Final = 15
DELETE: Final = 2
GET_DATA: Final = 4
SET_DATA: Final = 5
GET_CHILDREN: Final = 8
SYNC: Final = 9

PERSISTENT: Final = 0
EPHEMERAL: Final = 1

ANY_VERSION: Final = -1

_LENGTH: Final = struct.Struct(">i")
_REPLY: Final = struct.Struct(">iqi")
_STAT: Final = struct.Struct(">qqqqiiiqiiq")
_PASSWORD_BYTES: Final = 16
_ANYONE: Final = 31
"""All permissions."""


class Request(NamedTuple):
    """A request: its type, and its record."""

    kind: int
    record: bytes


class Reply(NamedTuple):
    """The header of an answer, and its record. `error` is 0 or one of `splitbrain.harness.systems.zookeeper.errors`."""

    xid: int
    error: int
    record: bytes


class Stat(NamedTuple):
    """Of the metadata of a node of the tree what is used: the transaction that created it, and its version."""

    created: int
    version: int


def framed(content: bytes) -> bytes:
    """A message as it travels."""
    return _LENGTH.pack(len(content)) + content


def length(head: bytes) -> int:
    """How long the message is whose first four bytes these are."""
    return int(_LENGTH.unpack(head)[0])


def connect(timeout_ms: int) -> bytes:
    """The first message of a connection: it asks for a new session."""
    return struct.pack(">iqiq", 0, 0, timeout_ms, 0) + _buffer(bytes(_PASSWORD_BYTES)) + b"\x00"


def session_timeout(answer: bytes) -> int:
    """The timeout of the session that a node granted, in milliseconds; 0 if it granted none."""
    return int(struct.unpack_from(">ii", answer)[1])


def request(xid: int, asked: Request) -> bytes:
    """A request with its header."""
    return struct.pack(">ii", xid, asked.kind) + asked.record


def reply(message: bytes) -> Reply:
    """An answer taken apart."""
    xid, _, error = _REPLY.unpack_from(message)
    return Reply(xid, error, message[_REPLY.size :])


def create(path: str, data: bytes, flags: int) -> Request:
    """Make a node; answered with its path and its Stat."""
    acl = struct.pack(">ii", 1, _ANYONE) + _text("world") + _text("anyone")
    return Request(CREATE2, _text(path) + _buffer(data) + acl + struct.pack(">i", flags))


def delete(path: str, version: int) -> Request:
    """Remove a node of that version."""
    return Request(DELETE, _text(path) + struct.pack(">i", version))


def get_data(path: str) -> Request:
    """Read a node; answered with its data and its Stat."""
    return Request(GET_DATA, _text(path) + b"\x00")


def set_data(path: str, data: bytes, version: int) -> Request:
    """Replace the data of a node of that version."""
    return Request(SET_DATA, _text(path) + _buffer(data) + struct.pack(">i", version))


def get_children(path: str) -> Request:
    """The names of a node's children."""
    return Request(GET_CHILDREN, _text(path) + b"\x00")


def sync(path: str) -> Request:
    """Have the node of this session catch up with the leader."""
    return Request(SYNC, _text(path))


def created(record: bytes) -> Stat:
    """The Stat in the answer to `create`."""
    _, rest = _taken(record)
    return _stat(rest)


def data(record: bytes) -> tuple[bytes, Stat]:
    """The answer to `get_data`."""
    found, rest = _taken(record)
    return found, _stat(rest)


def children(record: bytes) -> list[str]:
    """The answer to `get_children`."""
    number, rest = length(record[:4]), record[4:]
    names: list[str] = []
    for _ in range(number):
        name, rest = _taken(rest)
        names.append(name.decode())
    return names


def _text(value: str) -> bytes:
    return _buffer(value.encode())


def _buffer(value: bytes) -> bytes:
    return _LENGTH.pack(len(value)) + value


def _taken(record: bytes) -> tuple[bytes, bytes]:
    """The buffer with which a record begins, and the rest. (A length of -1 stands for none.)"""
    end = 4 + max(length(record[:4]), 0)
    return record[4:end], record[end:]


def _stat(record: bytes) -> Stat:
    found = _STAT.unpack_from(record)
    return Stat(created=found[0], version=found[4])

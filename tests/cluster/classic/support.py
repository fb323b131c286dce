"""What the tests of classic queues share: messages, files of RabbitMQ by hand, and an index in one call."""

from __future__ import annotations

import struct
from typing import TypeAlias

from splitbrain.cluster.classic import Index, IndexOptions, Record, Stored, open_index, record
from tests.cluster.classic.disk import Image, MemoryDisk, done

Said: TypeAlias = tuple[int, bytes, int | None, int, bytes, bool, bool, int]
"""What an index says of a message: sequence id, id, expiry, size, body, persistent, delivered, redeliveries."""


def message(number: int, *, body: bytes = b"", expiry: int | None = None, redeliveries: int = 0) -> Record:
    return record(b"%016d" % number, 1000 + number, expiry=expiry, body=body, redeliveries=redeliveries)


def said(stored: Stored) -> Said:
    seq, found, persistent, delivered = stored
    return (seq, found.id, found.expiry, found.size, found.body, persistent, delivered, found.redeliveries)


def content(index: Index) -> list[Said]:
    return [said(stored) for stored in done(index.read())]


def opened(disk: MemoryDisk | Image, *, version: int = 1, max_journal_entries: int = 1_000_000) -> Index:
    if not isinstance(disk, MemoryDisk):
        disk = MemoryDisk(disk)
    return done(open_index(disk, IndexOptions(max_journal_entries, 2 if version == 2 else 1)))


# --- files of RabbitMQ, by the layout of its records, without the code under test ---------------------------------


def body_v1(number: int, message_bytes: bytes = b"", expiry: int = 0) -> bytes:
    return struct.pack(">16sQII", b"%016d" % number, expiry, 1000 + number, len(message_bytes)) + message_bytes


def publish_v1(relative: int, number: int, message_bytes: bytes = b"", *, persistent: bool = True) -> bytes:
    return struct.pack(">H", 0x8000 | persistent << 14 | relative) + body_v1(number, message_bytes)


def settle(relative: int) -> bytes:
    return struct.pack(">H", 0x4000 | relative)


def journal_entry(prefix: int, seq: int, body: bytes = b"") -> bytes:
    return struct.pack(">Q", prefix << 62 | seq) + body


def files_of_rabbitmq() -> Image:
    """Segment 0 with messages 0 (delivered), 1 (acknowledged) and 2; segment 1 with 16385, embedded; a journal."""
    return {
        "0.idx": publish_v1(0, 10)
        + publish_v1(1, 11)
        + settle(0)
        + settle(1)
        + settle(1)
        + publish_v1(2, 12, persistent=False),
        "1.idx": publish_v1(1, 13, b"hello"),
        "journal.jif": journal_entry(2, 2)
        + journal_entry(0, 16_386, body_v1(14))
        + journal_entry(1, 16_387, body_v1(15)),
    }


CONTENT_OF_RABBITMQ: list[Said] = [
    (0, b"%016d" % 10, None, 1010, b"", True, True, 0),
    (2, b"%016d" % 12, None, 1012, b"", False, True, 0),
    (16_385, b"%016d" % 13, None, 1013, b"hello", True, False, 0),
    (16_386, b"%016d" % 14, None, 1014, b"", True, False, 0),
    (16_387, b"%016d" % 15, None, 1015, b"", False, False, 0),
]

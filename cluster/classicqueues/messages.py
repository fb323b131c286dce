"""How a message of a classic queue in a node is a record on disk.

The embedded message is the body, and behind it, where there are any, the annotations in msgpack. The size of the record
says where the body ends.
"""

from __future__ import annotations

import msgspec

from splitbrain.cluster.classic import Record, record
from splitbrain.cluster.queues.commands import Annotations

_annotations: msgspec.msgpack.Decoder[Annotations] = msgspec.msgpack.Decoder(Annotations)


def to_store(id: bytes, body: bytes, annotations: Annotations) -> Record:
    """A message as it is stored; `id` has 16 bytes."""
    said = msgspec.msgpack.encode(annotations) if annotations else b""
    return record(id, len(body), body=body + said)


def body_of(stored: Record) -> bytes:
    """The body of a message."""
    return stored.body[: stored.size]


def annotations_of(stored: Record) -> Annotations:
    """What is said of a message besides its body."""
    said = stored.body[stored.size :]
    return _annotations.decode(said) if said else {}

"""Export and import: a part of the tree as records, and records as bytes that show when they are damaged (KH-18).

A record is what it takes to put a node: path, payload, and what keeps it. Nodes with neither a payload nor conditions
are left out. An import puts them one by one, and resets nothing. It is read to its end before the first node is put.

The bytes: a line with the version, then for each record its length and CRC-32 (4 bytes each, little-endian) and itself
in msgpack, and at the end a length of 0 and the CRC-32 of everything before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, Protocol
from zlib import crc32

import msgspec

from splitbrain.cluster.errors import CorruptExportError, InvalidPathError
from splitbrain.cluster.tree.conditions import IMPLICIT
from splitbrain.cluster.tree.messages import Export, KeepWhile, PutNodes, Refused, Result, Value
from splitbrain.cluster.tree.nodes import Node
from splitbrain.cluster.tree.paths import Path, is_pattern
from splitbrain.cluster.tree.patterns import Pattern, compiled, pattern_problem
from splitbrain.cluster.tree.payloads import Payload, Procedure
from splitbrain.cluster.tree.slices import NODES_PER_SLICE, InSlices, in_order
from splitbrain.cluster.tree.state import TreeState
from splitbrain.cluster.tree.walk import in_slices, matching

MAGIC: Final = b"splitbrain tree 1\n"
MAX_RECORD_BYTES: Final = 1024 * 1024

MAX_EXPORT_BYTES: Final = 7 * 1024 * 1024
"""In the answer to one query."""

_HEAD_BYTES: Final = 8
"""Length and checksum of a record."""


class Record(msgspec.Struct, frozen=True, array_like=True):
    """What it takes to put a node."""

    path: Path
    payload: Payload
    keep_while: tuple[KeepWhile, ...] = ()


_decoder = msgspec.msgpack.Decoder(Record)


class Sink(Protocol):
    """Where an export goes. What a method raises ends it, and is passed on; `abort` follows a failed `write`."""

    def open(self) -> None:
        """The export begins."""
        ...

    def write(self, data: bytes) -> None:
        """The next bytes."""
        ...

    def commit(self) -> None:
        """The export is complete."""
        ...

    def abort(self) -> None:
        """The export failed; nothing of it is to be used."""
        ...


class Source(Protocol):
    """Where an import comes from. What a method raises ends the import, and is passed on."""

    def open(self) -> None:
        """The import begins."""
        ...

    def read(self) -> bytes:
        """The next bytes; none at the end."""
        ...

    def close(self) -> None:
        """The import ends, well or not."""
        ...


def records(tree: TreeState, pattern: Pattern | None = None) -> Iterator[Record]:
    """The records of the nodes that a pattern matches, with all below them; None: of the whole tree.

    Parents come before their children. What is implicit says so by its condition (D14).

    Raises:
        InvalidPathError: the pattern is not in order.
    """
    tops = [tree.root] if pattern is None else list(matching(tree.root, compiled(pattern)))
    for node in chain.from_iterable(map(in_order, topmost(tops))):
        record = None if node is None else record_of(node)
        if record is not None:
            yield record


def exported_in_slices(tree: TreeState, query: Export) -> InSlices[Result]:
    """What a query for an export is answered with: its bytes, or why there are none."""
    try:
        pattern = None if query.path is None else compiled(query.path)
    except InvalidPathError as error:
        return Refused("invalid_path", detail=str(error))
    tops = [tree.root]
    if pattern is not None:
        tops = []
        for step in in_slices(tree.root, pattern, in_order=False):
            if step is None:
                yield
            elif isinstance(step, Node):
                tops.append(step)
    found, size = list[bytes](), 0
    for number, node in enumerate(chain.from_iterable(map(in_order, topmost(tops)))):
        if node is None or number % NODES_PER_SLICE == 0:
            yield
        record = None if node is None else record_of(node)
        if record is not None:
            found.append(msgspec.msgpack.encode(record))
            size += len(found[-1]) + _HEAD_BYTES
        if size > MAX_EXPORT_BYTES:
            detail = f"an export has at most {MAX_EXPORT_BYTES:,} bytes: export parts of the tree by pattern"
            return Refused("too_many_nodes", pattern or (), detail=detail)
    return Value(msgspec.msgpack.encode(b"".join(_framed(found))))


def topmost(nodes: Iterable[Node]) -> list[Node]:
    """Those of the nodes that are below none of the others, in the order of their paths."""
    done: dict[Path, None] = {}
    found: list[Node] = []
    for top in sorted(nodes, key=lambda node: node.path):
        if not any(top.path[:length] in done for length in range(len(top.path))):
            done[top.path] = None
            found.append(top)
    return found


def record_of(node: Node) -> Record | None:
    """What it takes to put a node; None if it comes by itself."""
    keep_while = kept_by(node)
    return Record(node.path, node.payload, keep_while) if node.payload is not None or keep_while else None


def kept_by(node: Node) -> tuple[KeepWhile, ...]:
    """What keeps a node, that it is implicit included."""
    return (KeepWhile(node.path, IMPLICIT),) if node.is_implicit else node.keep_while


def command_of(record: Record) -> PutNodes:
    """The command that imports a record."""
    return PutNodes(record.path, record.payload, False, record.keep_while or None)


def encode(found: Iterable[Record]) -> Iterator[bytes]:
    """Records as bytes, in parts."""
    yield from _framed(map(msgspec.msgpack.encode, found))


def _framed(encoded: Iterable[bytes]) -> Iterator[bytes]:
    total = crc32(MAGIC)
    yield MAGIC
    for data in encoded:
        part = _number(len(data)) + _number(crc32(data)) + data
        total = crc32(part, total)
        yield part
    end = _number(0)
    yield end + _number(crc32(end, total))


def decode(data: bytes) -> list[Record]:
    """The records that these bytes stand for.

    Raises:
        CorruptExportError: they are no export, are cut short, or were changed; the message says where.
    """
    if not data.startswith(MAGIC):
        raise CorruptExportError("This is no export of a tree of this version: its first line is not right.")
    found: list[Record] = []
    at = len(MAGIC)
    while True:
        length, check = _number_at(data, at), _number_at(data, at + 4)
        if length == 0:
            if check != crc32(data[: at + 4]) or len(data) != at + 8:
                raise CorruptExportError(f"The export is damaged: its checksum at byte {at + 4:,} is not right.")
            return found
        part = data[at + 8 : at + 8 + length]
        if length > MAX_RECORD_BYTES or len(part) != length:
            raise CorruptExportError(f"The export is cut short or damaged at byte {at:,}: record {len(found) + 1:,}.")
        found.append(_record(part, check, at, len(found) + 1))
        at += 8 + length


def export_to(sink: Sink, found: Iterable[Record]) -> None:
    """Write records to a sink."""
    sink.open()
    try:
        for part in encode(found):
            sink.write(part)
    except Exception:
        sink.abort()
        raise
    sink.commit()


def import_from(source: Source) -> list[Record]:
    """Read all records from a source.

    Raises:
        CorruptExportError: see `decode`.
    """
    source.open()
    parts: list[bytes] = []
    try:
        while part := source.read():
            parts.append(part)
        found = decode(b"".join(parts))
    finally:
        source.close()
    return found


def _record(part: bytes, check: int, at: int, number: int) -> Record:
    if crc32(part) != check:
        raise CorruptExportError(f"The export is damaged at byte {at:,}: record {number:,} has another checksum.")
    try:
        record = _decoder.decode(part)
        problem = _problem(record)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        problem = str(error)
    else:
        if problem is None:
            return record
    what = problem.removesuffix(".")
    raise CorruptExportError(f"Record {number:,} of the export (byte {at:,}) makes no sense: {what}.")


def _problem(record: Record) -> str | None:
    """Why no member would put a record, or no client could read it; None if there is no reason.

    Raises:
        msgspec.MsgspecError: its value is none.
    """
    for kept in record.keep_while:
        problem = pattern_problem(kept.path) or pattern_problem((kept.condition,))
        if problem is not None:
            return problem
    payload = record.payload.data if isinstance(record.payload, Procedure) else record.payload
    if payload is not None:
        msgspec.msgpack.decode(payload)
    return "its path is a pattern" if is_pattern(record.path) else pattern_problem(record.path)


def _number(value: int) -> bytes:
    return value.to_bytes(4, "little")


def _number_at(data: bytes, at: int) -> int:
    if at + 4 > len(data):
        raise CorruptExportError(f"The export is cut short at byte {len(data):,}.")
    return int.from_bytes(data[at : at + 4], "little")

"""Histories and telemetry as Arrow tables: the columns on disk, and the way from ops to columns and back.

The columns are those of the design ("What a run leaves behind"). `value` is canonical JSON text, null where an op has
no value; micro-operations are typed nested columns, so that no checker parses text row by row.
"""

from __future__ import annotations

import gc
import hashlib
import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.results import listreads
from splitbrain.results.atomic import replace_file
from splitbrain.results.columns import Column, array, codes, numbers, valid
from splitbrain.results.errors import HistoryFormatError, StoreVersionError
from splitbrain.results.history import FORMAT_VERSION, Mop, Op, OpType
from splitbrain.results.plainfile import refuse_names_that_are_no_text, refuse_others
from splitbrain.results.values import NOT_JSON, canonical_json

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_MOP_FIELDS: Final[tuple[Any, ...]] = (
    pa.field("f", pa.string()),
    pa.field("key", pa.string()),
    pa.field("value", pa.int64()),
    pa.field("values", pa.list_(pa.int64())),
)

PLAIN_MOPS: Final[Any] = pa.list_(pa.struct(list(_MOP_FIELDS)))
"""The type of the column of micro-operations in files of format 1."""

LEAST: Final = 2 - (1 << 63)
"""The least number in a column of micro-operations. Checkers take the two below it for nil, and for what is not known;
a history that has them keeps its micro-operations as texts.
"""

MOPS: Final[Any] = pa.list_(pa.struct([*_MOP_FIELDS, *listreads.FIELDS]))
"""The type of the column of micro-operations, with summaries of the lists that were read
(`splitbrain.results.listreads`)."""

HISTORY_SCHEMA: Final = pa.schema(
    [
        pa.field("index", pa.int64(), nullable=False),
        pa.field("time", pa.int64(), nullable=False),
        pa.field("process", pa.int32(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("f", pa.string(), nullable=False),
        pa.field("key", pa.string()),
        pa.field("value", pa.string()),
        pa.field("mops", MOPS),
        pa.field("node", pa.string()),
        pa.field("term", pa.int64()),
        pa.field("error", pa.string()),
        pa.field("due", pa.int64()),
    ]
)
"""The columns of a history; the fields are described at `splitbrain.results.history.Op`."""

TELEMETRY_SCHEMA: Final = pa.schema(
    [
        pa.field("time", pa.int64(), nullable=False),
        pa.field("node", pa.string(), nullable=False),
        pa.field("group", pa.string()),
        pa.field("life", pa.int32(), nullable=False),
        pa.field("event", pa.string(), nullable=False),
        pa.field("term", pa.int64()),
        pa.field("role", pa.string()),
        pa.field("leader", pa.string()),
        pa.field("commit_index", pa.int64()),
        pa.field("applied_index", pa.int64()),
        pa.field("voters", pa.list_(pa.string())),
        pa.field("chain_hash", pa.string()),
        pa.field("state_hash", pa.string()),
        pa.field("last_index", pa.int64()),
        pa.field("projection_hash", pa.string()),
        pa.field("projected_hash", pa.string()),
        pa.field("applied_count", pa.int64()),
        pa.field("log_index", pa.int64()),
        pa.field("log_term", pa.int64()),
        pa.field("log_hash", pa.string()),
        pa.field("raised_by", pa.string()),
        pa.field("members", pa.string()),
        pa.field("counted_index", pa.int64()),
        pa.field("counted", pa.string()),
    ]
)
"""The columns of the nodes' telemetry (`splitbrain.results.telemetry`); `time` is in ns since the test began."""


class _Compute:
    """Imports `pyarrow.compute` when it is used: that takes as long as the check of a small history."""

    def __getattr__(self, name: str) -> Any:
        import pyarrow.compute

        return getattr(pyarrow.compute, name)


compute: Final[Any] = _Compute()
"""Arrow's functions on columns. Their stubs do not know what most of them make of which column."""

FORMAT_KEY: Final = b"splitbrain.format"
RECOVERED_KEY: Final = b"splitbrain.recovered"
DAMAGED_KEY: Final = b"splitbrain.damaged"
"""What was wrong with the write-ahead file that a history is from, beyond what a crash of its controller leaves."""
_FIELDS: Final = tuple(cast("Iterable[Any]", HISTORY_SCHEMA))
_TYPES: Final = frozenset({"invoke", "ok", "fail", "info"})


# --- ops to columns, and back ---------------------------------------------------------------------------------------


def to_table(ops: Sequence[Op]) -> pa.Table:
    """A history as a table of `HISTORY_SCHEMA`, a row per op, in the order given.

    Raises:
        HistoryFormatError: an op has a value that JSON or a column cannot carry.
    """
    try:
        with _without_cycle_collection():
            columns: list[Any] = [
                [op.index for op in ops],
                [op.time for op in ops],
                [op.process for op in ops],
                [op.type for op in ops],
                [op.f for op in ops],
                [op.key for op in ops],
                [None if op.value is None else canonical_json(op.value) for op in ops],
                mops_column([op.mops for op in ops]),
                [op.node for op in ops],
                [op.term for op in ops],
                [op.error for op in ops],
                [op.due for op in ops],
            ]
        arrays: list[Any] = [array(column, field.type) for column, field in zip(columns, _FIELDS, strict=True)]
    except (TypeError, ValueError, OverflowError, pa.ArrowException, msgspec.MsgspecError) as error:
        raise HistoryFormatError("history", _first_bad_op(ops) or f"cannot be stored: {error}") from error
    return pa.Table.from_arrays(arrays, schema=HISTORY_SCHEMA)


def own_ops(history: pa.Table) -> list[Op]:
    """The ops of the harness and of nemeses. Without any, the functions of Arrow are not loaded."""
    own = numbers(history.column("process")) < 0
    return from_table(history.filter(array(own))) if own.any() else []


def from_table(table: pa.Table, source: str = "history") -> list[Op]:
    """The ops of a table; what `to_table` was given, with tuples in values read back as lists.

    Columns that are missing and may be null are taken as null; further columns are left alone.

    Raises:
        HistoryFormatError: columns are missing or of another type, or a value is not JSON.
    """
    table = conform(table, source)
    with _without_cycle_collection():
        columns = [table.column(name).to_pylist() for name in HISTORY_SCHEMA.names]
        index, time, process, types, f, key, values, mops, node, term, error, due = columns
        for type_ in compute.unique(table.column("type")).to_pylist():
            if type_ not in _TYPES:
                raise HistoryFormatError(source, f"an op's type is {type_!r}; known are invoke, ok, fail and info")
        decoded = _decode_values(cast("list[str | None]", values), source)
        return [
            Op(
                index=i,
                time=t,
                process=p,
                type=cast(OpType, y),
                f=g,
                key=k,
                value=v,
                mops=None if m is None else _mops(m),
                node=n,
                term=e,
                error=x,
                due=d,
            )
            for i, t, p, y, g, k, v, m, n, e, x, d in zip(
                index, time, process, types, f, key, decoded, mops, node, term, error, due, strict=True
            )
        ]


def conform(table: pa.Table, source: str = "history") -> pa.Table:
    """`table` with exactly the columns and types of `HISTORY_SCHEMA`; metadata is kept.

    Raises:
        HistoryFormatError: a required column is missing, holds nulls, or is of a type that does not fit.
    """
    return _conform(table, HISTORY_SCHEMA, "a history", source)


def conform_telemetry(table: pa.Table, source: str = "telemetry") -> pa.Table:
    """`table` with exactly the columns and types of `TELEMETRY_SCHEMA`; metadata is kept.

    Raises:
        HistoryFormatError: a required column is missing, holds nulls, or is of a type that does not fit.
    """
    return _conform(table, TELEMETRY_SCHEMA, "telemetry", source)


def _conform(table: pa.Table, schema: pa.Schema, kind: str, source: str) -> pa.Table:
    if table.schema.equals(schema):
        return table
    columns: list[Any] = []
    for field in cast("Iterable[Any]", schema):
        if field.name not in table.schema.names:
            if not field.nullable:
                raise HistoryFormatError(source, f"there is no column {field.name!r}: this is not {kind}")
            columns.append(pa.nulls(table.num_rows, field.type))
            continue
        column = table.column(field.name)
        if column.null_count and not field.nullable:
            raise HistoryFormatError(source, f"column {field.name!r} has {column.null_count} nulls, expected none")
        try:
            columns.append(_summarized(column) if _is_plain(column.type) else column.cast(field.type))
        except pa.ArrowException as error:
            raise HistoryFormatError(
                source, f"column {field.name!r} is {column.type}, expected {field.type}: {_first_line(error)}"
            ) from error
    return pa.Table.from_arrays(columns, schema=schema.with_metadata(table.schema.metadata))


def _is_plain(kind: Any) -> bool:
    """Whether a column is of micro-operations without summaries of lists."""
    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
        return False
    fields: list[Any] = list(kind.value_type)
    return [field.name for field in fields] == [field.name for field in _MOP_FIELDS]


def _summarized(column: Any) -> Column:
    chunks = [listreads.with_summaries(chunk, MOPS) for chunk in column.cast(PLAIN_MOPS).chunks]
    return cast(Any, pa).chunked_array(chunks, MOPS)


def client_ops(history: pa.Table) -> int:
    """How many ops clients invoked: what "ops" counts everywhere (`docs/verdicts.md`)."""
    kind, names = codes(history.column("type"))
    invokes = kind == (names.index("invoke") if "invoke" in names else len(names))
    return int(np.count_nonzero(invokes & (numbers(history.column("process")) >= 0)))


def mops_column(transactions: Sequence[Sequence[Mop] | None]) -> Column:
    """Micro-operations as a column; None for an op that is no transaction."""
    rows = [None if mops is None else [_mop_row(mop) for mop in mops] for mops in transactions]
    return listreads.with_summaries(array(rows, PLAIN_MOPS), MOPS)


def _mop_row(mop: Mop) -> tuple[str, str, int | None, tuple[int, ...] | None]:
    return (mop.f, mop.key, mop.value, mop.values)


def _mops(rows: list[dict[str, Any]]) -> tuple[Mop, ...]:
    return tuple(
        Mop(
            f=row["f"],
            key=row["key"],
            value=row["value"],
            values=None if row["values"] is None else tuple(row["values"]),
        )
        for row in rows
    )


def _decode_values(texts: list[str | None], source: str) -> list[Any]:
    """Parse the JSON of a column: scalars once, containers anew each time, as their owners may change them."""
    decode = msgspec.json.Decoder().decode
    scalars: dict[str, Any] = {}
    values: list[Any] = []
    for row, text in enumerate(texts):
        if text is None:
            values.append(None)
            continue
        value = scalars.get(text, scalars)
        if value is scalars:
            try:
                value = decode(text)
            except NOT_JSON as error:
                raise HistoryFormatError(source, f"row {row}: the value {text[:80]!r} is not JSON: {error}") from error
            if not isinstance(value, (list, dict)):
                scalars[text] = value
        values.append(value)
    return values


def _first_bad_op(ops: Sequence[Op]) -> str | None:
    """Why the first op that cannot be stored cannot."""
    for op in ops:
        problem = storable(op)
        if problem is not None:
            return f"op {op.index}: {problem}"
    return None


def storable(op: Op) -> str | None:
    """Why an op cannot be stored in a history, None if it can."""
    try:
        if op.value is not None:
            canonical_json(op.value)
        row = [
            op.index,
            op.time,
            op.process,
            op.type,
            op.f,
            op.key,
            None,
            None,
            op.node,
            op.term,
            op.error,
            op.due,
        ]
        mops_column([op.mops])
        for field, cell in zip(_FIELDS, row, strict=True):
            if cell is None and not field.nullable:
                return f"{field.name} is missing"
            array([cell], field.type)
    except (TypeError, ValueError, OverflowError, pa.ArrowException, msgspec.MsgspecError) as error:
        return f"it has a field that a history cannot carry: {_first_line(error)}"
    return None


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


@contextmanager
def _without_cycle_collection() -> Generator[None]:
    """Millions of small objects without cycles: scanning them again and again for garbage doubles the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


# --- files ----------------------------------------------------------------------------------------------------------


ASCENDING: Final = frozenset({"index", "time", "due"})
"""Columns of numbers that rise: as differences they take a sixth of the room, and no dictionary helps them."""


def write_parquet(table: pa.Table, path: Path, notes: Mapping[bytes, bytes] | None = None) -> None:
    """Write a table atomically; `notes` go into the file's metadata beside the format version."""
    metadata = {FORMAT_KEY: str(FORMAT_VERSION).encode(), **(notes or {})}
    noted = table.replace_schema_metadata(metadata)
    import pyarrow.parquet as pq

    as_differences = [field.name for field in cast("Iterable[Any]", table.schema) if _rises(field)]
    others = [leaf for leaf in _leaves(table.schema) if leaf not in as_differences]
    replace_file(
        path,
        lambda aside: pq.write_table(
            noted,
            aside,
            compression="zstd",
            write_page_checksum=True,
            use_dictionary=cast(Any, others),
            column_encoding=dict.fromkeys(as_differences, "DELTA_BINARY_PACKED"),
        ),
    )


def _rises(field: Any) -> bool:
    return field.name in ASCENDING and pa.types.is_int64(field.type)


def _leaves(schema: pa.Schema) -> list[str]:
    """The names of a table's columns as Parquet counts them: a nested one is several."""
    return [leaf for field in cast("Iterable[Any]", schema) for leaf in _paths(field.name, field.type)]


def _paths(name: str, kind: Any) -> Iterator[str]:
    if pa.types.is_list(kind):
        yield from _paths(f"{name}.list.element", kind.value_type)
    elif pa.types.is_struct(kind):
        for child in cast("Iterable[Any]", kind):
            yield from _paths(f"{name}.{child.name}", child.type)
    else:
        yield name


def read_parquet(path: Path, content: bytes | None = None) -> pa.Table:
    """Read a table that `write_parquet` wrote (or any Parquet file); its notes are the schema's metadata.

    Args:
        path: the file.
        content: its bytes, where it cannot be opened anew (a pipe); `path` then only names it in errors.

    Raises:
        HistoryFormatError: the file is missing, cut short or not Parquet.
        StoreVersionError: a newer splitbrain wrote it.
    """
    with _opened(path, content) as file:
        return file.read()


def read_parquet_pieces(path: Path) -> Generator[pa.Table]:
    """The same table piece by piece, some ten thousand rows each; raises what `read_parquet` raises."""
    with _opened(path) as file:
        for batch in file.iter_batches():
            yield pa.Table.from_batches([batch])


def parquet_batches(
    path: Path,
    rows: int,
    *,
    columns: Sequence[str] | None = None,
    group: int | None = None,
    texts: Sequence[str] = (),
) -> Generator[Any]:
    """The record batches of a Parquet file; raises what `read_parquet` raises.

    Args:
        path: the file.
        rows: of a batch, at most; only the last one of a row group has fewer.
        columns: which ones; all if left out.
        group: the row group; one after the other if left out.
        texts: columns of texts that are to come as numbers into a dictionary.
    """
    with _opened(path, texts=texts) as file:
        groups = range(file.num_row_groups) if group is None else [group]
        wanted = None if columns is None else list(columns)
        for each in groups:
            yield from file.iter_batches(rows, row_groups=[each], columns=wanted, use_threads=False)


class ParquetHead(msgspec.Struct, frozen=True):
    """What a Parquet file says of itself before its rows: how many they are, their columns, and the notes.

    Attributes:
        rows: of the file.
        schema: its columns.
        notes: its metadata.
        group_rows: of each row group.
        plain_rising: whether numbers that rise (`ASCENDING`) are stored otherwise than as differences.
    """

    rows: int
    schema: pa.Schema
    notes: dict[bytes, bytes]
    group_rows: tuple[int, ...]
    plain_rising: bool = False


def read_parquet_head(path: Path) -> ParquetHead:
    """The head of a Parquet file; raises what `read_parquet` raises."""
    with _opened(path) as file:
        schema = file.schema_arrow
        groups = tuple(file.metadata.row_group(group).num_rows for group in range(file.num_row_groups))
        plain = bool(groups) and any(_is_plain_rising(column) for column in _columns(file.metadata.row_group(0)))
        return ParquetHead(file.metadata.num_rows, schema, dict(schema.metadata or {}), groups, plain)


def _columns(group: Any) -> Iterator[Any]:
    return (group.column(at) for at in range(group.num_columns))


def _is_plain_rising(column: Any) -> bool:
    rises = column.path_in_schema in ASCENDING and column.physical_type == "INT64"
    return rises and "DELTA_BINARY_PACKED" not in column.encodings


@contextmanager
def _opened(path: Path, content: bytes | None = None, texts: Sequence[str] = ()) -> Generator[pq.ParquetFile]:
    import pyarrow.parquet as pq

    if content is None:
        refuse_others(path)
        refuse_names_that_are_no_text(path)
    # ParquetFile, not read_table: the latter adds columns from folder names such as `run=...`.
    try:
        source = path if content is None else pa.BufferReader(content)
        with pq.ParquetFile(source, read_dictionary=list(texts), page_checksum_verification=True) as file:
            version = int((file.schema_arrow.metadata or {}).get(FORMAT_KEY, b"1"))
            if version > FORMAT_VERSION:
                raise StoreVersionError(
                    f"{path} is in format {version}, this splitbrain reads up to "
                    f"{FORMAT_VERSION}: upgrade splitbrain; nothing was changed."
                )
            yield file
    except MemoryError:  # an ArrowException too, and no damage of the file
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:  # ValueError: text that is not UTF-8
        if isinstance(error, OSError) and error.errno is not None:
            raise HistoryFormatError(str(path), f"cannot be read: {os.strerror(error.errno)}") from error
        raise HistoryFormatError(str(path), f"this is not a whole Parquet file: {_first_line(error)}") from error


def recovered_note(table: pa.Table) -> str | None:
    """How a history was recovered after a crash of its controller; None for one that came to its proper end."""
    note = (table.schema.metadata or {}).get(RECOVERED_KEY)
    return None if note is None else note.decode()


# --- identity -------------------------------------------------------------------------------------------------------


def history_hash(table: pa.Table) -> str:
    """A hash of what a history says: 64 hex digits (SHA-256), the same for equal rows in equal order.

    Independent of how the columns are encoded, compressed, sliced or split into chunks. A history in which no op was
    due by a schedule has the hash that it has without the column. Summaries of lists say nothing of their own, and are
    not part of it.

    Raises:
        HistoryFormatError: the table is not a history.
    """
    table = conform(table)
    digest = hashlib.sha256(f"history {_HASHED_VERSION} {table.num_rows}".encode())
    for field in _FIELDS:
        if field.name == "due" and table.column("due").null_count == table.num_rows:
            continue
        digest.update(f"\0{field.name}\0".encode())
        for part in _canonical(table.column(field.name).combine_chunks()):
            digest.update(part)
    return digest.hexdigest()


_HASHED_VERSION: Final = 1
"""A constant of the hash: a format that only adds what follows from the rest keeps it."""


def _canonical(array: Any) -> Iterator[bytes | memoryview]:
    """Validity, lengths and contents of an Arrow array, without the values that lie under its nulls."""
    yield np.packbits(valid(array)).tobytes()
    kind = array.type
    if pa.types.is_struct(kind):
        for child in array.flatten()[: len(_MOP_FIELDS)]:
            yield from _canonical(child)
    elif pa.types.is_list(kind):
        yield _integers(array.value_lengths())
        yield from _canonical(array.flatten())
    elif pa.types.is_string(kind):
        yield from _texts(array.drop_null())
    else:
        yield _integers(array)


def _integers(array: Any) -> bytes:
    return numbers(array.cast(pa.int64()), null=0).astype("<i8").tobytes()


def _texts(array: Any) -> Iterator[bytes | memoryview]:
    """The lengths of the strings of an array without nulls, then their bytes, one after the other."""
    array = array.cast(pa.large_string())
    _, offsets, content = array.buffers()
    if not len(array) or content is None:
        return
    bounds = np.frombuffer(offsets, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    yield np.diff(bounds).astype("<i8").tobytes()
    yield memoryview(content)[bounds[0] : bounds[-1]]

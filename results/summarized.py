"""A stored history without the contents of its micro-operations, which make most of a file of list-append.

What only asks who did what when, and how it ended, needs no micro-operations; a checker of lists needs the summaries
beside them (`splitbrain.results.listreads`), and evidence those of a few ops. So they stay in the file, and are read
row by row for those few.

Only what is as a run leaves it is read in this way: a file of exactly the columns of a history, with summaries, in the
order of the indexes. All else is left to those who read whole tables, and who know what to say of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from splitbrain.results.arrow import (
    FORMAT_KEY,
    HISTORY_SCHEMA,
    MOPS,
    conform,
    parquet_batches,
    read_parquet,
    read_parquet_head,
)
from splitbrain.results.columns import array, numbers, valid
from splitbrain.results.soundness import sound_history

SUMMARIES: Final = 2
"""The first format of files with summaries."""

BATCH_ROWS: Final = 1 << 17
"""Rows that are read together."""

_LENGTH: Final = "mops.list.element.length"
"""The narrowest column of micro-operations: it shows which ops have any."""

_arrow: Final[Any] = pa


@dataclass(frozen=True, eq=False)
class SummarizedHistory:
    """A history in a file with summaries of lists.

    Attributes:
        path: the file, sorted by index.
        frame: the history; the micro-operations of an op that has any are an empty list.
    """

    path: Path
    frame: pa.Table

    @cached_property
    def table(self) -> pa.Table:
        """The whole history.

        Raises:
            HistoryFormatError: it is damaged.
        """
        return sound_history(read_parquet(self.path), str(self.path))

    def with_ops(self, indexes: Iterable[int]) -> pa.Table:
        """The frame, in which the client ops with these indexes have their micro-operations, when they were invoked and
        when they completed.

        Raises:
            HistoryFormatError: the file is damaged.
        """
        from splitbrain.results.calls import OPEN, client_calls  # imports `pyarrow.compute`: see `arrow.compute`

        wanted = np.array(sorted({index for index in indexes if 0 <= index < self.frame.num_rows}), np.int64)
        calls = client_calls(self.frame)
        hit = np.isin(calls.invoke, wanted) | np.isin(calls.complete, wanted)
        rows = np.unique(np.concatenate([wanted, calls.invoke[hit], calls.complete[hit]]))
        rows = rows[rows != OPEN]
        column: Any = self.frame.column("mops").combine_chunks()
        parts: list[Any] = []
        begin = 0
        for row, found in zip(rows.tolist(), self._mops(rows), strict=True):
            parts += [column.slice(begin, row - begin), found]
            begin = row + 1
        filled = _arrow.concat_arrays([*parts, column.slice(begin)])
        schema: Any = HISTORY_SCHEMA
        return self.frame.set_column(self.frame.schema.get_field_index("mops"), schema.field("mops"), filled)

    def _mops(self, rows: npt.NDArray[np.int64]) -> Iterator[Any]:
        """The micro-operations of some rows, which are ascending: each as an array of one element."""
        base = 0
        for group, size in enumerate(read_parquet_head(self.path).group_rows if len(rows) else ()):
            if not ((rows >= base) & (rows < base + size)).any():
                base += size
                continue
            for batch in parquet_batches(self.path, BATCH_ROWS, columns=["mops"], group=group):
                for row in rows[(rows >= base) & (rows < base + batch.num_rows)].tolist():
                    yield batch.column(0).take(array([row - base], pa.int64()))
                base += batch.num_rows


def summarized(path: Path) -> SummarizedHistory | None:
    """The history of a file, if it can be read by its summaries; else None: then read the table.

    Raises:
        HistoryFormatError: the file is damaged.
        StoreVersionError: a newer splitbrain wrote it.
    """
    head = read_parquet_head(path)
    schema: Any = head.schema
    if schema.names != HISTORY_SCHEMA.names or schema.field("mops").type != MOPS:
        return None
    if int(head.notes.get(FORMAT_KEY, b"1")) < SUMMARIES:
        return None
    columns = [name for name in HISTORY_SCHEMA.names if name != "mops"]
    batches = list(parquet_batches(path, BATCH_ROWS, columns=[*columns, _LENGTH]))
    if not batches:
        return None
    found = pa.Table.from_batches(batches).replace_schema_metadata(head.notes)
    mops = _empty_lists(valid(found.column("mops")))
    frame = sound_history(conform(found.drop_columns(["mops"]).append_column("mops", mops), str(path)), str(path))
    if not np.array_equal(numbers(frame.column("index")), np.arange(frame.num_rows)):
        return None
    return SummarizedHistory(path, frame)


def _empty_lists(known: npt.NDArray[np.bool_]) -> Any:
    """A column of micro-operations: empty lists, and null where `known` is false."""
    offsets = _arrow.py_buffer(np.zeros(len(known) + 1, np.int32))
    bitmap = _arrow.py_buffer(np.packbits(known, bitorder="little"))
    return _arrow.Array.from_buffers(MOPS, len(known), [bitmap, offsets], children=[_arrow.nulls(0, MOPS.value_type)])

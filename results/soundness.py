"""Whether the tables of a run say what they should, before they are judged.

Pages of Parquet files have checksums; their headers and the footer have none, and a whole file may still hold what no
run wrote. What passes here can be read by every checker and every page without surprise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from splitbrain.results.arrow import (
    HISTORY_SCHEMA,
    TELEMETRY_SCHEMA,
    conform,
    conform_telemetry,
    own_ops,
    read_parquet_pieces,
)
from splitbrain.results.columns import codes, numbers
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.history import HARNESS, NEMESIS
from splitbrain.results.leaps import Leaps
from splitbrain.results.nemesisop import stored_problem
from splitbrain.results.notes import check_notes
from splitbrain.results.values import NOT_JSON

_TYPES: Final = frozenset({"invoke", "ok", "fail", "info"})
_FAR_NS: Final = 2**62
"""No run is 146 years from its start; times beyond that overflow when they are subtracted."""

_LATER: Final = frozenset(
    {
        "due",
        "last_index",
        "projection_hash",
        "projected_hash",
        "applied_count",
        "log_index",
        "log_term",
        "log_hash",
        "raised_by",
        "members",
        "counted_index",
        "counted",
    }
)
"""Columns that runs of earlier versions lack. Every run has the others, also those that may be null: a history without
keys, or telemetry without commit indexes, would be judged as if nothing of the kind had happened."""


def sound_history(table: pa.Table, source: str) -> pa.Table:
    """The history of a stored run, with exactly the columns of `splitbrain.results.arrow.HISTORY_SCHEMA`.

    Raises:
        HistoryFormatError: a column or a value is not what a history has; `source` names the file.
    """
    _check_columns(table, HISTORY_SCHEMA, source)
    history = sound_ops(table, source)
    index = numbers(history.column("index"))
    _check_numbers(index, source)
    _check_order(index, numbers(history.column("time")), source)
    return history


def sound_telemetry(table: pa.Table, source: str) -> pa.Table:
    """The telemetry of a stored run, with exactly the columns of `splitbrain.results.arrow.TELEMETRY_SCHEMA`.

    Raises:
        HistoryFormatError: a column or a value is not what telemetry has; `source` names the file.
    """
    return _sound_telemetry(table, source, Leaps(source))


def _sound_telemetry(table: pa.Table, source: str, leaps: Leaps) -> pa.Table:
    _check_content(table, source)
    _check_columns(table, TELEMETRY_SCHEMA, source)
    telemetry = conform_telemetry(table, source)
    _check_times(telemetry, source)
    leaps.refuse(telemetry)
    return telemetry


def check_history_file(path: Path) -> None:
    """Read a history piece by piece, and refuse it as `sound_history` does."""
    indexes, times = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for piece in read_parquet_pieces(path):
        _check_columns(piece, HISTORY_SCHEMA, str(path))
        ops = sound_ops(piece, str(path))
        indexes.append(numbers(ops.column("index")))
        times.append(numbers(ops.column("time")))
    index = np.concatenate(indexes)
    _check_numbers(index, str(path))
    _check_order(index, np.concatenate(times), str(path))


def check_telemetry_file(path: Path, document: Mapping[str, Any]) -> None:
    """Read telemetry piece by piece, and refuse it as `sound_telemetry` and `refuse_strangers` do."""
    leaps = Leaps(str(path))
    for piece in read_parquet_pieces(path):
        refuse_strangers(_sound_telemetry(piece, str(path), leaps), document, str(path))


def refuse_strangers(telemetry: pa.Table, document: Mapping[str, Any], source: str) -> None:
    """Refuse telemetry of nodes that the run's test.json does not know: it is of another run, or was changed.

    Raises:
        HistoryFormatError: there is such a node; `source` names the file.
    """
    known: Any = document.get("telemetry")
    if not isinstance(known, dict):  # a run of a system that reports nothing, or that was put together by hand
        return
    for node in codes(telemetry.column("node"))[1]:
        if node not in known:
            raise HistoryFormatError(source, f"it has telemetry of node {node!r:.80}, which test.json does not know")


def sound_ops(table: pa.Table, source: str) -> pa.Table:
    """Ops of any file, with exactly the columns of `splitbrain.results.arrow.HISTORY_SCHEMA`; their indexes are not
    looked at.

    Raises:
        HistoryFormatError: a column or a value is not what a history has; `source` names the file.
    """
    _check_content(table, source)
    history = conform(table, source)
    _check_times(history, source)
    check_texts(codes(history.column("type"))[1], codes(history.column("value"))[1], source)
    _check_own_ops(history, source)
    return history


def check_texts(types: Iterable[str], values: Iterable[str | None], source: str) -> None:
    """Refuse types that no op has, and values that are no JSON.

    Raises:
        HistoryFormatError: there is one; `source` names the file.
    """
    for found in types:
        if found not in _TYPES:
            raise HistoryFormatError(source, f"an op's type is {found!r:.40}; known are invoke, ok, fail and info")
    decode = msgspec.json.Decoder().decode
    for text in values:
        try:
            decode("null" if text is None else text)
        except NOT_JSON as error:
            raise HistoryFormatError(source, f"the value {text!r:.80} is not JSON: {error}") from error


def check_own_notes(history: pa.Table, source: str) -> None:
    """Refuse notes of the harness of another form than it writes them in.

    Raises:
        HistoryFormatError: there is one; `source` names the file.
    """
    check_notes((op for op in own_ops(history) if op.process == HARNESS), source)


def _check_own_ops(history: pa.Table, source: str) -> None:
    """Refuse such notes, and reports of nemeses of another form than they are held to when they are recorded."""
    ops = own_ops(history)
    check_notes((op for op in ops if op.process == HARNESS), source)
    for op in ops:
        if op.process == NEMESIS and op.type == "ok" and (problem := stored_problem(op.value)) is not None:
            raise HistoryFormatError(source, f"op {op.index}: the report of nemesis op {op.f!r} is damaged: {problem}")


def _check_content(table: pa.Table, source: str) -> None:
    names = table.schema.names
    if len(set(names)) < len(names):
        raise HistoryFormatError(source, "it has two columns of the same name")
    try:
        table.validate(full=True)
    except pa.ArrowException as error:
        first = str(error).partition("\n")[0]
        raise HistoryFormatError(source, f"its content is damaged: {first}") from error


def _check_columns(table: pa.Table, schema: pa.Schema, source: str) -> None:
    for name in schema.names:
        if name not in table.schema.names and name not in _LATER:
            raise HistoryFormatError(source, f"there is no column {name!r}: no run was stored like this")


def _check_times(table: pa.Table, source: str) -> None:
    times = numbers(table.column("time"))
    if len(times) and (times.max() >= _FAR_NS or times.min() <= -_FAR_NS):
        raise HistoryFormatError(source, "it has a time that is more than a century from the start of the run")


def _check_order(index: npt.NDArray[np.int64], times: npt.NDArray[np.int64], source: str) -> None:
    """An op gets its index and its time, by a clock that never goes back, at the same moment."""
    in_order = bool(np.all(index[1:] > index[:-1]))
    times = times if in_order else times[np.argsort(index)]
    late = np.flatnonzero(times[1:] < times[:-1])
    if len(late):
        row = int(late[0])
        raise HistoryFormatError(
            source,
            f"its times go back: op {row + 1} is at {times[row + 1]} ns, and op {row} before it at {times[row]} ns",
        )


def _check_numbers(index: npt.NDArray[np.int64], source: str) -> None:
    """The indexes of a history run from 0 without gaps, each once; rows may stand in any order."""
    count = len(index)
    expected = np.arange(count)
    if np.array_equal(index, expected):
        return
    inside = (index >= 0) & (index < count)
    if not inside.all():
        wrong = index[~inside][0]
        raise HistoryFormatError(source, f"index {wrong} is in a history of {count} rows, whose indexes begin at 0")
    times = np.bincount(index, minlength=count)
    if times.max(initial=0) > 1:
        raise HistoryFormatError(source, f"index {times.argmax()} is there {times.max()} times")

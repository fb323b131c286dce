"""JSON: one op a line, an object with the fields of `splitbrain.results.history.Op` (process, type and f at least).

A transaction, whose value is a list of lists, may leave out its f, as in EDN.

An array of such objects is read as well, as elle-cli has them. Beyond our own, `process` may be "nemesis" or "harness",
`key` a number, `error` anything. Values of an array may be tuples of independent keys (see `independent`); lines are
our own, their keys are fields, unless one says otherwise. Fields that an op does not have are named in the table's
notes and not read.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.results.arrow import Column, array, compute, mops_column
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.formats.rows import NO_PROCESS, NONE, Ints, Rows, nothing, texts
from splitbrain.results.formats.transactions import named_transactions, with_mops
from splitbrain.results.history import HARNESS, NEMESIS, Mop
from splitbrain.results.keys import key_names
from splitbrain.results.values import canonical_json

_NAMED_PROCESSES: Final = {"nemesis": NEMESIS, "harness": HARNESS}
_NULL: Final = msgspec.Raw(b"null")
_DEPTH_LIMIT: Final = 200
_TOO_DEEP: Final = f"a value is nested deeper than {_DEPTH_LIMIT}."
_BRACKET: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"|(?P<open>[\[{])|[\]}]', re.DOTALL)


class _Op(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A line; `value` and `error` stay the text that they are."""

    type: str
    f: str | None = None
    process: int | str | None = None
    value: msgspec.Raw = _NULL
    key: str | int | None = None
    time: int | None = None
    index: int | None = None
    node: str | None = None
    term: int | None = None
    error: msgspec.Raw = _NULL
    mops: list[Mop] | None = None
    due: int | None = None


class _LooseOp(_Op, frozen=True, forbid_unknown_fields=False, gc=False):
    """A line with further fields."""


_FIELDS: Final = frozenset(_Op.__struct_fields__)


def read(text: str, source: str) -> Rows:
    """The ops of a file; `source` names it in errors.

    Raises:
        HistoryFormatError: a line is not an op.
    """
    content = text.encode()
    whole = text.lstrip()[:1] == "["
    ignored: set[str] = set()
    if whole:
        ops, line = _array(content, source, ignored)
    else:
        ops, line = _lines(content, source, ignored)
    return _rows(ops, line, source, whole, tuple(sorted(ignored)))


def _lines(content: bytes, source: str, ignored: set[str]) -> tuple[list[_Op], Ints]:
    lines = content.split(b"\n")
    numbers = [number for number, line in enumerate(lines, 1) if line and not line.isspace()]
    try:
        ops = msgspec.json.Decoder(_Op).decode_lines(content)
    except (msgspec.MsgspecError, RecursionError):
        ops = []
    if len(ops) != len(numbers):
        ops = [_line(lines[number - 1], number, source, ignored) for number in numbers]
    return ops, np.asarray(numbers, np.int64)


def _line(line: bytes, number: int, source: str, ignored: set[str]) -> _Op:
    try:
        return _loose(line, ignored)
    except RecursionError as error:
        raise HistoryFormatError(source, _TOO_DEEP, line=number) from error
    except msgspec.MsgspecError as error:
        raise HistoryFormatError(
            source, f"expected an op as a JSON object with process, type and f: {error}.", line=number
        ) from error


def _loose(content: bytes, ignored: set[str]) -> _Op:
    """An op that may have further fields."""
    try:
        return msgspec.json.decode(content, type=_Op)
    except msgspec.ValidationError:
        op = msgspec.json.decode(content, type=_LooseOp)
        ignored.update(set(msgspec.json.decode(content, type=dict[str, msgspec.Raw])) - _FIELDS)
        return op


def _array(content: bytes, source: str, ignored: set[str]) -> tuple[list[_Op], Ints]:
    """The ops of an array, and the lines on which they begin."""
    try:
        items = msgspec.json.decode(content, type=list[msgspec.Raw])
    except RecursionError as error:
        # Around a value are the array and the op.
        at = _deeper(content, _DEPTH_LIMIT + 2)
        raise HistoryFormatError(source, _TOO_DEEP, line=content[:at].count(b"\n") + 1) from error
    except msgspec.MsgspecError as error:
        found = re.search(r"\(byte (\d+)\)", str(error))
        at = len(content) if found is None else int(found[1])
        raise HistoryFormatError(
            source, f"expected a JSON array of ops: {error}.", line=content[:at].count(b"\n") + 1
        ) from error
    ops: list[_Op] = []
    numbers: list[int] = []
    at, number = 0, 1
    for item in items:
        raw = bytes(item)
        begin = content.index(raw, at)
        number += content.count(b"\n", at, begin)
        numbers.append(number)
        ops.append(_line(raw, number, source, ignored))
        at, number = begin + len(raw), number + raw.count(b"\n")
    return ops, np.asarray(numbers, np.int64)


def _deeper(content: bytes, limit: int) -> int | None:
    """The offset of the first bracket inside more than `limit` others; None if there is none."""
    if content.count(b"[") + content.count(b"{") <= limit:
        return None
    depth = 0
    for found in _BRACKET.finditer(content):
        if found["open"]:
            depth += 1
        elif found[0] in b"]}":
            depth -= 1
        if depth > limit:
            return found.start()
    return None


def _rows(ops: list[_Op], line: Ints, source: str, foreign: bool, ignored: tuple[str, ...]) -> Rows:
    value = _json([op.value for op in ops], "value", line, source)
    f = named_transactions(texts([op.f for op in ops]), value)
    mops = with_mops(f, value) if foreign else None
    if any(op.mops is not None for op in ops):
        try:
            mops = mops_column([op.mops for op in ops])
        except OverflowError as error:
            raise HistoryFormatError(source, "a number of a micro-operation is too large for 64 bits.") from error
    try:
        return Rows(
            line=line,
            process=_processes(ops, line, source),
            type=texts([op.type for op in ops]),
            f=f,
            value=value,
            key=_keys(ops),
            node=texts([op.node for op in ops]),
            error=_errors([op.error for op in ops], line, source),
            term=array([op.term for op in ops], pa.int64()),
            time=_numbers([op.time for op in ops]),
            index=_numbers([op.index for op in ops]),
            due=array([op.due for op in ops], pa.int64()),
            mops=mops,
            tuples=foreign,
            ignored=ignored,
        )
    except OverflowError as error:
        raise HistoryFormatError(source, "a time, an index, a term or a due time is too large for 64 bits.") from error


def _numbers(column: list[int | None]) -> Ints:
    if None in column:
        return np.asarray([NONE if number is None else number for number in column], np.int64)
    return np.asarray(column, np.int64)


def _json(raws: list[msgspec.Raw], name: str, line: Ints, source: str) -> Column:
    """Values as canonical JSON; null for null. Each distinct text is looked at once.

    Raises:
        HistoryFormatError: one has a number that does not fit a float, half a surrogate pair, or is nested too deep.
    """
    if not raws:
        return nothing(0)
    encoded = array([bytes(raw) for raw in raws], pa.binary()).dictionary_encode()
    distinct: Column = encoded.dictionary.cast(pa.string())
    plain: Column = compute.match_substring_regex(distinct, r'^(?:-?[1-9][0-9]{0,17}|0|true|false|"[ !#-\[\]-~]*")$')
    canonical: list[str | None] = []
    for text, fine in zip(distinct.to_pylist(), plain.to_pylist(), strict=True):
        try:
            canonical.append(text if fine else _canonical(text))
        except (msgspec.MsgspecError, ValueError, OverflowError) as error:
            row = [bytes(raw) for raw in raws].index(text.encode())
            problem = f"the {name} {text[:60]} cannot be read: {error}."
            raise HistoryFormatError(source, problem, line=int(line[row])) from error
    return texts(canonical).take(encoded.indices)


def _canonical(text: str) -> str | None:
    if _deeper(text.encode(), _DEPTH_LIMIT) is not None:
        raise ValueError(f"nested deeper than {_DEPTH_LIMIT}")
    value = msgspec.json.decode(text)
    return None if value is None else canonical_json(value)


def _errors(raws: list[msgspec.Raw], line: Ints, source: str) -> Column:
    """A string as it is, anything else as JSON."""
    found = _json(raws, "error", line, source)
    if found.null_count == len(found):
        return found
    encoded: Any = found.dictionary_encode()
    plain = [msgspec.json.decode(text) if text.startswith('"') else text for text in encoded.dictionary.to_pylist()]
    return texts(plain).take(encoded.indices)


def _processes(ops: list[_Op], line: Ints, source: str) -> Ints:
    column = [op.process for op in ops]
    named = {process for process in column if not isinstance(process, int)}
    if not named:
        return np.asarray(column, np.int64)
    for process in named:
        if process is not None and process not in _NAMED_PROCESSES:
            where = int(line[column.index(process)])
            raise HistoryFormatError(
                source, f"expected a process as a whole number, 'nemesis' or 'harness', found {process!r}.", line=where
            )
    known: dict[Any, int] = {None: NO_PROCESS, **_NAMED_PROCESSES}
    return np.asarray([known.get(process, process) for process in column], np.int64)


def _keys(ops: list[_Op]) -> Column:
    column = [op.key for op in ops]
    distinct = list(dict.fromkeys(key for key in column if key is not None))
    if all(isinstance(key, str) for key in distinct):
        return texts(column)
    names = dict(zip(distinct, key_names(distinct), strict=True))
    return texts([None if key is None else names[key] for key in column])

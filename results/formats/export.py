"""A history as text for other tools: Jepsen's EDN, and JSON lines. A piece at a time, so that length costs no memory.

What `edn` writes is what Jepsen, Knossos and Elle expect, which now and then differs from what an op is here:

*   Where a client's `ok` has no value it gets its invocation's: Knossos takes arguments from completions.
*   A cas that was seen not to match is a `:fail`.
*   The nemesis and the harness are always `:info`.
*   An op with a key has the value `[key value]`.

Each of these ops also says what it is exactly, in `:splitbrain/value`, `:splitbrain/type` and `:splitbrain/key`, as far
as it cannot be expressed otherwise: `splitbrain.results.formats.edn` reads back the same history. What it cannot carry:
notes of the table, gaps in indexes; and transactions come back with their micro-operations both as values and as
columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias, cast

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.results.arrow import Column, array, compute, conform, from_table
from splitbrain.results.calls import is_equal
from splitbrain.results.errors import UnknownNameError
from splitbrain.results.formats.edn_text import keyword, string, written, written_json
from splitbrain.results.formats.independent import has_tuples
from splitbrain.results.formats.rows import NONE, Bools, Ints, invocations
from splitbrain.results.history import HARNESS, NEMESIS

Writer: TypeAlias = Callable[[pa.Table], Iterator[tuple[int, str]]]

PIECE_ROWS: Final = 20_000
"""Ops that are turned into text at once."""

_PROCESSES: Final = {NEMESIS: ":nemesis", HARNESS: ":harness"}


def pieces(table: pa.Table, name: str) -> Iterator[tuple[int, str]]:
    """The text of a history, piece by piece, each with the number of ops until then.

    Raises:
        UnknownNameError: no such format is written.
        HistoryFormatError: the table is not a history.
    """
    if name not in WRITERS:
        raise UnknownNameError("format", name, WRITERS, "to export to")
    return WRITERS[name](conform(table))


def _jsonl(table: pa.Table) -> Iterator[tuple[int, str]]:
    encode = msgspec.json.Encoder(order="deterministic").encode
    for start in range(0, table.num_rows, PIECE_ROWS):
        ops = from_table(table.slice(start, PIECE_ROWS))
        yield start + len(ops), "".join(f"{encode(op).decode()}\n" for op in ops)


def _edn(table: pa.Table) -> Iterator[tuple[int, str]]:
    process = np.asarray(table.column("process").to_numpy(), np.int64)
    invocation = invocations(process, is_equal(table, "type", "invoke"))
    named = _has_doubtful_keys(table, process)
    for start in range(0, table.num_rows, PIECE_ROWS):
        piece = table.slice(start, PIECE_ROWS)
        asked = _asked(table, invocation[start : start + PIECE_ROWS])
        yield start + piece.num_rows, "".join(_edn_lines(piece, asked, named))


def _asked(table: pa.Table, invocation: Ints) -> list[str | None]:
    """What each completion's invocation had as its value, as JSON; None for all else."""
    rows = array(np.maximum(invocation, 0))
    values = cast("list[str | None]", table.column("value").take(rows).to_pylist())
    return [None if row == NONE else value for row, value in zip(invocation.tolist(), values, strict=True)]


def _has_doubtful_keys(table: pa.Table, process: Ints) -> bool:
    """Whether a reader could mistake which values are tuples of key and value, so that each op has to say it."""
    client = process >= 0
    key: Any = table.column("key").combine_chunks()
    keyed = np.asarray(key.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    if (keyed & ~client).any():
        return True
    if keyed.any():
        # With values that are not tuples themselves, tuples are recognised for certain if every client has one.
        return not keyed[client].all() or _only_cas(table, client)
    invoked = array(client & is_equal(table, "type", "invoke"))
    completed = array(client & is_equal(table, "type", "ok"))
    value: Any = table.column("value").combine_chunks()
    f: Any = table.column("f").combine_chunks()
    return has_tuples(value.filter(invoked), value.filter(completed), f.filter(invoked))


def _only_cas(table: pa.Table, client: Bools) -> bool:
    f: Column = table.column("f").filter(array(client))
    return compute.unique(f).to_pylist() == ["cas"]


def _edn_lines(piece: pa.Table, asked: Sequence[str | None], named: bool) -> Iterator[str]:
    names = ("index", "time", "type", "process", "f", "key", "value", "mops", "node", "term", "error", "due")
    columns = [piece.column(name).to_pylist() for name in names]
    for index, time, kind, process, f, key, value, mops, node, term, error, due, argument in zip(
        *columns, asked, strict=True
    ):
        shown, says, exact = _as_jepsen_has_it(process, kind, f, value, argument)
        if f == "txn" and shown is not None:
            text = _transaction_as_value(shown)
        else:
            text = written_json(shown) if mops is None or shown is not None else _transaction(mops)
        if key is not None and process >= 0:
            text = f"[{string(key)} {text}]"
        line = (
            f"{{:index {index}, :time {time}, :type :{says}, :process {_PROCESSES.get(process, process)}, "
            f":f {keyword(f)}, :value {text}"
        )
        if key is not None and process < 0:
            line += f", :key {string(key)}"
        if node is not None:
            line += f", :node {string(node)}"
        if term is not None:
            line += f", :term {term}"
        if error is not None:
            line += f", :error {string(error)}"
        if due is not None:
            line += f", :splitbrain/due {due}"
        if says != kind:
            line += f", :splitbrain/type :{kind}"
        if exact:
            line += f", :splitbrain/value {written_json(value)}"
        if named:
            line += f", :splitbrain/key {written(key if process >= 0 else None)}"
        yield line + "}\n"


def _as_jepsen_has_it(
    process: int, kind: str, f: str, value: str | None, argument: str | None
) -> tuple[str | None, str, bool]:
    """An op's value and type for Jepsen, and whether the value has to be said exactly besides."""
    if process < 0:
        return value, "info", False
    if kind == "ok" and f == "cas" and value == "false":
        return argument, "fail", True
    if kind == "ok" and value is None and argument is not None:
        return argument, kind, True
    return value, kind, False


def _transaction_as_value(text: str) -> str:
    """A transaction that is a value: its functions are keywords, as Elle needs them."""
    value: Any = msgspec.json.decode(text)
    try:
        mops = msgspec.convert(value, list[list[Any]])
    except msgspec.ValidationError:
        mops = []
    if not mops or not all(mop and isinstance(mop[0], str) for mop in mops):
        return written(value)
    return "[" + " ".join(f"[{' '.join([keyword(f), *map(written, rest)])}]" for f, *rest in mops) + "]"


def _transaction(mops: Sequence[dict[str, Any]]) -> str:
    found = [
        f"[{keyword(mop['f'])} {string(mop['key'])} {written(mop['values'] if mop['value'] is None else mop['value'])}]"
        for mop in mops
    ]
    return "[" + " ".join(found) + "]"


WRITERS: Final[dict[str, Writer]] = {"edn": _edn, "jsonl": _jsonl}
"""Formats that are written, by name."""

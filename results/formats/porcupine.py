r"""Porcupine's test logs, both kinds of them.

Jepsen's console log of a cas-register in etcd, fields separated by tabs:

    INFO  jepsen.util - PROCESS\t:TYPE\t:F\tVALUE

A write or cas with `:info`, or without completion, crashed. `:fail :read :timed-out` is a read of which nothing is
known: it stays a `fail`. `:fail :cas` is an answer, that the compare did not match: an `ok` cas with the value False.
Lines of other loggers are left out; the nemesis is kept.

And one EDN map a line of a multi-key string store:

    {:process 0, :type :invoke, :f :append, :key "0", :value "x"}
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pyarrow as pa

from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.formats import edn, edn_text, whole_lines
from splitbrain.results.formats.rows import NONE, Rows, nothing, texts
from splitbrain.results.history import NEMESIS
from splitbrain.results.values import NotFiniteError, canonical_json

_LOG_LINE: Final = re.compile(r"(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\s+(\S+) - (.*)")
_MESSAGE: Final = re.compile(r"([0-9]{1,10}|:nemesis)\s+:(invoke|ok|fail|info)\s+:([\w-]+)\s+(\S.*)")
_LOGGER: Final = "jepsen.util"
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")
_PAIR: Final = re.compile(r"\[-?[0-9]{1,18} -?[0-9]{1,18}\]")
_FUNCTIONS: Final = ("read", "write", "cas")
_STORE_FUNCTIONS: Final = ("get", "put", "append")


def read(text: str, source: str) -> Rows:
    """The ops of a log of either kind; `source` names it in errors.

    Raises:
        HistoryFormatError: a line is neither.
    """
    if text.lstrip().startswith("{"):
        return _store(text, source)
    lines: list[int] = []
    cells: list[tuple[int, str, str, str | None, str | None]] = []
    for number, line in enumerate(whole_lines(text, source), 1):
        op = _op(line.strip(), number, source) if line.strip() else None
        if op is not None:
            lines.append(number)
            cells.append(op)
    process, kind, f, value, error = zip(*cells, strict=True) if cells else ((), (), (), (), ())
    count = len(lines)
    return Rows(
        line=np.asarray(lines, np.int64),
        process=np.asarray(process, np.int64),
        type=texts(kind),
        f=texts(f),
        value=texts(value),
        key=nothing(count),
        node=nothing(count),
        error=texts(error),
        term=nothing(count, pa.int64()),
        time=np.full(count, NONE, np.int64),
        index=np.full(count, NONE, np.int64),
    )


def _op(line: str, number: int, source: str) -> tuple[int, str, str, str | None, str | None] | None:
    """Process, type, function, value as JSON, and error of a line; None for another logger's."""
    found = _LOG_LINE.fullmatch(line)
    if found is None:
        raise HistoryFormatError(
            source,
            f"expected 'INFO  jepsen.util - PROCESS :TYPE :F VALUE' or an EDN map, found {line[:60]!r}.",
            line=number,
        )
    if found[1] != _LOGGER:
        return None
    op = _MESSAGE.fullmatch(found[2])
    if op is None:
        raise HistoryFormatError(
            source, f"expected 'PROCESS :invoke|:ok|:fail|:info :F VALUE', found {found[2][:60]!r}.", line=number
        )
    process, kind, f, text = op.groups()
    if process == ":nemesis":
        return NEMESIS, kind, f, _nemesis_value(text), None
    if f not in _FUNCTIONS:
        raise HistoryFormatError(source, f"expected :read, :write or :cas, found ':{f}'.", line=number)
    if kind in ("invoke", "ok"):
        return int(process), kind, f, _value(f, text, number, source), None
    if kind == "fail" and f == "cas" and not text.startswith(":"):
        return int(process), "ok", f, "false", None
    return int(process), kind, f, None, text.removeprefix(":") if text.startswith(":") else None


def _value(f: str, text: str, number: int, source: str) -> str | None:
    if f == "cas":
        if _PAIR.fullmatch(text) is None:
            raise HistoryFormatError(
                source, f"expected the value of a cas as '[EXPECTED NEW]', found {text!r}.", line=number
            )
        return text.replace(" ", ",")
    if f == "read" and text == "nil":
        return None
    if _NUMBER.fullmatch(text) is None:
        raise HistoryFormatError(source, f"expected a number as the value of a {f}, found {text!r}.", line=number)
    return text


def _nemesis_value(text: str) -> str | None:
    """What the nemesis says, read as EDN where it is; as a string where it is not."""
    try:
        return edn_text.json_of(text)
    except (edn_text.EdnError, NotFiniteError):
        return canonical_json(text)


def _store(text: str, source: str) -> Rows:
    """The maps of a key-value store's log."""
    rows = edn.read(text, source)
    for number, f, key in zip(rows.line.tolist(), rows.f.to_pylist(), rows.key.to_pylist(), strict=True):
        if f not in _STORE_FUNCTIONS or key is None:
            raise HistoryFormatError(
                source,
                f"expected '{{:process N, :type :T, :f :get|:put|:append, :key \"K\", :value V}}', found :f {f}, "
                f":key {key}.",
                line=number,
            )
    return rows

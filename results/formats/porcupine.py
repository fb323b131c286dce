r"""Porcupine's test logs, both kinds of them.

Jepsen's console log of a cas-register in etcd, fields separated by tabs:

    INFO  jepsen.util - PROCESS\t:TYPE\t:F\tVALUE

A write or cas with `:info`, or without completion, crashed. `:fail :read :timed-out` is a read of which nothing is
known: it stays a `fail`. `:fail :cas` is an answer, that the compare did not match: an `ok` cas with the value False.
Lines of other loggers, and of processes that are not numbers (the nemesis), are left out.

And one EDN map a line of a multi-key string store:

    {:process 0, :type :invoke, :f :append, :key "0", :value "x"}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

from results.errors import HistoryFormatError
from results.formats import OpenOps, whole_lines
from results.history import Op, OpType

_LOG_LINE: Final = re.compile(r"(TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\s+(?P<logger>\S+) - (?P<message>.*)")
_MESSAGE: Final = re.compile(
    r"(?P<process>\d+|:\w+)\s+:(?P<type>invoke|ok|fail|info)\s+:(?P<f>[\w-]+)\s+(?P<value>\S.*)"
)
_TEXT: Final = r'"(?:[^"\\]|\\.)*"'
_MAP: Final = re.compile(
    r"\{:process (?P<process>\d+), :type :(?P<type>invoke|ok|fail|info), :f :(?P<f>get|put|append), "
    rf":key (?P<key>{_TEXT}), :value (?P<value>nil|{_TEXT})\}}"
)


def read(lines: Iterable[str], source: str) -> Iterator[Op]:
    """The ops of a log of either kind; `source` names it in errors.

    Raises:
        HistoryFormatError: a line is neither.
    """
    open_ops = OpenOps(source)
    for number, line in whole_lines(lines, source):
        if line.startswith("{"):
            yield from _map_op(line, number, source, open_ops)
        else:
            yield from _log_op(line, number, source, open_ops)


def _log_op(line: str, number: int, source: str, open_ops: OpenOps) -> Iterator[Op]:
    found = _LOG_LINE.fullmatch(line)
    if found is None:
        raise HistoryFormatError(
            source,
            f"expected 'INFO  jepsen.util - PROCESS :TYPE :F VALUE' or an EDN map, found {line[:60]!r}.",
            line=number,
        )
    if found["logger"] != "jepsen.util":
        return
    op = _MESSAGE.fullmatch(found["message"])
    if op is None:
        raise HistoryFormatError(
            source,
            f"expected 'PROCESS :invoke|:ok|:fail|:info :F VALUE', found {found['message'][:60]!r}.",
            line=number,
        )
    if not op["process"].startswith(":"):
        kind = cast(OpType, op["type"])
        yield from _log_event(int(op["process"]), kind, op["f"], op["value"], number, source, open_ops)


def _log_event(
    process: int, kind: OpType, f: str, text: str, number: int, source: str, open_ops: OpenOps
) -> Iterator[Op]:
    if f not in ("read", "write", "cas"):
        raise HistoryFormatError(source, f"expected :read, :write or :cas, found ':{f}'.", line=number)
    if kind == "invoke":
        value = _register_value(f, text, number, source)
        yield from open_ops.invoke(Op(process=process, type="invoke", f=f, value=value))
        return
    invocation = open_ops.take(process, f, number)
    if kind == "ok":
        yield invocation.complete("ok", _register_value(f, text, number, source))
    elif kind == "fail" and f == "cas" and not text.startswith(":"):
        yield invocation.complete("ok", value=False)
    else:
        yield invocation.complete(kind, error=text.removeprefix(":") if text.startswith(":") else None)


def _register_value(f: str, text: str, number: int, source: str) -> Any:
    if f == "read" and text == "nil":
        return None
    if f == "cas":
        pair = re.fullmatch(r"\[(\d+) (\d+)\]", text)
        if pair is None:
            raise HistoryFormatError(
                source, f"expected the value of a cas as '[EXPECTED NEW]', found {text!r}.", line=number
            )
        return [int(pair[1]), int(pair[2])]
    if not text.isdecimal():
        raise HistoryFormatError(source, f"expected a number as the value of a {f}, found {text!r}.", line=number)
    return int(text)


def _map_op(line: str, number: int, source: str, open_ops: OpenOps) -> Iterator[Op]:
    found = _MAP.fullmatch(line)
    if found is None:
        raise HistoryFormatError(
            source,
            f"expected '{{:process N, :type :T, :f :get|:put|:append, :key \"K\", :value V}}', found {line[:60]!r}.",
            line=number,
        )
    process, kind, f = int(found["process"]), cast(OpType, found["type"]), found["f"]
    key = _text(found["key"], number, source)
    value = None if found["value"] == "nil" else _text(found["value"], number, source)
    if kind == "invoke":
        yield from open_ops.invoke(Op(process=process, type="invoke", f=f, key=key, value=value))
        return
    invocation = open_ops.take(process, f, number)
    if invocation.key != key:
        raise HistoryFormatError(
            source,
            f"process {process} completes {f} of key {key!r}, but its open op is of key {invocation.key!r}.",
            line=number,
        )
    yield invocation.complete(kind, value if kind == "ok" else None)


def _text(literal: str, number: int, source: str) -> str:
    try:
        return cast(str, json.loads(literal))
    except json.JSONDecodeError as error:
        raise HistoryFormatError(
            source, f"the string {literal[:40]!r} cannot be read: {error.msg}.", line=number
        ) from error

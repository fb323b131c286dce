"""The compact format of a cas-register history: one call or return a line.

    c ID CLIENT F A B      F: 0 read, 1 write of A, 2 cas of A to B; -1 is nil
    r ID ok|fail VALUE     VALUE: what a read returned

A return of `fail` for a cas is an answer, that the compare did not match: an `ok` cas with the value False. An op
without return crashed.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from splitbrain.results.arrow import Column, array, compute
from splitbrain.results.columns import flags, text
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.formats import whole_lines
from splitbrain.results.formats.rows import NONE, Bools, Ints, Rows, invocations, nothing, texts

_READ: Final = 0
_CAS: Final = 2
_FUNCTIONS: Final = ("read", "write", "cas")
_NIL: Final = -1
_CALL: Final = r"^c -?\d{1,18} \d{1,18} [012] -?\d{1,18} -?\d{1,18}\s*$"
_RETURN: Final = r"^r -?\d{1,18} (ok|fail) -?\d{1,18}\s*$"


def read(content: str, source: str) -> Rows:
    """The ops of a file's content; `source` names it in errors.

    Raises:
        HistoryFormatError: a line is neither a call nor the return of an op that was called.
    """
    every = whole_lines(content, source)
    numbers = [number for number, line in enumerate(every, 1) if line and not line.isspace()]
    line = np.asarray(numbers, np.int64)
    lines = every if len(numbers) == len(every) else [every[number - 1] for number in numbers]
    column: Any = texts(lines)
    is_call = _matches(column, _CALL)
    is_return = _matches(column, _RETURN)
    wrong = np.flatnonzero(~is_call & ~is_return)
    if len(wrong):
        raise HistoryFormatError(
            source,
            f"expected 'c ID CLIENT F A B' with F 0, 1 or 2, or 'r ID ok|fail VALUE', found {lines[wrong[0]][:60]!r}.",
            line=int(line[wrong[0]]),
        )
    calls = _integers(column.filter(array(is_call)), 5, {"c ": ""})
    returns = _integers(column.filter(array(is_return)), 3, {"r ": "", "ok": "1", "fail": "0"})
    invocation = _invocations(line, is_call, calls[:, 0], returns[:, 0], source)
    rows = _rows(line, is_call, calls, returns, invocation)
    _refuse_late(rows, is_call, returns[:, 0], np.flatnonzero(is_call)[invocation], source)
    return rows


def _matches(column: Any, pattern: str) -> Bools:
    if not len(column):
        return np.zeros(0, np.bool_)
    found: Any = compute.match_substring_regex(column, pattern)
    return flags(found)


def _integers(column: Any, width: int, words: dict[str, str]) -> Ints:
    """The numbers of lines that are known to fit."""
    if not len(column):
        return np.zeros((0, width), np.int64)
    joined = "\n".join(column.to_pylist())
    for word, number in words.items():
        joined = joined.replace(word, number)
    return np.fromstring(joined, np.int64, sep=" ").reshape(-1, width)


def _invocations(line: Ints, is_call: Bools, called: Ints, returned: Ints, source: str) -> Ints:
    """Which call each return belongs to, as its number among the calls."""
    row_of_call, row_of_return = np.flatnonzero(is_call), np.flatnonzero(~is_call)
    if not len(called) or not len(returned):
        found, fits = np.zeros(len(returned), np.int64), np.zeros(len(returned), np.bool_)
    else:
        order = np.lexsort((row_of_call, called))
        # An id may be called again after its return: the last call before the return counts.
        keys, wanted = _by_id_and_row(called[order], row_of_call[order]), _by_id_and_row(returned, row_of_return)
        at = np.asarray(np.searchsorted(keys, wanted), np.int64) - 1
        found = order[np.maximum(at, 0)]
        fits = (at >= 0) & (called[found] == returned)
    first = np.zeros(len(returned), np.bool_)
    first[np.unique(found, return_index=True)[1]] = True
    wrong = np.flatnonzero(~(fits & first))
    if len(wrong):
        number = int(line[row_of_return[wrong[0]]])
        raise HistoryFormatError(source, f"op {returned[wrong[0]]} returns, but is not under way.", line=number)
    return found


def _refuse_late(rows: Rows, is_call: Bools, returned: Ints, called: Ints, source: str) -> None:
    """Refuse the return of an op after whose call its client called another one."""
    late = np.flatnonzero(invocations(rows.process, is_call)[~is_call] != called)
    if len(late):
        number = int(rows.line[np.flatnonzero(~is_call)[late[0]]])
        raise HistoryFormatError(source, f"op {returned[late[0]]} returns, but is not under way.", line=number)


def _by_id_and_row(ids: Ints, rows: Ints) -> Any:
    pairs = np.empty(len(ids), dtype=[("id", np.int64), ("row", np.int64)])
    pairs["id"], pairs["row"] = ids, rows
    return pairs


def _rows(line: Ints, is_call: Bools, calls: Ints, returns: Ints, invocation: Ints) -> Rows:
    count = len(line)
    asked = calls[invocation]
    process, f = np.empty(count, np.int64), np.empty(count, np.int64)
    process[is_call], process[~is_call] = calls[:, 1], asked[:, 1]
    f[is_call], f[~is_call] = calls[:, 2], asked[:, 2]
    said_ok = returns[:, 1] == 1
    refused = ~said_ok & (asked[:, 2] == _CAS)
    kind = np.zeros(count, np.int64)
    kind[~is_call] = np.where(said_ok | refused, 1, 2)
    return Rows(
        line=line,
        process=process,
        type=texts(["invoke", "ok", "fail"]).take(array(kind)),
        f=texts(list(_FUNCTIONS)).take(array(f)),
        value=_values(is_call, calls, returns, invocation),
        key=nothing(count),
        node=nothing(count),
        error=nothing(count),
        term=nothing(count, pa.int64()),
        time=np.full(count, NONE, np.int64),
        index=np.full(count, NONE, np.int64),
    )


def _values(is_call: Bools, calls: Ints, returns: Ints, invocation: Ints) -> Column:
    """JSON: what is written, [expected, new], what a read returned, false for a cas that did not match."""
    f = calls[:, 2]
    first, second = _number(calls[:, 3]), _number(calls[:, 4])
    null = text("null")
    pair = compute.binary_join_element_wise(
        text("["),
        compute.coalesce(first, null),
        text(","),
        compute.coalesce(second, null),
        text("]"),
        text(""),
        null_handling="replace",
    )
    nil = text(None)
    called = compute.if_else(array(f == _READ), nil, compute.if_else(array(f == _CAS), pair, first))
    asked, ok = f[invocation], returns[:, 1] == 1
    answer = compute.if_else(array(asked == _READ), _number(returns[:, 2]), called.take(array(invocation)))
    refused = compute.if_else(array(asked == _CAS), text("false"), nil)
    returned = compute.if_else(array(ok), answer, refused)
    position = np.empty(len(is_call), np.int64)
    position[is_call] = np.arange(len(calls))
    position[~is_call] = len(calls) + np.arange(len(returns))
    return pa.concat_arrays([called, returned]).take(array(position))


def _number(numbers: Ints) -> Any:
    """Numbers as text, null for nil."""
    return compute.if_else(array(numbers == _NIL), text(None), compute.cast(array(numbers), pa.string()))

"""The text format of Plume (Liu, Gu, Wei and Basin, OOPSLA 2024), which AWDIT reads as well: a micro-operation a line.

    w(5,17,3,42)      session 3 wrote 17 to key 5 in transaction 42
    r(5,0,4,43)       session 4 read key 5 in transaction 43, and found nothing
    w(5,18,3,-1)      session 3 wrote 18 to key 5 in a transaction that was aborted

All four are whole numbers from 0 on. 0 is the value of keys that were never written: a read of it becomes a read of
nothing, and a write of it is refused, since a read of 0 could then mean either. Transactions are in the order of their
first lines. Of an aborted transaction the file does not say which lines belong together: each becomes one of its own.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from splitbrain.results.arrow import compute
from splitbrain.results.columns import flags
from splitbrain.results.columns import text as literal
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.formats import whole_lines
from splitbrain.results.formats.micro import Bools, matched, rows_of, whole_numbers
from splitbrain.results.formats.rows import Ints, Rows

_LINE: Final = r"^(?P<f>[rw])\((?P<key>[0-9]+),(?P<value>[0-9]+),(?P<session>[0-9]+),(?P<transaction>-1|[0-9]+)\)\r?$"
_ABORTED: Final = -1


def read(text: str, source: str) -> Rows:
    """The ops of a file; `source` names it in errors.

    Raises:
        HistoryFormatError: a line is no micro-operation, or cut off, writes 0, or a transaction is in two sessions.
    """
    lines = whole_lines(text, source)
    groups, fits = matched(lines, _LINE)
    filled = np.array([bool(each.strip()) for each in lines], np.bool_)
    wrong = filled & ~fits
    if wrong.any():
        at = int(np.argmax(wrong))
        raise HistoryFormatError(
            source, f"expected r(KEY,VALUE,SESSION,TRANSACTION) or w(...), found {lines[at]!r:.60}.", line=at + 1
        )
    line = np.flatnonzero(fits) + 1
    some = groups.drop_null()
    write = flags(compute.equal(compute.struct_field(some, ["f"]), literal("w")))
    key, value, session, transaction = (
        whole_numbers(some, name, line, source) for name in ("key", "value", "session", "transaction")
    )
    _refuse_writes_of_nothing(write & (value == 0), line, source)
    number, first = _numbered(transaction)
    _refuse_two_sessions(session != session[first][number], transaction, line, source)
    return rows_of(
        line=line,
        write=write,
        key=key,
        value=value,
        initial=~write & (value == 0),
        transaction=number,
        process=session[first],
        aborted=transaction[first] == _ABORTED,
    )


def _numbered(transaction: Ints) -> tuple[Ints, Ints]:
    """The number of each line's transaction, by first lines, and the first line of each number."""
    count = len(transaction)
    # Each aborted line is a transaction of its own: no other has its number.
    own = np.where(transaction == _ABORTED, -1 - np.arange(count), transaction)
    _, first, inverse = np.unique(own, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank[inverse.reshape(-1)], first[order]


def _refuse_writes_of_nothing(wrong: Bools, line: Ints, source: str) -> None:
    if wrong.any():
        raise HistoryFormatError(
            source,
            "a write of 0, which is the value of keys that were never written: a read of 0 could mean either. Write "
            "other values.",
            line=int(line[np.argmax(wrong)]),
        )


def _refuse_two_sessions(wrong: Bools, transaction: Ints, line: Ints, source: str) -> None:
    if wrong.any():
        at = int(np.argmax(wrong))
        raise HistoryFormatError(
            source, f"transaction {transaction[at]} has begun in another session before.", line=int(line[at])
        )

"""The text format of AWDIT's own tests (Møldrup and Pavlogiannis, PLDI 2025): sessions one after the other.

    w 5 17            wrote 17 to key 5
    r 6 0             read key 6, and found 0
    -----             the transaction ends
    =====             the session ends

Keys and values are whole numbers from 0 on. No value is initial: a read of what no line writes is a read of nothing
that was ever written. A line of any number of `-` or `=` separates; sessions and transactions without micro-operations
count for nothing. The last line may lack its end, as in AWDIT's own files: so a number that was cut there is not seen.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from splitbrain.results.arrow import compute
from splitbrain.results.columns import flags
from splitbrain.results.columns import text as literal
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.formats.micro import matched, rows_of, whole_numbers
from splitbrain.results.formats.rows import Ints, Rows

_LINE: Final = r"^\s*(?P<f>[rw])\s+(?P<key>[0-9]+)\s+(?P<value>[0-9]+)\s*$"


def read(text: str, source: str) -> Rows:
    """The ops of a file; `source` names it in errors.

    Raises:
        HistoryFormatError: a line is neither a micro-operation nor a separator, or a number is too large.
    """
    lines = text.split("\n")
    groups, fits = matched(lines, _LINE)
    session, transaction = _separated(lines, fits, source)
    line = np.flatnonzero(fits) + 1
    some = groups.drop_null()
    write = flags(compute.equal(compute.struct_field(some, ["f"]), literal("w")))
    key, value = (whole_numbers(some, name, line, source) for name in ("key", "value"))
    _, first, number = np.unique(transaction, return_index=True, return_inverse=True)
    _, process = np.unique(session[first], return_inverse=True)
    return rows_of(
        line=line,
        write=write,
        key=key,
        value=value,
        initial=np.zeros(len(line), np.bool_),
        transaction=number.reshape(-1).astype(np.int64),
        process=process.reshape(-1).astype(np.int64),
        aborted=np.zeros(len(first), np.bool_),
    )


def _separated(lines: list[str], fits: np.ndarray[tuple[int], np.dtype[np.bool_]], source: str) -> tuple[Ints, Ints]:
    """Of each micro-operation, how many sessions and transactions ended before it."""
    ends = np.zeros((2, len(lines)), np.int64)
    for at in np.flatnonzero(~fits).tolist():
        mark = lines[at].strip()
        if mark and set(mark) not in ({"-"}, {"="}):
            raise HistoryFormatError(
                source, f"expected r KEY VALUE, w KEY VALUE, ----- or =====, found {lines[at]!r:.60}.", line=at + 1
            )
        ends[0, at] = mark[:1] == "="
        ends[1, at] = bool(mark)
    before = np.cumsum(ends, axis=1)
    return before[0][fits], before[1][fits]

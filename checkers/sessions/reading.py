"""From which write each read has its value.

A read is attributed to a write if no other op can have written its value by the end of the read. What certainly failed
wrote nothing; what crashed may have, from its invocation on.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from splitbrain.checkers.models import CasRegister
from splitbrain.checkers.sessions.options import READ, Options, is_read
from splitbrain.checkers.weaker.calls import NOTHING, Calls, Registers, read_calls
from splitbrain.results.calls import is_equal
from splitbrain.results.columns import array, codes, numbers

INITIAL: Final = -2
"""In the place of a write: the value at the beginning."""

AMBIGUOUS: Final = -3
"""In the place of a write: several may be it."""

NO_WRITE: Final = -4
"""In the place of a write: no op can have written the value."""


@dataclass(frozen=True)
class Reading:
    """The client ops of a run that may have happened, by invocation, and what they saw.

    Attributes:
        table: the rows of clients.
        calls: the same as reads and writes of registers, all reads under the one name `read`.
        registers: their values.
        f: function by op, as the history names it.
        session: number of its session, by op.
        sessions: how many there are.
        source: by op, the write from which it has what it saw, INITIAL, AMBIGUOUS or NO_WRITE; NOTHING if it saw none,
            or if it is not known that it happened.
    """

    table: pa.Table
    calls: Calls
    registers: Registers
    f: list[str]
    session: list[int]
    sessions: int
    source: list[int]

    @property
    def fs(self) -> list[str]:
        """The functions, each once."""
        return list(dict.fromkeys(self.f))


def read(history: pa.Table, options: Options) -> Reading:
    """Read a run.

    Args:
        history: all rows, in order, columns as in `splitbrain.results.arrow.HISTORY_SCHEMA`.
        options: of the checker.

    Raises:
        HistoryFormatError: completions do not fit invocations, or a process has two ops under way.
        UsageError: an op is none of a register's.
    """
    of_clients = numbers(history.column("process")) >= 0
    table = history if of_clients.all() else history.filter(array(of_clients))
    of_row, names = codes(table.column("f"))
    plain = [READ if is_read(name) else name for name in names]
    place = table.column_names.index("f")
    renamed = table.set_column(place, "f", array([plain[code] for code in of_row.tolist()], pa.string()))
    calls = read_calls(renamed, CasRegister())
    registers = calls.registers
    assert registers is not None, "a register has values"
    invoked = calls.ops.invoked
    session, sessions = _sessions(table, invoked.tolist(), options)
    f = [names[code] for code in of_row[invoked].tolist()]
    return Reading(table, calls, registers, f, session, sessions, _sources(calls, registers))


def _sessions(table: pa.Table, invoked: list[int], options: Options) -> tuple[list[int], int]:
    """The number of its session by op, and how many there are."""
    process: list[int] = numbers(table.column("process")).tolist()
    ends = is_equal(table, "type", "info")  # a history may go on with that process, but it is another session
    if options.sessions == "connection":
        ends |= is_equal(table, "type", "fail")
    ended: dict[int, list[int]] = {}
    for row in np.flatnonzero(ends).tolist():
        ended.setdefault(process[row], []).append(row)
    number: dict[tuple[int, int], int] = {}
    found: list[int] = []
    for row in invoked:
        before = bisect_left(ended[process[row]], row) if process[row] in ended else 0
        found.append(number.setdefault((process[row], before), len(number)))
    return found, len(number)


def _sources(calls: Calls, registers: Registers) -> list[int]:
    found = [NOTHING] * len(calls.key)
    waiting: list[int] = []
    for op, value in enumerate(registers.sees):
        if value != NOTHING and calls.certain[op]:
            source = found[op] = _source(calls, registers, op)
            if source >= 0 and not calls.certain[source]:
                waiting.append(source)
    while waiting:  # a crashed compare-and-set whose value was read happened, and so saw something itself
        op = waiting.pop()
        if registers.sees[op] != NOTHING and found[op] == NOTHING:
            source = found[op] = _source(calls, registers, op)
            if source >= 0 and not calls.certain[source]:
                waiting.append(source)
    return found


def _source(calls: Calls, registers: Registers, op: int) -> int:
    value, end = registers.sees[op], calls.end[op]
    initial = value == registers.initial[calls.key[op]]
    source = NO_WRITE
    for write in registers.writers[value]:
        if calls.begin[write] > end:
            break  # writers are in the order of their invocations
        if write == op:
            continue
        if source != NO_WRITE or initial:
            return AMBIGUOUS
        source = write
    return INITIAL if source == NO_WRITE and initial else source

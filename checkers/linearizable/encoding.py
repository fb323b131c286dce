"""From ops to the events of a search: calls and returns in order, each live op in a slot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from splitbrain.checkers.kernels import kernel
from splitbrain.checkers.linearizable.frontier import CALL, CALL_OBSERVER, CRASH, EXPIRE, I8, I32, I64, RETURN, Events
from splitbrain.checkers.linearizable.ops import B, Ops

T = TypeVar("T", bound=np.generic)

SPARSE: Final = 16
"""With more rows per event than this, events are sorted: they are a small part of a history."""

FAR: Final = 1 << 62
"""Beyond every row."""


@dataclass(frozen=True)
class Problem:
    """What the search is given.

    Attributes:
        events: calls and returns in order.
        op: the op of each event.
        slots: how many ops are under way at once, at most (crashed ones not counted).
    """

    events: Events
    op: I32
    slots: int


def events(ops: Ops, observer: B, *, until_row: int | None = None, obliged: B | None = None) -> Problem:
    """The events of a search.

    Args:
        ops: the partition.
        observer: which transitions change no reachable state. One that is not obliged is left out: it says nothing.
        until_row: leave out every event after this row. Ops that were under way then stay as they turned out later.
        obliged: ops (by number) that must have happened. Others that completed may have, before their completion. All
            that completed if left out.
    """
    observers = observer[ops.transition]
    must = ~ops.crashed if obliged is None else obliged & ~ops.crashed
    called = must | ~observers
    if until_row is not None:
        called &= ops.invoked <= until_row
    kind, op = _in_order(*_marks(ops, called, observers, must, until_row))
    slot = np.zeros(len(op), np.int32)
    slots = _assign_slots(kind, op, slot, np.zeros(len(called), np.int32), np.zeros(len(called), np.int32))
    return Problem(Events(kind, slot, ops.transition[op]), op, slots)


class _Marks(NamedTuple):
    """Where events are, and what: row, kind and op of each."""

    rows: I64
    kind: I8
    op: I32


def _marks(ops: Ops, called: B, observers: B, must: B, until_row: int | None) -> tuple[_Marks, _Marks]:
    """Calls and ends of the ops that are `called`. All of a column is taken as it is: a copy takes much room."""
    numbers = np.flatnonzero(called).astype(np.int32)
    ends = called & ~ops.crashed
    if until_row is not None:
        ends &= ops.completed <= until_row
    ending = numbers if len(numbers) == np.count_nonzero(ends) else np.flatnonzero(ends).astype(np.int32)
    kind = np.where(ops.crashed, np.int8(CRASH), np.where(observers, np.int8(CALL_OBSERVER), np.int8(CALL)))
    end = np.where(must, np.int8(RETURN), np.int8(EXPIRE))
    return (
        _Marks(_all_or(ops.invoked, numbers), _all_or(kind, numbers), numbers),
        _Marks(_all_or(ops.completed, ending), _all_or(end, ending), ending),
    )


def _all_or(values: npt.NDArray[T], numbers: I32) -> npt.NDArray[T]:
    return values if len(numbers) == len(values) else values[numbers]


def _in_order(calls: _Marks, ends: _Marks) -> tuple[I8, I32]:
    """Kind and op of all events by row; of those that share a row calls come first, then as they were given.

    In a history each row is one event. Then events are laid out by row, which takes a fraction of the time and of the
    room of sorting them.
    """
    count = len(calls.rows) + len(ends.rows)
    first = int(min(calls.rows.min(initial=FAR), ends.rows.min(initial=FAR)))
    rows = int(max(calls.rows.max(initial=-1), ends.rows.max(initial=-1))) + 1 - first
    if 0 < rows <= SPARSE * count:
        kind_at, op_at = np.full(rows, -1, np.int8), np.empty(rows, np.int32)
        for marks in (calls, ends):
            at = marks.rows - first if first else marks.rows
            kind_at[at], op_at[at] = marks.kind, marks.op
        happens = kind_at >= 0
        if int(np.count_nonzero(happens)) == count:
            return (kind_at, op_at) if rows == count else (kind_at[happens], op_at[happens])
    order = np.argsort(np.concatenate([calls.rows, ends.rows]), kind="stable")
    kind = np.concatenate([calls.kind, ends.kind])[order]
    return kind.astype(np.int8), np.concatenate([calls.op, ends.op])[order].astype(np.int32)


def rows_until(until: int, *rows: I64) -> I64:
    """Rows up to one, ascending; each is the row of one event. To sort them would take three times the room."""
    happens = np.zeros(until + 1, np.bool_)
    for each in rows:
        happens[each if each.max(initial=-1) <= until else each[each <= until]] = True
    return np.flatnonzero(happens).astype(np.int64, copy=False)


@kernel
def _assign_slots(kind: I8, op: I32, slot: I32, slot_of_op: I32, free: I32) -> int:
    """Give each live op the slot that was freed last; the number of slots."""
    slots, frees = 0, 0
    for event in range(kind.size):
        if kind[event] == RETURN or kind[event] == EXPIRE:
            slot[event] = slot_of_op[op[event]]
            free[frees] = slot[event]
            frees += 1
        elif kind[event] != CRASH:
            if frees > 0:
                frees -= 1
                slot[event] = free[frees]
            else:
                slot[event] = slots
                slots += 1
            slot_of_op[op[event]] = slot[event]
    return slots


def warm_up() -> None:
    """Compile the kernel of this module, or load it from the cache."""
    marks = np.zeros(0, np.int32)
    _assign_slots(np.zeros(0, np.int8), marks, marks, marks, marks)

"""From ops to the events of a search: calls and returns in order, each live op in a slot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from checkers.kernels import kernel
from checkers.linearizable.frontier import CALL, CALL_OBSERVER, CRASH, EXPIRE, I8, I32, RETURN, Events
from checkers.linearizable.ops import B, Ops


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
    numbers = np.flatnonzero(called)
    ending = numbers[~ops.crashed[numbers]]
    if until_row is not None:
        ending = ending[ops.completed[ending] <= until_row]
    calls = np.where(ops.crashed[numbers], CRASH, np.where(observers[numbers], CALL_OBSERVER, CALL))
    # By row, of which each has one event at most: sorting the events would take several times as long, and the room.
    rows = int(max(ops.invoked[numbers].max(initial=-1), ops.completed[ending].max(initial=-1))) + 1
    kind_at, op_at = np.full(rows, -1, np.int8), np.empty(rows, np.int32)
    kind_at[ops.invoked[numbers]], op_at[ops.invoked[numbers]] = calls, numbers
    kind_at[ops.completed[ending]], op_at[ops.completed[ending]] = np.where(must[ending], RETURN, EXPIRE), ending
    happens = kind_at >= 0
    kind, op = kind_at[happens], op_at[happens]
    slot = np.zeros(len(op), np.int32)
    slots = _assign_slots(kind, op, slot, np.zeros(len(ops.crashed), np.int32), np.zeros(len(numbers), np.int32))
    return Problem(Events(kind, slot, ops.transition[op]), op, slots)


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

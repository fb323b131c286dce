"""From the events of a history to the machine's program, and where a configuration counts the uses of crashed ops."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from splitbrain.checkers.kernels import kernel
from splitbrain.checkers.linearizable.frontier import (
    ASSIGNMENTS,
    CALL,
    CALL_OVERWRITE,
    CRASH,
    EXPIRE,
    I8,
    I32,
    I64,
    RETURN,
    U64,
    Crashed,
    Events,
    Program,
    Steps,
)
from splitbrain.checkers.linearizable.transitions import Stepper
from splitbrain.results.columns import distinct

FOREVER = 1 << 61
"""An event that does not come."""


def program(events: Events, stepper: Stepper) -> Program:
    """Events as the machine reads them: alike transitions are one, overwrites are separate, ends are known."""
    alone = np.array_equal(stepper.alike, np.arange(len(stepper.alike)))
    transition = events.transition if alone else stepper.alike[events.transition]
    overwrites = (events.kind == CALL) & stepper.overwrite[transition]
    kind = np.where(overwrites, np.int8(CALL_OVERWRITE), events.kind)
    slots = int(events.slot.max(initial=0)) + 1
    ended = np.zeros(len(kind), np.int32)
    _find_ends(kind, events.slot, ended, np.zeros(slots, np.int64))
    return Program(kind, events.slot, transition, ended)


@kernel
def _find_ends(kind: I8, slot: I32, ended: I32, end: I64) -> None:
    """By call, the event that ends the op, as in `Program`."""
    for s in range(end.size):
        end[s] = kind.size
    for event in range(kind.size - 1, -1, -1):
        if kind[event] in (RETURN, EXPIRE):
            end[slot[event]] = event
        elif kind[event] != CRASH:
            last = end[slot[event]]
            optional = last < kind.size and kind[last] == EXPIRE
            ended[event] = -1 - last if optional else last
            end[slot[event]] = kind.size


def crashed(what: Program, stepper: Stepper, policy: int, cap: int, *, remember: bool) -> Crashed:
    """No crashed op yet, and a field for each class of which there will be any: wide enough for all of it.

    Args:
        what: the program.
        stepper: steps of the model.
        policy: NARROW or WIDE.
        cap: of ways to use crashed ops.
        remember: whether to count the uses of crashed ops to the end, even if no op needs the value that they leave.
    """
    until = _asked_until(what, stepper.steps)
    if remember:
        until[:] = FOREVER
    events = np.flatnonzero(what.kind == CRASH)
    events = events[until[what.transition[events]] > events]
    width = max(1, len(stepper.transitions))
    total = np.bincount(what.transition[events], minlength=width)
    word, shift, guards, bits = _fields(total)
    return Crashed(
        policy=policy,
        cap=cap,
        classes=np.zeros(max(1, int(np.count_nonzero(total))), np.int32),
        so_far=np.zeros(width, np.int32),
        until=until,
        left=np.zeros(width, np.int8),
        overwrite=np.append(stepper.overwrite, False)[:width].astype(np.int8),
        word=word,
        shift=shift,
        guards=guards,
        bits=bits,
    )


def _fields(total: npt.NDArray[np.int64]) -> tuple[I32, I32, U64, I32]:
    """Word and shift of each class, guards and field width of each word; classes with equal needs share words."""
    word, shift = np.full(len(total), -1, np.int32), np.zeros(len(total), np.int32)
    guards: list[int] = []
    bits: list[int] = []
    room = 0
    # The largest classes first: the first class of a word sets the width of its fields, and none that follows needs
    # more. One bit more for the guard.
    for transition in np.argsort(-total, kind="stable")[: np.count_nonzero(total)]:
        if room == 0:
            bits.append(int(total[transition]).bit_length() + 1)
            guards.append(0)
            room = 64 // bits[-1]
        room -= 1
        word[transition], shift[transition] = len(guards) - 1, room * bits[-1]
        guards[-1] |= 1 << (room * bits[-1] + bits[-1] - 1)
    return word, shift, np.array(guards, np.uint64), np.array(bits, np.int32)


@kernel
def _last_ends(kind: I8, transition: I32, ended: I32, last: I64) -> None:
    """By transition, the event behind the last that ends a call of it; FOREVER if one has no end."""
    for event in range(kind.size):
        if kind[event] not in (RETURN, EXPIRE, CRASH):
            end = np.int64(ended[event])
            end = -1 - end if end < 0 else end
            end = FOREVER if end >= kind.size else end + 1
            last[transition[event]] = max(last[transition[event]], end)


def _asked_until(what: Program, steps: Steps) -> I64:
    """The event after which no op needs the value that a crashed op of the class would leave, by class.

    A crashed assignment whose value no later op needs can be left out of any linearization: what follows it is an
    op that is possible in every state. Asked for is a value by an op that requires it or refuses another one, until it
    returns, and by a crashed op for as long as its own value is.
    """
    classes = max(1, steps.width)
    if steps.mode != ASSIGNMENTS or not (what.kind == CRASH).any():
        return np.full(classes, FOREVER, np.int64)
    states = 1 + int(
        max(steps.becomes.max(initial=0), steps.requires.max(initial=0), -2 - steps.requires.min(initial=0))
    )
    asked = np.zeros(states, np.int64)
    last = np.full(classes, -1, np.int64)
    _last_ends(what.kind, what.transition, what.ended, last)
    called = np.flatnonzero(last >= 0)
    requires, ended = steps.requires[called], last[called]
    np.maximum.at(asked, requires[requires >= 0], ended[requires >= 0])
    if (requires < -1).any():
        # An op that refuses a value is possible at any other, so that all others are asked for.
        asked = np.maximum(asked, ended[requires < -1].max())
    classes_of = distinct(what.transition[what.kind == CRASH])
    needs, leaves = steps.requires[classes_of], steps.becomes[classes_of]
    chained = (needs >= 0) & (leaves >= 0)
    refusing = needs < -1
    # A crashed op that refuses a value has no end, and may be let in by any other value at any time.
    if refusing.any():
        asked[:] = FOREVER
    # What a crashed op needs to leave a value is asked for as long as that value. Entries only grow, and only to those
    # of others, so that this ends.
    while True:
        before = asked.copy()
        np.maximum.at(asked, needs[chained], before[leaves[chained]])
        if np.array_equal(asked, before):
            break
    until = np.full(classes, FOREVER, np.int64)
    until[classes_of[leaves >= 0]] = asked[leaves[leaves >= 0]]
    return until


def warm_up() -> None:
    """Compile the kernel of this module, or load it from the cache."""
    kinds, numbers = np.zeros(0, np.int8), np.zeros(0, np.int32)
    _find_ends(kinds, numbers, numbers, np.zeros(0, np.int64))
    _last_ends(kinds, numbers, numbers, np.zeros(0, np.int64))

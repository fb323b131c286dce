"""The search for a linearization, as a machine on integer arrays that stops and goes on at will: its parts.

Just-in-time linearization (Lowe 2017; Knossos' "linear"): the history is read event by event, and the *frontier* is
the set of all configurations that explain what was read so far. A configuration is a model state, what became of the
ops that are under way, and how many crashed ops of each class took effect. When an op returns, every configuration
must contain its effect: those that lack it are expanded by ops under way until they do. No configuration left: no
linearization, and this event ends the smallest failing prefix. Time is O(events x frontier x concurrency), memory
O(frontier).

What keeps the frontier small, each proven against brute force in the tests:

- *Observers* (ops that change no reachable state) take effect the moment they are valid; nothing branches on them. Of
  two configurations that differ only in this, the one with more observers done can do everything that the other can.
- *Overwrites* (possible in every state, with one next state and no answer: a write) may be hidden. When one takes
  effect, each other one that is under way and has not may be thought right before it, unseen by all. It is then
  *free*: it may return without further ado, and it may still take effect for all to see. Free is at least as good as
  done and as not done. When a free one returns both are followed: that it was hidden, and that it is seen at last.
- Of identical ops under way the one that returns first takes effect first (exchange them in any linearization).
- A *crashed* op is never obliged. Identical ones are a class, of which a configuration counts its uses: fewer are at
  least as good. A use that changes nothing is skipped, and so is one while an identical op is under way and unused.
  A class is forgotten when nothing that may still happen asks for the value that it leaves.
- A return that every configuration has foreseen costs a bit.

An op may also be made optional within its interval (EXPIRE instead of RETURN): it may have taken effect until then, and
need not have. That relaxes a history without changing what is possible in it, and is how a witness is made small.

The number of ways in which crashed ops may have been used can grow without bound. The machine therefore keeps at most
`Crashed.cap` of them for one state and one outcome of the ops under way, in one of two ways: NARROW drops those with
the most uses, so that everything it explains is explained; WIDE replaces two by one that has used no more than either,
so that what it cannot explain is a violation. It notes (APPROXIMATE) when it did. Of the merged ones the smaller
sum of uses stays, and no more than all crashed ops can be used: else WIDE would never end on a counter.

A configuration is a row of 64-bit words:

    0                state, and the mark SETTLED while an event is worked out
    1 .. words       done: a bit per slot of an op under way, which took effect or (an overwrite) may have been hidden
    words more       available: the bit of an overwrite that may still take effect for all to see
    counters         uses of crashed ops, packed fields with a guard bit above each
    1 if counters    the sum of all uses: more than the fields say where rows were merged, and never merged away

An overwrite is thus not done (available only), seen (done only) or free (both), and dominance is: the same state, the
same bits of other mutators, no bit less elsewhere, no use more.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from splitbrain.checkers.kernels import inlined, kernel

I8: TypeAlias = npt.NDArray[np.int8]
I32: TypeAlias = npt.NDArray[np.int32]
I64: TypeAlias = npt.NDArray[np.int64]
U64: TypeAlias = npt.NDArray[np.uint64]
Int: TypeAlias = Any
"""A machine integer: Numba unifies Python's and NumPy's, type checkers do not."""

# Kinds of events.
CALL: Final = 0
CALL_OBSERVER: Final = 1
RETURN: Final = 2
CRASH: Final = 3
EXPIRE: Final = 4
CALL_OVERWRITE: Final = 5

# How transitions are known.
ASSIGNMENTS: Final = 0
CLOSED: Final = 1
LAZY: Final = 2
SUMS: Final = 3

# What a step answers when there is no next state.
# Both are negative: a number from 0 on is a state.
IMPOSSIBLE: Final = -1
UNKNOWN: Final = -2

# Guards of an assignment; a guard of 0 or more is the state that is required, one below -1 the state that is refused.
ANY: Final = -1
KEEP: Final = -1

# Guards of a sum.
NEVER: Final = -2

# Why `advance` stopped.
DONE: Final = 0
VIOLATION: Final = 1
PAUSED: Final = 2
NEEDS_CELL: Final = 3
NEEDS_POOL: Final = 4
NEEDS_FRONTIER: Final = 5
GO_ON: Final = -1

# What is done about too many ways to use crashed ops.
NARROW: Final = 0
WIDE: Final = 1

# Registers of the machine.
EVENT: Final = 0
EXPANDING: Final = 1
CURSOR: Final = 2
POOL: Final = 3
FRONTIER: Final = 4
EPOCH: Final = 5
PEAK: Final = 6
EXPANDED: Final = 7
MUTATORS: Final = 8
OBSERVERS: Final = 9
CLASSES: Final = 10
MISSING: Final = 11
APPROXIMATE: Final = 12
FORGET_AT: Final = 13
BLURRED: Final = 14
CRASHED: Final = 15
REGISTERS: Final = 16

SETTLED: Final = np.uint64(1 << 62)
"""In word 0 of a row of the pool: the op that returns has returned in it."""

STATE: Final = np.uint64((1 << 62) - 1)
# Words are unsigned, and so is all that meets them: of an unsigned and a signed word NumPy makes a float, or it
# refuses.
ONE: Final = np.uint64(1)
ZERO: Final = np.uint64(0)

MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_SHIFT: Final = np.uint64(29)


class Events(NamedTuple):
    """What happened, in order: kind, slot of the op while it is under way, and its transition."""

    kind: I8
    slot: I32
    transition: I32


class Program(NamedTuple):
    """Events as the machine reads them.

    Transitions that are alike are one; overwrites are called by CALL_OVERWRITE. `ended` of a call: the event that ends
    the op, how many events there are if none does, and -1 less that number if the op is optional.
    """

    kind: I8
    slot: I32
    transition: I32
    ended: I32


class Steps(NamedTuple):
    """The transition function, in one of four forms; the arrays of the others are empty.

    ASSIGNMENTS: `requires[t]` and `becomes[t]`. CLOSED: `dense[state * width + t]`. LAZY: an open-addressing table from
    `state * width + t` to the next state, in which a missing cell stops the machine. SUMS: the next state is `state +
    becomes[t]`, modulo `dense[0]`, the number of sums; `requires[t]` is what it must be, or ANY, or NEVER.
    """

    mode: int
    width: int
    requires: I32
    becomes: I32
    dense: I32
    cell_key: I64
    cell_next: I32


class Space(NamedTuple):
    """Configurations: the frontier between events, and the pool in which one event is worked out.

    Rows of the pool with equal keys are chained; `buckets` has the head of each chain. `absorbed[state]` are the
    observers under way that are valid there, worked out in the epoch `absorbed_at[state]`.
    """

    words: int
    frontier: U64
    pool: U64
    alive: I8
    chain: I32
    buckets: I64
    absorbed: U64
    absorbed_at: I64


class Live(NamedTuple):
    """Ops under way: by slot their transition and order, lists of slots, and which bits are of which kind.

    In their order identical ops are together, obliged and optional ones apart, and the first to return comes first.
    `tried[transition]` is the expansion in which an op under way of that transition was tried last.
    """

    transition: I32
    order: I64
    mutators: I32
    observers: I32
    keyed: U64
    overwrites: U64
    tried: I64


class Crashed(NamedTuple):
    """Crashed ops by class (their transition), and where a row counts their uses.

    Attributes:
        policy: NARROW or WIDE.
        cap: ways to use crashed ops that are kept, for one state and one outcome of the ops under way.
        classes: the classes of which there are any.
        so_far: how many there are by now, by class.
        until: the event after which no op needs the value that the class leaves, by class.
        left: whether one is left, unused in every configuration, of a class that is forgotten; by class.
        overwrite: whether the class is of overwrites.
        word, shift: where the class is counted, by class.
        guards: the guard bits, by word.
        bits: bits of a field with its guard, by word.
    """

    policy: int
    cap: int
    classes: I32
    so_far: I32
    until: I64
    left: I8
    overwrite: I8
    word: I32
    shift: I32
    guards: U64
    bits: I32


@inlined
def step(steps: Steps, state: Int, transition: Int) -> Int:
    """The next state, IMPOSSIBLE, or UNKNOWN where a lazy table has no such cell yet."""
    if steps.mode == ASSIGNMENTS:
        requires = steps.requires[transition]
        if requires >= 0:
            if state != requires:
                return IMPOSSIBLE
        elif requires < ANY and state == -2 - requires:
            return IMPOSSIBLE
        becomes = steps.becomes[transition]
        return state if becomes == KEEP else becomes
    if steps.mode == SUMS:
        total = state + steps.becomes[transition]
        total -= steps.dense[0] if total >= steps.dense[0] else 0
        requires = steps.requires[transition]
        return total if requires in (ANY, total) else IMPOSSIBLE
    # Widened first: states times transitions may exceed 32 bits, however few of the cells are filled.
    key = np.int64(state) * steps.width + transition
    if steps.mode == CLOSED:
        return steps.dense[key]
    mask = steps.cell_key.size - 1
    at = cell_position(key, mask)
    # The table is never more than half full (`Stepper.fill`): an empty place ends the search.
    while steps.cell_key[at] != key:
        if steps.cell_key[at] < 0:
            return UNKNOWN
        at = (at + 1) & mask
    return steps.cell_next[at]


@kernel
def cell_position(key: Int, mask: Int) -> Int:
    """Where the search for a cell begins in a lazy table of `mask + 1` places."""
    mixed = np.uint64(key) * MIX
    return np.int64((mixed ^ (mixed >> _MIX_SHIFT)) >> ONE) & mask


@kernel
def find_cell(keys: I64, key: Int) -> Int:
    """The place of a cell in a lazy table, or the empty place where it belongs."""
    mask = keys.size - 1
    at = cell_position(key, mask)
    while keys[at] >= 0 and keys[at] != key:
        at = (at + 1) & mask
    return at


@kernel
def move_cells(keys: I64, following: I32, larger_keys: I64, larger_following: I32) -> None:
    """Enter the cells of a lazy table into an empty, larger one."""
    for cell in range(keys.size):
        if keys[cell] >= 0:
            at = find_cell(larger_keys, keys[cell])
            larger_keys[at] = keys[cell]
            larger_following[at] = following[cell]

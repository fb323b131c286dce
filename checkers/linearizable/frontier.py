"""The search for a linearization, as a machine on integer arrays that stops and goes on at will.

Just-in-time linearization (Lowe 2017; Knossos' "linear"): the history is read event by event, and the *frontier* is
the set of all configurations that explain what was read so far. A configuration is a model state, the set of ops that
are under way and have taken effect already, and the set of crashed ops that took effect. When an op returns, every
configuration must contain its effect: those that lack it are expanded by ops under way until they do. No configuration
left: no linearization, and this event ends the smallest failing prefix. Time is O(events x frontier x concurrency),
memory O(frontier).

What keeps the frontier small, each proven against brute force in the tests:

- Observers (ops that change no reachable state) take effect the moment they are valid; nothing branches on them.
- A crashed op is never obliged. Of two configurations with equal state and equal live ops, the one that has used a
  subset of the other's crashed ops can do whatever the other can: only minimal ones are kept. Of identical crashed ops
  only the earliest unused is tried, and a use that changes nothing is skipped.
- A return that every configuration has foreseen costs a bit.

An op may also be made optional within its interval (EXPIRE instead of RETURN): it may have taken effect until then, and
need not have. That relaxes a history without changing what is possible in it, and is how a witness is made small.

A configuration is a row of 64-bit words: the state, then one bit per slot of a live op, then one bit per slot of a
crashed op. `advance` runs until it is done or needs something: a cell of the transition table, memory, or a look at
the clock. It can be called again with the same arrays and goes on where it stopped.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from checkers.kernels import inlined, kernel

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

# How transitions are known.
ASSIGNMENTS: Final = 0
CLOSED: Final = 1
LAZY: Final = 2

# What a step answers when there is no next state.
IMPOSSIBLE: Final = -1
UNKNOWN: Final = -2

# Guards of an assignment; a guard of 0 or more is the state that is required, one below -1 the state that is refused.
ANY: Final = -1
KEEP: Final = -1

# Why `advance` stopped.
DONE: Final = 0
VIOLATION: Final = 1
PAUSED: Final = 2
NEEDS_CELL: Final = 3
NEEDS_POOL: Final = 4
NEEDS_FRONTIER: Final = 5
NEEDS_CRASHED: Final = 6
_GO_ON: Final = -1

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
FREE: Final = 11
MISSING: Final = 12
SEEDS: Final = 13
REGISTERS: Final = 14

_MIX_STATE: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_WORD: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_SHIFT: Final = np.uint64(29)
_ONE: Final = np.uint64(1)
_ZERO: Final = np.uint64(0)


class Events(NamedTuple):
    """What happened, in order: kind, slot of the op while it is under way, and its transition."""

    kind: I8
    slot: I32
    transition: I32


class Steps(NamedTuple):
    """The transition function, in one of three forms; the arrays of the others are empty.

    ASSIGNMENTS: `requires[t]` and `becomes[t]`. CLOSED: `dense[state * width + t]`. LAZY: an open-addressing table from
    `state * width + t` to the next state, in which a missing cell stops the machine.
    """

    mode: int
    width: int
    requires: I32
    becomes: I32
    dense: I32
    cell_key: I64
    cell_next: I32


class Space(NamedTuple):
    """Configurations: the frontier between events, and the pool in which one event is worked out."""

    words: int
    frontier: U64
    pool: U64
    alive: I8
    chain: I32
    buckets: I64
    absorbed: U64
    absorbed_at: I64


class Live(NamedTuple):
    """Ops under way by slot, and crashed ops by class (equal transitions) in the order of their invocation."""

    transition: I32
    mutators: I32
    observers: I32
    classes: I32
    first: I32
    last: I32
    following: I32
    free: I32


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
    key = np.int64(state) * steps.width + transition
    if steps.mode == CLOSED:
        return steps.dense[key]
    mask = steps.cell_key.size - 1
    at = cell_position(key, mask)
    while steps.cell_key[at] != key:
        if steps.cell_key[at] < 0:
            return UNKNOWN
        at = (at + 1) & mask
    return steps.cell_next[at]


@kernel
def cell_position(key: Int, mask: Int) -> Int:
    """Where the search for a cell begins in a lazy table of `mask + 1` places."""
    mixed = np.uint64(key) * _MIX_STATE
    return np.int64((mixed ^ (mixed >> _MIX_SHIFT)) >> _ONE) & mask


@inlined
def _position(row: U64, words: Int, mask: Int) -> Int:
    mixed = row[0] * _MIX_STATE
    for w in range(1, 1 + words):
        mixed = (mixed ^ row[w]) * _MIX_WORD
        mixed ^= mixed >> _MIX_SHIFT
    return np.int64(mixed >> _ONE) & mask


@inlined
def _same_key(a: U64, b: U64, words: Int) -> bool:
    for w in range(1 + words):  # noqa: SIM110 - a plain loop is what compiles to one
        if a[w] != b[w]:
            return False
    return True


@inlined
def _uses_no_more(a: U64, b: U64, words: Int) -> bool:
    """Whether the crashed ops that `a` has used are a subset of those of `b`."""
    for w in range(1 + words, a.size):  # noqa: SIM110 - a plain loop is what compiles to one
        if a[w] & ~b[w] != _ZERO:
            return False
    return True


@inlined
def _insert(space: Space, m: I64) -> None:
    """Take the candidate in the pool's next row into the pool, unless it is there already or dominated."""
    pool, words, chain = space.pool, space.words, space.chain
    new = m[POOL]
    mask = space.buckets.size - 1
    at = _position(pool[new], words, mask)
    head = np.int64(-1)
    while True:
        entry = space.buckets[at]
        if entry >> 32 != m[EPOCH]:
            break
        other = entry & 0xFFFFFFFF
        if _same_key(pool[other], pool[new], words):
            head = other
            break
        at = (at + 1) & mask
    previous = np.int64(-1)
    other = head
    while other >= 0:
        following = np.int64(chain[other])
        if _uses_no_more(pool[other], pool[new], words):
            return
        if _uses_no_more(pool[new], pool[other], words):
            space.alive[other] = 0
            if previous < 0:
                head = following
            else:
                chain[previous] = following
        else:
            previous = other
        other = following
    chain[new] = head
    space.buckets[at] = (m[EPOCH] << 32) | new
    space.alive[new] = 1
    m[POOL] = new + 1


@kernel
def rehash(space: Space, m: I64) -> None:
    """Enter the pool into fresh buckets, after the arrays were replaced by larger ones."""
    mask = space.buckets.size - 1
    for new in range(m[POOL]):
        if space.alive[new] == 0:
            continue
        at = _position(space.pool[new], space.words, mask)
        head = np.int64(-1)
        while space.buckets[at] >> 32 == m[EPOCH]:
            other = space.buckets[at] & 0xFFFFFFFF
            if _same_key(space.pool[other], space.pool[new], space.words):
                head = other
                break
            at = (at + 1) & mask
        space.chain[new] = head
        space.buckets[at] = (m[EPOCH] << 32) | new


@inlined
def _absorb(steps: Steps, space: Space, live: Live, m: I64, state: Int) -> bool:
    """Work out which live observers are valid in `state`, once per event; False if a cell is missing."""
    if space.absorbed_at[state] == m[EPOCH]:
        return True
    space.absorbed[state, :] = _ZERO
    for k in range(m[OBSERVERS]):
        slot = live.observers[k]
        following = step(steps, state, live.transition[slot])
        if following == UNKNOWN:
            return False
        if following >= 0:
            space.absorbed[state, slot >> 6] |= _ONE << np.uint64(slot & 63)
    space.absorbed_at[state] = m[EPOCH]
    return True


@inlined
def _branch(steps: Steps, space: Space, live: Live, m: I64, state: Int, word: Int, bit: Int) -> Int:
    """Add the configuration that follows from the one under the cursor when one more op takes effect."""
    if not _absorb(steps, space, live, m, state):
        m[MISSING] = state
        return NEEDS_CELL
    pool, new, cursor = space.pool, m[POOL], m[CURSOR]
    if new >= pool.shape[0]:
        return NEEDS_POOL
    for w in range(1, pool.shape[1]):
        pool[new, w] = pool[cursor, w]
    pool[new, 0] = np.uint64(state)
    pool[new, word] |= bit
    for w in range(space.words):
        pool[new, 1 + w] |= space.absorbed[state, w]
    _insert(space, m)
    return _GO_ON


@inlined
def _expand(steps: Steps, space: Space, live: Live, m: I64) -> Int:
    """Let every op that may take effect next do so in the configuration under the cursor."""
    pool, cursor = space.pool, m[CURSOR]
    state = np.int64(pool[cursor, 0])
    for k in range(m[MUTATORS]):
        slot = live.mutators[k]
        word, bit = 1 + (slot >> 6), _ONE << np.uint64(slot & 63)
        if pool[cursor, word] & bit != _ZERO:
            continue
        following = step(steps, state, live.transition[slot])
        if following == UNKNOWN:
            m[MISSING] = state
            return NEEDS_CELL
        if following >= 0:
            status = _branch(steps, space, live, m, following, word, bit)
            if status != _GO_ON:
                return status
    for k in range(m[CLASSES]):
        transition = live.classes[k]
        following = step(steps, state, transition)
        if following == UNKNOWN:
            m[MISSING] = state
            return NEEDS_CELL
        if following < 0 or following == state:
            continue
        slot = live.first[transition]
        while slot >= 0:
            word, bit = 1 + space.words + (slot >> 6), _ONE << np.uint64(slot & 63)
            if pool[cursor, word] & bit == _ZERO:
                status = _branch(steps, space, live, m, following, word, bit)
                if status != _GO_ON:
                    return status
                break
            slot = live.following[slot]
    return _GO_ON


@inlined
def _observe(steps: Steps, space: Space, m: I64, slot: Int, transition: Int) -> bool:
    """Let a new observer take effect wherever it is valid; False if a cell is missing."""
    word, bit = 1 + (slot >> 6), _ONE << np.uint64(slot & 63)
    for i in range(m[FRONTIER]):
        state = np.int64(space.frontier[i, 0])
        following = step(steps, state, transition)
        if following == UNKNOWN:
            m[MISSING] = state
            return False
        if following >= 0:
            space.frontier[i, word] |= bit
    return True


@inlined
def _retire(space: Space, live: Live, m: I64) -> None:
    """Forget crashed ops that have taken effect in every configuration; their slots are free again."""
    k = 0
    while k < m[CLASSES]:
        transition = live.classes[k]
        slot = live.first[transition]
        while slot >= 0 and _used_everywhere(space, m, slot):
            word, bit = 1 + space.words + (slot >> 6), _ONE << np.uint64(slot & 63)
            for i in range(m[FRONTIER]):
                space.frontier[i, word] &= ~bit
            live.free[m[FREE]] = slot
            m[FREE] += 1
            slot = live.following[slot]
        live.first[transition] = slot
        if slot < 0:
            live.last[transition] = -1
            m[CLASSES] -= 1
            live.classes[k] = live.classes[m[CLASSES]]
        else:
            k += 1


@inlined
def _used_everywhere(space: Space, m: I64, slot: Int) -> bool:
    word, bit = 1 + space.words + (slot >> 6), _ONE << np.uint64(slot & 63)
    for i in range(m[FRONTIER]):  # noqa: SIM110 - a plain loop is what compiles to one
        if space.frontier[i, word] & bit == _ZERO:
            return False
    return True


@inlined
def _crash(space: Space, live: Live, m: I64, transition: Int) -> bool:
    """Make a crashed op available; False if there is no slot for it."""
    _retire(space, live, m)
    if m[FREE] == 0:
        return False
    m[FREE] -= 1
    slot = live.free[m[FREE]]
    live.following[slot] = -1
    if live.last[transition] < 0:
        live.first[transition] = slot
        live.classes[m[CLASSES]] = transition
        m[CLASSES] += 1
    else:
        live.following[live.last[transition]] = slot
    live.last[transition] = slot
    return True


@inlined
def _begin_return(space: Space, m: I64, word: Int, bit: Int) -> bool:
    """Clear the bit if every configuration has it, which settles the return; else fill the pool with the frontier."""
    frontier = space.frontier
    lacking = 0
    for i in range(m[FRONTIER]):
        lacking += frontier[i, word] & bit == _ZERO
    if lacking == 0:
        for i in range(m[FRONTIER]):
            frontier[i, word] &= ~bit
        return True
    _seed(space, m)
    m[EXPANDING] = 1
    return False


@inlined
def _seed(space: Space, m: I64) -> None:
    """Begin a new pool with the frontier."""
    m[EPOCH] += 1
    m[POOL] = 0
    m[CURSOR] = 0
    for i in range(m[FRONTIER]):
        for w in range(space.frontier.shape[1]):
            space.pool[m[POOL], w] = space.frontier[i, w]
        _insert(space, m)
    m[SEEDS] = m[POOL]


@inlined
def _survives(space: Space, m: I64, i: Int, kind: Int, word: Int, bit: Int) -> bool:
    """Whether a row of the pool belongs to the frontier after the op under the bit has returned or expired.

    An optional op that expires may have taken effect or not. What else was tried on the way can be tried again later.
    """
    if space.alive[i] == 0:
        return False
    return space.pool[i, word] & bit != _ZERO or (kind == EXPIRE and i < m[SEEDS])


@inlined
def _end_return(space: Space, m: I64, kind: Int, word: Int, bit: Int) -> Int:
    """Make the survivors of the pool the new frontier."""
    found = 0
    for i in range(m[POOL]):
        found += _survives(space, m, i, kind, word, bit)
    if found == 0:
        return VIOLATION
    if found > space.frontier.shape[0]:
        return NEEDS_FRONTIER
    kept = 0
    for i in range(m[POOL]):
        if _survives(space, m, i, kind, word, bit):
            for w in range(space.pool.shape[1]):
                space.frontier[kept, w] = space.pool[i, w]
            space.frontier[kept, word] &= ~bit
            kept += 1
    m[FRONTIER] = kept
    if kind == EXPIRE:
        _drop_dominated(space, m)
    m[PEAK] = max(m[PEAK], kept)
    m[EXPANDING] = 0
    return _GO_ON


@inlined
def _drop_dominated(space: Space, m: I64) -> None:
    """Keep one of equal rows, and only minimal ones; clearing a bit that not all rows had can make them equal."""
    _seed(space, m)
    kept = 0
    for i in range(m[POOL]):
        if space.alive[i] != 0:
            for w in range(space.pool.shape[1]):
                space.frontier[kept, w] = space.pool[i, w]
            kept += 1
    m[FRONTIER] = kept


@inlined
def _remove(slots: I32, count: Int, slot: Int) -> Int:
    """Take `slot` out of the first `count` of `slots`, keeping their order; the new count."""
    kept = 0
    for k in range(count):
        if slots[k] != slot:
            slots[kept] = slots[k]
            kept += 1
    return kept


@inlined
def _return(steps: Steps, space: Space, live: Live, m: I64, kind: Int, slot: Int, limit: Int) -> Int:
    """Demand that the op in `slot` has taken effect, or end its last chance to."""
    word, bit = 1 + (slot >> 6), _ONE << np.uint64(slot & 63)
    if m[EXPANDING] == 0 and _begin_return(space, m, word, bit):
        return _GO_ON
    while m[CURSOR] < m[POOL]:
        cursor = m[CURSOR]
        if space.alive[cursor] != 0 and space.pool[cursor, word] & bit == _ZERO:
            if m[EXPANDED] >= limit:
                return PAUSED
            status = _expand(steps, space, live, m)
            if status != _GO_ON:
                return status
            m[EXPANDED] += 1
        m[CURSOR] += 1
    return _end_return(space, m, kind, word, bit)


@kernel
def advance(events: Events, steps: Steps, space: Space, live: Live, m: I64, budget: Int) -> Int:
    """Go on with the history until its end, a violation, a need, or `budget` more expanded configurations.

    At a VIOLATION the frontier is the last one that was not empty, and the pool holds every configuration that can be
    reached from it without the op that cannot be placed.
    """
    limit = m[EXPANDED] + budget
    while m[EVENT] < events.kind.size:
        kind = events.kind[m[EVENT]]
        slot = events.slot[m[EVENT]]
        transition = events.transition[m[EVENT]]
        if kind in (RETURN, EXPIRE):
            status = _return(steps, space, live, m, kind, slot, limit)
            if status != _GO_ON:
                return status
            m[MUTATORS] = _remove(live.mutators, m[MUTATORS], slot)
            m[OBSERVERS] = _remove(live.observers, m[OBSERVERS], slot)
        elif kind == CALL:
            live.transition[slot] = transition
            live.mutators[m[MUTATORS]] = slot
            m[MUTATORS] += 1
        elif kind == CALL_OBSERVER:
            live.transition[slot] = transition
            if not _observe(steps, space, m, slot, transition):
                return NEEDS_CELL
            live.observers[m[OBSERVERS]] = slot
            m[OBSERVERS] += 1
        elif not _crash(space, live, m, transition):
            return NEEDS_CRASHED
        m[EVENT] += 1
    return DONE

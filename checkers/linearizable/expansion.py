"""What may take effect next in a configuration, and the configurations that follow."""

from __future__ import annotations

import numpy as np

from splitbrain.checkers.kernels import inlined
from splitbrain.checkers.linearizable.configurations import insert
from splitbrain.checkers.linearizable.frontier import (
    CLASSES,
    CRASHED,
    CURSOR,
    EPOCH,
    EXPANDED,
    GO_ON,
    I64,
    MISSING,
    MUTATORS,
    NEEDS_CELL,
    NEEDS_POOL,
    OBSERVERS,
    ONE,
    POOL,
    SETTLED,
    UNKNOWN,
    ZERO,
    Crashed,
    Int,
    Live,
    Space,
    Steps,
    step,
)


@inlined
def expand(steps: Steps, space: Space, live: Live, crashed: Crashed, m: I64, returning: Int) -> Int:
    """Let every op that may take effect next do so in the configuration under the cursor."""
    pool, cursor = space.pool, m[CURSOR]
    state = np.int64(pool[cursor, 0])
    last = np.int64(-1)
    for k in range(m[MUTATORS]):
        slot = live.mutators[k]
        at, bit = 1 + (slot >> 6), ONE << np.uint64(slot & 63)
        overwrites = live.overwrites[at - 1] & bit != ZERO
        unused = pool[cursor, at + space.words] & bit if overwrites else ~pool[cursor, at] & bit
        alike = live.order[slot] >> 32
        if unused == ZERO or alike == last:
            continue
        last = alike
        # The number of the expansion grows, so that marks need not be cleared.
        live.tried[live.transition[slot]] = m[EXPANDED] + 1
        following = step(steps, state, live.transition[slot])
        if following == UNKNOWN:
            m[MISSING] = state
            return NEEDS_CELL
        if following >= 0:
            status = _follow(steps, space, live, crashed, m, following, slot, -1, overwrites, returning)
            if status != GO_ON:
                return status
    return _expand_crashed(steps, space, live, crashed, m, state, returning)


@inlined
def _expand_crashed(
    steps: Steps, space: Space, live: Live, crashed: Crashed, m: I64, state: Int, returning: Int
) -> Int:
    first, cursor = 1 + 2 * space.words, m[CURSOR]
    if m[CLASSES] == 0 or np.int64(space.pool[cursor, space.pool.shape[1] - 1]) >= m[CRASHED]:
        return GO_ON
    for k in range(m[CLASSES]):
        transition = crashed.classes[k]
        if live.tried[transition] == m[EXPANDED] + 1:
            continue
        following = step(steps, state, transition)
        if following == UNKNOWN:
            m[MISSING] = state
            return NEEDS_CELL
        if following < 0 or following == state:
            continue
        word = crashed.word[transition]
        field = (ONE << np.uint64(crashed.bits[word])) - ONE
        used = (space.pool[cursor, first + word] >> np.uint64(crashed.shift[transition])) & field
        if np.int64(used) < crashed.so_far[transition]:
            overwrites = crashed.overwrite[transition] != 0
            status = _follow(steps, space, live, crashed, m, following, -1, transition, overwrites, returning)
            if status != GO_ON:
                return status
    return GO_ON


@inlined
def _follow(
    steps: Steps,
    space: Space,
    live: Live,
    crashed: Crashed,
    m: I64,
    state: Int,
    slot: Int,
    transition: Int,
    overwrites: bool,
    returning: Int,
) -> Int:
    """Add what follows from the configuration under the cursor when one more op takes effect.

    The op is under way in `slot`, or (-1) crashed with `transition`. If it hides the overwrite that is returning, both
    are followed: that this was its effect, and that it will be seen yet.
    """
    if not _absorb(steps, space, live, m, state):
        m[MISSING] = state
        return NEEDS_CELL
    pool = space.pool
    # An expansion that stops here, or for a cell, is repeated whole: what it has added already is dominated by itself.
    if m[POOL] + 2 > pool.shape[0]:
        return NEEDS_POOL
    at, bit = 1 + (returning >> 6), ONE << np.uint64(returning & 63)
    _compose(space, live, crashed, m, state, slot, transition, overwrites)
    new = m[POOL]
    if live.overwrites[at - 1] & bit == ZERO:
        if pool[new, at] & bit != ZERO:
            pool[new, at] &= ~bit
            pool[new, 0] |= SETTLED
    elif slot == returning:
        pool[new, at] &= ~bit
        pool[new, 0] |= SETTLED
    elif pool[m[CURSOR], at] & bit == ZERO and pool[new, at] & bit != ZERO:
        pool[new, at] &= ~bit
        pool[new, at + space.words] &= ~bit
        pool[new, 0] |= SETTLED
        insert(space, live, crashed, m)
        _compose(space, live, crashed, m, state, slot, transition, overwrites)
    insert(space, live, crashed, m)
    return GO_ON


@inlined
def _compose(
    space: Space, live: Live, crashed: Crashed, m: I64, state: Int, slot: Int, transition: Int, overwrites: bool
) -> None:
    """Write the following configuration into the pool's next row."""
    pool, words, cursor, new = space.pool, space.words, m[CURSOR], m[POOL]
    for w in range(1, pool.shape[1]):
        pool[new, w] = pool[cursor, w]
    pool[new, 0] = np.uint64(state)
    if slot >= 0:
        at, bit = 1 + (slot >> 6), ONE << np.uint64(slot & 63)
        pool[new, at] |= bit
        pool[new, at + words] &= ~bit
    else:
        pool[new, 1 + 2 * words + crashed.word[transition]] += ONE << np.uint64(crashed.shift[transition])
        pool[new, pool.shape[1] - 1] += ONE
    for w in range(words):
        pool[new, 1 + w] |= space.absorbed[state, w]
        if overwrites:
            pool[new, 1 + w] |= live.overwrites[w]


@inlined
def _absorb(steps: Steps, space: Space, live: Live, m: I64, state: Int) -> bool:
    """Work out which live observers are valid in `state`, once per event; False if a cell is missing."""
    if space.absorbed_at[state] == m[EPOCH]:
        return True
    space.absorbed[state, :] = ZERO
    for k in range(m[OBSERVERS]):
        slot = live.observers[k]
        following = step(steps, state, live.transition[slot])
        if following == UNKNOWN:
            return False
        if following >= 0:
            space.absorbed[state, slot >> 6] |= ONE << np.uint64(slot & 63)
    space.absorbed_at[state] = m[EPOCH]
    return True

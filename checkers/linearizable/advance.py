"""The machine's main loop: calls, crashes and returns, one event after the other."""

from __future__ import annotations

import numpy as np

from splitbrain.checkers.kernels import inlined, kernel
from splitbrain.checkers.linearizable.configurations import insert
from splitbrain.checkers.linearizable.expansion import expand
from splitbrain.checkers.linearizable.frontier import (
    BLURRED,
    CALL_OBSERVER,
    CALL_OVERWRITE,
    CLASSES,
    CRASH,
    CRASHED,
    CURSOR,
    DONE,
    EPOCH,
    EVENT,
    EXPANDED,
    EXPANDING,
    EXPIRE,
    FORGET_AT,
    FRONTIER,
    GO_ON,
    I32,
    I64,
    MISSING,
    MUTATORS,
    NEEDS_CELL,
    NEEDS_FRONTIER,
    NEEDS_POOL,
    OBSERVERS,
    ONE,
    PAUSED,
    PEAK,
    POOL,
    RETURN,
    SETTLED,
    STATE,
    UNKNOWN,
    VIOLATION,
    ZERO,
    Crashed,
    Int,
    Live,
    Program,
    Space,
    Steps,
    step,
)


@kernel
def advance(program: Program, steps: Steps, space: Space, live: Live, crashed: Crashed, m: I64, budget: Int) -> Int:
    """Go on with the history until its end, a violation, a need, or `budget` more expanded configurations.

    At a VIOLATION the frontier is the last one that was not empty, and the pool holds every configuration that can be
    reached from it without the op that cannot be placed.
    """
    limit = m[EXPANDED] + budget
    while m[EVENT] < program.kind.size:
        kind = program.kind[m[EVENT]]
        slot = program.slot[m[EVENT]]
        transition = program.transition[m[EVENT]]
        if kind in (RETURN, EXPIRE):
            # Not while an event is being worked out: rows of the pool still count the class.
            if m[EXPANDING] == 0 and m[EVENT] >= m[FORGET_AT]:
                _forget(space, live, crashed, m)
            status = _return(steps, space, live, crashed, m, kind, slot, limit)
            if status != GO_ON:
                return status
            _vacate(live, m, slot)
        elif kind == CRASH:
            _crash(crashed, m, transition)
        else:
            live.transition[slot] = transition
            live.order[slot] = _order(transition, program.ended[m[EVENT]])
            if kind == CALL_OBSERVER:
                # The event is repeated when the cell is there: bits that were set are set again, and nothing else has
                # changed.
                if not _observe(steps, space, m, slot, transition):
                    return NEEDS_CELL
                live.observers[m[OBSERVERS]] = slot
                m[OBSERVERS] += 1
            else:
                _call(space, live, m, kind, slot)
        m[EVENT] += 1
    return DONE


@inlined
def _order(transition: Int, ended: Int) -> Int:
    """The order of a call: by transition, then obliged before optional, then by the event that ends the op."""
    last = np.int64(ended)
    if last < 0:
        return ((np.int64(transition) * 2 + 1) << 32) | (-1 - last)
    return ((np.int64(transition) * 2) << 32) | last


@inlined
def _observe(steps: Steps, space: Space, m: I64, slot: Int, transition: Int) -> bool:
    """Let a new observer take effect wherever it is valid; False if a cell is missing."""
    at, bit = 1 + (slot >> 6), ONE << np.uint64(slot & 63)
    for i in range(m[FRONTIER]):
        state = np.int64(space.frontier[i, 0])
        following = step(steps, state, transition)
        if following == UNKNOWN:
            m[MISSING] = state
            return False
        if following >= 0:
            space.frontier[i, at] |= bit
    return True


@inlined
def _call(space: Space, live: Live, m: I64, kind: Int, slot: Int) -> None:
    """Enter a mutator where its order has it. An overwrite is available; one that is optional is free at once."""
    at, bit = slot >> 6, ONE << np.uint64(slot & 63)
    k = m[MUTATORS]
    while k > 0 and live.order[live.mutators[k - 1]] > live.order[slot]:
        live.mutators[k] = live.mutators[k - 1]
        k -= 1
    live.mutators[k] = slot
    m[MUTATORS] += 1
    if kind == CALL_OVERWRITE:
        live.overwrites[at] |= bit
        optional = (live.order[slot] >> 32) & 1 != 0
        for i in range(m[FRONTIER]):
            space.frontier[i, 1 + space.words + at] |= bit
            if optional:
                space.frontier[i, 1 + at] |= bit
    else:
        live.keyed[at] |= bit


@inlined
def _vacate(live: Live, m: I64, slot: Int) -> None:
    """Free the slot of an op that has returned."""
    at, bit = slot >> 6, ONE << np.uint64(slot & 63)
    live.keyed[at] &= ~bit
    live.overwrites[at] &= ~bit
    m[MUTATORS] = _remove(live.mutators, m[MUTATORS], slot)
    m[OBSERVERS] = _remove(live.observers, m[OBSERVERS], slot)


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
def _crash(crashed: Crashed, m: I64, transition: Int) -> None:
    """Make a crashed op available, if a later op may need the value that it leaves."""
    if crashed.until[transition] > m[EVENT]:
        if crashed.so_far[transition] == 0:
            crashed.classes[m[CLASSES]] = transition
            m[CLASSES] += 1
            m[FORGET_AT] = min(m[FORGET_AT], crashed.until[transition])
        crashed.so_far[transition] += 1
        m[CRASHED] += 1
    else:
        crashed.left[transition] = 1


@inlined
def _forget(space: Space, live: Live, crashed: Crashed, m: I64) -> None:
    """Drop classes whose value no later op needs, and their number of uses."""
    k, first, last = 0, 1 + 2 * space.words, space.frontier.shape[1] - 1
    m[FORGET_AT] = np.int64(1) << 62
    while k < m[CLASSES]:
        transition = crashed.classes[k]
        if crashed.until[transition] > m[EVENT]:
            m[FORGET_AT] = min(m[FORGET_AT], crashed.until[transition])
            k += 1
            continue
        word, shift = crashed.word[transition], np.uint64(crashed.shift[transition])
        field = ((ONE << np.uint64(crashed.bits[word])) - ONE) << shift
        least, most = crashed.so_far[transition], np.int64(0)
        for i in range(m[FRONTIER]):
            used = space.frontier[i, first + word] & field
            least, most = min(least, np.int64(used >> shift)), max(most, np.int64(used >> shift))
            space.frontier[i, first + word] ^= used
            others = _fewest_uses(space, crashed, i)
            # In a row that was never merged the fields are exact. In a merged one both are lower bounds; a sum that is
            # too large would rule out what is possible.
            space.frontier[i, last] = np.uint64(
                max(others, np.int64(space.frontier[i, last]) - np.int64(crashed.so_far[transition]))
            )
        if most < crashed.so_far[transition]:
            crashed.left[transition] = 1
        elif least < crashed.so_far[transition]:
            m[BLURRED] = 1
        m[CRASHED] -= crashed.so_far[transition]
        crashed.so_far[transition] = 0
        m[CLASSES] -= 1
        crashed.classes[k] = crashed.classes[m[CLASSES]]
    _drop_dominated(space, live, crashed, m)


@inlined
def _fewest_uses(space: Space, crashed: Crashed, i: Int) -> Int:
    """The sum of the uses that a row of the frontier counts by class."""
    uses, first = np.int64(0), 1 + 2 * space.words
    for w in range(crashed.guards.size):
        bits = np.uint64(crashed.bits[w])
        fields = space.frontier[i, first + w]
        while fields != ZERO:
            uses += np.int64(fields & ((ONE << bits) - ONE))
            fields >>= bits
    return uses


@inlined
def _drop_dominated(space: Space, live: Live, crashed: Crashed, m: I64) -> None:
    """Keep only minimal rows of the frontier, and one of equal ones."""
    # There is room for all rows: the pool has at least twice as many as the frontier (`Machine`).
    m[EPOCH] += 1
    m[POOL] = 0
    for i in range(m[FRONTIER]):
        _enter(space, live, crashed, m, i)
    kept = 0
    for i in range(m[POOL]):
        if space.alive[i] != 0:
            for w in range(space.pool.shape[1]):
                space.frontier[kept, w] = space.pool[i, w]
            kept += 1
    m[FRONTIER] = kept


@inlined
def _enter(space: Space, live: Live, crashed: Crashed, m: I64, i: Int) -> None:
    """Take a row of the frontier into the pool."""
    for w in range(space.frontier.shape[1]):
        space.pool[m[POOL], w] = space.frontier[i, w]
    insert(space, live, crashed, m)


@inlined
def _return(steps: Steps, space: Space, live: Live, crashed: Crashed, m: I64, kind: Int, slot: Int, limit: Int) -> Int:
    """Demand that the op in `slot` has taken effect, or end its last chance to."""
    if m[EXPANDING] == 0:
        if _foreseen(space, m, slot):
            return GO_ON
        # A row enters twice where a free overwrite returns.
        if space.pool.shape[0] < 2 * m[FRONTIER]:
            return NEEDS_POOL
        _seed(space, live, crashed, m, kind, slot)
        m[EXPANDING] = 1
    while m[CURSOR] < m[POOL]:
        cursor = m[CURSOR]
        if space.alive[cursor] != 0 and space.pool[cursor, 0] & SETTLED == ZERO:
            if m[EXPANDED] >= limit:
                return PAUSED
            status = expand(steps, space, live, crashed, m, slot)
            if status != GO_ON:
                return status
            m[EXPANDED] += 1
        m[CURSOR] += 1
    return _settle(space, m)


@inlined
def _foreseen(space: Space, m: I64, slot: Int) -> bool:
    """Clear the op's bit if it has taken effect in every configuration, for all to see: that settles the return."""
    frontier, at, bit = space.frontier, 1 + (slot >> 6), ONE << np.uint64(slot & 63)
    for i in range(m[FRONTIER]):
        # Free is not enough: that the op was hidden, and that it is yet to be seen, are two futures (`_seed`).
        if (frontier[i, at] & ~frontier[i, at + space.words]) & bit == ZERO:
            return False
    for i in range(m[FRONTIER]):
        frontier[i, at] &= ~bit
    return True


@inlined
def _seed(space: Space, live: Live, crashed: Crashed, m: I64, kind: Int, slot: Int) -> None:
    """Begin a new pool with the frontier: what is settled already, what is not, and free overwrites as both."""
    at, bit = 1 + (slot >> 6), ONE << np.uint64(slot & 63)
    m[EPOCH] += 1
    m[POOL] = 0
    m[CURSOR] = 0
    for i in range(m[FRONTIER]):
        done, available = space.frontier[i, at] & bit, space.frontier[i, at + space.words] & bit
        if done != ZERO or kind == EXPIRE:
            space.frontier[i, 0] |= SETTLED
            space.frontier[i, at] &= ~bit
            space.frontier[i, at + space.words] &= ~bit
            _enter(space, live, crashed, m, i)
            # The frontier stays as it was: if nothing returns, it is the last one that was not empty.
            space.frontier[i, 0] &= STATE
            space.frontier[i, at] |= done
            space.frontier[i, at + space.words] |= available
        if done == ZERO or available != ZERO:
            _enter(space, live, crashed, m, i)


@inlined
def _settle(space: Space, m: I64) -> Int:
    """Make the settled rows of the pool the new frontier."""
    found = 0
    for i in range(m[POOL]):
        found += space.alive[i] != 0 and space.pool[i, 0] & SETTLED != ZERO
    if found == 0:
        return VIOLATION
    if found > space.frontier.shape[0]:
        return NEEDS_FRONTIER
    kept = 0
    for i in range(m[POOL]):
        if space.alive[i] != 0 and space.pool[i, 0] & SETTLED != ZERO:
            for w in range(space.pool.shape[1]):
                space.frontier[kept, w] = space.pool[i, w]
            space.frontier[kept, 0] &= STATE
            kept += 1
    m[FRONTIER] = kept
    m[PEAK] = max(m[PEAK], kept)
    m[EXPANDING] = 0
    return GO_ON

"""The set of configurations in which one event is worked out: hashed by what must be equal, minimal in the rest."""

from __future__ import annotations

from typing import Final

import numpy as np

from splitbrain.checkers.kernels import inlined, kernel
from splitbrain.checkers.linearizable.frontier import (
    APPROXIMATE,
    EPOCH,
    I64,
    MIX,
    NARROW,
    ONE,
    POOL,
    U64,
    ZERO,
    Crashed,
    Int,
    Live,
    Space,
)

# From SplitMix64 (Steele, Lea and Flood 2014). Keys are compared whole: a collision costs time and no verdict.
_MIX_WORD: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_SHIFT: Final = np.uint64(29)


@inlined
def insert(space: Space, live: Live, crashed: Crashed, m: I64) -> None:
    """Take the candidate in the pool's next row into the pool, unless it is there already or dominated.

    Where there are too many ways to use crashed ops, the candidate may be dropped, replace another one, or be merged
    with one, as the policy has it.
    """
    pool, chain, new = space.pool, space.chain, m[POOL]
    counted = crashed.guards.size > 0
    again = True
    while again:
        again = False
        at, head = _find(space, live, m, new)
        previous, other, alike = np.int64(-1), head, 0
        while other >= 0:
            following = np.int64(chain[other])
            # No row of a chain dominates another. So if one dominates the new row, the new row has dominated none
            # before: nothing was unlinked yet.
            if _dominates(space, crashed, other, new):
                return
            if _dominates(space, crashed, new, other):
                space.alive[other] = 0
                if previous < 0:
                    head = following
                else:
                    chain[previous] = following
            else:
                alike += counted and _same_live(space, other, new)
                previous = other
            other = following
        if counted and alike >= crashed.cap:
            m[APPROXIMATE] = 1
            space.buckets[at] = (m[EPOCH] << 32) | head
            victim = _victim(space, crashed, head, new)
            if crashed.policy == NARROW and pool[new, pool.shape[1] - 1] >= pool[victim, pool.shape[1] - 1]:
                return
            head = _unlink(space, head, victim)
            if crashed.policy != NARROW:
                _meet(space, crashed, new, victim)
                # Merged, the new row may equal others, or dominate them: it is entered anew. Each merge takes a row
                # out, so this ends.
                if head >= 0:
                    space.buckets[at] = (m[EPOCH] << 32) | head
                    again = True
        if not again:
            chain[new] = head
            space.buckets[at] = (m[EPOCH] << 32) | new
            space.alive[new] = 1
    m[POOL] = new + 1


@kernel
def rehash(space: Space, live: Live, m: I64) -> None:
    """Enter the pool into fresh buckets, after the arrays were replaced by larger ones."""
    for new in range(m[POOL]):
        if space.alive[new] != 0:
            at, head = _find(space, live, m, new)
            space.chain[new] = head
            space.buckets[at] = (m[EPOCH] << 32) | new


@inlined
def _find(space: Space, live: Live, m: I64, new: Int) -> tuple[Int, Int]:
    """The bucket for a row's key, and the first row of that key, or -1."""
    mask = space.buckets.size - 1
    at = _position(space.pool[new], live.keyed, space.words, mask)
    while True:
        entry = space.buckets[at]
        # A bucket of an earlier epoch is empty, so that no event has to clear them. -1 at the beginning is of no epoch.
        if entry >> 32 != m[EPOCH]:
            return at, np.int64(-1)
        other = entry & 0xFFFFFFFF
        if _same_key(space.pool[other], space.pool[new], live.keyed, space.words):
            return at, other
        at = (at + 1) & mask


@inlined
def _position(row: U64, keyed: U64, words: Int, mask: Int) -> Int:
    mixed = row[0] * MIX
    for w in range(words):
        mixed = (mixed ^ (row[1 + w] & keyed[w])) * _MIX_WORD
        mixed ^= mixed >> _MIX_SHIFT
    return np.int64(mixed >> ONE) & mask


@inlined
def _same_key(a: U64, b: U64, keyed: U64, words: Int) -> bool:
    if a[0] != b[0]:
        return False
    for w in range(words):  # noqa: SIM110 - a plain loop is what compiles to one
        if (a[1 + w] ^ b[1 + w]) & keyed[w] != ZERO:
            return False
    return True


@inlined
def _same_live(space: Space, a: Int, b: Int) -> bool:
    for w in range(1, 1 + 2 * space.words):  # noqa: SIM110 - a plain loop is what compiles to one
        if space.pool[a, w] != space.pool[b, w]:
            return False
    return True


@inlined
def _dominates(space: Space, crashed: Crashed, a: Int, b: Int) -> bool:
    """Whether the configuration `a` can do everything that `b` can; their keys are equal."""
    pool, live = space.pool, 1 + 2 * space.words
    for w in range(1, live):
        if pool[b, w] & ~pool[a, w] != ZERO:
            return False
    for w in range(crashed.guards.size):
        # All fields at once: the guard bit above a field lends to it, and is lost where `b` has used fewer than `a`.
        guard = crashed.guards[w]
        if ((pool[b, live + w] | guard) - pool[a, live + w]) & guard != guard:
            return False
    last = pool.shape[1] - 1
    # Fields of merged rows count too few uses. The sum bounds what may still be used, so it must not be larger either.
    return not (crashed.guards.size > 0 and pool[a, last] > pool[b, last])


@inlined
def _victim(space: Space, crashed: Crashed, head: Int, new: Int) -> Int:
    """The row like `new` that has used most (NARROW), or that loses least by being merged with it (WIDE)."""
    worst, found = np.int64(-1), np.int64(-1)
    last = space.pool.shape[1] - 1
    other = head
    while other >= 0:
        if _same_live(space, other, new):
            uses = np.int64(space.pool[other, last])
            if crashed.policy != NARROW:
                # Most where the two differ in the fewest uses; the offset keeps it above `worst`.
                uses = (np.int64(1) << 40) + 2 * _uses_of_meet(space, crashed, other, new) - uses
            if uses > worst:
                worst, found = uses, other
        other = np.int64(space.chain[other])
    return found


@inlined
def _unlink(space: Space, head: Int, victim: Int) -> Int:
    """Take a row out of its chain; the new head."""
    space.alive[victim] = 0
    if head == victim:
        return np.int64(space.chain[victim])
    other = head
    while space.chain[other] != victim:
        other = np.int64(space.chain[other])
    space.chain[other] = space.chain[victim]
    return head


@inlined
def _uses_of_meet(space: Space, crashed: Crashed, a: Int, b: Int) -> Int:
    """The sum of the uses that both rows have in common."""
    uses, first = np.int64(0), 1 + 2 * space.words
    for w in range(crashed.guards.size):
        bits = np.uint64(crashed.bits[w])
        field = (ONE << bits) - ONE
        one, other = space.pool[a, first + w], space.pool[b, first + w]
        while one != ZERO and other != ZERO:
            uses += np.int64(min(one & field, other & field))
            one >>= bits
            other >>= bits
    return uses


@inlined
def _meet(space: Space, crashed: Crashed, new: Int, other: Int) -> None:
    """Let `new` have used only what `other` has used as well, and in all as few as the one that used fewer."""
    pool, first, last = space.pool, 1 + 2 * space.words, space.pool.shape[1] - 1
    for w in range(crashed.guards.size):
        bits = np.uint64(crashed.bits[w])
        field = (ONE << bits) - ONE
        one, another = pool[new, first + w], pool[other, first + w]
        met, shift = ZERO, ZERO
        while one != ZERO and another != ZERO:
            met |= min(one & field, another & field) << shift
            one >>= bits
            another >>= bits
            shift += bits
        pool[new, first + w] = met
    pool[new, last] = min(pool[new, last], pool[other, last])

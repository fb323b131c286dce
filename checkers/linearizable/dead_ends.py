"""What a depth-first search need not try again: configurations from which there was no way on, in bounded memory.

A configuration is a row of 64-bit words: position and model state in the first, then one bit per slot of a live op,
then one bit per crashed op. From a row that has used more crashed ops than a dead one, and is equal to it otherwise,
there is no way on either: everything that it could still do, the dead one could. So rows are kept under the key of
position, state and live bits, and of those with one key only the minimal ones. Keys are compared whole; a hash only
finds them.

When there is no more room the oldest rows make way. Forgetting costs time and never a verdict.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from splitbrain.checkers.kernels import inlined, kernel
from splitbrain.checkers.linearizable.frontier import I32, I64, U64, Int

# Registers of the memory.
COUNT: Final = 0
"""Rows that were ever given out; the rest of the array is fresh."""
FREE: Final = 1
"""The first of the rows that were given back, linked by `chain`; -1 for none."""
OLDEST: Final = 2
FORGOTTEN: Final = 3
"""How many rows made way for others."""
REGISTERS: Final = 4

# From SplitMix64 (Steele, Lea and Flood 2014).
_MIX_FIRST: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_WORD: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_SHIFT: Final = np.uint64(31)
_ONE: Final = np.uint64(1)
_ZERO: Final = np.uint64(0)


class DeadEnds(NamedTuple):
    """Rows by key: `buckets` hold the first row of a chain, -1 for none; a power of two of them."""

    key_words: int
    rows: U64
    chain: I32
    buckets: I32
    m: I64


def empty(key_words: int, width: int, capacity: int) -> DeadEnds:
    """Room for `capacity` rows of `width` words, of which the first `key_words` are the key."""
    m = np.zeros(REGISTERS, np.int64)
    m[FREE] = -1
    return DeadEnds(
        key_words,
        np.empty((capacity, width), np.uint64),
        np.empty(capacity, np.int32),
        np.full(1 << max(4, (capacity - 1).bit_length()), -1, np.int32),
        m,
    )


def enlarged(old: DeadEnds, capacity: int) -> DeadEnds:
    """The same rows, with room for more."""
    new = empty(old.key_words, old.rows.shape[1], capacity)
    new.rows[: len(old.rows)] = old.rows
    _move(old, new)
    return new


def row_bytes(width: int) -> int:
    """Bytes that a row takes, its place in the chains and buckets included."""
    # Its words, its place in the chain, and up to two buckets of 4 bytes.
    return 8 * width + 4 + 8


@kernel
def _move(old: DeadEnds, new: DeadEnds) -> None:
    for register in range(REGISTERS):
        new.m[register] = old.m[register]
    for row in range(old.chain.size):
        new.chain[row] = old.chain[row]
    for bucket in range(old.buckets.size):
        row = np.int64(old.buckets[bucket])
        while row >= 0:
            following = np.int64(old.chain[row])
            at = _bucket(new, new.rows[row])
            new.chain[row] = new.buckets[at]
            new.buckets[at] = row
            row = following


@inlined
def _bucket(dead: DeadEnds, row: U64) -> Int:
    mixed = row[0] * _MIX_FIRST
    for w in range(1, dead.key_words):
        mixed = (mixed ^ (mixed >> _MIX_SHIFT) ^ row[w]) * _MIX_WORD
    mixed = (mixed ^ (mixed >> _MIX_SHIFT)) * _MIX_WORD
    return np.int64((mixed ^ (mixed >> _MIX_SHIFT)) >> _ONE) & (dead.buckets.size - 1)


@inlined
def _same_key(a: U64, b: U64, key_words: Int) -> bool:
    for w in range(key_words):  # noqa: SIM110 - a plain loop is what compiles to one
        if a[w] != b[w]:
            return False
    return True


@inlined
def _uses_no_more(a: U64, b: U64, key_words: Int) -> bool:
    """Whether the crashed ops that `a` has used are a subset of those of `b`."""
    for w in range(key_words, a.size):  # noqa: SIM110 - a plain loop is what compiles to one
        if a[w] & ~b[w] != _ZERO:
            return False
    return True


@inlined
def is_dead(dead: DeadEnds, row: U64) -> bool:
    """Whether there is no way on from a configuration, as far as is remembered."""
    known = np.int64(dead.buckets[_bucket(dead, row)])
    while known >= 0:
        if _same_key(dead.rows[known], row, dead.key_words) and _uses_no_more(dead.rows[known], row, dead.key_words):
            return True
        known = np.int64(dead.chain[known])
    return False


@inlined
def is_full(dead: DeadEnds) -> bool:
    """Whether the next row that is remembered takes another's place."""
    return dead.m[FREE] < 0 and dead.m[COUNT] >= dead.chain.size


@inlined
def remember(dead: DeadEnds, row: U64) -> None:
    """Remember that there is no way on from a configuration, and forget those that this one implies."""
    bucket = _bucket(dead, row)
    previous, known = np.int64(-1), np.int64(dead.buckets[bucket])
    while known >= 0:
        following = np.int64(dead.chain[known])
        if _same_key(dead.rows[known], row, dead.key_words) and _uses_no_more(row, dead.rows[known], dead.key_words):
            _unlink(dead, bucket, previous, following)
            dead.chain[known] = dead.m[FREE]
            dead.m[FREE] = known
        else:
            previous = known
        known = following
    # It may change the head of this bucket, which is therefore read after it.
    new = _room(dead)
    for w in range(row.size):
        dead.rows[new, w] = row[w]
    dead.chain[new] = dead.buckets[bucket]
    dead.buckets[bucket] = new


@inlined
def _unlink(dead: DeadEnds, bucket: Int, previous: Int, following: Int) -> None:
    if previous < 0:
        dead.buckets[bucket] = following
    else:
        dead.chain[previous] = following


@inlined
def _room(dead: DeadEnds) -> Int:
    """A row to write to: one that was given back, a fresh one, or that of the oldest."""
    m = dead.m
    if m[FREE] >= 0:
        new = m[FREE]
        m[FREE] = np.int64(dead.chain[new])
        return new
    if m[COUNT] < dead.chain.size:
        m[COUNT] += 1
        return m[COUNT] - 1
    # No row was given back and none is fresh: so the oldest is in use, and its chain leads to it.
    new = m[OLDEST]
    m[OLDEST] = (new + 1) % dead.chain.size
    m[FORGOTTEN] += 1
    bucket = _bucket(dead, dead.rows[new])
    previous, known = np.int64(-1), np.int64(dead.buckets[bucket])
    while known != new:
        previous, known = known, np.int64(dead.chain[known])
    _unlink(dead, bucket, previous, np.int64(dead.chain[new]))
    return new

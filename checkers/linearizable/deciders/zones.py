"""One value that is read, overwritten and compared-and-set, where each observed value was written once.

After Gibbons and Korach (1997, "Testing shared memories", the read-mapping of VL). The writer of a value and the reads
of it form a *cluster*: they take effect one after the other, with no other write among them. A successful compare-and-
set from a to b directly follows the cluster of a and begins that of b, which chains clusters into *blocks* whose ops
have a fixed order, reads of one value apart. Of all ops of a block let f be the end that comes first and s the
invocation that comes last. Where f < s, the block must hold the value throughout [f, s] (a forward zone); otherwise
all of its ops overlap in [s, f] and can take effect at any one moment in there (a backward zone).

The history is linearizable exactly if

- no op ends before one is invoked that precedes it in its block (in particular: no read ends before its write begins),
- no two forward zones overlap, and
- no backward zone lies within a forward zone.

Necessary, since a block is contiguous and covers its forward zone. Sufficient: let each block take effect within its
zone, a forward one as early as its order allows from f on, which is never after s; what remains of a backward zone
outside all forward zones contains an open interval, for these are disjoint.

The initial value is a write before everything. An op that crashed is left out where nothing depends on it: an
overwrite, or compare-and-set, of a value that no op observed. Otherwise it must have happened, and has no end.
Time is linear but for sorting the zones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from splitbrain.checkers.kernels import kernel
from splitbrain.checkers.linearizable.deciders import Decision
from splitbrain.checkers.linearizable.deciders.intervals import by_invocation, ends, name
from splitbrain.checkers.linearizable.ops import I64, B, Ops, show

NONE: Final = -1
INITIAL: Final = 0
_BEFORE_ALL: Final = -1

# Why a walk through the blocks ended early.
_FINE: Final = 0
_TWO_SUCCESSORS: Final = 1
_OUT_OF_ORDER: Final = 2


@dataclass(frozen=True)
class Accesses:
    """What each op requires of the value, and makes of it.

    Attributes:
        requires: number of the value that must be held, NONE if any will do, by op.
        becomes: number of the value that is held afterwards, NONE if it stays, by op.
        values: how many numbers there are; INITIAL is that of the value before the first op.
        named: what to call the value that has a number.
    """

    requires: I64
    becomes: I64
    values: int
    named: Callable[[int], str]


class _Clusters(NamedTuple):
    """By value: its writer, the read that ended first, the read that began last, the compare-and-set from it."""

    writer: I64
    first_read: I64
    last_read: I64
    successor: I64


class _Timed(NamedTuple):
    """By op: the row that it begins at, the row that it ends at, and what it requires and makes of the value."""

    start: I64
    end: I64
    requires: I64
    becomes: I64
    live: B


def decide(ops: Ops, accesses: Accesses) -> Decision | None:
    """Whether the ops are linearizable; None if an observed value has more than one possible writer."""
    timed = _needed(ops, accesses)
    if timed is None:
        return None
    values = max(accesses.values, int(timed.becomes.max(initial=0)) + 1)
    clusters = _Clusters(*(np.full(values, NONE, np.int64) for _ in _Clusters._fields))
    found = np.full(2, NONE, np.int64)
    if _cluster(timed, clusters, found) == _TWO_SUCCESSORS:
        one, other = (_acknowledged(ops, timed, clusters, int(op)) for op in found)
        value = accesses.named(int(timed.requires[found[0]]))
        reason = f"two ops replaced the same {value}, which was written once"
        return Decision(False, by_invocation(one, other), reason)
    reached = np.zeros(values, np.bool_)
    first_end, last_start = np.full(values, NONE, np.int64), np.full(values, NONE, np.int64)
    if _chain(timed, clusters, first_end, last_start, reached, found) == _OUT_OF_ORDER:
        early, late = int(found[0]), int(found[1])
        reason = f"{name(ops, early)} had ended before {name(ops, late)} began, which must come before it"
        return Decision(False, by_invocation(early, late), reason)
    unfounded = _unfounded(ops, accesses, timed, clusters, reached)
    if unfounded is not None:
        return unfounded
    contradiction = _contradiction(timed, first_end, last_start)
    if contradiction is None:
        return Decision(True)
    within, one, other = contradiction
    about = [op for block in (one, other) for op in (int(first_end[block]), int(last_start[block])) if op != NONE]
    culprits = by_invocation(*(_acknowledged(ops, timed, clusters, op) for op in about))
    held, meanwhile = (_held(ops, accesses, timed, int(last_start[block])) for block in (one, other))
    reason = (
        f"{meanwhile} can only have been the value while {held} must have been, before and after"
        if within
        else f"{held} and {meanwhile} must have been the value over times that overlap"
    )
    return Decision(False, culprits, reason)


def _needed(ops: Ops, accesses: Accesses) -> _Timed | None:
    """The ops without those that crashed and on which nothing depends; None if an observed value has two writers."""
    requires, becomes = accesses.requires, accesses.becomes.copy()
    written = becomes != NONE
    writers = np.bincount(becomes[written], minlength=accesses.values)
    writers[INITIAL] += 1
    observed = np.zeros(accesses.values, np.bool_)
    observed[requires[~ops.crashed & (requires != NONE)]] = True
    writer = np.full(accesses.values, NONE, np.int64)
    writer[becomes[written]] = np.flatnonzero(written)
    _observe_through_crashed(ops.crashed, requires, writer, observed)
    if bool((observed & (writers > 1)).any()):
        return None
    unobserved = written & ~observed[becomes]
    live = ~ops.crashed | (written & ~unobserved)
    # Values that no op observed may have been written any number of times: each write is a cluster of its own.
    becomes[unobserved] = accesses.values + np.arange(int(unobserved.sum()))
    return _Timed(ops.invoked, ends(ops), requires, becomes, live)


@kernel
def _observe_through_crashed(crashed: B, requires: I64, writer: I64, observed: B) -> None:
    """A crashed compare-and-set whose new value was observed has observed the value that it expected."""
    for value in range(observed.size):
        at = value
        # Each step marks a value that was not marked: a circle of crashed ops ends here as well.
        while observed[at] and writer[at] != NONE and crashed[writer[at]]:
            at = requires[writer[at]]
            if at == NONE or observed[at]:
                break
            observed[at] = True


@kernel
def _cluster(timed: _Timed, clusters: _Clusters, found: I64) -> int:
    """Fill in the clusters; _TWO_SUCCESSORS with both in `found` if two ops replaced the same value."""
    status = _FINE
    for op in range(timed.start.size):
        if not timed.live[op]:
            continue
        requires, becomes = timed.requires[op], timed.becomes[op]
        if becomes != NONE:
            clusters.writer[becomes] = op
        if requires == NONE:
            continue
        if becomes != NONE:
            if clusters.successor[requires] != NONE:
                found[0], found[1] = clusters.successor[requires], op
                # The loop goes on: the evidence needs the reads of every value.
                status = _TWO_SUCCESSORS
            else:
                clusters.successor[requires] = op
            continue
        # Ops come by invocation, so that the last one stays.
        clusters.last_read[requires] = op
        first = clusters.first_read[requires]
        if first == NONE or timed.end[op] < timed.end[first]:
            clusters.first_read[requires] = op
    return status


@kernel
def _chain(timed: _Timed, clusters: _Clusters, first_end: I64, last_start: I64, reached: B, found: I64) -> int:
    """Walk through each block from its first value on.

    Fills in, by first value of a block, the op that ended first (NONE for the block of the initial value) and the op
    that began last. _OUT_OF_ORDER, with the op that ended too early and the one that began too late in `found`, if the
    ops of a block contradict its order.
    """
    for root in range(reached.size):
        writer = clusters.writer[root]
        if root != INITIAL and (writer == NONE or timed.requires[writer] != NONE):
            continue
        earliest, latest = writer, writer
        value = root
        while True:
            reached[value] = True
            reader = clusters.first_read[value]
            if reader != NONE:
                if latest != NONE and timed.end[reader] < timed.start[latest]:
                    found[0], found[1] = reader, latest
                    return _OUT_OF_ORDER
                if root != INITIAL and timed.end[reader] < timed.end[earliest]:
                    earliest = reader
                reader = clusters.last_read[value]
                if latest == NONE or timed.start[reader] > timed.start[latest]:
                    latest = reader
            successor = clusters.successor[value]
            if successor == NONE:
                break
            if latest != NONE and timed.end[successor] < timed.start[latest]:
                found[0], found[1] = successor, latest
                return _OUT_OF_ORDER
            if root != INITIAL and timed.end[successor] < timed.end[earliest]:
                earliest = successor
            if latest == NONE or timed.start[successor] > timed.start[latest]:
                latest = successor
            value = timed.becomes[successor]
        first_end[root], last_start[root] = earliest, latest
    return _FINE


def _unfounded(ops: Ops, accesses: Accesses, timed: _Timed, clusters: _Clusters, reached: B) -> Decision | None:
    """The violation that a value was observed that nothing can have written."""
    needs = np.flatnonzero(timed.live & (timed.requires != NONE))
    lost = needs[~reached[timed.requires[needs]]]
    if not lost.size:
        return None
    op = int(lost[0])
    value = int(timed.requires[op])
    reason = f"nothing that can have happened wrote {accesses.named(value)}"
    writer = int(clusters.writer[value])
    about = (_acknowledged(ops, timed, clusters, op),) + (() if writer == NONE else (writer,))
    return Decision(False, by_invocation(*about), reason)


def _contradiction(timed: _Timed, first_end: I64, last_start: I64) -> tuple[bool, int, int] | None:
    """Two blocks whose zones contradict each other, and whether the second lies within the first."""
    blocks = np.flatnonzero(last_start != NONE)
    first, last = first_end[blocks], last_start[blocks]
    f = np.where(first == NONE, _BEFORE_ALL, timed.end[first])
    s = timed.start[last]
    forward = f < s
    order = np.argsort(f[forward])
    held, held_f, held_s = blocks[forward][order], f[forward][order], s[forward][order]
    # Neighbours suffice: zones are sorted by their beginnings, so one that ends before the next ends before all others.
    overlaps = np.flatnonzero(held_s[:-1] > held_f[1:])
    if overlaps.size:
        return False, int(held[overlaps[0]]), int(held[overlaps[0] + 1])
    if not held.size:
        return None
    brief, brief_f, brief_s = blocks[~forward], f[~forward], s[~forward]
    before = np.searchsorted(held_f, brief_s) - 1
    within = np.flatnonzero((before >= 0) & (held_s[before] > brief_f))
    return (True, int(held[before[within[0]]]), int(brief[within[0]])) if within.size else None


def _acknowledged(ops: Ops, timed: _Timed, clusters: _Clusters, op: int) -> int:
    """`op`, or where it crashed an acknowledged op that cannot have happened without it."""
    while ops.crashed[op]:
        value = int(timed.becomes[op])
        reader = int(clusters.first_read[value])
        op = int(clusters.successor[value]) if reader == NONE else reader
    return op


def _held(ops: Ops, accesses: Accesses, timed: _Timed, op: int) -> str:
    """A value of the block of an op: what it required, or else what it wrote."""
    number = int(timed.becomes[op] if timed.requires[op] == NONE else timed.requires[op])
    unobserved = number >= accesses.values
    return show(ops.transitions[int(ops.transition[op])].value) if unobserved else accesses.named(number)


def warm_up() -> None:
    """Compile the kernels of this module, or load them from the cache."""
    none, value, no_op = np.zeros(0, np.int64), np.full(1, NONE, np.int64), np.zeros(0, np.bool_)
    clusters = _Clusters(*(value.copy() for _ in _Clusters._fields))
    timed = _Timed(none, none, none, none, no_op)
    _observe_through_crashed(no_op, none, value, np.zeros(1, np.bool_))
    _cluster(timed, clusters, value)
    _chain(timed, clusters, value, value, np.zeros(1, np.bool_), value)

"""The depth-first search for a linearization, as a machine on integer arrays that stops and goes on at will.

Wing and Gong 1993, with the memory of Lowe 2017: let an op take effect that may be next, go on from there, and come
back to try another when nothing follows. Where the frontier keeps all explanations of what was read so far, this keeps
one, and those that led nowhere (`dead_ends`): it is the better arm where explanations are many and easy to find.

The configuration: *position*, the first event that is not explained (the return of an op that has not taken effect);
the model's state; for ops under way at that position, a bit per slot for having taken effect; a bit per crashed op that
was used. Every op that returned before the position has taken effect, so that live bits are as many as ops under way at
once, however long the history, and there is no set of all ops to be stored.

- Ops under way that have not taken effect are linked lists (mutators by rank, observers), from which an op is
  taken out and put back in place, as its neighbours still point to where it was (Knuth's dancing links).
- Observers take effect the moment they are valid; nothing branches on them.
- Mutators are tried in an order that is given, crashed ops at last. Of identical crashed ops only the earliest
  unused is tried. A use that changes nothing is skipped, and so is an op right after a use if it would have
  led to the same state without it: that configuration has used less, and all that follows from this one follows there.
  Of crashed assignments only those are tried that leave what is asked for (`asked`).

A search that ends without a linearization has reached, up to dominance, every configuration that explains a prefix: the
furthest position that it was at is the event that ends the smallest failing prefix, the frontier's.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from splitbrain.checkers.kernels import inlined, kernel
from splitbrain.checkers.linearizable.asked import COUNT, Asked, ask, ask_for_all
from splitbrain.checkers.linearizable.dead_ends import DeadEnds, is_dead, is_full, remember
from splitbrain.checkers.linearizable.frontier import (
    CALL,
    CALL_OBSERVER,
    DONE,
    GO_ON,
    I8,
    I32,
    I64,
    NEEDS_CELL,
    PAUSED,
    RETURN,
    U64,
    UNKNOWN,
    VIOLATION,
    Int,
    Steps,
    step,
)

# Why `advance` stopped, beyond what the frontier's machine has: there are no rows left for dead ends.
# The codes up to NEEDS_FRONTIER (5) are shared with that machine, so this is the next one.
NEEDS_ROOM: Final = 6

# What the machine is about to do.
_SETTLE: Final = 0
_CHOOSE: Final = 1
_BACK: Final = 2

# Registers of this machine. Those of the frontier's machine have other names.
PHASE: Final = 0
POSITION: Final = 1
AT_STATE: Final = 2
MOVES: Final = 3
FRAMES: Final = 4
NEXT: Final = 5
UNSEEN: Final = 6
"""1 while observers under way have not been tried in the state."""
FURTHEST: Final = 7
EXPLORED: Final = 8
MISSING_STATE: Final = 9
MISSING_TRANSITION: Final = 10
BOUNDED: Final = 11
"""1 when there can be no more room for dead ends."""
REGISTERS: Final = 12

# Events and states are numbered in 32 bits: one word holds both, and one comparison tells two configurations apart.
_STATE_BITS: Final = np.uint64(32)
_STATE: Final = np.uint64(0xFFFFFFFF)
_ONE: Final = np.uint64(1)
_ZERO: Final = np.uint64(0)


class History(NamedTuple):
    """What happened. Live ops are numbered by invocation; crashed ones class by class (equal transitions).

    Classes come by what they leave if that is known (`asked.is_indexed`), else by their first invocation.

    kind, op: by event; `op` is -1 for a crash.
    transition, slot, rank: by live op; mutators are tried by `rank`, the lowest first.
    crashed_at: event of the invocation, by crashed op, ascending within its class.
    class_transition, class_first: by class; `class_first` has one entry more.
    """

    kind: I8
    op: I32
    transition: I32
    slot: I32
    rank: I32
    crashed_at: I32
    class_transition: I32
    class_first: I32


class Path(NamedTuple):
    """The configuration (`now`, a row as in `dead_ends`), and how it was reached.

    following, previous: the linked lists, by live op; two heads behind them, of mutators and of observers.
    move, moved_at: ops in the order in which they took effect (a crashed one by its class, behind the lists' heads),
    and the position then.
    base, kept: by configuration from which there was a choice: moves before it, and its key.
    used: crashed ops used, by class.
    """

    following: I32
    previous: I32
    move: I32
    moved_at: I32
    base: I32
    kept: U64
    used: I32
    now: U64


@inlined
def _link_before(path: Path, op: Int, following: Int) -> None:
    previous = path.previous[following]
    path.previous[op] = previous
    path.following[op] = following
    path.following[previous] = op
    path.previous[following] = op


@inlined
def _unlink(path: Path, op: Int) -> None:
    path.following[path.previous[op]] = path.following[op]
    path.previous[path.following[op]] = path.previous[op]


@inlined
def _relink(path: Path, op: Int) -> None:
    path.following[path.previous[op]] = op
    path.previous[path.following[op]] = op


@inlined
def _has_taken_effect(history: History, path: Path, op: Int) -> bool:
    slot = history.slot[op]
    return path.now[1 + (slot >> 6)] & (_ONE << np.uint64(slot & 63)) != _ZERO


@inlined
def _take_effect(history: History, path: Path, m: I64, op: Int) -> None:
    slot = history.slot[op]
    path.now[1 + (slot >> 6)] |= _ONE << np.uint64(slot & 63)
    _unlink(path, op)
    path.move[m[MOVES]] = op
    path.moved_at[m[MOVES]] = m[POSITION]
    m[MOVES] += 1


@inlined
def _observe(history: History, steps: Steps, path: Path, m: I64, op: Int) -> bool:
    """Let an observer take effect if it is valid; False if a cell is missing."""
    following = step(steps, m[AT_STATE], history.transition[op])
    if following == UNKNOWN:
        m[MISSING_STATE] = m[AT_STATE]
        m[MISSING_TRANSITION] = history.transition[op]
        return False
    if following >= 0:
        _take_effect(history, path, m, op)
    return True


@inlined
def _settle(history: History, steps: Steps, path: Path, m: I64) -> Int:
    """Let valid observers take effect, and read on to the first return of an op that has not taken effect."""
    mutators = history.transition.size
    observers = mutators + 1
    if m[UNSEEN] != 0:
        op = np.int64(path.following[observers])
        while op != observers:
            following = np.int64(path.following[op])
            if not _observe(history, steps, path, m, op):
                return NEEDS_CELL
            op = following
        m[UNSEEN] = 0
    while m[POSITION] < history.kind.size:
        event = m[POSITION]
        kind, op = history.kind[event], np.int64(history.op[event])
        if kind == RETURN:
            if not _has_taken_effect(history, path, op):
                break
            slot = history.slot[op]
            path.now[1 + (slot >> 6)] &= ~(_ONE << np.uint64(slot & 63))
        elif kind == CALL:
            later = np.int64(path.previous[mutators])
            while later != mutators and history.rank[later] > history.rank[op]:
                later = np.int64(path.previous[later])
            _link_before(path, op, path.following[later])
        elif kind == CALL_OBSERVER:
            following = step(steps, m[AT_STATE], history.transition[op])
            if following == UNKNOWN:
                m[MISSING_STATE] = m[AT_STATE]
                m[MISSING_TRANSITION] = history.transition[op]
                return NEEDS_CELL
            _link_before(path, op, observers)
            if following >= 0:
                # Counted as called before it takes effect: on the way back it returns to its list first, and then
                # leaves it as not yet called. Such links can be undone in reverse order only.
                m[POSITION] += 1
                _take_effect(history, path, m, op)
                continue
        m[POSITION] += 1
    m[FURTHEST] = max(m[FURTHEST], m[POSITION])
    path.now[0] = np.uint64(m[POSITION]) << _STATE_BITS | np.uint64(m[AT_STATE])
    return GO_ON


@inlined
def _open(history: History, path: Path, m: I64) -> None:
    """Note the configuration as one from which there is a choice."""
    frame = m[FRAMES]
    path.base[frame] = m[MOVES]
    # The key only: crashed ops may be thousands, and their bits are undone one by one on the way back.
    for w in range(path.kept.shape[1]):
        path.kept[frame, w] = path.now[w]
    m[FRAMES] += 1
    m[NEXT] = path.following[history.transition.size]
    m[EXPLORED] += 1


@inlined
def _before_unseen_use(history: History, path: Path, m: I64) -> Int:
    """The state before the last move if that used a crashed op, and nothing took effect since; else -1.

    What leads from there to the same state as from here makes that use a waste, and need not be tried here.
    """
    frame = m[FRAMES] - 1
    if frame == 0 or path.move[path.base[frame] - 1] < history.transition.size + 2:
        return np.int64(-1)
    return np.int64(path.kept[frame - 1, 0] & _STATE)


@inlined
def _is_left(history: History, path: Path, m: I64, known: Int) -> bool:
    """Whether a crashed op of a class has been called and not been used."""
    crashed = history.class_first[known] + path.used[known]
    return bool(crashed < history.class_first[known + 1] and history.crashed_at[crashed] < m[POSITION])


@inlined
def _use(history: History, steps: Steps, path: Path, m: I64, before: Int, known: Int) -> Int:
    """Use a crashed op of a class of which one is left; DONE if that is not possible or a waste."""
    classes = history.transition.size + 2
    following = step(steps, m[AT_STATE], history.class_transition[known])
    if following == UNKNOWN:
        m[NEXT] = classes + known
        m[MISSING_STATE] = m[AT_STATE]
        m[MISSING_TRANSITION] = history.class_transition[known]
        return NEEDS_CELL
    if (
        following < 0
        or following == m[AT_STATE]
        or (before >= 0 and step(steps, before, history.class_transition[known]) == following)
    ):
        return DONE
    crashed = history.class_first[known] + path.used[known]
    path.used[known] += 1
    path.now[path.kept.shape[1] + (crashed >> 6)] |= _ONE << np.uint64(crashed & 63)
    path.move[m[MOVES]] = classes + known
    path.moved_at[m[MOVES]] = m[POSITION]
    m[MOVES] += 1
    m[UNSEEN] = 1
    m[AT_STATE] = following
    return GO_ON


@inlined
def _choose_crashed(history: History, steps: Steps, path: Path, asked: Asked, m: I64, before: Int) -> Int:
    """Use a crashed op of the next class that can be used; DONE if there is none left."""
    for known in range(m[NEXT] - history.transition.size - 2, history.class_transition.size):
        # Classes come by their first invocation here: none behind this one was called by now.
        if asked.first.size == 0 and history.crashed_at[history.class_first[known]] >= m[POSITION]:
            break
        if _is_left(history, path, m, known):
            status = _use(history, steps, path, m, before, known)
            if status != DONE:
                return status
    return DONE


@inlined
def _choose_asked(history: History, steps: Steps, path: Path, asked: Asked, m: I64, before: Int) -> Int:
    """Use the next crashed op that leaves what is asked for; DONE if there is none left.

    What is asked for is found again in the same order each time, and passed over up to what was tried last.
    """
    last = m[NEXT] - history.transition.size - 3
    passing = np.int64(-1)
    if last >= 0:
        passing = np.int64(steps.becomes[history.class_transition[last]])
    at = 0
    while at < asked.m[COUNT]:
        value = np.int64(asked.values[at])
        at += 1
        for known in range(asked.first[value], asked.first[value + 1]):
            if history.crashed_at[history.class_first[known]] >= m[POSITION]:
                break
            if not _is_left(history, path, m, known):
                continue
            requires = np.int64(steps.requires[history.class_transition[known]])
            if requires >= 0 and requires != m[AT_STATE]:
                ask(asked, requires)
            elif passing < 0 or (passing == value and known > last):
                status = _use(history, steps, path, m, before, known)
                if status != DONE:
                    return status
        if passing == value:
            passing = np.int64(-1)
    return DONE


@inlined
def _choose(history: History, steps: Steps, path: Path, asked: Asked, m: I64) -> Int:
    """Let the next op take effect that can; DONE if there is none left."""
    mutators = history.transition.size
    classes = mutators + 2
    before = _before_unseen_use(history, path, m)
    if m[NEXT] < mutators:
        op = m[NEXT]
        while op != mutators:
            following = step(steps, m[AT_STATE], history.transition[op])
            if following == UNKNOWN:
                m[NEXT] = op
                m[MISSING_STATE] = m[AT_STATE]
                m[MISSING_TRANSITION] = history.transition[op]
                return NEEDS_CELL
            if following >= 0 and (before < 0 or step(steps, before, history.transition[op]) != following):
                _take_effect(history, path, m, op)
                # Observers that were not valid in this state are not now either.
                m[UNSEEN] = following != m[AT_STATE]
                m[AT_STATE] = following
                return GO_ON
            op = np.int64(path.following[op])
        m[NEXT] = mutators
    if m[NEXT] == mutators:
        m[NEXT] = classes
    if history.class_transition.size == 0:
        return DONE
    if asked.first.size == 0 or ask_for_all(
        asked, steps, m[AT_STATE], history.transition, path.following, np.int64(history.op[m[POSITION]])
    ):
        return _choose_crashed(history, steps, path, asked, m, before)
    return _choose_asked(history, steps, path, asked, m, before)


@inlined
def _read_back(history: History, path: Path, m: I64, position: Int) -> None:
    """Go back to an earlier position: ops that were called since are no longer under way."""
    while m[POSITION] > position:
        m[POSITION] -= 1
        if history.kind[m[POSITION]] <= CALL_OBSERVER:
            _unlink(path, history.op[m[POSITION]])


@inlined
def _back(history: History, path: Path, m: I64) -> bool:
    """Undo what was done since the last choice, and point behind what was chosen; False if there was no choice."""
    if m[FRAMES] == 0:
        return False
    frame = m[FRAMES] - 1
    classes = history.transition.size + 2
    while m[MOVES] > path.base[frame]:
        m[MOVES] -= 1
        _read_back(history, path, m, path.moved_at[m[MOVES]])
        moved = np.int64(path.move[m[MOVES]])
        if moved < classes:
            _relink(path, moved)
            m[NEXT] = path.following[moved]
        else:
            known = moved - classes
            path.used[known] -= 1
            crashed = history.class_first[known] + path.used[known]
            path.now[path.kept.shape[1] + (crashed >> 6)] &= ~(_ONE << np.uint64(crashed & 63))
            m[NEXT] = moved + 1
    for w in range(path.kept.shape[1]):
        path.now[w] = path.kept[frame, w]
    m[AT_STATE] = np.int64(path.now[0] & _STATE)
    return True


@kernel
def advance(history: History, steps: Steps, path: Path, asked: Asked, dead: DeadEnds, m: I64, budget: Int) -> Int:
    """Go on with the search until its end, a need, or `budget` more configurations from which there is a choice.

    When it is DONE the moves of the path are a linearization. At a VIOLATION every configuration was tried.
    """
    limit = m[EXPLORED] + budget
    while True:
        if m[PHASE] == _SETTLE:
            status = _settle(history, steps, path, m)
            if status != GO_ON:
                return status
            if m[POSITION] == history.kind.size:
                return DONE
            if is_dead(dead, path.now):
                m[PHASE] = _BACK
            elif m[EXPLORED] >= limit:
                return PAUSED
            else:
                _open(history, path, m)
                m[PHASE] = _CHOOSE
        elif m[PHASE] == _CHOOSE:
            status = _choose(history, steps, path, asked, m)
            if status == NEEDS_CELL:
                return NEEDS_CELL
            if status == GO_ON:
                m[PHASE] = _SETTLE
            else:
                if is_full(dead) and m[BOUNDED] == 0:
                    return NEEDS_ROOM
                remember(dead, path.now)
                m[FRAMES] -= 1
                m[PHASE] = _BACK
        elif _back(history, path, m):
            m[PHASE] = _CHOOSE
        else:
            return VIOLATION

"""In which order the depth-first arm tries ops: what their answers show of it, long before the search comes there.

By return, if nothing else is known. Guesses know the ops of one kind of model; a bad one costs only time.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np

from splitbrain.checkers.linearizable.deciders.arrangements import Arrangement, arranged
from splitbrain.checkers.linearizable.deciders.texts import NONE, Store, read_store
from splitbrain.checkers.linearizable.ops import I32, I64, B, Ops
from splitbrain.checkers.models import State

LAST: Final = int(np.iinfo(np.int32).max)


def ranks(ops: Ops, initial: State, observer: B, live: I64, due: I32) -> I32:
    """Numbers by which live ops are tried, the lowest first.

    Args:
        ops: the partition.
        initial: the state at the beginning.
        observer: whether a transition only observes, by transition.
        live: the live ops, by number.
        due: the event of its return, by live op.
    """
    by_return = as_taken(ops, observer, live, due)
    fs = {transition.f for transition in ops.transitions}
    if "append" in fs and fs <= {"get", "put", "append"}:
        store = read_store(ops, initial if isinstance(initial, str) else "")
        if store is not None:
            return as_shown(store, live, by_return, due)
    return by_return


def as_taken(ops: Ops, observer: B, live: I64, due: I32) -> I32:
    """By return, but what puts a value somewhere by the return of the op that takes it away, as in queues.

    Of ops with equal values the first to return is matched with the first taker; if there are too few of these the rest
    comes at last. An op takes if it was asked without a value and answered with one, and is no observer.
    """
    put: dict[Hashable, list[int]] = {}
    for t, what in enumerate(ops.transitions):
        if what.value is not None:
            put.setdefault(what.value, []).append(t)
    taker, putter = np.full((2, len(ops.transitions) + 1), -1, np.int64)
    for t, what in enumerate(ops.transitions):
        if what.value is None and what.result is not None and not observer[t] and what.result in put:
            taker[t] = t
            putter[put[what.result]] = t
    by_taker, by_putter = taker[ops.transition[live]], putter[ops.transition[live]]
    puts, takes = np.flatnonzero(by_putter >= 0), np.flatnonzero(by_taker >= 0)
    puts = puts[np.lexsort((due[puts], by_putter[puts]))]
    takes = takes[np.lexsort((due[takes], by_taker[takes]))]
    place = np.arange(len(puts)) - np.searchsorted(by_putter[puts], by_putter[puts])
    match = np.searchsorted(by_taker[takes], by_putter[puts]) + place
    matched = match < np.searchsorted(by_taker[takes], by_putter[puts], side="right")
    rank = due.copy()
    rank[puts] = LAST
    rank[puts[matched]] = due[takes[match[matched]]]
    return rank


def as_shown(store: Store, live: I64, rank: I32, due: I32) -> I32:
    """Pieces of text come in the order in which the first text that was answered has them.

    A piece that no text shows was hidden by a put before any get: it comes right before the next put of a text
    that was looked at. If there is none it comes last, since no get follows.
    """
    when = np.full(len(store.begin), LAST, np.int64)
    when[live] = due
    found = arranged(store)
    first, place = np.full((2, len(store.begin)), NONE, np.int64)
    shown = _first_shown(found, store, when)
    for number, op in found.appended.items():
        first[op], place[op] = shown[number], found.forest.length[number] + 1
    bases: list[int] = []
    for text, number in found.forest.bases.items():
        for op in store.puts.get(text, ())[:1]:
            first[op], place[op] = shown[number], 1
            bases.append(op)
    ends = np.array([store.end[op] for op in bases], np.int64)
    by_end = np.argsort(ends, kind="stable")
    # By base, in the order of their ends: the first time that one of those is looked at which end no earlier.
    looked_at = np.append(np.minimum.accumulate(first[bases][by_end][::-1])[::-1], LAST)
    unseen = [op for written in (store.pieces, store.puts) for each in written.values() for op in each if first[op] < 0]
    begins = np.array([store.begin[op] for op in unseen], np.int64)
    first[unseen], place[unseen] = looked_at[np.searchsorted(ends[by_end], begins, side="right")], 0
    known = first[live] >= 0
    order = np.lexsort((due, place[live], np.where(known, first[live], rank)))
    result = np.empty(len(live), np.int32)
    result[order] = np.arange(len(live), dtype=np.int32)
    return result


def _first_shown(found: Arrangement, store: Store, when: I64) -> list[int]:
    """By number of a string, the first return of a get that shows it, alone or at the beginning."""
    forest = found.forest
    shown = [LAST] * len(forest.shown)
    for text, number in forest.numbers.items():
        shown[number] = int(when[store.gets[text]].min())
    # Strings are numbered after those that they begin with.
    for number in range(len(shown) - 1, -1, -1):
        parent = forest.parent[number]
        if parent != NONE:
            shown[parent] = min(shown[parent], shown[number])
    return shown

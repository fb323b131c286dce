"""Moments in which nothing need be inside a container, and the values that keep the others busy."""

from __future__ import annotations

import numpy as np

from splitbrain.checkers.kernels import inlined, kernel
from splitbrain.checkers.linearizable.deciders.containers import NONE, Clash, Stays
from splitbrain.checkers.linearizable.ops import I64


def unfounded_empty(stays: Stays) -> Clash | None:
    """The first take that found nothing although something was surely inside in every moment of it.

    In a FIFO queue, a bag and a stack there is no other way for an empty take to be wrong. Take a sequence that is
    right but for the empty takes, and a moment m in which nothing is surely inside. Every value that is inside at m
    in that sequence can go in after m, or can come out before m. Move the puts of the former to just after m and the
    takes of the latter to just before, all in the order that they have. In a queue, puts and takes of each side of m
    keep their order, and all that moved to the left precedes all that moved to the right both at its put and at its
    take. In a stack, the stays on each side are the old ones, cut off at m: still any two are nested or apart.
    Nothing is inside at m any more, and stays have only become shorter, so that this can be done for one empty take
    after another.
    """
    if not len(stays.empty):
        return None
    begin, end = surely_inside(stays)
    following = next_free(stays, begin, end)
    wrong = following[stays.empty_from] >= stays.empty_until
    if not bool(np.any(wrong)):
        return None
    first = int(np.flatnonzero(wrong)[np.argmin(stays.empty_until[wrong])])
    values = chain(begin, end, int(stays.empty_from[first]), int(stays.empty_until[first]))
    return Clash(values, np.array([first], np.int64))


def surely_inside(stays: Stays) -> tuple[I64, I64]:
    """From when until when each value is surely inside, in moments; nothing where both are the same."""
    return stays.put_until, np.maximum(stays.put_until, stays.take_from)


def next_free(stays: Stays, begin: I64, end: I64) -> I64:
    """By moment, the first one from then on in which nothing is surely inside; `stays.end` at the latest."""
    changes = np.bincount(begin, minlength=stays.end + 1) - np.bincount(end, minlength=stays.end + 1)
    moments = np.arange(stays.end + 1)
    free = np.where(np.cumsum(changes) == 0, moments, stays.end)
    return np.minimum.accumulate(free[::-1])[::-1].astype(np.int64)


def chain(begin: I64, end: I64, first: int, until: int) -> I64:
    """The fewest values that are together inside in every moment from `first` until `until`.

    Args:
        begin: first moment of each value.
        end: the moment after its last.
        first: where the chain begins.
        until: where it ends; the values must suffice.
    """
    order = np.argsort(begin).astype(np.int64)
    links = np.empty(len(order), np.int64)
    count = _chain(begin[order], end[order], first, until, links)
    return order[links[:count]]


@kernel
def _chain(begin: I64, end: I64, first: int, until: int, links: I64) -> int:
    count = 0
    furthest = -1
    value = 0
    reached = first
    while reached < until:
        while value < begin.size and begin[value] <= reached:
            if furthest < 0 or end[value] > end[furthest]:
                furthest = value
            value += 1
        if furthest < 0 or end[furthest] <= reached:
            break
        links[count] = furthest
        count += 1
        reached = end[furthest]
    return count


@inlined
def free_from(following: I64, moment: int) -> int:
    """The first entry from `moment` on that follows none; the paths to it become shorter (Tarjan's union-find)."""
    found = moment
    while following[found] != found:
        found = following[found]
    while following[moment] != found:
        after = following[moment]
        following[moment] = found
        moment = after
    return found


def warm_up() -> None:
    """Compile the kernel of this module, or load it from the cache."""
    chain(NONE, NONE, 0, 0)

"""Did a queue hand out the values of each publisher in the order in which they were put in?

A publisher puts one value in after the other, each after the acknowledgement of the one before. A value that is
delivered for the first time overtook an earlier one of its publisher, if that one was still in the queue and had never
been delivered. That is certain of an earlier value whose every delivery began after the later value had come out, and
whose first delivery is not said to be a repetition: one that was delivered to a client that never learned of it goes
back, and comes out later, as a repetition.

Linear after sorting: of each publisher and queue, in the order of the puts, the earliest end of a delivery of any
later value is compared with the first beginning of a delivery of each. Within the answer of one op, which holds values
in the order in which they came, places are compared instead.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
import numpy as np

from splitbrain.checkers.queues.reading import NEVER, Deliveries, Items
from splitbrain.results.calls import Bools, Ints
from splitbrain.results.columns import ranked

Overtaken: TypeAlias = tuple[int, int, int, int]
"""A value, a later one of its publisher that came out before it, and the delivery of each."""


class Firsts(msgspec.Struct, frozen=True):
    """The deliveries of each item taken together; NEVER where there are none.

    Attributes:
        begin, end: rows of the earliest beginning and the earliest end of a delivery.
        clean: whether the first delivery is certainly one that is not said to be a repetition.
        count: how many deliveries there are.
    """

    begin: Ints
    end: Ints
    clean: Bools
    count: Ints


def firsts(deliveries: Deliveries, count: int) -> Firsts:
    """What is known of the first delivery of each of `count` items."""
    begin, end, plain_end, again = (np.full(count, NEVER) for _ in range(4))
    flagged = deliveries.flagged
    np.minimum.at(begin, deliveries.item, deliveries.begin)
    np.minimum.at(end, deliveries.item, deliveries.end)
    np.minimum.at(plain_end, deliveries.item[~flagged], deliveries.end[~flagged])
    np.minimum.at(again, deliveries.item[flagged], deliveries.begin[flagged])
    return Firsts(begin, end, plain_end < again, np.bincount(deliveries.item, minlength=count))


def compared(items: Items, found: Firsts) -> int:
    """How many values follow another one of their publisher and queue, where both came out: only these can be wrong."""
    delivered = (found.begin != NEVER) & (items.acknowledged != NEVER)
    publisher = items.publisher[delivered]
    of = items.queue[delivered] * (int(publisher.max(initial=0)) + 1) + publisher
    return len(of) - len(ranked(of)[0])


def overtaken(items: Items, deliveries: Deliveries, found: Firsts, most: int) -> tuple[int, list[Overtaken]]:
    """How many values were certainly overtaken by a later one of their publisher, and of the first ones by which.

    Args:
        items, deliveries, found: of the history.
        most: how many of each sort to look into, those that came out first.
    """
    chosen = np.flatnonzero((items.begun != NEVER) & (found.begin != NEVER))
    order: Ints = chosen[np.lexsort((items.begun[chosen], items.publisher[chosen], items.queue[chosen]))]
    if not len(order):
        return 0, []
    changes = (np.diff(items.queue[order]) != 0) | (np.diff(items.publisher[order]) != 0)
    group = _numbered(changes)
    across, pairs = _across(items, deliveries, found, order, group, most)
    within, more = _within(items, deliveries, found, order, group, most)
    return len(np.union1d(across, within)), pairs + more


_Found: TypeAlias = tuple[Ints, list[Overtaken]]
"""All items that were overtaken, and of some of them by which."""


def _across(items: Items, deliveries: Deliveries, found: Firsts, order: Ints, group: Ints, most: int) -> _Found:
    """Those whose deliveries are answers of different ops."""
    earliest = _later_minimum(found.end[order], group)
    wrong: Ints = np.flatnonzero(_may_be_overtaken(items, found)[order] & (earliest < found.begin[order]))
    pairs: list[Overtaken] = []
    for at in wrong[np.argsort(found.end[order[wrong]], kind="stable")][:most].tolist():
        behind = order[at + 1 :][group[at + 1 :] == group[at]]
        later = int(behind[found.end[behind] == earliest[at]][0])
        item = int(order[at])
        pairs.append((item, later, *_deliveries(deliveries, found, item, later)))
    return order[wrong], pairs


def _deliveries(deliveries: Deliveries, found: Firsts, item: int, later: int) -> tuple[int, int]:
    own = (deliveries.item == item) & (deliveries.begin == found.begin[item])
    other = (deliveries.item == later) & (deliveries.end == found.end[later])
    return int(np.flatnonzero(own)[0]), int(np.flatnonzero(other)[0])


def _within(items: Items, deliveries: Deliveries, found: Firsts, order: Ints, group: Ints, most: int) -> _Found:
    """Those that came in one answer with the later one, and behind it."""
    rank, of = np.full(len(items.value), -1), np.full(len(items.value), -1)
    rank[order], of[order] = np.arange(len(order)), group
    listed = np.flatnonzero(rank[deliveries.item] >= 0)
    listed = listed[np.lexsort((deliveries.place[listed], of[deliveries.item[listed]], deliveries.begin[listed]))]
    if not len(listed):
        return listed, []
    item = deliveries.item[listed]
    changes = (np.diff(deliveries.begin[listed]) != 0) | (np.diff(of[item]) != 0)
    answer = _numbered(changes)
    highest = _earlier_maximum(rank[item], answer)
    single = found.count == 1  # delivered elsewhere too: which came first is decided by rows alone
    wrong = np.flatnonzero((_may_be_overtaken(items, found) & single)[item] & (highest > rank[item]))
    pairs: list[Overtaken] = []
    for at in wrong[np.argsort(deliveries.end[listed[wrong]], kind="stable")][:most].tolist():
        before = listed[:at][answer[:at] == answer[at]]
        ahead = int(before[rank[deliveries.item[before]] == highest[at]][0])
        pairs.append((int(item[at]), int(deliveries.item[ahead]), int(listed[at]), ahead))
    return item[wrong], pairs


def _may_be_overtaken(items: Items, found: Firsts) -> Bools:
    """Which values were certainly in their queue, never delivered, from their acknowledgement to their first delivery.

    One of unknown outcome may have arrived later than the next value of its publisher.
    """
    return found.clean & (items.acknowledged != NEVER)


def _numbered(changes: Bools) -> Ints:
    """Runs of equal things, numbered from 0: one more element than there are changes from each to the next."""
    found = np.zeros(len(changes) + 1, np.int64)
    np.cumsum(changes, out=found[1:])
    return found


def _later_minimum(values: Ints, group: Ints) -> Ints:
    """Of each place the smallest of the values behind it in its group, which is a run of equal numbers; else NEVER."""
    # One running minimum over all groups: each is lifted above those that come before it from behind.
    width = int(values.max()) + 2
    shifted = values + group * width
    running = np.minimum.accumulate(shifted[::-1])[::-1]
    following = np.full(len(values), NEVER)
    same = group[1:] == group[:-1]
    following[:-1][same] = running[1:][same] - group[:-1][same] * width
    return following


def _earlier_maximum(values: Ints, group: Ints) -> Ints:
    """Of each place the greatest of the values before it in its group; -1 if there are none."""
    width = int(values.max()) + 2
    running = np.maximum.accumulate(values + group * width)
    before = np.full(len(values), -1)
    same = group[1:] == group[:-1]
    before[1:][same] = running[:-1][same] - group[1:][same] * width
    return before

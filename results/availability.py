"""Which share of the time a system answered: the one definition, for a node and for the cluster.

A second counts if an op was due or in progress in it, from when it was due (it may still wait for a free client) until
its completion. The second is served if an op completed in it with an answer. It is served as well if all ops that were
due or in progress in it were answered within a second of being due: an op that is under way from one second to the next
is no outage. Seconds are those of the test, from 0; the last one is as long as the history has of it; what is completed
as a second ends belongs to that one. An op without a completion is in progress until the history ends.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
import numpy as np

from splitbrain.results.calls import Bools, Ints

SECOND_NS: Final = 1_000_000_000

SILENT_LISTED: Final = 20
"""The largest number of spans without an answer that are listed: the longest ones."""


class Availability(msgspec.Struct, frozen=True):
    """How much of the time and of the ops was answered.

    Attributes:
        time: the share of the seconds that count, 0 to 1; None if none does.
        ops: the share of the ops; None if there were none.
        silent: stretches of seconds that count and were not served, as [begin, end] in seconds, by their beginnings;
            the longest SILENT_LISTED.
    """

    time: float | None = None
    ops: float | None = None
    silent: tuple[tuple[int, int], ...] = ()


def availability(due: Ints, ended: Ints, given: Bools, end_ns: int) -> Availability:
    """The availability that ops have seen.

    Args:
        due: when each op was due, in ns since the test began; an op that was due before that does not count.
        ended: when it was completed; after `end_ns` if it was not.
        given: whether it was answered.
        end_ns: when the history ends.
    """
    counted = due >= 0
    if not counted.any():
        return Availability()
    found = seconds_of(due, ended, given, end_ns)
    starts, ends = found.asked
    silent_first, silent_last = found.silent
    total, silent = _length_ns(starts, ends, end_ns), _length_ns(silent_first, silent_last, end_ns)
    longest = np.sort(np.argsort(silent_first - silent_last, kind="stable")[:SILENT_LISTED])
    return Availability(
        time=round(1 - silent / total, 6),
        ops=round(int(np.count_nonzero(given[counted])) / int(np.count_nonzero(counted)), 6),
        silent=tuple((int(silent_first[i]), int(silent_last[i]) + 1) for i in longest),
    )


class Seconds(NamedTuple):
    """Stretches of seconds, as the first and the last second of each, in order and apart from each other.

    Attributes:
        asked: the seconds that count.
        silent: those of them that were not served.
    """

    asked: tuple[Ints, Ints]
    silent: tuple[Ints, Ints]


def seconds_of(due: Ints, ended: Ints, given: Bools, end_ns: int) -> Seconds:
    """Which seconds count and which of them were not served; arguments as of `availability`."""
    counted = due >= 0
    due, given = due[counted], given[counted]
    ended = np.maximum(np.minimum(ended[counted], end_ns), due)
    first, last = due // SECOND_NS, np.maximum(ended - 1, due) // SECOND_NS
    prompt = given & (ended - due <= SECOND_NS)
    waiting_first, waiting_last = _merged(first[~prompt], last[~prompt])
    touched = np.concatenate([first[prompt], last[prompt]])
    served = np.union1d(touched[~_within(touched, waiting_first, waiting_last)], last[given])
    starts, ends = _merged(first, last)
    return Seconds((starts, ends), _gaps(starts, ends, served))


def _merged(first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """The first and last seconds of the stretches that stretches make up together, in order, apart from each other."""
    if not len(first):
        return first, last
    order = np.argsort(first, kind="stable")
    first, reach = first[order], np.maximum.accumulate(last[order])
    begins = np.ones(len(first), dtype=np.bool_)
    begins[1:] = first[1:] > reach[:-1] + 1
    return first[begins], reach[np.append(np.flatnonzero(begins)[1:] - 1, len(first) - 1)]


def _within(seconds: Ints, starts: Ints, ends: Ints) -> Bools:
    """Which seconds lie in one of the stretches."""
    if not len(starts):
        return np.zeros(len(seconds), dtype=np.bool_)
    at = np.searchsorted(starts, seconds, side="right") - 1
    return (at >= 0) & (seconds <= ends[np.maximum(at, 0)])


def _length_ns(first: Ints, last: Ints, end_ns: int) -> int:
    """How long stretches of seconds are; a second in which the history ends is as long as the history has of it."""
    if not len(first):
        return 0
    beyond = max(0, (int(last[-1]) + 1) * SECOND_NS - max(end_ns, int(last[-1]) * SECOND_NS + 1))
    return int(np.sum(last - first + 1)) * SECOND_NS - beyond


def _gaps(starts: Ints, ends: Ints, served: Ints) -> tuple[Ints, Ints]:
    """The first and last seconds of what the stretches hold beside the seconds served, all of which lie in them."""
    begins = np.sort(np.concatenate([starts, served + 1]))
    stops = np.sort(np.concatenate([served - 1, ends]))
    some = begins <= stops
    return begins[some], stops[some]

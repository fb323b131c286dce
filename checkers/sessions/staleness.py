"""How old were the states that reads showed? A figure for each kind of reads, in seconds and in writes.

A read that was invoked at time b shows the value of one write. Its state was over when the next write of the key took
effect. No history has that moment, but it lies between two times, and so does the age of the state at time b:

    at least   since a write had been acknowledged by b that was invoked after the shown one had been acknowledged
    at most    since the first moment at which another write can have taken effect after the shown one: not before it
               was invoked, nor before the shown one was, nor before the last linearizable read that saw it was

The same in writes: so many had certainly come after the shown one by b, and so many may have. The largest "at most" of
a run is its bound of staleness: no answer can have shown a state that was older. It holds for this run, and is no
promise. A write of unknown outcome may take effect at any time after its invocation, so each of them widens the bound.
A read of a value that several ops may have written is left out. O(n log n).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Sequence
from typing import Final

import msgspec
import numpy as np

from splitbrain.checkers.sessions.options import is_read
from splitbrain.checkers.sessions.reading import INITIAL, Reading
from splitbrain.checkers.weaker.calls import NOTHING
from splitbrain.results.calls import OPEN, client_calls
from splitbrain.results.columns import codes, numbers

_S: Final = 1e9
_BEFORE: Final = -1.0
"""When the value at the beginning was written: before all rows."""


class Age(msgspec.Struct, frozen=True):
    """How old the states were that reads of one kind showed; the largest of all reads, each by itself.

    Attributes:
        reads: how many of them there were, of which it is known what they saw.
        stale: how many certainly showed a state that was over when they were asked.
        at_least_s: seconds since the state was certainly over.
        at_most_s: seconds for which it may have been over.
        at_least_writes: writes that had certainly followed.
        at_most_writes: writes that may have.
    """

    reads: int
    stale: int
    at_least_s: float
    at_most_s: float
    at_least_writes: int
    at_most_writes: int


class _Read(msgspec.Struct, frozen=True):
    """A read: when it was invoked, and when the write that it shows was invoked and acknowledged, in rows."""

    f: str
    asked: float
    begun: float
    ended: float


class _Key:
    """The writes of one key that may have happened, and the reads that show one of them.

    What comes before what is said by rows, since several of them may have the same time.
    """

    def __init__(self, time: Sequence[int]) -> None:
        self._time = time
        self.writes: list[tuple[float, float]] = []
        self.reads: list[_Read] = []

    def ages(self, fresh: Collection[str]) -> list[tuple[str, float, float, int, int]]:
        """Of each read: its function, and its age at least and at most, in ns and in writes."""
        self.writes.sort()
        begun = [begin for begin, _ in self.writes]
        ended = sorted(end for _, end in self.writes)
        first_end = [math.inf] * (len(self.writes) + 1)  # of those from this place on
        for place in range(len(self.writes) - 1, -1, -1):
            first_end[place] = min(self.writes[place][1], first_end[place + 1])
        by_end = sorted(self.writes, key=lambda write: write[1])
        acknowledged: list[float] = []  # when those were invoked that were acknowledged by now
        seen_at: dict[float, float] = {}
        found: list[tuple[str, float, float, int, int]] = []
        at = 0
        for read in sorted(self.reads, key=lambda read: read.asked):
            while at < len(by_end) and by_end[at][1] < read.asked:
                insort(acknowledged, by_end[at][0])
                at += 1
            over = first_end[bisect_right(begun, read.ended)]
            followed = len(acknowledged) - bisect_right(acknowledged, read.ended)
            since = max(read.begun, seen_at.get(read.begun, read.begun))
            if read.f in fresh:
                seen_at[read.begun] = max(read.asked, since)
            is_shown = read.begun != _BEFORE and read.ended > since
            under_way = bisect_right(begun, since) - bisect_right(ended, since) - is_shown
            after = bisect_right(begun, since)
            may_be_over = since if under_way > 0 else begun[after] if after < len(begun) else math.inf
            may_follow = bisect_left(begun, read.asked) - bisect_right(ended, since) - is_shown
            least, most = (self._age(read.asked, moment) for moment in (over, may_be_over))
            may_follow = max(0, may_follow) if may_be_over < read.asked else 0
            found.append((read.f, least, most, followed, may_follow))
        return found

    def _age(self, asked: float, since: float) -> float:
        """For how long something had been so, in ns."""
        if since >= asked:
            return 0.0
        return max(0.0, float(self._time[int(asked)] - self._time[max(int(since), 0)]))


def ages(reading: Reading, fresh: Collection[str] = ()) -> dict[str, Age]:
    """The ages of what reads showed, by their functions, sorted.

    Args:
        reading: the run.
        fresh: functions of reads that are linearizable: what one saw was the newest at some moment since it was asked.
    """
    keys: dict[int, _Key] = {}
    time: list[int] = numbers(reading.table.column("time")).tolist()
    _add_writes(reading, keys, time)
    calls, rows = reading.calls, reading.table.num_rows
    of_row = codes(reading.table.column("key"))[0].tolist()
    for op, source in enumerate(reading.source):
        if reading.registers.leaves[op] != NOTHING or not calls.certain[op] or (source < 0 and source != INITIAL):
            continue
        begun = ended = _BEFORE
        if source != INITIAL:
            end = calls.end[source]
            begun, ended = calls.begin[source], math.inf if end >= rows else end
        read = _Read(reading.f[op], calls.begin[op], begun, ended)
        keys.setdefault(of_row[calls.begin[op]], _Key(time)).reads.append(read)
    found: dict[str, list[tuple[str, float, float, int, int]]] = {}
    for key in keys.values():
        for each in key.ages(fresh):
            found.setdefault(each[0], []).append(each)
    return {f: _age(found[f]) for f in sorted(found)}


def _age(each: list[tuple[str, float, float, int, int]]) -> Age:
    return Age(
        len(each),
        sum(followed > 0 for *_, followed, _ in each),
        round(max(least for _, least, *_ in each) / _S, 3),
        round(max(most for _, _, most, *_ in each) / _S, 3),
        max(writes for *_, writes, _ in each),
        max(writes for *_, writes in each),
    )


def _add_writes(reading: Reading, keys: dict[int, _Key], time: Sequence[int]) -> None:
    """All writes that may have happened, also those that crashed and that no read showed."""
    table = reading.table
    calls = client_calls(table)
    of_f, names = codes(table.column("f"))
    writes = np.array([not is_read(name) for name in names], np.bool_)[of_f[calls.invoke]]
    chosen = np.flatnonzero(writes & ~calls.ended("fail"))
    is_ok = calls.ended("ok")
    of_row = codes(table.column("key"))[0]
    for call in chosen.tolist():
        invoke, complete = int(calls.invoke[call]), int(calls.complete[call])
        end = complete if is_ok[call] and complete != OPEN else math.inf
        keys.setdefault(int(of_row[invoke]), _Key(time)).writes.append((invoke, end))


def in_words(found: dict[str, Age]) -> str:
    """What there is to say of reads that showed old states; empty if none can have."""
    said = [
        f"{f}: at most {age.at_most_s:.3f} s and {age.at_most_writes} writes old, "
        f"{age.stale} of {age.reads} certainly old"
        for f, age in found.items()
        if age.at_most_s > 0
    ]
    return f"States that reads showed were, when asked for, {'; '.join(said)}." if said else ""
